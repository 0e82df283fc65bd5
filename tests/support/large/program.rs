//! The programs whose history is recorded.

use std::io;

use super::Plan;
use super::allocator::{Allocator, MIB, Sink};
use super::expandable::HANDLE;

const KIB: u64 = 1 << 10;
/// Allocations of one step.
const STEP: u64 = 600;
/// Events that these make, about.
const STEP_EVENTS: u64 = 3 * STEP;
/// How far the next operation is in the code.
const APART: u64 = 7;
/// Wherever it begins, one handle lies in it as a whole.
const GAP: u64 = 2 * HANDLE[0];

/// Runs a program until it has made its share of the events, and returns the final state.
///
/// # Errors
/// Those of `sink`.
pub(super) fn run(plan: &Plan, device: u64, mut sink: impl Sink) -> io::Result<Allocator> {
    let limit = (plan.events / plan.devices.max(1)).max(2);
    let mut program = Program {
        allocator: Allocator::new(device, plan.expandable > 0),
        limit,
        stacks: Stacks::new(plan.stacks, limit),
    };
    if plan.peaks {
        program.grow(&mut sink)?;
    } else {
        program.train(plan, device, &mut sink)?;
    }
    Ok(program.allocator)
}

struct Program {
    allocator: Allocator,
    limit: u64,
    stacks: Stacks,
}

/// Where the program is.
struct Stacks {
    count: u64,
    /// Four stacks in five allocate, the others free.
    allocating: u64,
    /// Distance in the code between two steps, chosen so that all stacks occur.
    stride: u64,
}

impl Stacks {
    fn new(count: usize, events: u64) -> Self {
        let count = count.max(1) as u64;
        let allocating = (count * 4 / 5).max(1);
        // Where one step does not come to all of them, they are gone through twice; no multiple of 7.
        let twice = if allocating > STEP * APART { 2 * allocating * STEP_EVENTS / events } else { 0 };
        let stride = twice / APART * APART + 3;
        Self { count, allocating, stride }
    }

    fn number(&self, number: u64) -> u32 {
        u32::try_from(number % self.count).unwrap_or(0)
    }

    /// The stack of the allocation with this number.
    fn allocating(&self, number: u64) -> u32 {
        self.number(number % self.allocating)
    }

    fn freeing(&self, number: u64) -> u32 {
        self.number(self.allocating + number % (self.count - self.allocating).max(1))
    }
}

impl Program {
    /// Whether its share of the events is made.
    fn is_done(&self) -> bool {
        self.allocator.events + 2 > self.limit
    }

    /// A training loop.
    fn train(&mut self, plan: &Plan, device: u64, sink: &mut impl Sink) -> io::Result<()> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_add(device);
        let mut random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };

        // Parameters and optimizer state.
        for parameter in 0..(self.limit / 20).min(400) {
            let stack = self.stacks.allocating(parameter);
            self.allocator.malloc((parameter % 7 + 1) * 2 * MIB, stack, sink)?;
        }
        self.keep_apart(plan.expandable, sink)?;
        // Activations, which the next step's end frees in the opposite order.
        let mut held: Vec<u64> = Vec::new();
        for step in 1.. {
            let between = self.fill_gaps(plan.expandable, sink)?;
            for operation in 0..STEP {
                if self.is_done() {
                    return Ok(());
                }
                // Most operations do the same in every step; some depend on the data.
                let shape =
                    if operation % 16 == 0 { random() } else { operation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8 };
                let requested = match shape % 10 {
                    0..=2 => 4 + shape / 10 % (64 * KIB),
                    3..=4 => 64 * KIB + shape / 10 % 1024 * 1000,
                    5..=8 => (1 + shape / 10 % 9) * MIB + shape / 1000 % 3 * 512,
                    _ => (10 + shape / 10 % 50) * MIB,
                };
                let number = (operation * APART + step * self.stacks.stride) % self.stacks.allocating;
                let address = self.allocator.malloc(requested, self.stacks.allocating(number), sink)?;
                if operation % 3 == 2 {
                    // A temporary.
                    self.allocator.free(address, self.stacks.freeing(number), sink)?;
                } else if plan.ramp && operation % 50 == 0 {
                    // Never freed.
                } else {
                    held.push(address);
                }
            }
            // The backward pass.
            while let Some(address) = held.pop() {
                if self.is_done() {
                    return Ok(());
                }
                self.allocator.free(address, self.stacks.freeing(held.len() as u64), sink)?;
            }
            self.free_all(between, sink)?;
            if step % 64 == 0 || plan.expandable > 0 {
                self.allocator.empty_cache(self.stacks.freeing(0), sink)?;
            }
        }
        Ok(())
    }

    /// Leaves `count` mapped ranges with a gap after each, for good.
    fn keep_apart(&mut self, count: u64, sink: &mut impl Sink) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let mut between = Vec::new();
        for number in 0..count {
            self.allocator.malloc(2 * MIB, self.stacks.allocating(number), sink)?;
            between.push(self.allocator.malloc(GAP, self.stacks.allocating(number), sink)?);
        }
        self.free_all(between, sink)?;
        self.allocator.empty_cache(self.stacks.freeing(0), sink)
    }

    /// Allocates what needs the memory of the first `count` gaps.
    fn fill_gaps(&mut self, count: u64, sink: &mut impl Sink) -> io::Result<Vec<u64>> {
        let mut all = Vec::new();
        for number in 0..count {
            if self.is_done() {
                break;
            }
            all.push(self.allocator.malloc(GAP, self.stacks.allocating(number), sink)?);
        }
        Ok(all)
    }

    fn free_all(&mut self, addresses: impl IntoIterator<Item = u64>, sink: &mut impl Sink) -> io::Result<()> {
        for (number, address) in (0..).zip(addresses) {
            if self.is_done() {
                break;
            }
            self.allocator.free(address, self.stacks.freeing(number), sink)?;
        }
        Ok(())
    }

    /// A cache whose entries are replaced by larger ones in turn.
    fn grow(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        // Few enough rounds that no entry leaves the small pool, whose blocks are no larger than they have to be.
        const ROUNDS: u64 = 1000;
        let mut entries: Vec<u64> = Vec::new();
        let count = self.limit / 3 / ROUNDS + 100;
        for number in 0.. {
            let (entry, round) = (number % count, number / count);
            if self.is_done() {
                break;
            }
            let at = usize::try_from(entry).unwrap_or(0);
            if let Some(&old) = entries.get(at) {
                self.allocator.free(old, self.stacks.freeing(number), sink)?;
            }
            let new = self.allocator.malloc((round + 1) * 512, self.stacks.allocating(number), sink)?;
            match entries.get_mut(at) {
                Some(place) => *place = new,
                None => entries.push(new),
            }
        }
        Ok(())
    }
}
