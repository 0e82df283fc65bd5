//! From events to allocations: which event began a block's use and which ended it.

use std::collections::HashSet;

use foldhash::{HashMap, HashMapExt};

use super::census::Census;
use super::{Allocation, Basis, Position};
use crate::snapshot::{Action, Block, BlockState, Event};

/// All uses of blocks that the history or the final state knows of, and what did not fit together.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// Those that begin inside the history stand in the order of their events.
    pub(super) allocations: Vec<Allocation>,
    /// The allocation that each event begins, or ends a part of; [`NONE`] where there is none.
    pub(super) of_event: Vec<u32>,
    /// Those that are older than the history.
    pub(super) older: Vec<u32>,
    /// Every address at which a block begins, in order; [`Allocation::rank`] is a place in here.
    pub(super) addresses: Vec<u64>,
    /// Allocations made inside the history and alive at the end: index, and their block.
    pub(super) survivors: Vec<(u32, Block)>,
    /// Never freed in the history, and not in the final state.
    pub(super) vanished: Vec<u32>,
    /// In the final state, and freed in the history.
    pub(super) unexplained: Vec<Block>,
    /// Freed by nothing but that their address was handed out again, in order.
    pub(super) replaced: Vec<u32>,
    /// Freed twice.
    pub(super) double_frees: u64,
    /// Freed inside the history, allocated before it.
    pub(super) unmatched_frees: u64,
    /// The free gives another size than the allocation.
    pub(super) size_mismatches: u64,
    /// The history has requests but no completions (`skip_actions`), so a request ends a use for good.
    pub(super) requests_complete: bool,
}

/// In [`Lifetimes::of_event`]: the event is about no block, or frees one that is free.
pub(super) const NONE: u32 = u32::MAX;

/// Why 2^32 is enough: an event takes at least 100 bytes in a file.
pub(super) const MOST_EVENTS: usize = u32::MAX as usize / 2;

pub(super) fn trace(events: &[Event], blocks: &[Block], census: &Census) -> Lifetimes {
    let requests = census.count(Action::FreeRequested);
    let begun = usize::try_from(census.count(Action::Alloc)).unwrap_or(0);
    let mut found = Lifetimes {
        allocations: Vec::with_capacity(begun + blocks.len()),
        of_event: vec![NONE; events.len()],
        ..Lifetimes::default()
    };
    if requests > 0 && census.count(Action::FreeCompleted) == 0 {
        // Either completions were not recorded, or every free is still pending at the end.
        let pending = |block: &&Block| block.state == BlockState::ActivePendingFree;
        let pending: HashSet<u64> = blocks.iter().filter(pending).map(|block| block.address).collect();
        let requested = |event: &&Event| event.action == Action::FreeRequested;
        found.requests_complete = events.iter().filter(requested).any(|event| !pending.contains(&event.addr));
    }
    // Every address seen so far: its latest use, and whether that goes on.
    let mut uses: Uses = HashMap::new();
    for (i, event) in events.iter().enumerate() {
        let now = Position::after(i);
        match event.action {
            Action::Alloc => {
                let number = number(uses.len());
                let index = found.next_index();
                let used = uses.entry(event.addr).or_insert(Use { index, number, goes_on: false });
                if used.goes_on {
                    // It was freed before, and the history does not say when.
                    found.replaced.push(used.index);
                    found.allocations[used.index as usize].end(now);
                }
                (used.index, used.goes_on) = (index, true);
                let (stack, rank) = (event.stack, used.number);
                let begun = Allocation::new(event.addr, event.size);
                found.allocations.push(Allocation { born: now, stack, rank, basis: Basis::Rule, ..begun });
                found.of_event[i] = index;
            }
            Action::FreeRequested => {
                let Some(used) = found.freed_use(&mut uses, event) else {
                    continue;
                };
                found.of_event[i] = used.index;
                let allocation = &mut found.allocations[used.index as usize];
                if allocation.freed == Position::NEVER {
                    allocation.freed = now;
                } else {
                    found.double_frees += 1;
                }
                if found.requests_complete {
                    allocation.completed = now;
                    used.goes_on = false;
                }
            }
            Action::FreeCompleted => {
                let before = found.allocations.len();
                let Some(used) = found.freed_use(&mut uses, event) else {
                    continue;
                };
                used.goes_on = false;
                found.of_event[i] = used.index;
                let allocation = &mut found.allocations[used.index as usize];
                allocation.end(now);
                // A completion follows its request. Where the history has requests but not this one, it
                // came before the history, and the block was pending at its start. The very first
                // event is the exception: its request is nearly always the event just before, and the
                // history is taken to begin with the whole free.
                if used.index as usize == before && requests > 0 && i > 0 {
                    allocation.freed = Position::START;
                }
            }
            _ => {}
        }
    }
    for block in blocks {
        let requested = block.requested_size.unwrap_or(block.size);
        match uses.get_mut(&block.address) {
            Some(used) if used.goes_on && found.allocations[used.index as usize].born != Position::START => {
                used.goes_on = false;
                found.survivors.push((used.index, *block));
            }
            // Requested inside the history, still pending at its end.
            Some(used) if used.goes_on && block.state == BlockState::ActivePendingFree => {
                used.goes_on = false;
                let allocation = &mut found.allocations[used.index as usize];
                let (bytes, stack) = (block.size, block.stack);
                *allocation = Allocation { bytes, requested, stack, basis: Basis::FinalState, ..*allocation };
                found.unmatched_frees -= 1;
            }
            // The history says that it was freed. The end of the replay will not match.
            Some(_) => found.unexplained.push(*block),
            None => {
                let pending = block.state == BlockState::ActivePendingFree;
                let rank = number(uses.len());
                let index = found.push_older(Allocation {
                    rank,
                    bytes: block.size,
                    stack: block.stack,
                    basis: Basis::FinalState,
                    freed: if pending { Position::START } else { Position::NEVER },
                    ..Allocation::new(block.address, requested)
                });
                uses.insert(block.address, Use { index, number: rank, goes_on: false });
            }
        }
    }
    found.vanished = uses.values().filter(|used| used.goes_on).map(|used| used.index).collect();
    found.vanished.sort_unstable();
    found.sort_addresses(uses);
    found
}

/// By address. Addresses come from the input, so the hashes are seeded.
type Uses = HashMap<u64, Use>;

/// The latest use of an address.
struct Use {
    index: u32,
    /// How many other addresses were seen before this one.
    number: u32,
    goes_on: bool,
}

/// An index or a count that fits: the number of events and of blocks is checked before.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Lifetimes {
    /// Makes the allocations agree with the final state from the dump on, so that what they add up to there is
    /// that state also where the history does not lead to it.
    pub(super) fn reconcile(&mut self, dump: Position) {
        for &index in &self.vanished {
            self.allocations[index as usize].end(dump);
        }
        let mut late = std::mem::take(&mut self.unexplained);
        for (index, block) in &self.survivors {
            let allocation = &mut self.allocations[*index as usize];
            if block.state == BlockState::ActivePendingFree {
                allocation.freed = allocation.freed.min(dump);
            } else if !allocation.allocated_at(dump) || allocation.bytes != block.size {
                allocation.freed = allocation.freed.min(dump);
                late.push(Block { stack: allocation.stack, ..*block });
            }
        }
        for block in late.iter().filter(|block| block.state == BlockState::ActiveAllocated) {
            let requested = block.requested_size.unwrap_or(block.size);
            let allocation = Allocation::new(block.address, requested);
            let (bytes, stack, basis) = (block.size, block.stack, Basis::FinalState);
            self.allocations.push(Allocation { bytes, stack, born: dump, basis, ..allocation });
        }
    }

    /// The use that a free ends. The first that is heard of an address began before the history; a free of
    /// something already free is counted and has no use.
    fn freed_use<'u>(&mut self, uses: &'u mut Uses, event: &Event) -> Option<&'u mut Use> {
        let rank = number(uses.len());
        let used = uses.entry(event.addr).or_insert_with(|| {
            self.unmatched_frees += 1;
            let index = self.push_older(Allocation { rank, ..Allocation::new(event.addr, event.size) });
            Use { index, number: rank, goes_on: true }
        });
        if !used.goes_on {
            self.double_frees += 1;
            return None;
        }
        self.size_mismatches += u64::from(self.allocations[used.index as usize].requested != event.size);
        Some(used)
    }

    /// Puts the addresses in order. Until then, allocations have the number of theirs for its rank.
    fn sort_addresses(&mut self, uses: Uses) {
        let mut addresses: Vec<(u64, u32)> = uses.into_iter().map(|(address, used)| (address, used.number)).collect();
        addresses.sort_unstable();
        let mut ranks = vec![0; addresses.len()];
        for (rank, (_, number)) in (0..).zip(&addresses) {
            ranks[*number as usize] = rank;
        }
        for allocation in &mut self.allocations {
            allocation.rank = ranks[allocation.rank as usize];
        }
        self.addresses = addresses.into_iter().map(|(address, _)| address).collect();
    }

    fn next_index(&self) -> u32 {
        number(self.allocations.len())
    }

    fn push_older(&mut self, allocation: Allocation) -> u32 {
        let index = self.next_index();
        self.allocations.push(allocation);
        self.older.push(index);
        index
    }
}
