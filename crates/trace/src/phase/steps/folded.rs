//! Calls of optimizers that make up one step.
//!
//! A step may call several optimizers. Where one function trains each of several models, their rounds look like steps, and metrics or
//! validation may be in every Nth round. So only the distance from one call of an optimizer to its next counts. The recorders note
//! which optimizer is called; without that, names, backward passes and gradients show how many calls a step has at least, and exactly
//! where the program frees gradients before each pass.

use std::collections::BTreeMap;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::rounds::Rounds;
use super::{
    AllocationCourse, CallsOfStep, FEWEST_CHANGES, FoundBy, Occurrence, Step, StepName, Steps, nearly_all, outermost,
};
use crate::phase::ZERO_GRAD;
use crate::stack::SnapshotCode;

impl Steps {
    /// Steps of as many calls of optimizers as there are from one call of an optimizer to its next: of the one that is called least
    /// often, as more bytes are left behind per step then.
    pub(super) fn of_optimizers(
        marks: &[&Occurrence],
        course: &AllocationCourse,
        code: &SnapshotCode<'_>,
    ) -> Option<Self> {
        let calls = outermost(marks, Occurrence::is_step_of_optimizer);
        // A new optimizer for each call shows nothing.
        let noted = noted(marks, &calls, &course.optimizers).map(|numbers| distances_noted(&numbers));
        let noted = noted.filter(|(_, again)| *again > 0);
        let steps: Vec<Step> = calls.into_iter().map(|at| Step::of(marks[at])).collect();
        // A program that frees gradients before its first pass frees those of each model before its next one.
        let says = noted.is_some() || frees_gradients_first(marks);
        let (distances, shown) = noted.unwrap_or_else(|| distances_seen(&steps, course, code));
        let calls = CallsOfStep::new(&distances, says.then_some(shown));
        let how = FoundBy::Optimizers(calls);
        let count = calls.count;
        (!steps.is_empty()).then(|| Self { how, steps: steps.into_iter().step_by(count).collect() })
    }
}

impl CallsOfStep {
    /// As many as from one call of an optimizer to its next. `shown` is the number of distances that the recording shows for certain,
    /// if any are.
    fn new(distances: &[usize], shown: Option<usize>) -> Self {
        let count = recurring(distances);
        let later = &distances[count.min(distances.len())..];
        let alike = distances.iter().zip(later).filter(|(distance, later)| distance == later).count();
        // The distances of the first round are 0.
        let is_regular = nearly_all(alike + count, later.len());
        let farther = distances.iter().filter(|&&distance| distance > count).count();
        let is_known = shown.is_some_and(|shown| nearly_all(shown, later.len())) && farther <= 1;
        Self { count: if is_regular { count } else { 1 }, may_be_more: !(is_known && is_regular) }
    }
}

/// True if gradients are freed before the first call, and not after the last one.
fn frees_gradients_first(marks: &[&Occurrence]) -> bool {
    let mut marks = marks.iter().filter(|mark| mark.is_step_of_optimizer() || mark.is_annotated(ZERO_GRAD));
    let ends = marks.next().zip(marks.next_back());
    ends.is_some_and(|(first, last)| !first.is_step_of_optimizer() && last.is_step_of_optimizer())
}

/// The numbers of the optimizers that are called there, if the recorder noted them. It notes calls within others as well, and each of
/// several calls that are one phase.
fn noted(marks: &[&Occurrence], calls: &[usize], numbers: &[u64]) -> Option<Vec<u64>> {
    let all: Vec<usize> = (0..marks.len()).filter(|&at| marks[at].is_step_of_optimizer()).collect();
    let joined =
        numbers.len().checked_div(all.len()).filter(|joined| *joined > 0 && joined * all.len() == numbers.len())?;
    Some(calls.iter().map(|call| numbers[joined * all.partition_point(|at| at < call)]).collect())
}

/// The distances of calls whose optimizers were noted, and the number of those that are not the first of their optimizer.
fn distances_noted(numbers: &[u64]) -> (Vec<usize>, usize) {
    let distances = distances(numbers);
    let again = distances.iter().filter(|distance| **distance > 0).count();
    (distances, again)
}

/// For each call, the number of calls since the previous one of the same optimizer; 0 for the first.
fn distances<T: Eq + Hash>(optimizers: &[T]) -> Vec<usize> {
    let mut latest: FxHashMap<&T, usize> = FxHashMap::default();
    let distances =
        optimizers.iter().enumerate().map(|(call, of)| latest.insert(of, call).map_or(0, |last| call - last));
    distances.collect()
}

/// The largest distance that goes on throughout the history. Fewer calls show none.
fn recurring(distances: &[usize]) -> usize {
    let mut largest = distances.to_vec();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let mut found = (1..).zip(&largest).skip(FEWEST_CHANGES - 1);
    found.find(|(count, distance)| nearly_all(count * **distance, distances.len())).map_or(1, |(_, distance)| *distance)
}

/// The least distances that the history shows where optimizers of one name may be several: a step has a backward pass, and the next
/// one of the same model frees its gradients. The second value counts the calls
/// whose remaining blocks are all freed before the same later call.
fn distances_seen(steps: &[Step], course: &AllocationCourse, code: &SnapshotCode<'_>) -> (Vec<usize>, usize) {
    let names: Vec<&StepName> = steps.iter().map(|step| &step.name).collect();
    let by_name = distances(&names);
    let begins: Vec<usize> = steps.iter().map(|step| step.from.count()).collect();
    let known = Rounds::new(course, code);
    let mut latest = 0;
    let mut freed = 0;
    let distances = by_name.into_iter().enumerate().map(|(call, by_name)| {
        let from = call.checked_sub(1).map_or(0, |before| begins[before]);
        let mut gradients = known.backward(from..begins[call]).peekable();
        if gradients.peek().is_none() {
            return by_name;
        }
        let by_pass = call - std::mem::replace(&mut latest, call);
        let mut held: BTreeMap<usize, u64> = BTreeMap::new();
        for one in gradients {
            let until = begins.partition_point(|&begin| begin < one.freed.count());
            if (call..begins.len()).contains(&until) {
                *held.entry(until - call).or_default() += one.requested;
            }
        }
        held.remove(&0);
        freed += usize::from(held.len() == 1);
        let by_gradients = held.into_iter().max_by_key(|(_, bytes)| *bytes);
        by_name.max(by_pass).max(by_gradients.map_or(0, |(calls, _)| calls))
    });
    (distances.collect(), freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls_of_step(optimizers: &str) -> usize {
        recurring(&distances(optimizers.as_bytes()))
    }

    #[test]
    fn a_step_lasts_until_the_optimizer_that_is_called_least_often_is_called_again() {
        for (optimizers, count) in [
            ("a".repeat(12), 1),
            ("ab".repeat(3), 2),
            ("abcd".repeat(12), 4),
            ("aaaaab".repeat(6), 6),
            // One model after the other.
            ("a".repeat(12) + &"b".repeat(12), 1),
            ("ab".repeat(12) + &"cd".repeat(12), 2),
            // One that is called now and then.
            ("ab".repeat(10) + "c" + &"ab".repeat(10) + "c", 2),
            (String::new(), 1),
        ] {
            assert_eq!(calls_of_step(&optimizers), count, "{optimizers}");
        }
    }

    #[test]
    fn calls_in_no_order_are_one_to_a_step_or_more() {
        let of = |optimizers: &str| {
            let (distances, again) = distances_noted(&optimizers.bytes().map(u64::from).collect::<Vec<u64>>());
            let calls = CallsOfStep::new(&distances, Some(again));
            (calls.count, calls.may_be_more)
        };
        assert_eq!(of(&"abcd".repeat(6)), (4, false));
        assert_eq!(of("abcddbcaacbdbdaccabddcab"), (1, true));
        assert_eq!(of("abcdefghijkl"), (1, true), "a new one for each call");
    }
}
