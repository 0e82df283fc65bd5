//! Reads a recording in two passes: what its segments show of private pools and of the memory of the device, and its requests.

use std::collections::BTreeSet;

use ptmem::diagnostic::Code;
use ptmem::replay::{self, HistoryKind, Layout, Position, Replay, SegmentPart};
use ptmem::snapshot::{Action, BlockState, Device, Event, Segment, Snapshot};
use rustc_hash::FxHashMap;

use super::pools::{Evidence, PoolId, SHARED, SegmentHome};
use super::requests::{AllocatorRequest, Lane};
use super::space::{SMALL, Space};

/// Granularity of blocks.
const ROUNDING: u64 = 512;

/// Free blocks that are looked at for one request.
const MOST_CANDIDATES: usize = 64;

/// Why the requests of a device cannot be repeated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum RepeatError {
    /// The history has no allocations.
    #[error(
        "no allocations were recorded; call torch.cuda.memory._record_memory_history() before the steps to measure"
    )]
    NoHistory,
    /// Events are missing: what the replay says about it.
    #[error("the recorded requests are not complete: {0}; 'ptmem doctor' says how to record them")]
    Incomplete(String),
}

/// Diagnostics of histories without all requests or segments.
const INCOMPLETE: [Code; 5] = [
    Code::AllocationsSkipped,
    Code::FreesSkipped,
    Code::SegmentsSkipped,
    Code::SegmentsUnknown,
    Code::FreesNotRecorded,
];

/// What the replay says about missing events.
pub(crate) fn missing(replay: &Replay) -> Option<&str> {
    let found = replay.diagnostics.iter().find(|found| INCOMPLETE.contains(&found.code));
    found.map(|found| &*found.message)
}

/// The history of a device as requests to its allocator.
#[derive(Debug)]
pub(crate) struct RequestHistory {
    /// Reserved bytes before the first event.
    pub(crate) reserved_before: u64,
    /// Bytes of the blocks that were in use before it.
    pub(crate) held_before: u64,
    /// Most bytes that the allocator could get from the device, as far as failed requests show.
    pub(crate) capacity: Option<u64>,
    /// Number of streams.
    pub(crate) streams: usize,
    /// Number of private pools.
    pub(crate) private_pools: usize,
    /// Whether one of them may never split its segments.
    pub(crate) may_have_unsplit_pools: bool,
    /// The segments before the first event.
    pub(super) segments: Vec<(Segment, Lane)>,
    /// The numbers of the blocks in use then, by their addresses.
    pub(super) held: FxHashMap<u64, usize>,
    pub(super) requests: Vec<AllocatorRequest>,
    /// The number of the last block.
    pub(super) blocks: usize,
}

impl RequestHistory {
    /// Reads the history of a device, from a replay with its layout.
    ///
    /// # Errors
    /// If the history lacks requests.
    pub(crate) fn new(snapshot: &Snapshot, device: &Device, replay: &Replay) -> Result<Self, RepeatError> {
        if replay.figures.history != HistoryKind::Recorded {
            return Err(RepeatError::NoHistory);
        }
        if let Some(message) = missing(replay) {
            return Err(RepeatError::Incomplete(message.to_owned()));
        }
        let layout = replay.layout.as_ref().ok_or(RepeatError::NoHistory)?;
        let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
        let segments = replay::state_at(snapshot, device, &allocations, Position::START);
        let reserved_before = layout.segments.iter().map(|part| part.bytes).sum();
        let held_before: i128 = segments.iter().map(|segment| segment.sums().active).sum();
        let sizes = replay.allocations.iter().filter_map(|one| Some((one.born.event()?, one.bytes))).collect();
        let events = snapshot.events_of(device);
        // The first pass finds the pools of segments, which the second needs for the requests.
        let mut first = HistoryPass::new(snapshot, reserved_before, FirstPass::default());
        first.read(&segments, layout, events, &sizes);
        let known =
            FirstPass { homes: first.evidence.solved(), last: first.last, are_retries: first.retried >= first.highest };
        let least = if known.are_retries { first.retried.min(first.failed) } else { first.failed };
        let mut reader = HistoryPass::new(snapshot, reserved_before, known);
        let (lanes, held) = reader.read(&segments, layout, events, &sizes);
        Ok(Self {
            reserved_before,
            held_before: u64::try_from(held_before).unwrap_or(0),
            capacity: (least != u64::MAX).then_some(least.max(first.highest)),
            streams: reader.streams.len(),
            private_pools: reader.pools.len() - 1,
            may_have_unsplit_pools: reader.pools.len() > 1 && snapshot.settings.may_have_unsplit_pools(),
            segments: segments.into_iter().zip(lanes).collect(),
            held,
            requests: reader.requests,
            blocks: reader.blocks,
        })
    }
}

/// What the first pass over a history found out.
#[derive(Default)]
struct FirstPass {
    homes: Vec<SegmentHome>,
    /// The event of the last request that each segment served.
    last: Vec<usize>,
    /// Whether segments that went right before a segment came made room for it.
    are_retries: bool,
}

/// A pass over a history.
struct HistoryPass<'s> {
    snapshot: &'s Snapshot,
    known: FirstPass,
    space: Space,
    evidence: Evidence,
    last: Vec<usize>,
    reserved: u64,
    highest: u64,
    /// The least that did not fit before segments were given back for it.
    retried: u64,
    /// The least that did not fit at all.
    failed: u64,
    streams: Vec<i128>,
    pools: Vec<PoolId>,
    requests: Vec<AllocatorRequest>,
    blocks: usize,
}

impl<'s> HistoryPass<'s> {
    fn new(snapshot: &'s Snapshot, reserved: u64, known: FirstPass) -> Self {
        Self {
            snapshot,
            known,
            space: Space::default(),
            evidence: Evidence::default(),
            last: Vec::new(),
            reserved,
            highest: reserved,
            retried: u64::MAX,
            failed: u64::MAX,
            streams: vec![0],
            pools: vec![SHARED],
            requests: Vec::new(),
            blocks: 0,
        }
    }

    /// Reads a history. Gives the lanes of the segments before it, and the numbers of their blocks by their addresses.
    fn read(
        &mut self,
        segments: &[Segment],
        layout: &Layout,
        events: &[Event],
        sizes: &FxHashMap<u32, u64>,
    ) -> (Vec<Lane>, FxHashMap<u64, usize>) {
        for part in &layout.segments {
            self.obtain(part, part.home.stream, part.home.pool_id);
        }
        let mut held = FxHashMap::default();
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        for block in blocks.filter(|block| block.state != BlockState::Inactive) {
            self.blocks += 1;
            self.space.occupy(block.address, block.size, self.blocks);
            held.insert(block.address, self.blocks);
        }
        let lanes = segments.iter().map(|segment| {
            let segment = self.space.at(segment.address).and_then(|(_, block)| block.segment);
            self.lane_of(segment)
        });
        let lanes = lanes.collect();
        self.follow(events, &layout.changes, sizes);
        (lanes, held)
    }

    /// Adds a segment or a part of one.
    fn obtain(&mut self, part: &SegmentPart, stream: Option<i128>, pool: Option<PoolId>) {
        let stream = stream.unwrap_or(0);
        let homes = &mut self.evidence.homes;
        let segment = self.space.obtain(part, stream, homes.len());
        if segment == homes.len() {
            homes.push(SegmentHome { stream, pool: None });
            self.last.push(0);
        }
        homes[segment].pool = homes[segment].pool.or(pool);
    }

    /// Follows the events; `changes` are the segments that come and go, and `sizes` those of the blocks by their events.
    fn follow(&mut self, events: &[Event], changes: &[SegmentPart], sizes: &FxHashMap<u32, u64>) {
        let has_frees = events.iter().any(|event| event.action == Action::FreeCompleted);
        let mut changes = changes.iter();
        let mut gone = Vec::new();
        let mut returned = 0_u64;
        // Segments that were collected made no room for a request: the device may have had more.
        let conf = self.snapshot.settings.all.get("PYTORCH_CUDA_ALLOC_CONF");
        let collects = conf.is_some_and(|text| text.contains("garbage_collection_threshold"));
        let mut is_fresh = false;
        for (at, event) in (0_u32..).zip(events) {
            let tags = self.snapshot.tables.tags(event.tags);
            match event.action {
                Action::Alloc => {
                    let bytes = sizes.get(&at).copied().unwrap_or_else(|| event.size.max(1).next_multiple_of(ROUNDING));
                    self.allocate(at as usize, event, bytes, is_fresh);
                }
                Action::FreeCompleted => self.free(event.addr),
                Action::FreeRequested if !has_frees => self.free(event.addr),
                Action::SegmentAlloc | Action::SegmentMap => {
                    self.reserved = self.reserved.saturating_add(event.size);
                    self.highest = self.highest.max(self.reserved);
                    if let Some(part) = changes.next() {
                        self.obtain(part, tags.stream.or(part.home.stream), tags.pool_id.or(part.home.pool_id));
                    }
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    returned = returned.saturating_add(event.size);
                    gone.extend(changes.next().and_then(|part| self.space.give_back(part.address, part.bytes)));
                    let next = events.get(at as usize + 1);
                    if !next.is_some_and(|next| matches!(next.action, Action::SegmentFree | Action::SegmentUnmap)) {
                        let retry = next.filter(|next| is_retry(event, next));
                        if let Some(short) = retry.filter(|_| !collects).map(|next| self.beyond(next)) {
                            self.retried = self.retried.min(short);
                        }
                        self.reserved = self.reserved.saturating_sub(std::mem::take(&mut returned));
                        self.give_back(at as usize, std::mem::take(&mut gone), retry.is_some());
                    }
                }
                Action::Oom => {
                    let free = self.reserved.saturating_add(event.addr);
                    self.failed = self.failed.min(free.min(self.beyond(event)));
                    let home = SegmentHome { stream: tags.stream.unwrap_or(0), pool: tags.pool_id };
                    let lane = self.lane(home);
                    self.requests.push(AllocatorRequest::Fail { size: event.size, lane });
                }
                Action::FreeRequested | Action::Snapshot | Action::Other => {}
            }
            is_fresh = event.action.adds_segment();
        }
    }

    fn allocate(&mut self, at: usize, event: &Event, bytes: u64, is_fresh: bool) {
        // Where its free was not recorded, the earlier block is gone.
        self.free(event.addr);
        self.compare(event.addr, bytes, is_fresh);
        self.blocks += 1;
        let segment = self.space.occupy(event.addr, bytes, self.blocks);
        if let Some(segment) = segment {
            let home = &mut self.evidence.homes[segment];
            home.pool = home.pool.or(self.snapshot.tables.tags(event.tags).pool_id);
            self.last[segment] = at;
        }
        let lane = self.lane_of(segment);
        self.requests.push(AllocatorRequest::Allocate { block: self.blocks, size: event.size, lane });
    }

    fn free(&mut self, address: u64) {
        self.requests.extend(self.space.vacate(address).map(AllocatorRequest::Free));
    }

    /// Notes the free blocks that a request passed over: those that fit better than the one it got, or any if a segment came for it.
    fn compare(&mut self, address: u64, size: u64, is_fresh: bool) {
        let Some((at, block)) = self.space.at(address).filter(|(_, block)| block.used.is_none()) else { return };
        let (settings, Some(here)) = (&self.snapshot.settings, block.segment) else { return };
        // Large free blocks are kept for requests of their size.
        let is_unclear = (block.is_mapped && !is_fresh) || (settings.max_split_size.is_some() && size > SMALL);
        if block.class.is_small != (size <= SMALL) || is_unclear {
            return;
        }
        let taken = if is_fresh { (u64::MAX, 0) } else { (block.bytes, at) };
        // Requests may be rounded up further, to less than twice their size.
        let rounds = settings.roundup_power2_divisions.iter().any(|&divisions| divisions > 1);
        let least = if rounds { size.saturating_mul(2) } else { size };
        let passed = self.space.between(block.class, (least, 0), taken).take(MOST_CANDIDATES);
        self.evidence
            .apart
            .extend(passed.filter(|&other| other != here).flat_map(|other| [(here, other), (other, here)]));
    }

    /// Segments went together, perhaps to make room for the request that follows.
    fn give_back(&mut self, at: usize, gone: Vec<usize>, is_retry: bool) {
        let pools: BTreeSet<usize> = gone.iter().map(|&segment| self.lane_of(Some(segment)).pool).collect();
        for &pool in pools.iter().filter(|pool| **pool > 0) {
            let is_of_pool = |segment: &usize| self.known.homes[*segment].pool == Some(self.pools[pool]);
            let mut serving = (0..self.known.last.len()).filter(|&segment| self.known.last[segment] > at);
            // A pool with blocks in use from which later requests are served stays: only a part of its segments went.
            if !(self.space.used().any(|segment| is_of_pool(&segment)) && serving.any(|segment| is_of_pool(&segment))) {
                self.requests.push(AllocatorRequest::Drop(pool));
            }
        }
        if pools.contains(&0) && !(self.known.are_retries && is_retry) {
            self.requests.push(AllocatorRequest::Empty);
        }
        if !is_retry {
            let mut kept = self.space.unused();
            kept.retain(|&segment| self.evidence.homes[segment].pool.is_none());
            self.evidence.emptied.push([gone, kept]);
        }
    }

    /// Reserved bytes with the segment that an event needs, less one: more than the device has.
    fn beyond(&self, event: &Event) -> u64 {
        let bytes = match event.action {
            Action::Oom if event.size <= SMALL => 2 * SMALL,
            Action::Oom if event.size < 10 * SMALL => 20 * SMALL,
            Action::Oom => event.size.next_multiple_of(2 * SMALL),
            _ => event.size,
        };
        self.reserved.saturating_add(bytes).saturating_sub(1)
    }

    /// The lane of a segment; the default one outside of all.
    fn lane_of(&mut self, segment: Option<usize>) -> Lane {
        let home = segment.and_then(|segment| self.known.homes.get(segment)).copied();
        self.lane(home.unwrap_or(SegmentHome { stream: 0, pool: None }))
    }

    fn lane(&mut self, home: SegmentHome) -> Lane {
        let pool = number(&mut self.pools, home.pool.unwrap_or(SHARED));
        Lane { stream: number(&mut self.streams, home.stream), pool }
    }
}

fn number<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|known| *known == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}

/// True if the segments that went last made room for the request that follows: their events have the stack of that request, where
/// stacks were captured.
fn is_retry(last: &Event, next: &Event) -> bool {
    matches!(next.action, Action::SegmentAlloc | Action::SegmentMap | Action::Oom) && next.stack == last.stack
}
