//! All that happened on one device, move by move, as the replay understood it. Everything after the replay is a query
//! of it.
//!
//! * A [`Class`] stands for allocations that count as one: same stack, same block, same request, same tags, equally certain.
//! * A [`Move`] is what one event does: a block of a class is handed out, or given back, or a segment comes or goes. Few
//!   moves differ, so each event is a symbol: the index of its move in [`Trace::moves`]. An event without effect is a
//!   move too, so that the place of every event is known.
//! * A [`Position`] is a place: 0 is before the first event, n just after event n - 1. The last one, [`Trace::dump`],
//!   is after the implied moves, which are not recorded as events but needed to reach the final state.
//!
//! # Queries
//!
//! They stream the symbols, with a table of what each move changes ([`Trace::changes`]):
//!
//! * [`Trace::values`]: one of the four counters at every place; [`Trace::value_at`]: at one.
//! * [`Trace::parts`]: the counters at the ends of parts, and the highest within each.
//! * [`Trace::blocks_at`]: the allocated blocks of every class at a place; times [`Class::bytes`], their bytes.
//! * [`Trace::highest`]: the most that each of several groups of classes held; [`Trace::held_at`]: their bytes at
//!   places.
//! * [`Trace::begun`]: when each recorded block came.
//! * [`Trace::lives`]: every block, with the places at which it came and went.
//!
//! To compare two traces, give the classes of both common numbers and take [`Trace::symbols`] apart by
//! [`Move::begins`] and [`Move::ends`].

mod class;
pub mod fold;
mod levels;
mod moves;
mod position;
mod ranks;
mod uncertain;

use serde::{Deserialize, Serialize};

pub use class::{Bucket, Class, ClassTags, Origin};
pub use levels::{CounterLevels, WindowCounters};
pub use moves::{Life, Measure, Move, MovedBlock, Uncertainty};
pub use position::{Position, Window};
pub use uncertain::ErrorBound;
pub(crate) use uncertain::{CountedBlock, CountedBlocks, digest};

/// Blocks of a class that are there before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartBlocks {
    /// Those that are allocated.
    pub allocated: u32,
    /// Those whose free is pending.
    pub pending: u32,
}

impl StartBlocks {
    /// Those that a counter counts.
    pub(crate) fn blocks(self, measure: Measure) -> u32 {
        match measure {
            Measure::Allocated => self.allocated,
            Measure::Active | Measure::Requested => self.allocated + self.pending,
            Measure::Reserved => 0,
        }
    }
}

/// The most bytes that a stack held, and when it held them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highest {
    /// Allocated bytes.
    pub bytes: u64,
    /// The moment.
    pub at: Position,
}

/// What groups of classes hold while moves are gone through.
struct HeldByGroup<'t> {
    held: Vec<u64>,
    moves: &'t [Move],
    /// For each class its group, and the bytes of a block.
    of_class: Vec<(u32, u64)>,
}

impl HeldByGroup<'_> {
    /// Makes a move. Gives the group that it gave bytes to, with what that holds now.
    #[inline]
    fn step(&mut self, symbol: u32) -> Option<(usize, u64)> {
        let one = self.moves[symbol as usize];
        if let Some(class) = one.frees() {
            let (group, bytes) = self.of_class[class as usize];
            self.held[group as usize] = self.held[group as usize].saturating_sub(bytes);
        }
        let (group, bytes) = self.of_class[one.begins()?.class as usize];
        let held = &mut self.held[group as usize];
        *held = held.saturating_add(bytes);
        Some((group as usize, *held))
    }
}

/// The history of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The classes of its allocations, in the order in which they occur.
    pub classes: Vec<Class>,
    /// The moves that occur.
    pub moves: Vec<Move>,
    /// The move of every event, as an index into `moves`.
    pub symbols: Vec<u32>,
    /// Implied moves at the dump: not recorded as events, but needed to reach the final state. Indices into `moves`.
    pub implied: Vec<u32>,
    /// The blocks of every class before the first event.
    pub start: Vec<StartBlocks>,
    /// Bytes of all segments before the first event. Below 0 where the history does not add up.
    pub reserved: i128,
    /// The blocks that moves end, in order: one for each that [`Move::ends`] something. Blocks are numbered from 0: those
    /// that are there at the start, by class and pending ones first, and then those that moves begin.
    pub ended: Vec<u32>,
}

impl Trace {
    /// The place just after the last event.
    pub fn end(&self) -> Position {
        Position::of_count(self.symbols.len())
    }

    /// The place of the dump: after the moves that the final state implies.
    pub fn dump(&self) -> Position {
        Position::after(self.symbols.len())
    }

    /// True if the sizes of some blocks are not certain.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.classes.iter().any(|class| class.error() > 0)
    }

    /// True if a block is allocated in a part of the history.
    pub(crate) fn allocates_within(&self, Window { from, to }: Window) -> bool {
        let events = self.symbols.get(from.count()..to.count()).unwrap_or_default();
        events.iter().any(|&symbol| self.moves[symbol as usize].begins().is_some())
    }

    /// The symbols up to a place.
    fn until(&self, place: Position) -> impl Iterator<Item = u32> {
        let implied = if place >= self.dump() { &self.implied[..] } else { &[] };
        let events = &self.symbols[..place.count().min(self.symbols.len())];
        events.iter().chain(implied).copied()
    }

    /// All symbols, those that the final state implies last, each with the place just after it.
    fn placed(&self) -> impl Iterator<Item = (Position, u32)> {
        let events = self.symbols.iter().enumerate().map(|(event, &symbol)| (Position::after(event), symbol));
        events.chain(self.implied.iter().map(|&symbol| (self.dump(), symbol)))
    }

    /// All moves, those that the final state implies last.
    pub(crate) fn all_moves(&self) -> impl Iterator<Item = Move> {
        self.placed().map(|(_, symbol)| self.moves[symbol as usize])
    }

    /// What each move adds to one of the counters, by symbol.
    pub fn changes(&self, measure: Measure) -> Vec<i128> {
        self.moves.iter().map(|one| one.change(measure, &self.classes)).collect()
    }

    /// How often each move occurs before a place, by symbol.
    pub fn times_before(&self, place: Position) -> Vec<u64> {
        let mut times = vec![0_u64; self.moves.len()];
        self.until(place).for_each(|symbol| times[symbol as usize] += 1);
        times
    }

    /// The class of the block that an event hands out.
    pub fn begun_by(&self, event: u32) -> Option<&Class> {
        let begun = self.moves[*self.symbols.get(event as usize)? as usize].begins()?;
        self.classes.get(begun.class as usize)
    }

    /// One of the counters before the first event.
    pub fn value_at_start(&self, measure: Measure) -> i128 {
        self.start_with(&self.classes, measure)
    }

    /// The same with other sizes of blocks than its own.
    fn start_with(&self, classes: &[Class], measure: Measure) -> i128 {
        if measure == Measure::Reserved {
            return self.reserved;
        }
        let blocks = classes.iter().zip(&self.start);
        blocks.map(|(class, start)| class.size(measure) * i128::from(start.blocks(measure))).sum()
    }

    /// One of the counters at every place up to [`Trace::end`].
    pub fn values(&self, measure: Measure) -> impl Iterator<Item = i128> {
        let changes = self.changes(measure);
        let start = self.value_at_start(measure);
        let later = self.symbols.iter().scan(start, move |now, &symbol| {
            *now += changes[symbol as usize];
            Some(*now)
        });
        std::iter::once(start).chain(later)
    }

    /// For each window the most allocated bytes, and where they are held first.
    pub fn peaks_within(&self, windows: &[Window]) -> Vec<Highest> {
        let mut held: Vec<i128> = self.values(Measure::Allocated).collect();
        held.push(self.value_at(Measure::Allocated, self.dump()));
        let peaks = windows.iter().map(|window| {
            let last = window.to.count().min(held.len() - 1);
            // The last of equal ones is taken.
            let places = (window.from.count().min(last)..=last).rev();
            let at = places.max_by_key(|&place| held[place]).unwrap_or(last);
            Highest { bytes: u64::try_from(held[at].max(0)).unwrap_or(u64::MAX), at: Position::of_count(at) }
        });
        peaks.collect()
    }

    /// One of the counters at a place.
    pub fn value_at(&self, measure: Measure, place: Position) -> i128 {
        let changes = self.changes(measure);
        self.until(place).map(|symbol| changes[symbol as usize]).sum::<i128>() + self.value_at_start(measure)
    }

    /// How many blocks of every class come within the history.
    pub fn allocations(&self) -> Vec<u64> {
        let times = self.times_before(self.end());
        let mut allocations = vec![0; self.classes.len()];
        for (block, times) in self.moves.iter().zip(times).filter_map(|(one, times)| Some((one.begins()?, times))) {
            allocations[block.class as usize] += times;
        }
        allocations
    }

    /// The number of allocated blocks of every class at a place.
    pub fn blocks_at(&self, place: Position) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.start.iter().map(|start| start.allocated.into()).collect();
        // Below 0 at worst on the way.
        for (one, times) in self.moves.iter().zip(self.times_before(place)) {
            if let Some(block) = one.begins() {
                blocks[block.class as usize] = blocks[block.class as usize].wrapping_add(times);
            }
            if let Some(class) = one.frees() {
                blocks[class as usize] = blocks[class as usize].wrapping_sub(times);
            }
        }
        blocks
    }

    /// Bytes of groups of classes before the first event. `groups` has the group of every class.
    fn running(&self, groups: &[u32], count: usize) -> HeldByGroup<'_> {
        let mut held = vec![0_u64; count];
        let mut of_class = Vec::with_capacity(self.classes.len());
        for ((class, start), &group) in self.classes.iter().zip(&self.start).zip(groups) {
            let held = &mut held[group as usize];
            *held = held.saturating_add(class.bytes.saturating_mul(start.allocated.into()));
            of_class.push((group, class.bytes));
        }
        HeldByGroup { held, moves: &self.moves, of_class }
    }

    /// Bytes of groups of classes at places, which are in order: for each place those of every group.
    pub fn held_at(&self, groups: &[u32], count: usize, places: &[Position]) -> Vec<Vec<u64>> {
        let mut running = self.running(groups, count);
        let mut placed = self.placed().peekable();
        let mut at = Vec::with_capacity(places.len());
        for &place in places {
            while let Some((_, symbol)) = placed.next_if(|&(at, _)| at <= place) {
                running.step(symbol);
            }
            at.push(running.held.clone());
        }
        at
    }

    /// The blocks that came within the recording, in order: when, and the class of each. Those that the final state
    /// implies come last, at [`Trace::dump`].
    pub fn begun(&self) -> Vec<(Position, u32)> {
        let mut begun = Vec::with_capacity(self.count_begun());
        begun.extend(self.placed().filter_map(|(at, symbol)| Some((at, self.moves[symbol as usize].begins()?.class))));
        begun
    }

    /// The number of blocks that are there before the first event: the number of the first one that a move begins.
    pub(crate) fn count_at_start(&self) -> usize {
        self.start.iter().map(|start| start.allocated as usize + start.pending as usize).sum()
    }

    /// How many blocks come within the recording. Of two million, a vector that grows takes half as much again.
    fn count_begun(&self) -> usize {
        self.all_moves().filter(|one| one.begins().is_some()).count()
    }

    /// The most bytes that groups of classes held, and where they held them first. `groups` has the group of every
    /// class.
    pub fn highest(&self, groups: &[u32], count: usize) -> Vec<Highest> {
        let mut running = self.running(groups, count);
        let start = running.held.iter().map(|&bytes| Highest { bytes, at: Position::START });
        let mut most: Vec<Highest> = start.collect();
        for (at, symbol) in self.placed() {
            if let Some((group, bytes)) = running.step(symbol).filter(|&(group, bytes)| bytes > most[group].bytes) {
                most[group] = Highest { bytes, at };
            }
        }
        most
    }

    /// Every block, in the order of their numbers.
    pub fn lives(&self) -> Vec<Life> {
        let mut lives = Vec::with_capacity(self.count_at_start() + self.count_begun());
        for (class, start) in (0_u32..).zip(&self.start) {
            let life = Life { class, born: Position::START, freed: Position::NEVER };
            lives.extend((0..start.pending).map(|_| Life { freed: Position::START, ..life }));
            lives.extend((0..start.allocated).map(|_| life));
        }
        let mut ended = self.ended.iter();
        for (at, symbol) in self.placed() {
            let one = self.moves[symbol as usize];
            if let Some(&block) = one.ends().and_then(|_| ended.next()) {
                let life = &mut lives[block as usize];
                life.freed = life.freed.min(at);
            }
            if let Some(block) = one.begins() {
                lives.push(Life { class: block.class, born: at, freed: Position::NEVER });
            }
        }
        lives
    }
}
