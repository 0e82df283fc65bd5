//! Growth per step, so that a few odd steps do not decide it.

use std::cmp::Ordering;

/// More points than these are thinned out: the slope looks at all pairs.
const MOST_POINTS: usize = 256;

/// The Theil-Sen estimate: the median of the slopes between all pairs of values, which are one step apart each. Rounded
/// to whole bytes; `None` for fewer than two values.
#[must_use]
pub fn slope(values: &[u64]) -> Option<i128> {
    let stride = values.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(i128, i128)> =
        (0_i128..).zip(values).step_by(stride).map(|(at, &value)| (at, i128::from(value))).collect();
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (from, low)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|(to, high)| Slope { rise: high - low, run: to - from }));
    }
    slopes.sort_unstable_by(Slope::order);
    let middle = slopes.len().checked_sub(1)? / 2;
    let low = slopes[middle];
    let high = slopes[slopes.len() / 2];
    // Values have 64 bits and steps far fewer than 32, so the products fit.
    Some(rounded(low.rise * high.run + high.rise * low.run, 2 * low.run * high.run))
}

#[derive(Debug, Clone, Copy)]
struct Slope {
    rise: i128,
    /// Positive.
    run: i128,
}

impl Slope {
    fn order(&self, other: &Self) -> Ordering {
        (self.rise * other.run).cmp(&(other.rise * self.run))
    }
}

/// A quotient, rounded to the nearest, halves away from 0.
pub(super) fn rounded(dividend: i128, divisor: i128) -> i128 {
    (dividend * 2 + divisor * dividend.signum()) / (divisor * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_slope_ignores_odd_values() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[7]), None);
        assert_eq!(slope(&[7, 9]), Some(2));
        assert_eq!(slope(&[0, 10, 20, 9000, 40, 50, 60]), Some(10));
        assert_eq!(slope(&[60, 50, 40, 30]), Some(-10));
        assert_eq!(slope(&[5, 5, 5, 5, 999]), Some(0));
        assert_eq!(slope(&[0, 1, 1, 2]), Some(1), "(1, 1/2, 2/3, 0, 1/2, 1) has the median 7/12");
        assert_eq!(slope(&[u64::MAX, 0]), Some(-i128::from(u64::MAX)));
        let long: Vec<u64> = (0..10_000).map(|step| step * 4096).collect();
        assert_eq!(slope(&long), Some(4096));
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!([rounded(5, 2), rounded(-5, 2), rounded(4, 3), rounded(-4, 3), rounded(0, 7)], [3, -3, 1, -1, 0]);
    }
}
