//! The first stage of every input: removes compression and archives, and recognizes the format by its first bytes.
//!
//! This is the only place that knows what a format looks like. Whoever reads an input gets it as an [`Input`], which
//! says its [`InputFormat`]; what a JSON text holds is a [`JsonDocument`].

mod archive;
mod compressed;
mod document;
mod format;

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

pub use compressed::compress;
use compressed::{Unwrapped, Zstandard};
pub use document::{JsonDocument, PROFILE_SCHEMA};
pub use format::InputFormat;

/// Where no limit is given, a compressed input may expand to this many times its size: snapshots do to 10 to 20 times.
pub const MOST_EXPANSION: u64 = 100;

/// A small input may expand to this many bytes.
pub const SMALLEST_LIMIT: u64 = 64 << 20;

/// The bytes that an input of this size may expand to, where no limit is given.
#[must_use]
pub fn most_bytes(size: u64) -> u64 {
    size.saturating_mul(MOST_EXPANSION).max(SMALLEST_LIMIT)
}

/// Nobody nests deeper than a snapshot in a compressed archive.
const MOST_LAYERS: usize = 3;

/// An input that expands to more than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The bound in bytes.
    pub max_bytes: u64,
}

impl TooLarge {
    /// The same, where it is why a stream could not be read.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the compressed input expands to more than {}", ptmem_base::units::Size(self.max_bytes))
    }
}

impl std::error::Error for TooLarge {}

/// A stream of which the format is known.
pub struct Input<'r> {
    /// The format.
    pub format: InputFormat,
    stream: Chain<Cursor<Vec<u8>>, &'r mut dyn Read>,
    /// The limit on what the whole input expands to, where it is known.
    limit: Option<InputLimit<'r>>,
}

impl<'r> Input<'r> {
    /// Looks at the first bytes of a stream.
    ///
    /// # Errors
    /// Where these cannot be read.
    pub fn new(stream: &'r mut dyn Read) -> io::Result<Self> {
        let mut head = format::head_of(stream)?;
        let format = InputFormat::of(&head);
        // Readers of JSON take no byte order mark.
        let is_json = matches!(format, InputFormat::JsonObject | InputFormat::JsonArray);
        let start = if is_json { head.len() - format::text_of(&head).len() } else { 0 };
        Ok(Self { format, stream: Cursor::new(head.split_off(start)).chain(stream), limit: None })
    }

    /// The bytes of the input as it is, as far as it was read.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.limit.map_or(0, |limit| limit.count.get())
    }

    /// The bytes that the input may expand to, as far as it was read.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        self.limit.map_or(SMALLEST_LIMIT, InputLimit::bytes)
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Passes the unwrapped input to `read`. Input without a wrapper is passed unchanged, whatever its size. Bytes that
/// `read` leaves are read as well, so that checksums are verified. Gives the size of the input as it is, too.
///
/// # Errors
/// Errors of `read`; and an [`io::Error`] if a wrapping is damaged, holds no pickle, or expands to more than
/// `max_bytes`; where that is none, to [`MOST_EXPANSION`] times its size and [`SMALLEST_LIMIT`].
pub fn unpack<T, E: From<io::Error>>(
    input: &mut dyn Read,
    max_bytes: Option<u64>,
    read: &mut dyn FnMut(Input<'_>) -> Result<T, E>,
) -> Result<(T, u64), E> {
    let count = Cell::new(0);
    let limit = InputLimit { max_bytes, count: &count };
    let value = Unpacker { limit, read }.unpack(&mut Counted { input, count: &count }, MOST_LAYERS)?;
    Ok((value, count.get()))
}

/// Counts the bytes read.
struct Counted<'i> {
    input: &'i mut dyn Read,
    count: &'i Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// The limit on the expanded size of an input.
#[derive(Clone, Copy)]
struct InputLimit<'i> {
    max_bytes: Option<u64>,
    /// Bytes of the input that were read.
    count: &'i Cell<u64>,
}

impl InputLimit<'_> {
    /// The limit for the bytes read so far.
    fn bytes(self) -> u64 {
        self.max_bytes.unwrap_or_else(|| most_bytes(self.count.get()))
    }
}

/// Takes wrappings off, one after the other.
struct Unpacker<'r, T, E> {
    limit: InputLimit<'r>,
    read: &'r mut dyn FnMut(Input<'_>) -> Result<T, E>,
}

impl<T, E: From<io::Error>> Unpacker<'_, T, E> {
    /// Takes up to `layers` wrappings off a stream.
    fn unpack(&mut self, stream: &mut dyn Read, layers: usize) -> Result<T, E> {
        let mut input = Input::new(stream)?;
        match input.format {
            InputFormat::Gzip | InputFormat::Zstandard | InputFormat::Zip if layers == 0 => {
                Err(bad("the input is compressed too many times over; unpack it first").into())
            }
            InputFormat::Gzip => self.expand("gzip", &mut MultiGzDecoder::new(BufReader::new(input)), layers),
            InputFormat::Zstandard => self.expand("Zstandard", &mut Zstandard::new(BufReader::new(input)), layers),
            InputFormat::Zip => archive::read_pickle(&mut input, &mut |member| self.expand("ZIP", member, layers)),
            InputFormat::Pickle
            | InputFormat::JsonObject
            | InputFormat::JsonArray
            | InputFormat::Html
            | InputFormat::Sqlite
            | InputFormat::LfsPointer
            | InputFormat::SplitZip
            | InputFormat::Text
            | InputFormat::Empty
            | InputFormat::Unknown { .. } => (self.read)(Input { limit: Some(self.limit), ..input }),
        }
    }

    /// Goes on with the content of a wrapping of this format, and reads it to its end.
    fn expand(&mut self, format: &'static str, stream: &mut dyn Read, layers: usize) -> Result<T, E> {
        let mut content = Unwrapped::new(format, stream, self.limit);
        let result = self.unpack(&mut content, layers - 1)?;
        io::copy(&mut content, &mut io::sink())?;
        Ok(result)
    }
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_may_expand_to_more() {
        let count = Cell::new(0);
        let limit = InputLimit { max_bytes: None, count: &count };
        for (read, most) in [(0, 64 << 20), (1 << 19, 64 << 20), (1 << 30, 100 << 30), (u64::MAX, u64::MAX)] {
            count.set(read);
            assert_eq!(limit.bytes(), most);
        }
        assert_eq!(InputLimit { max_bytes: Some(7), ..limit }.bytes(), 7);
    }
}
