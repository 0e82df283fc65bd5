//! The requests that repeat a recording, in order, and the curve of reserved bytes that they led to.

use std::fmt::{self, Display};

use ptmem::snapshot::{Action, Block, BlockState, Event, Segment};

use super::recording::RequestHistory;
use super::space::SMALL;

/// The stream and pool of a request, by numbers; 0 is the default stream, and the pool that everybody allocates from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lane {
    /// Number of the stream.
    pub(crate) stream: usize,
    /// Number of the pool.
    pub(crate) pool: usize,
}

/// A request to the allocator. Displayed as the program that repeats it reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocatorRequest {
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

impl Display for AllocatorRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate { block, size, lane } => write!(out, "a {block} {size} {} {}", lane.stream, lane.pool),
            Self::Free(block) => write!(out, "f {block}"),
            Self::Fail { size, lane } => write!(out, "o {size} {} {}", lane.stream, lane.pool),
            Self::Empty => write!(out, "e"),
            Self::Drop(pool) => write!(out, "d {pool}"),
            Self::Begin => write!(out, "b"),
        }
    }
}

/// How to allocate what was held before the recording, whose requests are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// In segments as they were, with their free blocks.
    AsRecorded,
    /// One block after the other, without free blocks between them.
    Packed,
}

impl RequestHistory {
    /// Requests that repeat it on a card whose addresses rise, or fall where they are `descending`.
    pub(crate) fn requests(&self, how: Earlier, descending: bool) -> Vec<AllocatorRequest> {
        let mut list = Vec::new();
        let mut segments: Vec<_> = self.segments.iter().collect();
        let is_packed = how == Earlier::Packed;
        if descending && !is_packed {
            segments.reverse();
        }
        let mut free = Vec::new();
        // Blocks that only take place for now have numbers of their own.
        let mut fillers = self.blocks + 1..;
        let mut fill =
            |size, lane| AllocatorRequest::Allocate { block: fillers.next().unwrap_or_default(), size, lane };
        for &(ref segment, lane) in segments {
            let is_whole = is_packed || segment.small_pool;
            let parts = if is_whole { segment.blocks.clone() } else { joined(segment) };
            // Each segment is made whole and filled to its end, so that nothing but its own rest is free.
            if !is_whole && parts.len() > 1 {
                list.push(fill(segment.total_size, lane));
                list.extend(list.last().and_then(AllocatorRequest::end));
            }
            let most = if segment.small_pool { SMALL } else { u64::MAX };
            for part in parts {
                if let Some(&block) = self.held.get(&part.address) {
                    let size = part.requested_size.filter(|_| is_packed).unwrap_or(part.size);
                    list.push(AllocatorRequest::Allocate { block, size, lane });
                    continue;
                }
                let mut left = if is_packed { 0 } else { part.size };
                while left > 0 {
                    list.push(fill(left.min(most), lane));
                    free.extend(list.last().and_then(AllocatorRequest::end));
                    left = left.saturating_sub(most);
                }
            }
        }
        list.extend(free);
        list.push(AllocatorRequest::Begin);
        list.extend(&self.requests);
        list
    }
}

impl AllocatorRequest {
    /// The end of its block.
    fn end(&self) -> Option<Self> {
        if let Self::Allocate { block, .. } = self { Some(Self::Free(*block)) } else { None }
    }
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
pub(crate) fn curve(events: &[Event], reserved_before: u64) -> Vec<(u64, bool)> {
    let mut reserved = reserved_before;
    let mut curve = Vec::new();
    for event in events {
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(event.size),
            Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(event.size),
            Action::Alloc | Action::Oom => curve.push((reserved, event.action == Action::Alloc)),
            Action::FreeRequested | Action::FreeCompleted | Action::Snapshot | Action::Other => {}
        }
    }
    curve
}
