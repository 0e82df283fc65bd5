//! Phases in the file: a line per name, with a list of each figure over its occurrences, as differences.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::phases::{MOST_PHASES, Occurrence, Phases, arrange, hold};
use super::Error;
use crate::phase::Source;
use crate::text::{cut, printable};
use crate::trace::Trace;

/// All occurrences of a phase, by their order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedPhase {
    name: String,
    source: Source,
    /// Events from one beginning to the next.
    from: Vec<u64>,
    #[serde(skip)]
    last: u64,
    events: Vec<u64>,
    /// The memory held at its start; like the two that follow only where the history is kept coarsely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    start: Vec<u64>,
    /// By how much the peak is above the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    above: Vec<u64>,
    /// By how much the end is below the peak.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    below: Vec<u64>,
    /// Which occurrences have no recorded beginning.
    unopened: Vec<u32>,
    /// Which occurrences have no recorded end.
    unclosed: Vec<u32>,
    /// The numbers of steps of the profiler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<u64>,
}

impl SavedPhase {
    /// A name without occurrences.
    fn named(name: &str, source: Source) -> Self {
        Self {
            name: name.to_owned(),
            source,
            from: Vec::new(),
            last: 0,
            events: Vec::new(),
            start: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
            unopened: Vec::new(),
            unclosed: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn add(&mut self, phase: &Occurrence, is_coarse: bool) {
        self.from.push(phase.from - self.last);
        self.last = phase.from;
        self.events.push(phase.to - phase.from);
        if is_coarse {
            self.start.push(phase.start);
            self.above.push(phase.peak - phase.start);
            self.below.push(phase.peak - phase.end);
        }
        self.unopened.extend((!phase.begins).then_some(phase.number));
        self.unclosed.extend((!phase.ends).then_some(phase.number));
        self.steps.extend(phase.step);
    }

    fn damaged(&self, place: &str, what: &str) -> Error {
        let name = printable(cut(&self.name, 64));
        Error::Damaged(format!("the phase '{name}' of {place} {what}"))
    }

    fn has_equal_lists(&self) -> bool {
        let figures = [&self.start, &self.above, &self.below, &self.steps];
        let figures = figures.into_iter().filter(|list| !list.is_empty());
        figures.chain([&self.events]).all(|list| list.len() == self.from.len())
    }

    /// An occurrence, on a device that has `most` events.
    fn occurrence(
        &self,
        (index, from): (usize, u64),
        shared: &Arc<str>,
        most: u64,
        place: &str,
    ) -> Result<Occurrence, Error> {
        let occurrence = self.unchecked_occurrence((index, from), shared);
        let occurrence = occurrence.ok_or_else(|| self.damaged(place, "has figures that cannot be"))?;
        if occurrence.to > most {
            return Err(self.damaged(place, "is beyond the events"));
        }
        Ok(occurrence)
    }

    /// An occurrence, wherever it lies; `None` where the sums of its figures do not exist.
    fn unchecked_occurrence(&self, (index, from): (usize, u64), shared: &Arc<str>) -> Option<Occurrence> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let [start, above, below] =
            [&self.start, &self.above, &self.below].map(|list| list.get(index).copied().unwrap_or(0));
        let peak = start.checked_add(above)?;
        Some(Occurrence {
            name: Arc::clone(shared),
            source: self.source,
            number,
            depth: 0,
            is_outermost: true,
            from,
            to: from.checked_add(self.events[index])?,
            start,
            peak,
            end: peak.checked_sub(below)?,
            begins: self.unopened.binary_search(&number).is_err(),
            ends: self.unclosed.binary_search(&number).is_err(),
            step: self.steps.get(index).copied(),
        })
    }
}

/// The names in the order in which they first occur.
pub(super) fn saved(phases: &Phases, is_coarse: bool) -> Vec<SavedPhase> {
    let mut places: HashMap<(Source, &str), usize> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in phases.kept() {
        let place = *places.entry((phase.source, &*phase.name)).or_insert_with(|| {
            names.push(SavedPhase::named(&phase.name, phase.source));
            names.len() - 1
        });
        names[place].add(phase, is_coarse);
    }
    names
}

/// The phases of a device that has `most` events, in their order. The memory held in them follows from the trace.
pub(super) fn read(
    saved: Vec<SavedPhase>,
    most: u64,
    place: &str,
    trace: Option<&Trace>,
) -> Result<Vec<Occurrence>, Error> {
    let mut seen: HashSet<(Source, Arc<str>)> = HashSet::new();
    let mut all = Vec::new();
    for (index, phase) in saved.iter().enumerate() {
        if !phase.has_equal_lists() {
            return Err(phase.damaged(place, "has lists of different lengths"));
        }
        if all.len() + phase.from.len() > MOST_PHASES {
            return Err(phase.damaged(place, "is one of more phases than a profile can have"));
        }
        let shared: Arc<str> = Arc::from(&*phase.name);
        if !seen.insert((phase.source, Arc::clone(&shared))) {
            return Err(phase.damaged(place, "is there twice"));
        }
        let mut from: u64 = 0;
        for (number, &since) in phase.from.iter().enumerate() {
            from = from.saturating_add(since);
            all.push((index, phase.occurrence((number, from), &shared, most, place)?));
        }
    }
    let mut all = arrange(all);
    if let Some(trace) = trace {
        hold(&mut all, trace);
    }
    Ok(all)
}
