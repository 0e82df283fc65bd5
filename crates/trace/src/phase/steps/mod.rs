//! The steps of a history: by their names, by what recurs, or as equal parts.

mod built;
mod calls;
mod folded;
mod rounds;
mod sizes;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ptmem_base::pattern::Pattern;
use ptmem_snapshot::snapshot::{OutermostCalls, StackId};
use serde::{Serialize, Serializer};

pub use self::built::{BuiltUp, initializes};
pub use self::calls::CalledModule;
use self::rounds::{Rounds, recurring};
use super::{OPTIMIZER, Occurrence, PhaseSource};
use crate::stack::SnapshotCode;
use crate::trace::{Position, Trace};

/// The name of a step or a snapshot. A history may have a million steps: their numbers take no text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, strum::Display)]
pub enum StepName {
    /// A name of the program, or of a file.
    #[strum(to_string = "{0}")]
    Given(Arc<str>),
    /// A round, by its number.
    #[strum(to_string = "step {0}")]
    Step(u32),
    /// A call of the outermost module, by its number.
    #[strum(to_string = "call {0}")]
    Call(u32),
    /// One of several equal parts: its number, and how many there are.
    #[strum(to_string = "part {0} of {1}")]
    Part(u32, u32),
}

impl From<&str> for StepName {
    fn from(name: &str) -> Self {
        Self::Given(Arc::from(name))
    }
}

impl Serialize for StepName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The requested steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WantedSteps {
    /// In order of preference: steps named by the profiler, calls of the optimizer, what recurs, an annotation of the program,
    /// calls of the outermost module, equal parts.
    #[default]
    Any,
    /// They begin where phases of matching names do.
    Named(Pattern),
    /// That many equal parts.
    Windows(u16),
}

/// The way in which steps were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// By names that match this.
    Named(String),
    /// By calls of optimizers.
    Optimizers(CallsOfStep),
    /// A stack, by its label, allocates once in each.
    Recurring(String),
    /// Each is a call of this module, which no other one calls.
    Called(String),
    /// The history was cut into equal parts.
    Windows,
}

/// The calls of optimizers that a step has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsOfStep {
    /// Their number.
    pub count: usize,
    /// Whether the recording leaves open if there are more: nothing says which optimizer is called, or some are called too seldom.
    pub may_be_more: bool,
}

impl CallsOfStep {
    /// The names that begin steps.
    pub const NAMES: &str = "Optimizer.step#*";
}

impl fmt::Display for CallsOfStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Self::NAMES)?;
        match (self.count, self.may_be_more) {
            (1, false) => Ok(()),
            (count, false) => write!(formatter, ", {count} to a step"),
            (count, true) => write!(formatter, ", at least {count} to a step"),
        }
    }
}

/// One step. It lasts until the next, the last one until the dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the step.
    pub name: StepName,
    /// Just before its first event.
    pub from: Position,
}

impl Step {
    fn of(mark: &Occurrence) -> Self {
        Self { name: StepName::Given(mark.whole_name()), from: mark.window.from }
    }
}

/// The steps of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// The way in which they were found.
    pub how: FoundBy,
    /// In order. Events before the first step belong to none.
    pub steps: Vec<Step>,
}

impl Steps {
    /// The step of the event that a moment is just after; `None` before the first.
    pub fn at(&self, position: Position) -> Option<usize> {
        self.steps.partition_point(|step| step.from < position).checked_sub(1)
    }

    /// Whether they have names.
    pub fn are_named(&self) -> bool {
        matches!(self.how, FoundBy::Named(_) | FoundBy::Optimizers(_))
    }

    /// Their beginnings.
    pub fn borders(&self) -> Vec<Position> {
        self.steps.iter().map(|step| step.from).collect()
    }
}

/// The names of steps of `torch.profiler` begin so.
const PROFILER: &str = "ProfilerStep#";

/// Default number of equal parts. Needed for `corners/captured`.
const WINDOWS: u16 = 10;

/// Least number of rounds that count as steps: the first warms up, the last is not over, and three can show a leak.
/// Needed for `generation-2.11.0`.
pub const FEWEST: usize = 5;

/// Percentage of allocations, rounds or sizes that are nearly all of them. Needed for `generation-2.11.0`.
const NEARLY_ALL: usize = 80;

/// A value that changes less often in one direction is a step up, or the smaller batch at the end. Needed for dumps of
/// `corners/streams`.
pub const FEWEST_CHANGES: usize = 3;

/// What follows the last step is at most this many times as long as the longest step: else the history goes on without
/// steps. Needed for a public recording in which one of three devices runs out of memory.
const LONGEST_REST: usize = 4;

/// Finds the steps of a device; `None` if the requested names do not occur, or there is no history.
pub fn find(
    course: &AllocationCourse,
    marks: &[&Occurrence],
    code: &SnapshotCode<'_>,
    wanted: &WantedSteps,
) -> Option<Steps> {
    match wanted {
        WantedSteps::Named(pattern) => named(marks, pattern.as_str(), |mark| pattern.matches(&mark.whole_name())),
        WantedSteps::Windows(count) => windows(course.events, *count),
        WantedSteps::Any => {
            let of_profiler = annotated(marks, PROFILER);
            // The profiler counts steps; an optimizer may be one of several.
            let of_optimizers = Steps::of_optimizers(marks, course, code);
            let mut named: Vec<Steps> = of_profiler.into_iter().chain(of_optimizers).collect();
            // The profiler may have recorded only a few of many steps.
            if let Some(at) = named.iter().position(|steps| steps.cover(course)) {
                return Some(named.swap_remove(at));
            }
            let enough = named.first().is_none_or(|steps| steps.steps.len() >= FEWEST);
            let recurring = if enough { recurring(course, code) } else { None };
            let unnamed = recurring.or_else(|| repeated(marks, course)).or_else(|| calls::called(course, code));
            unnamed.or_else(|| named.into_iter().next()).or_else(|| windows(course.events, WINDOWS))
        }
    }
}

/// Steps that begin where phases do.
fn named(marks: &[&Occurrence], how: &str, is_step: impl Fn(&Occurrence) -> bool) -> Option<Steps> {
    let begin = outermost(marks, is_step).into_iter().map(|at| Step::of(marks[at]));
    let steps: Vec<Step> = begin.collect();
    (!steps.is_empty()).then(|| Steps { how: FoundBy::Named(how.to_owned()), steps })
}

/// The places of some of the phases. A phase within another one is left out.
fn outermost(marks: &[&Occurrence], is_wanted: impl Fn(&Occurrence) -> bool) -> Vec<usize> {
    let mut found = Vec::new();
    // The depth of the wanted phase that is not over.
    let mut inside: Option<u32> = None;
    for (at, mark) in marks.iter().enumerate() {
        if inside.is_some_and(|depth| mark.depth > depth) {
            continue;
        }
        inside = is_wanted(mark).then_some(mark.depth);
        found.extend(inside.map(|_| at));
    }
    found
}

/// Steps that begin where annotations do whose names have a certain beginning.
fn annotated(marks: &[&Occurrence], start: &str) -> Option<Steps> {
    named(marks, &format!("{start}*"), |mark| mark.is_annotated(start))
}

/// Names of annotations that PyTorch makes, also for parts of a step.
const OF_PYTORCH: [&str; 4] = [PROFILER, OPTIMIZER, "Torch-Compiled", "## "];

/// Steps by an annotation of the program that recurs and has nearly all allocations in it, as around each call of a model. Of
/// several the outermost.
fn repeated(marks: &[&Occurrence], course: &AllocationCourse) -> Option<Steps> {
    let of_program = marks.iter().filter(|mark| {
        mark.source == PhaseSource::Annotation && !OF_PYTORCH.iter().any(|start| mark.is_annotated(start))
    });
    let mut by_name: BTreeMap<&str, Vec<&Occurrence>> = BTreeMap::new();
    of_program.for_each(|mark| by_name.entry(&mark.name).or_default().push(mark));
    let mut frequent: Vec<Vec<&Occurrence>> = by_name.into_values().filter(|marks| marks.len() >= FEWEST).collect();
    frequent.sort_by_key(|marks| (marks[0].window.from, std::cmp::Reverse(marks[0].window.to)));
    let outermost = frequent.into_iter().find(|marks| hold_nearly_all(marks, course))?;
    let name = &outermost[0].name;
    named(marks, name, |mark| mark.source == PhaseSource::Annotation && mark.name == *name)
        .filter(|steps| steps.cover(course))
}

/// Whether nearly all allocations are in parts of a history.
fn hold_nearly_all(marks: &[&Occurrence], course: &AllocationCourse) -> bool {
    let windows = marks.iter().map(|mark| mark.window.from.count()..mark.window.to.count());
    let inside = windows.map(|window| course.within(&window).len()).sum();
    nearly_all(inside, course.allocations.len())
}

/// Equal parts of a history.
fn windows(events: usize, count: u16) -> Option<Steps> {
    let count = count.min(u16::try_from(events).unwrap_or(u16::MAX));
    let parts = (1..=count).map(|number| Step {
        name: StepName::Part(number.into(), count.into()),
        from: Position::of_count(usize::from(number - 1) * events / usize::from(count)),
    });
    (count > 0).then(|| Steps { how: FoundBy::Windows, steps: parts.collect() })
}

impl Steps {
    /// Whether its parts may be whole steps. Only equal parts may not be: a single step can be cut into them, too.
    pub fn are_plausible(&self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> bool {
        if self.how != FoundBy::Windows || self.hold_calls(course) {
            return true;
        }
        let mut begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        begins.push(course.events);
        let rounds = Rounds::new(course, code);
        // Without Python frames, layers cannot be distinguished from steps.
        rounds.kinds.values().any(|kind| !kind.python.is_empty()) && rounds.are_steps(&begins)
    }

    /// The stack that allocates most often within calls of modules, and how often, if that is often enough for steps.
    pub fn recurs_in_calls(course: &AllocationCourse, code: &SnapshotCode<'_>) -> Option<(StackId, usize)> {
        Rounds::new(course, code).most_often_in_calls()
    }

    /// Whether the steps are only a guess: they have no names, and the recording has no backward pass.
    pub fn are_guessed(&self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> bool {
        !self.are_named() && !Rounds::new(course, code).has_backward
    }

    /// Whether they are enough, and what follows the last is about as long as any: else the history goes on without
    /// them.
    fn cover(&self, course: &AllocationCourse) -> bool {
        let begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        let longest = begins.windows(2).map(|pair| pair[1] - pair[0]).max();
        let last = begins.last().map_or(0, |&last| course.events.saturating_sub(last));
        begins.len() >= FEWEST && longest.is_some_and(|longest| last <= longest.saturating_mul(LONGEST_REST))
    }
}

/// True if a part of things is nearly all of them.
pub fn nearly_all(part: usize, all: usize) -> bool {
    part * 100 >= all * NEARLY_ALL
}

/// An allocation of a history.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// The index of its event.
    pub event: usize,
    /// Its stack; `None` where it has no frames, as on the threads of autograd where C++ is not recorded.
    pub stack: Option<StackId>,
    /// Requested bytes.
    pub requested: u64,
    /// Just after the event that frees it.
    freed: Position,
}

/// The allocations of a history, in order.
#[derive(Debug, Clone)]
pub struct AllocationCourse {
    /// Number of events.
    pub events: usize,
    /// Those that events make.
    pub allocations: Vec<Allocated>,
    /// The module whose calls may be steps, where the recorder notes calls.
    pub called: Option<CalledModule>,
    /// For each call of an optimizer, in order, a number of that optimizer, where the recorder notes them.
    optimizers: Vec<u64>,
}

impl AllocationCourse {
    /// The allocations of a trace, with the outermost calls of modules, and the calls of optimizers, where these are known.
    pub fn new(trace: &Trace, calls: Option<&OutermostCalls>, optimizers: Vec<u64>) -> Self {
        let lives = trace.lives();
        let mut allocations = Vec::with_capacity(lives.len());
        for life in lives {
            let Some(event) = life.born.event().map(|event| event as usize).filter(|_| life.born < trace.dump()) else {
                continue;
            };
            let class = &trace.classes[life.class as usize];
            let stack = class.origin.stack();
            allocations.push(Allocated { event, stack, requested: class.requested, freed: life.freed });
        }
        let called = calls.and_then(|calls| CalledModule::find(calls, &allocations));
        Self { events: trace.symbols.len(), allocations, called, optimizers }
    }

    /// The allocations of a range of events.
    fn within(&self, events: &Range<usize>) -> &[Allocated] {
        let [from, to] = [events.start, events.end.max(events.start)]
            .map(|event| self.allocations.partition_point(|one| one.event < event));
        &self.allocations[from..to]
    }

    /// True if some allocation of a range of events is freed in it.
    fn frees_own(&self, events: &Range<usize>) -> bool {
        self.within(events).iter().any(|one| one.freed.count() <= events.end)
    }
}
