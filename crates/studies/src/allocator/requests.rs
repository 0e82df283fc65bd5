//! The requests of a device, in order, and the curve of reserved bytes that they led to.

use std::io::{self, Write};

use ptmem_base::diagnostic::Code;
use ptmem_snapshot::snapshot::{Action, Device, Event, Snapshot};
use ptmem_trace::replay::{self, HistoryKind, Replay};

use super::limits::Limits;
use super::pools::Homes;
use super::reader::Reader;

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

/// Where the pools of segments come from that went before the dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSource {
    /// From the free blocks that requests passed over.
    Inferred,
    /// From the file: they are in the default pool unless it states another.
    Stated,
}

/// How to derive requests from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// The memory from before the recording.
    pub earlier: Earlier,
    /// Whether its segments come from the highest address down.
    pub descending: bool,
    /// The pools.
    pub pools: PoolSource,
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
    /// The history has no allocations.
    #[error(
        "no allocations were recorded; call torch.cuda.memory._record_memory_history() before the steps to measure"
    )]
    NoHistory,
    /// Events are missing: what the replay says about it.
    #[error("the recorded requests are not complete: {0}")]
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
#[must_use]
pub fn missing(replay: &Replay) -> Option<&str> {
    let found = replay.diagnostics.iter().find(|found| INCOMPLETE.contains(&found.code));
    found.map(|found| &*found.message)
}

impl Requests {
    /// The requests of a device, from a replay with its layout.
    ///
    /// # Errors
    /// If the history lacks them.
    pub fn new(snapshot: &Snapshot, device: &Device, replay: &Replay, how: Derivation) -> Result<Self, Error> {
        if replay.figures.history != HistoryKind::Recorded {
            return Err(Error::NoHistory);
        }
        if let Some(message) = missing(replay) {
            return Err(Error::Incomplete(message.to_owned()));
        }
        let layout = replay.layout.as_ref().ok_or(Error::NoHistory)?;
        let events = snapshot.events_of(device);
        let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
        let mut segments = replay::state_at(snapshot, device, &allocations, replay::Position::START);
        let homes = match how.pools {
            PoolSource::Inferred => Homes::new(snapshot, events, layout, &segments, &replay.allocations),
            PoolSource::Stated => Homes::stated(layout),
        };
        for segment in &mut segments {
            segment.pool_id = homes.before.get(&segment.address).and_then(|home| home.pool_id);
        }
        if how.descending {
            segments.reverse();
        }
        let mut reader = Reader::new(snapshot, homes.before);
        let held_before = reader.begin(&segments, how.earlier);
        let reserved_before = layout.segments.iter().map(|part| part.bytes).sum();
        let limits = Limits::new(events, reserved_before);
        reader.follow(events, &homes.changes, limits.are_retries);
        reader.keep_pools_in_use();
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
