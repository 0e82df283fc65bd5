//! Private pools: memory that only their own allocations can use, such as those captured in a CUDA graph.

use std::collections::{BTreeMap, HashMap};

use ptmem_snapshot::snapshot::{Action, BlockSums, Segment, StackId};
use serde::{Deserialize, Serialize};

use super::Position;
use super::backing::Backing;
use super::device::DeviceView;
use super::rounding::SHARED_POOL;
use super::segment_map::Home;

/// Private pools of one name, with what they hold at the end of the recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PrivatePool {
    /// The function that obtained the first segment, as far as recorded: `capture (train.py)`.
    pub name: String,
    /// Number of pools: several that one function made have one name.
    pub pools: u64,
    /// Number of segments.
    pub segments: u64,
    /// Bytes of the segments.
    pub reserved: u64,
    /// Bytes of blocks that are in use.
    pub allocated: u64,
    /// The same with blocks that wait for a stream.
    pub active: u64,
    /// Reserved bytes from a position to the next one; empty where the segments are not known over the recording.
    pub curve: Vec<(Position, u64)>,
    /// The stack of the first segment, until it has given the name.
    #[serde(skip)]
    pub(crate) stack: Option<StackId>,
}

impl PrivatePool {
    /// Bytes that only further allocations in the pool can use.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }

    /// Reserved bytes at a position, where they are known.
    #[must_use]
    pub fn reserved_at(&self, at: Position) -> Option<u64> {
        let next = self.curve.partition_point(|&(from, _)| from <= at);
        self.curve.get(next.checked_sub(1)?).map(|&(_, bytes)| bytes)
    }

    fn add(&mut self, segment: &Segment) {
        let BlockSums { allocated, active, .. } = segment.sums();
        self.segments += 1;
        self.reserved = self.reserved.saturating_add(segment.total_size);
        self.allocated = self.allocated.saturating_add(u64::try_from(allocated).unwrap_or(0));
        self.active = self.active.saturating_add(u64::try_from(active).unwrap_or(0));
    }

    /// Adds pools of the same name.
    fn merge(&mut self, other: &Self) {
        self.pools += other.pools;
        self.segments += other.segments;
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.active = self.active.saturating_add(other.active);
        let is_known = !self.curve.is_empty() && !other.curve.is_empty();
        let mut places: Vec<Position> = self.curve.iter().chain(&other.curve).map(|&(at, _)| at).collect();
        places.sort_unstable();
        places.dedup();
        let sums = places.into_iter().map(|at| {
            let both = [&*self, other].map(|pool| pool.reserved_at(at).unwrap_or(0));
            (at, both[0].saturating_add(both[1]))
        });
        self.curve = if is_known { sums.collect() } else { Vec::new() };
    }
}

/// Puts pools of one name together, by name.
pub(crate) fn merged(pools: Vec<PrivatePool>) -> Vec<PrivatePool> {
    let mut by_name: BTreeMap<String, PrivatePool> = BTreeMap::new();
    for pool in pools {
        match by_name.get_mut(&pool.name) {
            Some(known) => known.merge(&pool),
            None => _ = by_name.insert(pool.name.clone(), pool),
        }
    }
    by_name.into_values().collect()
}

/// The private pools of the final state. Pools that are gone by then are left out: before PyTorch 2.12, no event names the pool
/// of a segment.
pub(super) fn find(view: DeviceView<'_>) -> Vec<PrivatePool> {
    let mut pools: BTreeMap<(u64, u64), PrivatePool> = BTreeMap::new();
    for segment in &view.device.segments {
        if let Some(id) = segment.pool_id.filter(|&id| id != SHARED_POOL) {
            pools.entry(id).or_insert_with(|| PrivatePool { pools: 1, ..PrivatePool::default() }).add(segment);
        }
    }
    if !pools.is_empty() {
        follow(view, &mut pools);
    }
    pools.into_values().collect()
}

/// Adds the curves and the first stacks.
fn follow(view: DeviceView<'_>, pools: &mut BTreeMap<(u64, u64), PrivatePool>) {
    let tables = &view.snapshot.tables;
    let mut backing = Backing::at(view.snapshot, view.device, Position::START);
    let mut held: BTreeMap<(u64, u64), u64> = pools.keys().map(|&id| (id, 0)).collect();
    let of_segments = view.device.segments.iter().map(|segment| (segment.address, segment.stack));
    let of_segments: HashMap<u64, Option<StackId>> = of_segments.collect();
    for (start, range) in backing.segments.iter() {
        let Some(id) = range.home.private_pool() else { continue };
        if let (Some(pool), Some(bytes)) = (pools.get_mut(&id), held.get_mut(&id)) {
            *bytes = bytes.saturating_add(range.end - start);
            let stack = of_segments.get(&start).copied().flatten().filter(|stack| tables.has_frames(*stack));
            pool.stack = pool.stack.or(stack);
        }
    }
    for (id, pool) in pools.iter_mut() {
        pool.curve.push((Position::START, held[id]));
    }
    for (index, event) in view.events().iter().enumerate() {
        let comes = matches!(event.action, Action::SegmentAlloc | Action::SegmentMap);
        let home = if comes { backing.homes.last().copied() } else { backing.segments.home(event.addr, event.size) };
        if !comes && !matches!(event.action, Action::SegmentFree | Action::SegmentUnmap) {
            continue;
        }
        backing.follow(event);
        let Some(id) = home.and_then(Home::private_pool) else { continue };
        let (Some(pool), Some(bytes)) = (pools.get_mut(&id), held.get_mut(&id)) else { continue };
        *bytes = if comes { bytes.saturating_add(event.size) } else { bytes.saturating_sub(event.size) };
        pool.stack = pool.stack.or(event.stack.filter(|stack| comes && tables.has_frames(*stack)));
        pool.curve.push((Position::after(index), *bytes));
    }
    // Where segments are missing in the history, its end contradicts the state.
    let contradicted = pools.iter_mut().filter(|(id, pool)| held[id] != pool.reserved);
    contradicted.for_each(|(_, pool)| pool.curve = Vec::new());
}
