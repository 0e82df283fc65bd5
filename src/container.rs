//! Containers of snapshots: gzip, Zstandard, and the archives of `torch.save`. Streamed, with a limit on the expanded
//! size.

mod archive;

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Default limit on the expanded size of an input, larger than any known snapshot.
pub const DEFAULT_MAX_BYTES: u64 = 64 << 30;

/// A snapshot in an archive that is compressed is all that anybody makes.
const MOST_LAYERS: usize = 3;

/// The most memory that unpacking Zstandard takes: what `zstd -d` accepts without being told.
const MOST_WINDOW: u64 = 128 << 20;

/// A wrapping, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapping {
    Gzip,
    Zstd,
    Zip,
}

/// An input that expands to more than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The bound in bytes.
    pub max_bytes: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = crate::units::Size(self.max_bytes);
        write!(f, "the compressed input expands to more than {bound}; allow more with --max-input if you trust it")
    }
}

impl std::error::Error for TooLarge {}

/// Hands on the stream without what it is wrapped in. What is not wrapped passes as it is, whatever its size. Where
/// something is left behind what `read` took, the rest is read, too, so that checksums are checked.
///
/// # Errors
/// Errors of `read`; and an [`io::Error`] if the container is damaged, holds no pickle, or expands to more than
/// `max_bytes`.
pub fn unpack<T, E: From<io::Error>>(
    input: &mut dyn Read,
    max_bytes: u64,
    read: &mut dyn FnMut(&mut dyn Read) -> Result<T, E>,
) -> Result<T, E> {
    layer(input, max_bytes, MOST_LAYERS, read)
}

fn layer<T, E: From<io::Error>>(
    input: &mut dyn Read,
    max_bytes: u64,
    layers: usize,
    read: &mut dyn FnMut(&mut dyn Read) -> Result<T, E>,
) -> Result<T, E> {
    let mut head = Vec::with_capacity(4);
    input.take(4).read_to_end(&mut head)?;
    let wrapping = wrapping(&head);
    let mut input = Cursor::new(head).chain(input);
    let Some(wrapping) = wrapping else { return read(&mut input) };
    if layers == 0 {
        return Err(bad("the input is wrapped more often than anybody would; unpack it first").into());
    }
    let mut inner = |stream: &mut dyn Read| -> Result<T, E> {
        let mut bounded = Bounded { stream, left: max_bytes, max_bytes };
        let result = layer(&mut bounded, max_bytes, layers - 1, read)?;
        io::copy(&mut bounded, &mut io::sink())?;
        Ok(result)
    };
    match wrapping {
        Wrapping::Gzip => inner(&mut Named::new("gzip", MultiGzDecoder::new(BufReader::new(input)))),
        Wrapping::Zstd => inner(&mut Named::new("Zstandard", Zstd { rest: Some(BufReader::new(input)), frame: None })),
        Wrapping::Zip => archive::read_pickle(&mut input, &mut inner),
    }
}

fn wrapping(head: &[u8]) -> Option<Wrapping> {
    match head {
        [0x1f, 0x8b, ..] => Some(Wrapping::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(Wrapping::Zstd),
        // The second is that of an archive without members.
        [b'P', b'K', 3, 4] | [b'P', b'K', 5, 6] => Some(Wrapping::Zip),
        _ => None,
    }
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// All frames of a Zstandard stream. The decoder stops after each, and leaves its checksum to whoever reads.
struct Zstd<R: BufRead> {
    /// Input before the first frame, or between two frames.
    rest: Option<R>,
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(mut rest) = self.rest.take() {
                if rest.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                let frame = StreamingDecoder::new_with_max_window_size(rest, MOST_WINDOW);
                self.frame = Some(frame.map_err(io::Error::other)?);
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let (stated, computed) = (frame.decoder.get_checksum_from_data(), frame.decoder.get_calculated_checksum());
            if stated.is_some_and(|stated| computed != Some(stated)) {
                return Err(bad("its checksum is another one"));
            }
            self.rest = self.frame.take().map(StreamingDecoder::into_inner);
        }
    }
}

/// A stream whose errors say what is damaged, and which stays damaged: a decoder may call its end what follows.
struct Named<R> {
    what: &'static str,
    stream: R,
    damage: Option<String>,
}

impl<R> Named<R> {
    fn new(what: &'static str, stream: R) -> Self {
        Self { what, stream, damage: None }
    }
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(damage) = &self.damage {
            return Err(bad(damage));
        }
        self.stream.read(buffer).map_err(|error| {
            let damage = match error.kind() {
                // A bound further out.
                _ if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<TooLarge>) => {
                    return error;
                }
                io::ErrorKind::Interrupted => return error,
                io::ErrorKind::UnexpectedEof => format!("the {} data ends too early", self.what),
                _ => format!("the {} data is damaged: {error}", self.what),
            };
            self.damage = Some(damage.clone());
            bad(&damage)
        })
    }
}

/// A stream that may not be longer than so much.
struct Bounded<'s> {
    stream: &'s mut dyn Read,
    left: u64,
    max_bytes: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = self.stream.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(io::Error::other(TooLarge { max_bytes: self.max_bytes })),
        }
    }
}
