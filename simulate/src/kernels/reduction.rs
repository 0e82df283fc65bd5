//! Kernels that reduce dimensions of a tensor: largest, smallest, sum, `all` and `any`.

use alloc::vec::Vec;

use super::arguments::{Arguments, long, word};
use super::number::{Number, Type};
use super::offsets::Offsets;
use super::{Computed, Effect, MOST_COMPUTED, MOST_UNSET, Trust};
use crate::device::values;

/// Kernel that reduces dimensions of a tensor.
pub(super) struct Reduction {
    operator: Operator,
    element: Type,
    result: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Largest,
    Smallest,
    Sum,
    All,
    Any,
}

const KERNEL: &str = "_ZN2at6native13reduce_kernelILi";
const STRUCTURE: &str = "NS0_8ReduceOpI";
/// Names that follow the types of the element and of the result.
const OPERATORS: [(&str, Operator); 5] = [
    ("NS0_13MaxNanFunctorI", Operator::Largest),
    ("NS0_13MinNanFunctorI", Operator::Smallest),
    ("ZNS0_11sum_functorI", Operator::Sum),
    ("ZZZNS0_15and_kernel_cudaE", Operator::All),
    ("ZZZNS0_14or_kernel_cudaE", Operator::Any),
];

/// Bytes of the configuration of a launch.
const CONFIGURATION: usize = 64;

/// Places in the structure `ReduceOp`, which is the only argument.
struct Places {
    configuration: usize,
    elements: usize,
    results: usize,
    source: usize,
    destination: usize,
    accumulate: usize,
    is_final: usize,
    end: usize,
}

impl Places {
    /// The first byte is the operator, without contents; then comes a neutral number of the type of the result.
    fn of(result: Type) -> Self {
        let neutral = 1_usize.next_multiple_of(result.size());
        let configuration = (neutral + result.size()).next_multiple_of(4);
        let elements = configuration + CONFIGURATION;
        let results = elements + Offsets::size(1);
        let source = (results + Offsets::size(2)).next_multiple_of(8);
        // Two destinations, three buffers and an index lie between.
        let accumulate = source + 56;
        Self {
            configuration,
            elements,
            results,
            source,
            destination: source + 8,
            accumulate,
            is_final: accumulate + 1,
            end: accumulate + 8,
        }
    }
}

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

    /// The result for a single element.
    fn single(self, element: i64) -> i64 {
        match self {
            Self::All | Self::Any => (element != 0).into(),
            _ => element,
        }
    }
}

impl Reduction {
    pub(super) fn named(name: &str) -> Option<Self> {
        let structure = name.strip_prefix(KERNEL)?.split_once(STRUCTURE)?.1;
        let (element, rest) = Type::named(structure)?;
        let (result, rest) = Type::named(rest.strip_prefix("NS0_14func_wrapper_tI")?)?;
        let (_, operator) = OPERATORS.iter().find(|(part, _)| rest.starts_with(part))?;
        let whole = element.is_whole() && result.is_whole();
        let same = element == result || matches!(operator, Operator::All | Operator::Any);
        (whole && same).then_some(Self { operator: *operator, element, result })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let places = Places::of(self.result);
        let structure = arguments.sized(0, places.end)?;
        let flags = structure.get(places.accumulate..=places.is_final)?;
        let of_each = word(structure, places.configuration + 4)?;
        let count = word(structure, places.configuration + 8)?;
        if flags != [0, 1] || (of_each as usize).checked_mul(count as usize)? > MOST_COMPUTED {
            return None;
        }
        let elements = Offsets::at(structure, places.elements, 1)?;
        let results = Offsets::at(structure, places.results, 2)?;
        let source = long(structure, places.source)?;
        let destination = long(structure, places.destination)?;
        let mut effects = Vec::new();
        for index in 0..count {
            let at = destination + results.offset(index, 0)?;
            let first = source + results.offset(index, 1)?;
            let effect = match self.reduced(first, elements, of_each) {
                Some(computed) => Effect::Set(at, computed),
                None => Effect::Forget(at, self.result.size() as u64),
            };
            effects.push(effect);
        }
        Some(effects)
    }

    /// One result. None where an element is not known.
    fn reduced(&self, first: u64, elements: Offsets<'_>, count: u32) -> Option<Computed> {
        let mut result: Option<i64> = None;
        let mut trust = Trust::Known;
        for index in 0..count {
            let found = values::read_all(first + elements.offset(index, 0)?, self.element.size())?;
            if found.trust == Trust::Unset && !(self.operator.measures() && count as usize <= MOST_UNSET) {
                return None;
            }
            let element = self.element.read(&found.bytes, 0)?.whole()?;
            result = Some(result.map_or(self.operator.single(element), |result| self.operator.apply(result, element)));
            trust = trust.max(found.trust);
        }
        let bytes = self.result.bytes(Number::Whole(result?))?;
        Some(Computed { bytes, trust })
    }
}
