//! Phases in the file: a line per name, with a list of each figure over its occurrences. There may be thousands in which
//! nothing happens: figures are kept as what they differ by, which then is 0.

use std::collections::HashMap;
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
    source: String,
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
}

/// The names in the order in which they first occur.
pub(super) fn saved(phases: &Phases) -> Vec<SavedPhase> {
    let mut places: HashMap<(Source, &str), usize> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in &phases.all {
        let place = *places.entry((phase.source, &*phase.name)).or_insert_with(|| {
            names.push(SavedPhase {
                name: phase.name.to_string(),
                source: phase.source.name().to_owned(),
                from: Vec::new(),
                events: Vec::new(),
                start: Vec::new(),
                above: Vec::new(),
                below: Vec::new(),
                unopened: Vec::new(),
                unclosed: Vec::new(),
            });
            names.len() - 1
        });
        let saved = &mut names[place];
        let figures = [
            (&mut saved.from, phase.from),
            (&mut saved.events, phase.to - phase.from),
            (&mut saved.start, phase.start),
            (&mut saved.above, phase.peak - phase.start),
            (&mut saved.below, phase.peak - phase.end),
        ];
        figures.into_iter().for_each(|(list, figure)| list.push(figure));
        saved.unopened.extend((!phase.begins).then_some(phase.number));
        saved.unclosed.extend((!phase.ends).then_some(phase.number));
    }
    names
}

/// The phases of a device that has `most` events.
pub(super) fn read(saved: Vec<SavedPhase>, cut_off: u64, most: u64, place: &str) -> Result<Phases, Error> {
    let damaged = |name: &str, what: &str| {
        let name = printable(cut(name, 64));
        Err(Error::Damaged(format!("the phase '{name}' of {place} {what}")))
    };
    let mut seen: HashMap<Source, std::collections::HashSet<Arc<str>>> = HashMap::new();
    let mut all = Vec::new();
    for (index, of_name) in saved.into_iter().enumerate() {
        let SavedPhase { name, source, from, events, start, above, below, unopened, unclosed } = of_name;
        let Some(source) = Source::ALL.into_iter().find(|known| known.name() == source) else {
            return damaged(&name, "has an unknown source");
        };
        if [&events, &start, &above, &below].iter().any(|list| list.len() != from.len()) {
            return damaged(&name, "has lists of different lengths");
        }
        if all.len() + from.len() > MOST_PHASES {
            return damaged(&name, "is one of more phases than a profile can have");
        }
        let shared: Arc<str> = Arc::from(&*name);
        if !seen.entry(source).or_default().insert(Arc::clone(&shared)) {
            return damaged(&name, "is there twice");
        }
        for i in 0..from.len() {
            let number = u32::try_from(i).unwrap_or(u32::MAX);
            let is_in = |list: &[u32]| list.binary_search(&number).is_ok();
            let peak = start[i].checked_add(above[i]);
            let figures = (from[i].checked_add(events[i]), peak, peak.and_then(|peak| peak.checked_sub(below[i])));
            let (Some(to), Some(peak), Some(end)) = figures else {
                return damaged(&name, "has figures that cannot be");
            };
            if to > most || i > 0 && from[i - 1] > from[i] {
                return damaged(&name, "is beyond the events");
            }
            let occurrence = Occurrence {
                name: Arc::clone(&shared),
                source,
                number,
                depth: 0,
                from: from[i],
                to,
                start: start[i],
                peak,
                end,
                begins: !is_in(&unopened),
                ends: !is_in(&unclosed),
            };
            all.push((index, occurrence));
        }
    }
    Ok(Phases { all: arrange(all), cut: cut_off })
}
