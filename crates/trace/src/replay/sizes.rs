//! The true sizes of all blocks. They do not depend on the counters, so they are found before these run.
//!
//! An allocation gets the size that the rules give. If the file shows the true size (the block is in the final state,
//! or another block begins at its end), that size counts, and the rules are checked against it. Sizes that stay
//! uncertain carry a [`Uncertainty`].

mod pools;
mod rules;
mod spread;

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{Action, Device, Event, Snapshot};
use rustc_hash::FxHashMap;

pub(super) use rules::KnownSettings;

use super::allocation::{Allocation, Basis};
use super::backing::Backing;
use super::census::Census;
use super::lifetimes::{Lifetimes, NONE};
use super::occupied::Occupied;
use super::rounding::{self, SMALL_SIZE, SplitRule};
use super::{Position, ReplayError};
use crate::trace::Uncertainty;
use pools::PrivatePools;
use rules::Decision;

/// The sizes of all blocks, and the evidence found on the way.
#[derive(Default)]
pub(super) struct BlockSizes {
    /// The sizes that are not certain, by allocation.
    pub(super) spreads: FxHashMap<u32, Uncertainty>,
    /// The allocator's settings, as far as they are known.
    pub(super) rules: KnownSettings,
    /// True if the size of some blocks depends on whether their pool splits its segments.
    pub(super) pools_uncertain: bool,
    /// Bytes of all segments before the first event.
    pub(super) reserved: i128,
    /// Allocations at addresses that no segment backs.
    pub(super) unbacked: u64,
    /// Allocations that reach into an occupied block.
    pub(super) overlaps: u64,
    /// Allocations made inside the history and alive at the end whose size follows from the rules.
    pub(super) recovered: u64,
    /// Segments that were made within the history and neither freed in it nor there at its end.
    pub(super) vanished_segments: u64,
}

/// Gives every allocation its bytes.
///
/// # Errors
/// Where a size leaves 64 bits.
pub(super) fn find(
    snapshot: &Snapshot,
    id: DeviceId,
    device: &Device,
    census: &Census,
    lifetimes: &mut Lifetimes,
) -> Result<BlockSizes, ReplayError> {
    let events = snapshot.events_of(device);
    let backing = Backing::at(snapshot, device, census, Position::START);
    let Lifetimes { allocations, addresses, older, of_event, survivors, .. } = lifetimes;
    let pools = PrivatePools::new(snapshot, device, census, allocations.len());
    let found = BlockSizes {
        rules: KnownSettings::new(snapshot, id, device),
        reserved: backing.reserved,
        vanished_segments: backing.vanished,
        ..BlockSizes::default()
    };
    let mut finder = Finder {
        rooms: vec![
            ServingBlock { bytes: 0, pool: SplitRule::Small, is_known: true, is_filled: false };
            allocations.len()
        ],
        overlapping: FxHashMap::default(),
        unexplained: FxHashMap::default(),
        known: vec![SegmentAt { changes: u32::MAX, segment: None, pool: NONE }; addresses.len()],
        found,
        backing,
        pools,
        snapshot,
    };
    finder.begin(older, allocations, addresses).ok_or(ReplayError::Overflow { device: id, what: "allocated" })?;
    let mut occupied = Occupied::at_start(addresses, older, allocations);
    let mut survivors = survivors.iter().peekable();
    for (i, &index) in of_event.iter().enumerate() {
        let now = Position::after(i);
        if index == NONE {
            finder.follow_segment(&events[i], now);
            continue;
        }
        if allocations[index as usize].born != now {
            occupied.follow(index, &allocations[index as usize], now);
            continue;
        }
        let known = survivors.next_if(|(survivor, _)| *survivor == index).map(|(_, block)| block.size);
        let taken = finder.take(&events[i], index, allocations, &occupied, known);
        taken.ok_or(ReplayError::Overflow { device: id, what: "allocated" })?;
        occupied.insert(allocations[index as usize].place, index);
    }
    finder.found.spreads = finder.settle(allocations);
    Ok(finder.found)
}

/// The free block that an allocation was served from.
#[derive(Debug, Clone, Copy)]
struct ServingBlock {
    bytes: u64,
    pool: SplitRule,
    /// True if the size of the allocation is known, and not only the one that the rules give.
    is_known: bool,
    /// True if it ends where the allocation does. The rounded request of one that is older than the history counts even
    /// so.
    is_filled: bool,
}

/// Goes through the history and finds the sizes.
struct Finder<'s> {
    snapshot: &'s Snapshot,
    found: BlockSizes,
    pools: PrivatePools,
    backing: Backing,
    /// By allocation.
    rooms: Vec<ServingBlock>,
    /// Bytes by which allocations reach into a block in use.
    overlapping: FxHashMap<u32, u64>,
    /// Known sizes that no rule explains, and the size that the rules give.
    unexplained: FxHashMap<u32, u64>,
    /// The segment at each address, as it was found last: segments change rarely, and few addresses serve all allocations.
    known: Vec<SegmentAt>,
}

/// The segment at an address: its start, its end and its pool.
#[derive(Debug, Clone, Copy)]
struct SegmentAt {
    /// [`SegmentMap::changes`](super::segment_map::SegmentMap::changes) when it was found.
    changes: u32,
    segment: Option<(u64, u64, SplitRule)>,
    /// The number of its private pool, where there can be pools that never split.
    pool: u32,
}

impl Finder<'_> {
    /// Finds the sizes of blocks older than the history. `None` where a size leaves 64 bits.
    fn begin(&mut self, older: &[u32], allocations: &mut [Allocation], addresses: &[u64]) -> Option<()> {
        for (_, range) in self.backing.segments.iter() {
            let is_shared = range.home.pool_id == Some(rounding::SHARED_POOL);
            self.found.rules.learn_from_start(range.pool == SplitRule::Expandable, is_shared);
        }
        for &index in older {
            let allocation = &mut allocations[index as usize];
            if allocation.basis == Basis::Request {
                allocation.bytes = self.found.rules.least(allocation.requested)?;
            }
        }
        let occupied = Occupied::at_start(addresses, older, allocations);
        for &index in older {
            let allocation = &allocations[index as usize];
            let address = occupied.address(allocation);
            let segment = self.segment(allocation.place, address);
            let pool = segment.map_or(SplitRule::of_request(allocation.requested), |(_, _, pool)| pool);
            let end = segment.map(|(_, end, _)| end).into_iter().chain(occupied.after(allocation.place)).min();
            let bytes = end.map_or(u64::MAX, |end| end.saturating_sub(address));
            let is_known = allocation.basis == Basis::FinalState;
            self.rooms[index as usize] = ServingBlock { bytes, pool, is_known, is_filled: false };
            if self.pools.possible {
                self.note_pool(index, address, None, &occupied, allocation.place);
            }
            let least = self.found.rules.least(allocation.requested);
            if let Some(least) = least.filter(|_| is_known) {
                self.found.rules.learn_rounding(allocation.requested, allocation.bytes, None);
                let decision = Decision { requested: allocation.requested, least, room: bytes, pool };
                let is_whole = allocation.bytes == bytes && allocation.bytes - least.min(bytes) > SMALL_SIZE;
                if !(is_whole && self.pools.note_whole(index, self.found.rules.may_be_whole(decision))) {
                    self.found.rules.learn_from_older(decision, allocation.bytes);
                }
            }
        }
        Some(())
    }

    /// The segment at the address of a place.
    #[inline]
    fn segment(&mut self, place: u32, address: u64) -> Option<(u64, u64, SplitRule)> {
        let segments = &self.backing.segments;
        let known = &mut self.known[place as usize];
        if known.changes != segments.changes {
            let segment = segments.find(address);
            let pool = segment.filter(|_| self.pools.possible).map_or(NONE, |(start, ..)| {
                self.pools.number(segments.home(address, 1).and_then(|home| home.pool_id), start)
            });
            *known = SegmentAt { changes: segments.changes, segment, pool };
        }
        known.segment
    }

    fn follow_segment(&mut self, event: &Event, now: Position) {
        self.backing.follow(event);
        if event.action == Action::SegmentAlloc {
            self.pools.begin_segment(event.addr);
        }
        match event.action {
            Action::SegmentMap => self.found.rules.learn_from_segment(true, now),
            Action::SegmentAlloc if self.found.rules.asks_for_segments() => match self.is_shared(event) {
                Some(true) => self.found.rules.learn_from_segment(false, now),
                // Private pools may keep ordinary segments.
                Some(false) => {}
                None => self.found.rules.suspect_from_ordinary_segment(),
            },
            _ => {}
        }
    }

    /// Whether an event about a segment concerns the default pool. `None` if unknown: the segment is gone at the end,
    /// and the event does not name its pool.
    fn is_shared(&self, event: &Event) -> Option<bool> {
        let pool = self.snapshot.tables.tags(event.tags).pool_id;
        let pool = pool.or_else(|| self.backing.segments.home(event.addr, 1).and_then(|home| home.pool_id));
        pool.map(|pool| pool == rounding::SHARED_POOL)
    }

    /// Notes the private pool that an allocation is served from, and whether it is not alone in its segment, which was
    /// looked up before.
    fn note_pool(&mut self, index: u32, address: u64, stated: Option<(u64, u64)>, occupied: &Occupied<'_>, place: u32) {
        let SegmentAt { segment: Some((start, end, _)), pool, .. } = self.known[place as usize] else { return };
        let pool = if stated.is_some() { self.pools.number(stated, start) } else { pool };
        let shares = address > start || occupied.after(place).is_some_and(|next| next < end);
        if shares {
            self.pools.note_split(pool);
        }
        self.pools.add(index, pool);
    }

    /// Sizes an allocation when it is made; `known` is its size in the final state. `None` where a size leaves 64 bits.
    fn take(
        &mut self,
        event: &Event,
        index: u32,
        allocations: &mut [Allocation],
        occupied: &Occupied<'_>,
        known: Option<u64>,
    ) -> Option<()> {
        let Allocation { requested, place, born, .. } = allocations[index as usize];
        let addr = event.addr;
        let least = self.found.rules.least(requested)?;
        let segment = self.segment(place, addr);
        if let Some(before) = occupied.before(place) {
            let start = occupied.address(&allocations[before as usize]);
            self.learn_from_neighbour(before, &mut allocations[before as usize], start, addr, segment);
        }
        if self.pools.possible {
            let stated = self.snapshot.tables.tags(event.tags).pool_id;
            self.note_pool(index, addr, stated, occupied, place);
        }
        let allocation = &mut allocations[index as usize];
        let Some((_, end, pool)) = segment else {
            self.found.unbacked += 1;
            let pool = SplitRule::of_request(requested);
            let bytes = least.saturating_add(self.found.rules.most_unsplit(pool, least, false));
            allocation.bytes = known.unwrap_or(least);
            allocation.basis = if known.is_some() { Basis::FinalState } else { Basis::Request };
            self.rooms[index as usize] = ServingBlock { bytes, pool, is_known: known.is_some(), is_filled: false };
            self.found.recovered += u64::from(known == Some(least));
            return Some(());
        };
        let free = occupied.after(place).map_or(end, |next| next.min(end)) - addr;
        if free < least {
            self.found.overlaps += 1;
            self.overlapping.insert(index, least - free);
        }
        let decision = Decision { requested, least, room: free.max(least), pool };
        let size = self.found.rules.size(decision);
        allocation.bytes = known.unwrap_or(size);
        allocation.basis = if known.is_some() { Basis::FinalState } else { Basis::Rule };
        self.rooms[index as usize] =
            ServingBlock { bytes: decision.room, pool, is_known: known.is_some(), is_filled: false };
        if let Some(actual) = known {
            self.compare(index, decision, actual, born);
        }
        Some(())
    }

    /// Holds the rules against a size that the final state shows.
    fn compare(&mut self, index: u32, decision: Decision, actual: u64, at: Position) {
        self.found.rules.learn_rounding(decision.requested, actual, Some(decision.room));
        let size = self.found.rules.size(decision);
        let is_whole = actual != size && actual == decision.room;
        if is_whole && self.pools.note_whole(index, self.found.rules.may_be_whole(decision)) {
            self.found.recovered += 1;
        } else if !self.found.rules.learn(decision, actual, at) {
            self.unexplained.insert(index, size);
        } else {
            self.found.recovered += u64::from(actual == size);
        }
    }

    /// A new block starts at `address`, and `neighbour`, at `start`, is the occupied block before it. As free neighbours are always
    /// merged and the head is handed out, the neighbour ends where the new block starts, unless a segment border lies
    /// between, or the program requested that address.
    fn learn_from_neighbour(
        &mut self,
        index: u32,
        neighbour: &mut Allocation,
        start: u64,
        address: u64,
        segment: Option<(u64, u64, SplitRule)>,
    ) {
        let gap = address - start;
        let room = self.rooms[index as usize];
        let plain = rounding::round_to_unit(neighbour.requested).unwrap_or(u64::MAX);
        if gap < plain.min(neighbour.bytes) || (room.is_known && gap < neighbour.bytes) {
            self.found.overlaps += 1;
            let reaches = self.overlapping.entry(index).or_default();
            *reaches = (*reaches).max(neighbour.bytes - gap);
            return;
        }
        let same_segment = segment.is_some_and(|(from, _, _)| start >= from);
        if room.is_known || !same_segment || gap > room.bytes {
            return;
        }
        let Some(least) = self.found.rules.least(neighbour.requested) else { return };
        let decision = Decision { requested: neighbour.requested, least, room: room.bytes, pool: room.pool };
        if neighbour.born == Position::START {
            // Its free block is not known, so nothing is learnt of the rules: it may be the most that any settings give.
            let rounded = rounding::roundings(neighbour.requested).fold(least, u64::max);
            let most = rounded.saturating_add(self.found.rules.most_unsplit(room.pool, rounded, true));
            if self.pools.known || gap <= most {
                self.rooms[index as usize] = ServingBlock { bytes: gap, is_filled: true, ..room };
            }
            return;
        }
        let size = self.found.rules.size(decision);
        if gap == size {
            self.set_known(index, neighbour, gap);
        } else if gap == decision.room {
            if !self.pools.note_whole(index, self.found.rules.may_be_whole(decision)) {
                self.found.rules.learn(decision, gap, neighbour.born);
            }
            self.set_known(index, neighbour, gap);
        } else if gap < size || rounding::roundings(neighbour.requested).any(|other| other == gap) {
            // Restoring the pool of a CUDA graph asks for sizes of blocks, and splits exactly.
            if neighbour.requested != gap {
                self.found.rules.learn(decision, gap, neighbour.born);
            }
            self.set_known(index, neighbour, gap);
        }
    }

    fn set_known(&mut self, index: u32, allocation: &mut Allocation, bytes: u64) {
        let room = &mut self.rooms[index as usize];
        room.is_known = true;
        self.found.rules.learn_rounding(allocation.requested, bytes, Some(room.bytes));
        allocation.bytes = bytes;
    }
}
