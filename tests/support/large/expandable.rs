//! Expandable segments: a large range of addresses for each pool, in which memory is mapped where it is needed.

use std::collections::BTreeMap;
use std::io;

use super::allocator::{Allocator, Block, Capture, MIB, Segment, Sink};

/// Addresses that have no memory: where each range begins and ends, of the large and of the small pool.
pub(super) struct Unmapped([BTreeMap<u64, u64>; 2]);

/// Bytes mapped at once in the large and in the small pool: one handle of the driver.
pub(super) const HANDLE: [u64; 2] = [20 * MIB, 2 * MIB];
/// Where the addresses of the large and of the small pool begin: far apart, so that they never touch.
const BASE: [u64; 2] = [0x7800_0000_0000, 0x7000_0000_0000];
/// More than any device has.
const ADDRESSES: u64 = 1 << 43;

impl Default for Unmapped {
    fn default() -> Self {
        Self(BASE.map(|base| BTreeMap::from([(base, base + ADDRESSES)])))
    }
}

impl Allocator {
    fn holes(&mut self, small: bool) -> &mut BTreeMap<u64, u64> {
        &mut self.unmapped.get_or_insert_default().0[usize::from(small)]
    }

    /// Maps memory until there is a free block of at least this size; returns its size and address.
    pub(super) fn map(
        &mut self,
        size: u64,
        small: bool,
        capture: Capture,
        sink: &mut impl Sink,
    ) -> io::Result<(u64, u64)> {
        let start = self.room(size, small).ok_or_else(|| io::Error::other("more memory than there are addresses"))?;
        loop {
            let mapped = self.blocks.get(&start).map_or(0, |block| block.size);
            if mapped >= size {
                return Ok((mapped, start));
            }
            let hole = start + mapped;
            let end = self.holes(small).remove(&hole).unwrap_or(hole);
            let bytes = (size - mapped).next_multiple_of(HANDLE[usize::from(small)]).min(end - hole);
            if hole + bytes < end {
                self.holes(small).insert(hole + bytes, end);
            }
            self.add_range(hole, bytes, small);
            self.release(hole, small, Block::free(bytes));
            sink(&self.event("segment_map", hole, bytes, capture))?;
        }
    }

    /// The lowest address with room for this many bytes that are free or not mapped.
    fn room(&mut self, size: u64, small: bool) -> Option<u64> {
        let holes = std::mem::take(self.holes(small));
        let start = holes.keys().map(|&hole| self.free_before(hole).unwrap_or(hole)).find(|&start| {
            let mut end = start;
            while end - start < size {
                let free = self.blocks.get(&end).filter(|block| block.used.is_none()).map(|block| end + block.size);
                match holes.get(&end).copied().or(free) {
                    Some(next) => end = next,
                    None => return false,
                }
            }
            true
        });
        *self.holes(small) = holes;
        start
    }

    /// The free block that ends there.
    fn free_before(&self, end: u64) -> Option<u64> {
        let (&start, block) = self.blocks.range(..end).next_back()?;
        (block.used.is_none() && start + block.size == end).then_some(start)
    }

    /// Merges ranges that touch.
    fn add_range(&mut self, start: u64, bytes: u64, small: bool) {
        let (mut start, mut end) = (start, start + bytes);
        if let Some(after) = self.segments.remove(&end) {
            end += after.size;
        }
        let before = self.segments.range(..start).next_back().map(|(&before, segment)| (before, before + segment.size));
        if let Some((before, _)) = before.filter(|&(_, end)| end == start) {
            start = before;
        }
        self.segments.insert(start, Segment { size: end - start, small, capture: None });
    }

    /// Takes the memory from where nothing of a handle is in use.
    pub(super) fn unmap(&mut self, capture: Capture, sink: &mut impl Sink) -> io::Result<()> {
        for small in [false, true] {
            let (base, handle) = (BASE[usize::from(small)], HANDLE[usize::from(small)]);
            for (size, address) in self.free[usize::from(small)].clone() {
                let start = base + (address - base).next_multiple_of(handle);
                let end = base + (address + size - base) / handle * handle;
                if start < end {
                    self.take_range(start, end, small);
                    self.free[usize::from(small)].remove(&(size, address));
                    self.blocks.remove(&address);
                    for (from, to) in [(address, start), (end, address + size)] {
                        if from < to {
                            self.release(from, small, Block::free(to - from));
                        }
                    }
                    sink(&self.event("segment_unmap", start, end - start, capture))?;
                }
            }
        }
        Ok(())
    }

    fn take_range(&mut self, start: u64, end: u64, small: bool) {
        let Some((&first, range)) = self.segments.range_mut(..=start).next_back() else { return };
        let last = first + range.size;
        range.size = start - first;
        if range.size == 0 {
            self.segments.remove(&first);
        }
        if end < last {
            self.segments.insert(end, Segment { size: last - end, small, capture: None });
        }
        let holes = self.holes(small);
        let end = holes.remove(&end).unwrap_or(end);
        let before = holes.range(..start).next_back().filter(|&(_, &end)| end == start).map(|(&before, _)| before);
        holes.insert(before.unwrap_or(start), end);
    }
}
