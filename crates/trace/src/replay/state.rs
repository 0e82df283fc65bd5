//! The segments and blocks of a device at a moment of its history, as a dump at that moment would have listed them.

use std::collections::BTreeMap;

use ptmem_snapshot::snapshot::{Block, BlockState, Device, Segment, Snapshot};

use super::backing::Backing;
use super::census::Census;
use super::rounding::{SHARED_POOL, SMALL_SIZE, SplitRule};
use super::segment_map::Range;
use super::{Allocation, Position};

/// The segments at a moment, with `allocations` as their blocks, which are those of the replay or some of them, each with
/// its address.
pub fn state_at(
    snapshot: &Snapshot,
    device: &Device,
    allocations: &[(u64, &Allocation)],
    at: Position,
) -> Vec<Segment> {
    let live = allocations.iter().copied().filter(|(_, one)| one.born <= at && at < one.completed);
    let mut live: Vec<(u64, &Allocation)> = live.collect();
    live.sort_by_key(|&(address, _)| address);
    let backing = Backing::at(snapshot, device, &Census::of(snapshot.events_of(device), 0), at);
    let listed: BTreeMap<u64, &Segment> = device.segments.iter().map(|segment| (segment.address, segment)).collect();
    let has_pools = device.segments.iter().any(|segment| segment.pool_id.is_some());
    let mut live = live.into_iter().peekable();
    let ranges = backing.segments.iter().filter(|(start, range)| *start < range.end);
    let segments = ranges.map(|(start, Range { end, pool, home })| {
        let blocks = blocks(start, end, &mut live, at);
        Segment {
            address: start,
            total_size: end - start,
            allocated_size: None,
            active_size: None,
            small_pool: home.small.unwrap_or_else(|| blocks.iter().any(is_small)),
            stream: home.stream,
            pool_id: home.pool_id.or(has_pools.then_some(SHARED_POOL)),
            is_expandable: pool == SplitRule::Expandable,
            stack: listed.get(&start).and_then(|segment| segment.stack),
            blocks,
        }
    });
    segments.collect()
}

/// True for a block in use of the size of the small pool.
fn is_small(block: &Block) -> bool {
    block.state != BlockState::Inactive && block.size <= SMALL_SIZE
}

/// The blocks of a segment, without gaps.
fn blocks<'a>(
    start: u64,
    end: u64,
    live: &mut std::iter::Peekable<impl Iterator<Item = (u64, &'a Allocation)>>,
    at: Position,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut next = start;
    while let Some((address, allocation)) = live.next_if(|&(address, _)| address < end) {
        // Only in a damaged file is a block outside of all segments, or over another one.
        if address < next {
            continue;
        }
        if address > next {
            blocks.push(free_block(next, address));
        }
        let size = allocation.bytes.min(end - address);
        let state = if at < allocation.freed { BlockState::ActiveAllocated } else { BlockState::ActivePendingFree };
        let requested_size = Some(allocation.requested);
        blocks.push(Block { address, size, requested_size, state, stack: allocation.stack });
        next = address + size;
    }
    if next < end {
        blocks.push(free_block(next, end));
    }
    blocks
}

fn free_block(start: u64, end: u64) -> Block {
    Block { address: start, size: end - start, requested_size: Some(0), state: BlockState::Inactive, stack: None }
}
