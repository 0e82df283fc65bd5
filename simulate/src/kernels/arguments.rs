//! Arguments of a launch.

use crate::code::Parameter;
use crate::ffi::In;
use crate::little_endian::number_at;
use crate::sys::memory;

/// Arguments of a launch, as the program passes them: an address for each.
pub(super) struct Arguments<'a> {
    parameters: &'a [Parameter],
    addresses: In<u64>,
    /// Blocks of threads, in three dimensions. None where that is not noted.
    blocks: Option<[u32; 3]>,
}

/// Word of four bytes in an argument.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    number_at::<4>(bytes, at).map(|number| number as u32)
}

/// Word of eight bytes in an argument.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    number_at::<8>(bytes, at)
}

impl<'a> Arguments<'a> {
    /// None where the program passes no addresses of arguments.
    pub(super) fn new(parameters: &'a [Parameter], addresses: In<u64>, blocks: Option<[u32; 3]>) -> Option<Self> {
        (parameters.is_empty() || addresses.at(0).is_some()).then_some(Self { parameters, addresses, blocks })
    }

    /// Blocks of threads in the second dimension.
    pub(super) fn rows_of_blocks(&self) -> Option<usize> {
        self.blocks.map(|blocks| blocks[1] as usize)
    }

    /// Bytes of an argument.
    pub(super) fn bytes(&self, place: usize) -> Option<&'a [u8]> {
        let size = self.parameters.get(place)?.size;
        Some(memory::bytes(self.addresses.at(place)?, size))
    }

    /// Bytes of an argument that has this size.
    pub(super) fn sized(&self, place: usize, size: usize) -> Option<&'a [u8]> {
        self.bytes(place).filter(|bytes| bytes.len() == size)
    }

    /// An argument that is an address.
    pub(super) fn address(&self, place: usize) -> Option<u64> {
        long(self.sized(place, 8)?, 0)
    }

    /// Number of arguments.
    pub(super) fn number(&self) -> usize {
        self.parameters.len()
    }

    /// An argument that is a count.
    pub(super) fn count(&self, place: usize) -> Option<usize> {
        let bytes = self.bytes(place)?;
        match bytes.len() {
            4 => word(bytes, 0).map(|count| count as usize),
            8 => long(bytes, 0).map(|count| count as usize),
            _ => None,
        }
    }

    /// All words of eight bytes in all arguments: addresses lie at multiples of eight.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        let places = 0..self.parameters.len();
        let arguments = places.filter_map(|place| self.bytes(place));
        arguments.flat_map(|bytes| bytes.chunks_exact(8).filter_map(|bytes| long(bytes, 0)))
    }
}
