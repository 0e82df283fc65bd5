//! The most that each stack held at any moment, wherever the peak of the device lies.

use crate::replay::{Allocation, Position, Replay};

/// The most bytes that a stack held, and when it held them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highest {
    /// Allocated bytes.
    pub bytes: u64,
    /// The moment.
    pub at: Position,
}

impl Highest {
    const NOTHING: Self = Self { bytes: 0, at: Position::START };
}

/// Parts of the allocations by what they have in common.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The group of every part.
    pub(super) of_part: Vec<u32>,
    /// Number of groups.
    pub(super) count: usize,
}

/// Held by the groups now, and at most.
struct Counters<'g> {
    groups: &'g Groups,
    held: Vec<u64>,
    most: Vec<Highest>,
}

impl<'g> Counters<'g> {
    fn new(groups: &'g Groups) -> Self {
        Self { groups, held: vec![0; groups.count], most: vec![Highest::NOTHING; groups.count] }
    }

    fn add(&mut self, part: u32, bytes: u64, at: Position) {
        let group = self.groups.of_part[part as usize] as usize;
        let held = self.held[group].saturating_add(bytes);
        self.held[group] = held;
        if held > self.most[group].bytes {
            self.most[group] = Highest { bytes: held, at };
        }
    }

    fn subtract(&mut self, part: u32, bytes: u64) {
        let group = self.groups.of_part[part as usize] as usize;
        self.held[group] = self.held[group].saturating_sub(bytes);
    }
}

/// The highest of all groups, for each of several groupings. `part_of` is the part of every allocation.
pub(super) fn highest<const N: usize>(replay: &Replay, part_of: &[u32], groups: [&Groups; N]) -> [Vec<Highest>; N] {
    const NONE: u32 = u32::MAX;
    let mut counters = groups.map(Counters::new);
    let is_held = |allocation: &Allocation| allocation.freed > allocation.born;
    // The allocations that each position frees, as lists.
    let mut first = vec![NONE; replay.dump.count() + 1];
    let mut next = vec![NONE; replay.allocations.len()];
    for ((index, allocation), &part) in (0_u32..).zip(&replay.allocations).zip(part_of) {
        if !is_held(allocation) {
            continue;
        }
        if let Some(head) = first.get_mut(allocation.freed.count()) {
            next[index as usize] = std::mem::replace(head, index);
        }
        if allocation.born == Position::START {
            counters.iter_mut().for_each(|counters| counters.add(part, allocation.bytes, Position::START));
        }
    }
    // They stand in the order of their events.
    let is_begun = |(allocation, _): &(&Allocation, &u32)| allocation.born > Position::START && is_held(allocation);
    let mut begun = replay.allocations.iter().zip(part_of).filter(is_begun).peekable();
    for (position, &head) in first.iter().enumerate() {
        let mut freed = head;
        while let Some(allocation) = replay.allocations.get(freed as usize) {
            let part = part_of[freed as usize];
            counters.iter_mut().for_each(|counters| counters.subtract(part, allocation.bytes));
            freed = next[freed as usize];
        }
        while let Some((allocation, &part)) = begun.next_if(|(allocation, _)| allocation.born.count() <= position) {
            counters.iter_mut().for_each(|counters| counters.add(part, allocation.bytes, allocation.born));
        }
    }
    counters.map(|counters| counters.most)
}
