//! Where blocks and segments lie: what pictures of the memory need, and no figure.

use super::DeviceView;
use super::backing::Backing;
use super::census::Census;
use super::lifetimes::{Lifetimes, NONE};
use super::rounding::Pool;
use crate::snapshot::Action;

/// The addresses of the blocks and segments of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The address of every block, by the number that the trace gives it.
    pub blocks: Vec<u64>,
    /// The segments before the first event.
    pub segments: Vec<SegmentPart>,
    /// The segments, or parts of one, that come and go, in the order of their events.
    pub changes: Vec<SegmentPart>,
}

/// A segment, or a mapped part of an expandable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPart {
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// True if parts that touch are one segment.
    pub is_mapped: bool,
}

impl Layout {
    /// `numbers` are those that the trace gives the block of every allocation.
    pub(super) fn new(view: DeviceView<'_>, census: &Census, lifetimes: &Lifetimes, numbers: &[u32]) -> Self {
        let mut blocks = vec![0; numbers.len()];
        for (allocation, &number) in lifetimes.allocations.iter().zip(numbers) {
            blocks[number as usize] = allocation.addr;
        }
        let start = Backing::at_start(view.snapshot, view.device, census, lifetimes).segments;
        let segments = start.iter().map(|(address, end, _)| SegmentPart {
            address,
            bytes: end - address,
            is_mapped: start.pool_at(address) == Some(Pool::Expandable),
        });
        let events = view.events().iter().zip(&lifetimes.of_event).filter(|(_, index)| **index == NONE);
        let changes = events.filter_map(|(event, _)| {
            let is_mapped = match event.action {
                Action::SegmentAlloc | Action::SegmentFree => false,
                Action::SegmentMap | Action::SegmentUnmap => true,
                Action::Alloc
                | Action::FreeRequested
                | Action::FreeCompleted
                | Action::Snapshot
                | Action::Oom
                | Action::Other(_) => return None,
            };
            Some(SegmentPart { address: event.addr, bytes: event.size, is_mapped })
        });
        Self { blocks, segments: segments.collect(), changes: changes.collect() }
    }
}
