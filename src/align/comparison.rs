//! Compares two histories, to tell which end of one the other lacks.

use std::collections::HashMap;

use super::cut::{AtCut, Cut, Evidence, Place, is_other_number_each};
use super::numbers::{float, ratio, sum, thousandths};
use super::order::common_order;
use super::parts::{Counts, Part, Piece, Sequence};
use super::{End, LEAST_STACKS, Run, rest};
use crate::profile::course::Level;
use crate::sides::Sides;

/// Fewer allocations than these are no course.
pub(super) const LEAST_ALLOCATIONS: u64 = 20;

/// A level that differs by less than this share of the highest says nothing.
const LEAST_LEVEL: f64 = 0.05;

/// The least share of the highest level that a recording holds, and frees later, in the middle of a step.
const LEAST_IN_PASSING: f64 = 0.2;

/// Largest ratio of the allocations of a side that lacks a part to those of the rest of the other side.
const MOST_ALLOCATIONS: f64 = 1.35;

/// A part is there where more than the allocations of a side divided by this are found in it, and nowhere else.
const LEAST_PART_THERE: usize = 10;

/// Steps that count as whole where some of their stacks are gone: the share of allocations without a partner.
const MOST_UNKNOWN_IN_STEP: f64 = 0.4;

/// One side, in symbols that both share.
pub(super) struct Found<'f> {
    pub(super) run: &'f Run<'f>,
    pub(super) sequence: &'f Sequence<'f>,
    pub(super) sizes: &'f HashMap<u32, f64>,
}

/// The part that one side lacks.
pub(super) struct Lacks {
    pub(super) end: End,
    pub(super) share: u64,
    pub(super) of_step: bool,
}

/// The answer of a comparison.
pub(super) enum Answer {
    /// A part is missing.
    Lacks(Lacks),
    /// One side is, allocation by allocation, the rest of the other, and nothing tells a cut from a shorter program.
    Unclear,
}

/// The question whether `one` lacks an end of `whole`.
pub(super) struct Comparison<'f> {
    one: &'f Found<'f>,
    whole: &'f Found<'f>,
    end: End,
    /// How often symbols of `whole` occur in `one`.
    counts: Counts,
    /// All of those.
    shared: u64,
    /// All allocations of `one`.
    all: u64,
    /// By how much the sizes of `one` differ.
    scale: f64,
}

impl<'f> Comparison<'f> {
    /// `None` where too little is the same to tell.
    pub(super) fn new(one: &'f Found<'f>, whole: &'f Found<'f>, end: End) -> Option<Self> {
        let known = whole.sequence.counts();
        let mut counts = one.sequence.counts();
        counts.retain(|symbol, _| known.contains_key(symbol));
        let shared = sum(&counts);
        let all = one.sequence.length();
        if whole.sequence.length() < LEAST_ALLOCATIONS || ratio(shared, all) < 0.15 {
            return None;
        }
        let sizes = counts.keys().filter_map(|symbol| one.sizes.get(symbol).zip(whole.sizes.get(symbol)));
        let mut scales: Vec<f64> = sizes.map(|(own, other)| own / other).filter(|scale| scale.is_finite()).collect();
        scales.sort_by(f64::total_cmp);
        let scale = scales.get(scales.len() / 2).copied().unwrap_or(1.0);
        Some(Self { one, whole, end, counts, shared, all, scale })
    }

    pub(super) fn answer(&self) -> Option<Answer> {
        let by_mixture = if self.shared < LEAST_ALLOCATIONS / 2 { None } else { self.by_mixture() };
        let by_mixture = by_mixture.filter(|lacks| !self.is_there(lacks));
        by_mixture.map(Answer::Lacks).or_else(|| self.by_order())
    }

    /// True if this side has allocations of the part that it seems to lack: the whole of the other side explains it better
    /// than the rest does, as where one call became many. Steps need the question of a whole step instead: one of them is
    /// like the next.
    fn is_there(&self, lacks: &Lacks) -> bool {
        if self.whole.sequence.steps().is_some() {
            return false;
        }
        let one = rest::symbols(self.one.sequence.folded);
        let whole = rest::symbols(self.whole.sequence.folded);
        // The inner border of a part is not known to the allocation.
        let gone = usize::try_from(lacks.share).unwrap_or(0) * whole.len() * 3 / 4000;
        let rest = match self.end {
            End::Head => &whole[gone..],
            End::Tail => &whole[..whole.len() - gone],
        };
        let all = common_order(&Sides { before: &one[..], after: &whole[..] }).len();
        let left = common_order(&Sides { before: &one[..], after: rest }).len();
        all.saturating_sub(left) * LEAST_PART_THERE > one.len()
    }

    /// An end of the other side without which that is, allocation by allocation, this one.
    fn by_order(&self) -> Option<Answer> {
        let sequence = self.whole.sequence;
        let rest = rest::cut_off(self.one.sequence.folded, sequence.folded, self.end)?;
        let part = sequence.whole();
        let place = rest.gone;
        let lacks = Lacks { end: self.end, share: thousandths(place, part.length()), of_step: false };
        if rest.is_another_round
            || sequence.steps().is_some_and(|steps| self.has_whole_step(sequence.step_counts(steps)))
        {
            return self.is_peak_gone(place).then_some(Answer::Lacks(lacks));
        }
        let is_missing = match self.end {
            End::Head => self.evidence(&part, place) == Evidence::Supports || self.levels(&part, place).begins_at_cut(),
            End::Tail => self.ends_in_the_middle(&part, place),
        };
        Some(if is_missing { Answer::Lacks(lacks) } else { Answer::Unclear })
    }

    /// True if the peak of the other side lies in rounds that are gone, and no other round is as high: the first step of
    /// a recording has no optimizer state yet. Few stacks make no rounds.
    fn is_peak_gone(&self, gone: u64) -> bool {
        if self.counts.len() < LEAST_STACKS {
            return false;
        }
        let whole = self.whole.run.course;
        let length = self.whole.sequence.length();
        let is_gone = whole.peak.is_some_and(|peak| match self.end {
            End::Head => peak.place < gone,
            End::Tail => peak.place >= length - gone,
        });
        let highest = float(whole.highest());
        let own = float(self.one.run.course.highest()) / self.scale;
        is_gone && own < highest * (1.0 - LEAST_LEVEL)
    }

    /// True if this side ends with much memory that the other frees later. A program that runs on after its old end, as
    /// where an evaluation was added, does not.
    fn ends_in_the_middle(&self, part: &Part, place: u64) -> bool {
        let highest = self.whole.run.course.highest();
        let levels = self.levels(part, place);
        self.one.run.ends_at_dump
            && ratio(levels.cut.passing, highest) >= LEAST_IN_PASSING
            && ratio(levels.own.fresh.abs_diff(levels.cut.fresh), highest) < LEAST_LEVEL
    }

    fn by_mixture(&self) -> Option<Lacks> {
        let sequence = self.whole.sequence;
        let Some(steps) = sequence.steps() else { return self.cut(&sequence.whole(), false) };
        if self.has_whole_step(sequence.step_counts(steps)) {
            // The part before the steps can still be missing.
            return (self.end == End::Head).then(|| self.lead(&sequence.before_steps(steps))).flatten();
        }
        let part = match self.end {
            End::Head => sequence.last_step_on(steps),
            End::Tail => sequence.up_to_first_step(steps),
        };
        self.cut(&part, true)
    }

    /// True if all of a step is there at least once.
    fn has_whole_step(&self, step: &Counts) -> bool {
        let mut shares: Vec<(f64, u64)> = Vec::new();
        let mut unknown = 0;
        for (symbol, &count) in step {
            match self.counts.get(symbol) {
                Some(&there) => shares.push((ratio(there, count), count)),
                None => unknown += count,
            }
        }
        // A few stacks may occur less often than they did.
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: u64 = shares.iter().map(|(_, count)| count).sum();
        let mut seen = 0;
        let least = shares.iter().find(|(_, count)| {
            seen += count;
            seen.saturating_mul(20) >= all
        });
        // Layers repeat themselves as well, but are shorter.
        let own = self.one.sequence.steps().map_or(0, |steps| self.one.sequence.step_length(steps));
        let is_known = ratio(unknown, sum(step)) <= MOST_UNKNOWN_IN_STEP || own.saturating_mul(2) >= sum(step);
        is_known && least.is_some_and(|(share, _)| *share >= 1.0)
    }

    /// Finds the cut behind which the other side is most like this one, and judges it.
    fn cut(&self, part: &Part, of_step: bool) -> Option<Lacks> {
        let length = part.length();
        let all = self.distance(&part.counts, length);
        let mut rest = part.counts.clone();
        let mut place: u64 = 0;
        let mut left = length;
        let mut cuts = Vec::with_capacity(part.pieces.len());
        for piece in self.in_order(&part.pieces) {
            cuts.push(Place { allocations: place, distance: self.distance(&rest, left) });
            for (symbol, count) in &piece.counts {
                if let Some(there) = rest.get_mut(symbol) {
                    *there = there.saturating_sub(*count);
                }
            }
            place = place.saturating_add(piece.length);
            left = left.saturating_sub(piece.length);
        }
        let least = cuts.iter().map(|cut| cut.distance).min_by(f64::total_cmp)?;
        // Among equally good cuts, take the one that leaves the right number of allocations.
        let near = cuts.into_iter().filter(|cut| cut.distance <= least + 0.01);
        let place = near.min_by_key(|cut| (length - cut.allocations).abs_diff(self.shared))?;
        let cut = self.describe(part, &place, all);
        if cut.is_missing(self.end) || self.is_short(length, all, cut.gain) {
            return Some(Lacks { end: self.end, share: thousandths(place.allocations, length), of_step });
        }
        (self.end == End::Head).then(|| self.lead(part)).flatten()
    }

    /// The cut at a place of a part, where the sides differ by `all` without it.
    fn describe(&self, part: &Part, cut: &Place, all: f64) -> Cut {
        let place = cut.allocations;
        let mut counts = Counts::new();
        let mut at = 0;
        for piece in self.in_order(&part.pieces) {
            if at >= place {
                break;
            }
            counts.extend(piece.counts.keys().map(|&symbol| (symbol, 1)));
            at += piece.length;
        }
        let unknown = counts.keys().filter(|symbol| !self.counts.contains_key(symbol)).count();
        let from_start = if self.end == End::Head { place } else { part.length() - place };
        Cut {
            gain: all - cut.distance,
            distance: cut.distance,
            unknown,
            is_clean: unknown == counts.len(),
            is_in_small_loop: part.is_in_small_loop(from_start),
            is_other_number_each: is_other_number_each(counts.keys(), &self.counts, &part.counts),
            has_few: ratio(self.shared, part.length() - place) <= MOST_ALLOCATIONS,
            evidence: self.evidence(part, place),
        }
    }

    /// True if there is less than half of one step, of another mixture.
    fn is_short(&self, length: u64, distance: f64, gain: f64) -> bool {
        self.all <= length / 2 && self.shared >= self.all / 2 && distance >= 0.4 && gain > 0.1
    }

    /// A beginning of the other side of which nothing is here, and whose memory is.
    fn lead(&self, part: &Part) -> Option<Lacks> {
        let mut place: u64 = 0;
        let mut seen: u64 = 0;
        let mut known: u64 = 0;
        for piece in &part.pieces {
            known +=
                piece.counts.iter().filter(|(symbol, _)| self.counts.contains_key(symbol)).map(|(_, n)| n).sum::<u64>();
            seen += piece.length;
            if known.saturating_mul(10) > seen {
                break;
            }
            place = seen;
        }
        let length = self.whole.sequence.length();
        let has_few = ratio(self.shared, length - place) <= MOST_ALLOCATIONS;
        let is_missing = place > 0 && has_few && self.evidence(part, place) == Evidence::Supports;
        is_missing.then(|| Lacks { end: End::Head, share: thousandths(place, length), of_step: false })
    }

    /// Pieces from the end on that may be missing.
    fn in_order<'p>(&self, pieces: &'p [Piece]) -> Box<dyn Iterator<Item = &'p Piece> + 'p> {
        match self.end {
            End::Head => Box::new(pieces.iter()),
            End::Tail => Box::new(pieces.iter().rev()),
        }
    }

    /// How much two mixtures of stacks differ, from 0 to 1.
    fn distance(&self, counts: &Counts, length: u64) -> f64 {
        if length == 0 {
            return 1.0;
        }
        let mut compared = 0;
        let mut differ = 0.0;
        for (symbol, &count) in counts {
            let here = self.counts.get(symbol).copied().unwrap_or(0);
            compared += here;
            differ += (ratio(here, self.shared) - ratio(count, length)).abs();
        }
        // The rest of this side is not there at all.
        (differ + ratio(self.shared - compared, self.shared)) / 2.0
    }

    /// Evidence of the levels on a cut.
    fn evidence(&self, part: &Part, place: u64) -> Evidence {
        if self.end == End::Tail && !self.one.run.ends_at_dump {
            return Evidence::Silent;
        }
        let levels = self.levels(part, place);
        // A change to the code may hold more parameters; what comes and goes tells first.
        let coming = levels.map(match self.end {
            End::Head => |level| level.passing,
            End::Tail => |level| level.fresh,
        });
        match self.nearer(&coming) {
            Evidence::Silent => self.nearer(&levels.map(|level| level.held)),
            evidence => evidence,
        }
    }

    /// The level of this side at the end that may be missing, and those of the other side at the cut and at its own
    /// end.
    fn levels(&self, part: &Part, place: u64) -> AtCut<Level> {
        let own = &self.one.run.course.levels;
        let whole = self.whole.run.course;
        let length = self.whole.sequence.length();
        match self.end {
            End::Head => AtCut {
                own: own.first().copied().unwrap_or_default(),
                cut: whole.level(part.places.start + place, length),
                full: whole.level(part.places.start, length),
            },
            End::Tail => AtCut {
                own: own.last().copied().unwrap_or_default(),
                cut: whole.level(part.places.end - place, length),
                full: whole.level(part.places.end, length),
            },
        }
    }

    /// Tells if this side holds what the other does at the cut, rather than at its end.
    fn nearer(&self, held: &AtCut<u64>) -> Evidence {
        let highest = self.whole.run.course.highest();
        if ratio(held.cut.abs_diff(held.full), highest) < LEAST_LEVEL {
            return Evidence::Silent;
        }
        if held.is_nearer_to_cut(1.0) || held.is_nearer_to_cut(self.scale) {
            Evidence::Supports
        } else {
            Evidence::Contradicts
        }
    }
}
