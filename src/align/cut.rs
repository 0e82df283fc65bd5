//! The place at which one side could have been cut off the other, and what speaks for it.

use super::End;
use super::numbers::float;
use super::parts::{Counts, SMALL_LOOP_ROUNDS};
use crate::profile::course::Level;

/// By how much the mixture of stacks must agree better with the rest of the other side than with all of it.
const LEAST_GAIN: f64 = 0.04;

/// A new optimizer adds allocations at the end of a step under no more stacks than these.
const FEW_STACKS: usize = 3;

/// A loop over parameters that allocates more often for each has at most this many times as many allocations.
const MOST_PER_PARAMETER: u64 = 4;

/// Evidence of the levels at a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// One side begins or ends with what the other holds there.
    Supports,
    /// It begins or ends as the other does.
    Contradicts,
    /// The other holds as much there as at its own end.
    Silent,
}

/// A value of the side that may lack a part, and of the other one at the cut and at its end.
pub(super) struct AtCut<T> {
    pub(super) own: T,
    pub(super) cut: T,
    pub(super) full: T,
}

impl AtCut<Level> {
    pub(super) fn map(&self, of: fn(&Level) -> u64) -> AtCut<u64> {
        AtCut { own: of(&self.own), cut: of(&self.cut), full: of(&self.full) }
    }

    /// True if the side begins with exactly what the other holds at the cut, and the other began with something else.
    pub(super) fn begins_at_cut(&self) -> bool {
        self.own.held == self.cut.held && self.cut.held != self.full.held
    }
}

impl AtCut<u64> {
    /// True if the side is nearer to the other at the cut, where its allocations are `scale` times as large.
    pub(super) fn is_nearer_to_cut(&self, scale: f64) -> bool {
        let own = float(self.own);
        (own - scale * float(self.cut)).abs() < (own - scale * float(self.full)).abs()
    }
}

/// A place at which one side could have been cut.
pub(super) struct Place {
    /// Allocations before it, or behind it where a tail may be missing.
    pub(super) allocations: u64,
    /// How much the sides differ without those.
    pub(super) distance: f64,
}

/// The best place at which one side could have been cut.
#[derive(Debug)]
pub(super) struct Cut {
    /// By how much the sides are more alike behind it.
    pub(super) gain: f64,
    /// How much they differ there.
    pub(super) distance: f64,
    /// The stacks before it that the side does not know.
    pub(super) unknown: usize,
    /// True if it knows none of them.
    pub(super) is_clean: bool,
    /// True if it lies within a loop over parameters.
    pub(super) is_in_small_loop: bool,
    /// True if that loop allocates more often for each parameter, or less often, see [`is_other_number_each`].
    pub(super) is_other_number_each: bool,
    /// True if the side has no more allocations than are left.
    pub(super) has_few: bool,
    pub(super) evidence: Evidence,
}

impl Cut {
    pub(super) fn is_missing(&self, end: End) -> bool {
        if self.gain < LEAST_GAIN || self.distance > self.gain || !self.has_few {
            return false;
        }
        // A change to the code begins and ends where a function does: a cut does not.
        let in_the_middle = !self.is_clean && self.evidence != Evidence::Contradicts;
        let replaced = end == End::Tail && self.is_clean && self.unknown <= FEW_STACKS;
        (self.unknown > 0 && in_the_middle)
            || (self.evidence == Evidence::Supports && !replaced)
            || (self.is_in_small_loop
                && !self.is_other_number_each
                && in_the_middle
                && self.distance * 2.0 <= self.gain)
    }
}

/// True if one side has a simple fraction of the allocations that the other has, of each of some stacks: a loop over the
/// same parameters that allocates twice for each instead of once, as where an optimizer no longer works on all of them
/// at a time. A recording that is cut off ends anywhere.
pub(super) fn is_other_number_each<'c>(symbols: impl Iterator<Item = &'c u32>, one: &Counts, whole: &Counts) -> bool {
    let mut is_any = false;
    for symbol in symbols {
        let (Some(&own), Some(&other)) = (one.get(symbol), whole.get(symbol)) else { return false };
        let parameters = greatest_divisor(own, other);
        if parameters < SMALL_LOOP_ROUNDS || other / parameters > MOST_PER_PARAMETER {
            return false;
        }
        is_any |= own < other;
    }
    is_any
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_other(own: u64, other: u64) -> bool {
        is_other_number_each([7].iter(), &Counts::from([(7, own)]), &Counts::from([(7, other)]))
    }

    #[test]
    fn loops_over_the_same_parameters_are_told_from_a_cut() {
        assert!(is_other(77, 154));
        assert!(is_other(154, 231));
        assert!(!is_other(77, 77), "nothing is gone");
        assert!(!is_other(80, 154));
        assert!(!is_other(20, 40), "too few to tell");
        assert!(!is_other(77, 770), "an end of a loop");
        assert!(!is_other_number_each([7].iter(), &Counts::new(), &Counts::from([(7, 154)])), "all are gone");
    }
}
