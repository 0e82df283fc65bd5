//! The figures of several runs of the same code: how far they differ, and the limits that allow it.

use std::iter;

use ptmem::device::DeviceId;
use ptmem::profile::Metric;
use ptmem::units::Limit;
use ptmem::verdict::{GrowthLimit, LimitKind, Target};

/// A proposed limit allows as many times the largest difference between two runs: further runs may differ by more.
/// Needed for benches/identical_work.py.
const ROOM: u64 = 2;

/// Limits to propose, the smallest first.
const SHARES: [&str; 11] = ["0", "0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%", "20%", "50%", "100%"];

/// A metric of a device in every run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) metric: Metric,
    pub(super) device: DeviceId,
    /// Its bytes in each run.
    pub(super) bytes: Vec<u64>,
}

impl Spread {
    pub(super) fn min(&self) -> u64 {
        self.bytes.iter().min().copied().unwrap_or(0)
    }

    pub(super) fn max(&self) -> u64 {
        self.bytes.iter().max().copied().unwrap_or(0)
    }

    /// The middle one; of an even number of runs, between the two.
    pub(super) fn median(&self) -> u64 {
        let mut bytes = self.bytes.clone();
        bytes.sort_unstable();
        let [low, high] = [bytes.len().saturating_sub(1) / 2, bytes.len() / 2].map(|at| bytes.get(at).copied());
        low.unwrap_or(0).midpoint(high.unwrap_or(0))
    }

    /// The largest difference between two runs.
    pub(super) fn width(&self) -> u64 {
        self.max() - self.min()
    }

    /// Whether a limit is about this metric.
    pub(super) fn is_limited_by(&self, limit: &GrowthLimit) -> bool {
        limit.target == self.target()
    }

    pub(super) fn target(&self) -> Target {
        Target { of_host: !self.device.is_device(), ..LimitKind::Metric(self.metric).into() }
    }

    /// Pairs of runs, in either order, of which the second exceeds a limit on growth over the first.
    pub(super) fn exceeding(&self, limit: &Limit) -> usize {
        let pairs = self.bytes.iter().flat_map(|&before| self.bytes.iter().map(move |&after| (before, after)));
        pairs.filter(|&(before, after)| !limit.holds(before, i128::from(after) - i128::from(before))).count()
    }

    /// The number of these pairs.
    pub(super) fn pairs(&self) -> usize {
        self.bytes.len() * self.bytes.len().saturating_sub(1)
    }

    /// Growth that a proposed limit has to allow.
    fn room(&self) -> u64 {
        self.width().saturating_mul(ROOM)
    }

    fn is_calm_with(&self, limit: &str) -> bool {
        Limit::parse(limit).is_ok_and(|limit| limit.holds(self.min(), self.room().into()))
    }
}

/// The smallest limit that is calm on all of these devices and ranks: a share, or a size where a share would be more than all.
pub(super) fn calm_limit(spreads: &[&Spread]) -> String {
    let mut shares = SHARES.iter().filter(|share| spreads.iter().all(|spread| spread.is_calm_with(share)));
    let most = spreads.iter().map(|spread| spread.room()).max().unwrap_or(0);
    shares.next().map_or_else(|| format!("{}MiB", most.div_ceil(1 << 20)), |share| (*share).to_owned())
}

/// The metrics for which a limit is proposed, each with its devices: those that every report shows, and those that have a limit.
pub(super) fn proposed<'s>(spreads: &'s [Spread], limits: &[GrowthLimit]) -> Vec<(Target, Vec<&'s Spread>)> {
    let mut found: Vec<(Target, Vec<&Spread>)> = Vec::new();
    for spread in spreads {
        let is_main = spread.metric.is_main() && spread.device.is_device();
        if !is_main && !limits.iter().any(|limit| spread.is_limited_by(limit)) {
            continue;
        }
        match found.iter_mut().find(|(target, _)| *target == spread.target()) {
            Some((_, spreads)) => spreads.push(spread),
            None => found.extend(iter::once((spread.target(), vec![spread]))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ptmem::verdict::Level;

    use super::*;

    fn spread(metric: Metric, bytes: &[u64]) -> Spread {
        Spread { metric, device: DeviceId::FIRST, bytes: bytes.to_vec() }
    }

    #[test]
    fn figures_of_runs_are_summed_up() {
        let odd = spread(Metric::Peak, &[7, 3, 5]);
        assert_eq!((odd.min(), odd.median(), odd.max(), odd.width(), odd.pairs()), (3, 5, 7, 4, 6));
        let even = spread(Metric::Peak, &[8, 2, 4, 6]);
        assert_eq!((even.median(), even.pairs()), (5, 12));
    }

    #[test]
    fn a_proposed_limit_is_the_smallest_that_twice_the_difference_keeps() {
        for (bytes, expected) in [
            (&[1000, 1000, 1000][..], "0"),
            (&[0, 0], "0"),
            // Twice the difference is exactly one percent.
            (&[100_000, 100_500], "1%"),
            (&[100_000, 100_501], "2%"),
            (&[1_000_000, 1_000_500], "0.1%"),
            // A share of nothing allows nothing.
            (&[0, 3 << 20], "6MiB"),
            (&[1 << 20, (3 << 20) + 1], "5MiB"),
        ] {
            let spread = spread(Metric::Reserved, bytes);
            assert_eq!(calm_limit(&[&spread]), expected, "{bytes:?}");
            assert_eq!(spread.exceeding(&Limit::parse(expected).unwrap()), 0, "{bytes:?}");
        }
        // One limit is for all devices.
        let devices = [spread(Metric::Peak, &[1000, 1001]), spread(Metric::Peak, &[100, 101])];
        assert_eq!(calm_limit(&devices.each_ref()), "2%");
    }

    #[test]
    fn pairs_that_exceed_a_limit_are_counted_in_both_orders() {
        let spread = spread(Metric::Peak, &[100, 103, 110]);
        let exceeding = |limit: &str| spread.exceeding(&Limit::parse(limit).unwrap());
        assert_eq!([exceeding("0"), exceeding("5%"), exceeding("7B"), exceeding("10%")], [3, 2, 1, 0]);
    }

    #[test]
    fn limits_are_proposed_for_what_is_limited_or_always_shown() {
        let host = Spread { device: DeviceId::Host, ..spread(Metric::Peak, &[1, 1]) };
        let spreads = [
            spread(Metric::Peak, &[1, 1]),
            spread(Metric::End, &[1, 1]),
            spread(Metric::Peak, &[2, 2]),
            spread(Metric::Baseline, &[1, 1]),
            host,
        ];
        let names = |limits: &[&str]| -> Vec<(String, usize)> {
            let limits: Vec<_> = limits.iter().map(|text| GrowthLimit::parse(text, Level::Fail).unwrap()).collect();
            proposed(&spreads, &limits).iter().map(|(target, of)| (target.name(), of.len())).collect()
        };
        assert_eq!(names(&[]), [("peak".to_owned(), 2)]);
        let limited = names(&["end=0", "host:peak=5%", "stack=1MiB"]);
        assert_eq!(limited, [("peak".to_owned(), 2), ("end".to_owned(), 1), ("host:peak".to_owned(), 1)]);
    }
}
