//! Cuts a series into pieces that straight lines fit.

use std::ops::Range;

use ptmem_base::units::approximate;

use crate::leak::options::WORTH_TELLING;

/// Slopes that differ by up to this factor are one course. Needed for dumps of `transformer-2.11.0`.
const SAME_COURSE: f64 = 4.0;

/// The values, with single outliers replaced by the median of their neighbors. The last value is kept: a change that it begins
/// is unknown.
fn without_outliers(values: &[u64]) -> Vec<f64> {
    let plain: Vec<f64> = values.iter().map(|&value| approximate(value)).collect();
    let mut smooth = plain.clone();
    for (at, around) in plain.windows(3).enumerate() {
        let up = around[1] - around[0];
        let down = around[1] - around[2];
        let stands_out = up * down > 0.0 && up.abs().min(down.abs()) > 3.0 * (around[2] - around[0]).abs();
        if stands_out {
            smooth[at + 1] = f64::midpoint(around[0], around[2]);
        }
    }
    smooth
}

/// The standard deviation of the values around their courses, from how they bend: a straight line does not, and a
/// change of course bends few of them.
fn noise(values: &[f64]) -> f64 {
    /// The deviation of the middle one of three normal values from the line through the others, in standard deviations.
    const BEND: f64 = 2.449_489_742_783_178;
    let mut bends: Vec<f64> = values.windows(3).map(|around| (around[2] - 2.0 * around[1] + around[0]).abs()).collect();
    bends.sort_by(f64::total_cmp);
    let Some(last) = bends.len().checked_sub(1) else { return 0.0 };
    // The median of normal deviations is 0.6745 standard deviations, the upper quartile 1.15. Rare noise affects only
    // the quartile, which too often follows the bends of a short series.
    let deviation = if values.len() >= 12 { bends[last * 3 / 4] / 1.15 } else { bends[last / 2] / 0.6745 };
    deviation / BEND
}

/// A series that is cut into pieces.
pub(super) struct PiecewiseSeries {
    values: Vec<f64>,
    pub(super) noise: f64,
    tolerance: f64,
}

impl PiecewiseSeries {
    /// The course of values. Those that differ by less than an eighth of the growth that counts, `least` bytes, are the
    /// same.
    pub(super) fn new(values: &[u64], least: u64) -> Self {
        let values = without_outliers(values);
        let tolerance = approximate(least.clamp(512 * 8, WORTH_TELLING) / 8);
        Self { noise: noise(&values), tolerance, values }
    }

    /// Index of the first value that goes on as the series does at its end.
    pub(super) fn latest(&self) -> usize {
        let mut begins = self.begins();
        let mut start = begins.pop().unwrap_or(0);
        while let Some(from) = begins.pop().filter(|&from| self.is_same_course(from, start)) {
            start = from;
        }
        start
    }

    /// True if the piece from one index up to `start` and everything after it rise in the same way: a missing night
    /// interrupts a line, not a leak.
    fn is_same_course(&self, from: usize, start: usize) -> bool {
        let count = self.values.len();
        // One or two values have a slope only together with the one before.
        let later = self.slope(if count - start < 3 { start - 1 } else { start }..count);
        let before = self.slope(from..start);
        let jump = self.values[start] - self.values[start - 1];
        let tolerance = self.tolerance.max(2.0 * self.noise);
        later > 0.0
            && before >= later / SAME_COURSE
            && before <= later * SAME_COURSE
            && jump >= -tolerance
            && jump <= SAME_COURSE * later.max(before) + tolerance
    }

    /// True if a value from an index on is lower than the one before it, beyond noise.
    pub(super) fn falls_at(&self, start: usize) -> bool {
        let Some(before) = start.checked_sub(1) else { return false };
        let tolerance = self.tolerance.max(2.0 * self.noise);
        self.values[start..].iter().any(|value| *value < self.values[before] - tolerance)
    }

    /// Index of the value from which on it does so: the one before the first rise belongs to the growth as well, if the rise is as
    /// large as those that follow.
    pub(super) fn onset(&self, start: usize) -> usize {
        let slope = self.slope(start..self.values.len());
        let is_onset = start > 0
            && slope > 0.0
            && (slope / 2.0..=slope * 2.0).contains(&(self.values[start] - self.values[start - 1]));
        start - usize::from(is_onset)
    }

    /// The slope of the line that fits values best.
    fn slope(&self, range: Range<usize>) -> f64 {
        let mut sums = RunningSums::default();
        self.values[range].iter().rev().for_each(|&value| sums.put_before(value));
        sums.slope()
    }

    /// Where the pieces begin that are fitted best by lines, where each one more has to earn its price.
    pub(super) fn begins(&self) -> Vec<usize> {
        let count = self.values.len();
        let scale = self.noise.max(self.tolerance);
        // The logarithm of the number of values, as in the Bayesian information criterion, twice as strict.
        let price = 6.0 * (f64::from(count.max(4).ilog2()) * std::f64::consts::LN_2) * scale * scale;
        let mut cheapest = vec![0.0; count + 1];
        // For each number of values, the index at which the last piece of them begins.
        let mut last = vec![0; count + 1];
        for to in 1..=count {
            // From the end on, so that every piece is one value longer than the one before.
            let mut sums = RunningSums::default();
            let mut best = f64::INFINITY;
            for from in (0..to).rev() {
                sums.put_before(self.values[from]);
                let residual = sums.residual();
                // The residual of a longer piece is at least as large.
                if residual > best {
                    break;
                }
                let cost = cheapest[from] + residual + price;
                // The shortest of equal ones: a value where two lines meet belongs to the earlier one.
                if cost + price * 1e-6 < best {
                    best = cost;
                    last[to] = from;
                }
            }
            cheapest[to] = best;
        }
        let mut begins = Vec::new();
        let mut to = count;
        while to > 0 {
            to = last[to];
            begins.push(to);
        }
        begins.reverse();
        begins
    }
}

/// Running sums of the fit of a line, around means so that large values lose no digits.
#[derive(Default)]
struct RunningSums {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl RunningSums {
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
