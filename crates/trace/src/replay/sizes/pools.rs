//! Private pools, and whether they split their segments (`MemPool(no_split=True)`, PyTorch 2.10 and later).

use ptmem_snapshot::snapshot::{Action, Device, Snapshot};
use rustc_hash::FxHashMap;

use super::super::census::Census;
use super::super::rounding::SHARED_POOL;

/// A pool, as far as it is known: the pool of a segment that is missing in the final state is unknown, so it counts as
/// a pool of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PoolKey {
    /// The number of the pool.
    Stated((u64, u64)),
    /// The pool of a segment.
    OfSegment {
        /// First address of the segment.
        start: u64,
        /// How many segments began there before.
        generation: u32,
    },
}

/// The private pools of a device.
#[derive(Debug, Default)]
pub(super) struct PrivatePools {
    /// True if there can be pools that never split.
    pub(super) possible: bool,
    /// True if the file shows a pool that may be one.
    pub(super) known: bool,
    /// Whether pools split their segments, if there is evidence.
    pub(super) splits: FxHashMap<PoolKey, bool>,
    /// The pool of each allocation in a segment that is, or may be, of a private pool.
    members: FxHashMap<u32, PoolKey>,
    /// How many segments began at an address.
    generations: FxHashMap<u64, u32>,
}

impl PrivatePools {
    pub(super) fn new(snapshot: &Snapshot, device: &Device, census: &Census) -> Self {
        let has_unsplit = snapshot.settings.may_have_unsplit_pools();
        let tags = snapshot.tables.all_tags().map(|tags| tags.pool_id);
        let segments = device.segments.iter().map(|segment| segment.pool_id);
        let known = has_unsplit && segments.chain(tags.clone()).flatten().any(is_of_user);
        // All segments of a pool may have been freed, and before PyTorch 2.12 events do not state the pool of a
        // segment.
        let may_be_gone =
            has_unsplit && census.count(Action::SegmentFree) > 0 && tags.clone().all(|pool| pool.is_none());
        let split = device.segments.iter().filter(|segment| segment.blocks.len() > 1);
        let split = split.filter_map(|segment| Some((PoolKey::Stated(segment.pool_id?), true)));
        Self { possible: known || may_be_gone, known, splits: split.collect(), ..Self::default() }
    }

    /// The pool with a number, or that of the segment at `start`.
    pub(super) fn key(&self, stated: Option<(u64, u64)>, start: u64) -> PoolKey {
        let generation = self.generations.get(&start).copied().unwrap_or(0);
        stated.map_or(PoolKey::OfSegment { start, generation }, PoolKey::Stated)
    }

    /// Notes that a segment begins.
    pub(super) fn begin_segment(&mut self, start: u64) {
        if self.possible {
            *self.generations.entry(start).or_default() += 1;
        }
    }

    /// Notes that an allocation was served from a pool, if that may be one that never splits.
    pub(super) fn add(&mut self, allocation: u32, pool: PoolKey) {
        let may_be_of_user = match pool {
            PoolKey::Stated(id) => is_of_user(id),
            PoolKey::OfSegment { .. } => true,
        };
        if may_be_of_user {
            self.members.insert(allocation, pool);
        }
    }

    /// Notes that an allocation was not split off although the rules would have done so. Returns whether its pool
    /// explains it. If other settings explain it too (`is_ambiguous`), this is not evidence about the pool.
    pub(super) fn note_whole(&mut self, allocation: u32, is_ambiguous: bool) -> bool {
        let Some(pool) = self.members.get(&allocation) else { return false };
        let splits = self.splits.get(pool).copied();
        if splits.is_none() && !is_ambiguous {
            self.splits.insert(*pool, false);
            return true;
        }
        splits == Some(false)
    }

    /// True if an allocation is from a pool that splits; `None` if unknown.
    pub(super) fn has_split(&self, allocation: u32) -> Option<bool> {
        self.members.get(&allocation).map_or(Some(true), |pool| self.splits.get(pool).copied())
    }
}

/// True if a pool was made by the user (`torch.cuda.MemPool`): only those may never split. Captures of CUDA graphs
/// count theirs in the first number.
fn is_of_user(pool: (u64, u64)) -> bool {
    pool.0 == 0 && pool != SHARED_POOL
}
