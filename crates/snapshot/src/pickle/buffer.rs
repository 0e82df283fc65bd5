//! One buffer over a stream, with the position in it.

use std::io::{self, Read};

/// Large enough that refills do not show, small enough to stay in the second-level cache.
const CAPACITY: usize = 256 * 1024;

/// Bytes of a line of the cache.
const LINE: usize = 64;

pub(super) struct Buffer<R> {
    source: R,
    buffer: Box<[u8]>,
    position: usize,
    end: usize,
    /// The bytes that came from the stream so far.
    read: u64,
    exhausted: bool,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; CAPACITY + LINE].into_boxed_slice(),
            position: 0,
            end: 0,
            read: 0,
            exhausted: false,
        }
    }

    /// Offset in the stream of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.read - (self.end - self.position) as u64
    }

    /// The bytes in the buffer that are not yet consumed.
    #[inline]
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.position..self.end]
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.position);
        self.position += count;
    }

    /// Tries to have `count` bytes buffered (at most the capacity). Returns true if it has.
    #[inline]
    pub(super) fn ensure(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.position >= count { Ok(true) } else { self.fill(count) }
    }

    #[cold]
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        self.move_rest();
        while !self.exhausted && self.end - self.position < count.min(CAPACITY) {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.exhausted = true,
                Ok(read) => {
                    self.end += read;
                    self.read += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.end - self.position >= count)
    }

    /// Moves the bytes that are not yet consumed to the front, so that they end where a line of the cache does: the kernel
    /// takes a fifth less time to copy a file there.
    fn move_rest(&mut self) {
        let rest = self.end - self.position;
        let start = self.buffer[rest..].as_ptr().align_offset(LINE).min(self.buffer.len() - rest);
        self.buffer.copy_within(self.position..self.end, start);
        self.position = start;
        self.end = start + rest;
    }

    /// Brings as much of the stream into the buffer as fits. Returns true if that is more than before.
    #[cold]
    pub(super) fn fill_up(&mut self) -> io::Result<bool> {
        let before = self.end - self.position;
        self.fill(CAPACITY)?;
        Ok(self.end - self.position > before)
    }

    /// The next `N` bytes, or `None` where the stream ends before.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if !self.ensure(N)? {
            return Ok(None);
        }
        let bytes = self.buffered().first_chunk::<N>().copied();
        self.position += N;
        Ok(bytes)
    }

    /// Hands the next `count` bytes to `sink` in pieces. Returns false where the stream ends before;
    /// nothing is allocated for a length that is only declared.
    pub(super) fn pieces(&mut self, count: u64, mut sink: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut left = count;
        while left > 0 {
            if !self.ensure(1)? {
                return Ok(false);
            }
            let here = self.buffered();
            let piece = usize::try_from(left).map_or(here.len(), |left| left.min(here.len()));
            sink(&here[..piece]);
            self.position += piece;
            left -= piece as u64;
        }
        Ok(true)
    }
}
