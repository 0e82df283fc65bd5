//! The requests that repeat a recording, in order, and the curve of reserved bytes that they led to.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ptmem_snapshot::snapshot::{Action, Block, BlockState, Event, Segment};
use rustc_hash::FxHashMap;

use super::pools::{Group, PoolId, SHARED};
use super::recording::{Recording, Step};
use super::space::SMALL;

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
    /// In segments as they were, with their free blocks, from the lowest or from the highest address.
    AsRecorded {
        /// From the highest.
        descending: bool,
    },
    /// One block after the other, without free blocks between them.
    Packed,
}

/// The requests that repeat a recording.
#[derive(Debug)]
pub struct Requests {
    /// All of them, in order.
    pub list: Vec<Request>,
    streams: Vec<i128>,
    pools: Vec<PoolId>,
    /// The number of the last block.
    blocks: usize,
}

impl Requests {
    /// Requests that repeat a recording.
    #[must_use]
    pub fn new(recording: &Recording, how: Earlier) -> Self {
        let mut requests = Self { list: Vec::new(), streams: vec![0], pools: vec![SHARED], blocks: recording.blocks };
        match how {
            Earlier::AsRecorded { descending: false } => requests.hold(recording, recording.segments.iter()),
            Earlier::AsRecorded { descending: true } => requests.hold(recording, recording.segments.iter().rev()),
            Earlier::Packed => requests.pack(recording),
        }
        requests.list.push(Request::Begin);
        requests.follow(recording);
        requests
    }

    /// Number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Number of private pools.
    #[must_use]
    pub fn private_pools(&self) -> usize {
        self.pools.len() - 1
    }

    fn lane(&mut self, group: Group) -> Lane {
        let stream = number(&mut self.streams, group.stream);
        Lane { stream, pool: number(&mut self.pools, group.pool.unwrap_or(SHARED)) }
    }

    /// A block that only takes place for now.
    fn fill(&mut self, size: u64, lane: Lane) -> usize {
        self.blocks += 1;
        self.list.push(Request::Allocate { block: self.blocks, size, lane });
        self.blocks
    }

    /// One block after the other.
    fn pack(&mut self, recording: &Recording) {
        for segment in &recording.segments {
            let lane = self.lane(home(segment));
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                let size = block.requested_size.unwrap_or(block.size);
                self.list.push(Request::Allocate { block: recording.held[&block.address], size, lane });
            }
        }
    }

    /// Makes each segment in turn, filled to its end, so that nothing but its own rest is free, and then frees what was free.
    fn hold<'s>(&mut self, recording: &Recording, segments: impl Iterator<Item = &'s Segment>) {
        let mut free = Vec::new();
        for segment in segments {
            let lane = self.lane(home(segment));
            let parts = if segment.small_pool { segment.blocks.clone() } else { joined(segment) };
            if !segment.small_pool && parts.len() > 1 {
                let whole = self.fill(segment.total_size, lane);
                self.list.push(Request::Free(whole));
            }
            for part in &parts {
                if part.state != BlockState::Inactive {
                    let block = recording.held[&part.address];
                    self.list.push(Request::Allocate { block, size: part.size, lane });
                    continue;
                }
                let most = if segment.small_pool { SMALL } else { u64::MAX };
                let mut left = part.size;
                while left > 0 {
                    free.push(self.fill(left.min(most), lane));
                    left = left.saturating_sub(most);
                }
            }
        }
        self.list.extend(free.into_iter().map(Request::Free));
    }

    /// The requests of the recording itself.
    fn follow(&mut self, recording: &Recording) {
        let mut last: FxHashMap<PoolId, usize> = FxHashMap::default();
        for (at, step) in recording.steps.iter().enumerate() {
            if let Step::Allocate { group, .. } = step {
                last.insert(recording.group(*group).pool.unwrap_or(SHARED), at);
            }
        }
        let before = self.list.iter().filter_map(|request| match request {
            Request::Allocate { block, lane, .. } if *block <= recording.blocks => Some((*block, lane.pool)),
            _ => None,
        });
        let mut live: FxHashMap<usize, usize> = before.collect();
        for (at, step) in recording.steps.iter().enumerate() {
            match step {
                Step::Allocate { block, size, group } => {
                    let lane = self.lane(recording.group(*group));
                    live.insert(*block, lane.pool);
                    self.list.push(Request::Allocate { block: *block, size: *size, lane });
                }
                Step::Free(block) => {
                    live.remove(block);
                    self.list.push(Request::Free(*block));
                }
                Step::Fail { size, group } => {
                    let lane = self.lane(*group);
                    self.list.push(Request::Fail { size: *size, lane });
                }
                Step::Return { groups, is_retry } => {
                    let pools: BTreeSet<usize> =
                        groups.iter().map(|&group| self.lane(recording.groups[group]).pool).collect();
                    for pool in pools.iter().copied().filter(|pool| *pool > 0) {
                        // A pool with blocks in use from which later requests are served stays: only a part of its segments went.
                        let is_in_use = live.values().any(|of| *of == pool) && last.get(&self.pools[pool]) > Some(&at);
                        self.list.extend((!is_in_use).then_some(Request::Drop(pool)));
                    }
                    let is_emptied = pools.contains(&0) && !(recording.are_retries && *is_retry);
                    self.list.extend(is_emptied.then_some(Request::Empty));
                }
            }
        }
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
}

fn number<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|known| *known == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}

/// The stream and the pool of a segment.
fn home(segment: &Segment) -> Group {
    Group { stream: segment.stream.unwrap_or(0), pool: segment.pool_id }
}

/// The blocks of a segment for large requests. Free parts that no large request can take belong to the block before them.
fn joined(segment: &Segment) -> Vec<Block> {
    let mut parts: Vec<Block> = Vec::new();
    for &block in &segment.blocks {
        match parts.last_mut() {
            Some(last) if block.state == BlockState::Inactive && block.size <= SMALL => last.size += block.size,
            _ => parts.push(block),
        }
    }
    parts
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
