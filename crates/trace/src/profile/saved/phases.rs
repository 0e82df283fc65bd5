//! Phases in the file: a line per name, with its occurrences.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use ptmem_base::text::{cut, printable};

use super::super::phases::{MOST_PHASES, Phases};
use super::SavedError;
use super::format::{SavedMarks, SavedPhase, SavedText, Span};
use crate::phase::{Occurrence, PhaseMarks, PhaseSource};
use crate::replay::Position;
use crate::trace::Window;

/// The names in the order in which they first occur, as a file has them.
pub(super) fn saved(phases: &Phases, mut text: impl FnMut(&str) -> SavedText) -> Vec<SavedPhase> {
    let mut known: HashMap<(PhaseSource, &str), (usize, usize, u32)> = HashMap::new();
    let mut names: Vec<SavedPhase> = Vec::new();
    for phase in phases.kept() {
        let (index, last, last_mark) = known.entry((phase.source, &*phase.name)).or_insert_with(|| {
            let name = text(&phase.name);
            names.push(SavedPhase { name, source: phase.source, occurrences: Vec::new(), marks: Vec::new() });
            (names.len() - 1, 0, 0)
        });
        let [from, to] = [phase.window.from, phase.window.to].map(Position::count);
        let since = phase.begins.then(|| from - *last);
        let events = phase.ends.then(|| to - from);
        names[*index].occurrences.push(Span(since, events, phase.step));
        *last = from;
        if let Some(PhaseMarks { begin, end }) = phase.marks {
            names[*index].marks.push(SavedMarks(begin - *last_mark, end - begin));
            *last_mark = begin;
        }
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
        let mut begin = 0_u32;
        let mut marks = phase.marks.iter();
        for &Span(since, events, step) in &phase.occurrences {
            let marks = marks.next().map(|&SavedMarks(since, length)| {
                begin = begin.saturating_add(since);
                PhaseMarks { begin, end: begin.saturating_add(length) }
            });
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
                marks,
                ..Occurrence::default()
            });
        }
    }
    if !are_in_order(&all) {
        return Err(SavedError::Damaged(format!("the marks of phases of {device} contradict the events")));
    }
    Ok(all)
}

/// Whether phases begin before events in the order of their marks.
fn are_in_order(all: &[Occurrence]) -> bool {
    let marked = all.iter().filter_map(|phase| Some((phase.marks?.begin, phase.window.from)));
    let mut marked: Vec<(u32, Position)> = marked.collect();
    marked.sort_by_key(|&(begin, from)| (begin, Reverse(from)));
    marked.is_sorted_by_key(|(_, from)| *from)
}
