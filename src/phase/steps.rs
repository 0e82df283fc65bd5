//! The steps of a history: by their names, by what recurs, or as equal parts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Phase, Source};
use crate::pattern::Pattern;
use crate::replay::Position;
use crate::snapshot::{Action, Event, FrameId, StackId};
use crate::stack::Code;

/// Which steps are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Those that the profiler names, else those of the optimizer, else what recurs, else equal parts.
    #[default]
    Any,
    /// They begin where phases of matching names do.
    Named(Pattern),
    /// That many equal parts.
    Windows(usize),
}

/// How steps were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By names that match this.
    Named(String),
    /// A stack, by its label, allocates once in each.
    Recurring(String),
    /// The history was cut into equal parts.
    Windows,
}

/// One step. It lasts until the next, the last one until the dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Just before its first event.
    pub from: Position,
}

/// The steps of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// How they were found.
    pub how: How,
    /// In order. What lies before the first belongs to none.
    pub steps: Vec<Step>,
}

impl Steps {
    /// Which step the event belongs to that a moment is just after; `None` before the first.
    #[must_use]
    pub fn at(&self, position: Position) -> Option<usize> {
        self.steps.partition_point(|step| step.from < position).checked_sub(1)
    }

    /// Where they begin.
    #[must_use]
    pub fn borders(&self) -> Vec<Position> {
        self.steps.iter().map(|step| step.from).collect()
    }
}

/// PyTorch's names for steps, the better ones first: `torch.profiler`'s, and calls of an optimizer.
const NAMES: [&str; 2] = ["ProfilerStep#", "Optimizer.step#"];

/// Default number of equal parts.
const WINDOWS: usize = 10;

/// Least number of rounds that count as steps.
const FEWEST: usize = 5;

/// Finds the steps of a device; `None` where the names that were asked for do not occur, or there is no history.
#[must_use]
pub fn find(events: &[Event], phases: &[Phase], code: &Code<'_>, wanted: &Wanted) -> Option<Steps> {
    match wanted {
        Wanted::Named(pattern) => named(phases, code, pattern.as_str(), |_, name| pattern.matches(name)),
        Wanted::Windows(count) => windows(events.len(), *count),
        Wanted::Any => {
            let annotated = |start: &&str| {
                let is_step =
                    |phase: &Phase, name: &str| phase.source == Source::Annotation && name.starts_with(*start);
                let steps = named(phases, code, &format!("{start}*"), is_step)?;
                // The profiler counts steps; an optimizer may be one of several.
                Some(if *start == NAMES[0] { steps } else { steps.folded(events) })
            };
            let mut named: Vec<Steps> = NAMES.iter().filter_map(annotated).collect();
            // The profiler may have looked at a few steps of many.
            if let Some(at) = named.iter().position(|steps| steps.cover(events)) {
                return Some(named.swap_remove(at));
            }
            let enough = named.first().is_none_or(|steps| steps.steps.len() >= FEWEST);
            let recurring = if enough { recurring(events, code) } else { None };
            recurring.or_else(|| named.into_iter().next()).or_else(|| windows(events.len(), WINDOWS))
        }
    }
}

/// Steps that begin where phases do. What lies within another one is no step of its own.
fn named(phases: &[Phase], code: &Code<'_>, how: &str, is_step: impl Fn(&Phase, &str) -> bool) -> Option<Steps> {
    let mut steps: Vec<Step> = Vec::new();
    let mut until = None;
    for phase in phases {
        let name = code.tables().string(phase.name);
        if is_step(phase, name) && until.is_none_or(|until| phase.from >= until) {
            until = Some(phase.to.max(Position::of_count(phase.from.count() + 1)));
            steps.push(Step { name: name.to_owned(), from: phase.from });
        }
    }
    (!steps.is_empty()).then(|| Steps { how: How::Named(how.to_owned()), steps })
}

fn windows(events: usize, count: usize) -> Option<Steps> {
    let count = count.min(events);
    let step = |index: usize| Step {
        name: format!("part {} of {count}", index + 1),
        from: Position::of_count(index * events / count),
    };
    (count > 0).then(|| Steps { how: How::Windows, steps: (0..count).map(step).collect() })
}

/// Steps without a name: in a training loop most lines allocate once, or some fixed number of times, in every round. The
/// stack that comes first among those that allocate equally often, each between two of the others, begins a step.
///
/// Layers recur as well, and so does loading weights. They are told from steps by what goes on between two allocations of a
/// stack: all of it is within one call of a module, none of it is a backward pass where there is one elsewhere, or
/// nothing is freed. A round of inference is one call of the model, though: see [`Rounds::are_whole_calls`].
fn recurring(events: &[Event], code: &Code<'_>) -> Option<Steps> {
    let rounds = Rounds::new(events, code);
    let mut often: BTreeMap<usize, Vec<StackId>> = BTreeMap::new();
    for (&stack, allocations) in &rounds.of_stack {
        if allocations.len() >= FEWEST && rounds.may_begin(stack) {
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
    let begins = &rounds.of_stack[&clock];
    let step =
        |(index, &at): (usize, &usize)| Step { name: format!("step {}", index + 1), from: Position::of_count(at) };
    let steps = begins.iter().enumerate().map(step).collect();
    Some(Steps { how: How::Recurring(code.label(clock)), steps })
}

/// More counts than these are not tried: each costs a walk over the history.
const MOST_CANDIDATES: usize = 16;

/// More stacks than these are not tried for the one that begins a step.
const MOST_CLOCKS: usize = 8;

/// The allocations of a history, by stack.
struct Rounds<'e, 'c, 't> {
    events: &'e [Event],
    code: &'c Code<'t>,
    /// The indices of the events that allocate.
    of_stack: FxHashMap<StackId, Vec<usize>>,
    /// Whether any allocation belongs to a backward pass.
    has_backward: bool,
    kinds: FxHashMap<StackId, Kind>,
}

/// Facts about a stack that tell steps apart.
struct Kind {
    /// Its Python frames, outermost first.
    python: Vec<FrameId>,
    backward: bool,
}

impl<'e, 'c, 't> Rounds<'e, 'c, 't> {
    fn new(events: &'e [Event], code: &'c Code<'t>) -> Self {
        let mut of_stack: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        let mut kinds = FxHashMap::default();
        for (index, event) in events.iter().enumerate().filter(|(_, event)| event.action == Action::Alloc) {
            if let Some(stack) = event.stack {
                of_stack.entry(stack).or_default().push(index);
                kinds.entry(stack).or_insert_with(|| Kind::of(stack, code));
            }
        }
        let has_python = kinds.values().any(|kind| !kind.python.is_empty());
        let has_backward = has_python && kinds.values().any(|kind| kind.backward);
        Self { events, code, of_stack, has_backward, kinds }
    }

    /// Whether a stack may begin a step: it runs Python, and no backward pass, which ends one.
    fn may_begin(&self, stack: StackId) -> bool {
        self.kinds.get(&stack).is_some_and(|kind| !kind.python.is_empty() && !kind.backward)
    }

    /// The first of several stacks that allocate equally often with which most of the others take turns, each once in
    /// nearly every round. The rest allocate equally often by chance.
    fn clock(&self, mut stacks: Vec<StackId>) -> Option<StackId> {
        stacks.sort_by_key(|stack| self.of_stack[stack].first().copied());
        let turns = |clock: &StackId| {
            let begins = &self.of_stack[clock];
            let ends = begins.iter().skip(1).chain([&usize::MAX]);
            let rounds: Vec<_> = begins.iter().zip(ends).collect();
            let takes_turns = |stack: &&StackId| {
                let allocations = self.of_stack[*stack].iter().zip(&rounds);
                let in_turn = allocations.filter(|(at, (from, to))| from <= at && at < to).count();
                in_turn * 10 >= begins.len() * 9
            };
            stacks.iter().filter(takes_turns).count()
        };
        let counts: Vec<(StackId, usize)> =
            stacks.iter().take(MOST_CLOCKS).map(|stack| (*stack, turns(stack))).collect();
        let most = counts.iter().map(|(_, turns)| *turns).max().filter(|&most| most * 2 >= stacks.len())?;
        counts.into_iter().find(|(_, turns)| *turns == most).map(|(stack, _)| stack)
    }

    /// Whether rounds are steps, not the layers within one.
    fn are_steps(&self, begins: &[usize]) -> bool {
        let pairs = begins.windows(2).filter_map(|pair| self.events.get(pair[0]..pair[1]));
        let (mut rounds, mut plausible) = (0, 0);
        for round in pairs {
            rounds += 1;
            plausible += usize::from(self.is_step(round));
        }
        // Rounds that stop long before the end are a part of the history, such as loading the weights.
        let longest = begins.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let last = self.events.len().saturating_sub(begins.last().copied().unwrap_or_default());
        rounds > 0 && plausible * 10 >= rounds * 8 && last <= longest.saturating_mul(4)
    }

    /// Whether each round is a call of the model, and all that goes on in there is part of some round. Of the layers within
    /// one call that does not hold: what the call does before the first and after the last layer happens once.
    fn are_whole_calls(&self, clock: StackId) -> bool {
        let begins = &self.of_stack[&clock];
        let (Some(&first), Some(&last)) = (begins.first(), begins.last()) else { return false };
        let Some(call) = self.kinds.get(&clock).and_then(|kind| first_call(self.code, &kind.python)) else {
            return false;
        };
        let rounds: Vec<&[Event]> = begins.windows(2).filter_map(|pair| self.events.get(pair[0]..pair[1])).collect();
        let whole = rounds.iter().filter(|round| self.frees_and_ends(round)).count();
        let longest = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
        let is_over = self.events.len() - last > longest.saturating_mul(4);
        let is_within = |stack: &&StackId| self.kinds.get(*stack).is_some_and(|kind| kind.python.starts_with(call));
        let happens_once = |stack: &StackId| {
            let allocations = &self.of_stack[stack];
            allocations.iter().all(|&at| at < first) || allocations.iter().all(|&at| at > last)
        };
        rounds.len() + 1 >= FEWEST
            && whole * 10 >= rounds.len() * 8
            && !is_over
            && !self.of_stack.keys().filter(is_within).any(happens_once)
            && (self.calls_in_common(&rounds) < 2 || self.holds_shorter_rounds(&rounds))
    }

    /// The number of calls of modules that most rounds lie within, one in the other.
    fn calls_in_common(&self, rounds: &[&[Event]]) -> usize {
        let mut calls: Vec<usize> = rounds.iter().map(|round| count_calls(self.code, self.common(round))).collect();
        calls.sort_unstable();
        calls.get(calls.len() / 2).copied().unwrap_or(0)
    }

    /// Whether most rounds hold rounds of their own, in which several stacks take turns.
    fn holds_shorter_rounds(&self, rounds: &[&[Event]]) -> bool {
        let holds = rounds.iter().filter(|round| self.has_shorter_rounds(round)).count();
        holds * 10 >= rounds.len() * 8
    }

    fn has_shorter_rounds(&self, round: &[Event]) -> bool {
        /// Fewer stacks than these that take turns are a helper that is called in two ways.
        const FEWEST_STACKS: usize = 3;
        let mut at: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        for (index, event) in round.iter().enumerate().filter(|(_, event)| event.action == Action::Alloc) {
            if let Some(stack) = event.stack {
                at.entry(stack).or_default().push(index);
            }
        }
        let mut often: BTreeMap<usize, Vec<&Vec<usize>>> = BTreeMap::new();
        for places in at.values().filter(|places| places.len() > 1) {
            often.entry(places.len()).or_default().push(places);
        }
        often.values_mut().any(|stacks| {
            stacks.sort_unstable();
            let Some((first, others)) = stacks.split_first() else { return false };
            others.iter().filter(|other| take_turns(first, other)).count() + 1 >= FEWEST_STACKS
        })
    }

    /// Whether a part of a history may be a whole step: one that frees some of what it allocated.
    fn is_step(&self, round: &[Event]) -> bool {
        self.frees_and_ends(round) && !self.common(round).iter().any(|&frame| is_call_of_module(self.code, frame))
    }

    /// The Python frames that all allocations of a round have in common, outermost first.
    fn common(&self, round: &[Event]) -> &[FrameId] {
        let stacks = self.stacks_of(round);
        let kinds = stacks.iter().filter_map(|stack| self.kinds.get(stack));
        let common = kinds.filter(|kind| !kind.python.is_empty()).map(|kind| &*kind.python).reduce(common_start);
        common.unwrap_or_default()
    }

    fn stacks_of(&self, round: &[Event]) -> FxHashSet<StackId> {
        round.iter().filter(|event| event.action == Action::Alloc).filter_map(|event| event.stack).collect()
    }

    /// Whether a round frees some of what it allocated, and has a backward pass where there is one elsewhere.
    fn frees_and_ends(&self, round: &[Event]) -> bool {
        let mut allocated = FxHashSet::default();
        let frees = round.iter().any(|event| match event.action {
            Action::Alloc => {
                allocated.insert(event.addr);
                false
            }
            Action::FreeRequested | Action::FreeCompleted => allocated.contains(&event.addr),
            _ => false,
        });
        let backward = || {
            let stacks = self.stacks_of(round);
            stacks.iter().filter_map(|stack| self.kinds.get(stack)).any(|kind| kind.backward)
        };
        frees && (!self.has_backward || backward())
    }
}

/// Whether of two places in a history one lies between each two of the other.
fn take_turns(a: &[usize], b: &[usize]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a < b) && b.iter().zip(&a[1..]).all(|(b, a)| b < a)
}

/// The frames of a stack, outermost first, up to the first call of a module.
fn first_call<'f>(code: &Code<'_>, python: &'f [FrameId]) -> Option<&'f [FrameId]> {
    let call = python.iter().position(|&frame| is_call_of_module(code, frame))?;
    Some(&python[..=call])
}

/// The number of calls of modules in frames. Each may be several frames.
fn count_calls(code: &Code<'_>, python: &[FrameId]) -> usize {
    let mut count = 0;
    let mut is_inside = false;
    for &frame in python {
        let is_call = is_call_of_module(code, frame);
        count += usize::from(is_call && !is_inside);
        is_inside = is_call;
    }
    count
}

impl Kind {
    fn of(stack: StackId, code: &Code<'_>) -> Self {
        let mut python: Vec<_> = code.python(stack).collect();
        python.reverse();
        // Autograd's threads run no Python; where C++ is not recorded, nothing is left of their stacks.
        let backward = code.is_backward(stack) || !code.tables().has_frames(stack) || calls_backward(code, &python);
        Self { python, backward }
    }
}

fn common_start<'f>(a: &'f [FrameId], b: &'f [FrameId]) -> &'f [FrameId] {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    &a[..common]
}

/// Whether a frame calls a module, or all of its parts: what goes on in there are layers.
fn is_call_of_module(code: &Code<'_>, frame: FrameId) -> bool {
    let file = code.file(frame);
    file.ends_with("torch/nn/modules/module.py") || file.contains("torch/optim/")
}

/// Whether a stack runs the backward pass from Python.
fn calls_backward(code: &Code<'_>, python: &[FrameId]) -> bool {
    python.iter().any(|&frame| code.file(frame).ends_with("torch/autograd/__init__.py"))
}

impl Steps {
    /// Whether its parts may be whole steps. Only equal parts may not be: a single step can be cut into them, too.
    #[must_use]
    pub fn are_plausible(&self, events: &[Event], code: &Code<'_>) -> bool {
        if self.how != How::Windows {
            return true;
        }
        let mut begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        begins.push(events.len());
        let rounds = Rounds::new(events, code);
        // Without Python nothing tells layers from steps.
        rounds.kinds.values().any(|kind| !kind.python.is_empty()) && rounds.are_steps(&begins)
    }

    /// Whether it is only a guess that these are steps: they have no names, and there is no backward pass among them.
    #[must_use]
    pub fn are_guessed(&self, events: &[Event], code: &Code<'_>) -> bool {
        !matches!(self.how, How::Named(_)) && !Rounds::new(events, code).has_backward
    }

    /// Whether nearly everything gets larger from each step to the next, or smaller: what is done for one size after another,
    /// as when graphs are captured, is no loop that could leak.
    #[must_use]
    pub fn go_through_sizes(&self, events: &[Event]) -> bool {
        let mut sizes: FxHashMap<StackId, Vec<u64>> = FxHashMap::default();
        let mut latest: FxHashMap<StackId, usize> = FxHashMap::default();
        for (index, event) in events.iter().enumerate().filter(|(_, event)| event.action == Action::Alloc) {
            let (Some(stack), Some(step)) = (event.stack, self.at(Position::after(index))) else { continue };
            // The first allocation of each step.
            if latest.insert(stack, step) != Some(step) {
                sizes.entry(stack).or_default().push(event.size);
            }
        }
        let sizes: Vec<Vec<u64>> = sizes.into_values().filter(|sizes| sizes.len() >= 3).collect();
        let rise =
            |sizes: &&Vec<u64>| sizes.windows(2).filter(|pair| pair[0] < pair[1]).count() * 10 >= sizes.len() * 8;
        let fall =
            |sizes: &&Vec<u64>| sizes.windows(2).filter(|pair| pair[0] > pair[1]).count() * 10 >= sizes.len() * 8;
        let most = sizes.iter().filter(rise).count().max(sizes.iter().filter(fall).count());
        !sizes.is_empty() && most * 2 >= sizes.len()
    }

    /// Whether they are enough, and what follows the last is about as long as any: else the history goes on without
    /// them.
    fn cover(&self, events: &[Event]) -> bool {
        let begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        let longest = begins.windows(2).map(|pair| pair[1] - pair[0]).max();
        let last = begins.last().map_or(0, |&last| events.len().saturating_sub(last));
        begins.len() >= FEWEST && longest.is_some_and(|longest| last <= longest.saturating_mul(4))
    }

    /// Puts those together that make up one round: a step may call several optimizers, for several models or devices.
    /// Merges each two rounds if every second round is more alike than neighbours are.
    fn folded(mut self, events: &[Event]) -> Self {
        let mut begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        begins.push(events.len());
        let rounds: Vec<FxHashSet<StackId>> = begins
            .windows(2)
            .map(|pair| {
                let events = events.get(pair[0]..pair[1]).unwrap_or_default();
                let allocations = events.iter().filter(|event| event.action == Action::Alloc);
                allocations.filter_map(|event| event.stack).collect()
            })
            .collect();
        // The first round warms up, and the last is not over.
        let rounds = rounds.get(1..rounds.len().saturating_sub(1)).unwrap_or_default();
        let alike = |lag: usize| -> u64 {
            let pairs = rounds.iter().zip(rounds.iter().skip(lag));
            let (mut sum, mut count) = (0_u64, 0_u64);
            for (a, b) in pairs {
                let common = a.intersection(b).count() as u64;
                let all = (a.len() + b.len()) as u64 - common;
                (sum, count) = (sum + (common * 1000).checked_div(all).unwrap_or(1000), count + 1);
            }
            sum.checked_div(count).unwrap_or(0)
        };
        let next = alike(1);
        let most = (2..=MOST_IN_ROUND).filter(|lag| rounds.len() >= lag * 3);
        let period = most.map(|lag| (alike(lag), lag)).filter(|(alike, _)| *alike >= 700 && *alike >= next * 4 / 3);
        // Take the shortest of equally good periods: two rounds in a row are a period too.
        let best = period.reduce(|best, other| if other.0 > best.0 + 50 { other } else { best });
        if let Some((_, period)) = best {
            self.steps = self.steps.into_iter().step_by(period).collect();
            if let How::Named(name) = &mut self.how {
                name.push_str(&format!(", {period} to a step"));
            }
        }
        self
    }
}

/// A step calls no more optimizers than these.
const MOST_IN_ROUND: usize = 8;
