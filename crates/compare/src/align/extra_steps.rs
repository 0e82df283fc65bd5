//! Different numbers of equal steps. At most three of them are aligned, so the alignment does not show how many there are. The
//! number matters if memory depends on it: the steps of the shorter side leave memory behind, or a later step of the longer side
//! is higher than all before it.

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_trace::trace::{Measure, Position};

use super::ends::{LEAST_PART, SAME_PART, scale_of};
use super::parts::ExtraSteps;
use super::sequence::Sequence;
use super::steps::FoldedSteps;
use super::{End, MissingPart};

/// With fewer steps than these behind the first, their memory may rise by chance.
const LEAST_STEPS: usize = 4;

/// The steps that a side lacks, if its memory depends on them. `scale` is the ratio of the sizes in the after.
pub(super) fn lacking(sequences: &Sides<Sequence<'_>>, scale: f64) -> Option<MissingPart> {
    let steps = sequences.map(|sequence| sequence.steps).both()?;
    let side = if steps.before.count < steps.after.count { Side::Before } else { Side::After };
    let count = steps.of(side.other()).count;
    let extra = count - steps.of(side).count;
    if extra == 0 {
        return None;
    }
    let [few, many] = [side, side.other()].map(|side| MemoryAtSteps::new(sequences.of(side), *steps.of(side)));
    let scale = scale_of(side, scale);
    if few.begins_like(&many, extra, scale) || !many.free_most() {
        return None;
    }
    let is_lower = approximate(few.peak()) < approximate(many.peak()) * scale * SAME_PART;
    let rises = few.would_rise(extra).unwrap_or_else(|| many.leaves(few.steps.count));
    let depends = rises || many.is_higher_after(few.steps.count) && is_lower;
    let share = extra * many.steps.length * 1000 / many.sequence.born.len().max(1);
    let steps = Some(ExtraSteps { extra, count });
    depends.then_some(MissingPart { side, end: End::Tail, share: share as u64, steps })
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

    /// A part of the peak that is evidence.
    fn least(&self) -> i128 {
        (i128::from(self.peak()) / LEAST_PART as i128).max(1)
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

    /// True if the first step begins with the memory of a later step of the other side rather than of its first: the recording
    /// began later, and holds the memory that earlier steps left behind. `later` is the number of steps between the two.
    fn begins_like(&self, other: &Self, later: usize, scale: f64) -> bool {
        let own = self.at(0) as f64;
        let [first, later] = [0, later].map(|step| (other.at(step) as f64 * scale - own).abs());
        later < first
    }

    /// True if a step frees most of what it allocates. Layers that are loaded, or run forward, do not.
    fn free_most(&self) -> bool {
        let last = self.steps.count - 1;
        let within = &self.held[self.start(last - 1)..=self.start(last)];
        let allocated: i128 = within.windows(2).map(|two| (two[1] - two[0]).max(0)).sum();
        2 * (self.at(last) - self.at(last - 1)) < allocated
    }

    /// True if `extra` further steps would leave a significant amount of memory behind: each step leaves some. The first one is
    /// ignored, as it may create the state of an optimizer. `None` if there are too few steps, unless all leave the same: those
    /// that leave nothing behind may do so later, as caches fill.
    fn would_rise(&self, extra: usize) -> Option<bool> {
        let starts: Vec<i128> = (0..=self.steps.count).map(|step| self.at(step)).collect();
        let rises: Vec<i128> = starts.windows(2).map(|two| two[1] - two[0]).collect();
        let is_even = rises.iter().all(|rise| *rise == rises[0]);
        let (_, later) = rises[..rises.len() - 1].split_first()?;
        if later.len() + 1 < LEAST_STEPS {
            return (is_even && rises[0] * extra as i128 >= self.least()).then_some(true);
        }
        let pace = later.iter().sum::<i128>() / later.len() as i128;
        let is_steady = later.iter().all(|rise| *rise >= 0);
        Some(is_steady && pace * extra as i128 >= self.least())
    }

    /// True if the steps after the first `after` ones leave a significant amount of memory behind.
    fn leaves(&self, after: usize) -> bool {
        self.at(self.steps.count - 1) - self.at(after - 1) >= self.least()
    }

    /// True if the peak is in a step after the first `after` ones, and is higher than everything before them by more than the
    /// memory that the steps left behind.
    fn is_higher_after(&self, after: usize) -> bool {
        let starts: Vec<usize> = (after..=self.steps.count).map(|step| self.start(step)).collect();
        let peak = self.sequence.device.figures.allocated.peak_at.map(Position::count);
        let step = starts.windows(2).find(|two| peak.is_some_and(|peak| two[0] < peak && peak <= two[1]));
        let highest = self.held[..=starts[0]].iter().max().copied().unwrap_or(0);
        let left = step.map(|step| (self.held[step[0]] - self.at(after - 1)).max(0));
        left.is_some_and(|left| i128::from(self.peak()) - highest - left > self.least())
    }
}
