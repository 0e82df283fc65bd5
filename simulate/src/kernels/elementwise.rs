//! Kernels that compute each element of a tensor from the same elements of others.

use alloc::vec::Vec;
use core::ffi::CStr;

use super::arguments::{Arguments, long};
use super::function::{Function, UNUSED_ADDRESS};
use super::number::Type;
use super::offsets::Offsets;
use super::{Computed, Effect, MOST_COMPUTED, MOST_SCATTERED, MOST_UNSET, Trust};
use crate::code;
use crate::device::values;

/// Kernel that computes each element for itself.
pub(super) struct Elementwise {
    layout: Layout,
    function: Function,
}

/// Places of the elements and of the function's own numbers among the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One after the other. The arguments are the count, the function, and the addresses.
    Contiguous,
    /// The same; two more arguments, the sixth and the seventh, say from and to which types elements are converted.
    Converting,
    /// At any places. The arguments are the count and a closure, which has the places, the addresses and the function.
    Strided,
    /// The same; the closure ends with the types to and from which elements are converted.
    StridedConverting,
}

const VECTORIZED: &str = "_ZN2at6native29vectorized_elementwise_kernelILi";
const UNROLLED: &str = "_ZN2at6native27unrolled_elementwise_kernelI";
const STRIDED: &str = "_ZN2at6native18elementwise_kernelILi";
const CLOSURE: &str = "ZNS0_22gpu_kernel_impl_nocastI";
/// The closure that converts. Where no kernel has the other one (PyTorch 2.0 and 2.1), this is also one that does not.
const CONVERTING_CLOSURE: &str = "ZNS0_15gpu_kernel_implI";
const OTHER_CLOSURE: &CStr = c"22gpu_kernel_impl_nocastI";

impl Layout {
    /// The layout, and the part of the name that is about the function.
    fn named(name: &str) -> Option<(Self, &str)> {
        if let Some(rest) = name.strip_prefix(VECTORIZED) {
            return Some((Self::Contiguous, rest.split_once('E')?.1));
        }
        if let Some(rest) = name.strip_prefix(STRIDED) {
            if let Some((_, function)) = rest.split_once(CONVERTING_CLOSURE) {
                return code::has_kernel(OTHER_CLOSURE).then_some((Self::StridedConverting, function));
            }
            return Some((Self::Strided, rest.split_once(CLOSURE)?.1));
        }
        let rest = name.strip_prefix(UNROLLED)?;
        if rest.contains("16OffsetCalculator") {
            return None;
        }
        let converting = rest.contains("12LoadWithCast") || rest.contains("13StoreWithCast");
        Some((if converting { Self::Converting } else { Self::Contiguous }, rest))
    }
}

/// A tensor in a launch: its address, the type of its elements, and where they lie if not one after the other.
#[derive(Clone, Copy)]
struct Tensor<'a> {
    at: u64,
    element: Type,
    offsets: Option<(Offsets<'a>, usize)>,
}

impl Tensor<'_> {
    /// Address of an element.
    fn place(&self, index: usize) -> Option<u64> {
        let offset = match self.offsets {
            Some((offsets, tensor)) => offsets.offset(index.try_into().ok()?, tensor)?,
            None => (index * self.element.size()) as u64,
        };
        Some(self.at + offset)
    }

    /// The values of all elements. None where one of many is not set.
    fn values(&self, count: usize) -> Option<Computed> {
        if self.offsets.is_none() {
            let size = count * self.element.size();
            let wanted = count <= MOST_UNSET || values::trust(self.at, size as u64) < Trust::Unset;
            return if wanted { values::read_all(self.at, size) } else { None };
        }
        let mut all = Computed::default();
        for index in 0..count {
            let element = values::read_all(self.place(index)?, self.element.size())?;
            all.bytes.extend(element.bytes);
            all.trust = all.trust.max(element.trust);
            if all.trust == Trust::Unset && count > MOST_UNSET {
                return None;
            }
        }
        Some(all)
    }
}

/// A launch: the function's own numbers, the result and the operands.
struct Work<'a> {
    count: usize,
    own: &'a [u8],
    result: Tensor<'a>,
    operands: Vec<Tensor<'a>>,
}

impl Elementwise {
    pub(super) fn named(name: &str) -> Option<Self> {
        let (layout, function) = Layout::named(name)?;
        Some(Self { layout, function: Function::named(function)? })
    }

    /// Number of tensors.
    fn tensors(&self) -> usize {
        1 + self.function.operands()
    }

    /// Type of a tensor's elements in the function: the result is the first.
    fn element(&self, tensor: usize) -> Type {
        match tensor.checked_sub(1) {
            Some(operand) => self.function.operand(operand),
            None => self.function.result,
        }
    }

    fn work<'a>(&self, arguments: &Arguments<'a>) -> Option<Work<'a>> {
        let mut tensors = match self.layout {
            Layout::Strided | Layout::StridedConverting => self.strided(arguments.bytes(1)?)?,
            Layout::Contiguous | Layout::Converting => self.contiguous(arguments)?,
        };
        let result = tensors.remove(0);
        let own = match self.layout {
            Layout::Strided | Layout::StridedConverting => self.own_in_closure(arguments.bytes(1)?)?,
            Layout::Contiguous | Layout::Converting => arguments.sized(1, self.function.size())?,
        };
        Some(Work { count: arguments.count(0)?, own, result, operands: tensors })
    }

    fn contiguous<'a>(&self, arguments: &Arguments<'a>) -> Option<Vec<Tensor<'a>>> {
        let places = arguments.sized(2, 8 * self.tensors())?;
        let mut tensors = Vec::new();
        for index in 0..self.tensors() {
            let element = match self.layout {
                Layout::Converting => converted(arguments, index)?,
                _ => self.element(index),
            };
            tensors.push(Tensor { at: long(places, 8 * index)?, element, offsets: None });
        }
        Some(tensors)
    }

    /// Place of the tensors' addresses in a closure: behind where their elements lie.
    fn addresses_in_closure(&self) -> usize {
        Offsets::size(self.tensors()).next_multiple_of(8)
    }

    /// The tensors in a closure.
    fn strided<'a>(&self, closure: &'a [u8]) -> Option<Vec<Tensor<'a>>> {
        let offsets = Offsets::at(closure, 0, self.tensors())?;
        let mut tensors = Vec::new();
        for index in 0..self.tensors() {
            let at = long(closure, self.addresses_in_closure() + 8 * index)?;
            let element = match self.layout {
                Layout::StridedConverting => Type::of_scalar_type(*closure.get(self.own_end() + index)?)?,
                _ => self.element(index),
            };
            tensors.push(Tensor { at, element, offsets: Some((offsets, index)) });
        }
        Some(tensors)
    }

    /// Place of the function's own numbers in a closure: behind the tensors.
    fn own_in_closure_at(&self) -> usize {
        self.addresses_in_closure() + 8 * self.tensors()
    }

    /// End of the function's own numbers in a closure.
    fn own_end(&self) -> usize {
        self.own_in_closure_at() + self.function.size()
    }

    /// The function's own numbers in a closure. Types can come behind them, and then an address that is not used.
    fn own_in_closure<'a>(&self, closure: &'a [u8]) -> Option<&'a [u8]> {
        let types = if self.layout == Layout::StridedConverting { self.tensors() } else { 0 };
        let end = (self.own_end() + types).next_multiple_of(8) + UNUSED_ADDRESS;
        if closure.len() == end { closure.get(self.own_in_closure_at()..self.own_end()) } else { None }
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let work = self.work(arguments)?;
        let size = work.count.checked_mul(work.result.element.size())?;
        if work.result.offsets.is_none() {
            if let Some(byte) = self.function.filling_byte(work.own) {
                return Some(alloc::vec![Effect::Fill(work.result.at, byte, size as u64)]);
            }
        } else if size > MOST_SCATTERED {
            return None;
        }
        let computed = if size > MOST_COMPUTED { None } else { self.computed(&work) };
        match computed {
            Some(computed) => written(&work, &computed),
            None => forgotten(&work),
        }
    }

    /// Bytes of the result. None where an operand is not known.
    fn computed(&self, work: &Work<'_>) -> Option<Computed> {
        let operands: Vec<Computed> =
            work.operands.iter().map(|tensor| tensor.values(work.count)).collect::<Option<_>>()?;
        let trust = operands.iter().map(|operand| operand.trust).max().unwrap_or_default();
        if trust == Trust::Unset && !(self.function.moves() && work.count <= MOST_UNSET) {
            return None;
        }
        let mut bytes = Vec::new();
        for index in 0..work.count {
            let mut numbers = Vec::new();
            for (place, (tensor, values)) in work.operands.iter().zip(&operands).enumerate() {
                let number = tensor.element.read(&values.bytes, index * tensor.element.size())?;
                numbers.push(self.function.operand(place).convert(number)?);
            }
            let result = work.result.element;
            let number = self.function.result.convert(self.function.apply(work.own, &numbers)?)?;
            bytes.extend(result.bytes(result.convert(number)?)?);
        }
        Some(Computed { bytes, trust })
    }
}

/// The type that a converting kernel reads from a tensor, or writes to the result: the number of its `ScalarType`.
fn converted(arguments: &Arguments<'_>, tensor: usize) -> Option<Type> {
    let numbers = arguments.bytes(if tensor == 0 { 6 } else { 5 })?;
    Type::of_scalar_type(*numbers.get(tensor.saturating_sub(1))?)
}

fn written(work: &Work<'_>, computed: &Computed) -> Option<Vec<Effect>> {
    if work.result.offsets.is_none() {
        return Some(alloc::vec![Effect::Set(work.result.at, computed.clone())]);
    }
    let mut effects = Vec::new();
    for (index, bytes) in computed.bytes.chunks_exact(work.result.element.size()).enumerate() {
        let element = Computed { bytes: bytes.into(), trust: computed.trust };
        effects.push(Effect::Set(work.result.place(index)?, element));
    }
    Some(effects)
}

fn forgotten(work: &Work<'_>) -> Option<Vec<Effect>> {
    let element = work.result.element.size();
    if work.result.offsets.is_none() {
        return Some(alloc::vec![Effect::Forget(work.result.at, (work.count * element) as u64)]);
    }
    (0..work.count).map(|index| Some(Effect::Forget(work.result.place(index)?, element as u64))).collect()
}
