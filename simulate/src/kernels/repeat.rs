//! The kernel of `torch.repeat_interleave`, which writes each index as often as a tensor says.

use alloc::vec::Vec;

use super::arguments::Arguments;
use super::number::{Number, Type};
use super::pattern::type_in;
use super::{Computed, Effect, MOST_SCATTERED};
use crate::device::values;

/// Kernel that repeats indices.
pub(super) struct Repeat {
    element: Type,
}

const NAME: &str = "_Z19compute_cuda_kernelI?E";
/// Type of the sums.
const SUM: Type = Type::Signed(8);

impl Repeat {
    pub(super) fn named(name: &str) -> Option<Self> {
        let element = type_in(NAME, name).filter(|element| element.is_whole())?;
        Some(Self { element })
    }

    /// The arguments are the addresses of the numbers of repeats, of their sums, and of the result, the number of
    /// numbers, and the elements of the result.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let count = arguments.count(3)?;
        let total = arguments.count(4)?;
        let largest = count.max(total).checked_mul(SUM.size())?;
        if arguments.number() != 5 || largest > MOST_SCATTERED {
            return None;
        }
        let repeats = values::known(arguments.address(0)?, count * self.element.size())?;
        let sums = values::known(arguments.address(1)?, count * SUM.size())?;
        let mut bytes = Vec::new();
        for index in 0..count {
            let repeat = self.element.read(&repeats.bytes, index * self.element.size())?.whole()?;
            for _ in 0..usize::try_from(repeat).ok()? {
                bytes.extend(self.element.bytes(Number::Whole(index as i64))?);
            }
            let end = SUM.read(&sums.bytes, index * SUM.size())?.whole()? as usize;
            if bytes.len() > MOST_SCATTERED || bytes.len() != end * self.element.size() {
                return None;
            }
        }
        Some(alloc::vec![Effect::Set(arguments.address(2)?, Computed { bytes, trust: repeats.trust.max(sums.trust) })])
    }
}
