//! A caching allocator by PyTorch's rules, and a training loop that uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::Plan;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

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

/// A segment with its blocks by address.
pub(super) struct Segment {
    pub(super) size: u64,
    pub(super) small: bool,
    pub(super) capture: Capture,
    pub(super) blocks: BTreeMap<u64, Block>,
}

/// A block.
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) used: Option<Use>,
    /// What the latest use requested: PyTorch leaves it there.
    pub(super) stale: u64,
}

/// What a block is used for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) requested: u64,
    pub(super) capture: Capture,
}

/// The allocator of one device.
pub(super) struct Allocator {
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Free blocks by size and address, of the large and of the small pool.
    free: [BTreeSet<(u64, u64)>; 2],
    next_segment: u64,
    next_capture: u64,
    time_us: u64,
    events: u64,
}

impl Allocator {
    /// When every history begins.
    pub(super) const FIRST_TIME: u64 = 1_750_000_000_000_000;

    fn new(device: u64) -> Self {
        Self {
            segments: BTreeMap::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            next_segment: 0x7f00_0000_0000,
            next_capture: device << 48,
            time_us: Self::FIRST_TIME,
            events: 0,
        }
    }

    fn capture(&mut self, stack: u32) -> Capture {
        self.next_capture += 1;
        Capture { id: self.next_capture, stack }
    }

    fn event(&mut self, action: &'static str, addr: u64, size: u64, capture: Capture) -> Event {
        self.events += 1;
        self.time_us += 3 + self.events % 40;
        Event { action, addr, size, time_us: self.time_us, capture }
    }

    fn segment_of(&mut self, address: u64) -> Option<&mut Segment> {
        self.segments.range_mut(..=address).next_back().map(|(_, segment)| segment)
    }

    fn malloc(
        &mut self,
        requested: u64,
        stack: u32,
        sink: &mut impl FnMut(&Event) -> io::Result<()>,
    ) -> io::Result<u64> {
        let capture = self.capture(stack);
        let size = requested.next_multiple_of(512).max(512);
        let small = size <= MIB;
        let found = self.free[usize::from(small)].range((size, 0)..).next().copied();
        let (whole, address) = match found {
            Some(found) => found,
            None => {
                let bytes = match size {
                    _ if small => 2 * MIB,
                    10_485_760.. => size.next_multiple_of(2 * MIB),
                    _ => 20 * MIB,
                };
                let address = self.next_segment;
                self.next_segment += bytes;
                let block = Block { size: bytes, used: None, stale: 0 };
                let blocks = BTreeMap::from([(address, block)]);
                self.segments.insert(address, Segment { size: bytes, small, capture, blocks });
                sink(&self.event("segment_alloc", address, bytes, capture))?;
                (bytes, address)
            }
        };
        self.free[usize::from(small)].remove(&(whole, address));
        let rest = whole - size;
        let split = if small { rest >= 512 } else { rest > MIB };
        let size = if split { size } else { whole };
        if let Some(segment) = self.segment_of(address) {
            segment.blocks.insert(address, Block { size, used: Some(Use { requested, capture }), stale: requested });
            if split {
                segment.blocks.insert(address + size, Block { size: rest, used: None, stale: 0 });
                self.free[usize::from(small)].insert((rest, address + size));
            }
        }
        sink(&self.event("alloc", address, requested, capture))?;
        Ok(address)
    }

    fn free(&mut self, address: u64, stack: u32, sink: &mut impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        let capture = self.capture(stack);
        let Some(segment) = self.segment_of(address) else { return Ok(()) };
        let small = usize::from(segment.small);
        let Some(mut block) = segment.blocks.remove(&address) else { return Ok(()) };
        let requested = block.stale;
        let mut start = address;
        let mut gone = Vec::new();
        block.used = None;
        if let Some((&after, next)) = segment.blocks.range(address..).next()
            && next.used.is_none()
        {
            gone.push((next.size, after));
            block.size += next.size;
            segment.blocks.remove(&after);
        }
        if let Some((&before, previous)) = segment.blocks.range(..address).next_back()
            && previous.used.is_none()
        {
            gone.push((previous.size, before));
            block.size += previous.size;
            start = before;
        }
        let size = block.size;
        segment.blocks.insert(start, block);
        for free in gone {
            self.free[small].remove(&free);
        }
        self.free[small].insert((size, start));
        sink(&self.event("free_requested", address, requested, capture))?;
        sink(&self.event("free_completed", address, requested, capture))
    }

    /// `torch.cuda.empty_cache()`.
    fn empty_cache(&mut self, stack: u32, sink: &mut impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        let capture = self.capture(stack);
        let unused: Vec<_> = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.blocks.values().all(|block| block.used.is_none()))
            .map(|(&address, segment)| (address, segment.size, segment.small))
            .collect();
        for (address, size, small) in unused {
            self.segments.remove(&address);
            self.free[usize::from(small)].remove(&(size, address));
            sink(&self.event("segment_free", address, size, capture))?;
        }
        Ok(())
    }
}

/// Allocations of one step.
const STEP: u64 = 600;

/// Runs a training loop until it has made its share of the events, and returns the final state.
///
/// # Errors
/// What `sink` answers.
pub(super) fn train(plan: &Plan, device: u64, mut sink: impl FnMut(&Event) -> io::Result<()>) -> io::Result<Allocator> {
    let mut allocator = Allocator::new(device);
    let limit = (plan.events / plan.devices.max(1)).max(2);
    let stacks = plan.stacks.max(1) as u64;
    let stack_of = |number: u64| u32::try_from(number % stacks).unwrap_or(0);
    // Four stacks in five allocate, the others free.
    let allocating = (stacks * 4 / 5).max(1);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_add(device);
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };

    // Parameters and optimizer state.
    for parameter in 0..(limit / 20).min(400) {
        allocator.malloc((parameter % 7 + 1) * 2 * MIB, stack_of(parameter % allocating), &mut sink)?;
    }
    let mut step = 0;
    // Activations, which the next step's end frees in the opposite order.
    let mut held: Vec<u64> = Vec::new();
    'steps: loop {
        step += 1;
        for operation in 0..STEP {
            if allocator.events + 2 > limit {
                break 'steps;
            }
            // Most operations do the same in every step; some depend on the data.
            let shape = if operation % 16 == 0 { random() } else { operation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8 };
            let requested = match shape % 10 {
                0..=2 => 4 + shape / 10 % (64 * KIB),
                3..=4 => 64 * KIB + shape / 10 % 1024 * 1000,
                5..=8 => (1 + shape / 10 % 9) * MIB + shape / 1000 % 3 * 512,
                _ => (10 + shape / 10 % 50) * MIB,
            };
            // Every step is a little further in the code, so that all stacks occur.
            let number = operation.wrapping_mul(7).wrapping_add(step * 3) % allocating;
            let address = allocator.malloc(requested, stack_of(number), &mut sink)?;
            let free_stack = stack_of(allocating + number % (stacks - allocating).max(1));
            if operation % 3 == 2 {
                // A temporary.
                allocator.free(address, free_stack, &mut sink)?;
            } else if plan.ramp && operation == STEP / 2 {
                // Never freed.
            } else {
                held.push(address);
            }
        }
        // The backward pass.
        while let Some(address) = held.pop() {
            if allocator.events + 2 > limit {
                break 'steps;
            }
            let number = allocating + held.len() as u64 % (stacks - allocating).max(1);
            allocator.free(address, stack_of(number), &mut sink)?;
        }
        if step % 64 == 0 {
            allocator.empty_cache(stack_of(allocating), &mut sink)?;
        }
    }
    Ok(allocator)
}
