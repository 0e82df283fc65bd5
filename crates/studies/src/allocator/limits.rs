//! The memory of a device, as far as a recording shows it: from requests that did not fit.

use ptmem_snapshot::snapshot::{Action, Event};

const MIB: u64 = 1 << 20;

/// True if the segments that went last made room for the request that follows: their events have the stack of that request, where
/// stacks were captured.
pub(super) fn is_retry(last: &Event, next: &Event) -> bool {
    matches!(next.action, Action::SegmentAlloc | Action::SegmentMap | Action::Oom) && next.stack == last.stack
}

/// True if a segment, or a part of one, goes.
pub(super) fn returns_segment(event: &Event) -> bool {
    matches!(event.action, Action::SegmentFree | Action::SegmentUnmap)
}

/// Reserved bytes, and the requests that did not fit beside them.
pub(super) struct Limits {
    reserved: u64,
    highest: u64,
    /// The least that did not fit before segments were given back for it.
    retried: u64,
    /// The least that did not fit at all.
    failed: u64,
}

impl Limits {
    pub(super) fn new(reserved: u64) -> Self {
        Self { reserved, highest: reserved, retried: u64::MAX, failed: u64::MAX }
    }

    pub(super) fn obtain(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_add(bytes);
        self.highest = self.highest.max(self.reserved);
    }

    /// Segments go, perhaps to make room for an event.
    pub(super) fn give_back(&mut self, bytes: u64, made_room_for: Option<&Event>) {
        if let Some(event) = made_room_for {
            self.retried = self.retried.min(self.reserved.saturating_add(segment_of(event)).saturating_sub(1));
        }
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    pub(super) fn fail(&mut self, event: &Event) {
        let short = self.reserved.saturating_add(segment_of(event)).saturating_sub(1);
        self.failed = self.failed.min(self.reserved.saturating_add(event.addr).min(short));
    }

    /// Whether segments that went right before a segment came made room for it.
    pub(super) fn are_retries(&self) -> bool {
        self.retried >= self.highest
    }

    /// The memory of the device.
    pub(super) fn capacity(&self) -> Option<u64> {
        let least = if self.are_retries() { self.retried.min(self.failed) } else { self.failed };
        (least != u64::MAX).then_some(least.max(self.highest))
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
