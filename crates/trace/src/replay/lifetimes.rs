//! From events to allocations: which event began a block's use and which ended it.

use std::collections::HashSet;

use foldhash::{HashMap, HashMapExt};
use ptmem_snapshot::snapshot::{Action, Block, BlockState, Event};

use super::Position;
use super::allocation::{Allocation, Basis};
use super::census::Census;

/// All uses of blocks that the history or the final state knows of, and what did not fit together.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// Those that begin within the history are in the order of their events.
    pub(super) allocations: Vec<Allocation>,
    /// The allocation that each event begins, or ends a part of; [`NONE`] where there is none.
    pub(super) of_event: Vec<u32>,
    /// Those that are older than the history.
    pub(super) older: Vec<u32>,
    /// Every address at which a block begins, in order; [`Allocation::place`] is one of them.
    pub(super) addresses: Vec<u64>,
    /// Allocations made inside the history and alive at the end, in their order: index, and their block.
    pub(super) survivors: Vec<(u32, Block)>,
    /// Never freed in the history, and not in the final state.
    pub(super) vanished: Vec<u32>,
    /// Ended, or requested to be freed, by nothing but the final state. Known once it is reconciled with that.
    pub(super) ended_at_dump: Vec<u32>,
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
    /// The history has no requests: every block may have been pending before its free was completed.
    lacks_requests: bool,
}

/// In [`Lifetimes::of_event`]: the event is about no block, or frees one that is free.
pub(super) const NONE: u32 = u32::MAX;

/// Why 2^32 is enough: an event takes at least 100 bytes in a file.
pub(super) const MOST_EVENTS: usize = u32::MAX as usize / 2;

/// Follows every block through the history, and matches the rest with the blocks in use at its end.
pub(super) fn trace(events: &[Event], blocks: &[Block], census: &Census) -> Lifetimes {
    let mut tracer = LifetimeTracer::new(events, blocks, census);
    for (i, event) in events.iter().enumerate() {
        match event.action {
            Action::Alloc => tracer.begin(i, event),
            Action::FreeRequested => tracer.request_free(i, event),
            Action::FreeCompleted => tracer.complete_free(i, event),
            Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap => {}
            Action::Snapshot | Action::Oom | Action::Other => {}
        }
    }
    for block in blocks {
        tracer.meet(block);
    }
    let LifetimeTracer { mut found, uses, .. } = tracer;
    found.vanished = uses.values().filter(|used| used.goes_on).map(|used| used.index).collect();
    found.vanished.sort_unstable();
    found.survivors.sort_unstable_by_key(|(index, _)| *index);
    found.sort_addresses(uses);
    found.lacks_requests = census.count(Action::FreeRequested) == 0;
    found
}

/// True if requests of frees end a use for good, because the history has no completions (`skip_actions`), and not
/// because every free is still pending at its end.
fn requests_complete(events: &[Event], blocks: &[Block], census: &Census) -> bool {
    if census.count(Action::FreeRequested) == 0 || census.count(Action::FreeCompleted) > 0 {
        return false;
    }
    let pending = blocks.iter().filter(|block| block.state == BlockState::ActivePendingFree);
    let pending: HashSet<u64> = pending.map(|block| block.address).collect();
    let mut requested = events.iter().filter(|event| event.action == Action::FreeRequested);
    requested.any(|event| !pending.contains(&event.addr))
}

/// The state while the events are gone through.
struct LifetimeTracer {
    found: Lifetimes,
    /// Every address seen so far: its latest use, and whether that goes on.
    uses: Uses,
    /// True if the history has requests of frees.
    has_requests: bool,
}

impl LifetimeTracer {
    fn new(events: &[Event], blocks: &[Block], census: &Census) -> Self {
        let begun = usize::try_from(census.count(Action::Alloc)).unwrap_or(0);
        let found = Lifetimes {
            allocations: Vec::with_capacity(begun + blocks.len()),
            of_event: vec![NONE; events.len()],
            requests_complete: requests_complete(events, blocks, census),
            ..Lifetimes::default()
        };
        Self { found, uses: HashMap::new(), has_requests: census.count(Action::FreeRequested) > 0 }
    }

    fn begin(&mut self, i: usize, event: &Event) {
        let Self { found, uses, .. } = self;
        let now = Position::after(i);
        let number = number(uses.len());
        let index = found.next_index();
        let used = uses.entry(event.addr).or_insert(Use { index, number, goes_on: false });
        if used.goes_on {
            // It was freed before, and the history does not say when.
            found.replaced.push(used.index);
            found.allocations[used.index as usize].end(now);
        }
        used.index = index;
        used.goes_on = true;
        let begun = Allocation::new(used.number, event.size);
        found.allocations.push(Allocation { born: now, stack: event.stack, basis: Basis::Rule, ..begun });
        found.of_event[i] = index;
    }

    fn request_free(&mut self, i: usize, event: &Event) {
        let now = Position::after(i);
        let Some(used) = self.found.freed_use(&mut self.uses, event) else { return };
        self.found.of_event[i] = used.index;
        let allocation = &mut self.found.allocations[used.index as usize];
        if allocation.freed == Position::NEVER {
            allocation.freed = now;
        } else {
            self.found.double_frees += 1;
        }
        if self.found.requests_complete {
            allocation.completed = now;
            used.goes_on = false;
        }
    }

    fn complete_free(&mut self, i: usize, event: &Event) {
        let before = self.found.allocations.len();
        let Some(used) = self.found.freed_use(&mut self.uses, event) else { return };
        used.goes_on = false;
        self.found.of_event[i] = used.index;
        let allocation = &mut self.found.allocations[used.index as usize];
        allocation.end(Position::after(i));
        // A completion follows its request. Where the history has requests but not this one, it
        // came before the history, and the block was pending at its start. The very first
        // event is the exception: its request is nearly always the event just before, and the
        // history is taken to begin with the whole free.
        if used.index as usize == before && self.has_requests && i > 0 {
            allocation.freed = Position::START;
        }
    }

    /// Matches a block in use at the end with its allocation.
    fn meet(&mut self, block: &Block) {
        let Self { found, uses, .. } = self;
        let requested = block.requested_size.unwrap_or(block.size);
        let is_pending = block.state == BlockState::ActivePendingFree;
        match uses.get_mut(&block.address) {
            Some(used) if used.goes_on && found.allocations[used.index as usize].born != Position::START => {
                used.goes_on = false;
                found.survivors.push((used.index, *block));
            }
            // Requested inside the history, still pending at its end.
            Some(used) if used.goes_on && is_pending => {
                used.goes_on = false;
                let allocation = &mut found.allocations[used.index as usize];
                allocation.bytes = block.size;
                allocation.requested = requested;
                allocation.stack = block.stack;
                allocation.basis = Basis::FinalState;
                found.unmatched_frees -= 1;
            }
            // The history says that it was freed. The end of the replay will not match.
            Some(_) => found.unexplained.push(*block),
            None => {
                let number = number(uses.len());
                let index = found.push_older(Allocation {
                    bytes: block.size,
                    stack: block.stack,
                    basis: Basis::FinalState,
                    freed: if is_pending { Position::START } else { Position::NEVER },
                    ..Allocation::new(number, requested)
                });
                uses.insert(block.address, Use { index, number, goes_on: false });
            }
        }
    }
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
    /// Reconciles the allocations with the final state at the dump, so that they add up to that state even if the
    /// history does not lead to it.
    pub(super) fn reconcile(&mut self, dump: Position) {
        let mut ended = self.vanished.clone();
        for &index in &ended {
            self.allocations[index as usize].end(dump);
        }
        let mut late = self.unexplained.clone();
        for (index, block) in &self.survivors {
            let allocation = &mut self.allocations[*index as usize];
            if block.state == BlockState::ActivePendingFree {
                if allocation.freed > dump {
                    allocation.freed = dump;
                    ended.push(*index);
                }
            } else if !allocation.allocated_at(dump) || allocation.bytes != block.size {
                allocation.end(dump);
                ended.push(*index);
                late.push(Block { stack: allocation.stack, ..*block });
            }
        }
        self.ended_at_dump = ended;
        for block in late.iter().filter(|block| block.state == BlockState::ActiveAllocated) {
            let requested = block.requested_size.unwrap_or(block.size);
            let place = self.addresses.partition_point(|&address| address < block.address);
            let allocation = Allocation::new(number(place), requested);
            self.allocations.push(Allocation {
                bytes: block.size,
                stack: block.stack,
                born: dump,
                basis: Basis::FinalState,
                ..allocation
            });
        }
    }

    /// The use that a free ends. The first that is heard of an address began before the history; a free of
    /// something already free is counted and has no use.
    fn freed_use<'u>(&mut self, uses: &'u mut Uses, event: &Event) -> Option<&'u mut Use> {
        let number = number(uses.len());
        let used = uses.entry(event.addr).or_insert_with(|| {
            self.unmatched_frees += 1;
            let index = self.push_older(Allocation::new(number, event.size));
            Use { index, number, goes_on: true }
        });
        if !used.goes_on {
            self.double_frees += 1;
            return None;
        }
        self.size_mismatches += u64::from(self.allocations[used.index as usize].requested != event.size);
        Some(used)
    }

    /// Puts the addresses in order. Until then, allocations have the number of theirs for its place.
    fn sort_addresses(&mut self, uses: Uses) {
        let mut addresses: Vec<(u64, u32)> = uses.into_iter().map(|(address, used)| (address, used.number)).collect();
        addresses.sort_unstable();
        let mut indices = vec![0; addresses.len()];
        for (place, (_, number)) in (0..).zip(&addresses) {
            indices[*number as usize] = place;
        }
        for allocation in &mut self.allocations {
            allocation.place = indices[allocation.place as usize];
        }
        self.addresses = addresses.into_iter().map(|(address, _)| address).collect();
    }

    /// True for a block that counts as allocated until the completion of its free although the request may have come before
    /// that, unrecorded. Where the history has requests, this concerns its first event alone, whose request is nearly always the
    /// event just before.
    pub(super) fn may_be_pending(&self, allocation: &Allocation) -> bool {
        let is_first = allocation.born == Position::START && allocation.completed == Position::after(0);
        (self.lacks_requests || is_first)
            && allocation.basis != Basis::FinalState
            && allocation.is_freed_by_completion()
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
