//! `torch.nonzero`: kernels that count the elements that are not zero, and write where they are.

use alloc::vec::Vec;

use super::arguments::{Arguments, long, word};
use super::number::{Number, Type};
use super::{Computed, Effect, MOST_COMPUTED, Trust};
use crate::device::{addresses, values};

/// Kernel of `nonzero`.
pub(super) struct Nonzero {
    work: Work,
    element: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The arguments are the elements, the address of the count, and their number.
    Count,
    /// The same for many elements: there are counts of parts, whose number begins the fourth argument.
    CountParts,
    /// Adds up the counts of parts. The arguments are their address, that of the count, and their number.
    AddParts,
    /// The arguments are the first index, the elements, the addresses of the indices and of their count, three of no
    /// interest, and the number of elements.
    Indices,
    /// Turns indices into one for each dimension. The arguments are the address, the sizes of the dimensions, their
    /// number, and the number of indices; perhaps the address of another number and what to write beyond it.
    Dimensions,
}

const SINGLE_TILE: &str = "28DeviceReduceSingleTileKernelI";
const KERNELS: [(&str, Work); 3] = [
    (SINGLE_TILE, Work::Count),
    ("18DeviceReduceKernelI", Work::CountParts),
    ("23DeviceSelectSweepKernelI", Work::Indices),
];
/// Parts of the names of a kernel that adds up words: the operator goes by two names.
const WORDS: &str = "EPiS";
const SUMS: [&str; 2] = ["4plusIvE", "NS0_3SumE"];
const FUNCTION: &str = "9NonZeroOpI";
const WRITE_INDICES: &str = "13write_indicesI";
/// Dimensions for which there is room.
const MOST_DIMENSIONS: usize = 25;
const INDEX: Type = Type::Signed(8);
const COUNT: Type = Type::Signed(4);

/// The elements in an argument, which has their address and a function without contents.
fn elements(argument: &[u8]) -> Option<u64> {
    [0, 8].into_iter().filter_map(|at| long(argument, at)).find(|&word| addresses::is_device(word))
}

impl Nonzero {
    pub(super) fn named(name: &str) -> Option<Self> {
        if let Some((_, types)) = name.split_once(WRITE_INDICES) {
            return Some(Self { work: Work::Dimensions, element: Type::named(types)?.0 });
        }
        if name.contains(SINGLE_TILE) && name.contains(WORDS) && !name.contains(FUNCTION) {
            let adds = SUMS.iter().any(|sum| name.contains(sum));
            return adds.then_some(Self { work: Work::AddParts, element: COUNT });
        }
        let (_, work) = KERNELS.iter().find(|(part, _)| name.contains(part))?;
        let (element, _) = Type::named(name.split_once(FUNCTION)?.1)?;
        Some(Self { work: *work, element })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        match self.work {
            Work::Count => self.count(arguments),
            Work::CountParts => self.count_parts(arguments),
            Work::AddParts => self.add_parts(arguments),
            Work::Indices => self.indices(arguments),
            Work::Dimensions => self.dimensions(arguments),
        }
    }

    fn count(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let at = long(arguments.sized(1, 8)?, 0)?;
        let found = self.found(elements(arguments.sized(0, 16)?)?, arguments.count(2)?);
        Some(alloc::vec![counted(at, found.as_ref())])
    }

    /// Counts all elements in the first part: only the sum of all parts is ever read.
    fn count_parts(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let at = arguments.address(1)?;
        let parts = word(arguments.bytes(3)?, 0)? as usize;
        let size = parts.checked_mul(COUNT.size()).filter(|size| *size <= MOST_COMPUTED)?;
        let found = self.found(elements(arguments.sized(0, 16)?)?, arguments.count(2)?);
        Some(alloc::vec![Effect::Fill(at, 0, size as u64), counted(at, found.as_ref())])
    }

    fn add_parts(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let size = arguments.count(2)?.checked_mul(COUNT.size()).filter(|size| *size <= MOST_COMPUTED)?;
        let at = arguments.address(1)?;
        if arguments.sized(4, COUNT.size())? != [0; 4] {
            return None;
        }
        let Some(parts) = values::known(arguments.address(0)?, size) else {
            return Some(alloc::vec![Effect::Forget(at, COUNT.size() as u64)]);
        };
        let mut sum: i64 = 0;
        for part in 0..size / COUNT.size() {
            sum += COUNT.read(&parts.bytes, part * COUNT.size())?.whole()?;
        }
        Some(alloc::vec![Effect::Set(at, Computed { bytes: COUNT.bytes(Number::Whole(sum))?, trust: parts.trust })])
    }

    fn indices(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let first = long(arguments.bytes(0)?, 0)? as i64;
        let at = long(arguments.sized(2, 8)?, 0)?;
        let at_count = long(arguments.sized(3, 8)?, 0)?;
        let found = self.found(elements(arguments.sized(1, 16)?)?, arguments.count(7)?)?;
        let mut bytes = Vec::new();
        for &index in &found.indices {
            bytes.extend((first + index).to_le_bytes());
        }
        let written = Effect::Set(at, Computed { bytes, trust: found.trust });
        Some(alloc::vec![written, counted(at_count, Some(&found))])
    }

    fn dimensions(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let at = arguments.address(0)?;
        let sizes = arguments.sized(1, MOST_DIMENSIONS * self.element.size())?;
        let dimensions = arguments.count(2).filter(|&dimensions| dimensions <= MOST_DIMENSIONS)?;
        let count = arguments.count(3)?;
        let all = count.checked_mul(dimensions)?.checked_mul(INDEX.size())?;
        if all > MOST_COMPUTED || arguments.address(4).is_some_and(|number| number > 0) {
            return None;
        }
        let known = values::known(at, count * INDEX.size())?;
        let mut bytes = alloc::vec![0; all];
        for place in 0..count {
            let mut index = INDEX.read(&known.bytes, place * INDEX.size())?.whole()?;
            for dimension in (0..dimensions).rev() {
                let size = self.element.read(sizes, dimension * self.element.size())?.whole()?;
                let at = (dimension * count + place) * INDEX.size();
                bytes[at..at + INDEX.size()].copy_from_slice(&index.checked_rem(size)?.to_le_bytes());
                index /= size;
            }
        }
        Some(alloc::vec![Effect::Set(at, Computed { bytes, trust: known.trust })])
    }

    /// Places of the elements that are not zero. None where the elements are not known.
    fn found(&self, at: u64, count: usize) -> Option<Found> {
        let size = count.checked_mul(self.element.size()).filter(|size| *size <= MOST_COMPUTED)?;
        let known = values::known(at, size)?;
        let mut indices = Vec::new();
        for index in 0..count {
            let number = self.element.read(&known.bytes, index * self.element.size())?;
            if !number.is_zero() {
                indices.push(index as i64);
            }
        }
        Some(Found { indices, trust: known.trust })
    }
}

/// Places of elements.
struct Found {
    indices: Vec<i64>,
    trust: Trust,
}

fn counted(at: u64, found: Option<&Found>) -> Effect {
    let computed = found.and_then(|found| {
        let bytes = COUNT.bytes(Number::Whole(found.indices.len() as i64))?;
        Some(Computed { bytes, trust: found.trust })
    });
    computed.map_or(Effect::Forget(at, COUNT.size() as u64), |computed| Effect::Set(at, computed))
}
