//! Lifetimes of the blocks that make the peak: events from their allocation to it, and from it to their free.

use std::collections::HashMap;

use super::Pictured;
use crate::replay::Position;

/// The lifetimes of the blocks that a stack holds at the peak, in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// From their allocation to the peak.
    pub born: EventRange,
    /// From the peak to their free.
    pub freed: EventRange,
}

/// The fewest and the most events between the peak and what happened to several blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventRange {
    /// The fewest; none where it happened to no block within the recording.
    pub nearest: Option<u64>,
    /// The most; none where it happened to some block outside of the recording.
    pub farthest: Option<u64>,
    is_open: bool,
}

impl EventRange {
    fn add(&mut self, events: Option<u64>) {
        let Some(events) = events else {
            self.is_open = true;
            self.farthest = None;
            return;
        };
        self.nearest = Some(self.nearest.map_or(events, |nearest| nearest.min(events)));
        if !self.is_open {
            self.farthest = Some(self.farthest.map_or(events, |farthest| farthest.max(events)));
        }
    }
}

/// The lifetimes by the key of the group, of the after where two are compared.
pub(super) fn spans(pictured: &Pictured<'_>) -> HashMap<String, Span> {
    let mut spans: HashMap<String, Span> = HashMap::new();
    let Some((profile, device)) = pictured.profiles.after.zip(pictured.devices.after) else { return spans };
    let Some(peak) = device.figures.allocated.peak_at.filter(|_| device.has_moves()) else { return spans };
    let grouper = profile.grouper();
    if grouper.by().is_tag() {
        return spans;
    }
    let keys = device.keys(&grouper);
    for life in device.trace.lives().iter().filter(|life| life.born <= peak && peak < life.freed) {
        let nothing = Span { born: EventRange::default(), freed: EventRange::default() };
        let span = spans.entry(keys[life.class as usize].0.clone()).or_insert(nothing);
        span.born.add((life.born != Position::START).then(|| events_between(life.born, peak)));
        let is_freed = life.freed.count() as u64 <= device.events;
        span.freed.add(is_freed.then(|| events_between(peak, life.freed)));
    }
    spans
}

fn events_between(from: Position, to: Position) -> u64 {
    (to.count() as u64).saturating_sub(from.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_open_once_one_lies_outside_of_the_recording() {
        let mut range = EventRange::default();
        range.add(Some(7));
        range.add(Some(3));
        assert_eq!((range.nearest, range.farthest), (Some(3), Some(7)));
        range.add(None);
        range.add(Some(9));
        assert_eq!((range.nearest, range.farthest), (Some(3), None));
    }
}
