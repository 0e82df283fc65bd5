//! Bytes that are read one after the other.

use crate::little_endian;

pub(super) struct BitReader<'a>(&'a [u8]);

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number of `count` bytes, at most 8, the lowest first.
    pub(super) fn number(&mut self, count: usize) -> Option<usize> {
        self.take(count).map(|bytes| little_endian::number(bytes) as usize)
    }
}
