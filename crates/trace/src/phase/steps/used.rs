//! What forward and backward passes use: where that recurs in every round, each is a step, whatever else comes after every Nth.

use std::ops::Range;

use ptmem_snapshot::snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::folded::{CallRound, judged};
use super::rounds::Rounds;
use super::{Allocated, AllocationCourse, nearly_all};
use crate::trace::Position;

/// The forward and the backward pass of a round: what is before them, such as validation and the batch, is no part of either.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainedPass {
    /// The event of its first allocation: the first that the backward pass frees.
    first: usize,
    /// The event of the last allocation of the backward pass.
    last: usize,
}

impl TrainedPass {
    /// The passes of a round, if it has both. Without a block that the backward pass frees, the forward pass begins with the first batch.
    pub(super) fn of(round: &Range<usize>, course: &AllocationCourse, known: &Rounds<'_, '_>) -> Option<Self> {
        let allocated = course.within(round);
        let mut backward = allocated.iter().filter(|one| known.is_backward(one.stack)).map(|one| one.event);
        let begin = backward.next()?;
        let last = backward.next_back().unwrap_or(begin);
        let end = allocated.iter().map(|one| one.event).find(|&event| event > last).unwrap_or(round.end);
        let mut forward = allocated.iter().filter(|one| one.event < last && known.has_batch(one.stack));
        let earliest = forward.clone().next()?;
        let saved = forward.find(|one| (begin + 1..=end).contains(&one.freed.count()));
        Some(Self { first: saved.unwrap_or(earliest).event, last })
    }
}

/// What may use a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UsedBy {
    /// No pass: it is freed before the next one, as in validation.
    Nothing,
    /// The pass that allocates it, or the only one during which it is held.
    OnePass,
    /// All passes during which it is held: it may be an input of several models, or a result of validation.
    SeveralPasses,
}

/// The passes of a history, in order.
struct TrainedPasses(Vec<TrainedPass>);

impl TrainedPasses {
    /// The pass that allocates a block, or the next one.
    fn next(&self, one: &Allocated) -> Option<(&TrainedPass, Option<&TrainedPass>)> {
        let at = self.0.partition_point(|pass| pass.last < one.event);
        Some((self.0.get(at)?, self.0.get(at + 1)))
    }

    fn using(&self, one: &Allocated) -> UsedBy {
        let freed = one.freed.count();
        match self.next(one) {
            Some((pass, _)) if freed <= pass.first => UsedBy::Nothing,
            Some((pass, Some(after))) if one.event < pass.first && freed > after.first => UsedBy::SeveralPasses,
            Some(_) => UsedBy::OnePass,
            None => UsedBy::Nothing,
        }
    }

    /// Whether a block is an input of one pass: held around it, or allocated for it outside of the modules that it calls.
    fn is_input(&self, one: &Allocated, round: &CallRound, known: &Rounds<'_, '_>) -> bool {
        let Some((pass, _)) = self.next(one).filter(|(pass, _)| one.event <= pass.first) else { return false };
        self.using(one) == UsedBy::OnePass
            && known.has_batch(one.stack)
            && (one.event < pass.first && pass.last < one.freed.count()
                || !known.is_in_module(one.stack) && known.calls_module(&round.events))
    }

    /// Whether the pass of nearly every round has an input of its own, always of the same stack.
    fn have_inputs(&self, rounds: &[CallRound], course: &AllocationCourse, known: &Rounds<'_, '_>) -> bool {
        let mut counts: FxHashMap<Option<StackId>, usize> = FxHashMap::default();
        for round in rounds {
            let allocated = course.within(&round.events).iter();
            let inputs = allocated.filter(|one| self.is_input(one, round, known));
            let inputs: FxHashSet<Option<StackId>> = inputs.map(|one| one.stack).collect();
            inputs.into_iter().for_each(|stack| *counts.entry(stack).or_default() += 1);
        }
        counts.into_values().any(|count| nearly_all(count, rounds.len()))
    }

    /// Whether gradients of one pass outlive the next one, in more than a few rounds: then that is of another model. What is never
    /// freed may be a leak.
    fn are_of_several_models(&self, rounds: &[CallRound], course: &AllocationCourse, known: &Rounds<'_, '_>) -> bool {
        let without = rounds.iter().filter(|round| {
            let mut allocated = course.within(&round.events).iter();
            !allocated.any(|one| known.is_backward(one.stack) && self.outlives_next(one))
        });
        !nearly_all(without.count(), rounds.len())
    }

    fn outlives_next(&self, one: &Allocated) -> bool {
        let next = self.next(one).and_then(|(_, after)| after);
        one.freed < Position::NEVER && next.is_some_and(|after| after.last < one.freed.count())
    }
}

/// A stack whose blocks a pass may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct UsedStack {
    stack: Option<StackId>,
    /// In the backward pass: requested bytes of what the optimizer finds, as another model may run the same code for gradients of
    /// other sizes; 0 for the rest, whose sizes are those of the batch.
    backward: Option<u64>,
}

impl UsedStack {
    fn of(one: &Allocated, round: &CallRound, known: &Rounds<'_, '_>) -> Self {
        let is_gradient = one.freed.count() > round.events.end;
        let bytes = if is_gradient { one.requested } else { 0 };
        Self { stack: one.stack, backward: known.is_backward(one.stack).then_some(bytes) }
    }
}

/// The stacks whose blocks the passes of rounds may use.
pub(super) struct UsedStacks {
    rounds: Vec<FxHashSet<UsedStack>>,
    are_of_several_models: bool,
}

impl UsedStacks {
    /// Those of all rounds that are judged. Blocks held during several passes are not their inputs if the passes are of one model and
    /// each has an input of its own.
    pub(super) fn new(rounds: &[CallRound], course: &AllocationCourse, known: &Rounds<'_, '_>) -> Self {
        let passes = TrainedPasses(rounds.iter().filter_map(|round| round.pass).collect());
        let rounds = judged(rounds);
        let are_of_several_models = passes.are_of_several_models(rounds, course, known);
        let have_inputs = !are_of_several_models && passes.have_inputs(rounds, course, known);
        let used = rounds.iter().map(|round| {
            let allocated = course.within(&round.events).iter();
            let used = allocated.filter(|one| match passes.using(one) {
                UsedBy::Nothing => false,
                UsedBy::OnePass => true,
                UsedBy::SeveralPasses => !have_inputs,
            });
            used.map(|one| UsedStack::of(one, round, known)).collect()
        });
        Self { rounds: used.collect(), are_of_several_models }
    }

    /// The least number of rounds after which the used stacks recur, and the model, if everything recurs after `period`.
    pub(super) fn period(&self, period: usize) -> usize {
        let recurring: Vec<Vec<bool>> = self.all().filter_map(|used| self.places(used, period)).collect();
        let fewest = if self.are_of_several_models { 2 } else { 1 };
        let mut lags = (fewest..period).filter(|lag| period.is_multiple_of(*lag));
        let least = lags.find(|&lag| recurring.iter().all(|places| recurs_after(places, lag)));
        least.unwrap_or(period)
    }

    /// Whether gradients show that rounds train several models, or a stack of the backward pass, which does not recur in every round,
    /// but after `period`.
    pub(super) fn show_models(&self, period: usize) -> bool {
        let mut backward = self.all().filter(|used| used.backward.is_some());
        self.are_of_several_models
            || backward.any(|used| self.places(used, period).is_some_and(|places| !recurs_after(&places, 1)))
    }

    fn all(&self) -> impl Iterator<Item = UsedStack> {
        self.rounds.iter().flatten().copied().collect::<FxHashSet<_>>().into_iter()
    }

    /// Whether a stack is in nearly all or nearly none of the rounds at each place in a period; `None` if it comes and goes.
    fn places(&self, used: UsedStack, period: usize) -> Option<Vec<bool>> {
        let places = (0..period).map(|place| {
            let rounds = self.rounds.iter().skip(place).step_by(period);
            let having = rounds.clone().filter(|stacks| stacks.contains(&used)).count();
            let is_in = nearly_all(having, rounds.len());
            (is_in || nearly_all(rounds.len() - having, rounds.len())).then_some(is_in)
        });
        places.collect()
    }
}

fn recurs_after(places: &[bool], lag: usize) -> bool {
    places.iter().eq(places.iter().cycle().skip(lag).take(places.len()))
}
