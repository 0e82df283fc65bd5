//! From events to allocations: which event began a block's use and which ended it.

use std::collections::{HashMap, HashSet};

use super::{Allocation, Position};
use crate::snapshot::{Action, Block, BlockState, Event};

/// All uses of blocks that the history or the final state knows of, and what did not fit together.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// Those that begin inside the history stand in the order of their events.
    pub(super) allocations: Vec<Allocation>,
    /// Allocations made inside the history and alive at the end: index, and their block.
    pub(super) survivors: Vec<(u32, Block)>,
    /// Never freed in the history, and not in the final state.
    pub(super) vanished: Vec<u32>,
    /// In the final state, and freed in the history.
    pub(super) unexplained: Vec<Block>,
    /// Handed out at an address that was in use.
    pub(super) reused: u64,
    /// Freed twice.
    pub(super) double_frees: u64,
    /// Freed inside the history, allocated before it.
    pub(super) unmatched_frees: u64,
    /// The free gives another size than the allocation.
    pub(super) size_mismatches: u64,
    /// The history has requests but no completions (`skip_actions`), so a request ends a use for good.
    pub(super) requests_complete: bool,
}

/// Why 2^32 is enough: an event takes at least 100 bytes in a file.
pub(super) const MOST_EVENTS: usize = u32::MAX as usize / 2;

pub(super) fn trace(events: &[Event], blocks: &[Block]) -> Lifetimes {
    let count = |action| events.iter().filter(|event| event.action == action).count();
    let requests = count(Action::FreeRequested);
    let mut found = Lifetimes::default();
    if requests > 0 && count(Action::FreeCompleted) == 0 {
        // Either completions were not recorded, or every free is still pending at the end.
        let pending = |block: &&Block| block.state == BlockState::ActivePendingFree;
        let pending: HashSet<u64> = blocks.iter().filter(pending).map(|block| block.address).collect();
        let requested = |event: &&Event| event.action == Action::FreeRequested;
        found.requests_complete = events.iter().filter(requested).any(|event| !pending.contains(&event.addr));
    }
    // Every address seen so far: its latest use, and whether that goes on.
    let mut uses: HashMap<u64, Use> = HashMap::new();
    for (i, event) in events.iter().enumerate() {
        let now = Position::after(i);
        match event.action {
            Action::Alloc => {
                let stack = event.stack;
                let index = found.push(Allocation { born: now, stack, ..Allocation::new(event.addr, event.size) });
                if let Some(old) = uses.insert(event.addr, Use { index, goes_on: true })
                    && old.goes_on
                {
                    // It was freed before, and the history does not say when.
                    found.reused += 1;
                    found.allocations[old.index as usize].end(now);
                }
            }
            Action::FreeRequested => {
                let Some(used) = found.freed_use(&mut uses, event) else {
                    continue;
                };
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
                *allocation = Allocation { bytes, requested, stack, size_known: true, ..*allocation };
                found.unmatched_frees -= 1;
            }
            // The history says that it was freed. The end of the replay will not match.
            Some(_) => found.unexplained.push(*block),
            None => {
                let pending = block.state == BlockState::ActivePendingFree;
                let index = found.push(Allocation {
                    bytes: block.size,
                    stack: block.stack,
                    size_known: true,
                    freed: if pending { Position::START } else { Position::NEVER },
                    ..Allocation::new(block.address, requested)
                });
                uses.insert(block.address, Use { index, goes_on: false });
            }
        }
    }
    found.vanished = uses.values().filter(|used| used.goes_on).map(|used| used.index).collect();
    found.vanished.sort_unstable();
    found
}

/// The latest use of an address.
struct Use {
    index: u32,
    goes_on: bool,
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
            self.push(Allocation { bytes: block.size, stack: block.stack, born: dump, size_known: true, ..allocation });
        }
    }

    /// The use that a free ends. The first that is heard of an address began before the history; a free of
    /// something already free is counted and has no use.
    fn freed_use<'u>(&mut self, uses: &'u mut HashMap<u64, Use>, event: &Event) -> Option<&'u mut Use> {
        let used = uses.entry(event.addr).or_insert_with(|| {
            self.unmatched_frees += 1;
            Use { index: self.push(Allocation::new(event.addr, event.size)), goes_on: true }
        });
        if !used.goes_on {
            self.double_frees += 1;
            return None;
        }
        self.size_mismatches += u64::from(self.allocations[used.index as usize].requested != event.size);
        Some(used)
    }

    fn push(&mut self, allocation: Allocation) -> u32 {
        self.allocations.push(allocation);
        // The number of events and of blocks is checked before.
        u32::try_from(self.allocations.len() - 1).unwrap_or(u32::MAX)
    }
}
