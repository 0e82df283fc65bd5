//! The kind of an input, from its first bytes.

use std::fmt;
use std::io::{Chain, Cursor, Read};

use super::Error;

/// Something other than a pickle that is often mistaken for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// No bytes at all.
    Empty,
    /// Compressed, or an archive: [`unpack`](crate::container::unpack) takes that off.
    Packed {
        /// The format.
        format: &'static str,
    },
    /// JSON text.
    Json,
    /// HTML, which `_memory_viz` writes.
    Html,
    /// A SQLite data base.
    Sqlite,
    /// Readable text.
    Text,
    /// Anything else.
    Unknown {
        /// The first byte.
        first: u8,
    },
}

const EXPECTED: &str = "expected a pickle from torch.cuda.memory._dump_snapshot()";

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(
                f,
                "the file is empty; {EXPECTED}. A dump that fails half-way leaves an empty file: look at the log of \
                 the process that wrote it"
            ),
            Self::Packed { format } => write!(f, "this looks like {format}; {EXPECTED}. Unpack it first"),
            Self::Json => write!(f, "this looks like JSON; {EXPECTED}"),
            Self::Html => write!(
                f,
                "this looks like HTML, as torch.cuda._memory_viz writes; {EXPECTED}, from which that page was made"
            ),
            Self::Sqlite => write!(f, "this looks like a SQLite data base; {EXPECTED}"),
            Self::Text => write!(f, "this looks like text; {EXPECTED}"),
            Self::Unknown { first } => {
                write!(f, "not a pickle (it begins with the byte 0x{first:02x}); {EXPECTED}")
            }
        }
    }
}

/// Enough to recognise every format, and text.
const PREFIX: usize = 64;

/// The stream again, once its first bytes look like a pickle.
pub(super) fn pickle_stream<R: Read>(mut input: R) -> Result<Chain<Cursor<Vec<u8>>, R>, Error> {
    let mut prefix = Vec::with_capacity(PREFIX);
    input
        .by_ref()
        .take(PREFIX as u64)
        .read_to_end(&mut prefix)
        .map_err(|error| crate::pickle::Error { offset: 0, kind: error.into() })?;
    match looks(&prefix) {
        None => Ok(Cursor::new(prefix).chain(input)),
        Some(looks) => Err(Error::NotAPickle(looks)),
    }
}

/// `None` for a pickle.
fn looks(prefix: &[u8]) -> Option<Looks> {
    let text = prefix.trim_ascii_start();
    match prefix {
        [] => Some(Looks::Empty),
        [0x80, ..] => None,
        [b'P', b'K', 3 | 5 | 7, ..] => Some(Looks::Packed { format: "a ZIP archive" }),
        [0x1f, 0x8b, ..] => Some(Looks::Packed { format: "gzip" }),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Looks::Packed { format: "Zstandard" }),
        _ if prefix.starts_with(b"SQLite format 3") => Some(Looks::Sqlite),
        // Protocols 0 and 1 have no header. They begin with a list or a dictionary, empty or behind
        // a MARK; `]` and `}` alone are no JSON.
        [b']' | b'}', ..] => None,
        [b'(', b'l' | b'd' | b'(' | b'V' | b'S' | b'X' | b'U' | b'i' | b'o', ..] => None,
        // GLOBAL, from which every pickle of protocol 0 that runs code begins.
        [b'c', rest @ ..] | [b'(', b'c', rest @ ..] if names_a_global(rest) => None,
        _ if text.starts_with(b"<") => Some(Looks::Html),
        _ if text.starts_with(b"{") || text.starts_with(b"[") => Some(Looks::Json),
        [first, ..] => Some(if prefix.iter().all(|b| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)) {
            Looks::Text
        } else {
            Looks::Unknown { first: *first }
        }),
    }
}

/// True if this reads `module\nname\n`, as far as it goes.
fn names_a_global(text: &[u8]) -> bool {
    let mut lines = text.split(|&b| b == b'\n');
    let (Some(module), Some(name)) = (lines.next(), lines.next()) else { return false };
    !module.is_empty() && is_dotted_name(module) && is_dotted_name(name)
}

fn is_dotted_name(line: &[u8]) -> bool {
    line.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised() {
        assert_eq!(looks(b""), Some(Looks::Empty));
        assert_eq!(looks(b"\x80\x04."), None);
        assert_eq!(looks(b"(dp0\n"), None);
        assert_eq!(looks(b"]q\0."), None);
        assert_eq!(looks(b"cos\nsystem\n"), None);
        assert_eq!(looks(b"PK\x03\x04"), Some(Looks::Packed { format: "a ZIP archive" }));
        assert_eq!(looks(b"\x1f\x8b\x08"), Some(Looks::Packed { format: "gzip" }));
        assert_eq!(looks(b"\n {\"segments\": []}"), Some(Looks::Json));
        assert_eq!(looks(b"<!DOCTYPE html>"), Some(Looks::Html));
        assert_eq!(looks(b"hello\n"), Some(Looks::Text));
        assert_eq!(looks(b"\x00\x01"), Some(Looks::Unknown { first: 0 }));
    }
}
