//! Integers of more than eight bytes.

use super::Integer;

/// A two's complement integer whose bytes arrive in pieces, the lowest first.
pub(super) struct WideInteger {
    low: [u8; 16],
    /// Number of bytes in `low`.
    count: usize,
    last: u8,
    /// Bytes above 128 bits only matter as far as they differ from the sign.
    is_zero_above: bool,
    is_ones_above: bool,
}

impl Default for WideInteger {
    fn default() -> Self {
        Self { low: [0; 16], count: 0, last: 0, is_zero_above: true, is_ones_above: true }
    }
}

impl WideInteger {
    /// Adds the next bytes.
    pub(super) fn extend(&mut self, piece: &[u8]) {
        for &byte in piece {
            if let Some(slot) = self.low.get_mut(self.count) {
                *slot = byte;
                self.count += 1;
            } else {
                self.is_zero_above &= byte == 0;
                self.is_ones_above &= byte == 0xff;
            }
            self.last = byte;
        }
    }

    /// The integer.
    pub(super) fn value(mut self) -> Integer {
        let is_negative = self.last >= 0x80;
        if is_negative {
            self.low[self.count..].fill(0xff);
        }
        let value = i128::from_le_bytes(self.low);
        let is_sign_above = if is_negative { self.is_ones_above } else { self.is_zero_above };
        if (value < 0) == is_negative && is_sign_above { Integer::Fits(value) } else { Integer::Beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pieces: &[&[u8]]) -> Integer {
        let mut integer = WideInteger::default();
        pieces.iter().for_each(|piece| integer.extend(piece));
        integer.value()
    }

    #[test]
    fn integers_are_read_up_to_128_bits() {
        assert_eq!(value(&[]), Integer::Fits(0));
        assert_eq!(value(&[&[0xff; 9]]), Integer::Fits(-1));
        assert_eq!(value(&[&[0; 8], &[1]]), Integer::Fits(1 << 64));
        assert_eq!(value(&[&[0xff; 15], &[0x7f]]), Integer::Fits(i128::MAX));
        assert_eq!(value(&[&[0xff; 15], &[0x7f], &[0; 30]]), Integer::Fits(i128::MAX));
        assert_eq!(value(&[&[0xff; 16], &[0]]), Integer::Beyond);
        assert_eq!(value(&[&[0; 16], &[0xff]]), Integer::Beyond);
        assert_eq!(value(&[&[0; 20], &[1]]), Integer::Beyond);
    }
}
