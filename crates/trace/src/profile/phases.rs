//! Memory held in the phases of a history, and in the equal parts that it is divided into.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::phase::steps::{Mark, OPTIMIZER};
use crate::phase::{self, Phase, Source};
use crate::replay::{Figures, History, Position, Replay};
use crate::snapshot::{Event, Snapshot};
use crate::stack::{self, Pass};
use crate::text::{count, cut, thousands};
use crate::trace::{Levels, Trace, Window};

/// The most phases of a device that are looked at: occurrences, not names.
pub const MOST_PHASES: usize = 65_536;

/// The longest name in bytes; the rest is cut off. Metadata can be any text.
const LONGEST_NAME: usize = 512;

/// One occurrence of a phase, and what was allocated in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Occurrence {
    /// Name of the phase.
    pub name: Arc<str>,
    /// Source of the name.
    pub source: Source,
    /// Its number among those of that name and source, from 0, in the order in which they begin.
    pub number: u32,
    /// Number of other phases around it.
    pub depth: u32,
    /// True if only passes of training lie around it, and it is none itself.
    pub is_outermost: bool,
    /// Number of events before it.
    pub from: u64,
    /// Number of events before its end.
    pub to: u64,
    /// Allocated bytes just before its first event.
    pub start: u64,
    /// The most allocated bytes within it, its start included.
    pub peak: u64,
    /// Allocated bytes just after its last event.
    pub end: u64,
    /// True if its beginning was recorded. Else it is taken to begin with the history.
    pub begins: bool,
    /// True if its end was recorded. Else it is taken to last until the dump.
    pub ends: bool,
    /// The number behind its name, which is that of a step of the profiler.
    pub(super) step: Option<u64>,
}

impl Occurrence {
    /// Outer ones come before those within them.
    fn order(&self) -> impl Ord + '_ {
        (self.from, Reverse(self.to), self.source != Source::Pass, self.source, &self.name, self.number)
    }

    /// Where it lies, if PyTorch named it as a step of an optimizer.
    fn step_of_optimizer(&self) -> Option<Window> {
        let is_step = self.source == Source::Annotation && self.name.starts_with(OPTIMIZER);
        is_step.then(|| Window { from: place(self.from), to: place(self.to) })
    }

    /// Bytes gained from its beginning to its end.
    #[must_use]
    pub fn change(&self) -> i128 {
        i128::from(self.end) - i128::from(self.start)
    }

    /// True if it was recorded from its beginning to its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.begins && self.ends
    }
}

/// The phases of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Phases {
    /// In the order in which they begin, outer ones first.
    pub all: Vec<Occurrence>,
    /// Number of further phases, which were skipped.
    pub cut: u64,
    /// Those of a history whose figures are bounds, so that the memory held in them is not known.
    pub(super) unmeasured: Vec<Occurrence>,
}

impl Phases {
    /// The phases of a device with these figures.
    pub(super) fn new(all: Vec<Occurrence>, cut: u64, figures: &Figures) -> Self {
        if are_known(figures) {
            return Self { all, cut, ..Self::default() };
        }
        Self { unmeasured: all, ..Self::default() }
    }

    /// All of them, whether or not the memory held in them is known.
    pub(super) fn known_or_not(&self) -> impl Iterator<Item = &Occurrence> {
        self.all.iter().chain(&self.unmeasured)
    }

    /// Where the phases of one name and source lie, in the order of their numbers.
    pub(super) fn windows(&self, source: Source, name: &str) -> Vec<Window> {
        let wanted = self.known_or_not().filter(|phase| phase.source == source && &*phase.name == name);
        wanted.map(|phase| Window { from: place(phase.from), to: place(phase.to) }).collect()
    }

    /// Adds the passes of training that call stacks show, unless the program names its own.
    pub(super) fn add_passes(&mut self, trace: &Trace, code: &stack::Code<'_>) {
        if self.cut > 0 || self.all.iter().any(|phase| Pass::is(&phase.name)) {
            return;
        }
        let optimizers: Vec<Window> = self.all.iter().filter_map(Occurrence::step_of_optimizer).collect();
        let mut passes: Vec<Occurrence> = Vec::new();
        for pass in phase::passes(trace, code, &optimizers) {
            let name: &'static str = pass.name.into();
            let before = passes.iter().rev().find(|phase| &*phase.name == name);
            let number = before.map_or(0, |phase| phase.number + 1);
            let name = before.map_or_else(|| Arc::from(name), |phase| Arc::clone(&phase.name));
            let [from, to] = [pass.from, pass.to].map(|place| place.count() as u64);
            let source = Source::Pass;
            passes.push(Occurrence {
                name,
                source,
                number,
                from,
                to,
                begins: true,
                ends: true,
                ..Occurrence::default()
            });
        }
        passes.truncate(MOST_PHASES - self.all.len().min(MOST_PHASES));
        hold(&mut passes, trace);
        self.all.extend(passes);
        arrange(&mut self.all);
    }

    /// Those that a saved profile keeps: passes follow from its stacks.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Occurrence> {
        self.known_or_not().filter(|phase| phase.source != Source::Pass)
    }

    /// The places at which a step may begin.
    pub fn marks(&self) -> Vec<Mark> {
        let marks = self.known_or_not().map(|phase| Mark {
            name: phase.step.map_or(phase.name.to_string(), |number| format!("{}#{number}", phase.name)),
            source: phase.source,
            from: place(phase.from),
            to: place(phase.to),
        });
        marks.collect()
    }
}

/// True if the memory held at every place is known.
pub(super) fn are_known(figures: &Figures) -> bool {
    figures.history == History::Recorded && figures.allocated.peak.is_some() && !figures.allocated.is_least
}

/// The name of the steps of `torch.profiler`.
const PROFILER_STEP: &str = "ProfilerStep";

/// `torch.profiler` numbers its steps from when it was started, so the number does not name the phase.
fn step_of_profiler(text: &str) -> Option<u64> {
    let number = text.strip_prefix(PROFILER_STEP)?.strip_prefix('#')?;
    number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of a phase in reports and limits.
pub(super) fn folded_name(text: &str) -> &str {
    if step_of_profiler(text).is_some() { PROFILER_STEP } else { cut(text, LONGEST_NAME) }
}

/// Puts occurrences in order and finds out how deep they lie.
pub(super) fn arrange(all: &mut [Occurrence]) {
    // PyTorch's own step of an optimizer is what that pass consists of.
    all.sort_by(|a, b| a.order().cmp(&b.order()));
    let mut around: Vec<(u64, Source)> = Vec::new();
    for phase in all {
        // A phase that ends before this one does not enclose it, nor those that follow inside it.
        while around.last().is_some_and(|&(to, _)| to <= phase.from || to < phase.to) {
            around.pop();
        }
        phase.depth = u32::try_from(around.len()).unwrap_or(u32::MAX);
        phase.is_outermost = phase.source != Source::Pass && around.iter().all(|(_, source)| *source == Source::Pass);
        around.push((phase.to, phase.source));
    }
}

/// The phases of a device with the memory held in each, where that is known. Reports irregular ones.
pub(crate) fn measured(
    snapshot: &Snapshot,
    device: u32,
    events: &[Event],
    replay: &Replay,
    diagnostics: &mut Vec<Diagnostic>,
) -> Phases {
    let figures = &replay.figures;
    let mut found = phase::phases(snapshot, events);
    if figures.history != History::Recorded || found.is_empty() {
        return Phases::default();
    }
    let cut = found.len().saturating_sub(MOST_PHASES) as u64;
    found.truncate(MOST_PHASES);
    if are_known(figures) {
        let told = [(Code::PhasesIrregular, irregular(&found)), (Code::PhasesCut, left_out(cut))].into_iter();
        diagnostics.extend(told.filter_map(|(code, message)| Some(Diagnostic::new(code, device, message?))));
    }
    // Each name with the number of its phases so far.
    let mut names: HashMap<(Source, &str), (Arc<str>, u32)> = HashMap::new();
    let mut all = Vec::with_capacity(found.len());
    for phase in &found {
        let text = snapshot.tables.string(phase.name);
        let name = folded_name(text);
        let (name, number) = names.entry((phase.source, name)).or_insert_with(|| (Arc::from(name), 0));
        all.push(Occurrence {
            name: Arc::clone(name),
            source: phase.source,
            number: *number,
            from: phase.from.count() as u64,
            to: phase.to.count() as u64,
            begins: phase.begins,
            ends: phase.ends,
            step: step_of_profiler(text),
            ..Occurrence::default()
        });
        *number += 1;
    }
    arrange(&mut all);
    hold(&mut all, &replay.trace);
    Phases::new(all, cut, figures)
}

/// Measures the memory held in phases.
pub(super) fn hold(phases: &mut [Occurrence], trace: &Trace) {
    let mut borders: Vec<Position> = phases.iter().flat_map(|phase| [phase.from, phase.to]).map(place).collect();
    borders.sort_unstable();
    let levels = Levels::new(trace, borders);
    for phase in phases {
        let held = levels.over(place(phase.from), place(phase.to));
        phase.start = held.start.allocated;
        phase.peak = held.peak.allocated;
        phase.end = held.end.allocated;
    }
}

/// The place after a number of events.
pub(super) fn place(events: u64) -> Position {
    Position::of_count(usize::try_from(events).unwrap_or(usize::MAX))
}

/// A remark on phases that were left out.
fn left_out(number: u64) -> Option<String> {
    let message = format!(
        "of the phases (annotations, metadata, compile contexts) the first {} are looked at, {} more are not",
        thousands(MOST_PHASES as u64),
        thousands(number)
    );
    (number > 0).then_some(message)
}

/// A remark on annotations that do not lie within the recording. (Metadata and compile contexts have no
/// recorded ends, and belong to their threads.)
fn irregular(phases: &[Phase]) -> Option<String> {
    let annotated = phases.iter().filter(|phase| phase.source == Source::Annotation);
    let unopened = annotated.clone().filter(|phase| !phase.begins).count();
    let unclosed = annotated.clone().filter(|phase| !phase.ends).count();
    let kinds = [
        (unopened, "without a recorded beginning (taken to begin with the recording)"),
        (unclosed, "without a recorded end (taken to last until the dump)"),
    ];
    let parts = kinds.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, words)| format!("{} {words}", thousands(*number as u64))).collect();
    let all = count(annotated.count() as u64, "annotated phase", "annotated phases");
    (!parts.is_empty()).then(|| format!("{all}, of which {}", parts.join(", ")))
}
