//! Steps whose allocations grow or shrink from one to the next.

use ptmem_snapshot::snapshot::StackId;
use rustc_hash::FxHashMap;

use super::rounds::Rounds;
use super::{AllocationCourse, FEWEST_CHANGES, Steps, nearly_all};
use crate::stack::SnapshotCode;
use crate::trace::Position;

/// The bytes that one stack requests first in each step.
struct StepSizes {
    /// The event of its first allocation.
    first: usize,
    sizes: Vec<u64>,
}

impl StepSizes {
    fn rise(&self) -> bool {
        go_one_way(&self.sizes, |size, next| size < next)
    }

    fn fall(&self) -> bool {
        go_one_way(&self.sizes, |size, next| size > next)
    }
}

/// Whether values change in one direction: nearly all of them, or several and none in the other direction.
fn go_one_way(values: &[u64], is_on: fn(u64, u64) -> bool) -> bool {
    let changes = values.windows(2).filter(|pair| is_on(pair[0], pair[1])).count();
    let back = values.windows(2).filter(|pair| is_on(pair[1], pair[0])).count();
    nearly_all(changes, values.len()) || changes >= FEWEST_CHANGES && back == 0
}

impl Steps {
    fn sizes(&self, course: &AllocationCourse) -> FxHashMap<Option<StackId>, StepSizes> {
        let mut sizes: FxHashMap<_, StepSizes> = FxHashMap::default();
        let mut latest = FxHashMap::default();
        for one in &course.allocations {
            let Some(step) = self.at(Position::after(one.event)) else { continue };
            if latest.insert(one.stack, step) != Some(step) {
                let of_stack = sizes.entry(one.stack).or_insert(StepSizes { first: one.event, sizes: Vec::new() });
                of_stack.sizes.push(one.requested);
            }
        }
        sizes
    }

    /// Whether many sizes grow from step to step, or many shrink: work on one size after another, such as graphs that are
    /// captured.
    pub fn go_through_sizes(&self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> bool {
        self.are_many(course, code, StepSizes::rise) || self.are_many(course, code, StepSizes::fall)
    }

    /// Whether many sizes grow from step to step, such as those of batches that are sorted by length.
    pub fn sizes_rise(&self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> bool {
        self.are_many(course, code, StepSizes::rise)
    }

    /// Whether many sizes go one way, of those that a batch can change: gradients and optimizers have the sizes of the weights.
    fn are_many(&self, course: &AllocationCourse, code: &SnapshotCode<'_>, goes: fn(&StepSizes) -> bool) -> bool {
        let rounds = Rounds::new(course, code);
        let sizes =
            self.sizes(course).into_iter().filter(|(stack, of)| of.sizes.len() >= 3 && rounds.has_batch(*stack));
        let sizes: Vec<StepSizes> = sizes.map(|(_, sizes)| sizes).collect();
        !sizes.is_empty() && sizes.iter().filter(|of| goes(of)).count() * 2 >= sizes.len()
    }

    /// The first stack that requests more in nearly every step than in the one before, such as attention over a cache that
    /// is filled.
    pub fn growing(&self, course: &AllocationCourse) -> Option<StackId> {
        let sizes = self.sizes(course).into_iter().filter_map(|(stack, sizes)| Some((stack?, sizes)));
        let growing = sizes.filter(|(_, of)| {
            let rises = of.sizes.windows(2).filter(|pair| pair[0] < pair[1]).count();
            nearly_all(of.sizes.len(), self.steps.len()) && nearly_all(rises, of.sizes.len())
        });
        growing.min_by_key(|(_, of)| of.first).map(|(stack, _)| stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_where_none_falls() {
        let rise = |sizes: &[u64]| StepSizes { first: 0, sizes: sizes.to_vec() }.rise();
        assert!(rise(&[1, 2, 3, 4, 5, 6]));
        assert!(rise(&[1, 1, 2, 2, 3, 3, 4, 4]), "batches of the same length");
        assert!(!rise(&[1, 1, 2, 2, 3, 3]), "two steps up");
        assert!(!rise(&[1, 1, 2, 2, 3, 3, 4, 1]), "the last batch is smaller");
        assert!(!rise(&[1, 5, 2, 7, 3, 8]));
    }
}
