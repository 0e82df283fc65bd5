//! Steps that are calls of the outermost module, where the recorder notes these.

use std::cmp::Reverse;
use std::ops::Range;

use ptmem_snapshot::snapshot::OutermostCalls;

use super::rounds::Rounds;
use super::{Allocated, AllocationCourse, FEWEST, FoundBy, Step, StepName, Steps, nearly_all};
use crate::stack::SnapshotCode;
use crate::trace::Position;

/// The module that is called most often by none, or the first of several that are called equally often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledModule {
    /// Its class.
    pub name: String,
    /// The events before which its calls begin: the first allocations in them.
    begins: Vec<usize>,
}

impl CalledModule {
    pub(super) fn find(calls: &OutermostCalls, allocations: &[Allocated]) -> Option<Self> {
        let first = calls.allocated.checked_sub(allocations.len() as u64)?;
        let mut begins: Vec<Vec<usize>> = vec![Vec::new(); calls.modules.len()];
        for &[count, module] in &calls.begins {
            let place = count.checked_sub(first).and_then(|at| allocations.get(usize::try_from(at).ok()?));
            let module = usize::try_from(module).ok().and_then(|module| begins.get_mut(module));
            if let Some((place, begins)) = place.zip(module) {
                begins.push(place.event);
            }
        }
        // Threads may note calls in another order. A call that allocates nothing begins where the next one does.
        begins.iter_mut().for_each(|events| {
            events.sort_unstable();
            events.dedup();
        });
        let called = calls.modules.iter().zip(begins).filter(|(_, begins)| !begins.is_empty());
        let most = called.max_by_key(|(_, begins)| (begins.len(), Reverse(begins[0])));
        most.map(|(name, begins)| Self { name: name.clone(), begins })
    }

    /// The number of its calls that allocate.
    pub fn count(&self) -> usize {
        self.begins.len()
    }

    /// Whether its calls are enough for steps.
    pub fn is_called_enough(&self) -> bool {
        self.begins.len() >= FEWEST
    }

    /// Whether a call begins in a part of the history.
    fn begins_in(&self, events: &Range<usize>) -> bool {
        let [from, to] = [events.start, events.end].map(|event| self.begins.partition_point(|&begin| begin < event));
        from < to
    }
}

impl Steps {
    /// Whether the outermost module is called in nearly all of them: they are then no parts of one call.
    pub(super) fn hold_calls(&self, course: &AllocationCourse) -> bool {
        let Some(module) = &course.called else { return false };
        let begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).chain([course.events]).collect();
        let holding = begins.windows(2).filter(|pair| module.begins_in(&(pair[0]..pair[1]))).count();
        nearly_all(holding, self.steps.len())
    }
}

/// Steps that are calls of the outermost module. A step of training is more than a call: it has a backward pass.
pub(super) fn called(course: &AllocationCourse, code: &SnapshotCode<'_>) -> Option<Steps> {
    let module = course.called.as_ref().filter(|module| module.is_called_enough())?;
    let begins = (1..).zip(&module.begins);
    let steps = begins.map(|(number, &at)| Step { name: StepName::Call(number), from: Position::of_count(at) });
    let steps = Steps { how: FoundBy::Called(module.name.clone()), steps: steps.collect() };
    (steps.cover(course) && !Rounds::new(course, code).has_backward).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The module among calls, each the number of allocations before it and a module, of which the last five of seven are
    /// in the history, at events 0, 2, 4 …
    fn found(begins: &[[u64; 2]]) -> Option<(String, Vec<usize>)> {
        let allocations = (0..5).map(|index| Allocated {
            event: index * 2,
            stack: None,
            requested: 1,
            freed: Position::of_count(index * 2 + 2),
        });
        let modules = vec!["Encoder".to_owned(), "Decoder".to_owned()];
        let calls = OutermostCalls { modules, begins: begins.to_vec(), allocated: 7, ..OutermostCalls::default() };
        CalledModule::find(&calls, &allocations.collect::<Vec<_>>()).map(|module| (module.name, module.begins))
    }

    #[test]
    fn numbers_are_counted_back_from_the_dump() {
        assert_eq!(found(&[[0, 0], [3, 0], [5, 0], [7, 0]]), Some(("Encoder".to_owned(), vec![2, 6])));
    }

    #[test]
    fn the_module_that_is_called_most_often_makes_steps() {
        let encoder_once = [[2, 0], [3, 1], [4, 1]];
        assert_eq!(found(&encoder_once), Some(("Decoder".to_owned(), vec![2, 4])));
        let in_turn = [[2, 0], [3, 1], [4, 0], [5, 1]];
        assert_eq!(found(&in_turn), Some(("Encoder".to_owned(), vec![0, 4])));
        let without_memory = [[2, 0], [4, 1], [4, 1], [4, 1]];
        assert_eq!(found(&without_memory), Some(("Encoder".to_owned(), vec![0])));
    }

    #[test]
    fn numbers_that_cannot_be_are_left_out() {
        assert_eq!(found(&[[u64::MAX, 0], [3, 7]]), None);
    }
}
