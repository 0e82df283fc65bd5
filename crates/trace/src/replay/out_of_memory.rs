//! The memory that was left when an allocation failed: the free blocks that the request could have been served from.

use ptmem_snapshot::snapshot::{Action, AllocatorSettings, Device, Event, Snapshot, Tables};
use rustc_hash::FxHashSet;

use super::backing::Backing;
use super::census::Census;
use super::figures::FreeBlocks;
use super::lifetimes::{Lifetimes, NONE};
use super::occupied::Occupied;
use super::rounding::{SHARED_POOL, SMALL_SIZE, round_size};
use super::segment_map::Range;
use super::{Allocation, Position};

/// Free blocks are examined for at most this many failed allocations of a device; a job that catches and retries has
/// many, and each takes a walk over all held memory.
const MOST_LOOKED_AT: usize = 16;

/// The free blocks of the requested pool, for the first failed allocations of a device, if the file states enough.
pub(super) fn pools(
    snapshot: &Snapshot,
    device: &Device,
    census: &Census,
    lifetimes: &Lifetimes,
) -> Vec<Option<FreeBlocks>> {
    let mut pools = Vec::new();
    if census.count(Action::Oom) == 0 {
        return pools;
    }
    let allocations = &*lifetimes.allocations;
    let mut state = HeldMemory {
        backing: Backing::at(snapshot, device, census, Position::START),
        occupied: Occupied::at_start(&lifetimes.addresses, &lifetimes.older, allocations),
        allocations,
        settings: &snapshot.settings,
        private_streams: private_streams(device),
    };
    for (i, (event, &index)) in snapshot.events_of(device).iter().zip(&lifetimes.of_event).enumerate() {
        if index != NONE {
            state.occupied.follow(index, &allocations[index as usize], Position::after(i));
            continue;
        }
        state.backing.follow(event);
        if event.action == Action::Oom {
            pools.push(state.free_blocks(event, &snapshot.tables));
            if pools.len() == MOST_LOOKED_AT {
                break;
            }
        }
    }
    pools
}

/// The memory that is held while the events are gone through.
struct HeldMemory<'a> {
    backing: Backing,
    /// Blocks in use: indices into `allocations`.
    occupied: Occupied<'a>,
    allocations: &'a [Allocation],
    settings: &'a AllocatorSettings,
    /// The result of [`private_streams`].
    private_streams: FxHashSet<Option<i128>>,
}

/// The streams on which the final state has segments of private pools: CUDA graphs are captured on streams of their
/// own, never on the default one.
fn private_streams(device: &Device) -> FxHashSet<Option<i128>> {
    let private = device.segments.iter().filter(|segment| segment.pool_id.is_some_and(|id| id != SHARED_POOL));
    private.map(|segment| segment.stream).collect()
}

impl HeldMemory<'_> {
    /// The free blocks of the pool that `request`, an `oom` event, asked: of its stream, and for requests of its size.
    /// `None` if the file does not state which these are.
    ///
    /// Before release 2.12 a request does not say whether it is for a private pool. It is taken not to be where its
    /// stream has none.
    fn free_blocks(&self, request: &Event, tables: &Tables) -> Option<FreeBlocks> {
        let tags = tables.tags(request.tags);
        let stream = tags.stream?;
        let small = request.size <= SMALL_SIZE;
        let pool_id = self.pool_of(stream, tags.pool_id)?;
        let mut found = FreeBlocks { bytes: 0, largest: 0 };
        for (start, Range { end, home, .. }) in self.backing.segments.iter() {
            let elsewhere = home.stream.is_some_and(|of| of != stream)
                || home.small.is_some_and(|of| of != small)
                || home.pool_id.is_some_and(|of| of != pool_id);
            if elsewhere {
                continue;
            }
            let range = self.free_in(start, end);
            if range.bytes == 0 {
                continue;
            }
            // The pool of a segment is decided by the size of the requests that it serves.
            let is_small = match home.small {
                Some(is_small) => is_small,
                None => round_size(self.first_in(start, end)?.requested, self.settings)? <= SMALL_SIZE,
            };
            home.stream?;
            if is_small == small && self.pool_of(stream, home.pool_id)? == pool_id {
                found.bytes = found.bytes.saturating_add(range.bytes);
                found.largest = found.largest.max(range.largest);
            }
        }
        Some(found)
    }

    /// The pool with an id, or the one that a request on a stream asks without an id. `None` where that is not known.
    fn pool_of(&self, stream: i128, id: Option<(u64, u64)>) -> Option<(u64, u64)> {
        match id {
            None if self.private_streams.contains(&Some(stream)) => None,
            id => Some(id.unwrap_or(SHARED_POOL)),
        }
    }

    /// The first block of a range.
    fn first_in(&self, start: u64, end: u64) -> Option<&Allocation> {
        self.occupied.range(start, end).next().map(|index| &self.allocations[index as usize])
    }

    /// The free space between the blocks of a range. Free neighbours are always one block.
    fn free_in(&self, start: u64, end: u64) -> FreeBlocks {
        let mut found = FreeBlocks { bytes: 0, largest: 0 };
        let mut free_from = start;
        for index in self.occupied.range(start, end) {
            let allocation = &self.allocations[index as usize];
            let address = self.occupied.address(allocation);
            found.add(address.saturating_sub(free_from));
            free_from = free_from.max(address.saturating_add(allocation.bytes));
        }
        found.add(end.saturating_sub(free_from));
        found
    }
}

impl FreeBlocks {
    /// Adds a block of a range, whose bytes fit.
    fn add(&mut self, size: u64) {
        self.bytes += size;
        self.largest = self.largest.max(size);
    }
}
