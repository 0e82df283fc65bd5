//! The arguments of protocol 0, which are text.

use super::Integer;

/// A decimal integer of any length.
pub(super) fn decimal(text: &[u8]) -> Option<Integer> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().map_or(Integer::Beyond, Integer::Fits))
}

/// The index of a memo entry.
pub(super) fn memo_index(text: &[u8]) -> Option<u64> {
    match decimal(text)? {
        Integer::Fits(index) => u64::try_from(index).ok(),
        Integer::Beyond => None,
    }
}

/// The content of a Python string literal in quotes.
pub(super) fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let inner = match text {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => return None,
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (&escape, tail) = rest.split_first()?;
        rest = tail;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'\\' | b'\'' | b'"' => out.push(escape),
            b'x' => {
                let code = hex(rest.get(..2)?)?;
                out.push(u8::try_from(code).ok()?);
                rest = &rest[2..];
            }
            _ => out.extend([b'\\', escape]),
        }
    }
    Some(out)
}

/// Latin-1 text in which `\uXXXX` and `\UXXXXXXXX` stand for other characters, as UTF-8.
pub(super) fn raw_unicode_escape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        let character = match rest {
            [] => return Some(out),
            [b'\\', b'u', ..] => Character { code: hex(rest.get(2..6)?)?, length: 6 },
            [b'\\', b'U', ..] => Character { code: hex(rest.get(2..10)?)?, length: 10 },
            // Whatever else follows a backslash is taken with it, another one too.
            [b'\\', next, ..] => {
                out.push(b'\\');
                Character { code: u32::from(*next), length: 2 }
            }
            [byte, ..] => Character { code: u32::from(*byte), length: 1 },
        };
        match char::from_u32(character.code) {
            Some(c) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend(surrogate(u16::try_from(character.code).ok()?)),
        }
        rest = &rest[character.length..];
    }
}

/// A character of such text, and the number of bytes that stand for it there.
struct Character {
    code: u32,
    length: usize,
}

/// A lone surrogate, in the form that Python gives it in the binary protocols.
fn surrogate(code: u16) -> [u8; 3] {
    let [high, low] = code.to_be_bytes();
    [0xe0 | high >> 4, 0x80 | (high & 0xf) << 2 | low >> 6, 0x80 | low & 0x3f]
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.starts_with('+') { None } else { u32::from_str_radix(digits, 16).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_of_protocol_0_are_read() {
        assert_eq!(decimal(b"-12"), Some(Integer::Fits(-12)));
        assert_eq!(decimal(&[b'9'; 60]), Some(Integer::Beyond));
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"1_0"), None);
        assert_eq!(quoted(br"'a\x41\n\'\d'").unwrap(), b"aA\n'\\d");
        assert_eq!(quoted(b"'a"), None);
        assert_eq!(quoted(br"'\x4'"), None);
        assert_eq!(raw_unicode_escape(b"\\u20ac\xe9\\n").unwrap(), "€é\\n".as_bytes());
        assert_eq!(raw_unicode_escape(br"\U0001f600").unwrap(), "😀".as_bytes());
        assert_eq!(raw_unicode_escape(br"\udc80").unwrap(), [0xed, 0xb2, 0x80]);
        assert_eq!(raw_unicode_escape(br"\u12"), None);
    }
}
