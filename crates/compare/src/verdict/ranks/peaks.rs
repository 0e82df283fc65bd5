//! The peaks of the ranks of a job, and how far they are out of balance.

use super::{Missing, OfRank};
use crate::diff::{Change, Side, Sides};
use crate::profile::{DeviceProfile, Metric};
use crate::replay::History;
use crate::units::Size;

/// A peak and how far it may be from the truth, each `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Known {
    pub(super) peak: Option<u64>,
    pub(super) error: Option<u64>,
}

impl Known {
    /// The peak of a device; one that is missing or has no history has none.
    pub(super) fn of(device: Option<&DeviceProfile>) -> Self {
        match device.filter(|device| device.figures.history == History::Recorded) {
            Some(device) => Self { peak: Metric::Peak.value(device), error: Metric::Peak.max_error(device) },
            None => Self::default(),
        }
    }
}

/// The median: of an even number the mean of the two in the middle, rounded down.
fn median(sorted: &[u64]) -> Option<u64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted[sorted.len() / 2 - 1];
    Some(lower + (upper - lower) / 2)
}

/// The highest peak of one side, the rank that it is of, and the median.
pub(super) struct Spread<'p> {
    highest: u64,
    label: &'p str,
    median: u64,
}

impl<'p> Spread<'p> {
    /// The error is the reason why it is not known.
    fn of(ranks: &'p [OfRank<'_>], side: Side) -> Result<Self, String> {
        let mut peaks: Vec<(u64, &str)> = Vec::with_capacity(ranks.len());
        for (rank, known) in known(ranks, side) {
            peaks.push((known.peak.ok_or_else(|| format!("{} has no peak in the {side}", rank.label))?, rank.label));
        }
        // The first of those that are equally high names the highest.
        peaks.sort_by_key(|(peak, _)| *peak);
        let values: Vec<u64> = peaks.iter().map(|(peak, _)| *peak).collect();
        let highest = peaks.iter().find(|(peak, _)| Some(peak) == values.last());
        let Some((median, &(highest, label))) = median(&values).zip(highest) else {
            return Err("there is no rank".to_owned());
        };
        Ok(Self { highest, label, median })
    }

    /// How far the highest peak lies above the median.
    pub(super) fn imbalance(&self) -> u64 {
        self.highest - self.median
    }

    /// The figures behind the imbalance, in words.
    pub(super) fn explain(&self) -> String {
        let Self { highest, label, median } = self;
        format!("{label} peaks at {}, the median of the ranks is {}", Size(*highest), Size(*median))
    }
}

/// The spread of both sides, each with the reason where it is not known, and how far an imbalance may be from the
/// truth.
pub(super) struct Balance<'p> {
    pub(super) spread: Sides<Result<Spread<'p>, String>>,
    pub(super) error: Sides<Option<u64>>,
}

impl<'p> Balance<'p> {
    /// The balance of the ranks that are on both sides, given those that one side lacks.
    pub(super) fn new(ranks: &'p [OfRank<'_>], missing: &[Missing]) -> Self {
        let is_job = ranks.len() + missing.len() >= 2;
        Self {
            spread: BOTH.map(|&side| require_all(is_job, missing, side).and_then(|()| Spread::of(ranks, side))),
            error: BOTH.map(|&side| error(ranks, side)),
        }
    }

    /// The imbalance of both sides, where it is known.
    pub(super) fn imbalance(&self) -> Change {
        let Sides { before, after } = self.spread.map(|spread| spread.as_ref().ok().map(Spread::imbalance));
        Change { before, after }
    }
}

const BOTH: Sides<Side> = Sides { before: Side::Before, after: Side::After };

/// Requires several ranks, all of which one side has.
fn require_all(is_job: bool, missing: &[Missing], side: Side) -> Result<(), String> {
    if !is_job {
        return Err("there is only one rank; give a directory or a glob with a file for each".to_owned());
    }
    match missing.iter().find(|missing| missing.side == side) {
        Some(missing) => Err(format!("{} is missing in the {side}", missing.member.label)),
        None => Ok(()),
    }
}

/// The peaks of all ranks on a side.
fn known<'p>(ranks: &'p [OfRank<'_>], side: Side) -> impl Iterator<Item = (&'p OfRank<'p>, &'p Known)> {
    ranks.iter().flat_map(move |rank| rank.peaks.iter().map(move |sides| (rank, sides.of(side))))
}

/// The largest error of an imbalance: it is a difference, and both of its figures may be off.
fn error(ranks: &[OfRank<'_>], side: Side) -> Option<u64> {
    let largest = known(ranks, side).try_fold(0, |largest: u64, (_, known)| Some(largest.max(known.error?)))?;
    Some(largest.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_that_of_statistics() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[1, 2, 9]), Some(2));
        assert_eq!(median(&[1, 2, 5, 9]), Some(3));
        assert_eq!(median(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    }
}
