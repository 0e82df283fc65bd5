//! Reads the requests of a recording, event by event.

use std::collections::BTreeMap;

use ptmem_snapshot::snapshot::{Action, Event, Segment, Snapshot};
use ptmem_trace::replay::Home;
use rustc_hash::FxHashMap;

use super::earlier;
use super::limits::{is_retry, returns_segment};
use super::requests::{Earlier, Lane, Request};

/// Numbers of streams and private pools, in the order in which they occur.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) streams: Vec<i128>,
    pub(super) pools: Vec<(u64, u64)>,
}

impl Numbers {
    pub(super) fn lane(&mut self, stream: Option<i128>, pool: Option<(u64, u64)>) -> Lane {
        if self.streams.is_empty() {
            self.streams.push(0);
        }
        let stream = number(&mut self.streams, stream.unwrap_or(0));
        let pool = pool.filter(|&pool| pool != (0, 0)).map_or(0, |pool| number(&mut self.pools, pool) + 1);
        Lane { stream, pool }
    }
}

fn number<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|known| *known == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}

pub(super) struct Reader<'s> {
    snapshot: &'s Snapshot,
    /// The requests that segments serve, by their first address.
    homes: BTreeMap<u64, Home>,
    pub(super) numbers: Numbers,
    /// The number and the pool of the block at an address.
    live: FxHashMap<u64, (usize, usize)>,
    blocks: usize,
    pub(super) list: Vec<Request>,
    /// Places in the list at which a pool goes that has blocks in use.
    doubtful: Vec<usize>,
}

impl<'s> Reader<'s> {
    /// A reader of a snapshot with the homes of the segments before the first event.
    pub(super) fn new(snapshot: &'s Snapshot, homes: BTreeMap<u64, Home>) -> Self {
        Self {
            snapshot,
            homes,
            numbers: Numbers::default(),
            live: FxHashMap::default(),
            blocks: 0,
            list: Vec::new(),
            doubtful: Vec::new(),
        }
    }

    /// Allocates what was held before the recording, and gives its bytes.
    pub(super) fn begin(&mut self, segments: &[Segment], how: Earlier) -> u64 {
        let held = segments.iter().map(|segment| segment.sums().active).sum::<i128>();
        match how {
            Earlier::AsRecorded => earlier::as_recorded(self, segments),
            Earlier::Packed => earlier::packed(self, segments),
        }
        self.list.push(Request::Begin);
        u64::try_from(held).unwrap_or(0)
    }

    pub(super) fn allocate(&mut self, size: u64, lane: Lane) -> usize {
        self.blocks += 1;
        self.list.push(Request::Allocate { block: self.blocks, size, lane });
        self.blocks
    }

    /// Allocates the block at an address.
    pub(super) fn allocate_at(&mut self, address: u64, size: u64, lane: Lane) {
        // Where its free was not recorded, the earlier block is gone.
        self.free(address);
        let block = self.allocate(size, lane);
        self.live.insert(address, (block, lane.pool));
    }

    fn free(&mut self, address: u64) {
        if let Some((block, _)) = self.live.remove(&address) {
            self.list.push(Request::Free(block));
        }
    }

    fn lane_of(&mut self, event: &Event) -> Lane {
        let tags = self.snapshot.tables.tags(event.tags);
        let home = self.homes.range(..=event.addr).next_back().map(|(_, home)| *home).unwrap_or_default();
        self.numbers.lane(tags.stream.or(home.stream), tags.pool_id.or(home.pool_id))
    }

    pub(super) fn follow(&mut self, events: &[Event], changes: &[Home], are_retries: bool) {
        let frees = events.iter().any(|event| event.action == Action::FreeCompleted);
        let mut changes = changes.iter();
        let mut run = Vec::new();
        for (at, event) in events.iter().enumerate() {
            match event.action {
                Action::Alloc => {
                    let lane = self.lane_of(event);
                    self.allocate_at(event.addr, event.size, lane);
                }
                Action::Oom => {
                    let tags = self.snapshot.tables.tags(event.tags);
                    let lane = self.numbers.lane(tags.stream, tags.pool_id);
                    self.list.push(Request::Fail { size: event.size, lane });
                }
                Action::FreeCompleted => self.free(event.addr),
                Action::FreeRequested if !frees => self.free(event.addr),
                Action::SegmentAlloc | Action::SegmentMap => {
                    let home = changes.next();
                    self.homes.retain_outside(event);
                    self.homes.insert(event.addr, home.copied().unwrap_or_default());
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    changes.next();
                    run.push(event);
                    let next = events.get(at + 1);
                    if !next.is_some_and(returns_segment) {
                        let is_retry = are_retries && is_retry(event, next);
                        self.give_back(&std::mem::take(&mut run), is_retry);
                    }
                }
                Action::FreeRequested | Action::Snapshot | Action::Other(_) => {}
            }
        }
    }

    /// Keeps the pools with blocks in use from which later requests are served: only a part of their segments went.
    pub(super) fn keep_pools_in_use(&mut self) {
        let mut last: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, request) in self.list.iter().enumerate() {
            if let Request::Allocate { lane, .. } = request {
                last.insert(lane.pool, at);
            }
        }
        for at in std::mem::take(&mut self.doubtful).into_iter().rev() {
            if matches!(&self.list[at], Request::Drop(pool) if last.get(pool) > Some(&at)) {
                self.list.remove(at);
            }
        }
    }

    /// Segments went: on their own, or because a request did not fit.
    fn give_back(&mut self, segments: &[&Event], is_retry: bool) {
        let mut pools = Vec::new();
        for event in segments {
            let home = self.homes.range(..=event.addr).next_back().map(|(_, home)| *home).unwrap_or_default();
            pools.push(self.numbers.lane(None, home.pool_id).pool);
        }
        let is_shared = pools.contains(&0);
        pools.sort_unstable();
        pools.dedup();
        for &pool in pools.iter().filter(|pool| **pool != 0) {
            if self.live.values().any(|(_, of)| *of == pool) {
                self.doubtful.push(self.list.len());
            }
            self.list.push(Request::Drop(pool));
        }
        if is_shared && !is_retry {
            self.list.push(Request::Empty);
        }
    }
}

trait Outside {
    fn retain_outside(&mut self, event: &Event);
}

impl Outside for BTreeMap<u64, Home> {
    /// Forgets what lay where a segment comes.
    fn retain_outside(&mut self, event: &Event) {
        let end = event.addr.saturating_add(event.size);
        let gone: Vec<u64> = self.range(event.addr..end).map(|(&start, _)| start).collect();
        gone.iter().for_each(|start| {
            self.remove(start);
        });
    }
}
