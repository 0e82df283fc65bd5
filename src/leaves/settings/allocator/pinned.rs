//! The segments that are mostly free at the reserved peak, and the blocks that keep them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptmem::replay::{Allocation, HistoryKind, Position, Replay, state_at};
use ptmem::snapshot::{Action, Block, BlockState, Device, Snapshot};
use ptmem::stack::Grouper;
use serde::Serialize;

/// Granularity of the device's memory.
const PAGE: u64 = 2 << 20;

/// Reserved memory at its peak, and what it is held for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Pinned {
    /// The moment: just after the request for which the peak was reserved.
    pub(crate) reserved_peak_event: Position,
    /// Reserved bytes.
    pub(crate) reserved_peak: u64,
    /// Bytes in use.
    pub(crate) active_then: u64,
    /// The highest number of bytes in use at any moment, rounded up to what a device gives: reserved without any free memory.
    pub(crate) without_free_memory: u64,
    /// Bytes of segments without a block in use.
    pub(crate) unused_segments: u64,
    /// Segments with blocks in use of which more than half is free, those with most free bytes first.
    pub(crate) mostly_free_segments: Vec<PinnedSegment>,
    /// The stacks of blocks in these segments, those that pin most first.
    pub(crate) pinning_stacks: Vec<Pin>,
}

/// A segment that is mostly free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PinnedSegment {
    /// Its first address.
    pub(crate) address: u64,
    /// Its size.
    pub(crate) bytes: u64,
    /// Bytes that are free.
    pub(crate) free: u64,
    /// Number of blocks in use.
    pub(crate) blocks: usize,
    /// The stack of the largest of them.
    pub(crate) stack_of_largest: String,
}

/// A stack whose blocks keep segments that are mostly free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Pin {
    /// The stack.
    pub(crate) stack: String,
    /// Number of its blocks in such segments.
    pub(crate) blocks: usize,
    /// Bytes of these blocks.
    pub(crate) bytes: u64,
    /// Number of these segments.
    pub(crate) segments: usize,
    /// Free bytes in them, which count for each stack that has a block there.
    pub(crate) free: u64,
}

/// The memory at the reserved peak, or at the dump if only that was recorded. `None` if the peak is not known.
pub(crate) fn pinned(snapshot: &Snapshot, device: &Device, replay: &Replay, grouper: &Grouper<'_>) -> Option<Pinned> {
    let events = snapshot.events_of(device);
    let figures = &replay.figures;
    let is_state = figures.history == HistoryKind::StateOnly;
    let peak = if is_state { replay.trace.dump() } else { figures.reserved.peak_at? };
    let most_active = if is_state { figures.active.end? } else { figures.active.peak? };
    // The segment is there, and the block for which it came is not yet.
    let is_requested = events.get(peak.count()).is_some_and(|next| next.action == Action::Alloc);
    let at = Position::of_count(peak.count() + usize::from(is_requested));
    let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
    let mut pinned = Pinned {
        reserved_peak_event: at,
        without_free_memory: most_active.next_multiple_of(PAGE),
        ..Pinned::default()
    };
    let live = allocations.iter().filter(|(_, one)| one.born <= at && at < one.completed);
    let live: HashMap<u64, &Allocation> = live.map(|&(address, one)| (address, one)).collect();
    let mut stacks: BTreeMap<String, Pin> = BTreeMap::new();
    for segment in state_at(snapshot, device, &allocations, at) {
        let used = segment.blocks.iter().filter(|block| block.state != BlockState::Inactive);
        let active: u64 = used.clone().map(|block| block.size).sum();
        let free = segment.total_size - active.min(segment.total_size);
        pinned.reserved_peak += segment.total_size;
        pinned.active_then += active;
        let Some(largest) = used.clone().max_by_key(|block| block.size) else {
            pinned.unused_segments += free;
            continue;
        };
        if free <= active {
            continue;
        }
        let mut here = BTreeSet::new();
        for block in used.clone() {
            let stack = label(&live, block, snapshot, grouper);
            let pin = stacks.entry(stack.clone()).or_insert_with(|| Pin { stack: stack.clone(), ..Pin::default() });
            pin.blocks += 1;
            pin.bytes += block.size;
            if here.insert(stack) {
                pin.segments += 1;
                pin.free += free;
            }
        }
        pinned.mostly_free_segments.push(PinnedSegment {
            address: segment.address,
            bytes: segment.total_size,
            free,
            blocks: used.count(),
            stack_of_largest: label(&live, largest, snapshot, grouper),
        });
    }
    pinned.mostly_free_segments.sort_by_key(|segment| (std::cmp::Reverse(segment.free), segment.address));
    pinned.pinning_stacks = stacks.into_values().collect();
    pinned.pinning_stacks.sort_by_key(|pin| (std::cmp::Reverse(pin.free), pin.bytes));
    Some(pinned)
}

fn label(live: &HashMap<u64, &Allocation>, block: &Block, snapshot: &Snapshot, grouper: &Grouper<'_>) -> String {
    let origin = live.get(&block.address).map(|allocation| allocation.origin(snapshot));
    origin.map_or_else(String::new, |origin| origin.label(|stack| grouper.label(stack)))
}
