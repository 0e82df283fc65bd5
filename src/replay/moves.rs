//! From allocations to the trace: the class of each, and the move of every event.

use foldhash::{HashMap, HashMapExt};

use super::lifetimes::{Lifetimes, NONE};
use super::maybe_pending::MaybePending;
use super::sizes::Sizes;
use super::{Allocation, Position};
use crate::snapshot::{Action, Event, Snapshot};
use crate::trace::{Block, Class, ClassTags, Move, Origin, Start, Trace};

/// Gives allocations tags that their events do not state: modules, purposes and shapes, the annotation around them, or
/// their pool.
pub trait Namer {
    /// Adds to the tags of an allocation. `event` made it, where that is recorded.
    fn add_to(&self, tags: &mut ClassTags, allocation: &Allocation, event: Option<&Event>, snapshot: &Snapshot);
}

/// The trace while it is made.
pub(super) struct Tracer<'r> {
    pub(super) snapshot: &'r Snapshot,
    pub(super) events: &'r [Event],
    pub(super) lifetimes: &'r Lifetimes,
    pub(super) sizes: &'r Sizes,
    pub(super) pending: &'r MaybePending,
    pub(super) names: Option<&'r dyn Namer>,
}

/// A trace, and the number that it gives the block of every allocation.
pub(super) struct Traced {
    pub(super) trace: Trace,
    pub(super) numbers: Vec<u32>,
}

/// The class of every allocation, by its index.
struct Classes {
    known: HashMap<Class, u32>,
    /// The latest class of each stack: nearly always that of its next allocation.
    latest: Vec<u32>,
    all: Vec<Class>,
    of_allocation: Vec<u32>,
}

impl Classes {
    fn number(&mut self, class: Class) -> u32 {
        let Origin::Stack(stack) = class.origin else {
            return self.look_up(class);
        };
        let latest = self.latest[stack.index()];
        if self.all.get(latest as usize) == Some(&class) {
            return latest;
        }
        let number = self.look_up(class);
        self.latest[stack.index()] = number;
        number
    }

    fn look_up(&mut self, class: Class) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let number = *self.known.entry(class).or_insert(next);
        if number == next {
            self.all.push(class);
        }
        number
    }
}

/// The moves that occur.
struct Moves {
    /// The symbols of the moves of a class: its allocation, the request of a free, its free, and that of a block whose
    /// free was pending. Nearly all moves are among them.
    of_class: Vec<[u32; 4]>,
    /// Those of all others.
    others: HashMap<Move, u32>,
    all: Vec<Move>,
}

/// A move that has not occurred.
const UNSEEN: u32 = u32::MAX;

impl Moves {
    fn new(classes: usize) -> Self {
        Self { of_class: vec![[UNSEEN; 4]; classes], others: HashMap::new(), all: Vec::new() }
    }

    fn symbol(&mut self, one: Move) -> u32 {
        let known = match one {
            Move::Alloc(class) => &mut self.of_class[class as usize][0],
            Move::Request(class) => &mut self.of_class[class as usize][1],
            Move::Free(Block { class, pending }) => &mut self.of_class[class as usize][2 + usize::from(pending)],
            Move::Nothing | Move::Replace(..) | Move::Reserve(_) | Move::Release(_) => {
                self.others.entry(one).or_insert(UNSEEN)
            }
        };
        if *known == UNSEEN {
            *known = u32::try_from(self.all.len()).unwrap_or(UNSEEN);
            self.all.push(one);
        }
        *known
    }
}

impl Tracer<'_> {
    /// The trace up to the last event, and from there to the final state. `symbols` are [`Lifetimes::of_event`], whose memory
    /// the symbols of the moves take.
    pub(super) fn trace(&self, mut symbols: Vec<u32>, dump: Position) -> Traced {
        let Classes { all: classes, of_allocation, .. } = self.classes(dump);
        let mut numbers = vec![0; of_allocation.len()];
        let start = self.number_older(&of_allocation, classes.len(), &mut numbers);
        let older = start.iter().map(|start| start.allocated + start.pending).sum();
        let mut recorder = Recorder {
            allocations: &self.lifetimes.allocations,
            of_allocation,
            numbers,
            next: older,
            moves: Moves::new(classes.len()),
            ended: Vec::new(),
        };
        let mut replaced = self.lifetimes.replaced.iter().peekable();
        for (i, (event, symbol)) in self.events.iter().zip(&mut symbols).enumerate() {
            let now = Position::after(i);
            let index = *symbol;
            let one = if index == NONE {
                segment_move(event)
            } else if self.lifetimes.allocations[index as usize].born == now {
                let gone = replaced.next_if(|&&gone| self.lifetimes.allocations[gone as usize].completed == now);
                recorder.begin(index, gone.copied())
            } else {
                recorder.end(index, now)
            };
            *symbol = recorder.moves.symbol(one);
        }
        let implied = self.imply(&mut recorder, dump);
        let Recorder { moves, ended, numbers, .. } = recorder;
        let reserved = self.sizes.reserved;
        Traced { trace: Trace { classes, moves: moves.all, symbols, implied, start, reserved, ended }, numbers }
    }

    /// The moves from the last event to the final state.
    fn imply(&self, recorder: &mut Recorder<'_>, dump: Position) -> Vec<u32> {
        let mut implied = Vec::new();
        for &index in &self.lifetimes.ended_at_dump {
            let one = recorder.end(index, dump);
            implied.push(recorder.moves.symbol(one));
        }
        for (index, allocation) in (0..).zip(&self.lifetimes.allocations) {
            if allocation.born == dump {
                let one = recorder.begin(index, None);
                implied.push(recorder.moves.symbol(one));
            }
        }
        implied
    }

    fn classes(&self, dump: Position) -> Classes {
        let allocations = &self.lifetimes.allocations;
        let of_allocation = Vec::with_capacity(allocations.len());
        let latest = vec![u32::MAX; self.snapshot.tables.stack_count()];
        let mut classes = Classes { known: HashMap::new(), latest, all: Vec::new(), of_allocation };
        for (index, allocation) in (0_u32..).zip(allocations) {
            let class = self.class(index, allocation, dump);
            let number = classes.number(class);
            classes.of_allocation.push(number);
        }
        classes
    }

    fn class(&self, index: u32, allocation: &Allocation, dump: Position) -> Class {
        let is_recorded = allocation.born != Position::START && allocation.born != dump;
        let event = allocation.born.event().filter(|_| is_recorded);
        let event = event.and_then(|event| self.events.get(event as usize));
        let stated = event.map(|event| *self.snapshot.tables.tags(event.tags)).unwrap_or_default();
        let mut tags = ClassTags {
            metadata: stated.user_metadata,
            compile_context: stated.compile_context,
            ..ClassTags::default()
        };
        if let Some(names) = self.names {
            names.add_to(&mut tags, allocation, event, self.snapshot);
        }
        Class {
            origin: allocation.origin(self.snapshot),
            bytes: allocation.bytes,
            requested: allocation.requested,
            spread: self.sizes.spreads.get(index).unwrap_or_default(),
            maybe_pending: self.pending.contains(index),
            tags,
            cpp: None,
        }
    }

    /// Gives the blocks that are there at the start their numbers: by class, pending ones first.
    fn number_older(&self, of_allocation: &[u32], classes: usize, numbers: &mut [u32]) -> Vec<Start> {
        let mut start = vec![Start::default(); classes];
        let mut older: Vec<(u32, bool, u32)> = Vec::with_capacity(self.lifetimes.older.len());
        for &index in &self.lifetimes.older {
            let is_allocated = self.lifetimes.allocations[index as usize].allocated_at(Position::START);
            let class = of_allocation[index as usize];
            older.push((class, is_allocated, index));
            let of_class = &mut start[class as usize];
            *(if is_allocated { &mut of_class.allocated } else { &mut of_class.pending }) += 1;
        }
        older.sort_unstable();
        for (number, (.., index)) in (0..).zip(older) {
            numbers[index as usize] = number;
        }
        start
    }
}

/// Turns allocations into moves, and numbers the blocks.
struct Recorder<'r> {
    allocations: &'r [Allocation],
    of_allocation: Vec<u32>,
    /// The numbers of the blocks, by allocation.
    numbers: Vec<u32>,
    next: u32,
    moves: Moves,
    ended: Vec<u32>,
}

impl Recorder<'_> {
    /// An allocation begins, perhaps where another one ends.
    fn begin(&mut self, index: u32, gone: Option<u32>) -> Move {
        let class = self.of_allocation[index as usize];
        let one = match gone {
            None => Move::Alloc(class),
            Some(gone) => {
                let ended = &self.allocations[gone as usize];
                self.ended.push(self.numbers[gone as usize]);
                let pending = ended.freed < ended.completed;
                Move::Replace(Block { class: self.of_allocation[gone as usize], pending }, class)
            }
        };
        self.numbers[index as usize] = self.next;
        self.next += 1;
        one
    }

    /// An allocation ends, or its free is requested.
    fn end(&mut self, index: u32, now: Position) -> Move {
        let allocation = &self.allocations[index as usize];
        let class = self.of_allocation[index as usize];
        let one = match (allocation.freed == now, allocation.completed == now) {
            (is_freed, true) => Move::Free(Block { class, pending: !is_freed }),
            (true, false) => Move::Request(class),
            (false, false) => return Move::Nothing,
        };
        self.ended.push(self.numbers[index as usize]);
        one
    }
}

/// The move of an event that is about no block.
fn segment_move(event: &Event) -> Move {
    match event.action {
        Action::SegmentAlloc | Action::SegmentMap => Move::Reserve(event.size),
        Action::SegmentFree | Action::SegmentUnmap => Move::Release(event.size),
        Action::Alloc
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::Snapshot
        | Action::Oom
        | Action::Other(_) => Move::Nothing,
    }
}
