//! From allocations to the trace: the class of each, and the move of every event.

use foldhash::{HashMap, HashMapExt};
use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{Action, Event, Snapshot};

use super::left_out::LeftOutAllocations;
use super::lifetimes::{Lifetimes, NONE};
use super::sizes::BlockSizes;
use super::{Allocation, Position};
use crate::tags::DeviceTags;
use crate::trace::{Class, ClassTags, Move, MovedBlock, Origin, StartBlocks, Trace};

/// The trace while it is made.
pub(super) struct MoveTracer<'r> {
    pub(super) snapshot: &'r Snapshot,
    pub(super) events: &'r [Event],
    pub(super) lifetimes: &'r mut Lifetimes,
    pub(super) sizes: &'r BlockSizes,
    pub(super) tags: Option<&'r DeviceTags>,
    pub(super) left_out: &'r LeftOutAllocations<'r>,
}

/// The numbers of blocks by the indices of their allocations. Those that are older than the history have the first ones;
/// the others follow in the order of their allocations, without those that are left out.
pub(super) struct BlockNumbers<'r> {
    /// The indices of the older ones, in order, and their numbers.
    older: Vec<(u32, u32)>,
    left_out: &'r LeftOutAllocations<'r>,
}

impl BlockNumbers<'_> {
    pub(super) fn of(&self, index: u32) -> u32 {
        match self.older.binary_search_by_key(&index, |&(older, _)| older) {
            Ok(place) => self.older[place].1,
            Err(before) => {
                index - self.left_out.before(index) + u32::try_from(self.older.len() - before).unwrap_or(u32::MAX)
            }
        }
    }
}

/// The classes of all allocations.
struct Classes {
    all: Interner<Class>,
    /// The latest class of each stack: nearly always that of its next allocation.
    latest: Vec<u32>,
}

impl Classes {
    fn number(&mut self, class: Class) -> u32 {
        let Origin::Stack(stack) = class.origin else {
            return self.all.insert(class);
        };
        let latest = &mut self.latest[stack.index()];
        if self.all.items().get_index(*latest as usize) != Some(&class) {
            *latest = self.all.insert(class);
        }
        *latest
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
            Move::Free(MovedBlock { class, pending }) => &mut self.of_class[class as usize][2 + usize::from(pending)],
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

impl<'r> MoveTracer<'r> {
    /// The trace up to the last event, and from there to the final state, and the numbers that it gives blocks. `symbols` are
    /// [`Lifetimes::of_event`], whose memory the symbols of the moves take.
    pub(super) fn trace(mut self, mut symbols: Vec<u32>, dump: Position) -> (Trace, BlockNumbers<'r>) {
        let classes = self.classify(dump);
        let mut start = vec![StartBlocks::default(); classes.len()];
        let numbers = self.number_older(&mut start);
        let allocations = &self.lifetimes.allocations;
        let moves = Moves::new(classes.len());
        let mut recorder = MoveRecorder { allocations, numbers, moves, ended: Vec::new() };
        let mut replaced = self.lifetimes.replaced.iter().peekable();
        for (i, (event, symbol)) in self.events.iter().zip(&mut symbols).enumerate() {
            let now = Position::after(i);
            let index = *symbol;
            let one = if index == NONE {
                segment_move(event)
            } else if allocations[index as usize].born == now {
                let gone = replaced.next_if(|&&gone| allocations[gone as usize].completed == now);
                recorder.begin(index, gone.copied())
            } else {
                recorder.end(index, now)
            };
            *symbol = recorder.moves.symbol(one);
        }
        let implied = recorder.imply(&self.lifetimes.ended_at_dump, dump);
        let MoveRecorder { moves, ended, numbers, .. } = recorder;
        let reserved = self.sizes.reserved;
        (Trace { classes, moves: moves.all, symbols, implied, start, reserved, ended }, numbers)
    }

    /// The classes of the allocations, which take the places of their addresses.
    fn classify(&mut self, dump: Position) -> Vec<Class> {
        let latest = vec![u32::MAX; self.snapshot.tables.stacks().len()];
        let mut classes = Classes { all: Interner::default(), latest };
        let all = 0..u32::try_from(self.lifetimes.allocations.len()).unwrap_or(u32::MAX);
        for index in all.filter(|&index| !self.left_out.has(index)) {
            let class = self.class(index, dump);
            self.lifetimes.allocations[index as usize].place = classes.number(class);
        }
        classes.all.into_items()
    }

    fn class(&self, index: u32, dump: Position) -> Class {
        let Lifetimes { allocations, addresses, .. } = &*self.lifetimes;
        let allocation = &allocations[index as usize];
        let is_recorded = allocation.born != Position::START && allocation.born != dump;
        let event = allocation.born.event().filter(|_| is_recorded);
        let made = event.and_then(|event| Some((event, self.events.get(event as usize)?)));
        let stated = made.map(|(_, event)| *self.snapshot.tables.tags(event.tags)).unwrap_or_default();
        let mut tags = ClassTags {
            metadata: stated.user_metadata,
            compile_context: stated.compile_context,
            ..ClassTags::default()
        };
        if let Some(unstated) = self.tags {
            unstated.add_to(&mut tags, addresses[allocation.place as usize], made);
        }
        Class {
            origin: allocation.origin(self.snapshot),
            bytes: allocation.bytes,
            requested: allocation.requested,
            spread: self.sizes.spreads.get(&index).copied().unwrap_or_default(),
            maybe_pending: self.lifetimes.may_be_pending(allocation),
            tags,
            cpp: None,
        }
    }

    /// Gives the blocks that are there at the start their numbers: by class, pending ones first.
    fn number_older(&self, start: &mut [StartBlocks]) -> BlockNumbers<'r> {
        let mut older: Vec<(u32, bool, u32)> = Vec::with_capacity(self.lifetimes.older.len());
        for &index in &self.lifetimes.older {
            let allocation = &self.lifetimes.allocations[index as usize];
            let is_allocated = allocation.allocated_at(Position::START);
            older.push((allocation.place, is_allocated, index));
            let of_class = &mut start[allocation.place as usize];
            *(if is_allocated { &mut of_class.allocated } else { &mut of_class.pending }) += 1;
        }
        older.sort_unstable();
        let mut numbers: Vec<(u32, u32)> =
            older.into_iter().zip(0..).map(|((.., index), number)| (index, number)).collect();
        numbers.sort_unstable();
        BlockNumbers { older: numbers, left_out: self.left_out }
    }
}

/// Turns allocations, which have their classes for places, into moves.
struct MoveRecorder<'r> {
    allocations: &'r [Allocation],
    numbers: BlockNumbers<'r>,
    moves: Moves,
    ended: Vec<u32>,
}

impl MoveRecorder<'_> {
    /// An allocation begins, perhaps where another one ends.
    fn begin(&mut self, index: u32, gone: Option<u32>) -> Move {
        let class = self.allocations[index as usize].place;
        let Some(gone) = gone else { return Move::Alloc(class) };
        let ended = &self.allocations[gone as usize];
        self.ended.push(self.numbers.of(gone));
        Move::Replace(MovedBlock { class: ended.place, pending: ended.freed < ended.completed }, class)
    }

    /// The moves from the last event to the final state.
    fn imply(&mut self, ended_at_dump: &[u32], dump: Position) -> Vec<u32> {
        let mut implied: Vec<Move> = ended_at_dump.iter().map(|&index| self.end(index, dump)).collect();
        let born = self.allocations.iter().filter(|allocation| allocation.born == dump);
        implied.extend(born.map(|allocation| Move::Alloc(allocation.place)));
        implied.into_iter().map(|one| self.moves.symbol(one)).collect()
    }

    /// An allocation ends, or its free is requested.
    fn end(&mut self, index: u32, now: Position) -> Move {
        let allocation = &self.allocations[index as usize];
        let class = allocation.place;
        let one = match (allocation.freed == now, allocation.completed == now) {
            (is_freed, true) => Move::Free(MovedBlock { class, pending: !is_freed }),
            (true, false) => Move::Request(class),
            (false, false) => return Move::Nothing,
        };
        self.ended.push(self.numbers.of(index));
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
        | Action::Other => Move::Nothing,
    }
}
