//! The annotations of a window: those that begin or end in it, and the beginnings of those that are open at its start.

use std::collections::HashMap;

use crate::snapshot::{Annotation, Event, Snapshot, StringId};

/// The annotations from the first of these events to the last.
pub(super) fn within(snapshot: &Snapshot, events: &[Event]) -> Vec<Annotation> {
    let times = events.iter().filter_map(Event::time);
    let Some(first) = times.clone().min() else { return Vec::new() };
    let last = times.fold(first, i64::max);
    let mut is_kept: Vec<bool> =
        snapshot.annotations.iter().map(|annotation| (first..=last).contains(&annotation.time_us)).collect();
    // By name and device, as nested ranges of one name close.
    let mut open: HashMap<(StringId, u32), Vec<usize>> = HashMap::new();
    for (at, annotation) in snapshot.annotations.iter().enumerate().filter(|(_, known)| known.time_us <= last) {
        let begun = open.entry((annotation.name, annotation.device)).or_default();
        if annotation.starts {
            begun.push(at);
        } else if let Some(start) = begun.pop() {
            is_kept[start] |= is_kept[at];
        }
    }
    for start in open.into_values().flatten() {
        is_kept[start] = true;
    }
    let kept = snapshot.annotations.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept);
    kept.map(|(annotation, _)| annotation.clone()).collect()
}
