//! Streams of bits, which Zstandard reads forwards for tables and backwards for data.

use crate::little_endian;

/// Bits from the first byte to the last, the lowest bit first.
pub(super) struct Forward<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Forward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next bits, at most 16. `None` at the end of the stream.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for index in 0..count {
            let byte = *self.bytes.get(self.position / 8)?;
            value |= u32::from(byte >> (self.position % 8) & 1) << index;
            self.position += 1;
        }
        Some(value)
    }

    /// Gives one bit back.
    pub(super) fn back_one(&mut self) {
        self.position -= 1;
    }

    /// Bytes that were begun.
    pub(super) fn bytes_read(&self) -> usize {
        self.position.div_ceil(8)
    }
}

/// Bits from the last byte to the first, the highest bit first; the first bit that is set marks the start.
pub(super) struct Backward<'a> {
    bytes: &'a [u8],
    /// Bits that are left; below zero where more were taken than there are.
    left: i64,
}

impl<'a> Backward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let last = *bytes.last().filter(|&&last| last != 0)?;
        Some(Self { bytes, left: bytes.len() as i64 * 8 - i64::from(last.leading_zeros()) - 1 })
    }

    /// The next bits, at most 32. Beyond the end of the stream they are 0.
    pub(super) fn take(&mut self, count: u32) -> u64 {
        self.left -= i64::from(count);
        let first = self.left.div_euclid(8);
        let shift = self.left.rem_euclid(8);
        let word = match usize::try_from(first).ok().and_then(|first| self.bytes.get(first..first + 8)) {
            Some(bytes) => little_endian::number(bytes),
            None => (0..8).rev().fold(0, |word, index| word << 8 | self.byte(first + index)),
        };
        word >> shift & ((1 << count) - 1)
    }

    fn byte(&self, index: i64) -> u64 {
        usize::try_from(index).ok().and_then(|index| self.bytes.get(index)).copied().unwrap_or_default().into()
    }

    /// True if all bits were taken, and `beyond` more than there are.
    pub(super) fn is_used_up(&self, beyond: u32) -> bool {
        self.left == -i64::from(beyond)
    }

    /// More bits were taken than there are.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.left < 0
    }
}
