//! Lines of a limited width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Breaks a text that begins at a column at spaces, but not within backticks; lines after the first are indented. A
/// word that no line has room for is a path: it goes on below.
pub(super) fn wrap(text: &str, start: usize, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = start;
    let mut is_quoted = false;
    for word in text.split(' ') {
        let is_first = out.is_empty();
        if !is_first && column + 1 + word.width() > width && !is_quoted {
            begin_line(&mut out, indent);
            column = indent;
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        let is_whole = is_quoted || word.contains('`');
        let parts =
            if is_whole { vec![word] } else { parts(word, width.saturating_sub(column), width.saturating_sub(indent)) };
        for (at, part) in parts.into_iter().enumerate() {
            if at > 0 {
                begin_line(&mut out, indent);
                column = indent;
            }
            out.push_str(part);
            column += part.width();
        }
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    out
}

fn begin_line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A word in parts, where it has no room on a line: each ends behind a slash, or else where the line does.
fn parts(word: &str, first_room: usize, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = word;
    while room > 0 && word.width() > room {
        let room = if parts.is_empty() { first_room } else { room };
        if rest.width() <= room {
            break;
        }
        let fits = end_within(rest, room);
        let end = rest[..fits].rfind('/').map_or(fits, |slash| slash + 1);
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts.push(rest);
    parts
}

/// The end of the text that fits into a number of columns, one character at least.
fn end_within(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// Items in lines of at most `width` columns.
pub(super) fn fill(items: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.width() + 2 + item.width() <= width => {
                line.push_str(", ");
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_break_at_spaces_only() {
        assert_eq!(wrap("one two three", 0, 2, 7), "one two\n  three");
        assert_eq!(wrap("one two three", 4, 4, 11), "one two\n    three");
        assert_eq!(wrap("one `two three` four", 0, 2, 7), "one\n  `two three`\n  four");
        assert_eq!(wrap("", 0, 2, 7), "");
        assert_eq!(wrap("f (some/long/path.py:7)", 0, 2, 12), "f\n  (some/\n  long/\n  path.py:7)");
        assert_eq!(wrap("f abcdefghij k", 0, 2, 7), "f\n  abcde\n  fghij\n  k");
        let items = ["aa", "bb", "cc"].map(str::to_owned);
        assert_eq!(fill(items.into_iter(), 6), ["aa, bb", "cc"]);
    }
}
