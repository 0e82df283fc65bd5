//! Growth per step, so that a few odd steps do not decide it.

/// More points than these are thinned out: the slope looks at all pairs.
const MOST_POINTS: usize = 256;

/// The Theil-Sen estimate: the median of the slopes between all pairs of values, which are one step apart each. Rounded
/// to whole bytes; `None` for fewer than two values.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "2^53 bytes are more than any device has"
)]
pub fn slope(values: &[u64]) -> Option<i128> {
    let stride = values.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> =
        values.iter().enumerate().step_by(stride).map(|(at, &value)| (at as f64, value as f64)).collect();
    let mut slopes: Vec<f64> = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (from, low)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|(to, high)| (high - low) / (to - from)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let middle = slopes.len().checked_sub(1)? / 2;
    Some(f64::midpoint(slopes[middle], slopes[slopes.len() / 2]).round() as i128)
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
        assert_eq!(slope(&[1 << 53, 0]), Some(-(1 << 53)));
        let long: Vec<u64> = (0..10_000).map(|step| step * 4096).collect();
        assert_eq!(slope(&long), Some(4096));
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!([rounded(5, 2), rounded(-5, 2), rounded(4, 3), rounded(-4, 3), rounded(0, 7)], [3, -3, 1, -1, 0]);
    }
}
