//! Phases in the file: a line per name, with a list of each figure over its occurrences, as differences.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::phases::{MOST_PHASES, Occurrence, Phases, arrange, hold, place};
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
            unopened: Vec::new(),
            unclosed: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn add(&mut self, phase: &Occurrence) {
        self.from.push(phase.from - self.last);
        self.last = phase.from;
        self.events.push(phase.to - phase.from);
        self.unopened.extend((!phase.begins).then_some(phase.number));
        self.unclosed.extend((!phase.ends).then_some(phase.number));
        self.steps.extend(phase.step);
    }

    fn damaged(&self, device: &str, what: &str) -> Error {
        let name = printable(cut(&self.name, 64));
        Error::Damaged(format!("the phase '{name}' of {device} {what}"))
    }

    fn has_equal_lists(&self) -> bool {
        let steps = Some(&self.steps).filter(|steps| !steps.is_empty());
        steps.into_iter().chain([&self.events]).all(|list| list.len() == self.from.len())
    }

    /// An occurrence, on a device that has `most` events. The memory held in it follows from the trace.
    fn occurrence(
        &self,
        (index, from): (usize, u64),
        shared: &Arc<str>,
        most: u64,
        device: &str,
    ) -> Result<Occurrence, Error> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let to = from.checked_add(self.events[index]).filter(|&to| to <= most);
        let to = to.ok_or_else(|| self.damaged(device, "is beyond the events"))?;
        Ok(Occurrence {
            begins: self.unopened.binary_search(&number).is_err(),
            ends: self.unclosed.binary_search(&number).is_err(),
            step: self.steps.get(index).copied(),
            ..Occurrence::new(Arc::clone(shared), self.source, number, place(from), place(to))
        })
    }
}

/// The names in the order in which they first occur.
pub(super) fn saved(phases: &Phases) -> Vec<SavedPhase> {
    let mut places: HashMap<(Source, &str), usize> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in phases.kept() {
        let index = *places.entry((phase.source, &*phase.name)).or_insert_with(|| {
            names.push(SavedPhase::named(&phase.name, phase.source));
            names.len() - 1
        });
        names[index].add(phase);
    }
    names
}

/// The phases of a device that has `most` events, in their order, with the memory that its trace says is held in them.
pub(super) fn read(saved: &[SavedPhase], most: u64, device: &str, trace: &Trace) -> Result<Vec<Occurrence>, Error> {
    let mut seen: HashSet<(Source, Arc<str>)> = HashSet::new();
    let mut all = Vec::new();
    for phase in saved {
        if !phase.has_equal_lists() {
            return Err(phase.damaged(device, "has lists of different lengths"));
        }
        if all.len() + phase.from.len() > MOST_PHASES {
            return Err(phase.damaged(device, "is one of more phases than a profile can have"));
        }
        let shared: Arc<str> = Arc::from(&*phase.name);
        if !seen.insert((phase.source, Arc::clone(&shared))) {
            return Err(phase.damaged(device, "is there twice"));
        }
        let mut from: u64 = 0;
        for (number, &since) in phase.from.iter().enumerate() {
            from = from.saturating_add(since);
            all.push(phase.occurrence((number, from), &shared, most, device)?);
        }
    }
    arrange(&mut all);
    hold(&mut all, trace);
    Ok(all)
}
