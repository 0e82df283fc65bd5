//! Private pools of segments that went before the dump, of which the file does not say to which pool they belonged.
//!
//! PyTorch serves a request from the smallest free block of its pool and stream that is large enough, and obtains a segment
//! only if there is none. Where a recording shows a free block that was passed over, its segment belongs to another pool than the
//! segment that served the request. Segments without such a contradiction are in the default pool.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

/// A pool that the file names, or one that it does not.
pub(super) type PoolId = (u64, u64);

/// The default pool.
pub(super) const SHARED: PoolId = (0, 0);

/// The first half of the names of pools that the file does not name.
const UNNAMED: u64 = u64::MAX;

/// A segment, or parts of an expandable one that touch: they serve one stream and one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) stream: i128,
    pub(super) pool: Option<PoolId>,
}

/// Segments that went together, not to make room.
struct Emptied {
    gone: Vec<usize>,
    /// Groups of segments that are entirely free and stay, of which the pool is not stated.
    kept: Vec<usize>,
}

/// The groups as stated, and what contradicts that some share a pool.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) groups: Vec<Group>,
    /// Pairs of groups that are in different pools, the one that came first first.
    pub(super) apart: BTreeSet<(usize, usize)>,
    emptied: Vec<Emptied>,
}

impl Evidence {
    /// Segments of the groups `gone` went, not to make room, and the `unused` ones stay.
    pub(super) fn empty(&mut self, gone: &[usize], unused: impl Iterator<Item = usize>) {
        let unstated = unused.filter(|&group| self.groups[group].pool.is_none());
        self.emptied.push(Emptied { gone: gone.to_vec(), kept: unstated.collect() });
    }

    /// The groups with their pools: the stated one, otherwise the first that nothing contradicts.
    pub(super) fn solved(&self) -> Vec<Group> {
        let first = self.without(&BTreeSet::new());
        // A cache that was emptied holds no unused segment of the default pool any more.
        let emptied = self.emptied.iter().filter(|of| of.gone.iter().any(|&group| first[group].pool == Some(SHARED)));
        let private = emptied.flat_map(|of| &of.kept).copied().collect();
        self.without(&private)
    }

    /// The same, where `private` are not in the default pool.
    fn without(&self, private: &BTreeSet<usize>) -> Vec<Group> {
        let mut apart: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for &(one, other) in &self.apart {
            apart.entry(one).or_default().push(other);
            apart.entry(other).or_default().push(one);
        }
        let mut known: FxHashMap<i128, Vec<PoolId>> = FxHashMap::default();
        for group in &self.groups {
            known.entry(group.stream).or_insert_with(|| vec![SHARED]).extend(group.pool);
        }
        let mut groups = self.groups.clone();
        let mut unnamed = 0;
        for at in 0..groups.len() {
            let Group { stream, pool: None } = groups[at] else { continue };
            let others = apart.get(&at).map(Vec::as_slice).unwrap_or_default();
            let mut excluded: BTreeSet<PoolId> = others.iter().filter_map(|&other| groups[other].pool).collect();
            excluded.extend(private.contains(&at).then_some(SHARED));
            let known = known.entry(stream).or_default();
            let pool = known.iter().find(|pool| !excluded.contains(pool)).copied();
            groups[at].pool = Some(pool.unwrap_or_else(|| {
                unnamed += 1;
                known.push((UNNAMED, unnamed));
                (UNNAMED, unnamed)
            }));
        }
        groups
    }
}
