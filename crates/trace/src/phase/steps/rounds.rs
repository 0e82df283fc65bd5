//! Steps without a name: by the stacks that allocate again and again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use ptmem_snapshot::snapshot::{FrameId, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Allocated, AllocationCourse, FEWEST, FoundBy, LONGEST_REST, Step, StepName, Steps, nearly_all};
use crate::stack::{Pass, SnapshotCode};
use crate::trace::Position;

/// Counts that are tried: each costs a walk over the history.
const MOST_CANDIDATES: usize = 16;

/// More rounds than these are not steps: nobody records as many, and each takes a name and a row.
const MOST_ROUNDS: usize = 65_536;

/// Stacks that are tried as the one that begins a step.
const MOST_CLOCKS: usize = 8;

/// The file that runs modules.
pub(super) const MODULE: &str = "torch/nn/modules/module.py";

/// Steps without a name: in a training loop most lines allocate once, or some fixed number of times, in every round.
/// The stack that comes first among those that allocate equally often, each between two of the others, begins a step.
///
/// Layers recur as well, and so does loading weights. They are distinguished from steps by the events between two
/// allocations of a stack: all within one call of a module, without a backward pass although the recording has one, or
/// without a free. A round of inference is one call of the model, though: see [`Rounds::are_whole_calls`].
pub(super) fn recurring(course: &AllocationCourse, code: &SnapshotCode<'_>) -> Option<Steps> {
    let rounds = Rounds::new(course, code);
    let mut often: BTreeMap<usize, Vec<StackId>> = BTreeMap::new();
    for (&stack, allocations) in &rounds.of_stack {
        if (FEWEST..=MOST_ROUNDS).contains(&allocations.len()) && rounds.may_begin(stack) {
            often.entry(allocations.len()).or_default().push(stack);
        }
    }
    let mut often: Vec<(usize, Vec<StackId>)> = often.into_iter().collect();
    often.sort_by_key(|(count, stacks)| (Reverse(stacks.len()), *count));
    often.truncate(MOST_CANDIDATES);
    let mut clocks: Vec<StackId> = often.into_iter().filter_map(|(_, stacks)| rounds.clock(stacks)).collect();
    let clock = clocks.iter().copied().find(|clock| rounds.are_steps(&rounds.of_stack[clock])).or_else(|| {
        // The longest period holds the shorter ones: those of the layers.
        clocks.sort_by_key(|clock| (rounds.of_stack[clock].len(), rounds.of_stack[clock].first().copied()));
        clocks.iter().copied().find(|&clock| rounds.are_whole_calls(clock))
    })?;
    let begins = (1..).zip(&rounds.of_stack[&clock]);
    let steps = begins.map(|(number, &at)| Step { name: StepName::Step(number), from: Position::of_count(at) });
    Some(Steps { how: FoundBy::Recurring(code.label(clock)), steps: steps.collect() })
}

/// The allocations of a history, by stack.
pub(super) struct Rounds<'c, 't> {
    course: &'c AllocationCourse,
    code: &'c SnapshotCode<'t>,
    /// The indices of the events that allocate.
    of_stack: FxHashMap<StackId, Vec<usize>>,
    /// True if an allocation was made in a backward pass.
    pub(super) has_backward: bool,
    /// Of `None`, the allocations without frames.
    pub(super) kinds: FxHashMap<Option<StackId>, StackInRounds>,
}

/// Facts about a stack by which steps are recognised.
pub(super) struct StackInRounds {
    /// Its Python frames, outermost first.
    pub(super) python: Vec<FrameId>,
    backward: bool,
    /// Whether it allocates neither in a backward pass nor in an optimizer.
    has_batch: bool,
}

impl<'c, 't> Rounds<'c, 't> {
    pub(super) fn new(course: &'c AllocationCourse, code: &'c SnapshotCode<'t>) -> Self {
        let mut of_stack: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        let mut kinds = FxHashMap::default();
        for one in &course.allocations {
            if let Some(stack) = one.stack {
                of_stack.entry(stack).or_default().push(one.event);
            }
            kinds.entry(one.stack).or_insert_with(|| StackInRounds::of(one.stack, code));
        }
        let has_python = kinds.values().any(|kind| !kind.python.is_empty());
        let has_backward = has_python && kinds.values().any(|kind| kind.backward);
        Self { course, code, of_stack, has_backward, kinds }
    }

    /// The stack that allocates most often within calls of modules, and how often, if that is often enough for steps. A step of
    /// training has a backward pass, which is in no call.
    pub(super) fn most_often_in_calls(&self) -> Option<(StackId, usize)> {
        let inside = self.of_stack.iter().filter(|(stack, at)| {
            let kind = self.kinds.get(&Some(**stack)).filter(|_| at.len() >= FEWEST && !self.has_backward);
            kind.is_some_and(|kind| kind.python.iter().any(|&frame| runs_module(self.code, frame)))
        });
        let most = inside.max_by_key(|(_, at)| (at.len(), Reverse(at.first().copied())))?;
        Some((*most.0, most.1.len()))
    }

    /// Whether a stack may begin a step: it runs Python, and no backward pass, which ends one.
    fn may_begin(&self, stack: StackId) -> bool {
        self.kinds.get(&Some(stack)).is_some_and(|kind| !kind.python.is_empty() && !kind.backward)
    }

    /// The first of several stacks that allocate equally often with which most of the others take turns, each once in
    /// nearly every round. The rest allocate equally often by chance.
    fn clock(&self, mut stacks: Vec<StackId>) -> Option<StackId> {
        stacks.sort_by_key(|stack| self.of_stack[stack].first().copied());
        let candidates = stacks.iter().take(MOST_CLOCKS);
        let counts: Vec<(StackId, usize)> = candidates.map(|&clock| (clock, self.turns(clock, &stacks))).collect();
        let most = counts.iter().map(|(_, turns)| *turns).max().filter(|&most| most * 2 >= stacks.len())?;
        counts.into_iter().find(|(_, turns)| *turns == most).map(|(stack, _)| stack)
    }

    /// The number of stacks that take turns with one: they allocate once in nearly every round that it begins.
    fn turns(&self, clock: StackId, stacks: &[StackId]) -> usize {
        let begins = &self.of_stack[&clock];
        let ends = begins.iter().skip(1).chain([&usize::MAX]);
        let rounds: Vec<_> = begins.iter().zip(ends).map(|(&begin, &end)| begin..end).collect();
        stacks.iter().filter(|stack| self.takes_turns(**stack, &rounds)).count()
    }

    fn takes_turns(&self, stack: StackId, rounds: &[Range<usize>]) -> bool {
        let allocations = self.of_stack[&stack].iter().zip(rounds);
        let in_turn = allocations.filter(|(at, round)| round.contains(at)).count();
        nearly_all(in_turn, rounds.len())
    }

    /// Whether rounds are steps, not the layers within one.
    pub(super) fn are_steps(&self, begins: &[usize]) -> bool {
        let rounds = begins.windows(2).map(|pair| pair[0]..pair[1]);
        let plausible = rounds.filter(|round| self.is_step(round)).count();
        begins.len() > 1 && nearly_all(plausible, begins.len() - 1) && !self.are_over(begins)
    }

    /// Whether rounds stop long before the end: then they are a part of the history, such as loading weights. Frees
    /// after the last round do not count against that: they may free everything that the rounds kept.
    fn are_over(&self, begins: &[usize]) -> bool {
        let longest = begins.windows(2).map(|pair| self.course.within(&(pair[0]..pair[1])).len()).max().unwrap_or(0);
        let last = begins.last().copied().unwrap_or_default();
        self.course.within(&(last..self.course.events)).len() > longest.saturating_mul(LONGEST_REST)
    }

    /// Whether each round is a call of the model and everything within that call belongs to some round. Layers within
    /// one call do not satisfy this: the code before the first and after the last layer runs once.
    fn are_whole_calls(&self, clock: StackId) -> bool {
        let begins = &self.of_stack[&clock];
        let (Some(&first), Some(&last)) = (begins.first(), begins.last()) else { return false };
        let Some(call) = self.kinds.get(&Some(clock)).and_then(|kind| first_call(self.code, &kind.python)) else {
            return false;
        };
        let rounds: Vec<Range<usize>> = begins.windows(2).map(|pair| pair[0]..pair[1]).collect();
        let whole = rounds.iter().filter(|round| self.frees_and_ends(round)).count();
        let happens_once = self
            .places_within(call)
            .values()
            .any(|allocations| allocations.iter().all(|&at| at < first) || allocations.iter().all(|&at| at > last));
        rounds.len() + 1 >= FEWEST
            && nearly_all(whole, rounds.len())
            && !self.are_over(begins)
            && !happens_once
            && self.calls_in_common(&rounds) < 2
    }

    /// The events that allocate within a call, by their Python frames. (A line may allocate once more in its first call, such
    /// as a workspace of cuBLAS.)
    fn places_within(&self, call: &[FrameId]) -> FxHashMap<&[FrameId], Vec<usize>> {
        let mut places: FxHashMap<&[FrameId], Vec<usize>> = FxHashMap::default();
        for (stack, kind) in self.kinds.iter().filter(|(_, kind)| kind.python.starts_with(call)) {
            let allocations = stack.iter().flat_map(|stack| &self.of_stack[stack]);
            places.entry(&kind.python).or_default().extend(allocations);
        }
        places
    }

    /// Whether a stack allocates neither in a backward pass nor in an optimizer.
    pub(super) fn has_batch(&self, stack: Option<StackId>) -> bool {
        self.kinds.get(&stack).is_some_and(|kind| kind.has_batch)
    }

    /// The allocations of backward passes in a part of the history.
    pub(super) fn backward(&self, events: Range<usize>) -> impl Iterator<Item = &Allocated> {
        let allocated = self.course.within(&events).iter().filter(|_| self.has_backward);
        allocated.filter(|one| self.kinds.get(&one.stack).is_some_and(|kind| kind.backward))
    }

    /// Whether a stack allocates while a module runs.
    fn is_in_module(&self, stack: Option<StackId>) -> bool {
        self.kinds.get(&stack).is_some_and(|kind| kind.python.iter().any(|&frame| runs_module(self.code, frame)))
    }

    /// Whether a module runs in a round.
    pub(super) fn calls_module(&self, round: &Range<usize>) -> bool {
        self.course.within(round).iter().any(|one| self.is_in_module(one.stack))
    }

    /// Whether a round allocates outside of modules.
    pub(super) fn allocates_outside(&self, round: &Range<usize>) -> bool {
        let mut known = self.kinds_of(round).filter(|kind| !kind.python.is_empty());
        known.any(|kind| !kind.python.iter().any(|&frame| is_call_of_module(self.code, frame)))
    }

    fn kinds_of(&self, round: &Range<usize>) -> impl Iterator<Item = &StackInRounds> {
        let stacks: FxHashSet<Option<StackId>> = self.course.within(round).iter().map(|one| one.stack).collect();
        stacks.into_iter().filter_map(|stack| self.kinds.get(&stack))
    }

    /// The number of nested module calls that contain most rounds.
    fn calls_in_common(&self, rounds: &[Range<usize>]) -> usize {
        let mut calls: Vec<usize> = rounds.iter().map(|round| count_calls(self.code, self.common(round))).collect();
        calls.sort_unstable();
        calls.get(calls.len() / 2).copied().unwrap_or(0)
    }

    /// Whether a part of a history may be a whole step: one that frees some of what it allocated.
    fn is_step(&self, round: &Range<usize>) -> bool {
        self.frees_and_ends(round) && !self.common(round).iter().any(|&frame| is_call_of_module(self.code, frame))
    }

    /// The Python frames that all allocations of a round have in common, outermost first.
    fn common(&self, round: &Range<usize>) -> &[FrameId] {
        let known = self.kinds_of(round).filter(|kind| !kind.python.is_empty());
        let common = known.map(|kind| &*kind.python).reduce(common_start);
        common.unwrap_or_default()
    }

    /// Whether a round frees some of what it allocated, and has a backward pass where there is one elsewhere.
    fn frees_and_ends(&self, round: &Range<usize>) -> bool {
        self.course.frees_own(round) && (!self.has_backward || self.kinds_of(round).any(|kind| kind.backward))
    }
}

/// The frames of a stack, outermost first, up to the first call of a module.
fn first_call<'f>(code: &SnapshotCode<'_>, python: &'f [FrameId]) -> Option<&'f [FrameId]> {
    let call = python.iter().position(|&frame| is_call_of_module(code, frame))?;
    Some(&python[..=call])
}

/// The number of calls of modules in frames. Each may be several frames.
fn count_calls(code: &SnapshotCode<'_>, python: &[FrameId]) -> usize {
    let mut count = 0;
    let mut is_inside = false;
    for &frame in python {
        let is_call = is_call_of_module(code, frame);
        count += usize::from(is_call && !is_inside);
        is_inside = is_call;
    }
    count
}

impl StackInRounds {
    fn of(stack: Option<StackId>, code: &SnapshotCode<'_>) -> Self {
        let mut python: Vec<_> = stack.into_iter().flat_map(|stack| code.python(stack)).collect();
        python.reverse();
        // Autograd's threads run no Python; where C++ is not recorded, nothing is left of their stacks.
        let backward = stack.is_none_or(|stack| code.is_backward(stack)) || calls_backward(code, &python);
        let has_batch = !backward && stack.is_some_and(|stack| code.pass(stack) != Some(Pass::Optimizer));
        Self { python, backward, has_batch }
    }
}

fn common_start<'f>(a: &'f [FrameId], b: &'f [FrameId]) -> &'f [FrameId] {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    &a[..common]
}

/// Whether a frame calls a module or all of its parts: the rounds within are layers.
fn is_call_of_module(code: &SnapshotCode<'_>, frame: FrameId) -> bool {
    let file = code.file(frame);
    file.ends_with(MODULE) || file.contains("torch/optim/")
}

/// Whether a frame runs a module. Other functions of its file move a module or load its weights.
fn runs_module(code: &SnapshotCode<'_>, frame: FrameId) -> bool {
    code.file(frame).ends_with(MODULE) && ["_call_impl", "__call__"].contains(&code.function(frame))
}

/// Whether a stack runs the backward pass from Python.
fn calls_backward(code: &SnapshotCode<'_>, python: &[FrameId]) -> bool {
    python.iter().any(|&frame| code.file(frame).ends_with("torch/autograd/__init__.py"))
}
