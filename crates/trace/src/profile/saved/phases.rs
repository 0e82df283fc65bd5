//! Phases in the file: a line per name, with its occurrences.

use std::collections::HashMap;
use std::sync::Arc;

use ptmem_base::text::{cut, printable};

use super::super::phases::{MOST_PHASES, Occurrence, Phases};
use super::SavedError;
use super::format::{SavedPhase, SavedText, Span};
use crate::phase::PhaseSource;
use crate::replay::Position;
use crate::trace::Window;

/// The names in the order in which they first occur, as a file has them.
pub(super) fn saved(phases: &Phases, mut text: impl FnMut(&str) -> SavedText) -> Vec<SavedPhase> {
    let mut known: HashMap<(PhaseSource, &str), (usize, usize)> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in phases.kept() {
        let (index, last) = known.entry((phase.source, &*phase.name)).or_insert_with(|| {
            names.push(SavedPhase { name: text(&phase.name), source: phase.source, occurrences: Vec::new() });
            (names.len() - 1, 0)
        });
        let [from, to] = [phase.window.from, phase.window.to].map(Position::count);
        let since = phase.begins.then(|| from - *last);
        let events = phase.ends.then(|| to - from);
        names[*index].occurrences.push(Span(since, events, phase.step));
        *last = from;
    }
    names
}

/// The phases of a device that has `most` events, in a file with these texts.
pub(super) fn read(
    saved: &[SavedPhase],
    texts: &[String],
    most: usize,
    device: &str,
) -> Result<Vec<Occurrence>, SavedError> {
    let mut all = Vec::new();
    for phase in saved {
        let Some(name) = phase.name.of(texts).map(Arc::<str>::from) else {
            return Err(SavedError::Damaged(format!("a phase of {device} has a text that is not there")));
        };
        let mut from = 0_usize;
        for &Span(since, events, step) in &phase.occurrences {
            from = from.saturating_add(since.unwrap_or(0));
            let to = events.map_or(most, |events| from.saturating_add(events));
            if from > to || to > most || all.len() == MOST_PHASES {
                let name = printable(cut(&name, 64));
                let words =
                    format!("the phase '{name}' of {device} is beyond the events, or one of more than {MOST_PHASES}");
                return Err(SavedError::Damaged(words));
            }
            all.push(Occurrence {
                name: Arc::clone(&name),
                source: phase.source,
                window: Window::of_counts(from, to),
                begins: since.is_some(),
                ends: events.is_some(),
                step,
                ..Occurrence::default()
            });
        }
    }
    Ok(all)
}
