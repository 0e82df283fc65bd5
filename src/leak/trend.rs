//! True if the last values of a series grow, and since when.
//!
//! A series changes its course: it is flat and then leaks, leaks and is mended, steps up once and stays there. So it is
//! cut into pieces that a straight line fits, and the last piece decides.

use super::slope::slope;

/// How much growth counts.
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
    /// True if that is growth.
    pub(super) growth: Growing,
    /// Number of steps since then in which it grew.
    pub(super) grew: usize,
    /// Number of steps since then.
    pub(super) steps: usize,
}

/// True if a series grows at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growing {
    Yes,
    /// It rose in the last steps, too few to tell a leak from a step up.
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

/// Slopes that differ by up to this factor are one course.
const SAME_COURSE: f64 = 4.0;

/// How a series goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Change from one value to the next, since the latest change of course.
    pub per_point: i128,
    /// Whether that is steady growth.
    pub grows: bool,
    /// Index of the value from which on it goes on so.
    pub since: usize,
}

/// How a series goes on after its last value, where there are two or more. Growth below `least` bytes in all does not count.
#[must_use]
pub fn forecast(values: &[u64], least: u64) -> Option<Forecast> {
    /// As many of the steps must rise.
    const SHARE: f64 = 0.8;
    let trend = Trend::of(values, Threshold { bytes: least, share: SHARE })?;
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
                && (course.noise * 50.0 < float(by_slope) || ranks.is_significant(self.since == 0))
        };
        if gained < least || !is_steady {
            return Growing::No;
        }
        // After another course more than one step up is needed: a single one is no leak.
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

/// The values, with what stands out alone replaced by the middle of its neighbours. The last one is kept: what it begins is
/// not known.
fn without_outliers(values: &[u64]) -> Vec<f64> {
    let plain: Vec<f64> = values.iter().map(|&value| float(i128::from(value))).collect();
    let mut smooth = plain.clone();
    for (at, around) in plain.windows(3).enumerate() {
        let (up, down) = (around[1] - around[0], around[1] - around[2]);
        let stands_out = up * down > 0.0 && up.abs().min(down.abs()) > 3.0 * (around[2] - around[0]).abs();
        if stands_out {
            smooth[at + 1] = f64::midpoint(around[0], around[2]);
        }
    }
    smooth
}

/// The standard deviation of the values around their courses, from how they bend: a straight line does not, and a change
/// of course bends few of them.
fn noise(values: &[f64]) -> f64 {
    /// How far the middle one of three normal values deviates from the line through the others, in standard deviations.
    const BEND: f64 = 2.449_489_742_783_178;
    let mut bends: Vec<f64> = values.windows(3).map(|around| (around[2] - 2.0 * around[1] + around[0]).abs()).collect();
    bends.sort_by(f64::total_cmp);
    let Some(last) = bends.len().checked_sub(1) else { return 0.0 };
    // The median of normal deviations lies at 0.6745 of the standard deviation, the upper quartile at 1.15. Rare noise
    // shows in the quartile only, which a short series bends too often for.
    let (at, scale) = if values.len() >= 12 { (last * 3 / 4, 1.15) } else { (last / 2, 0.6745) };
    bends[at] / scale / BEND
}

/// A series that is cut into pieces.
struct Course {
    values: Vec<f64>,
    noise: f64,
    tolerance: f64,
}

/// A piece of a series from one index up to another.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
}

impl Course {
    /// Index of the value from which on the series goes on as it does at its end.
    fn start(&self) -> usize {
        let pieces = self.pieces();
        let Some(last) = pieces.last() else { return 0 };
        let mut start = last.from;
        for &piece in pieces.iter().rev().skip(1) {
            if !self.is_same_course(piece, start) {
                break;
            }
            start = piece.from;
        }
        self.onset(start)
    }

    /// True if a piece and all that follows it from `start` on rise alike: a missing night breaks a line, not a leak.
    fn is_same_course(&self, piece: Piece, start: usize) -> bool {
        let later = match self.values.len() - start {
            1 | 2 => self.slope_between(piece.to - 1, self.values.len() - 1),
            _ => self.slope_of(Piece { from: start, to: self.values.len() }),
        };
        let before = match piece.to - piece.from {
            1 => later,
            2 => self.slope_between(piece.from, piece.from + 1),
            _ => self.slope_of(piece),
        };
        let jump = self.values[start] - self.values[piece.to - 1];
        let tolerance = self.tolerance.max(2.0 * self.noise);
        later > 0.0
            && before >= later / SAME_COURSE
            && before <= later * SAME_COURSE
            && jump >= -tolerance
            && jump <= SAME_COURSE * later.max(before) + tolerance
    }

    /// The value before the first rise belongs to the growth as well, if the rise is as large as those that follow.
    fn onset(&self, start: usize) -> usize {
        if start == 0 || self.values.len() - start < 2 {
            return start;
        }
        let slope = self.slope_of(Piece { from: start, to: self.values.len() });
        let rise = self.values[start] - self.values[start - 1];
        if slope > 0.0 && rise >= slope / 2.0 && rise <= slope * 2.0 { start - 1 } else { start }
    }

    fn slope_between(&self, from: usize, to: usize) -> f64 {
        (self.values[to] - self.values[from]) / float((to - from).max(1) as i128)
    }

    /// The slope of the line that fits best.
    fn slope_of(&self, piece: Piece) -> f64 {
        let sums = Sums::of(&self.values[piece.from..piece.to]);
        sums.slope()
    }

    /// The pieces that are fitted best by lines, where each one more has to earn its price.
    fn pieces(&self) -> Vec<Piece> {
        let count = self.values.len();
        let scale = self.noise.max(self.tolerance);
        // The logarithm of the number of values, as in the Bayesian information criterion, twice as strict.
        let price = 6.0 * (f64::from(count.max(4).ilog2()) * std::f64::consts::LN_2) * scale * scale;
        let mut cheapest = vec![0.0; count + 1];
        let mut begins = vec![0; count + 1];
        for to in 1..=count {
            // From the end on, so that every piece is one value longer than the one before.
            let mut sums = Sums::default();
            let mut best = f64::INFINITY;
            for from in (0..to).rev() {
                sums.put_before(self.values[from]);
                let cost = cheapest[from] + sums.residual() + price;
                // The shortest of equal ones: a value where two lines meet belongs to the earlier one.
                if cost + price * 1e-6 < best {
                    best = cost;
                    begins[to] = from;
                }
            }
            cheapest[to] = best;
        }
        let mut pieces = Vec::new();
        let mut to = count;
        while to > 0 {
            pieces.push(Piece { from: begins[to], to });
            to = begins[to];
        }
        pieces.reverse();
        pieces
    }
}

/// Running sums of the fit of a line, around means so that large values lose no digits.
#[derive(Default)]
struct Sums {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    fn of(values: &[f64]) -> Self {
        let mut sums = Self::default();
        values.iter().rev().for_each(|&value| sums.put_before(value));
        sums
    }

    /// Adds a value one step before the others.
    fn put_before(&mut self, y: f64) {
        let x = -self.count;
        self.count += 1.0;
        let off_x = x - self.mean_x;
        let off_y = y - self.mean_y;
        self.mean_x += off_x / self.count;
        self.mean_y += off_y / self.count;
        self.xx += off_x * (x - self.mean_x);
        self.xy += off_x * (y - self.mean_y);
        self.yy += off_y * (y - self.mean_y);
    }

    fn slope(&self) -> f64 {
        if self.xx > 0.0 { self.xy / self.xx } else { 0.0 }
    }

    /// The sum of the squared distances from the line.
    fn residual(&self) -> f64 {
        (self.yy - self.slope() * self.xy).max(0.0)
    }
}

/// How values are ordered, pair by pair.
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

    /// True if noise alone would hardly ever be ordered like this: the test of Mann and Kendall. Stricter where the
    /// beginning of the values was chosen.
    fn is_significant(&self, is_whole: bool) -> bool {
        let count = float(self.values.into());
        let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
        let least = match self.values {
            ..8 => 2.2,
            _ if is_whole => 2.6,
            _ => 3.0,
        };
        float((self.rising - self.falling - 1).into()) > least * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1 << 20;
    const THRESHOLD: Threshold = Threshold { bytes: UNIT, share: 0.8 };

    /// Values in MiB.
    fn trend(values: &[u64]) -> Trend {
        let values: Vec<u64> = values.iter().map(|value| value * UNIT).collect();
        Trend::of(&values, THRESHOLD).unwrap()
    }

    fn grows_since(values: &[u64]) -> Option<usize> {
        let trend = trend(values);
        (trend.growth == Growing::Yes).then_some(trend.since)
    }

    /// Parts of (number of values, rise from one to the next, jump before the first).
    fn course(parts: &[(usize, i64, i64)]) -> Vec<u64> {
        let mut level = 500;
        let mut values = Vec::new();
        for &(count, rise, jump) in parts {
            level += jump;
            for _ in 0..count {
                level += rise;
                values.push(u64::try_from(level).unwrap());
            }
        }
        values
    }

    #[test]
    fn what_grows_now_is_found_with_its_beginning() {
        for (parts, since) in [
            (&[(2, 20, 0)][..], 0),
            (&[(3, 20, 0)], 0),
            (&[(30, 20, 0)], 0),
            (&[(25, 0, 0), (3, 20, 0)], 24),
            (&[(25, 0, 0), (5, 20, 0)], 24),
            (&[(4, 0, 0), (3, 20, 0)], 3),
            (&[(10, 0, 0), (10, 0, 100), (6, 5, 0)], 19),
            // Mended, and back again.
            (&[(5, 0, 0), (10, 20, 0), (6, 0, -200), (5, 20, 0)], 20),
            // Two nights are missing.
            (&[(20, 0, 0), (3, 20, 0), (4, 20, 40)], 19),
            (&[(200, 7, 0), (100, 3, 0)], 0),
        ] {
            assert_eq!(grows_since(&course(parts)), Some(since), "{parts:?}");
        }
        let every_second: Vec<u64> = (0..20).map(|night| 500 + night / 2 * 20).collect();
        assert_eq!(grows_since(&every_second), Some(0));
        let faster: Vec<u64> = (0..20).map(|night| 500 + night * night).collect();
        assert!(grows_since(&faster).is_some());
    }

    #[test]
    fn what_does_not_grow_now_is_no_leak() {
        for parts in [
            &[(1, 0, 0)][..],
            &[(2, 0, 0)],
            &[(30, 0, 0)],
            &[(20, 0, 0), (1, 0, 400)],
            &[(20, 0, 0), (2, 0, 400)],
            &[(20, 0, 0), (10, 0, 400)],
            &[(8, 0, 0), (9, 0, 100), (7, 0, 100), (10, 0, 100)],
            // Mended: back to where it was, or left where it is.
            &[(5, 0, 0), (15, 20, 0), (1, 0, -300)],
            &[(5, 0, 0), (15, 20, 0), (8, 0, -300)],
            &[(5, 0, 0), (15, 20, 0), (2, 0, 0)],
            &[(5, 0, 0), (15, 20, 0), (10, 0, 0)],
            &[(20, -20, 0)],
        ] {
            assert_eq!(grows_since(&course(parts)), None, "{parts:?}");
        }
        let sawtooth: Vec<u64> = (0..29).map(|night| 500 + night % 6 * 20).collect();
        assert_eq!(grows_since(&sawtooth), None);
        let odd: Vec<u64> = (0..30).map(|night| if [3, 9, 10, 17, 29].contains(&night) { 900 } else { 500 }).collect();
        assert_eq!(grows_since(&odd), None);
    }

    #[test]
    fn growth_is_that_since_the_change() {
        let late = trend(&course(&[(25, 0, 0), (5, 20, 0)]));
        assert_eq!((late.slope, late.grew, late.steps), (Some(20 * i128::from(UNIT)), 5, 5));
        let mended = trend(&course(&[(5, 0, 0), (15, 20, 0), (8, 0, -300)]));
        assert_eq!((mended.slope, mended.since), (Some(0), 20));
        // One value after a change says nothing about a slope.
        assert_eq!(trend(&course(&[(20, 0, 0), (1, 0, 400)])).slope, None);
    }

    #[test]
    fn two_rises_are_too_few_to_tell() {
        assert_eq!(trend(&course(&[(25, 0, 0), (2, 20, 0)])).growth, Growing::TooSoon);
    }

    #[test]
    fn one_odd_night_hides_no_leak() {
        for night in [1, 15, 20, 27, 28] {
            let mut values = course(&[(10, 0, 0), (20, 20, 0)]);
            values[night] = 2000;
            assert_eq!(grows_since(&values), Some(9), "{night}");
        }
    }

    /// Noise that is the same on every machine, normal enough: the sum of four even ones.
    fn noisy(values: &[u64], deviation: f64, seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut even = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            float(i128::from(state >> 11)) / float(1 << 53) - 0.5
        };
        let mut noise = || (even() + even() + even() + even()) * deviation * 3.0_f64.sqrt();
        let unit = float(i128::from(UNIT));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundreds of MiB")]
        let add = |value: &u64| ((float(i128::from(*value)) + noise()) * unit) as u64;
        values.iter().map(add).collect()
    }

    #[test]
    fn noise_neither_hides_nor_makes_a_leak() {
        let leaking = [course(&[(10, 20, 0)]), course(&[(25, 0, 0), (5, 20, 0)]), course(&[(25, 0, 0), (8, 20, 0)])];
        let clean = [
            course(&[(5, 0, 0)]),
            course(&[(10, 0, 0)]),
            course(&[(30, 0, 0)]),
            course(&[(90, 0, 0)]),
            course(&[(15, 0, 0), (15, 0, 100)]),
            course(&[(5, 0, 0), (15, 20, 0), (8, 0, -300)]),
            course(&[(5, 0, 0), (15, 20, 0), (8, 0, 0)]),
        ];
        for deviation in [0.5, 2.0, 5.0] {
            let found = |values: &Vec<u64>| {
                let grows = |seed: &u64| {
                    let trend = Trend::of(&noisy(values, deviation, *seed), THRESHOLD).unwrap();
                    trend.growth == Growing::Yes
                };
                (1..=100).filter(grows).count()
            };
            for values in &leaking {
                assert!(found(values) >= 97, "{deviation} {values:?}: {}", found(values));
            }
            for values in &clean {
                assert!(found(values) <= 3, "{deviation} {values:?}: {}", found(values));
            }
        }
    }
}
