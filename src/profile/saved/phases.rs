//! Phases in the file: a line per name, with a list of each figure over its occurrences. Figures are kept as
//! differences, which are 0 for the thousands of phases in which nothing may happen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::phases::{MOST_PHASES, Occurrence, Phases, arrange};
use super::Error;
use crate::phase::Source;
use crate::text::{cut, printable};

/// All occurrences of a phase, by their order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedPhase {
    name: String,
    source: Source,
    from: Vec<u64>,
    events: Vec<u64>,
    start: Vec<u64>,
    /// By how much the peak is above the start.
    above: Vec<u64>,
    /// By how much the end is below the peak.
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
            events: Vec::new(),
            start: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
            unopened: Vec::new(),
            unclosed: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn add(&mut self, phase: &Occurrence) {
        self.from.push(phase.from);
        self.events.push(phase.to - phase.from);
        self.start.push(phase.start);
        self.above.push(phase.peak - phase.start);
        self.below.push(phase.peak - phase.end);
        self.unopened.extend((!phase.begins).then_some(phase.number));
        self.unclosed.extend((!phase.ends).then_some(phase.number));
        self.steps.extend(phase.step);
    }

    fn damaged(&self, place: &str, what: &str) -> Error {
        let name = printable(cut(&self.name, 64));
        Error::Damaged(format!("the phase '{name}' of {place} {what}"))
    }

    fn has_equal_lists(&self) -> bool {
        let figures = [&self.events, &self.start, &self.above, &self.below];
        let steps = Some(&self.steps).filter(|steps| !steps.is_empty());
        figures.into_iter().chain(steps).all(|list| list.len() == self.from.len())
    }

    /// An occurrence, on a device that has `most` events.
    fn occurrence(&self, index: usize, shared: &Arc<str>, most: u64, place: &str) -> Result<Occurrence, Error> {
        let occurrence = self.unchecked_occurrence(index, shared);
        let occurrence = occurrence.ok_or_else(|| self.damaged(place, "has figures that cannot be"))?;
        if occurrence.to > most || index > 0 && self.from[index - 1] > occurrence.from {
            return Err(self.damaged(place, "is beyond the events"));
        }
        Ok(occurrence)
    }

    /// An occurrence, wherever it lies; `None` where the sums of its figures do not exist.
    fn unchecked_occurrence(&self, index: usize, shared: &Arc<str>) -> Option<Occurrence> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let from = self.from[index];
        let start = self.start[index];
        let peak = start.checked_add(self.above[index])?;
        Some(Occurrence {
            name: Arc::clone(shared),
            source: self.source,
            number,
            depth: 0,
            from,
            to: from.checked_add(self.events[index])?,
            start,
            peak,
            end: peak.checked_sub(self.below[index])?,
            begins: self.unopened.binary_search(&number).is_err(),
            ends: self.unclosed.binary_search(&number).is_err(),
            step: self.steps.get(index).copied(),
        })
    }
}

/// The names in the order in which they first occur.
pub(super) fn saved(phases: &Phases) -> Vec<SavedPhase> {
    let mut places: HashMap<(Source, &str), usize> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in phases.known_or_not() {
        let place = *places.entry((phase.source, &*phase.name)).or_insert_with(|| {
            names.push(SavedPhase::named(&phase.name, phase.source));
            names.len() - 1
        });
        names[place].add(phase);
    }
    names
}

/// The phases of a device that has `most` events, in their order.
pub(super) fn read(saved: Vec<SavedPhase>, most: u64, place: &str) -> Result<Vec<Occurrence>, Error> {
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
        for i in 0..phase.from.len() {
            all.push((index, phase.occurrence(i, &shared, most, place)?));
        }
    }
    Ok(arrange(all))
}
