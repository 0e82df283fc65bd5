//! PyTorch's structure `TensorInfo`: where a tensor lies, with the sizes and strides of its dimensions.

use super::arguments::{Arguments, long, word};

const MOST_DIMENSIONS: usize = 25;
const EXTENTS: usize = 8;
const STRIDES: usize = EXTENTS + 4 * MOST_DIMENSIONS;
const DIMENSIONS: usize = STRIDES + 4 * MOST_DIMENSIONS;
const SIZE: usize = (DIMENSIONS + 4).next_multiple_of(8);

/// A tensor in an argument, with indices of four bytes.
#[derive(Clone, Copy)]
pub(super) struct TensorInfo<'a>(&'a [u8]);

impl<'a> TensorInfo<'a> {
    pub(super) fn of(arguments: &Arguments<'a>, place: usize) -> Option<Self> {
        let found = Self(arguments.sized(place, SIZE)?);
        (1..=MOST_DIMENSIONS).contains(&found.dimensions()?).then_some(found)
    }

    fn dimensions(self) -> Option<usize> {
        word(self.0, DIMENSIONS).map(|dimensions| dimensions as usize)
    }

    pub(super) fn address(self) -> Option<u64> {
        long(self.0, 0)
    }

    pub(super) fn extent(self, dimension: usize) -> Option<u32> {
        word(self.0, EXTENTS + 4 * dimension).filter(|_| dimension < MOST_DIMENSIONS)
    }

    pub(super) fn stride(self, dimension: usize) -> Option<u32> {
        word(self.0, STRIDES + 4 * dimension).filter(|_| dimension < MOST_DIMENSIONS)
    }

    /// Distance of an element from the first one, in elements.
    pub(super) fn element(self, mut index: u32) -> Option<u32> {
        let mut element: u32 = 0;
        for dimension in (1..self.dimensions()?).rev() {
            let extent = self.extent(dimension)?;
            element = element.checked_add(index.checked_rem(extent)?.checked_mul(self.stride(dimension)?)?)?;
            index /= extent;
        }
        element.checked_add(index.checked_mul(self.stride(0)?)?)
    }
}
