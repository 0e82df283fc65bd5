//! The peaks of the ranks of a job, and how far the highest is from the median.

use ptmem_base::units::Size;
use ptmem_compare::diff::Side;
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};

use super::history::no_history;
use super::{LimitKind, MissingRank};

/// Why the imbalance is unknown.
pub(super) const ONE_RANK: &str = "there is only one rank; give a directory or a glob with a file for each";

/// The peaks of the devices of a rank that has no partner on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankPeaks(pub(super) Vec<KnownPeak>);

impl RankPeaks {
    /// The peaks in a profile.
    pub fn of(profile: &Profile) -> Self {
        let peaks = profile.gated_devices().map(|device| KnownPeak::of(profile, Some(device)));
        Self(or_unknown(peaks.collect()))
    }
}

/// The peaks of devices; a single unknown one where no device did anything.
pub(super) fn or_unknown<T: Default>(peaks: Vec<T>) -> Vec<T> {
    if peaks.is_empty() { vec![T::default()] } else { peaks }
}

/// A peak and how far it may be from the truth, each `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KnownPeak {
    pub(super) peak: Option<u64>,
    pub(super) error: Option<u64>,
    /// True if the recording lacks a part of the other side's.
    pub(super) is_cut: bool,
}

impl KnownPeak {
    /// The peak of a device of a profile; one that is missing or has no history has none.
    pub(super) fn of(profile: &Profile, device: Option<&DeviceProfile>) -> Self {
        let metric = Metric::Peak;
        match device.filter(|device| no_history(profile, device, "", LimitKind::Metric(metric)).is_none()) {
            Some(device) => Self { peak: metric.value(device), error: metric.max_error(device), is_cut: false },
            None => Self::default(),
        }
    }
}

/// The highest peak of one side, the rank that it is of, and the median.
pub(super) struct RankSpread<'p> {
    highest: u64,
    label: &'p str,
    median: u64,
    /// The largest error of a peak, where all are known.
    error: Option<u64>,
}

impl<'p> RankSpread<'p> {
    /// The spread over all ranks of a side: those that both sides have, and those that one side lacks. The error is the reason why
    /// the spread is not known.
    pub(super) fn of(
        paired: &[(&'p str, Vec<KnownPeak>)],
        missing: &'p [MissingRank],
        side: Side,
        allow_partial: bool,
    ) -> Result<Self, String> {
        if paired.len() + missing.len() < 2 {
            return Err(ONE_RANK.to_owned());
        }
        if let Some(missing) = missing.iter().find(|missing| missing.side == side) {
            return Err(format!("{} is missing in the {side}", missing.member.label));
        }
        let mut peaks: Vec<(u64, &str)> = Vec::with_capacity(paired.len());
        let mut error = Some(0);
        let alone = missing.iter().map(|of| (&*of.member.label, &of.peaks.0));
        for (label, devices) in paired.iter().map(|(label, devices)| (*label, devices)).chain(alone) {
            if devices.iter().any(|known| known.is_cut) && !allow_partial {
                return Err(format!("the {side} of {label} lacks a part that the other side records"));
            }
            // The peak of a rank is that of its fullest device.
            let known: Option<Vec<u64>> = devices.iter().map(|known| known.peak).collect();
            let peak = known.and_then(|peaks| peaks.into_iter().max());
            peaks.push((peak.ok_or_else(|| format!("{label} has no peak in the {side}"))?, label));
            let errors = devices.iter().map(|known| known.error);
            error = errors.fold(error, |one, other| Some(one?.max(other?)));
        }
        // The first of those that are equally high names the highest.
        peaks.sort_by_key(|(peak, _)| *peak);
        let values: Vec<u64> = peaks.iter().map(|(peak, _)| *peak).collect();
        let highest = peaks.iter().find(|(peak, _)| Some(peak) == values.last());
        let (median, &(highest, label)) = median(&values).zip(highest).ok_or("there is no rank")?;
        Ok(Self { highest, label, median, error })
    }

    /// The distance of the highest peak from the median.
    pub(super) fn imbalance(&self) -> u64 {
        self.highest - self.median
    }

    /// The largest error of that: it is a difference, and both of its figures may be off.
    pub(super) fn error(&self) -> Option<u64> {
        Some(self.error?.saturating_mul(2))
    }

    /// The figures behind the imbalance, in words.
    pub(super) fn explain(&self) -> String {
        let Self { highest, label, median, .. } = self;
        format!("{label} peaks at {}, the median of the ranks is {}", Size(*highest), Size(*median))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_statistics() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[1, 2, 9]), Some(2));
        assert_eq!(median(&[1, 2, 5, 9]), Some(3));
        assert_eq!(median(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    }
}
