//! Kernels that copy elements whose places are given by indices: `tensor[indices]`, `index_put_`, `index_select`,
//! `gather`.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::arguments::{Arguments, long};
use super::copies::Copies;
use super::number::{self, Type};
use super::offsets::Offsets;
use super::tensor_info::TensorInfo;
use super::{Effect, MOST_SCATTERED, Trust};
use crate::device::values;

/// Kernel that copies elements by indices.
pub(super) struct Index {
    kernel: Kernel,
    /// Bytes of an element.
    element: usize,
    index: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// `tensor[indices]`. The arguments are the count and a [`Closure`].
    Get,
    /// `tensor[indices] = others`.
    Put,
    /// `index_select` with few or with many indices. The arguments are result, operand and indices, the dimension in
    /// both, in the second case a total, then the elements of a slice and the extent of the dimension.
    SelectFew,
    SelectMany,
    /// The same of whole rows. The arguments are the addresses of result, operand and indices, the number of indices,
    /// bytes of a row, rows, and the distances of rows in operand and result; perhaps whether indices can be negative.
    Rows,
    /// `gather`. The arguments are the count and a closure.
    Gather,
}

const GET: &str = "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelIZNS0_17index_kernel_implI";
const PUT: &str =
    "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelIZNS0_21index_put_kernel_implI";
const ROWS: &str = "_ZN2at6native24vectorized_gather_kernelILi16E";
const GATHER: &str = "36_cuda_scatter_gather_internal_kernelILb0E";
const SELECT: [(&str, Kernel); 2] =
    [("21indexSelectSmallIndexI", Kernel::SelectFew), ("21indexSelectLargeIndexI", Kernel::SelectMany)];
/// The type of elements of which only the size counts.
const OPAQUE: &str = "NS0_10OpaqueTypeILi";
const HALVES: [&str; 2] = ["N3c104HalfE", "N3c108BFloat16E"];
const LONG: Type = Type::Signed(8);

/// Dimensions that can be indexed.
const MOST_INDICES: usize = 25;
/// Places in a closure of `tensor[indices]`, behind those of its elements.
const ADDRESSES: usize = 608;
const COUNT: usize = ADDRESSES + 16;
const INDICES: usize = COUNT + 8;
const EXTENTS: usize = INDICES + 8 * MOST_INDICES;
const STRIDES: usize = EXTENTS + 8 * MOST_INDICES;
const CLOSURE: usize = STRIDES + 8 * MOST_INDICES + 8;
/// The same of `gather`.
const GATHER_INDEX: usize = ADDRESSES;
const GATHER_EXTENT: usize = GATHER_INDEX + 8;
const GATHER_RESULT: usize = GATHER_EXTENT + 16;
const GATHER_STRIDE: usize = GATHER_RESULT + 8;
const GATHER_SOURCE: usize = GATHER_STRIDE + 16;
const GATHER_CLOSURE: usize = GATHER_SOURCE + 8;

/// Size of the elements that a name goes on with, and the rest of the name.
fn element(name: &str) -> Option<(usize, &str)> {
    if let Some(rest) = HALVES.iter().find_map(|half| name.strip_prefix(half)) {
        return Some((2, rest));
    }
    number::element(name, OPAQUE)
}

impl Index {
    pub(super) fn named(name: &str) -> Option<Self> {
        for (start, kernel) in [(GET, Kernel::Get), (PUT, Kernel::Put)] {
            if let Some(rest) = name.strip_prefix(start) {
                return Some(Self { kernel, element: element(rest)?.0, index: LONG });
            }
        }
        if let Some(rest) = name.strip_prefix(ROWS) {
            return Some(Self { kernel: Kernel::Rows, element: 1, index: Type::named(rest)?.0 });
        }
        if let Some((_, rest)) = name.split_once(GATHER) {
            let (element, rest) = element(rest)?;
            let index = if rest.starts_with('E') { LONG } else { Type::named(rest)?.0 };
            return rest.contains("EclINS0_12TensorAssignE").then_some(Self { kernel: Kernel::Gather, element, index });
        }
        let (kernel, rest) = SELECT.iter().find_map(|(part, kernel)| Some((*kernel, name.split_once(part)?.1)))?;
        let (element, rest) = element(rest)?;
        let (index, rest) = Type::named(rest)?;
        rest.starts_with("jL").then_some(Self { kernel, element, index })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let mut work = Work { index: self.index, copies: Copies::default(), trust: Trust::Known };
        match self.kernel {
            Kernel::Get | Kernel::Put => self.indexed(arguments, &mut work)?,
            Kernel::SelectFew => self.select(arguments, 5, &mut work)?,
            Kernel::SelectMany => self.select(arguments, 6, &mut work)?,
            Kernel::Rows => self.rows(arguments, &mut work)?,
            Kernel::Gather => self.gather(arguments, &mut work)?,
        }
        Some(work.copies.effects(work.trust))
    }

    /// True if this many elements are few enough to be computed.
    fn is_small(&self, count: usize) -> bool {
        count.checked_mul(self.element).is_some_and(|size| size <= MOST_SCATTERED)
    }

    fn indexed(&self, arguments: &Arguments<'_>, work: &mut Work) -> Option<()> {
        let closure = arguments.sized(1, CLOSURE)?;
        let offsets = Offsets::at(closure, 0, 3)?;
        let dimensions = long(closure, COUNT)? as usize;
        let count = arguments.count(0)?;
        if dimensions > MOST_INDICES || !self.is_small(count.checked_mul(dimensions.max(1))?) {
            return None;
        }
        let mut targets = BTreeSet::new();
        for element in 0..count as u32 {
            let mut distance: i64 = 0;
            for dimension in 0..dimensions {
                let at = long(closure, INDICES + 8 * dimension)?.checked_add(offsets.offset(element, 2)?)?;
                let extent = long(closure, EXTENTS + 8 * dimension)? as i64;
                let stride = long(closure, STRIDES + 8 * dimension)? as i64;
                distance += work.index(at, extent, true)? * stride;
            }
            let result = long(closure, ADDRESSES)? + offsets.offset(element, 0)?;
            let operand = long(closure, ADDRESSES + 8)? + offsets.offset(element, 1)?;
            if self.kernel == Kernel::Get {
                work.copies.add(result, operand.checked_add_signed(distance)?, self.element as u64);
            } else {
                let target = result.checked_add_signed(distance)?;
                if !targets.insert(target) {
                    work.trust = Trust::Doubtful; // Nobody knows which of two comes last.
                }
                work.copies.add(target, operand, self.element as u64);
            }
        }
        Some(())
    }

    fn select(&self, arguments: &Arguments<'_>, slice_at: usize, work: &mut Work) -> Option<()> {
        let result = TensorInfo::of(arguments, 0)?;
        let operand = TensorInfo::of(arguments, 1)?;
        let indices = TensorInfo::of(arguments, 2)?;
        let slice = arguments.count(slice_at)?;
        let extent = arguments.count(slice_at + 1)? as i64;
        let count = indices.extent(0)? as usize;
        if arguments.number() != slice_at + 2 || !self.is_small(count.checked_mul(slice)?) {
            return None;
        }
        let stride_of_result = u64::from(result.stride(arguments.count(3)?)?);
        let stride = u64::from(operand.stride(arguments.count(4)?)?);
        let size = self.element as u64;
        for number in 0..count as u32 {
            let at = indices.address()? + u64::from(indices.element(number)?) * self.index.size() as u64;
            let index = work.index(at, extent, false)? as u64;
            for element in 0..slice as u32 {
                let to = u64::from(result.element(element)?) + u64::from(number) * stride_of_result;
                let from = u64::from(operand.element(element)?) + index * stride;
                work.copies.add(result.address()? + to * size, operand.address()? + from * size, size);
            }
        }
        Some(())
    }

    fn rows(&self, arguments: &Arguments<'_>, work: &mut Work) -> Option<()> {
        let [result, operand, indices] = [arguments.address(0)?, arguments.address(1)?, arguments.address(2)?];
        let [count, size, extent] = [arguments.count(3)?, arguments.count(4)?, arguments.count(5)?];
        let [stride, stride_of_result] = [arguments.count(6)? as u64, arguments.count(7)? as u64];
        let negative = arguments.bytes(8).is_some_and(|bytes| bytes != [0]);
        if arguments.number() > 9 || !self.is_small(count.checked_mul(size)?) {
            return None;
        }
        for row in 0..count as u64 {
            let at = indices + row * self.index.size() as u64;
            let index = work.index(at, extent as i64, negative)? as u64;
            work.copies.add(result + row * stride_of_result, operand + index * stride, size as u64);
        }
        Some(())
    }

    fn gather(&self, arguments: &Arguments<'_>, work: &mut Work) -> Option<()> {
        let closure = arguments.sized(1, GATHER_CLOSURE)?;
        let offsets = Offsets::at(closure, 0, 3)?;
        let count = arguments.count(0)?;
        if !self.is_small(count) {
            return None;
        }
        let extent = long(closure, GATHER_EXTENT)? as i64;
        let size = self.element as u64;
        let stride = long(closure, GATHER_STRIDE)?.checked_mul(size)?;
        for element in 0..count as u32 {
            let index = work.index(long(closure, GATHER_INDEX)? + offsets.offset(element, 2)?, extent, false)? as u64;
            let result = long(closure, GATHER_RESULT)? + offsets.offset(element, 0)?;
            let operand = long(closure, GATHER_SOURCE)? + offsets.offset(element, 1)?;
            work.copies.add(result, operand.checked_add(index.checked_mul(stride)?)?, size);
        }
        Some(())
    }
}

/// Copies of a launch, and how certain the indices are.
struct Work {
    index: Type,
    copies: Copies,
    trust: Trust,
}

impl Work {
    /// The index at an address. None where it is not known, or beyond the extent of its dimension.
    fn index(&mut self, at: u64, extent: i64, negative: bool) -> Option<i64> {
        let known = values::known(at, self.index.size())?;
        self.trust = self.trust.max(known.trust);
        let index = self.index.read(&known.bytes, 0)?.whole()?;
        let index = if index < 0 && negative { index + extent } else { index };
        (0..extent).contains(&index).then_some(index)
    }
}
