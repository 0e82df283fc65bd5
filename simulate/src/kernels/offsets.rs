//! PyTorch's `OffsetCalculator`: where elements of tensors lie that are not one after the other.

use super::arguments::word;

/// Dimensions for which there is room.
const MOST_DIMENSIONS: usize = 25;
/// A divisor and two numbers that help to divide by it.
const DIVISOR: usize = 12;
const STRIDES: usize = 4 + MOST_DIMENSIONS * DIVISOR;

/// An offset calculator for some tensors.
#[derive(Clone, Copy)]
pub(super) struct Offsets<'a> {
    bytes: &'a [u8],
    tensors: usize,
}

impl<'a> Offsets<'a> {
    /// Bytes that one takes.
    pub(super) fn size(tensors: usize) -> usize {
        STRIDES + 4 * MOST_DIMENSIONS * tensors
    }

    /// The one at a place. None if it cannot be one.
    pub(super) fn at(bytes: &'a [u8], at: usize, tensors: usize) -> Option<Self> {
        let found = Self { bytes: bytes.get(at..at.checked_add(Self::size(tensors))?)?, tensors };
        let whole = (0..found.dimensions()?).all(|dimension| found.divisor(dimension).is_some_and(|size| size > 0));
        (found.dimensions()? <= MOST_DIMENSIONS && whole).then_some(found)
    }

    pub(super) fn dimensions(self) -> Option<usize> {
        word(self.bytes, 0).map(|dimensions| dimensions as usize)
    }

    fn divisor(self, dimension: usize) -> Option<u32> {
        word(self.bytes, 4 + DIVISOR * dimension)
    }

    /// Offset in bytes of an element of one of the tensors.
    pub(super) fn offset(self, mut index: u32, tensor: usize) -> Option<u64> {
        let mut offset = 0;
        for dimension in 0..self.dimensions()? {
            let size = self.divisor(dimension)?;
            let stride = word(self.bytes, STRIDES + 4 * (dimension * self.tensors + tensor))?;
            offset += u64::from(index % size) * u64::from(stride);
            index /= size;
        }
        Some(offset)
    }
}
