//! Requests that lead to the memory that was held before a recording.

use ptmem_snapshot::snapshot::{Block, BlockState, Segment};

use super::reader::Reader;
use super::requests::{Lane, Request};

/// The largest request that a segment of the small pool serves, and the least that is split off in others.
const SMALL: u64 = 1 << 20;

/// One block after the other.
pub(super) fn packed(reader: &mut Reader<'_>, segments: &[Segment]) {
    for segment in segments {
        let lane = reader.numbers.lane(segment.stream, segment.pool_id);
        for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
            reader.allocate_at(block.address, block.requested_size.unwrap_or(block.size), lane);
        }
    }
}

/// Makes each segment in turn, filled to its end, so that nothing but its own rest is free, and then frees what was free.
pub(super) fn as_recorded(reader: &mut Reader<'_>, segments: &[Segment]) {
    let mut free = Vec::new();
    for segment in segments {
        let lane = reader.numbers.lane(segment.stream, segment.pool_id);
        let parts = if segment.small_pool { segment.blocks.clone() } else { joined(segment) };
        if !segment.small_pool && parts.len() > 1 {
            let whole = reader.allocate(segment.total_size, lane);
            reader.list.push(Request::Free(whole));
        }
        for part in &parts {
            if part.state == BlockState::Inactive {
                fill(reader, part.size, lane, segment.small_pool, &mut free);
            } else {
                reader.allocate_at(part.address, part.size, lane);
            }
        }
    }
    reader.list.extend(free.into_iter().map(Request::Free));
}

/// Takes what is free for now.
fn fill(reader: &mut Reader<'_>, size: u64, lane: Lane, is_small: bool, free: &mut Vec<usize>) {
    let mut left = size;
    while left > 0 {
        let part = if is_small { left.min(SMALL) } else { left };
        free.push(reader.allocate(part, lane));
        left -= part;
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
