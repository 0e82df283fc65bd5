//! The blocks of a device, and the free ones among them as PyTorch looks for them: by stream and size.

use std::collections::{BTreeMap, BTreeSet};

use ptmem::replay::SegmentPart;

/// The largest request that a segment for small ones serves, and the least that is split off in others.
pub(super) const SMALL: u64 = 1 << 20;

/// The size of segments for small requests.
const SMALL_SEGMENT: u64 = 2 << 20;

/// Blocks among which PyTorch looks for one: those of a stream, for small requests or for others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpaceClass {
    stream: i128,
    pub(super) is_small: bool,
}

/// A block. Neighbors of the same segment that are free are one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpaceBlock {
    pub(super) bytes: u64,
    /// Its number if it is in use.
    pub(super) used: Option<usize>,
    /// Its segment; `None` outside of all known ones. Parts of an expandable segment that touch are one segment.
    pub(super) segment: Option<usize>,
    pub(super) is_mapped: bool,
    pub(super) class: SpaceClass,
}

/// Blocks by their addresses.
#[derive(Default)]
pub(super) struct Space {
    blocks: BTreeMap<u64, SpaceBlock>,
    /// The free ones by class, size and address.
    free: BTreeSet<(SpaceClass, u64, u64)>,
}

impl Space {
    /// Adds a segment, or a part of one, and gives the number of its segment.
    pub(super) fn obtain(&mut self, part: &SegmentPart, stream: i128, new: usize) -> usize {
        let end = part.address.saturating_add(part.bytes);
        self.give_back(part.address, part.bytes);
        let touching = [self.at(part.address.wrapping_sub(1)), self.at(end)].into_iter().flatten();
        let mut expandable = touching.filter(|(_, other)| other.is_mapped && part.is_mapped);
        let segment = expandable.find_map(|(_, other)| other.segment).unwrap_or(new);
        let class = SpaceClass { stream, is_small: part.bytes == SMALL_SEGMENT };
        let block =
            SpaceBlock { bytes: part.bytes, used: None, segment: Some(segment), is_mapped: part.is_mapped, class };
        self.release(part.address, block);
        segment
    }

    /// Removes a range of addresses, and gives the segment of its first block.
    pub(super) fn give_back(&mut self, address: u64, bytes: u64) -> Option<usize> {
        let end = address.saturating_add(bytes);
        let first = self.at(address).map(|(start, _)| start);
        let hit = first.into_iter().chain(self.blocks.range(address..end).map(|(&start, _)| start));
        let mut segment = None;
        for start in hit.collect::<BTreeSet<_>>() {
            let Some(block) = self.take(start) else { continue };
            segment = segment.or(block.segment);
            for (from, to) in [(start, address), (end, start.saturating_add(block.bytes))] {
                if from < to {
                    self.put(from, SpaceBlock { bytes: to - from, ..block });
                }
            }
        }
        segment
    }

    /// The block at an address, with its own.
    pub(super) fn at(&self, address: u64) -> Option<(u64, SpaceBlock)> {
        let (&start, &block) = self.blocks.range(..=address).next_back()?;
        (start.saturating_add(block.bytes) > address).then_some((start, block))
    }

    fn put(&mut self, address: u64, block: SpaceBlock) {
        if block.used.is_none() {
            self.free.insert((block.class, block.bytes, address));
        }
        self.blocks.insert(address, block);
    }

    fn take(&mut self, address: u64) -> Option<SpaceBlock> {
        let block = self.blocks.remove(&address)?;
        self.free.remove(&(block.class, block.bytes, address));
        Some(block)
    }

    /// Adds a free block, joined with its free neighbors.
    fn release(&mut self, mut address: u64, mut block: SpaceBlock) {
        let neighbors = [self.at(address.wrapping_sub(1)), self.at(address.saturating_add(block.bytes))];
        for (start, other) in neighbors.into_iter().flatten() {
            if other.used.is_none() && (other.segment, other.class) == (block.segment, block.class) {
                self.take(start);
                address = address.min(start);
                block.bytes += other.bytes;
            }
        }
        self.put(address, SpaceBlock { used: None, ..block });
    }

    /// Puts a block with a number at an address, and gives its segment.
    pub(super) fn occupy(&mut self, address: u64, bytes: u64, number: usize) -> Option<usize> {
        let (_, block) = self.at(address).unwrap_or_default();
        self.give_back(address, bytes);
        self.put(address, SpaceBlock { bytes, used: Some(number), ..block });
        block.segment
    }

    /// Frees the block at an address, and gives its number.
    pub(super) fn vacate(&mut self, address: u64) -> Option<usize> {
        let number = self.blocks.get(&address)?.used?;
        let block = self.take(address)?;
        if block.segment.is_some() {
            self.release(address, block);
        }
        Some(number)
    }

    /// The segments of free blocks between two, each a size and an address: the best fit first.
    pub(super) fn between(
        &self,
        class: SpaceClass,
        from: (u64, u64),
        to: (u64, u64),
    ) -> impl Iterator<Item = usize> + '_ {
        let free = (from < to).then(|| self.free.range((class, from.0, from.1)..(class, to.0, to.1)));
        free.into_iter().flatten().filter_map(|(_, _, address)| self.blocks[address].segment)
    }

    /// The segments with blocks in use.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.blocks.values().filter(|block| block.used.is_some()).filter_map(|block| block.segment)
    }

    /// The segments that are entirely free.
    pub(super) fn unused(&self) -> Vec<usize> {
        let used: BTreeSet<usize> = self.used().collect();
        let all: BTreeSet<usize> = self.blocks.values().filter_map(|block| block.segment).collect();
        all.difference(&used).copied().collect()
    }
}
