//! The passes of training that a recorder saw: setup, forward, backward, optimizer.

use super::{Phase, Source};
use crate::replay::Position;
use crate::snapshot::{Action, Event, RecordedPass, Snapshot};

/// The passes of a device.
pub(super) fn of_device(snapshot: &Snapshot, device: u32, events: &[Event]) -> Vec<Phase> {
    let all = snapshot.run.iter().flat_map(|run| &run.passes);
    let passes: Vec<&RecordedPass> = all.filter(|of| of.device == device).flat_map(|of| &of.passes).collect();
    if passes.is_empty() {
        return Vec::new();
    }
    let places = Places::new(events);
    let mut found = Vec::with_capacity(passes.len());
    for pass in passes {
        let Some(name) = snapshot.tables.find_string(&pass.name) else { continue };
        let from = pass.from.map_or(Position::START, |calls| places.after(calls));
        let to = pass.to.map_or(Position::of_count(events.len()), |calls| places.after(calls));
        found.push(Phase {
            name,
            source: Source::Pass,
            occurrence: 0,
            from,
            to: to.max(from),
            begins: pass.from.is_some(),
            ends: pass.to.is_some(),
            overlaps: false,
        });
    }
    found
}

/// The places of allocations and frees in a history.
struct Places {
    /// Number of events up to each allocation, itself included.
    allocations: Vec<usize>,
    /// The same of each free, with the event that completes it at once.
    frees: Vec<usize>,
}

impl Places {
    fn new(events: &[Event]) -> Self {
        let mut places = Self { allocations: Vec::new(), frees: Vec::new() };
        for (index, event) in events.iter().enumerate() {
            match event.action {
                Action::Alloc => places.allocations.push(index + 1),
                Action::FreeRequested => {
                    let next = events.get(index + 1).filter(|next| next.action == Action::FreeCompleted);
                    let is_completed = next.is_some_and(|next| next.addr == event.addr);
                    places.frees.push(index + 1 + usize::from(is_completed));
                }
                Action::FreeCompleted
                | Action::SegmentAlloc
                | Action::SegmentFree
                | Action::SegmentMap
                | Action::SegmentUnmap
                | Action::Snapshot
                | Action::Oom
                | Action::Other(_) => {}
            }
        }
        places
    }

    /// The place after so many allocations and frees.
    fn after(&self, [allocations, frees]: [u64; 2]) -> Position {
        let of_allocation = nth(&self.allocations, allocations);
        Position::of_count(of_allocation.max(nth(&self.frees, frees)))
    }
}

/// The place after the first `count`; the last, where there are fewer.
fn nth(places: &[usize], count: u64) -> usize {
    let last = usize::try_from(count).unwrap_or(usize::MAX).min(places.len());
    last.checked_sub(1).map_or(0, |last| places[last])
}
