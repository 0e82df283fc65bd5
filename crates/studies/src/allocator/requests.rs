//! The requests of a device, in order, and the curve of reserved bytes that they led to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ptmem_base::diagnostic::Code;
use ptmem_snapshot::snapshot::{Action, Device, Event, Snapshot};
use ptmem_trace::replay::{self, HistoryKind, Home, Replay, SegmentPart, Wanted};
use rustc_hash::FxHashMap;

use super::earlier;
use super::limits::{Limits, is_retry};

/// The stream and pool of a request, by numbers; 0 is the default stream, and the pool that everybody allocates from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lane {
    /// Number of the stream.
    pub stream: usize,
    /// Number of the pool.
    pub pool: usize,
}

/// A request to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A block; its number is that of no other.
    Allocate {
        /// Number of the block.
        block: usize,
        /// Bytes.
        size: u64,
        /// Stream and pool.
        lane: Lane,
    },
    /// A block becomes reusable.
    Free(usize),
    /// An allocation that failed in the recording.
    Fail {
        /// Bytes, as PyTorch rounded them.
        size: u64,
        /// Stream and pool.
        lane: Lane,
    },
    /// The program gives unused segments back, as `torch.cuda.empty_cache()` does.
    Empty,
    /// A private pool goes.
    Drop(usize),
    /// The recording begins.
    Begin,
}

/// How to allocate what was held before the recording, whose requests are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// In segments as they were, with their free blocks.
    AsRecorded,
    /// One block after the other, without free blocks between them.
    Packed,
}

/// The requests of a device.
#[derive(Debug)]
pub struct Requests {
    /// All of them, in order.
    pub list: Vec<Request>,
    /// Reserved bytes before the first event.
    pub reserved_before: u64,
    /// Bytes of the blocks that were in use before it.
    pub held_before: u64,
    /// Number of streams.
    pub streams: usize,
    /// Number of private pools.
    pub private_pools: usize,
    /// Number of requests that failed.
    pub failed: usize,
    /// Most bytes that the allocator could get from the device, as far as failed requests show.
    pub capacity: Option<u64>,
}

/// Why the requests of a device cannot be repeated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
    /// The history has no allocations.
    #[error(
        "no allocations were recorded; call torch.cuda.memory._record_memory_history() before the steps to measure"
    )]
    NoHistory,
    /// Events are missing.
    #[error("events are missing ({}); record without skip_actions, with PyTorch 2.1 or later", .0.name())]
    Skipped(Code),
}

/// Diagnostics of histories without all requests or segments.
const INCOMPLETE: [Code; 4] =
    [Code::AllocationsSkipped, Code::FreesSkipped, Code::SegmentsSkipped, Code::FreesNotRecorded];

impl Requests {
    /// The requests of a device.
    ///
    /// # Errors
    /// If the history lacks them.
    pub fn new(snapshot: &Snapshot, id: u32, device: &Device, how: Earlier, descending: bool) -> Result<Self, Error> {
        let replay = replay::run_with(snapshot, id, device, Wanted { layout: true, ..Wanted::default() })?;
        if replay.figures.history != HistoryKind::Recorded {
            return Err(Error::NoHistory);
        }
        if let Some(found) = replay.diagnostics.iter().find(|found| INCOMPLETE.contains(&found.code)) {
            return Err(Error::Skipped(found.code));
        }
        let layout = replay.layout.as_ref().ok_or(Error::NoHistory)?;
        let mut reader = Reader {
            snapshot,
            homes: layout.segments.iter().map(|part| (part.address, part.home)).collect(),
            numbers: Numbers::default(),
            live: FxHashMap::default(),
            blocks: 0,
            list: Vec::new(),
        };
        let held_before = reader.begin(device, &replay, how, descending);
        let reserved_before = layout.segments.iter().map(|part| part.bytes).sum();
        let events = snapshot.events_of(device);
        let limits = Limits::new(events, reserved_before);
        reader.follow(events, &layout.changes, limits.are_retries);
        let Reader { list, numbers, .. } = reader;
        Ok(Self {
            failed: list.iter().filter(|request| matches!(request, Request::Fail { .. })).count(),
            list,
            reserved_before,
            held_before,
            streams: numbers.streams.len().max(1),
            private_pools: numbers.pools.len(),
            capacity: limits.capacity,
        })
    }

    /// Writes them, one a line, as the program that repeats them reads them.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for request in &self.list {
            match *request {
                Request::Allocate { block, size, lane } => {
                    writeln!(out, "a {block} {size} {} {}", lane.stream, lane.pool)?;
                }
                Request::Free(block) => writeln!(out, "f {block}")?,
                Request::Fail { size, lane } => writeln!(out, "o {size} {} {}", lane.stream, lane.pool)?,
                Request::Empty => writeln!(out, "e")?,
                Request::Drop(pool) => writeln!(out, "d {pool}")?,
                Request::Begin => writeln!(out, "b")?,
            }
        }
        Ok(())
    }

    /// Whether each request for a block within the recording succeeded there.
    pub fn outcomes(&self) -> impl Iterator<Item = bool> + Clone + '_ {
        let within = self.list.iter().skip_while(|request| **request != Request::Begin);
        within.filter_map(|request| match request {
            Request::Allocate { .. } => Some(true),
            Request::Fail { .. } => Some(false),
            _ => None,
        })
    }
}

/// Reserved bytes after each request for a block, and whether it got one.
pub fn curve(events: &[Event], reserved_before: u64) -> Vec<(u64, bool)> {
    let mut reserved = reserved_before;
    let mut curve = Vec::new();
    for event in events {
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(event.size),
            Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(event.size),
            Action::Alloc | Action::Oom => curve.push((reserved, event.action == Action::Alloc)),
            Action::FreeRequested | Action::FreeCompleted | Action::Snapshot | Action::Other(_) => {}
        }
    }
    curve
}

/// Numbers of streams and private pools, in the order in which they occur.
#[derive(Default)]
pub(super) struct Numbers {
    streams: Vec<i128>,
    pools: Vec<(u64, u64)>,
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
}

impl Reader<'_> {
    /// Allocates what was held before the recording, and gives its bytes.
    fn begin(&mut self, device: &Device, replay: &Replay, how: Earlier, descending: bool) -> u64 {
        let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
        let mut segments = replay::state_at(self.snapshot, device, &allocations, replay::Position::START);
        if descending {
            segments.reverse();
        }
        let held = segments.iter().map(|segment| segment.sums().active).sum::<i128>();
        match how {
            Earlier::AsRecorded => earlier::as_recorded(self, &segments),
            Earlier::Packed => earlier::packed(self, &segments),
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

    fn follow(&mut self, events: &[Event], changes: &[SegmentPart], are_retries: bool) {
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
                    let part = changes.next();
                    self.homes.retain_outside(event);
                    self.homes.insert(event.addr, part.map(|part| part.home).unwrap_or_default());
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    changes.next();
                    run.push(event);
                    let next = events.get(at + 1);
                    let goes_on =
                        next.is_some_and(|next| matches!(next.action, Action::SegmentFree | Action::SegmentUnmap));
                    if !goes_on {
                        let is_retry = are_retries && is_retry(event, next);
                        self.give_back(&std::mem::take(&mut run), is_retry);
                    }
                }
                Action::FreeRequested | Action::Snapshot | Action::Other(_) => {}
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
            if !self.live.values().any(|(_, of)| *of == pool) {
                self.list.push(Request::Drop(pool));
            }
        }
        if is_shared && !is_retry {
            self.list.push(Request::Empty);
        }
    }
}

trait Homes {
    fn retain_outside(&mut self, event: &Event);
}

impl Homes for BTreeMap<u64, Home> {
    /// Forgets what lay where a segment comes.
    fn retain_outside(&mut self, event: &Event) {
        let end = event.addr.saturating_add(event.size);
        let gone: Vec<u64> = self.range(event.addr..end).map(|(&start, _)| start).collect();
        gone.iter().for_each(|start| {
            self.remove(start);
        });
    }
}
