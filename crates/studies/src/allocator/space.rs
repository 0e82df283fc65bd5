//! The free blocks of a device, as PyTorch looks for them: by stream and size.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_trace::replay::SegmentPart;
use rustc_hash::FxHashMap;

/// The largest request that a segment for small ones serves, and the least that is split off in others.
pub(super) const SMALL: u64 = 1 << 20;

/// The size of segments for small requests.
const SMALL_SEGMENT: u64 = 2 << 20;

/// A segment, or a part of an expandable one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) bytes: u64,
    /// The group of parts of which it is one: they are in the same pool.
    pub(super) group: usize,
    pub(super) class: Class,
    pub(super) is_mapped: bool,
}

/// Blocks among which PyTorch looks for one: those of a stream, for small requests or for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Class {
    stream: i128,
    pub(super) is_small: bool,
}

/// Segments and their blocks.
#[derive(Default)]
pub(super) struct Space {
    parts: BTreeMap<u64, Part>,
    /// Free blocks by their addresses. None reaches across parts.
    free: BTreeMap<u64, u64>,
    /// The same by sizes.
    by_size: FxHashMap<Class, BTreeSet<(u64, u64)>>,
    /// Sizes and numbers of blocks in use.
    used: FxHashMap<u64, (u64, usize)>,
}

impl Space {
    /// Adds a part, whose group is that of the part of the same expandable segment that it touches, or else a new one.
    pub(super) fn obtain(&mut self, part: &SegmentPart, stream: i128, new_group: usize) -> usize {
        self.give_back(part.address, part.bytes);
        let group = self.touched(part).unwrap_or(new_group);
        let class = Class { stream, is_small: part.bytes == SMALL_SEGMENT };
        self.parts.insert(part.address, Part { bytes: part.bytes, group, class, is_mapped: part.is_mapped });
        self.release(part.address, part.bytes);
        group
    }

    fn touched(&self, part: &SegmentPart) -> Option<usize> {
        let before = part.address.checked_sub(1).and_then(|last| self.part(last)).map(|(_, other)| other);
        let after = self.parts.get(&part.address.saturating_add(part.bytes)).copied();
        let other = before.into_iter().chain(after).find(|other| other.is_mapped && part.is_mapped)?;
        Some(other.group)
    }

    /// Removes a range of addresses, and gives the group of its first part.
    pub(super) fn give_back(&mut self, address: u64, bytes: u64) -> Option<usize> {
        let end = address.saturating_add(bytes);
        self.cut(address, end);
        let mut first = None;
        for (start, bytes) in overlapping(&self.parts, address, end, |part| part.bytes) {
            let Some(part) = self.parts.remove(&start) else { continue };
            first = first.or(Some(part.group));
            for (from, bytes) in outside(start, bytes, address, end) {
                self.parts.insert(from, Part { bytes, ..part });
            }
        }
        first
    }

    /// The part at an address, with its own.
    pub(super) fn part(&self, address: u64) -> Option<(u64, Part)> {
        let (&start, &part) = self.parts.range(..=address).next_back()?;
        (start.saturating_add(part.bytes) > address).then_some((start, part))
    }

    /// The group of the part at an address.
    pub(super) fn group_at(&self, address: u64) -> Option<usize> {
        self.part(address).map(|(_, part)| part.group)
    }

    /// Adds a free block, which is in one part.
    fn put(&mut self, address: u64, bytes: u64) {
        let Some((_, part)) = self.part(address).filter(|_| bytes > 0) else { return };
        self.free.insert(address, bytes);
        self.by_size.entry(part.class).or_default().insert((bytes, address));
    }

    /// Removes a free block, and gives its size.
    fn take(&mut self, address: u64) -> Option<u64> {
        let bytes = self.free.remove(&address)?;
        let (_, part) = self.part(address)?;
        self.by_size.entry(part.class).or_default().remove(&(bytes, address));
        Some(bytes)
    }

    /// Removes a range from free blocks.
    fn cut(&mut self, address: u64, end: u64) {
        for (start, bytes) in overlapping(&self.free, address, end, |bytes| *bytes) {
            self.take(start);
            outside(start, bytes, address, end).for_each(|(from, bytes)| self.put(from, bytes));
        }
    }

    /// Makes a range free, and joins it with its neighbours in the same part.
    fn release(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let mut from = address;
        while let Some((start, part)) = self.part(from).filter(|_| from < end) {
            let part_end = start.saturating_add(part.bytes);
            let mut first = from;
            let mut last = end.min(part_end);
            let before = self.free.range(start..first).next_back().map(|(&at, &size)| (at, size));
            if let Some((at, _)) = before.filter(|(at, size)| at.saturating_add(*size) == first) {
                self.take(at);
                first = at;
            }
            if last < part_end {
                last += self.take(last).unwrap_or(0);
            }
            self.put(first, last - first);
            from = part_end;
        }
    }

    /// Puts a block with a number at an address.
    pub(super) fn occupy(&mut self, address: u64, bytes: u64, block: usize) {
        self.used.insert(address, (bytes, block));
        self.cut(address, address.saturating_add(bytes));
    }

    /// Frees the block at an address, and gives its number.
    pub(super) fn vacate(&mut self, address: u64) -> Option<usize> {
        let (bytes, block) = self.used.remove(&address)?;
        self.release(address, bytes);
        Some(block)
    }

    /// The free block at an address, with its own and its size.
    pub(super) fn free_at(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.free.range(..=address).next_back()?;
        (start.saturating_add(bytes) > address).then_some((start, bytes))
    }

    /// The groups of free blocks of a class between two, each a size and an address: the best fit first.
    pub(super) fn groups_between(
        &self,
        class: Class,
        from: (u64, u64),
        to: (u64, u64),
    ) -> impl Iterator<Item = usize> + '_ {
        let free = self.by_size.get(&class).filter(|_| from < to).map(|free| free.range(from..to));
        free.into_iter().flatten().filter_map(|&(_, address)| Some(self.part(address)?.1.group))
    }

    /// The groups of segments that are entirely free.
    pub(super) fn unused(&self) -> impl Iterator<Item = usize> + '_ {
        let free = self.free.iter().filter_map(|(start, bytes)| Some((self.parts.get(start)?, *bytes)));
        free.filter(|(part, bytes)| part.bytes == *bytes).map(|(part, _)| part.group)
    }
}

/// The ranges of a map that overlap with another, with their sizes.
fn overlapping<T>(of: &BTreeMap<u64, T>, from: u64, to: u64, bytes: impl Fn(&T) -> u64) -> Vec<(u64, u64)> {
    let before = of.range(..from).next_back().filter(|(start, one)| start.saturating_add(bytes(one)) > from);
    before.into_iter().chain(of.range(from..to.max(from))).map(|(&start, one)| (start, bytes(one))).collect()
}

/// The parts of a range outside another.
fn outside(start: u64, bytes: u64, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let left = (start, from.saturating_sub(start));
    let right = (to, start.saturating_add(bytes).saturating_sub(to));
    [left, right].into_iter().filter(|(_, bytes)| *bytes > 0)
}
