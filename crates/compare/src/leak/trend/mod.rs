//! The trend of the last values of a series, and since when it lasts.
//!
//! A series changes its course: it is flat and then leaks, leaks and is mended, steps up once and stays there. So it is
//! cut into pieces that a straight line fits, and the last piece decides, unless it is too short to show that growth has ended.

mod course;
mod stairs;
#[cfg(test)]
mod tests;

use ptmem_base::units::approximate;
use ptmem_trace::phase::steps::FEWEST_CHANGES;

use self::course::PiecewiseSeries;
use crate::leak::options;

/// The course of a series since it last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trend {
    /// Index of the value from which on it goes on as it does now.
    pub since: usize,
    /// Bytes gained since then.
    pub(crate) gained: i128,
    /// Change per step, the median of the slopes between all pairs of values; unknown where there is one value only.
    pub slope: Option<i128>,
    /// Whether that is growth.
    pub growth: Growing,
    /// Number of steps since then in which it grew.
    pub(crate) grew: usize,
    /// Number of steps since then.
    pub steps: usize,
}

/// Whether a series grows at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growing {
    /// It does.
    Yes,
    /// It rose in the last steps, too few to distinguish a leak from a step up.
    TooSoon,
    /// It does not.
    No,
}

/// Only this many of the latest values are used: the time grows with the square of their number.
const MOST_VALUES: usize = 512;

/// Growth goes on if steps gain at least this part of what they gained before.
const PART_OF_PACE: i128 = 4;

/// Growth must exceed the noise of the values by this factor. Needed for dumps of `corners/wrapped`.
const ABOVE_NOISE: f64 = 5.0;

/// An order with at least this many standard deviations is not due to chance. Needed for flat series with noise: 65 of
/// 4,000 are taken for leaks, and 76 at 2.2.
const SURE: f64 = 2.6;

/// The same of fewer than eight values, which cannot deviate further. Needed for dumps of `corners/wrapped`.
const SURE_OF_FEW: f64 = 2.2;

/// Indices of the values at which a series begins another course; differences far below `least` bytes do not count.
pub fn course_changes(values: &[u64], least: u64) -> Vec<usize> {
    let first = values.len().saturating_sub(MOST_VALUES);
    PiecewiseSeries::new(&values[first..], least).begins().iter().skip(1).map(|begin| first + begin).collect()
}

impl Trend {
    /// The latest trend of `values`; `None` without values. Growth counts if it is at least `least` bytes in total and
    /// continues in a `share` of the steps, from 0 to 1. A larger rise does not end it.
    pub fn of(values: &[u64], least: u64, share: f64) -> Option<Self> {
        Some(LatestTrend::of(values, least, share)?.trend)
    }

    /// The same for values after others.
    fn moved(self, by: usize) -> Self {
        Self { since: self.since + by, ..self }
    }

    /// The trend since the latest change of course.
    fn of_course(since: usize, values: &[u64], noise: f64, least: u64, share: f64) -> Option<Self> {
        let trend = Self::of_tail(since, values)?;
        // With one step more than a leak needs, every one counts: noise cannot be measured.
        let is_steady = trend.gained >= i128::from(least.max(1))
            && if trend.steps <= FEWEST_CHANGES + 1 {
                trend.rises_often(share)
            } else {
                trend.rises_beyond_noise(&values[since..], noise, share)
            };
        let growth = match trend.grew {
            _ if !is_steady => Growing::No,
            // After another course more than one step up is needed: a single one is not a leak.
            grew if since == 0 || grew >= FEWEST_CHANGES => Growing::Yes,
            0 | 1 => Growing::No,
            _ => Growing::TooSoon,
        };
        Some(Self { growth, ..trend })
    }

    /// True if values that change by this many bytes per step grow about as fast as before, or faster.
    fn is_kept_up_by(&self, change: i128) -> bool {
        change.saturating_mul(PART_OF_PACE) >= self.slope.unwrap_or_default()
    }

    /// The course of all `values`, which grow or do not, but do not change.
    pub(crate) fn of_all(values: &[u64], least: u64, share: f64) -> Option<Self> {
        let trend = Self::of_tail(0, values)?;
        let is_steady = trend.gained >= i128::from(least) && trend.rises_often(share);
        Some(Self { growth: if is_steady { Growing::Yes } else { Growing::No }, ..trend })
    }

    /// The trend of the values from an index to the end, before it is decided whether it is growth.
    fn of_tail(since: usize, values: &[u64]) -> Option<Self> {
        let tail = &values[since..];
        Some(Self {
            since,
            gained: i128::from(*tail.last()?) - i128::from(*tail.first()?),
            slope: slope(tail),
            growth: Growing::No,
            grew: rises(tail),
            steps: tail.len() - 1,
        })
    }

    fn rises_often(&self, share: f64) -> bool {
        self.grew > 0 && options::share(self.grew, self.steps) >= share
    }

    /// True if the values rise as a whole, by an amount and in an order that their noise does not explain.
    fn rises_beyond_noise(&self, values: &[u64], noise: f64, share: f64) -> bool {
        let rise = approximate(self.slope.unwrap_or(0).saturating_mul(self.steps as i128));
        let rising = rising_share(values);
        rising >= share
            && rise >= ABOVE_NOISE * noise
            && (noise * 50.0 < rise || rising >= share_beyond_chance(values.len()))
    }
}

/// The latest trend of values.
#[derive(Debug, Clone, Copy)]
pub(super) struct LatestTrend {
    pub(super) trend: Trend,
    /// The growth before it, if neither a fall nor enough level values show that it has ended.
    pub(super) paused: Option<Trend>,
}

impl LatestTrend {
    pub(super) fn of(values: &[u64], least: u64, share: f64) -> Option<Self> {
        let first = values.len().saturating_sub(MOST_VALUES);
        let Self { trend, paused } = Self::of_few(&values[first..], least, share)?;
        Some(Self { trend: trend.moved(first), paused: paused.map(|growth| growth.moved(first)) })
    }

    fn of_few(values: &[u64], least: u64, share: f64) -> Option<Self> {
        let course = PiecewiseSeries::new(values, least);
        let latest = course.latest();
        let trend = Trend::of_course(course.onset(latest), values, course.noise, least, share)?;
        let is_level = trend.steps >= FEWEST_CHANGES && trend.slope <= Some(0);
        let is_decided = trend.growth == Growing::Yes || is_level || course.falls_at(latest);
        let earlier = if is_decided { None } else { Self::of_few(&values[..latest], least, share) };
        let growth = earlier.and_then(|earlier| match earlier.trend.growth {
            Growing::No => earlier.paused,
            Growing::Yes | Growing::TooSoon => Some(earlier.trend),
        });
        Some(growth.and_then(|growth| Self::after(growth, trend, values)).unwrap_or(Self { trend, paused: None }))
    }

    /// A trend after growth; `None` if that was too short to count, or has ended.
    fn after(growth: Trend, trend: Trend, values: &[u64]) -> Option<Self> {
        let whole = Trend::of_tail(growth.since, values)?;
        let later = &values[growth.since + growth.steps..];
        let is_open = trend.steps < FEWEST_CHANGES || growth.is_kept_up_by(trend.slope?);
        match growth.growth {
            _ if whole.grew < FEWEST_CHANGES => None,
            _ if later.windows(2).all(|pair| growth.is_kept_up_by(i128::from(pair[1]) - i128::from(pair[0]))) => {
                Some(Self { trend: Trend { growth: Growing::Yes, ..whole }, paused: None })
            }
            Growing::Yes if is_open => Some(Self { trend, paused: Some(growth) }),
            _ => None,
        }
    }
}

/// The number of values that are larger than the one before.
pub(super) fn rises<T: PartialOrd>(values: &[T]) -> usize {
    values.windows(2).filter(|pair| pair[1] > pair[0]).count()
}

/// The share of rising pairs that the order of `count` values hardly ever reaches by noise alone: the test of Mann and
/// Kendall.
fn share_beyond_chance(count: usize) -> f64 {
    let least = if count < 8 { SURE_OF_FEW } else { SURE };
    let count = approximate(count as u64);
    let pairs = count * (count - 1.0) / 2.0;
    let deviation = (pairs * (2.0 * count + 5.0) / 9.0).sqrt();
    f64::midpoint(1.0, (1.0 + least * deviation) / pairs)
}

/// The share of all pairs of values of which the later one is the larger.
fn rising_share(values: &[u64]) -> f64 {
    let later = values.iter().enumerate().map(|(at, earlier)| (earlier, &values[at + 1..]));
    let rising = later.map(|(earlier, later)| later.iter().filter(|&later| later > earlier).count()).sum();
    options::share(rising, values.len() * (values.len() - 1) / 2)
}

/// More points than these are thinned out: the slope looks at all pairs.
const MOST_POINTS: usize = 256;

/// The Theil-Sen estimate: the median of the slopes between all pairs of values, which are one step apart each. Rounded
/// to whole bytes; `None` for fewer than two values.
#[allow(clippy::cast_possible_truncation, reason = "the change per step is not larger than a value")]
fn slope(values: &[u64]) -> Option<i128> {
    let stride = values.len().div_ceil(MOST_POINTS).max(1);
    let points = values.iter().enumerate().step_by(stride);
    let points: Vec<(f64, f64)> = points.map(|(at, &value)| (approximate(at as u64), approximate(value))).collect();
    let mut slopes: Vec<f64> = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (from, low)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|(to, high)| (high - low) / (to - from)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let middle = slopes.len().checked_sub(1)? / 2;
    Some(f64::midpoint(slopes[middle], slopes[slopes.len() / 2]).round() as i128)
}
