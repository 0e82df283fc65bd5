//! The start of every input: what it is wrapped in is taken off, and its first bytes tell what it is.
//!
//! This is the only place that knows what a format looks like. Whoever reads an input gets it as an [`Input`], which
//! says its [`Format`]; what a JSON text holds is a [`Document`].

mod archive;
mod compressed;
mod document;
mod format;

use std::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use compressed::{Bounded, Named, Zstandard};
pub use document::{Document, PROFILE_SCHEMA};
pub use format::Format;

/// Default limit on the expanded size of an input, larger than any known snapshot.
pub const DEFAULT_MAX_BYTES: u64 = 64 << 30;

/// A snapshot in an archive that is compressed is all that anybody makes.
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
        write!(f, "the compressed input expands to more than {}", crate::units::Size(self.max_bytes))
    }
}

impl std::error::Error for TooLarge {}

/// A stream of which the format is known.
pub struct Input<'r> {
    format: Format,
    stream: Chain<Cursor<Vec<u8>>, &'r mut dyn Read>,
}

impl<'r> Input<'r> {
    /// Looks at the first bytes of a stream.
    ///
    /// # Errors
    /// Where these cannot be read.
    pub fn new(stream: &'r mut dyn Read) -> io::Result<Self> {
        let mut head = format::head_of(stream)?;
        let format = Format::of(&head);
        // Readers of JSON take no byte order mark.
        let start = if format.is_json() { head.len() - format::text_of(&head).len() } else { 0 };
        Ok(Self { format, stream: Cursor::new(head.split_off(start)).chain(stream) })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Hands on the input without what it is wrapped in. What is not wrapped passes as it is, whatever its size. Where
/// something is left behind what `read` took, the rest is read, too, so that checksums are checked.
///
/// # Errors
/// Errors of `read`; and an [`io::Error`] if a wrapping is damaged, holds no pickle, or expands to more than
/// `max_bytes`.
pub fn unpack<T, E: From<io::Error>>(
    input: &mut dyn Read,
    max_bytes: u64,
    read: &mut dyn FnMut(Input<'_>) -> Result<T, E>,
) -> Result<T, E> {
    Unpacker { max_bytes, read }.unpack(input, MOST_LAYERS)
}

/// Takes wrappings off, one after the other.
struct Unpacker<'r, T, E> {
    max_bytes: u64,
    read: &'r mut dyn FnMut(Input<'_>) -> Result<T, E>,
}

impl<T, E: From<io::Error>> Unpacker<'_, T, E> {
    /// Takes up to `layers` wrappings off a stream.
    fn unpack(&mut self, stream: &mut dyn Read, layers: usize) -> Result<T, E> {
        let mut input = Input::new(stream)?;
        match input.format {
            Format::Gzip | Format::Zstandard | Format::Zip if layers == 0 => {
                Err(bad("the input is wrapped more often than anybody would; unpack it first").into())
            }
            Format::Gzip => self.expand(&mut Named::new("gzip", MultiGzDecoder::new(BufReader::new(input))), layers),
            Format::Zstandard => {
                self.expand(&mut Named::new("Zstandard", Zstandard::new(BufReader::new(input))), layers)
            }
            Format::Zip => archive::read_pickle(&mut input, &mut |member| self.expand(member, layers)),
            Format::Pickle
            | Format::JsonObject
            | Format::JsonArray
            | Format::Html
            | Format::Sqlite
            | Format::SplitZip
            | Format::Text
            | Format::Empty
            | Format::Unknown { .. } => (self.read)(input),
        }
    }

    /// Goes on with the content of a wrapping, and reads it to its end.
    fn expand(&mut self, content: &mut dyn Read, layers: usize) -> Result<T, E> {
        let mut bounded = Bounded::new(content, self.max_bytes);
        let result = self.unpack(&mut bounded, layers - 1)?;
        io::copy(&mut bounded, &mut io::sink())?;
        Ok(result)
    }
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
