//! Sums of blocks whose sizes are not certain: how far the highest may be from the truth, and because of which blocks. Two
//! figures that the same blocks make inexact are off by the same bytes.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use ptmem_base::sides::Sides;
use rustc_hash::FxHashMap;

use super::{Measure, Move, Position, Trace, Uncertainty, Window};

/// How far a number of bytes may be from the truth, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorBound {
    /// The most bytes that it may be off.
    pub bytes: u64,
    /// A digest of the blocks that make it inexact, at all moments that may decide it; `None` where they are not known.
    pub blocks: Option<u64>,
}

impl ErrorBound {
    /// True if the same blocks make the numbers of both sides inexact, so that their bounds cancel in the difference.
    pub fn is_shared(sides: Sides<Self>) -> bool {
        sides.before.blocks.is_some() && sides.before == sides.after
    }
}

/// How a block of a class counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CountedBlock {
    /// The sum that it counts in.
    pub(crate) group: u32,
    pub(crate) bytes: i128,
    pub(crate) spread: Uncertainty,
    /// Distinguishes it from blocks of other kinds; 0 where it makes no sum inexact.
    pub(crate) kind: u64,
}

/// Sums that blocks count in.
#[derive(Debug)]
pub(crate) struct CountedBlocks {
    pub(crate) measure: Measure,
    /// For every class.
    pub(crate) of_class: Vec<CountedBlock>,
    /// Number of sums.
    pub(crate) groups: usize,
    /// Bytes by which sums may be off beside the sizes of blocks.
    pub(crate) margin: i128,
}

/// A digest of any value, the same in every run.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A sum at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct UncertainSum {
    now: i128,
    /// Bytes that it may be too high.
    below: i128,
    /// Bytes that it may be too low.
    above: i128,
    /// The sum of the kinds of blocks.
    blocks: u64,
}

impl UncertainSum {
    fn add(&mut self, block: &CountedBlock, times: u32) {
        self.now += block.bytes * i128::from(times);
        self.below += i128::from(block.spread.below) * i128::from(times);
        self.above += i128::from(block.spread.above) * i128::from(times);
        self.blocks = self.blocks.wrapping_add(block.kind.wrapping_mul(times.into()));
    }

    fn remove(&mut self, block: &CountedBlock) {
        self.now -= block.bytes;
        self.below -= i128::from(block.spread.below);
        self.above -= i128::from(block.spread.above);
        self.blocks = self.blocks.wrapping_sub(block.kind);
    }
}

/// The sums while moves are gone through.
struct UncertainSums<'c> {
    counted: &'c CountedBlocks,
    levels: Vec<UncertainSum>,
}

impl<'c> UncertainSums<'c> {
    fn new(trace: &Trace, counted: &'c CountedBlocks) -> Self {
        // Segments are not blocks: those of reserved bytes count as active ones.
        let measure = if counted.measure == Measure::Reserved { Measure::Active } else { counted.measure };
        let mut levels = vec![UncertainSum::default(); counted.groups];
        for (block, start) in counted.of_class.iter().zip(&trace.start) {
            levels[block.group as usize].add(block, start.blocks(measure));
        }
        if counted.measure == Measure::Reserved {
            levels[0].now += trace.reserved;
        }
        Self { counted, levels }
    }

    /// Makes a move. Gives the sum that it raised.
    fn step(&mut self, one: Move) -> Option<usize> {
        let CountedBlocks { measure, of_class, .. } = self.counted;
        let ended = if *measure == Measure::Allocated { one.frees() } else { one.completes() };
        if let Some(class) = ended {
            let block = &of_class[class as usize];
            self.levels[block.group as usize].remove(block);
        }
        let reserved = match one {
            Move::Reserve(bytes) => i128::from(bytes),
            Move::Release(bytes) => -i128::from(bytes),
            Move::Nothing | Move::Alloc(_) | Move::Request(_) | Move::Free(_) | Move::Replace(_, _) => 0,
        };
        if *measure == Measure::Reserved && reserved != 0 {
            self.levels[0].now += reserved;
            return Some(0);
        }
        let block = &of_class[one.begins()?.class as usize];
        self.levels[block.group as usize].add(block, 1);
        Some(block.group as usize)
    }
}

/// The moments at which a sum may be at its highest.
#[derive(Debug)]
struct PossiblePeaks {
    margin: i128,
    /// The highest by the sizes that blocks are taken to have, and the range of the truth.
    peak: i128,
    lowest: i128,
    highest: i128,
    /// The highest of the moments at which the same uncertain blocks are held.
    moments: FxHashMap<u64, UncertainSum>,
}

impl PossiblePeaks {
    fn new(margin: i128) -> Self {
        Self { margin, peak: i128::MIN, lowest: i128::MIN, highest: i128::MIN, moments: FxHashMap::default() }
    }

    fn add(&mut self, level: UncertainSum) {
        self.peak = self.peak.max(level.now);
        self.lowest = self.lowest.max(level.now - level.below - self.margin);
        self.highest = self.highest.max(level.now + level.above + self.margin);
        if self.may_be_at(&level) {
            let most = self.moments.entry(level.blocks).or_insert(level);
            most.now = most.now.max(level.now);
        }
    }

    fn may_be_at(&self, level: &UncertainSum) -> bool {
        level.now + level.above + self.margin >= self.lowest
    }

    /// The distance of the peak from the truth follows from these moments, by how much each is below it.
    fn bound(&self) -> ErrorBound {
        let possible = self.moments.values().filter(|level| self.may_be_at(level));
        let digests = possible.map(|level| digest(&(level.blocks, level.now - self.peak)));
        let bytes = (self.highest - self.peak).max(self.peak - self.lowest);
        ErrorBound { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), blocks: Some(digests.fold(0, u64::wrapping_add)) }
    }
}

/// The most windows around one place that are examined, so that the time follows from the length of a history.
const MOST_OPEN: usize = 16;

/// Windows in the order in which moves go through them.
struct OpenWindows<'w> {
    windows: &'w [Window],
    /// Those that are still to come, the first one last.
    coming: Vec<usize>,
    open: Vec<(usize, PossiblePeaks)>,
    bounds: Vec<ErrorBound>,
}

impl OpenWindows<'_> {
    /// Opens and closes those that do so before a place. The sum has this level until then.
    fn go_to(&mut self, place: Position, level: UncertainSum, margin: i128) {
        while let Some(at) = self.coming.pop_if(|at| self.windows[*at].from < place) {
            if self.open.len() < MOST_OPEN {
                let mut peaks = PossiblePeaks::new(margin);
                peaks.add(level);
                self.open.push((at, peaks));
            }
            self.close(place);
        }
        self.close(place);
    }

    fn close(&mut self, place: Position) {
        let Self { windows, open, bounds, .. } = self;
        open.retain(|(at, peaks)| {
            let is_open = windows[*at].to >= place;
            if !is_open {
                bounds[*at] = peaks.bound();
            }
            is_open
        });
    }
}

impl Trace {
    /// How far the most that each sum was may be from the truth.
    pub(crate) fn bounds_of_highest(&self, counted: &CountedBlocks) -> Vec<ErrorBound> {
        let mut sums = UncertainSums::new(self, counted);
        let mut peaks: Vec<PossiblePeaks> = Vec::with_capacity(counted.groups);
        for level in &sums.levels {
            let mut of_group = PossiblePeaks::new(counted.margin);
            of_group.add(*level);
            peaks.push(of_group);
        }
        for one in self.all_moves() {
            if let Some(group) = sums.step(one) {
                peaks[group].add(sums.levels[group]);
            }
        }
        peaks.iter().map(PossiblePeaks::bound).collect()
    }

    /// How far the highest of the only sum may be from the truth in each window; where many windows lie within each other, the
    /// blocks are not known for all.
    pub(crate) fn bounds_within(&self, counted: &CountedBlocks, windows: &[Window]) -> Vec<ErrorBound> {
        let mut sums = UncertainSums::new(self, counted);
        let mut coming: Vec<usize> = (0..windows.len()).collect();
        coming.sort_by_key(|&at| Reverse(windows[at].from));
        let mut all =
            OpenWindows { windows, coming, open: Vec::new(), bounds: vec![ErrorBound::default(); windows.len()] };
        for (place, symbol) in self.placed() {
            all.go_to(place, sums.levels[0], counted.margin);
            if sums.step(self.moves[symbol as usize]).is_some() {
                all.open.iter_mut().for_each(|(_, peaks)| peaks.add(sums.levels[0]));
            }
        }
        all.go_to(Position::NEVER, sums.levels[0], counted.margin);
        all.bounds
    }
}
