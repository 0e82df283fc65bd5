//! The parts that one side lacks at its head or tail, because the ring buffer dropped the oldest events, or the recording
//! began later or ended earlier.
//!
//! An end of one side without partners was either cut off on the other, or is a change to the code. A recording that is
//! cut off begins, or ends, with the memory that the other holds at the cut; changed code begins and ends with the same
//! memory as before. If the other holds equally much at the cut and at its own end, the order decides: no change to the
//! code leaves all allocations of one history at an end of the other. Fewer steps of the same kind do not count as a
//! missing part while one step is whole, unless memory depends on their number (`extra_steps.rs`).
//!
//! For example, a before has 1,000 allocations, and an after 900, of which the first is like number 101 of the before. The
//! before begins with 3 GiB:
//!
//! * It holds 4 GiB at number 101, and the after begins with 4 GiB: the after lacks the first 100.
//! * It holds 4 GiB there, and the after begins with 3 GiB: no cut. It is unclear why if the 900 are the last 900 of the
//!   before in the same order; otherwise the code no longer makes these 100.
//! * It holds 3 GiB there, too: the after lacks the first 100 if its 900 are the last 900 of the before in the same order,
//!   and have most stacks of the 8 right before the cut. Without those stacks it is unclear.

use std::ops::Range;

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_trace::trace::{Measure, Position};
use rustc_hash::FxHashSet;

use super::blocks::BlocksBySize;
use super::extra_steps;
use super::order::PlacePair;
use super::sequence::{LEAST_ALLOCATIONS, Sequence, counts};
use super::steps::{FoldedSteps, LEAST_STACKS};
use super::{End, MissingPart, Parts};

/// A part of the other history, or of its peak, below its size divided by this is not evidence. Needed for
/// `changes/float32`.
pub(super) const LEAST_PART: usize = 20;

/// A figure below this part of a peak differs from it by a part that is evidence.
pub(super) const SAME_PART: f64 = 1.0 - 1.0 / LEAST_PART as f64;

/// Sizes that differ by no more than this are the same. Needed for cuts of `changes/float32`.
const SAME_SCALE: f64 = 0.01;

/// Number of allocations in a row by which a part of a round is recognized. Needed for cuts of `convolutional-2.6.0`.
const IN_A_ROW: usize = 8;

/// The parts that a side lacks. If repeated allocations were paired in a way that contradicts them, `order` is
/// corrected. `scale` is the ratio of the sizes in the after.
pub(super) fn parts(sequences: &Sides<Sequence<'_>>, scale: f64, order: &mut Vec<PlacePair>) -> Parts {
    let mut parts = Parts::default();
    if sequences.before.born.len().max(sequences.after.born.len()) < LEAST_ALLOCATIONS {
        return parts;
    }
    for side in Side::BOTH {
        let scale = scale_of(side, scale);
        for end in [End::Head, End::Tail] {
            match Question::new(sequences, scale, order, side, end).answer() {
                EndAnswer::Lacks { part, order: corrected } => {
                    parts.missing.push(part);
                    *order = corrected;
                }
                EndAnswer::Unclear => parts.unclear = Some(side),
                EndAnswer::Has => {}
            }
        }
    }
    if !parts.missing.iter().any(|part| part.end == End::Tail) {
        parts.missing.extend(extra_steps::lacking(sequences, scale));
    }
    parts.unclear = parts.unclear.filter(|_| parts.missing.is_empty());
    parts
}

/// The ratio of the sizes of a side to those of the other, by that of the after.
pub(super) fn scale_of(side: Side, scale: f64) -> f64 {
    if side == Side::After { scale } else { 1.0 / scale }
}

/// The question whether a side lacks an end of the other.
struct Question<'a> {
    side: Side,
    end: End,
    one: &'a Sequence<'a>,
    other: &'a Sequence<'a>,
    /// The symbols of both sides, starting at the end in question.
    own: Vec<u32>,
    whole: Vec<u32>,
    /// Allocations of both that are the same, in that order, those of `side` as `before`.
    pairs: Vec<PlacePair>,
    /// By how much the sizes of this side differ.
    scale: f64,
}

/// Whether that side has that end.
enum EndAnswer {
    /// It has the end, or its code no longer makes those allocations.
    Has,
    /// It lacks the end. The pairs that follow from that.
    Lacks { part: MissingPart, order: Vec<PlacePair> },
    /// A cut cannot be distinguished from a shorter program.
    Unclear,
}

/// Pairs of sequences of these lengths as `side` counts them from an end, or converted back.
fn turned(pairs: impl Iterator<Item = PlacePair>, lengths: Sides<usize>, side: Side, end: End) -> Vec<PlacePair> {
    let pairs = pairs.map(|pair| {
        let pair = match end {
            End::Head => pair,
            End::Tail => pair.zip(lengths).map(|(place, length)| length - 1 - place),
        };
        PlacePair { before: *pair.of(side), after: *pair.of(side.other()) }
    });
    let mut turned: Vec<PlacePair> = pairs.collect();
    if end == End::Tail {
        turned.reverse();
    }
    turned
}

impl<'a> Question<'a> {
    fn new(sequences: &'a Sides<Sequence<'a>>, scale: f64, order: &[PlacePair], side: Side, end: End) -> Self {
        let one = sequences.of(side);
        let other = sequences.of(side.other());
        let lengths = sequences.map(|sequence| sequence.symbols.len());
        let mut own = one.symbols.clone();
        let mut whole = other.symbols.clone();
        if end == End::Tail {
            own.reverse();
            whole.reverse();
        }
        Self { side, end, one, other, own, whole, pairs: turned(order.iter().copied(), lengths, side, end), scale }
    }
}

impl Question<'_> {
    fn answer(&self) -> EndAnswer {
        let Some((count, moved)) = self.gone() else { return self.has_setup() };
        if self.is_step_left(count) {
            return if self.is_peak_gone(count) { self.lacks_peak(count, self.order(0, 0)) } else { EndAnswer::Has };
        }
        let evidence = self.evidence(count);
        let is_round = self.is_another_round(count);
        let is_rest = self.is_rest(count) && !is_round;
        // A change to the code begins and ends where a function does: a cut does not.
        let is_cut = evidence.is_none() && is_rest && self.goes_on(count);
        if evidence == Some(true) || is_cut {
            return self.lacks(count, self.order(count, moved));
        }
        if is_round && self.is_peak_gone(count) {
            return self.lacks_peak(count, self.order(count, moved));
        }
        if is_rest { EndAnswer::Unclear } else { EndAnswer::Has }
    }

    /// Whether this side has what precedes the steps of the other, however few allocations that is.
    fn has_setup(&self) -> EndAnswer {
        let Some((steps, _)) = self.other.steps.zip(self.one.steps) else { return EndAnswer::Has };
        let first = self.pairs.first().filter(|first| first.after > first.before);
        match first.filter(|first| self.is_setup_gone(&steps, first.after)) {
            Some(first) => self.lacks(first.after, self.order(0, 0)),
            None => EndAnswer::Has,
        }
    }

    /// True if what precedes the steps of the other side leaves memory behind with which this side begins.
    fn is_setup_gone(&self, steps: &FoldedSteps, gone: usize) -> bool {
        if self.end == End::Tail || steps.start == 0 {
            return false;
        }
        let device = self.other.device;
        let least = (device.figures.allocated.peak.unwrap_or(0) / LEAST_PART as u64).max(1);
        let [start, full] = [self.cut(steps.start), Position::START];
        let [start, full] = [start, full].map(|at| BlocksBySize::at(&device.trace, at, None));
        start.minus(&full).bytes() >= least && self.evidence(gone) == Some(true)
    }

    /// True if nothing but steps is missing and a whole one is left, or any recurring unit: the missing part continues like the
    /// rest, and memory rises from the cut and returns to its value where the rest reaches the same allocations again.
    fn is_step_left(&self, gone: usize) -> bool {
        if let Some(steps) = self.other.steps {
            let left = self.whole.len() - gone;
            let is_left = left * LEAST_PART >= steps.length * (LEAST_PART - 1);
            return is_left && self.beside_steps(&steps, gone) * LEAST_PART < self.whole.len();
        }
        if !self.is_another_round(gone) {
            return false;
        }
        let held: Vec<i128> = self.other.device.trace.values(Measure::Allocated).collect();
        let peak = i128::from(self.other.device.figures.allocated.peak.unwrap_or(0));
        let start = self.cut(gone).count().min(held.len() - 1);
        let away: Vec<i128> = match self.end {
            End::Head => held[start..].to_vec(),
            End::Tail => held[..=start].iter().rev().copied().collect(),
        };
        let rises = away.iter().scan(away[0], |most, &now| {
            *most = now.max(*most);
            Some(*most - away[0])
        });
        let rises: Vec<i128> = rises.collect();
        let rest = &self.whole[gone..];
        let row = &rest[..IN_A_ROW.min(rest.len())];
        let mut recurs = (1..rest.len()).filter(|&at| rest[at..].starts_with(row));
        recurs.any(|at| {
            let place = self.cut(gone + at).count().min(held.len() - 1).abs_diff(start);
            away[place] == away[0] && rises[place] >= peak / LEAST_PART as i128
        })
    }

    /// The number of allocations beyond the steps of the other side that are gone: enough of them if this side begins
    /// with the memory that they left behind. Of those that follow steps, what steps make or this side has as well is not gone.
    fn beside_steps(&self, steps: &FoldedSteps, gone: usize) -> usize {
        match self.end {
            End::Head if self.is_setup_gone(steps, gone) => self.whole.len(),
            End::Head => steps.start,
            End::Tail => {
                let beyond = self.whole.len() - steps.start - steps.left() * steps.length;
                let step = counts(&self.whole[beyond..beyond + steps.length]);
                let foreign = (0..beyond).filter(|place| !step.contains_key(&self.whole[*place]));
                foreign.filter(|place| self.pairs.binary_search_by_key(place, |pair| pair.after).is_err()).count()
            }
        }
    }

    /// The pairs, where the first allocations of this side have partners `by` further on.
    fn order(&self, by: usize, moved: usize) -> Vec<PlacePair> {
        let moved_pairs = (0..moved).map(|place| PlacePair { before: place, after: place + by });
        let rest = self.pairs.iter().copied().filter(|pair| pair.before >= moved);
        let lengths = Sides { before: self.own.len(), after: self.whole.len() };
        turned(moved_pairs.chain(rest), lengths, self.side, self.end)
    }

    fn lacks(&self, gone: usize, order: Vec<PlacePair>) -> EndAnswer {
        let length = self.other.born.len();
        let place = self.place(gone);
        let gone = if self.end == End::Head { place } else { length - place };
        let part =
            MissingPart { side: self.side, end: self.end, share: (gone * 1000 / length.max(1)) as u64, steps: None };
        EndAnswer::Lacks { part, order }
    }

    /// The same where the peak is in the missing part. What few of many stacks make may be a longer loop over parameters.
    fn lacks_peak(&self, gone: usize, order: Vec<PlacePair>) -> EndAnswer {
        let stacks = counts(&self.whole[..gone]).len();
        let is_loop = stacks < LEAST_STACKS && stacks * 2 <= counts(&self.whole).len();
        if is_loop { EndAnswer::Unclear } else { self.lacks(gone, order) }
    }

    /// The number of allocations at the end of the other side that this side lacks, and how many of this one must move for
    /// that: those before the widest gap. What repeats itself may leave the gap anywhere, but what mostly has partners is not
    /// gone.
    fn gone(&self) -> Option<(usize, usize)> {
        let least = (self.whole.len() / LEAST_PART).max(1);
        let mut widest: Option<(usize, PlacePair)> = None;
        let mut last = 0;
        for pair in &self.pairs {
            let width = pair.after - last;
            if width >= least && widest.is_none_or(|(known, _)| width > known) {
                widest = Some((width, *pair));
            }
            last = pair.after + 1;
        }
        let (_, pair) = widest.filter(|(_, pair)| pair.after >= pair.before + least)?;
        let moved = if self.can_move(pair) { pair.before } else { 0 };
        let gone = pair.after - moved;
        (moved > 0 || self.paired(0..gone) * 2 < gone).then_some((gone, moved))
    }

    /// The number of allocations in a part of the other side that have a partner.
    fn paired(&self, part: Range<usize>) -> usize {
        self.pairs.iter().filter(|pair| part.contains(&pair.after)).count()
    }

    /// True if all before a pair may as well be the allocations right before its partner.
    fn can_move(&self, pair: PlacePair) -> bool {
        let Some(from) = pair.after.checked_sub(pair.before) else { return false };
        self.own[..pair.before] == self.whole[from..pair.after]
    }

    /// True if nearly all of this side is what is left of the other, and nearly nothing else is.
    fn is_rest(&self, gone: usize) -> bool {
        let left = self.whole.len() - gone;
        let paired = self.paired(gone..self.whole.len());
        left.max(self.own.len()) - paired <= left / LEAST_PART
    }

    /// True if nearly all of the missing part occurs in the rest in the same order.
    fn is_another_round(&self, gone: usize) -> bool {
        let known: FxHashSet<&[u32]> = self.whole[gone..].windows(IN_A_ROW).collect();
        // Those in a row that reach into the rest belong to the cut.
        let beyond = (gone + IN_A_ROW - 1).min(self.whole.len());
        let all = self.whole[..beyond].windows(IN_A_ROW);
        let count = all.len();
        count > 0 && all.filter(|row| !known.contains(row)).count() * 10 <= count
    }

    /// True if the peak of the other side is in rounds that are missing, and no other round is as high: the first step
    /// of a recording has no optimizer state yet.
    fn is_peak_gone(&self, gone: usize) -> bool {
        let peaks = [self.one, self.other].map(|of| of.device.figures.allocated.peak.unwrap_or(0));
        let cut = self.cut(gone);
        let is_gone = self.other.device.figures.allocated.peak_at.is_some_and(|at| match self.end {
            End::Head => at <= cut,
            End::Tail => at > cut,
        });
        let highest = approximate(peaks[1]) * self.scale * SAME_PART;
        is_gone && self.is_rest(gone) && approximate(peaks[0]) < highest
    }

    /// The place of the first allocation after a cut among all of the other side.
    fn place(&self, gone: usize) -> usize {
        let (aligned, kept) = match self.end {
            End::Head => (gone, End::Tail),
            End::Tail => (self.whole.len() - gone, End::Head),
        };
        self.other.steps.map_or(aligned, |steps| steps.whole_next_to(kept, aligned))
    }

    /// The moment right before that allocation.
    fn cut(&self, gone: usize) -> Position {
        let born = self.other.born.get(self.place(gone));
        born.map_or(self.other.device.trace.dump(), |born| Position::of_count(born.count() - 1))
    }

    /// Evidence of a cut in the memory of both sides: true if this side begins or ends with the memory that the other
    /// holds there, false if it begins or ends as the other does, `None` if the other holds equally much there and at
    /// its own end. A change to the code may add parameters, so memory that comes and goes is examined first.
    fn evidence(&self, gone: usize) -> Option<bool> {
        self.evidence_of(gone, true).or_else(|| self.evidence_of(gone, false))
    }

    /// The same: whether this side holds, besides what the other does at its end, what that holds at the cut. `passing` counts
    /// the blocks alone that come or go within the recording.
    fn evidence_of(&self, gone: usize, passing: bool) -> Option<bool> {
        let only = passing.then_some(self.end);
        let [own, full] = [self.one, self.other].map(|of| BlocksBySize::at_end(&of.device.trace, self.end, only));
        let cut = BlocksBySize::at(&self.other.device.trace, self.cut(gone), only);
        if self.end == End::Head && own == cut && cut != full {
            return Some(true);
        }
        let least = (self.other.device.figures.allocated.peak.unwrap_or(0) / LEAST_PART as u64).max(1);
        let more = cut.minus(&full);
        if more.bytes() >= least {
            let is_held = own.minus(&full).overlap(&more) * 2 >= more.bytes();
            return Some(is_held || (passing && self.is_nearer(&own, &cut, &full)));
        }
        let less = full.minus(&cut);
        if less.bytes() < least {
            return None;
        }
        // What a program holds in the end may be new; where the part that is gone goes on with stacks that are here too, it
        // is not.
        let is_lacked = full.minus(&own).overlap(&less) * 2 >= less.bytes();
        let is_explained = self.end == End::Head || (self.goes_on(gone) && self.explains_most(gone));
        if is_lacked { is_explained.then_some(true) } else { Some(false) }
    }

    /// True if most allocations of the other side without partners are gone with the part: where as many lack one in the
    /// rest, the program makes more of them everywhere.
    fn explains_most(&self, gone: usize) -> bool {
        let rest = gone..self.whole.len();
        gone > rest.len() - self.paired(rest)
    }

    /// True if this side knows most of what comes right after the cut.
    fn goes_on(&self, gone: usize) -> bool {
        let known = counts(&self.own);
        let next = &self.whole[gone.saturating_sub(IN_A_ROW)..gone];
        next.iter().filter(|symbol| known.contains_key(symbol)).count() * 2 >= next.len()
    }

    /// True if the memory of this side is nearer to that of the other at the cut, where their sizes differ.
    fn is_nearer(&self, own: &BlocksBySize, cut: &BlocksBySize, full: &BlocksBySize) -> bool {
        let own = approximate(own.bytes());
        let [cut, full] = [cut, full].map(|blocks| approximate(blocks.bytes()) * self.scale);
        (self.scale - 1.0).abs() > SAME_SCALE && (own - cut).abs() < (own - full).abs()
    }
}
