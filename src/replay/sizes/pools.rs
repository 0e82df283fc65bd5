//! Private pools, and whether they split their segments (`MemPool(no_split=True)`, from release 2.10 on).

use rustc_hash::FxHashMap;

use super::super::rounding::SHARED_POOL;
use crate::snapshot::{Device, Snapshot};

/// A private pool as far as it is known: blocks of segments that the final state does not hold may have none.
pub(super) type PoolKey = Option<(u64, u64)>;

/// True if blocks of a pool are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Splitting {
    /// Two blocks were seen in one segment.
    Splits,
    /// A block was seen that the rules would have split.
    Never,
    /// Neither.
    Unknown,
}

/// The private pools of a device.
#[derive(Debug, Default)]
pub(super) struct PrivatePools {
    /// True if there can be pools that never split.
    pub(super) possible: bool,
    splitting: FxHashMap<(u64, u64), Splitting>,
    /// The pool of each allocation in a segment that is, or may be, of a private pool.
    members: FxHashMap<u32, PoolKey>,
}

impl PrivatePools {
    pub(super) fn new(snapshot: &Snapshot, device: &Device) -> Self {
        let mut pools = Self::default();
        if !snapshot.settings.may_have_unsplit_pools() || !has_pools_of_user(snapshot, device) {
            return pools;
        }
        pools.possible = true;
        for segment in device.segments.iter().filter(|segment| segment.blocks.len() > 1) {
            pools.note_split(segment.pool_id);
        }
        pools
    }

    /// Notes that an allocation was served from a pool, if that may be one that never splits.
    pub(super) fn add(&mut self, allocation: u32, pool: PoolKey) {
        if pool.is_none_or(is_of_user) {
            self.members.insert(allocation, pool);
        }
    }

    /// Notes that a pool splits its segments.
    pub(super) fn note_split(&mut self, pool: PoolKey) {
        if let Some(id) = pool {
            self.splitting.insert(id, Splitting::Splits);
        }
    }

    /// Notes that an allocation was not split off although the rules would have done so. Returns whether its pool
    /// explains it. Where other settings do as well (`is_ambiguous`), that tells nothing new of the pool.
    pub(super) fn note_whole(&mut self, allocation: u32, is_ambiguous: bool) -> bool {
        let Some(pool) = self.members.get(&allocation) else { return false };
        let known = pool.and_then(|id| self.splitting.get(&id).copied());
        match (known, *pool) {
            (Some(Splitting::Never), _) => true,
            (Some(Splitting::Splits), _) => false,
            _ if is_ambiguous => false,
            (_, Some(id)) => {
                self.splitting.insert(id, Splitting::Never);
                true
            }
            (_, None) => true,
        }
    }

    /// True if an allocation is of a pool that splits.
    pub(super) fn of(&self, allocation: u32) -> Splitting {
        match self.members.get(&allocation) {
            None => Splitting::Splits,
            Some(None) => Splitting::Unknown,
            Some(Some(id)) => self.splitting.get(id).copied().unwrap_or(Splitting::Unknown),
        }
    }
}

/// True if a pool was made by the user (`torch.cuda.MemPool`): only those may never split. Captures of CUDA graphs count
/// theirs in the first number.
fn is_of_user(pool: (u64, u64)) -> bool {
    pool.0 == 0 && pool != SHARED_POOL
}

/// True if the file tells of any pool that the user made.
pub(in crate::replay) fn has_pools_of_user(snapshot: &Snapshot, device: &Device) -> bool {
    device.segments.iter().any(|segment| segment.pool_id.is_some_and(is_of_user))
        || snapshot.tables.all_tags().iter().any(|tags| tags.pool_id.is_some_and(is_of_user))
}
