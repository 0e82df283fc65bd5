//! Steps that one side makes more of. Three equal steps at most are aligned, so their number does not show there. It counts
//! where memory depends on it: steps that leave memory behind, or of which a later one is higher than all that both make.

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_trace::trace::Measure;

use super::ends::{LEAST_PART, SAME_PART};
use super::sequence::Sequence;
use super::steps::FoldedSteps;
use super::{End, MissingPart};

/// The steps that a side lacks, if memory depends on them. `scale` is the ratio of the sizes in the after.
pub(super) fn lacking(sequences: &Sides<Sequence<'_>>, scale: f64) -> Option<MissingPart> {
    let steps = sequences.map(|sequence| sequence.steps).both()?;
    let counts = steps.map(|steps| steps.count);
    let side = if counts.before < counts.after { Side::Before } else { Side::After };
    let [few, many] = [side, side.other()].map(|side| MemoryAtSteps::new(sequences.of(side), *steps.of(side)));
    let extra = many.steps.count - few.steps.count;
    let scale = if side == Side::After { scale } else { 1.0 / scale };
    if extra == 0 || few.begins_like(&many, extra, scale) {
        return None;
    }
    let is_higher = approximate(few.peak()) < approximate(many.peak()) * scale * SAME_PART;
    let depends = many.leave_memory(few.steps.count) || many.rise_after(few.steps.count) && is_higher;
    let share = extra * many.steps.length * 1000 / many.sequence.born.len().max(1);
    depends.then_some(MissingPart { side, end: End::Tail, share: share as u64 })
}

/// The allocated bytes of a side at each place, and its steps.
struct MemoryAtSteps<'s> {
    sequence: &'s Sequence<'s>,
    steps: FoldedSteps,
    held: Vec<i128>,
}

impl<'s> MemoryAtSteps<'s> {
    fn new(sequence: &'s Sequence<'s>, steps: FoldedSteps) -> Self {
        Self { sequence, steps, held: sequence.device.trace.values(Measure::Allocated).collect() }
    }

    fn peak(&self) -> u64 {
        self.sequence.device.figures.allocated.peak.unwrap_or(0)
    }

    /// The place right before a step.
    fn start(&self, step: usize) -> usize {
        let born = self.sequence.born.get(self.steps.start + step * self.steps.length);
        born.map_or(self.held.len(), |born| born.count()).saturating_sub(1)
    }

    /// The allocated bytes right before a step.
    fn at(&self, step: usize) -> i128 {
        self.held[self.start(step)]
    }

    /// True if the first step begins with the memory that the other side holds so many steps later, rather than with that of
    /// its first: the recording began later, and what the other steps leave behind is in it.
    fn begins_like(&self, other: &Self, later: usize, scale: f64) -> bool {
        let own = self.at(0) as f64;
        let [first, later] = [0, later].map(|step| (other.at(step) as f64 * scale - own).abs());
        later < first
    }

    /// True if the steps after so many leave memory behind that counts.
    fn leave_memory(&self, after: usize) -> bool {
        let left = self.at(self.steps.count - 1) - self.at(after - 1);
        left >= (i128::from(self.peak()) / LEAST_PART as i128).max(1)
    }

    /// True if the peak is in the steps after so many, and nothing before them is as high.
    fn rise_after(&self, after: usize) -> bool {
        let start = self.start(after);
        let is_after = self.sequence.device.figures.allocated.peak_at.is_some_and(|at| at.count() > start);
        let highest = self.held[..=start].iter().max().map_or(0.0, |&held| held as f64);
        is_after && highest < approximate(self.peak()) * SAME_PART
    }
}
