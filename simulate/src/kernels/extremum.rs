//! Kernels that find the place of the largest or the smallest element: `argmax`, `argmin`, and `max` and `min` of a
//! dimension, which also give the element.

use alloc::vec::Vec;

use super::arguments::Arguments;
use super::number::{Number, Type};
use super::reduce_op::{Neutral, ReduceOp};
use super::reduction::{KERNEL, STRUCTURE};
use super::{Computed, Effect, Trust};
use crate::device::values;

/// Kernel that finds extreme elements.
pub(super) struct Extremum {
    element: Type,
    largest: bool,
    /// True if the element is written too: it comes first.
    with_element: bool,
}

/// Names that follow the type of the element.
const OPERATORS: [(&str, bool, bool); 4] = [
    ("NS0_9ArgMaxOpsI", true, false),
    ("NS0_9ArgMinOpsI", false, false),
    ("NS0_6MaxOpsI", true, true),
    ("NS0_6MinOpsI", false, true),
];
const INDEX: Type = Type::Signed(8);

/// The extreme element and its place.
struct Found {
    element: i64,
    place: u32,
}

impl Extremum {
    pub(super) fn named(name: &str) -> Option<Self> {
        let structure = name.strip_prefix(KERNEL)?.split_once(STRUCTURE)?.1;
        let (element, rest) = Type::named(structure)?;
        let (start, largest, with_element) = OPERATORS.iter().find(|(start, ..)| rest.starts_with(start))?;
        let (same, rest) = Type::named(&rest[start.len()..])?;
        let (result, _) = Type::named(rest.strip_prefix("EEj")?)?;
        let known = same == element && element.is_whole() && result == if *with_element { element } else { INDEX };
        known.then_some(Self { element, largest: *largest, with_element: *with_element })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let launch = ReduceOp::of(arguments, Neutral::NumberAndIndex)?;
        if !launch.is_flat() || launch.outputs != if self.with_element { 2 } else { 1 } {
            return None;
        }
        let mut effects = Vec::new();
        for result in 0..launch.count {
            let offset = launch.result(result)?;
            let (found, trust) = self.find(&launch, result).unzip();
            let element = found.as_ref().map(|found| found.element);
            let place = found.map(|found| i64::from(found.place));
            let trust = trust.unwrap_or_default();
            if self.with_element {
                effects.push(written(launch.destinations[0] + offset, self.element, element, trust)?);
                // The offset is that of an element.
                let index = offset / self.element.size() as u64;
                effects.push(written(launch.destinations[1] + index * 8, INDEX, place, trust)?);
            } else {
                effects.push(written(launch.destinations[0] + offset, INDEX, place, trust)?);
            }
        }
        Some(effects)
    }

    /// The first extreme element of a result. None where an element is not known.
    fn find(&self, launch: &ReduceOp<'_>, result: u32) -> Option<(Found, Trust)> {
        let mut best: Option<Found> = None;
        let mut trust = Trust::Known;
        for place in 0..launch.of_each {
            let known = values::known(launch.element(result, place)?, self.element.size())?;
            trust = trust.max(known.trust);
            let element = self.element.read(&known.bytes, 0)?.whole()?;
            let better = match &best {
                Some(best) if self.largest => element > best.element,
                Some(best) => element < best.element,
                None => true,
            };
            if better {
                best = Some(Found { element, place });
            }
        }
        Some((best?, trust))
    }
}

fn written(at: u64, kind: Type, number: Option<i64>, trust: Trust) -> Option<Effect> {
    let Some(number) = number else { return Some(Effect::Forget(at, kind.size() as u64)) };
    let bytes = kind.bytes(Number::Whole(number))?;
    Some(Effect::Set(at, Computed { bytes, trust }))
}
