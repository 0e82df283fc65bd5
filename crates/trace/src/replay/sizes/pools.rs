//! Private pools, and whether they split their segments (`MemPool(no_split=True)`, PyTorch 2.10 and later).

use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{Action, Device, Snapshot};
use rustc_hash::FxHashMap;

use super::super::census::Census;
use super::super::lifetimes::NONE;
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
    /// All pools, by number.
    pools: Interner<PoolKey>,
    /// Whether pools split their segments, if there is evidence; by number.
    splits: Vec<Option<bool>>,
    /// The number of the pool of each allocation in a segment that is, or may be, of a private pool; of others [`NONE`].
    /// Empty where no pool can be one that never splits.
    members: Vec<u32>,
    /// How many segments began at an address.
    generations: FxHashMap<u64, u32>,
}

impl PrivatePools {
    pub(super) fn new(snapshot: &Snapshot, device: &Device, census: &Census, allocations: usize) -> Self {
        let has_unsplit = snapshot.settings.may_have_unsplit_pools();
        let tags = snapshot.tables.all_tags().map(|tags| tags.pool_id);
        let segments = device.segments.iter().map(|segment| segment.pool_id);
        let known = has_unsplit && segments.chain(tags.clone()).flatten().any(is_of_user);
        // All segments of a pool may have been freed, and before PyTorch 2.12 events do not state the pool of a
        // segment.
        let may_be_gone =
            has_unsplit && census.count(Action::SegmentFree) > 0 && tags.clone().all(|pool| pool.is_none());
        let possible = known || may_be_gone;
        let mut pools = Self { possible, known, ..Self::default() };
        if possible {
            pools.members = vec![NONE; allocations];
            let split = device.segments.iter().filter(|segment| segment.blocks.len() > 1);
            for segment in split.filter(|segment| segment.pool_id.is_some()) {
                let number = pools.number(segment.pool_id, segment.address);
                pools.note_split(number);
            }
        }
        pools
    }

    /// The number of a pool: the stated one, or that of the segment at `start`.
    pub(super) fn number(&mut self, stated: Option<(u64, u64)>, start: u64) -> u32 {
        let generation = self.generations.get(&start).copied().unwrap_or(0);
        let key = stated.map_or(PoolKey::OfSegment { start, generation }, PoolKey::Stated);
        let number = self.pools.insert(key);
        self.splits.resize(self.pools.items().len(), None);
        number
    }

    /// Notes that a pool splits a segment.
    pub(super) fn note_split(&mut self, pool: u32) {
        self.splits[pool as usize] = Some(true);
    }

    /// Notes that a segment begins.
    pub(super) fn begin_segment(&mut self, start: u64) {
        if self.possible {
            *self.generations.entry(start).or_default() += 1;
        }
    }

    /// Notes that an allocation was served from a pool, if that may be one that never splits.
    pub(super) fn add(&mut self, allocation: u32, pool: u32) {
        let may_be_of_user = match self.pools.items()[pool as usize] {
            PoolKey::Stated(id) => is_of_user(id),
            PoolKey::OfSegment { .. } => true,
        };
        if may_be_of_user {
            self.members[allocation as usize] = pool;
        }
    }

    /// The number of the pool of an allocation, where that may be one that never splits.
    fn member(&self, allocation: u32) -> Option<usize> {
        self.members.get(allocation as usize).filter(|&&pool| pool != NONE).map(|&pool| pool as usize)
    }

    /// Notes that an allocation was not split off although the rules would have done so. Returns whether its pool
    /// explains it. If other settings explain it too (`is_ambiguous`), this is not evidence about the pool.
    pub(super) fn note_whole(&mut self, allocation: u32, is_ambiguous: bool) -> bool {
        let Some(pool) = self.member(allocation) else { return false };
        if !is_ambiguous {
            self.splits[pool].get_or_insert(false);
        }
        self.splits[pool] == Some(false)
    }

    /// True if an allocation is from a pool that splits; `None` if unknown.
    pub(super) fn has_split(&self, allocation: u32) -> Option<bool> {
        self.member(allocation).map_or(Some(true), |pool| self.splits[pool])
    }
}

/// True if a pool was made by the user (`torch.cuda.MemPool`): only those may never split. Captures of CUDA graphs
/// count theirs in the first number.
fn is_of_user(pool: (u64, u64)) -> bool {
    pool.0 == 0 && pool != SHARED_POOL
}
