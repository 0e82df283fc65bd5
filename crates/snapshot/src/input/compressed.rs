//! Compressed streams, which name their damage and keep to a limit.

use std::io::{self, BufRead, Read};

use flate2::Compression;
use flate2::bufread::GzEncoder;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::{InputLimit, TooLarge, bad};

/// The most memory that Zstandard decompression may use: the default limit of `zstd -d`.
const MOST_WINDOW: u64 = 128 << 20;

/// Bytes in the gzip format: the same ones for the same bytes.
#[must_use]
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    // Reading from memory cannot fail.
    _ = GzEncoder::new(bytes, Compression::default()).read_to_end(&mut packed);
    packed
}

/// All frames of a Zstandard stream. The decoder stops after each, and leaves its checksum to whoever reads.
pub(super) struct Zstandard<R: BufRead> {
    /// Input before the first frame, or between two frames.
    rest: Option<R>,
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> Zstandard<R> {
    pub(super) fn new(input: R) -> Self {
        Self { rest: Some(input), frame: None }
    }
}

impl<R: BufRead> Read for Zstandard<R> {
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
            let stated = frame.decoder.get_checksum_from_data();
            let computed = frame.decoder.get_calculated_checksum();
            if stated.is_some_and(|stated| computed != Some(stated)) {
                return Err(bad("its checksum does not match"));
            }
            self.rest = self.frame.take().map(StreamingDecoder::into_inner);
        }
    }
}

/// The content of a wrapping. Its errors name the format, its length keeps to a limit, and it stays damaged: after an error,
/// some decoders report the end.
pub(super) struct Unwrapped<'s> {
    format: &'static str,
    stream: &'s mut dyn Read,
    limit: InputLimit<'s>,
    count: u64,
    damage: Option<String>,
}

impl<'s> Unwrapped<'s> {
    pub(super) fn new(format: &'static str, stream: &'s mut dyn Read, limit: InputLimit<'s>) -> Self {
        Self { format, stream, limit, count: 0, damage: None }
    }
}

impl Read for Unwrapped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(damage) = &self.damage {
            return Err(bad(damage));
        }
        let read = self.stream.read(buffer).map_err(|error| {
            let damage = match error.kind() {
                // A bound further out.
                _ if TooLarge::of(&error).is_some() => return error,
                io::ErrorKind::Interrupted => return error,
                io::ErrorKind::UnexpectedEof => {
                    format!("the {} data ends too early: copy the file again, or record it again", self.format)
                }
                _ => format!("the {} data is damaged: {error}", self.format),
            };
            self.damage = Some(damage.clone());
            bad(&damage)
        })?;
        self.count += read as u64;
        let max_bytes = self.limit.bytes();
        if self.count > max_bytes { Err(io::Error::other(TooLarge { max_bytes })) } else { Ok(read) }
    }
}
