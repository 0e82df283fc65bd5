//! The order of phases, their numbers, and which of them lie within others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::phase::{Occurrence, PhaseSource};
use crate::replay::Position;
use crate::trace::Window;

/// Puts occurrences in order, numbers them, and finds their depth.
pub(super) fn arrange(all: &mut Vec<Occurrence>) {
    put_in_order(all);
    let mut numbers: HashMap<(PhaseSource, Arc<str>), u32> = HashMap::new();
    let mut around: Vec<Enclosing> = Vec::new();
    for phase in all {
        let number = numbers.entry((phase.source, Arc::clone(&phase.name))).or_default();
        phase.number = *number;
        *number += 1;
        // A phase that ends before this one does not enclose it, nor those that follow inside it.
        while around.last().is_some_and(|outer| !outer.encloses(phase)) {
            around.pop();
        }
        phase.depth = u32::try_from(around.len()).unwrap_or(u32::MAX);
        phase.is_outermost =
            phase.source != PhaseSource::Pass && around.iter().all(|outer| outer.source == PhaseSource::Pass);
        around.push(Enclosing { to: phase.window.to, end: phase.marks.map(|marks| marks.end), source: phase.source });
    }
}

/// A phase that may enclose those that begin after it.
struct Enclosing {
    to: Position,
    /// The place of its last mark.
    end: Option<u32>,
    source: PhaseSource,
}

impl Enclosing {
    fn encloses(&self, phase: &Occurrence) -> bool {
        let Window { from, to } = phase.window;
        let is_over = match (self.end, phase.marks) {
            (Some(end), Some(marks)) => end < marks.begin,
            (None, _) | (_, None) => self.to <= from,
        };
        !is_over && to <= self.to
    }
}

impl Occurrence {
    /// True if no event is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.window.from == self.window.to
    }

    /// Without marks: those without events first, then outer ones before those within them. PyTorch's own step of an optimizer is
    /// what that pass consists of.
    fn order_by_events(&self) -> impl Ord + '_ {
        let Window { from, to } = self.window;
        (from, !self.is_empty(), Reverse(to), self.source != PhaseSource::Pass, self.source, &self.name)
    }

    /// The order of marks.
    fn order_by_marks(&self) -> impl Ord + use<> {
        (self.marks.map(|marks| (marks.begin, Reverse(marks.end))), self.source != PhaseSource::Pass)
    }
}

/// Puts occurrences in the order in which they begin, outer ones first. PhaseMarks state the order of those that have some; the others
/// begin just before an event, after all that encloses them there.
pub(super) fn put_in_order(all: &mut Vec<Occurrence>) {
    let (mut marked, mut others): (Vec<_>, Vec<_>) = all.drain(..).partition(|phase| phase.marks.is_some());
    marked.sort_by_key(Occurrence::order_by_marks);
    others.sort_by(|a, b| a.order_by_events().cmp(&b.order_by_events()));
    let latest = latest_ends(&marked);
    let mut others = others.into_iter().peekable();
    for (phase, latest) in marked.into_iter().zip(latest) {
        while let Some(other) = others.next_if(|other| comes_first(other, &phase, latest)) {
            all.push(other);
        }
        all.push(phase);
    }
    all.extend(others);
}

/// For each phase, the latest end of those from it on that begin before the same event.
fn latest_ends(marked: &[Occurrence]) -> Vec<Position> {
    let mut ends: Vec<Position> = marked.iter().map(|phase| phase.window.to).collect();
    for at in (1..ends.len()).rev() {
        if marked[at - 1].window.from == marked[at].window.from {
            ends[at - 1] = ends[at - 1].max(ends[at]);
        }
    }
    ends
}

/// Whether a phase without marks comes before a marked one, where the `latest` end of this and of others after it that begin
/// before the same event is known.
fn comes_first(other: &Occurrence, marked: &Occurrence, latest: Position) -> bool {
    let Window { from, to } = other.window;
    let is_enclosed = to < latest || to == latest && other.source != PhaseSource::Pass;
    from < marked.window.from || from == marked.window.from && !marked.is_empty() && !is_enclosed
}
