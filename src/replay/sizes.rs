//! What every block really occupies. That does not depend on the counters, so it is found before these run.

use rustc_hash::FxHashMap;

use super::backing::Backing;
use super::census::Census;
use super::lifetimes::{Lifetimes, NONE};
use super::occupied::Occupied;
use super::rounding::{Pool, SMALL_SIZE, round_size, should_split};
use super::segment_map::SegmentMap;
use super::{Allocation, Basis, Error, Position};
use crate::snapshot::{AllocatorSettings, Device, Snapshot};

/// What finding the sizes tells beside them.
pub(super) struct Sizes {
    /// By how much each block may be larger than is found: for [`Basis::Request`] as far as is known, for others only
    /// where the rules do not describe this allocator.
    pub(super) more: Vec<u64>,
    /// Bytes of all segments before the first event.
    pub(super) reserved: i128,
    /// Allocations at addresses that no segment backs.
    pub(super) homeless: u64,
    /// Allocations that reach into an occupied block.
    pub(super) overlaps: u64,
}

/// Gives every allocation its bytes.
///
/// # Errors
/// Where a size leaves 64 bits.
pub(super) fn find(
    snapshot: &Snapshot,
    id: u32,
    device: &Device,
    census: &Census,
    lifetimes: &mut Lifetimes,
) -> Result<Sizes, Error> {
    let overflow = || Error::Overflow { device: id, what: "allocated" };
    let (events, settings) = (snapshot.events_of(device), &snapshot.settings);
    let (mut backing, reserved) = Backing::at_start(snapshot, device, census, lifetimes);
    let Lifetimes { allocations, addresses, older, of_event, .. } = lifetimes;
    let mut occupied = Occupied::at_start(addresses, older, allocations);
    for &index in &*older {
        let allocation = &mut allocations[index as usize];
        if allocation.basis == Basis::Request {
            allocation.bytes = round_size(allocation.requested, settings).ok_or_else(overflow)?;
        }
    }
    let mut sizes = Sizes { more: vec![0; allocations.len()], reserved, homeless: 0, overlaps: 0 };
    for &index in &*older {
        let allocation = &allocations[index as usize];
        if allocation.basis == Basis::Request {
            sizes.more[index as usize] = most_more(allocation, &mut backing.segments, &occupied, settings);
        }
    }

    let mut neighbours = Neighbours { settings, bounded: FxHashMap::default(), too_large: FxHashMap::default() };
    for (i, &index) in of_event.iter().enumerate() {
        let now = Position::after(i);
        if index == NONE {
            backing.follow(&events[i]);
            continue;
        }
        let Allocation { addr, requested, rank, born, .. } = allocations[index as usize];
        if born != now {
            occupied.follow(index, &allocations[index as usize], now);
            continue;
        }
        let least = round_size(requested, settings).ok_or_else(overflow)?;
        let segment = backing.segments.find(addr);
        if let Some(before) = occupied.before(rank) {
            neighbours.learn(&mut allocations[before as usize], before, addr, segment, &mut sizes);
        }
        let mut basis = Basis::Rule;
        let mut bytes = least;
        let most = match segment {
            Some((_, end, pool)) => {
                let next = occupied.after(rank).map_or(end, |next| next.min(end));
                let free = next - addr;
                match free.checked_sub(least) {
                    Some(rest) if !should_split(pool, least, rest, settings) => bytes = free,
                    Some(_) => {}
                    None => sizes.overlaps += 1,
                }
                free.max(least)
            }
            None => {
                sizes.homeless += 1;
                basis = Basis::Request;
                least.saturating_add(most_unsplit(pool_of_request(least), least, settings))
            }
        };
        let allocation = &mut allocations[index as usize];
        (allocation.bytes, allocation.basis) = (bytes, basis);
        sizes.more[index as usize] = most - bytes;
        occupied.insert(rank, index);
    }
    neighbours.settle(&mut sizes);
    Ok(sizes)
}

/// What blocks tell of those before them.
struct Neighbours<'a> {
    settings: &'a AllocatorSettings,
    /// Those that are older than the history and whose size is not known.
    bounded: FxHashMap<u32, Bounded>,
    /// How often a block was found too large for the room before the next, where its request alone would have fit.
    too_large: FxHashMap<u32, u64>,
}

/// How large a block can be at most, from those that came after it.
#[derive(Default)]
struct Bounded {
    /// By how much it can exceed what its request rounds to, from each of them: those that are less than all later
    /// ones.
    more: Vec<u64>,
    /// How often even that was too large.
    overlaps: u64,
}

/// Bounds that differ are of a history that contradicts itself. No more of them are believed than these, from the last.
const BOUNDS: usize = 3;

impl Neighbours<'_> {
    /// A new block starts at `address`, and `neighbour` is the occupied block before it. As free neighbours are always
    /// merged and the head is handed out, the neighbour ends where the new block starts, unless a segment border lies
    /// between.
    fn learn(
        &mut self,
        neighbour: &mut Allocation,
        index: u32,
        address: u64,
        segment: Option<(u64, u64, Pool)>,
        sizes: &mut Sizes,
    ) {
        let room = address - neighbour.addr;
        let more = &mut sizes.more[index as usize];
        if neighbour.basis == Basis::Request && *more > 0 {
            if neighbour.born != Position::START {
                return;
            }
            let Some(actual) = room.checked_sub(neighbour.bytes) else {
                self.bounded.entry(index).or_default().overlaps += 1;
                return;
            };
            let same_segment = segment.is_some_and(|(start, _, _)| neighbour.addr >= start);
            if same_segment && actual < *more {
                let bounds = &mut self.bounded.entry(index).or_default().more;
                while bounds.last().is_some_and(|&last| last >= actual) {
                    bounds.pop();
                }
                bounds.push(actual);
            }
            return;
        }
        if neighbour.bytes <= room {
            return;
        }
        // The general rule gave the neighbour the whole free block. Restoring a CUDA graph's
        // pool splits exactly, however small the rest.
        let exact = round_size(neighbour.requested, self.settings).filter(|_| neighbour.basis == Basis::Rule);
        match exact {
            Some(exact) if exact == room => {
                *more += neighbour.bytes - exact;
                neighbour.bytes = exact;
                // With that it is not too large any more.
                sizes.overlaps -= self.too_large.remove(&index).unwrap_or(0);
            }
            exact => {
                if exact.is_some_and(|exact| exact < room) {
                    *self.too_large.entry(index).or_default() += 1;
                }
                sizes.overlaps += 1;
            }
        }
    }

    /// Takes the bounds for what they are.
    fn settle(self, sizes: &mut Sizes) {
        for (index, bounded) in self.bounded {
            let more = &mut sizes.more[index as usize];
            if let Some(&bound) = bounded.more.get(bounded.more.len().saturating_sub(BOUNDS)) {
                *more = bound;
            }
            if *more == 0 {
                sizes.overlaps += bounded.overlaps;
            }
        }
    }
}

/// By how much a block that was allocated before the history and freed inside it may exceed its rounded
/// request: up to what is free behind it, but never as much as the allocator would have split off.
fn most_more(
    allocation: &Allocation,
    segments: &mut SegmentMap,
    occupied: &Occupied<'_>,
    settings: &AllocatorSettings,
) -> u64 {
    let segment = segments.find(allocation.addr);
    let pool = segment.map_or(pool_of_request(allocation.bytes), |(_, _, pool)| pool);
    if allocation.addr == u64::MAX {
        return 0;
    }
    let end = [segment.map(|(_, end, _)| end), occupied.after(allocation.rank)].into_iter().flatten().min();
    let most = most_unsplit(pool, allocation.bytes, settings);
    let free = end.map_or(u64::MAX, |end| end.saturating_sub(allocation.addr));
    free.saturating_sub(allocation.bytes).min(most)
}

/// The most that the allocator leaves unsplit behind a block of `size` bytes.
fn most_unsplit(pool: Pool, size: u64, settings: &AllocatorSettings) -> u64 {
    if pool != Pool::Large || settings.expandable_segments {
        // Anything from 512 bytes on is split off, and sizes are multiples of it.
        0
    } else if settings.max_split_size.is_some_and(|limit| size >= limit) {
        u64::MAX
    } else {
        SMALL_SIZE
    }
}

/// The pool that serves a request, where no segment says so.
fn pool_of_request(rounded: u64) -> Pool {
    if rounded <= SMALL_SIZE { Pool::Small } else { Pool::Large }
}
