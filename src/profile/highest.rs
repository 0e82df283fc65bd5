//! The most that each stack held at any moment, wherever the peak of the device lies.

use crate::replay::{Allocation, Position};

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

impl Groups {
    /// Groups of these groups: `of_group` is the new group of every old one.
    pub(super) fn merged(&self, of_group: &[u32], count: usize) -> Self {
        Self { of_part: self.of_part.iter().map(|&group| of_group[group as usize]).collect(), count }
    }
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

    fn add(&mut self, holding: &Holding) {
        let group = self.groups.of_part[holding.part as usize] as usize;
        let held = self.held[group].saturating_add(holding.bytes);
        self.held[group] = held;
        if held > self.most[group].bytes {
            self.most[group] = Highest { bytes: held, at: holding.born };
        }
    }

    fn subtract(&mut self, holding: &Holding) {
        let group = self.groups.of_part[holding.part as usize] as usize;
        self.held[group] = self.held[group].saturating_sub(holding.bytes);
    }
}

/// The part of an allocation that says when its group held how much. (Half the size of an allocation, so that a list of
/// these fits in the place of a list of those.)
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    bytes: u64,
    part: u32,
    born: Position,
    freed: Position,
}

impl Holding {
    /// `None` for an allocation that is freed before it begins.
    pub(super) fn new(allocation: &Allocation, part: u32) -> Option<Self> {
        let Allocation { bytes, born, freed, .. } = *allocation;
        (freed > born).then_some(Self { bytes, part, born, freed })
    }
}

/// The allocations of a device, those of the history in the order of their events. They are kept until the stacks of
/// all devices are in groups.
#[derive(Debug)]
pub(super) struct Holdings {
    all: Vec<Holding>,
    /// Number of events.
    events: usize,
}

impl Holdings {
    pub(super) fn new(all: Vec<Holding>, dump: Position) -> Self {
        Self { all, events: dump.count() }
    }

    /// The highest of all groups, for each of several groupings.
    pub(super) fn highest<const N: usize>(&self, groups: [&Groups; N]) -> [Vec<Highest>; N] {
        let mut counters = groups.map(Counters::new);
        let from_start = self.all.iter().filter(|holding| holding.born == Position::START);
        for holding in from_start {
            counters.iter_mut().for_each(|counters| counters.add(holding));
        }
        let freed = Freed::new(&self.all, self.events);
        // A position frees before it begins anything; frees after the last beginning make nothing higher.
        let mut next = 0;
        for holding in self.all.iter().filter(|holding| holding.born > Position::START) {
            while next <= holding.born.count() {
                for holding in freed.at(&self.all, next) {
                    counters.iter_mut().for_each(|counters| counters.subtract(holding));
                }
                next += 1;
            }
            counters.iter_mut().for_each(|counters| counters.add(holding));
        }
        counters.map(|counters| counters.most)
    }
}

/// The allocations that each position frees, as lists.
struct Freed {
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Freed {
    /// The end of a list.
    const NONE: u32 = u32::MAX;

    fn new(holdings: &[Holding], events: usize) -> Self {
        let mut freed = Self { first: vec![Self::NONE; events + 1], next: vec![Self::NONE; holdings.len()] };
        for (index, holding) in (0_u32..).zip(holdings) {
            if let Some(head) = freed.first.get_mut(holding.freed.count()) {
                freed.next[index as usize] = std::mem::replace(head, index);
            }
        }
        freed
    }

    fn at<'h>(&'h self, holdings: &'h [Holding], position: usize) -> impl Iterator<Item = &'h Holding> {
        let indices =
            std::iter::successors(self.first.get(position).copied(), |&index| self.next.get(index as usize).copied());
        indices.map_while(|index| holdings.get(index as usize))
    }
}
