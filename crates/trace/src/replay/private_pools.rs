//! Private pools: memory that only their own allocations can use, such as those captured in a CUDA graph.

use std::collections::{BTreeMap, HashMap};

use ptmem_snapshot::snapshot::{BlockSums, Segment, StackId};
use serde::{Deserialize, Serialize};

use super::Position;
use super::backing::Backing;
use super::census::Census;
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
    pub fn free(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }

    /// Reserved bytes at a position, where they are known.
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

    /// Pools of one name as one.
    fn together(pools: Vec<Self>) -> Option<Self> {
        let curve = curve_of_all(&pools);
        let sums = pools.into_iter().reduce(|sums, pool| Self {
            pools: sums.pools + pool.pools,
            segments: sums.segments + pool.segments,
            reserved: sums.reserved.saturating_add(pool.reserved),
            allocated: sums.allocated.saturating_add(pool.allocated),
            active: sums.active.saturating_add(pool.active),
            ..sums
        });
        sums.map(|sums| Self { curve, ..sums })
    }
}

/// The sum of the curves of some pools; empty where one of them is not known.
fn curve_of_all(pools: &[PrivatePool]) -> Vec<(Position, u64)> {
    if pools.iter().any(|pool| pool.curve.is_empty()) {
        return Vec::new();
    }
    let mut changes: Vec<(Position, i128)> = Vec::new();
    for pool in pools {
        let mut before = 0;
        for &(at, bytes) in &pool.curve {
            changes.push((at, i128::from(bytes) - before));
            before = i128::from(bytes);
        }
    }
    changes.sort_unstable();
    let mut sum = 0;
    let sums = changes.chunk_by(|one, next| one.0 == next.0).map(|of_place| {
        sum += of_place.iter().map(|(_, change)| change).sum::<i128>();
        (of_place[0].0, u64::try_from(sum).unwrap_or(u64::MAX))
    });
    sums.collect()
}

/// Puts pools of one name together, by name.
pub(crate) fn merged(pools: Vec<PrivatePool>) -> Vec<PrivatePool> {
    let mut by_name: BTreeMap<String, Vec<PrivatePool>> = BTreeMap::new();
    for pool in pools {
        by_name.entry(pool.name.clone()).or_default().push(pool);
    }
    by_name.into_values().filter_map(PrivatePool::together).collect()
}

/// The private pools of the final state. Pools that are gone by then are left out: before PyTorch 2.12, no event names the pool
/// of a segment.
pub(super) fn find(view: DeviceView<'_>, census: &Census) -> Vec<PrivatePool> {
    let mut pools: BTreeMap<(u64, u64), PrivatePool> = BTreeMap::new();
    for segment in &view.device.segments {
        if let Some(id) = segment.pool_id.filter(|&id| id != SHARED_POOL) {
            pools.entry(id).or_insert_with(|| PrivatePool { pools: 1, ..PrivatePool::default() }).add(segment);
        }
    }
    if !pools.is_empty() {
        follow(view, census, &mut pools);
    }
    pools.into_values().collect()
}

/// Adds the curves and the first stacks.
fn follow(view: DeviceView<'_>, census: &Census, pools: &mut BTreeMap<(u64, u64), PrivatePool>) {
    let tables = &view.snapshot.tables;
    let mut backing = Backing::at(view.snapshot, view.device, census, Position::START);
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
    for &place in &census.of_segments {
        let event = &view.events()[place as usize];
        let comes = event.action.adds_segment();
        let home = if comes { backing.homes.last().copied() } else { backing.segments.home(event.addr, event.size) };
        backing.follow(event);
        let Some(id) = home.and_then(Home::private_pool) else { continue };
        let (Some(pool), Some(bytes)) = (pools.get_mut(&id), held.get_mut(&id)) else { continue };
        *bytes = if comes { bytes.saturating_add(event.size) } else { bytes.saturating_sub(event.size) };
        pool.stack = pool.stack.or(event.stack.filter(|stack| comes && tables.has_frames(*stack)));
        pool.curve.push((Position::after(place as usize), *bytes));
    }
    // Where segments are missing in the history, its end contradicts the state.
    let contradicted = pools.iter_mut().filter(|(id, pool)| held[id] != pool.reserved);
    contradicted.for_each(|(_, pool)| pool.curve = Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, reserved: u64, curve: &[(usize, u64)]) -> PrivatePool {
        let curve = curve.iter().map(|&(at, bytes)| (Position::after(at), bytes)).collect();
        PrivatePool { name: name.to_owned(), pools: 1, segments: 1, reserved, curve, ..PrivatePool::default() }
    }

    #[test]
    fn pools_of_one_name_are_added_up() {
        let pools = vec![
            pool("a", 3, &[(0, 0), (2, 5), (6, 3)]),
            pool("b", u64::MAX, &[(0, u64::MAX)]),
            pool("a", 4, &[(0, 1), (4, 8), (6, 4)]),
            pool("b", 1, &[(1, 1)]),
        ];
        let expected = [
            PrivatePool { pools: 2, segments: 2, ..pool("a", 7, &[(0, 1), (2, 6), (4, 13), (6, 7)]) },
            PrivatePool { pools: 2, segments: 2, ..pool("b", u64::MAX, &[(0, u64::MAX), (1, u64::MAX)]) },
        ];
        assert_eq!(merged(pools), expected);
        let unknown = merged(vec![pool("a", 1, &[(0, 1)]), pool("a", 2, &[])]);
        assert_eq!(unknown, [PrivatePool { pools: 2, segments: 2, ..pool("a", 3, &[]) }]);
    }

    #[test]
    fn many_pools_of_one_name_take_time_in_proportion() {
        let pools = (0..20_000).map(|at| pool("a", 1, &[(at, 0), (at + 1, 1)])).collect();
        let merged = merged(pools);
        assert_eq!(
            (merged[0].pools, merged[0].curve.last().copied()),
            (20_000, Some((Position::after(20_000), 20_000)))
        );
    }
}
