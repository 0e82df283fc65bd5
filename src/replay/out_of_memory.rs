//! What the allocator had left when an allocation failed: the free blocks that the request could have been served from.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::rounding::{SMALL_SIZE, round_size};
use super::segment_map::{Home, SegmentMap};
use super::{Allocation, FreeBlocks};
use crate::snapshot::{AllocatorSettings, Device, Event, Tables};

/// The pool that everybody allocates from.
const SHARED: (u64, u64) = (0, 0);

/// Of so many failed allocations of a device the free blocks are looked at; a job that catches and retries has many,
/// and each takes a walk over all that is held.
pub(super) const MOST_LOOKED_AT: usize = 16;

/// What was held when an allocation failed.
pub(super) struct State<'a> {
    pub(super) segments: &'a SegmentMap,
    /// Blocks in use, by address: indices into `allocations`.
    pub(super) occupied: &'a BTreeMap<u64, u32>,
    pub(super) allocations: &'a [Allocation],
    pub(super) settings: &'a AllocatorSettings,
    /// What [`private_streams`] finds.
    pub(super) private_streams: &'a FxHashSet<Option<i128>>,
}

/// The streams on which the final state has segments of private pools: CUDA graphs are captured on streams of their
/// own, never on the default one.
pub(super) fn private_streams(device: &Device) -> FxHashSet<Option<i128>> {
    let private = device.segments.iter().filter(|segment| segment.pool_id.is_some_and(|id| id != SHARED));
    private.map(|segment| segment.stream).collect()
}

impl State<'_> {
    /// The free blocks of the pool that `request`, an `oom` event, asked: of its stream, and for requests of its size.
    /// `None` where the file does not tell which these are.
    ///
    /// Before release 2.12 a request does not say whether it is for a private pool. It is taken not to be where its
    /// stream has none.
    pub(super) fn free_blocks(&self, request: &Event, tables: &Tables) -> Option<FreeBlocks> {
        let tags = tables.tags(request.tags);
        let stream = tags.stream?;
        let small = request.size <= SMALL_SIZE;
        let pool_of = |id: Option<(u64, u64)>| match id {
            None if self.private_streams.contains(&tags.stream) => None,
            id => Some(id.unwrap_or(SHARED)),
        };
        let pool_id = pool_of(tags.pool_id)?;
        let mut found = FreeBlocks { bytes: 0, largest: 0 };
        for (start, end, home) in self.segments.iter() {
            let elsewhere = home.stream.is_some_and(|of| of != stream)
                || home.small.is_some_and(|of| of != small)
                || home.pool_id.is_some_and(|of| of != pool_id);
            if elsewhere {
                continue;
            }
            let (range, first) = self.free_in(start, end);
            if range.bytes == 0 {
                continue;
            }
            // The pool of a segment is decided by the size of the requests that it serves.
            let serves_small = || round_size(first?.requested, self.settings).map(|size| size <= SMALL_SIZE);
            let is_small = home.small.or_else(serves_small)?;
            home.stream?;
            if is_small == small && pool_of(home.pool_id)? == pool_id {
                found.bytes = found.bytes.saturating_add(range.bytes);
                found.largest = found.largest.max(range.largest);
            }
        }
        Some(found)
    }

    /// What is free between the blocks of a range, and the first of those. Free neighbours are always one block.
    fn free_in(&self, start: u64, end: u64) -> (FreeBlocks, Option<&Allocation>) {
        let mut found = FreeBlocks { bytes: 0, largest: 0 };
        let mut free_from = start;
        let mut first = None;
        let mut add = |from: u64, to: u64| {
            let size = to.saturating_sub(from);
            found.bytes += size;
            found.largest = found.largest.max(size);
        };
        for (&addr, &index) in self.occupied.range(start..end) {
            let allocation = &self.allocations[index as usize];
            first.get_or_insert(allocation);
            add(free_from, addr);
            free_from = free_from.max(addr.saturating_add(allocation.bytes));
        }
        add(free_from, end);
        (found, first)
    }
}

/// What an event tells of the segment that it adds or takes away.
pub(super) fn home_of(event: &Event, small: Option<bool>, tables: &Tables) -> Home {
    let tags = tables.tags(event.tags);
    Home { small, stream: tags.stream, pool_id: tags.pool_id }
}
