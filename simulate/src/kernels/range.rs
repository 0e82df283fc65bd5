//! `torch.arange` of whole numbers.

use alloc::vec::Vec;

use super::arguments::{Arguments, long};
use super::function::UNUSED_ADDRESS;
use super::number::{Number, Type};
use super::{Computed, Effect, MOST_COMPUTED, Trust};

/// Kernel that writes a range.
pub(super) struct Range {
    element: Type,
}

/// Parts of the kernels' names: PyTorch compiles one for each type, in this order, from one place.
const KERNEL: &str = "29elementwise_kernel_with_indexI";
const FUNCTION: &str = "ZZZN2at6native15arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE";
const ELEMENTS: [(&str, Type); 2] =
    [("1_clEvEUllE_EEvT_T0_PN15", Type::Signed(4)), ("2_clEvEUllE_EEvT_T0_PN15", Type::Signed(8))];

/// Bytes of the closure: start and step.
const CLOSURE: usize = 16 + UNUSED_ADDRESS;

impl Range {
    pub(super) fn named(name: &str) -> Option<Self> {
        let (_, function) = name.split_once(KERNEL)?;
        let of_element = Type::named(function)?.1.strip_prefix(FUNCTION)?;
        let (_, element) = ELEMENTS.iter().find(|(part, _)| of_element.starts_with(part))?;
        Some(Self { element: *element })
    }

    /// The arguments are the count, start and step, and the address.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Effect> {
        let count = arguments.count(0)?;
        let range = arguments.sized(1, CLOSURE)?;
        let start = long(range, 0)? as i64;
        let step = long(range, 8)? as i64;
        let at = long(arguments.sized(2, 8)?, 0)?;
        let size = count.checked_mul(self.element.size())?;
        if size > MOST_COMPUTED {
            return Some(Effect::Forget(at, size as u64));
        }
        let mut bytes = Vec::new();
        for index in 0..count as i64 {
            bytes.extend(self.element.bytes(Number::Whole(start.wrapping_add(step.wrapping_mul(index))))?);
        }
        Some(Effect::Set(at, Computed { bytes, trust: Trust::Known }))
    }
}
