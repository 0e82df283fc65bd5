//! The course of a history: which stacks allocated, in which order, and what was held meanwhile. Two histories of
//! nearly the same program run the same course, which tells whether a part of one of them is missing.

mod by_size;
mod fold;
mod grouped;

use rustc_hash::FxHashMap;

pub use by_size::{BySize, SizeClass};
pub use fold::{Entry, Folded};
pub use grouped::Grouped;

use crate::interner::Interner;
use crate::replay::{Origin, Position};
use crate::snapshot::StackId;
use crate::trace::{Class, Trace};

/// The most entries of a course; a history that repeats nothing is kept coarsely.
const MOST_ENTRIES: usize = 1 << 14;

/// Number of windows that a history that repeats nothing is divided into. The order within a window is lost.
const WINDOWS: u64 = 128;

/// Number of equal parts of the allocations in which held bytes are sampled.
const SAMPLES: u64 = 200;

/// The origin of an allocation, as a symbol of the sequence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A stack.
    Stack(StackId),
    /// A stack that a saved profile does not list: the beginning of its key, as grouped by default.
    Unlisted(String),
    /// Allocations without frames.
    NoFrames,
}

/// Allocated bytes at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// All of them.
    pub held: u64,
    /// Those that are freed before the recording ends.
    pub passing: u64,
    /// Those that were allocated since the recording began.
    pub fresh: u64,
}

impl Level {
    /// Adds a block to the level.
    fn add(&mut self, bytes: u64, is_passing: bool, is_fresh: bool) {
        self.held = self.held.saturating_add(bytes);
        self.passing = self.passing.saturating_add(if is_passing { bytes } else { 0 });
        self.fresh = self.fresh.saturating_add(if is_fresh { bytes } else { 0 });
    }

    fn subtract(&mut self, other: &Self) {
        self.held = self.held.saturating_sub(other.held);
        self.passing = self.passing.saturating_sub(other.passing);
        self.fresh = self.fresh.saturating_sub(other.fresh);
    }

    fn plus(&mut self, other: &Self) {
        self.held = self.held.saturating_add(other.held);
        self.passing = self.passing.saturating_add(other.passing);
        self.fresh = self.fresh.saturating_add(other.fresh);
    }
}

/// The course of one device's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Those that allocate, in the order of their first allocation.
    pub symbols: Vec<Symbol>,
    /// Their allocations in order: indices into `symbols`.
    pub sequence: Folded,
    /// The same by the sizes of allocations as well, where the stacks are few.
    pub by_size: Option<BySize>,
    /// Levels right before allocations that lie equally far apart; the last one is that of the dump.
    pub levels: Vec<Level>,
    /// The allocation that made the peak; `None` where that is the start.
    pub peak: Option<PeakAllocation>,
}

/// The allocation that made the allocated peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeakAllocation {
    /// Index into [`Course::symbols`].
    pub symbol: u32,
    /// Its place among the allocations.
    pub place: u64,
}

impl Course {
    /// The course of a device; `None` where it allocates nothing.
    pub(super) fn of(trace: &Trace, peak_at: Option<Position>) -> Option<Self> {
        let table = Table::new(trace);
        let allocations = || recorded(trace).map(|(_, class)| class);
        let symbols = || allocations().map(|class| table.of_class[class as usize]);
        let sequence = Folded::new(symbols(), MOST_ENTRIES);
        let sequence = match sequence {
            Some(sequence) => sequence,
            None => windows(symbols())?,
        };
        if sequence.entries.is_empty() {
            return None;
        }
        let by_size = BySize::new(
            table.symbols.len(),
            allocations().map(|class| SizeClass {
                symbol: table.of_class[class as usize],
                bytes: trace.classes[class as usize].requested,
            }),
        );
        let peak = (0..).zip(recorded(trace)).find(|(_, (at, _))| Some(*at) == peak_at);
        let peak = peak.map(|(place, (_, class))| PeakAllocation { symbol: table.of_class[class as usize], place });
        Some(Self { symbols: table.symbols, levels: levels(trace), sequence, by_size, peak })
    }

    /// The most bytes that any level holds.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.levels.iter().map(|level| level.held).max().unwrap_or(0)
    }

    /// The level right before an allocation, by its place among them; the length of the course is the dump.
    #[must_use]
    pub fn level(&self, place: u64, length: u64) -> Level {
        let last = self.levels.len().saturating_sub(1) as u64;
        let sample = (u128::from(place) * u128::from(last) + u128::from(length) / 2).checked_div(length.into());
        let sample = sample.and_then(|sample| usize::try_from(sample).ok()).unwrap_or(0);
        self.levels.get(sample).or(self.levels.last()).copied().unwrap_or_default()
    }
}

/// The allocations of the history, each with its place and its class; others are older than it, or known from the dump
/// alone.
fn recorded(trace: &Trace) -> impl Iterator<Item = (Position, u32)> {
    let begun = trace.symbols.iter().map(|&symbol| trace.moves[symbol as usize].begins());
    begun.enumerate().filter_map(|(i, block)| Some((Position::after(i), block?.class)))
}

/// The symbols, in the order of their first allocation.
struct Table {
    symbols: Vec<Symbol>,
    of_class: Vec<u32>,
}

impl Table {
    fn new(trace: &Trace) -> Self {
        let mut symbols = Interner::default();
        let mut of_class = vec![None; trace.classes.len()];
        for (_, class) in recorded(trace) {
            of_class[class as usize].get_or_insert_with(|| {
                let Class { origin, cpp, .. } = trace.classes[class as usize];
                symbols.number(&match (origin, cpp) {
                    (Origin::Stack(stack), _) => Symbol::Stack(stack),
                    (Origin::Others, Some(key)) => Symbol::Unlisted(format!("{key:016x}")),
                    _ => Symbol::NoFrames,
                })
            });
        }
        let of_class = of_class.into_iter().map(Option::unwrap_or_default).collect();
        Self { symbols: symbols.into_items(), of_class }
    }
}

/// A history that repeats nothing: how often each symbol occurs in equal parts of it.
fn windows(symbols: impl Iterator<Item = u32>) -> Option<Folded> {
    let symbols: Vec<u32> = symbols.collect();
    let size = (symbols.len() as u64).div_ceil(WINDOWS).max(1);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut folded = Folded::default();
    let mut bodies: FxHashMap<u32, u32> = FxHashMap::default();
    for window in symbols.chunks(size) {
        let mut sorted = window.to_vec();
        sorted.sort_unstable();
        for run in sorted.chunk_by(|a, b| a == b) {
            let body = *bodies.entry(run[0]).or_insert_with(|| {
                folded.bodies.push(vec![Entry::One(run[0])]);
                u32::try_from(folded.bodies.len() - 1).unwrap_or(u32::MAX)
            });
            folded.entries.push(Entry::Loop { body, count: run.len() as u64 });
        }
        if folded.entries.len() > MOST_ENTRIES {
            return None;
        }
    }
    Some(folded)
}

/// Samples of what is held, before allocations that lie equally far apart and at the dump.
fn levels(trace: &Trace) -> Vec<Level> {
    let count = recorded(trace).count() as u64;
    let samples = count.clamp(1, SAMPLES);
    let mut moments: Vec<Position> = Vec::with_capacity(usize::try_from(samples).unwrap_or(0) + 1);
    for (place, (born, _)) in (0_u64..).zip(recorded(trace)) {
        // Just before the allocation, which is the position after the event before it.
        if place >= (moments.len() as u64 * count).div_ceil(samples) && (moments.len() as u64) < samples {
            moments.push(Position::of_count(born.count().saturating_sub(1)));
        }
    }
    moments.push(trace.dump());
    let mut changes = vec![Change::default(); moments.len() + 1];
    for life in trace.lives() {
        let bytes = trace.classes[life.class as usize].bytes;
        let passing = life.freed != Position::NEVER;
        let is_fresh = life.born != Position::START && life.born != trace.dump();
        let from = sample_at(&moments, life.born);
        let to = sample_at(&moments, life.freed);
        if from < to {
            changes[from].gained.add(bytes, passing, is_fresh);
            changes[to].lost.add(bytes, passing, is_fresh);
        }
    }
    let mut levels = Vec::with_capacity(moments.len());
    let mut now = Level::default();
    for change in &changes[..moments.len()] {
        now.plus(&change.gained);
        now.subtract(&change.lost);
        levels.push(now);
    }
    levels
}

/// The change of a level up to a moment, since the one before.
#[derive(Clone, Default)]
struct Change {
    gained: Level,
    lost: Level,
}

/// The first of the moments that is not before a position.
fn sample_at(moments: &[Position], position: Position) -> usize {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return 0 };
    if position <= *first {
        return 0;
    }
    if position > *last {
        return moments.len();
    }
    // They lie nearly equally far apart: a guess is close.
    let begin = first.count();
    let span = (last.count() - begin).max(1);
    let mut at = (position.count() - begin) * (moments.len() - 1) / span;
    while at > 0 && moments[at - 1] >= position {
        at -= 1;
    }
    while moments[at] < position {
        at += 1;
    }
    at
}
