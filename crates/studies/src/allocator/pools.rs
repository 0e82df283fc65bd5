//! Private pools of segments that went before the dump, of which the file does not say to which pool they belonged.
//!
//! PyTorch serves a request from the smallest free block of its pool and stream that is large enough, and obtains a segment
//! only if there is none. Where a recording shows a free block that was passed over, its segment belongs to another pool than the
//! segment that served the request. Segments without such a contradiction are in the default pool.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_snapshot::snapshot::{Action, BlockState, Event, Segment, Snapshot};
use ptmem_trace::replay::{Allocation, Home, Layout, SegmentPart};
use rustc_hash::FxHashMap;

use super::limits::{is_retry, returns_segment};
use super::space::Space;

/// The largest request that is served from segments for small ones.
const SMALL: u64 = 1 << 20;

/// Granularity of blocks.
const ROUNDING: u64 = 512;

/// Free blocks that are looked at for one request.
const MOST_CANDIDATES: usize = 64;

/// A pool that the file names, or one that it does not.
type PoolId = (u64, u64);

/// The default pool.
const SHARED: PoolId = (0, 0);

/// The first half of the names of pools that the file does not name.
const UNNAMED: u64 = u64::MAX;

/// The homes of segments, as stated or inferred.
pub(super) struct Homes {
    /// Those before the first event, by their first address.
    pub(super) before: BTreeMap<u64, Home>,
    /// Those of the segments that came or went, in the order of their events.
    pub(super) changes: Vec<Home>,
}

impl Homes {
    /// Those that the file states.
    pub(super) fn stated(layout: &Layout) -> Self {
        Self {
            before: layout.segments.iter().map(|part| (part.address, part.home)).collect(),
            changes: layout.changes.iter().map(|part| part.home).collect(),
        }
    }

    /// The homes of all segments of a recording, as far as they can be inferred; `segments` are those at its start.
    pub(super) fn new(
        snapshot: &Snapshot,
        events: &[Event],
        layout: &Layout,
        segments: &[Segment],
        allocations: &[Allocation],
    ) -> Self {
        let has_limit = snapshot.settings.max_split_size.is_some();
        let rounds = snapshot.settings.roundup_power2_divisions.iter().any(|&divisions| divisions > 1);
        let mut observer = Observer { has_limit, rounds, ..Observer::default() };
        let before: Vec<usize> = layout.segments.iter().map(|part| observer.obtain(part, part.home)).collect();
        for segment in segments {
            let mut address = segment.address;
            for block in &segment.blocks {
                if block.state != BlockState::Inactive {
                    observer.space.occupy(address, block.size);
                }
                address = address.saturating_add(block.size);
            }
        }
        let sizes: FxHashMap<u32, u64> =
            allocations.iter().filter_map(|one| Some((one.born.event()?, one.bytes))).collect();
        let changes = observer.follow(snapshot, events, layout, &sizes);
        let pools = observer.pools();
        let home = |group: usize, home: Home| Home { pool_id: Some(pools[group]), ..home };
        let parts = layout.segments.iter().zip(before);
        Self {
            before: parts.map(|(part, group)| (part.address, home(group, part.home))).collect(),
            changes: layout.changes.iter().zip(changes).map(|(part, group)| home(group, part.home)).collect(),
        }
    }
}

/// A segment, or parts of an expandable one that touch: they are in one pool.
struct Group {
    stream: i128,
    pool: Option<PoolId>,
}

/// Segments that went together, not to make room.
struct Emptied {
    gone: Vec<usize>,
    /// Groups of segments that are entirely free and stay, of which the pool is not stated.
    kept: Vec<usize>,
}

/// Follows free blocks, and collects what contradicts that groups share a pool.
#[derive(Default)]
struct Observer {
    groups: Vec<Group>,
    space: Space,
    /// Pairs of groups that are in different pools, the one that came first first.
    apart: BTreeSet<(usize, usize)>,
    emptied: Vec<Emptied>,
    /// Whether large free blocks are kept for requests of their size.
    has_limit: bool,
    /// Whether requests are rounded up further, to less than twice their size.
    rounds: bool,
}

impl Observer {
    /// Adds a segment or a part of one, and gives its group.
    fn obtain(&mut self, part: &SegmentPart, home: Home) -> usize {
        let stream = home.stream.unwrap_or(0);
        let group = self.space.obtain(part, stream, self.groups.len());
        if group == self.groups.len() {
            self.groups.push(Group { stream, pool: None });
        }
        let pool = &mut self.groups[group].pool;
        *pool = pool.or(home.pool_id);
        group
    }

    /// Follows the events, and gives the groups of the segments that come and go.
    fn follow(
        &mut self,
        snapshot: &Snapshot,
        events: &[Event],
        layout: &Layout,
        sizes: &FxHashMap<u32, u64>,
    ) -> Vec<usize> {
        let frees = events.iter().any(|event| event.action == Action::FreeCompleted);
        let mut groups = Vec::new();
        let mut changes = layout.changes.iter();
        let mut gone = Vec::new();
        for (event, at) in events.iter().zip(0..) {
            match event.action {
                Action::Alloc => {
                    self.space.vacate(event.addr);
                    let bytes = sizes.get(&at).copied().unwrap_or_else(|| rounded(event.size));
                    let before = events[..at as usize].last().map(|event| &event.action);
                    let is_fresh = matches!(before, Some(Action::SegmentAlloc | Action::SegmentMap));
                    self.compare(event.addr, bytes, is_fresh);
                    self.space.occupy(event.addr, bytes);
                }
                Action::FreeCompleted => self.space.vacate(event.addr),
                Action::FreeRequested if !frees => self.space.vacate(event.addr),
                Action::SegmentAlloc | Action::SegmentMap => {
                    let Some(part) = changes.next() else { continue };
                    let tags = snapshot.tables.tags(event.tags);
                    let stream = tags.stream.or(part.home.stream);
                    let pool_id = tags.pool_id.or(part.home.pool_id);
                    groups.push(self.obtain(part, Home { stream, pool_id, ..part.home }));
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    let Some(part) = changes.next() else { continue };
                    let group = self.space.give_back(part.address, part.bytes).unwrap_or(0);
                    groups.push(group);
                    gone.push(group);
                    let next = events.get(at as usize + 1);
                    if !next.is_some_and(returns_segment) {
                        let gone = std::mem::take(&mut gone);
                        if !is_retry(event, next) {
                            self.empty(gone);
                        }
                    }
                }
                Action::FreeRequested | Action::Oom | Action::Snapshot | Action::Other(_) => {}
            }
        }
        groups
    }

    /// Segments went, not to make room.
    fn empty(&mut self, gone: Vec<usize>) {
        let unstated = self.space.unused().filter(|&group| self.groups[group].pool.is_none());
        self.emptied.push(Emptied { gone, kept: unstated.collect() });
    }

    /// Notes the free blocks that a request passed over: those that fit better than the one it got, or any if a segment came for it.
    fn compare(&mut self, address: u64, size: u64, is_fresh: bool) {
        let Some((_, part)) = self.space.part(address) else { return };
        let Some((at, bytes)) = self.space.free_at(address) else { return };
        let is_unclear = (part.is_mapped && !is_fresh) || (self.has_limit && size > SMALL);
        if part.class.is_small != (size <= SMALL) || is_unclear {
            return;
        }
        let taken = if is_fresh { (u64::MAX, 0) } else { (bytes, at) };
        let least = if self.rounds { size.saturating_mul(2) } else { size };
        let passed = self.space.groups_between(part.class, (least, 0), taken).take(MOST_CANDIDATES);
        let others = passed.filter(|&other| other != part.group);
        self.apart.extend(others.map(|other| (part.group.min(other), part.group.max(other))));
    }

    /// The pool of each group: the stated one, otherwise the first that nothing contradicts.
    fn pools(self) -> Vec<PoolId> {
        let first = self.without(&BTreeSet::new());
        // A cache that was emptied holds no unused segment of the default pool any more.
        let emptied = self.emptied.iter().filter(|of| of.gone.iter().any(|&group| first[group] == SHARED));
        let private = emptied.flat_map(|of| &of.kept).copied().collect();
        self.without(&private)
    }

    /// The same, where `private` are not in the default pool.
    fn without(&self, private: &BTreeSet<usize>) -> Vec<PoolId> {
        let mut apart: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for &(one, other) in &self.apart {
            apart.entry(one).or_default().push(other);
            apart.entry(other).or_default().push(one);
        }
        let mut known: FxHashMap<i128, Vec<PoolId>> = FxHashMap::default();
        for group in &self.groups {
            known.entry(group.stream).or_insert_with(|| vec![SHARED]).extend(group.pool);
        }
        let mut pools: Vec<Option<PoolId>> = self.groups.iter().map(|group| group.pool).collect();
        let mut unnamed = 0;
        for (at, group) in self.groups.iter().enumerate().filter(|(_, group)| group.pool.is_none()) {
            let others = apart.get(&at).map(Vec::as_slice).unwrap_or_default();
            let mut excluded: BTreeSet<PoolId> = others.iter().filter_map(|&other| pools[other]).collect();
            excluded.extend(private.contains(&at).then_some(SHARED));
            let known = known.entry(group.stream).or_default();
            let pool = known.iter().find(|pool| !excluded.contains(pool)).copied();
            let pool = pool.unwrap_or_else(|| {
                unnamed += 1;
                known.push((UNNAMED, unnamed));
                (UNNAMED, unnamed)
            });
            pools[at] = Some(pool);
        }
        pools.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// The size of the block for a request.
fn rounded(request: u64) -> u64 {
    request.max(1).next_multiple_of(ROUNDING)
}
