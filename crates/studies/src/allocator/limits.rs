//! The memory of a device, as far as a recording shows it: from requests that did not fit.

use ptmem_snapshot::snapshot::{Action, Event};

const MIB: u64 = 1 << 20;

/// True if the segments that went last made room for the request that follows: their events have the stack of that request, where
/// stacks were captured.
pub(super) fn is_retry(last: &Event, next: Option<&Event>) -> bool {
    next.is_some_and(|next| {
        matches!(next.action, Action::SegmentAlloc | Action::SegmentMap | Action::Oom) && next.stack == last.stack
    })
}

/// True if a segment, or a part of one, goes.
pub(super) fn returns_segment(event: &Event) -> bool {
    matches!(event.action, Action::SegmentFree | Action::SegmentUnmap)
}

/// The memory of a device.
pub(super) struct Limits {
    pub(super) capacity: Option<u64>,
    /// Whether segments that went right before a segment came made room for it.
    pub(super) are_retries: bool,
}

impl Limits {
    pub(super) fn new(events: &[Event], reserved_before: u64) -> Self {
        let mut reserved = reserved_before;
        let mut highest = reserved;
        let mut retried = u64::MAX;
        let mut failed = u64::MAX;
        let mut run = None;
        for (at, event) in events.iter().enumerate() {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    reserved = reserved.saturating_add(event.size);
                    highest = highest.max(reserved);
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    let before: u64 = *run.get_or_insert(reserved);
                    reserved = reserved.saturating_sub(event.size);
                    let next = events.get(at + 1);
                    if is_retry(event, next) {
                        let size = next.map_or(0, segment_of);
                        retried = retried.min(before.saturating_add(size) - 1);
                    }
                }
                Action::Oom => {
                    let short = reserved.saturating_add(segment_of(event)).saturating_sub(1);
                    failed = failed.min(reserved.saturating_add(event.addr).min(short));
                }
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Snapshot | Action::Other(_) => {
                }
            }
            if !returns_segment(event) {
                run = None;
            }
        }
        let are_retries = retried >= highest;
        let least = if are_retries { retried.min(failed) } else { failed };
        Self { capacity: (least != u64::MAX).then_some(least.max(highest)), are_retries }
    }
}

/// Size of the segment that an event needs.
fn segment_of(event: &Event) -> u64 {
    match event.action {
        Action::Oom if event.size <= MIB => 2 * MIB,
        Action::Oom if event.size < 10 * MIB => 20 * MIB,
        Action::Oom => event.size.next_multiple_of(2 * MIB),
        _ => event.size,
    }
}
