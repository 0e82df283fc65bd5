//! Private pools of segments that went before the dump, of which the file does not say to which pool they belonged.
//!
//! PyTorch serves a request from the smallest free block of its pool and stream that is large enough, and obtains a segment
//! only if there is none. Where a recording shows a free block that was passed over, its segment belongs to another pool than the
//! segment that served the request. Segments without such a contradiction are in the default pool.

use std::collections::{BTreeMap, BTreeSet};

/// A pool that the file names, or one that it does not.
pub(super) type PoolId = (u64, u64);

/// The default pool.
pub(super) const SHARED: PoolId = (0, 0);

/// The first half of the names of pools that the file does not name.
const UNNAMED: u64 = u64::MAX;

/// The stream and pool that a segment serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentHome {
    pub(super) stream: i128,
    pub(super) pool: Option<PoolId>,
}

/// The homes of segments as stated, and what contradicts that some share a pool.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) homes: Vec<SegmentHome>,
    /// Pairs of segments in different pools, each in both orders.
    pub(super) apart: BTreeSet<(usize, usize)>,
    /// Segments that went together, not to make room, and those that are entirely free and stay.
    pub(super) emptied: Vec<[Vec<usize>; 2]>,
}

impl Evidence {
    /// The homes with their pools: the stated one, otherwise the first that nothing contradicts.
    pub(super) fn solved(&self) -> Vec<SegmentHome> {
        let first = self.without(&BTreeSet::new());
        // A cache that was emptied holds no unused segment of the default pool any more.
        let emptied = self.emptied.iter().filter(|[gone, _]| gone.iter().any(|&one| first[one].pool == Some(SHARED)));
        self.without(&emptied.flat_map(|[_, kept]| kept).copied().collect())
    }

    /// The same, where `private` are not in the default pool.
    fn without(&self, private: &BTreeSet<usize>) -> Vec<SegmentHome> {
        let mut known: BTreeMap<i128, Vec<PoolId>> = BTreeMap::new();
        for home in &self.homes {
            known.entry(home.stream).or_insert_with(|| vec![SHARED]).extend(home.pool);
        }
        let mut homes = self.homes.clone();
        let mut unnamed = 0;
        for at in 0..homes.len() {
            let SegmentHome { stream, pool: None } = homes[at] else { continue };
            let others = self.apart.range((at, 0)..(at + 1, 0));
            let mut excluded: BTreeSet<PoolId> = others.filter_map(|&(_, other)| homes[other].pool).collect();
            excluded.extend(private.contains(&at).then_some(SHARED));
            let known = known.entry(stream).or_default();
            let pool = known.iter().find(|pool| !excluded.contains(pool)).copied();
            homes[at].pool = Some(pool.unwrap_or_else(|| {
                unnamed += 1;
                known.push((UNNAMED, unnamed));
                (UNNAMED, unnamed)
            }));
        }
        homes
    }
}
