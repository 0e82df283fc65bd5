//! The trend of the last values of a series, and since when it lasts.
//!
//! A series changes its course: it is flat and then leaks, leaks and is mended, steps up once and stays there. So it is
//! cut into pieces that a straight line fits, and the last piece decides.

mod course;
#[cfg(test)]
mod tests;

use self::course::{Course, noise, without_outliers};
use super::slope::slope;

/// The growth that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    /// The least growth in bytes.
    pub(super) bytes: u64,
    /// The least share of steps, from 0 to 1, in which it must have grown.
    pub(super) share: f64,
}

/// The course of a series since it last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trend {
    /// Index of the value from which on it goes on as it does now.
    pub(super) since: usize,
    /// Change per step, the median of the slopes between all pairs of values; unknown where there is one value only.
    pub(super) slope: Option<i128>,
    /// Whether that is growth.
    pub(super) growth: Growing,
    /// Number of steps since then in which it grew.
    pub(super) grew: usize,
    /// Number of steps since then.
    pub(super) steps: usize,
}

/// Whether a series grows at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growing {
    Yes,
    /// It rose in the last steps, too few to distinguish a leak from a step up.
    TooSoon,
    No,
}

/// Only this many of the latest values are looked at: the time grows with the square of their number.
const MOST_VALUES: usize = 512;

/// A course that follows another one must have risen this often to be a leak: a single rise is a step up.
const FEWEST_RISES: usize = 3;

/// Up to this many steps every one counts, and no noise can be measured.
const SHORT: usize = 4;

/// Growth must exceed the noise of the values by this factor.
const ABOVE_NOISE: f64 = 5.0;

/// An order is no chance from this many standard deviations on.
const SURE: f64 = 2.6;

/// The same of fewer than eight values, which cannot deviate further.
const SURE_OF_FEW: f64 = 2.2;

/// The further course of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Change from one value to the next, since the latest change of course.
    pub per_point: i128,
    /// Whether that is steady growth.
    pub grows: bool,
    /// Index of the value from which on it goes on so.
    pub since: usize,
}

/// The further course of a series after its last value, where there are two or more. Growth below `least` bytes in all
/// does not count.
#[must_use]
pub fn forecast(values: &[u64], least: u64) -> Option<Forecast> {
    let trend = Trend::of(values, Threshold { bytes: least, share: super::MIN_SHARE })?;
    Some(Forecast { per_point: trend.slope?, grows: trend.growth == Growing::Yes, since: trend.since })
}

/// Indices of the values at which a series begins another course; differences far below `least` bytes do not count.
#[must_use]
pub fn course_changes(values: &[u64], least: u64) -> Vec<usize> {
    let first = values.len().saturating_sub(MOST_VALUES);
    let smooth = without_outliers(&values[first..]);
    let tolerance = tolerance(Threshold { bytes: least, share: 1.0 });
    let course = Course { tolerance, noise: noise(&smooth), values: smooth };
    course.pieces().iter().skip(1).map(|piece| first + piece.from).collect()
}

impl Trend {
    /// The course of the last of `values`; `None` where there are none.
    pub(super) fn of(values: &[u64], threshold: Threshold) -> Option<Self> {
        let first = values.len().saturating_sub(MOST_VALUES);
        let recent = &values[first..];
        let smooth = without_outliers(recent);
        let course = Course { tolerance: tolerance(threshold), noise: noise(&smooth), values: smooth };
        let start = course.start();
        let tail = recent.get(start..).filter(|tail| !tail.is_empty())?;
        let steps = tail.len() - 1;
        let grew = tail.windows(2).filter(|pair| pair[1] > pair[0]).count();
        let mut trend = Self { since: first + start, slope: slope(tail), growth: Growing::No, grew, steps };
        trend.growth = trend.judge(tail, &course, threshold);
        Some(trend)
    }

    /// Bytes gained since then.
    pub(super) fn gain(&self, values: &[u64]) -> i128 {
        let ends = values.get(self.since).zip(values.last());
        ends.map_or(0, |(first, last)| i128::from(*last) - i128::from(*first))
    }

    fn judge(&self, tail: &[u64], course: &Course, threshold: Threshold) -> Growing {
        let gained = i128::from(tail[self.steps]) - i128::from(tail[0]);
        let least = i128::from(threshold.bytes.max(1));
        let is_steady = if self.steps <= SHORT {
            self.grew > 0 && super::share(self.grew, self.steps) >= threshold.share
        } else {
            let by_slope = self.slope.unwrap_or(0).saturating_mul(self.steps as i128);
            let ranks = Ranks::of(tail);
            by_slope >= least
                && ranks.rising_share() >= threshold.share
                && float(by_slope) >= ABOVE_NOISE * course.noise
                && (course.noise * 50.0 < float(by_slope) || ranks.is_significant())
        };
        if gained < least || !is_steady {
            return Growing::No;
        }
        // After another course more than one step up is needed: a single one is not a leak.
        match self.grew {
            _ if self.since == 0 => Growing::Yes,
            0 | 1 => Growing::No,
            grew if grew < FEWEST_RISES => Growing::TooSoon,
            _ => Growing::Yes,
        }
    }
}

/// Values that differ by less than this are the same: an eighth of the growth that counts.
fn tolerance(threshold: Threshold) -> f64 {
    float(i128::from(threshold.bytes.clamp(512 * 8, super::WORTH_TELLING) / 8))
}

/// For comparisons only.
#[allow(clippy::cast_precision_loss, reason = "only compared with each other")]
fn float(value: i128) -> f64 {
    value as f64
}

/// The order of values, pair by pair.
struct Ranks {
    values: i64,
    rising: i64,
    falling: i64,
}

impl Ranks {
    fn of(values: &[u64]) -> Self {
        let mut ranks = Self { values: i64::try_from(values.len()).unwrap_or(i64::MAX), rising: 0, falling: 0 };
        for (at, &earlier) in values.iter().enumerate() {
            for &later in &values[at + 1..] {
                ranks.rising += i64::from(later > earlier);
                ranks.falling += i64::from(later < earlier);
            }
        }
        ranks
    }

    /// The share of pairs of which the later value is the larger one.
    fn rising_share(&self) -> f64 {
        let pairs = self.values * (self.values - 1) / 2;
        float(self.rising.into()) / float(pairs.max(1).into())
    }

    /// True if noise alone would hardly ever be ordered like this: the test of Mann and Kendall.
    fn is_significant(&self) -> bool {
        let count = float(self.values.into());
        let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
        let least = if self.values < 8 { SURE_OF_FEW } else { SURE };
        float((self.rising - self.falling - 1).into()) > least * deviation
    }
}
