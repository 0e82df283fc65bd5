//! Reserved memory rises in stairs: by whole segments, and not in every step.

use ptmem_trace::phase::steps::FEWEST_CHANGES;

use super::{Growing, Trend};

/// Falls add up to at most this part of the gain. Needed for benches/random_programs.py.
const FALLS: u64 = 5;

/// The later half gains at least this part of what the earlier half does: a warm-up ends. Needed for the same.
const PACE: u64 = 2;

impl Trend {
    /// The trend of values that rise in stairs and go on doing so; `None` if they do not. Growth counts if it is at least
    /// `least` bytes.
    pub(crate) fn of_stairs(values: &[u64], least: u64) -> Option<Self> {
        let lowest = values.iter().min()?;
        let since = values.iter().rposition(|value| value == lowest)?;
        let (before, tail) = values.split_at(since);
        let gained = tail.last()? - lowest;
        let is_new = gained_since(before.iter().max().unwrap_or(lowest), tail) * 2 >= gained;
        let is_growth = gained >= least.max(1)
            && is_new
            && falls(tail).saturating_mul(FALLS) <= gained
            && goes_on(tail)
            && keeps_pace(tail);
        let trend = Self::of_tail(since, values)?;
        let slope = i128::from(gained) / trend.steps.max(1) as i128;
        is_growth.then_some(Self { growth: Growing::Yes, slope: Some(slope), ..trend })
    }
}

/// Bytes by which the last value exceeds an earlier one.
fn gained_since(earlier: &u64, values: &[u64]) -> u64 {
    values.last().map_or(0, |last| last.saturating_sub(*earlier))
}

/// The sum of all falls from one value to the next.
fn falls(values: &[u64]) -> u64 {
    values.windows(2).map(|pair| pair[0].saturating_sub(pair[1])).fold(0, u64::saturating_add)
}

/// Whether values have risen often enough, and have not rested longer than between two rises.
fn goes_on(values: &[u64]) -> bool {
    let rises: Vec<usize> = (1..values.len()).filter(|&to| values[to] > values[to - 1]).collect();
    let Some(&last) = rises.last() else { return false };
    let longest = rises.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    rises.len() >= FEWEST_CHANGES && values.len() - 1 - last <= longest
}

/// Whether the later half of values rises about as much as the earlier half.
fn keeps_pace(values: &[u64]) -> bool {
    let middle = values.len() / 2;
    let (earlier, later) = (&values[..=middle], &values[middle..]);
    gained_since(&later[0], later).saturating_mul(PACE) >= gained_since(&earlier[0], earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The index since which values in MiB rise in stairs.
    fn climbs(values: &[u64]) -> Option<usize> {
        let values: Vec<u64> = values.iter().map(|value| value * MIB).collect();
        Trend::of_stairs(&values, MIB).map(|trend| trend.since)
    }

    #[test]
    fn stairs_that_go_on_are_growth() {
        assert_eq!(climbs(&[1880, 1880, 1880, 3830, 3830, 3830, 5810, 5810, 5810, 7790, 7790, 7790]), Some(2));
        assert_eq!(climbs(&[10, 10, 10, 10, 10, 10, 12, 14, 14, 16, 18, 18]), Some(5), "after a rest");
        assert_eq!(climbs(&[10, 12, 14, 13, 16, 18, 18, 20]), Some(0), "with a small fall");
        assert_eq!(
            climbs(&[80, 10, 30, 30, 90, 90, 150, 150, 210]),
            Some(1),
            "beyond what it was before it was emptied"
        );
    }

    #[test]
    fn a_warm_up_that_ends_is_no_growth() {
        assert_eq!(climbs(&[10, 20, 30, 35, 35, 35, 35, 35]), None, "it rests");
        assert_eq!(climbs(&[10, 40, 60, 70, 76, 79, 80, 80, 81]), None, "it slows down");
        assert_eq!(climbs(&[10, 10, 20, 20, 20, 30, 30, 30]), None, "two steps up");
        assert_eq!(climbs(&[10, 20, 30, 40, 10, 20, 30, 40]), None, "emptied again and again");
        assert_eq!(climbs(&[10, 30, 12, 32, 14, 34, 16, 36]), None, "up and down");
        assert_eq!(climbs(&[10; 8]), None);
        assert_eq!(climbs(&[]), None);
    }
}
