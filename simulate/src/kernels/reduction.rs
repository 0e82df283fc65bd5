//! Kernels that reduce dimensions of a tensor: largest, smallest, sum, `all` and `any`.

use alloc::vec::Vec;

use super::arguments::Arguments;
use super::number::{Number, Type};
use super::reduce_op::{Neutral, ReduceOp};
use super::{Computed, Effect, MOST_UNSET, Trust};
use crate::device::values;

/// Kernel that reduces dimensions of a tensor.
pub(super) struct Reduction {
    operator: Operator,
    element: Type,
    result: Type,
    /// Type of what the elements are added to.
    first: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Largest,
    Smallest,
    Sum,
    All,
    Any,
}

/// Beginning of the kernels' names.
pub(super) const KERNEL: &str = "_ZN2at6native13reduce_kernelILi";
/// What comes before the types of element and result.
pub(super) const STRUCTURE: &str = "NS0_8ReduceOpI";
/// What comes before the types of a closure's arguments.
const CLOSURE: &str = "EUl";
/// Names that follow the types of the element and of the result.
const OPERATORS: [(&str, Operator); 5] = [
    ("NS0_13MaxNanFunctorI", Operator::Largest),
    ("NS0_13MinNanFunctorI", Operator::Smallest),
    ("ZNS0_11sum_functorI", Operator::Sum),
    ("ZZZNS0_15and_kernel_cudaE", Operator::All),
    ("ZZZNS0_14or_kernel_cudaE", Operator::Any),
];

impl Operator {
    fn apply(self, one: i64, other: i64) -> i64 {
        match self {
            Self::Largest => one.max(other),
            Self::Smallest => one.min(other),
            Self::Sum => one.wrapping_add(other),
            Self::All => (one != 0 && other != 0).into(),
            Self::Any => (one != 0 || other != 0).into(),
        }
    }

    /// True for lengths, which also follow from values that are not known. Whether a condition holds does not.
    fn measures(self) -> bool {
        matches!(self, Self::Largest | Self::Smallest | Self::Sum)
    }
}

impl Reduction {
    pub(super) fn named(name: &str) -> Option<Self> {
        let structure = name.strip_prefix(KERNEL)?.split_once(STRUCTURE)?.1;
        let (element, rest) = Type::named(structure)?;
        let (result, rest) = Type::named(rest.strip_prefix("NS0_14func_wrapper_tI")?)?;
        let (_, operator) = OPERATORS.iter().find(|(part, _)| rest.starts_with(part))?;
        // A closure that combines conditions says which types it takes; the rest takes elements only.
        let first = match rest.split_once(CLOSURE) {
            Some((_, types)) => Type::named(types)?.0,
            None => element,
        };
        let known = match operator {
            Operator::All | Operator::Any => result == Type::Bool || result.is_whole(),
            _ => element.is_whole() && element == result,
        };
        known.then_some(Self { operator: *operator, element, result, first })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let launch = ReduceOp::of(arguments, Neutral::Number(self.first))?;
        let mut effects = Vec::new();
        for index in 0..launch.count {
            let at = launch.destinations[0] + launch.result(index)?;
            let effect = match self.reduced(&launch, index) {
                Some(computed) => Effect::Set(at, computed),
                None => Effect::Forget(at, self.result.size() as u64),
            };
            effects.push(effect);
        }
        Some(effects)
    }

    /// One result. None where an element is not known.
    fn reduced(&self, launch: &ReduceOp<'_>, result: u32) -> Option<Computed> {
        let mut reduced: Option<i64> = None;
        let mut trust = Trust::Known;
        for index in 0..launch.of_each {
            let found = values::read_all(launch.element(result, index)?, self.element.size())?;
            if found.trust == Trust::Unset && !(self.operator.measures() && launch.of_each as usize <= MOST_UNSET) {
                return None;
            }
            let element = self.element.read(&found.bytes, 0)?;
            let element = match self.operator {
                Operator::All | Operator::Any => (!element.is_zero()).into(),
                _ => element.whole()?,
            };
            reduced = Some(reduced.map_or(element, |before| self.operator.apply(before, element)));
            trust = trust.max(found.trust);
        }
        let bytes = self.result.bytes(Number::Whole(reduced?))?;
        Some(Computed { bytes, trust })
    }
}
