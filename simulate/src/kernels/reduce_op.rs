//! PyTorch's structure `ReduceOp`, which is the only argument of kernels that reduce dimensions of a tensor.

use super::MOST_COMPUTED;
use super::arguments::{Arguments, long, word};
use super::number::Type;
use super::offsets::Offsets;

/// Bytes of the configuration of a launch.
const CONFIGURATION: usize = 64;

/// Bytes of the largest elements.
const MOST_BYTES: usize = 8;

/// Number that changes no result, at the start of the structure behind the operator, which has no contents.
#[derive(Clone, Copy)]
pub(super) enum Neutral {
    /// A number of a type.
    Number(Type),
    /// A number of any type and an index.
    NumberAndIndex,
}

impl Neutral {
    /// End of the number in the structure.
    fn end(self) -> usize {
        match self {
            Self::Number(number) => 1_usize.next_multiple_of(number.size()) + number.size(),
            Self::NumberAndIndex => 24,
        }
    }
}

/// A launch that reduces dimensions.
pub(super) struct ReduceOp<'a> {
    /// Elements of each result.
    pub(super) of_each: u32,
    /// Number of results.
    pub(super) count: u32,
    elements: Offsets<'a>,
    results: Offsets<'a>,
    source: u64,
    /// Addresses of the results, and of second results.
    pub(super) destinations: [u64; 2],
    /// Number of destinations.
    pub(super) outputs: u32,
}

impl<'a> ReduceOp<'a> {
    /// The launch. None where it is not one that computes all of each result, or is too large.
    pub(super) fn of(arguments: &Arguments<'a>, neutral: Neutral) -> Option<Self> {
        let configuration = neutral.end().next_multiple_of(4);
        let elements = configuration + CONFIGURATION;
        let results = elements + Offsets::size(1);
        let source = (results + Offsets::size(2)).next_multiple_of(8);
        // Two destinations, three buffers and the index of the first element lie between.
        let flags = source + 56;
        let structure = arguments.sized(0, flags + 8)?;
        let of_each = word(structure, configuration + 4)?;
        let count = word(structure, configuration + 8)?;
        let is_final = structure.get(flags..flags + 2)? == [0, 1];
        let small = (of_each as usize).checked_mul(count as usize)?.checked_mul(MOST_BYTES)? <= MOST_COMPUTED;
        (is_final && small).then_some(Self {
            of_each,
            count,
            elements: Offsets::at(structure, elements, 1)?,
            results: Offsets::at(structure, results, 2)?,
            source: long(structure, source)?,
            destinations: [long(structure, source + 8)?, long(structure, source + 16)?],
            outputs: word(structure, flags + 4)?,
        })
    }

    /// Distance of a result from the first one, in bytes.
    pub(super) fn result(&self, index: u32) -> Option<u64> {
        self.results.offset(index, 0)
    }

    /// Address of an element of a result.
    pub(super) fn element(&self, result: u32, index: u32) -> Option<u64> {
        Some(self.source + self.results.offset(result, 1)? + self.elements.offset(index, 0)?)
    }

    /// True if elements of a result lie in one dimension, so that their index in the launch is that in the tensor.
    pub(super) fn is_flat(&self) -> bool {
        self.elements.dimensions().is_some_and(|dimensions| dimensions <= 1)
    }
}
