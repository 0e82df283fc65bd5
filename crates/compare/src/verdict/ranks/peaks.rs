//! The peaks of the ranks of a job, and how far they are out of balance.

use super::{Member, Missing};
use crate::diff::{Change, Diff, Side, Sides};
use crate::profile::{DeviceProfile, Metric, Profile};
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
    fn of(device: Option<&DeviceProfile>) -> Self {
        match device.filter(|device| device.figures.history == History::Recorded) {
            Some(device) => Self { peak: Metric::Peak.value(device), error: Metric::Peak.max_error(device) },
            None => Self::default(),
        }
    }

    fn of_index(profile: &Profile, index: Option<usize>) -> Self {
        Self::of(index.map(|index| &profile.devices[index]))
    }
}

/// The peak of one device of one rank on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPeak {
    /// The name of its rank.
    label: String,
    sides: Sides<Known>,
}

impl RankPeak {
    pub(super) fn new(member: &Member, sides: Sides<Known>) -> Self {
        Self { label: member.label.clone(), sides }
    }
}

/// The peaks of the devices of one rank; a single unknown one where no device did anything.
#[must_use]
pub fn peaks(member: &Member, diff: &Diff) -> Vec<RankPeak> {
    let Diff { profiles, devices, .. } = diff;
    let known = devices.iter().map(|device| Sides {
        before: Known::of_index(&profiles.before, device.index.before),
        after: Known::of_index(&profiles.after, device.index.after),
    });
    of_rank(member, known)
}

/// The same of one side alone, as the after.
#[must_use]
pub fn peaks_of_one(member: &Member, profile: &Profile) -> Vec<RankPeak> {
    let active = profile.devices.iter().filter(|device| device.is_active());
    of_rank(member, active.map(|device| Sides { before: Known::default(), after: Known::of(Some(device)) }))
}

fn of_rank(member: &Member, known: impl Iterator<Item = Sides<Known>>) -> Vec<RankPeak> {
    let mut peaks: Vec<RankPeak> = known.map(|sides| RankPeak::new(member, sides)).collect();
    if peaks.is_empty() {
        peaks.push(RankPeak::new(member, Sides::default()));
    }
    peaks
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
    fn of(peaks: &'p [RankPeak], side: Side) -> Result<Self, String> {
        let mut values: Vec<u64> = Vec::with_capacity(peaks.len());
        for rank in peaks {
            let peak = rank.sides.of(side).peak;
            values.push(peak.ok_or_else(|| format!("{} has no peak in the {side}", rank.label))?);
        }
        values.sort_unstable();
        let Some((median, &highest)) = median(&values).zip(values.last()) else {
            return Err("there is no rank".to_owned());
        };
        let of_highest = peaks.iter().find(|rank| rank.sides.of(side).peak == Some(highest));
        Ok(Self { highest, label: of_highest.map_or("", |rank| &rank.label), median })
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
    /// The balance of a number of ranks that are on both sides, and of those that one side lacks.
    pub(super) fn new(ranks: usize, peaks: &'p [RankPeak], missing: &[Missing]) -> Self {
        let is_job = ranks + missing.len() >= 2;
        Self {
            spread: BOTH.map(|&side| require_all(is_job, missing, side).and_then(|()| Spread::of(peaks, side))),
            error: BOTH.map(|&side| error(peaks, side)),
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

/// The largest error of an imbalance: it is a difference, and both of its figures may be off.
fn error(peaks: &[RankPeak], side: Side) -> Option<u64> {
    let errors = peaks.iter().map(|rank| rank.sides.of(side).error);
    let largest = errors.into_iter().try_fold(0, |largest: u64, error| Some(largest.max(error?)))?;
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
