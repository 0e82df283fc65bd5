//! A caching allocator by PyTorch's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::expandable::Unmapped;

pub(super) const MIB: u64 = 1 << 20;

/// Takes the history, entry by entry.
pub(super) trait Sink: FnMut(&Event) -> io::Result<()> {}

impl<F: FnMut(&Event) -> io::Result<()>> Sink for F {}

/// A traceback: which one, and the stack that it shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capture {
    pub(super) id: u64,
    pub(super) stack: u32,
}

/// An entry of the history.
pub(super) struct Event {
    pub(super) action: &'static str,
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) time_us: u64,
    pub(super) capture: Capture,
}

/// A segment, or a mapped range of an expandable one.
pub(super) struct Segment {
    pub(super) size: u64,
    pub(super) small: bool,
    /// PyTorch keeps none for a mapped range.
    pub(super) capture: Option<Capture>,
}

/// A block.
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) used: Option<Use>,
    /// Requested bytes of the latest use; PyTorch keeps them after a free.
    pub(super) stale: u64,
}

impl Block {
    pub(super) fn free(size: u64) -> Self {
        Self { size, used: None, stale: 0 }
    }
}

/// The use of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) requested: u64,
    pub(super) capture: Capture,
}

/// The allocator of one device.
pub(super) struct Allocator {
    /// By address.
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Those of all segments, by address.
    pub(super) blocks: BTreeMap<u64, Block>,
    /// Free blocks by size and address, of the large and of the small pool.
    pub(super) free: [BTreeSet<(u64, u64)>; 2],
    /// The rest of the expandable segments, where there are any.
    pub(super) unmapped: Option<Unmapped>,
    /// Number of entries in the history.
    pub(super) events: u64,
    next_segment: u64,
    next_capture: u64,
    time_us: u64,
}

impl Allocator {
    /// Start time of every history.
    pub(super) const FIRST_TIME: u64 = 1_750_000_000_000_000;

    pub(super) fn new(device: u64, expandable: bool) -> Self {
        Self {
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            unmapped: expandable.then(Unmapped::default),
            events: 0,
            next_segment: 0x7f00_0000_0000,
            next_capture: device << 48,
            time_us: Self::FIRST_TIME,
        }
    }

    fn capture(&mut self, stack: u32) -> Capture {
        self.next_capture += 1;
        Capture { id: self.next_capture, stack }
    }

    pub(super) fn event(&mut self, action: &'static str, addr: u64, size: u64, capture: Capture) -> Event {
        self.events += 1;
        self.time_us += 3 + self.events % 40;
        Event { action, addr, size, time_us: self.time_us, capture }
    }

    pub(super) fn malloc(&mut self, requested: u64, stack: u32, sink: &mut impl Sink) -> io::Result<u64> {
        let capture = self.capture(stack);
        let size = requested.next_multiple_of(512).max(512);
        let small = size <= MIB;
        let found = self.free[usize::from(small)].range((size, 0)..).next().copied();
        let (whole, address) = match found {
            Some(found) => found,
            None if self.unmapped.is_some() => self.map(size, small, capture, sink)?,
            None => self.new_segment(size, small, capture, sink)?,
        };
        self.free[usize::from(small)].remove(&(whole, address));
        let rest = whole - size;
        let split = if small || self.unmapped.is_some() { rest >= 512 } else { rest > MIB };
        let size = if split { size } else { whole };
        self.blocks.insert(address, Block { size, used: Some(Use { requested, capture }), stale: requested });
        if split {
            self.blocks.insert(address + size, Block::free(rest));
            self.free[usize::from(small)].insert((rest, address + size));
        }
        sink(&self.event("alloc", address, requested, capture))?;
        Ok(address)
    }

    /// `cudaMalloc`. Answers the size and address of the free block that is all of it.
    fn new_segment(
        &mut self,
        size: u64,
        small: bool,
        capture: Capture,
        sink: &mut impl Sink,
    ) -> io::Result<(u64, u64)> {
        let bytes = match size {
            _ if small => 2 * MIB,
            10_485_760.. => size.next_multiple_of(2 * MIB),
            _ => 20 * MIB,
        };
        let address = self.next_segment;
        self.next_segment += bytes;
        self.segments.insert(address, Segment { size: bytes, small, capture: Some(capture) });
        self.release(address, small, Block::free(bytes));
        sink(&self.event("segment_alloc", address, bytes, capture))?;
        Ok((bytes, address))
    }

    pub(super) fn free(&mut self, address: u64, stack: u32, sink: &mut impl Sink) -> io::Result<()> {
        let capture = self.capture(stack);
        let Some(block) = self.blocks.remove(&address) else { return Ok(()) };
        let requested = block.stale;
        let small = self.segment_of(address).is_some_and(|(_, segment)| segment.small);
        self.release(address, small, Block { used: None, ..block });
        sink(&self.event("free_requested", address, requested, capture))?;
        sink(&self.event("free_completed", address, requested, capture))
    }

    fn segment_of(&self, address: u64) -> Option<(u64, &Segment)> {
        self.segments.range(..=address).next_back().map(|(&start, segment)| (start, segment))
    }

    /// Puts a free block where none is, one with its free neighbours in the segment.
    pub(super) fn release(&mut self, address: u64, small: bool, mut block: Block) {
        let Some((start, end)) = self.segment_of(address).map(|(start, segment)| (start, start + segment.size)) else {
            return;
        };
        let mut first = address;
        let is_free = |(&address, block): (&u64, &Block)| block.used.is_none().then_some((block.size, address));
        let after = self.blocks.range(address..end).next().and_then(is_free);
        let before = self.blocks.range(start..address).next_back().and_then(is_free);
        for (size, address) in after.into_iter().chain(before) {
            block.size += size;
            first = first.min(address);
            self.blocks.remove(&address);
            self.free[usize::from(small)].remove(&(size, address));
        }
        self.free[usize::from(small)].insert((block.size, first));
        self.blocks.insert(first, block);
    }

    /// `torch.cuda.empty_cache()`.
    pub(super) fn empty_cache(&mut self, stack: u32, sink: &mut impl Sink) -> io::Result<()> {
        let capture = self.capture(stack);
        if self.unmapped.is_some() {
            return self.unmap(capture, sink);
        }
        let whole = |(&address, segment): (&u64, &Segment)| {
            let block = self.blocks.get(&address)?;
            (block.used.is_none() && block.size == segment.size).then_some((address, segment.size, segment.small))
        };
        let unused: Vec<_> = self.segments.iter().filter_map(whole).collect();
        for (address, size, small) in unused {
            self.segments.remove(&address);
            self.blocks.remove(&address);
            self.free[usize::from(small)].remove(&(size, address));
            sink(&self.event("segment_free", address, size, capture))?;
        }
        Ok(())
    }
}
