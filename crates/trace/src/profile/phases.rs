//! Memory held in the phases of a history, and in the equal parts that it is divided into.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::{count, thousands};
use ptmem_snapshot::snapshot::{Device, Snapshot};

use super::nesting::{arrange, put_in_order};
use crate::phase::{self, Occurrence, Phase, PhaseMarks, PhaseSource, folded_name, step_of_profiler};
use crate::replay::{Figures, HistoryKind, Position, Replay};
use crate::stack;
use crate::trace::{Trace, Window};

/// The maximum number of phases that are read per device: occurrences, not names.
pub const MOST_PHASES: usize = 65_536;

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
    /// The phases of a device with these figures. The numbers of `all` are not known yet; their bytes are only once
    /// [`Phases::complete`] was called.
    pub(super) fn new(mut all: Vec<Occurrence>, cut: u64, figures: &Figures, trace: &Trace) -> Self {
        join_steps_of_optimizers(&mut all, trace);
        arrange(&mut all);
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
    pub(super) fn windows(&self, source: PhaseSource, name: &str) -> Vec<Window> {
        let wanted = self.known_or_not().filter(|phase| phase.source == source && &*phase.name == name);
        wanted.map(|phase| phase.window).collect()
    }

    /// Adds the passes of training that call stacks show, unless the program has phases of their names, and measures the bytes of
    /// all phases.
    pub(super) fn complete(&mut self, trace: &Trace, code: &stack::SnapshotCode<'_>) {
        if self.cut == 0 {
            self.add_passes(trace, code);
        }
        self.drop_marks();
        let windows: Vec<Window> = self.all.iter().map(|phase| phase.window).collect();
        let measured = trace.parts(&windows).into_iter().zip(trace.errors_of_peaks(&windows));
        for (phase, (held, error)) in self.all.iter_mut().zip(measured) {
            phase.held = held;
            phase.error = error;
            // Where the sizes of blocks are not certain, one may be larger than what was freed before it.
            phase.allocates = !phase.is_whole()
                || held.peak.allocated > held.start.allocated
                || error > 0 && trace.allocates_within(phase.window);
        }
    }

    fn add_passes(&mut self, trace: &Trace, code: &stack::SnapshotCode<'_>) {
        // Passes begin with the first event.
        let recorded = self.all.iter().filter(|phase| phase.window.to > Position::START);
        let optimizers: Vec<&Occurrence> = recorded.filter(|phase| phase.is_step_of_optimizer()).collect();
        let windows: Vec<Window> = optimizers.iter().map(|phase| phase.window).collect();
        // A pass without events is one of an optimizer, and lies where the first step of one does.
        let empty = optimizers.iter().rev().filter(|phase| phase.is_empty());
        let marks: HashMap<Position, Option<PhaseMarks>> =
            empty.map(|phase| (phase.window.from, phase.marks)).collect();
        let mut names: HashMap<&str, Arc<str>> = HashMap::new();
        let passes = phase::passes(trace, code, &windows).into_iter().map(|pass| Occurrence {
            name: Arc::clone(names.entry(pass.name.into()).or_insert_with_key(|name| Arc::from(*name))),
            source: PhaseSource::Pass,
            window: Window { from: pass.from, to: pass.to },
            begins: true,
            ends: true,
            marks: marks.get(&pass.from).copied().flatten().filter(|_| pass.from == pass.to),
            ..Occurrence::default()
        });
        let named: HashSet<&str> = self.all.iter().map(|phase| &*phase.name).collect();
        let passes: Vec<Occurrence> = passes.filter(|pass| !named.contains(&*pass.name)).collect();
        self.all.extend(passes.into_iter().take(MOST_PHASES.saturating_sub(self.all.len())));
        arrange(&mut self.all);
    }

    /// Drops the marks if events alone give the same order, as in most histories: a file is smaller without.
    fn drop_marks(&mut self) {
        let unmarked = self.all.iter().map(|phase| Occurrence { marks: None, ..phase.clone() });
        let unmarked: Vec<Occurrence> = unmarked.collect();
        let mut arranged = unmarked.clone();
        arrange(&mut arranged);
        if arranged == unmarked {
            self.all = arranged;
        }
    }

    /// Those that a saved profile keeps: passes follow from its stacks.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Occurrence> {
        self.known_or_not().filter(|phase| phase.source != PhaseSource::Pass)
    }

    /// The places at which a step may begin.
    pub fn marks(&self) -> Vec<&Occurrence> {
        self.known_or_not().collect()
    }
}

/// True if the memory held at every place is known.
pub(super) fn are_known(figures: &Figures) -> bool {
    figures.history == HistoryKind::Recorded && figures.allocated.peak.is_some() && !figures.allocated.is_least
}

/// Consecutive steps of an optimizer as one phase, or any other phase.
struct Round {
    phase: Occurrence,
    steps: u32,
}

/// Joins steps of optimizers between which nothing is allocated. Programs with an optimizer for each parameter, as Pyro's, may
/// step them in the order of a Python set, which differs from run to run.
fn join_steps_of_optimizers(all: &mut Vec<Occurrence>, trace: &Trace) {
    put_in_order(all);
    let mut rounds: Vec<Round> = Vec::new();
    for phase in all.drain(..) {
        match rounds.last_mut() {
            Some(round) if phase.follows(&round.phase, trace) => {
                round.phase.window.to = phase.window.to;
                round.phase.ends = phase.ends;
                round.phase.marks =
                    round.phase.marks.zip(phase.marks).map(|(first, last)| PhaseMarks { end: last.end, ..first });
                round.steps += 1;
            }
            _ => rounds.push(Round { phase, steps: 1 }),
        }
    }
    leave_out_unfinished(&mut rounds, trace);
    all.extend(rounds.into_iter().map(|round| round.phase));
}

/// Leaves out the last round if the recording ends within it, after fewer steps than in the round before: which steps were
/// recorded depends on their order.
fn leave_out_unfinished(rounds: &mut Vec<Round>, trace: &Trace) {
    let mut of_optimizers = rounds.iter().enumerate().rev().filter(|(_, round)| round.phase.is_step_of_optimizer());
    if let Some((last, unfinished)) = of_optimizers.find(|(_, round)| round.phase.window.to >= trace.end())
        && let Some((_, whole)) = of_optimizers.find(|(_, round)| round.phase.name == unfinished.phase.name)
        && whole.steps > unfinished.steps
    {
        rounds.remove(last);
    }
}

/// The phases of a device with the memory held in each, where that is known. Reports irregular ones.
pub(crate) fn measured(
    snapshot: &Snapshot,
    (id, device): (DeviceId, &Device),
    replay: &Replay,
    diagnostics: &mut Vec<Diagnostic>,
) -> Phases {
    let figures = &replay.figures;
    let mut found = phase::phases(snapshot, device);
    if may_have_lost_events(&found, snapshot, device, replay) {
        found.retain(|phase| !is_before_events(phase));
    }
    if figures.history != HistoryKind::Recorded || found.is_empty() {
        return Phases::default();
    }
    let cut = found.len().saturating_sub(MOST_PHASES) as u64;
    found.truncate(MOST_PHASES);
    if are_known(figures) {
        let told = [(Code::PhasesIrregular, irregular(&found)), (Code::PhasesCut, left_out(cut))].into_iter();
        diagnostics.extend(told.filter_map(|(code, message)| Some(Diagnostic::new(code, id, message?))));
    }
    // Names can be long, and many phases have the same.
    let mut names: HashMap<&str, Arc<str>> = HashMap::new();
    let all = found.iter().map(|phase| {
        let text = snapshot.tables.string(phase.name);
        let name = folded_name(text);
        Occurrence {
            name: Arc::clone(names.entry(name).or_insert_with(|| Arc::from(name))),
            source: phase.source,
            window: Window { from: phase.from, to: phase.to },
            begins: phase.begins,
            ends: phase.ends,
            marks: phase.marks,
            step: step_of_profiler(text),
            ..Occurrence::default()
        }
    });
    Phases::new(all.collect(), cut, figures, &replay.trace)
}

/// True for a phase that ends before the first event.
fn is_before_events(phase: &Phase) -> bool {
    phase.ends && phase.to == Position::START
}

/// True if phases before the first event may have had some: annotations reach back further than a ring buffer that ran over. One
/// of an unusual length is not noticed. But blocks that are older than its first event were seen, and where phases of a name have no
/// events before that, and all of them have some later, the earlier ones were probably lost.
fn may_have_lost_events(found: &[Phase], snapshot: &Snapshot, device: &Device, replay: &Replay) -> bool {
    let is_told = |codes: &[Code]| replay.diagnostics.iter().any(|found| codes.contains(&found.code));
    if is_told(&[Code::HistoryTruncated]) {
        return true;
    }
    if device.overflowed.is_some() || !is_told(&[Code::FreesWithoutAllocation, Code::AllocatedBeforeRecording]) {
        return false;
    }
    let (earlier, later): (Vec<&Phase>, Vec<&Phase>) = found.iter().partition(|phase| is_before_events(phase));
    let earlier: HashSet<&str> =
        earlier.into_iter().map(|phase| folded_name(snapshot.tables.string(phase.name))).collect();
    // For each name, whether all of its phases have events.
    let mut have_events: HashMap<&str, bool> = HashMap::new();
    for phase in later {
        *have_events.entry(folded_name(snapshot.tables.string(phase.name))).or_insert(true) &= phase.from < phase.to;
    }
    earlier.iter().any(|name| have_events.get(name) == Some(&true))
}

/// A remark on phases that were left out.
fn left_out(number: u64) -> Option<String> {
    let message = format!(
        "only the first {} phases (annotations, metadata, compile contexts) are read, {} more are not",
        thousands(MOST_PHASES as u64),
        thousands(number)
    );
    (number > 0).then_some(message)
}

/// A diagnostic for annotations that begin or end outside of the recording. (Metadata and compile contexts have no
/// recorded ends, and belong to their threads.)
fn irregular(phases: &[Phase]) -> Option<String> {
    let annotated = phases.iter().filter(|phase| phase.source == PhaseSource::Annotation);
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
