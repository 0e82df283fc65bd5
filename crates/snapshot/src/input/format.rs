//! Formats by their first bytes.

use std::io::{self, Read};

use serde::de::IgnoredAny;

/// The format of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// A pickle, as snapshots are.
    Pickle,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by Zstandard.
    Zstandard,
    /// A ZIP archive, as `torch.save` writes.
    Zip,
    /// A ZIP archive in several parts.
    SplitZip,
    /// An object of JSON, as saved profiles and reports are.
    JsonObject,
    /// A list of JSON.
    JsonArray,
    /// HTML, which `_memory_viz` writes.
    Html,
    /// A SQLite data base.
    Sqlite,
    /// What Git LFS writes in place of a file that it did not fetch.
    LfsPointer,
    /// Readable text of no other format.
    Text,
    /// No bytes at all.
    Empty,
    /// Anything else.
    Unknown {
        /// The first byte.
        first: u8,
    },
}

/// Enough to recognise every format, and text.
const HEAD: u64 = 64;

/// The most white space before a text of which the format is recognised.
const MOST_SPACE: usize = 1 << 16;

/// The number of leading bytes from which [`InputFormat::of`] recognizes a format.
///
/// # Errors
/// Where they cannot be read.
pub(super) fn head_of(stream: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    loop {
        let read = stream.take(HEAD).read_to_end(&mut head)?;
        if read == 0 || !text_of(&head).is_empty() || head.len() > MOST_SPACE {
            return Ok(head);
        }
    }
}

/// A text without its byte order mark, which some editors write, and the white space in front.
pub(super) fn text_of(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

impl InputFormat {
    /// The format of an input that begins with `head`.
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [] => Self::Empty,
            [0x80, ..] => Self::Pickle,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstandard,
            // The second is that of an archive without members.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            [b'P', b'K', 7, 8, ..] => Self::SplitZip,
            // Protocols 0 and 1 have no header. They begin with a list or a dictionary, empty or after a MARK; a lone
            // `]` or `}` is not JSON.
            [b']' | b'}', ..] => Self::Pickle,
            [b'(', b'l' | b'd' | b'(' | b'V' | b'S' | b'X' | b'U' | b'i' | b'o', rest @ ..]
                if !names_a_process(rest) =>
            {
                Self::Pickle
            }
            // GLOBAL, from which every pickle of protocol 0 that runs code begins.
            [b'c', rest @ ..] | [b'(', b'c', rest @ ..] if names_a_global(rest) => Self::Pickle,
            _ if head.starts_with(b"SQLite format 3") => Self::Sqlite,
            _ if head.starts_with(b"version https://git-lfs.github.com/spec/") => Self::LfsPointer,
            [first, ..] => match text_of(head) {
                [b'<', ..] => Self::Html,
                [b'{', ..] => Self::JsonObject,
                text @ [b'[', ..] if may_be_json(text) => Self::JsonArray,
                _ if is_readable(head) => Self::Text,
                _ => Self::Unknown { first: *first },
            },
        }
    }

    /// Its name; `None` where there is none.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Pickle => Some("a pickle"),
            Self::Gzip => Some("gzip"),
            Self::Zstandard => Some("Zstandard"),
            Self::Zip => Some("a ZIP archive"),
            Self::SplitZip => Some("a ZIP archive in several parts"),
            Self::JsonObject | Self::JsonArray => Some("JSON"),
            Self::Html => Some("HTML"),
            Self::Sqlite => Some("a SQLite database"),
            Self::LfsPointer => Some("a pointer of Git LFS"),
            Self::Text => Some("text"),
            Self::Empty | Self::Unknown { .. } => None,
        }
    }
}

/// True if a line of a log begins with its process, as in `(Worker_TP0 pid=7) INFO`.
fn names_a_process(text: &[u8]) -> bool {
    text.iter().take_while(|&&b| b != b'\n').any(|&b| b == b')')
}

/// True if this is JSON, as far as it goes. A line of a log may begin with a time or a rank in brackets.
fn may_be_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).err().is_none_or(|error| error.is_eof())
}

/// True for text, which may be in color, and in any encoding that extends ASCII.
fn is_readable(head: &[u8]) -> bool {
    head.iter().all(|&byte| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r' | b'\x1b'))
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

    fn format(mut text: &[u8]) -> InputFormat {
        InputFormat::of(&head_of(&mut text).unwrap())
    }

    #[test]
    fn formats_are_recognised() {
        assert_eq!(format(b""), InputFormat::Empty);
        assert_eq!(format(b"\x80\x04."), InputFormat::Pickle);
        assert_eq!(format(b"(dp0\n"), InputFormat::Pickle);
        assert_eq!(format(b"]q\0."), InputFormat::Pickle);
        assert_eq!(format(b"cos\nsystem\n"), InputFormat::Pickle);
        assert_eq!(format(b"PK\x03\x04"), InputFormat::Zip);
        assert_eq!(format(b"PK\x05\x06"), InputFormat::Zip);
        assert_eq!(format(b"PK\x07\x08"), InputFormat::SplitZip);
        assert_eq!(format(b"\x1f\x8b\x08"), InputFormat::Gzip);
        assert_eq!(format(b"\x28\xb5\x2f\xfd\0"), InputFormat::Zstandard);
        assert_eq!(format(b"SQLite format 3\0"), InputFormat::Sqlite);
        assert_eq!(format(b"\n {\"segments\": []}"), InputFormat::JsonObject);
        assert_eq!(format(b"[1]"), InputFormat::JsonArray);
        assert_eq!(format(b"<!DOCTYPE html>"), InputFormat::Html);
        assert_eq!(format(b"hello\n"), InputFormat::Text);
        assert_eq!(format(b"\x00\x01"), InputFormat::Unknown { first: 0 });
    }

    #[test]
    fn logs_are_text_however_they_begin() {
        for log in [
            "[2026-08-17 16:52:10] Load weight end. elapsed=100.59 s, type=A, avail mem=97.27 GB",
            "[rank0]:W1106 12:00:00 warning",
            "[1/2] Compiling",
            "(VllmWorker rank=0 pid=3) INFO 11-06 [gpu_worker.py:349]",
            "(driver pid=3) INFO",
            "\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 11-06 starting",
            "INFO 11-06 banner\n      █     █     █▄   ▄█ █     █     █▄   ▄█",
            "\u{feff}INFO",
        ] {
            assert_eq!(format(log.as_bytes()), InputFormat::Text, "{log}");
        }
        for json in ["[", "[1, 2", "[{\"ph\": \"X\", \"name\": \"█", "[true, nul", "[]"] {
            assert_eq!(format(json.as_bytes()), InputFormat::JsonArray, "{json}");
        }
        assert_eq!(format(b"INFO \xff"), InputFormat::Text);
        assert_eq!(format(b"(Vsegments\np0\n)"), InputFormat::Pickle);
    }

    #[test]
    fn white_space_and_byte_order_marks_come_before_texts() {
        assert_eq!(format("\u{feff}\r\n{}".as_bytes()), InputFormat::JsonObject);
        assert_eq!(format(&[&[b' '; 10_000][..], b"{}"].concat()), InputFormat::JsonObject);
        assert_eq!(format(&[&[b' '; 2 * MOST_SPACE][..], b"{}"].concat()), InputFormat::Text);
        assert_eq!(format(b"  \n"), InputFormat::Text);
    }
}
