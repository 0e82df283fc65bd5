//! `torch.cat`: kernels that copy tensors next to each other.

use alloc::vec::Vec;

use super::arguments::{Arguments, long, word};
use super::copies::Copies;
use super::number;
use super::{Effect, MOST_SCATTERED, Trust};

/// Kernel that copies tensors into another one.
pub(super) struct Cat {
    way: Way,
    /// Bytes of an element.
    element: usize,
    dimensions: usize,
    /// Tensors for which there is room in a launch, and those of them for which there are strides.
    room: usize,
    strided: usize,
}

/// Way to go through the elements of a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By its strides, where it is not contiguous.
    Strided,
    Contiguous,
    /// In pieces of 16 bytes. The last argument is the number of elements in each step of the dimension.
    Vectorized,
}

/// Parts of the kernels' names. Type of the elements, type of the indices, dimensions and the two numbers of tensors
/// follow.
const KERNELS: [(&str, Way); 5] = [
    ("19CatArrayBatchedCopyI", Way::Strided),
    ("26CatArrayBatchedCopy_contigI", Way::Contiguous),
    ("36CatArrayBatchedCopy_aligned16_contigI", Way::Contiguous),
    ("35CatArrayBatchedCopy_alignedK_contigI", Way::Contiguous),
    ("30CatArrayBatchedCopy_vectorizedI", Way::Vectorized),
];
/// Bytes of a piece.
const PIECE: usize = 16;
/// The type of elements of which only the size counts.
const OPAQUE: &str = "NS1_10OpaqueTypeILj";

/// Dimensions of a tensor.
const DIMENSIONS: usize = 4;
/// Bytes of sizes and strides of one tensor.
const PLACES: usize = 2 * 4 * DIMENSIONS;

/// Sizes and strides of a tensor.
struct Places<'a>(&'a [u8]);

impl Places<'_> {
    /// The element with an index, for a tensor of some dimensions, one of which has another size.
    fn element(&self, mut index: u32, dimensions: usize, (other, size): (usize, u32)) -> Option<u64> {
        let mut element = 0;
        for dimension in (0..dimensions).rev() {
            let extent = if dimension == other { size } else { word(self.0, 4 * dimension)? };
            let stride = word(self.0, 4 * (DIMENSIONS + dimension))?;
            let place = if dimension == 0 { index } else { index.checked_rem(extent)? };
            element += u64::from(place) * u64::from(stride);
            index = if dimension == 0 { 0 } else { index / extent };
        }
        Some(element)
    }
}

/// The tensors that are copied: fields, each of which has room for all of them.
struct Inputs<'a> {
    bytes: &'a [u8],
    room: usize,
}

impl Inputs<'_> {
    fn address(&self, tensor: usize) -> Option<u64> {
        long(self.bytes, 8 * tensor)
    }

    /// One of three words: where the tensor comes in the result, its size in that dimension, and its elements.
    fn word(&self, which: usize, tensor: usize) -> Option<u32> {
        word(self.bytes, self.room * (8 + 4 * which) + 4 * tensor)
    }

    fn is_contiguous(&self, tensor: usize) -> Option<bool> {
        Some(*self.bytes.get(self.room * 20 + tensor)? != 0)
    }

    fn places(&self, tensor: usize) -> Option<Places<'_>> {
        let at = self.room * 21 + PLACES * tensor;
        self.bytes.get(at..at + PLACES).map(Places)
    }
}

/// A tensor and its place in the result, in elements or in pieces.
struct Input {
    address: u64,
    count: u32,
    /// Where it begins, in steps of the dimension in which it lies.
    first: u32,
    /// Its size in that dimension.
    extent: u32,
}

impl Cat {
    pub(super) fn named(name: &str) -> Option<Self> {
        let (way, types) = KERNELS.iter().find_map(|(kernel, way)| Some((*way, name.split_once(kernel)?.1)))?;
        let (element, rest) = number::element(types, OPAQUE)?;
        let mut numbers = rest.strip_prefix("jLi")?.split("ELi");
        let dimensions = numbers.next()?.parse().ok().filter(|&dimensions| dimensions <= DIMENSIONS)?;
        let room = numbers.next()?.parse().ok()?;
        let strided = numbers.next()?.split('E').next()?.parse().ok()?;
        let pieces = way != Way::Vectorized || numbers.next() == Some("16");
        pieces.then_some(Self { way, element, dimensions, room, strided })
    }

    /// The arguments are the address of the result, the tensors, sizes and strides of the result, the dimension in
    /// which the tensors are next to each other, and its stride. There is a row of blocks for each tensor.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let bytes = arguments.sized(1, (self.room * 21 + PLACES * self.strided).next_multiple_of(8))?;
        let inputs = Inputs { bytes, room: self.room };
        let tensors = arguments.rows_of_blocks().filter(|&tensors| tensors <= self.room)?;
        let mut copies = Copies::default();
        for tensor in 0..tensors {
            self.copy(&inputs, tensor, arguments, &mut copies)?;
        }
        Some(copies.effects(Trust::Known))
    }

    fn copy(&self, inputs: &Inputs<'_>, tensor: usize, arguments: &Arguments<'_>, copies: &mut Copies) -> Option<()> {
        let result = Places(arguments.sized(2, PLACES)?);
        let dimension = arguments.count(3)?;
        let last = arguments.count(4)? as u32;
        let input = self.input(inputs, tensor, last)?;
        let unit = if self.way == Way::Vectorized { PIECE } else { self.element };
        if (input.count as usize).checked_mul(unit)? > MOST_SCATTERED {
            return None;
        }
        let strides = match self.way {
            Way::Strided if !inputs.is_contiguous(tensor)? => {
                Some(inputs.places(tensor).filter(|_| tensor < self.strided)?)
            }
            _ => None,
        };
        let stride = if self.way == Way::Vectorized { 1 } else { u64::from(last) };
        for index in 0..input.count {
            let to =
                u64::from(input.first) * stride + result.element(index, self.dimensions, (dimension, input.extent))?;
            let from = match &strides {
                Some(places) => places.element(index, self.dimensions, (dimension, input.extent))?,
                None => index.into(),
            };
            let unit = unit as u64;
            copies.add(arguments.address(0)? + to * unit, input.address + from * unit, unit);
        }
        Some(())
    }

    /// A tensor. Of pieces, the dimension has as many steps as there are pieces in it.
    fn input(&self, inputs: &Inputs<'_>, tensor: usize, trailing: u32) -> Option<Input> {
        let [first, extent, count] = [inputs.word(0, tensor)?, inputs.word(1, tensor)?, inputs.word(2, tensor)?];
        let address = inputs.address(tensor)?;
        if self.way != Way::Vectorized {
            return Some(Input { address, count, first, extent });
        }
        let each = PIECE.checked_div(self.element)? as u32;
        Some(Input {
            address,
            count: count.checked_div(each)?,
            first: first.checked_mul(trailing)?.checked_div(each)?,
            extent: extent.checked_mul(trailing)?.checked_div(each)?,
        })
    }
}
