//! Memory held in the phases of a history, and in the equal parts that it is divided into.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::every::{self, Interval};
use super::{Error, Options};
use crate::diagnostic::{self, Diagnostic};
use crate::phase::{self, Phase, Source};
use crate::replay::{History, Position, Replay};
use crate::snapshot::{Event, Snapshot};
use crate::stack::Code;
use crate::text::{count, cut, thousands};
use crate::trace::Levels;

/// The most phases of a device that are looked at: occurrences, not names.
pub const MOST_PHASES: usize = 65_536;

/// The longest name in bytes; the rest is cut off. Metadata can be any text.
const LONGEST_NAME: usize = 512;

/// One occurrence of a phase, and what was allocated in it.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl Occurrence {
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
}

/// `torch.profiler` numbers its steps from when it was started, so the number does not name the phase.
fn name_of(text: &str) -> &str {
    match text.split_once('#') {
        Some((name @ "ProfilerStep", number)) if is_number(number) => name,
        _ => text,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name of a phase in reports and limits.
pub(super) fn folded_name(text: &str) -> &str {
    cut(name_of(text), LONGEST_NAME)
}

/// Puts occurrences in order and finds out how deep they lie. Those of one name and source share its text and stand in
/// their order; `names` gives each its place among the names.
pub(super) fn arrange(mut all: Vec<(usize, Occurrence)>) -> Vec<Occurrence> {
    all.sort_by_key(|(name, phase)| (phase.from, Reverse(phase.to), phase.source, *name, phase.number));
    let mut around: Vec<u64> = Vec::new();
    let mut arranged = Vec::with_capacity(all.len());
    for (_, mut phase) in all {
        // A phase that ends before this one does not enclose it, nor those that follow inside it.
        while around.last().is_some_and(|&to| to <= phase.from || to < phase.to) {
            around.pop();
        }
        phase.depth = u32::try_from(around.len()).unwrap_or(u32::MAX);
        around.push(phase.to);
        arranged.push(phase);
    }
    arranged
}

/// Positions of a history to be measured during the replay.
pub(super) struct Plan {
    device: u32,
    found: Vec<Phase>,
    cut: u64,
    irregular: Irregular,
    intervals: Vec<every::Range>,
    /// Why there are no intervals although they are asked for.
    pub(super) undivided: Option<Error>,
}

/// Memory held in the phases and in the equal parts of a history.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) phases: Phases,
    pub(super) intervals: Vec<Interval>,
}

/// A name of phases.
struct Named {
    /// Its place among the names.
    index: usize,
    name: Arc<str>,
    /// Number of phases of that name so far.
    occurrences: u32,
}

impl Named {
    fn new(index: usize, name: &str) -> Self {
        Self { index, name: Arc::from(name), occurrences: 0 }
    }
}

/// Counts of phases with irregular ends.
#[derive(Debug, Clone, Copy, Default)]
struct Irregular {
    annotated: u64,
    unopened: u64,
    unclosed: u64,
    overlapping: u64,
}

impl Plan {
    pub(super) fn new(
        snapshot: &Snapshot,
        device: u32,
        events: &[Event],
        code: &dyn Deref<Target = Code<'_>>,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut found = phase::phases(snapshot, device, events);
        let intervals = options.every.as_ref().map(|every| every::ranges(every, device, events, &found, code));
        let mut undivided = None;
        let intervals = match intervals.transpose() {
            // Another device may have what this one lacks.
            Err(error @ (Error::NoSteps { .. } | Error::NoTimes { .. })) => {
                undivided = Some(error);
                Vec::new()
            }
            intervals => intervals?.unwrap_or_default(),
        };
        let irregular = Irregular::of(&found);
        let cut = found.len().saturating_sub(MOST_PHASES) as u64;
        found.truncate(MOST_PHASES);
        found.shrink_to_fit();
        Ok(Self { device, found, cut, irregular, intervals, undivided })
    }

    /// True if the history is divided.
    pub(super) fn has_intervals(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// The moments at which the counters matter, in order.
    fn borders(&self) -> Vec<Position> {
        let of_phases = self.found.iter().flat_map(|phase| [phase.from, phase.to]);
        let of_intervals = self.intervals.iter().flat_map(|range| [range.from, range.to]);
        let mut borders: Vec<_> = of_phases.chain(of_intervals).collect();
        borders.sort_unstable();
        borders.dedup();
        borders
    }

    /// The phases that are looked at.
    pub(super) fn phases(&self) -> &[Phase] {
        &self.found
    }

    /// Measures the memory held in each phase, if the history is complete, and reports irregular phases.
    pub(super) fn measure(self, snapshot: &Snapshot, replay: &Replay, diagnostics: &mut Vec<Diagnostic>) -> Measured {
        let figures = &replay.figures;
        let is_known = figures.allocated.peak.is_some() && !figures.allocated.is_least;
        if figures.history != History::Recorded || !is_known || self.borders().is_empty() {
            return Measured::default();
        }
        diagnostics.extend(self.diagnostics());
        let levels = Levels::new(&replay.trace, self.borders());
        let mut names: HashMap<(Source, &str), Named> = HashMap::new();
        let mut all = Vec::with_capacity(self.found.len());
        for phase in &self.found {
            let text = folded_name(snapshot.tables.string(phase.name));
            let next = names.len();
            let named = names.entry((phase.source, text)).or_insert_with(|| Named::new(next, text));
            let held = levels.over(phase.from, phase.to);
            let occurrence = Occurrence {
                name: Arc::clone(&named.name),
                source: phase.source,
                number: named.occurrences,
                depth: 0,
                from: phase.from.count() as u64,
                to: phase.to.count() as u64,
                start: held.start.allocated,
                peak: held.peak.allocated,
                end: held.end.allocated,
                begins: phase.begins,
                ends: phase.ends,
            };
            named.occurrences += 1;
            all.push((named.index, occurrence));
        }
        let has_reserved = figures.reserved.peak.is_some();
        let intervals = self.intervals.into_iter().map(|range| range.measured(&levels, has_reserved));
        Measured { phases: Phases { all: arrange(all), cut: self.cut }, intervals: intervals.collect() }
    }

    fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut said = Vec::new();
        if self.cut > 0 {
            let message = format!(
                "of the phases (annotations, metadata, compile contexts) the first {} are looked at, {} more are not",
                thousands(MOST_PHASES as u64),
                thousands(self.cut)
            );
            said.push(Diagnostic::new(diagnostic::Code::PhasesCut, self.device, message));
        }
        let Irregular { annotated, unopened, unclosed, overlapping } = self.irregular;
        let mut parts = Vec::new();
        if unopened > 0 {
            let has =
                if unopened == 1 { "has no recorded beginning and is" } else { "have no recorded beginning and are" };
            parts.push(format!("{} {has} taken to begin with the recording", thousands(unopened)));
        }
        if unclosed > 0 {
            let has = if unclosed == 1 { "has no recorded end and is" } else { "have no recorded end and are" };
            parts.push(format!("{} {has} taken to last until the dump", thousands(unclosed)));
        }
        if overlapping > 0 {
            let overlap = if overlapping == 1 { "begins in another and ends" } else { "begin in another and end" };
            parts.push(format!("{} {overlap} after it", thousands(overlapping)));
        }
        if !parts.is_empty() {
            let of = count(annotated, "annotated phase", "annotated phases");
            said.push(Diagnostic::new(
                diagnostic::Code::PhasesIrregular,
                self.device,
                format!("of {of}, {}", parts.join(", ")),
            ));
        }
        said
    }
}

impl Irregular {
    /// Counts annotations only: metadata and compile contexts have no recorded ends, and belong to their threads.
    fn of(phases: &[Phase]) -> Self {
        let mut irregular = Self::default();
        for phase in phases.iter().filter(|phase| phase.source == Source::Annotation) {
            irregular.annotated += 1;
            irregular.unopened += u64::from(!phase.begins);
            irregular.unclosed += u64::from(!phase.ends);
            irregular.overlapping += u64::from(phase.overlaps);
        }
        irregular
    }
}
