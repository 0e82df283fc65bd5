//! PyTorch's own counters, if the recorder added them: they determine sizes that the events only bound, and every
//! figure is checked against them.

use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::DeviceCounters;

use super::lifetimes::Lifetimes;
use super::sizes::BlockSizes;
use super::{Counter, Figures, HistoryKind};
use crate::trace::Uncertainty;

/// Fits the sizes of blocks that are older than the history to what PyTorch counted where it begins.
pub(super) fn fit_older(stated: &DeviceCounters, sizes: &mut BlockSizes, lifetimes: &mut Lifetimes) {
    let Some(&active) = stated.start.current.get("active_bytes") else { return };
    let Lifetimes { older, allocations, .. } = lifetimes;
    let counted: i128 = older.iter().map(|&index| i128::from(allocations[index as usize].bytes)).sum();
    let mut uncertain: Vec<(u32, Uncertainty)> =
        older.iter().filter_map(|&index| Some((index, *sizes.spreads.get(&index)?))).collect();
    let room = sum(&uncertain);
    let mut rest = i128::from(active) - counted;
    // Otherwise they contradict each other, which the comparison of the figures reports.
    if rest < -i128::from(room.below) || rest > i128::from(room.above) {
        return;
    }
    for (index, spread) in &mut uncertain {
        let part = rest.clamp(-i128::from(spread.below), i128::from(spread.above));
        rest -= part;
        let bytes = &mut allocations[*index as usize].bytes;
        *bytes = added(*bytes, part);
        *spread = Uncertainty { below: added(spread.below, part), above: added(spread.above, -part) };
    }
    // Their sum is certain: one can be larger only if others are smaller by as much.
    let room = sum(&uncertain);
    for (index, Uncertainty { below, above }) in uncertain {
        let spread = Uncertainty { below: below.min(room.above - above), above: above.min(room.below - below) };
        sizes.spreads.insert(index, spread);
    }
    sizes.spreads.retain(|_, spread| *spread != Uncertainty::default());
}

fn sum(uncertain: &[(u32, Uncertainty)]) -> Uncertainty {
    uncertain.iter().fold(Uncertainty::default(), |sum, (_, spread)| sum.plus(*spread))
}

/// A number with a part added that keeps it within its range.
fn added(number: u64, part: i128) -> u64 {
    u64::try_from(i128::from(number) + part).unwrap_or(number)
}

/// Sets the bounds of the figures by the counters; the contradictions, in words. `raises` are the bytes by which the peaks of
/// the counters are higher, by [`Measure`](crate::trace::Measure): of allocations that the figures leave out.
pub(super) fn compare(stated: &DeviceCounters, figures: &mut Figures, raises: [u64; 4]) -> Vec<String> {
    if figures.history != HistoryKind::Recorded {
        return Vec::new();
    }
    let counters = [
        ("allocated", &mut figures.allocated),
        ("active", &mut figures.active),
        ("requested", &mut figures.requested),
        ("reserved", &mut figures.reserved),
    ];
    let known = counters.into_iter().zip(raises).filter(|((_, counter), _)| !counter.is_least);
    let narrowed = known.filter_map(|((name, counter), raise)| {
        let stated = StatedCounter::of(stated, &format!("{name}_bytes"))?;
        Some(format!("{name} {}", stated.narrow(counter, raise)?))
    });
    narrowed.collect()
}

/// One of PyTorch's counters.
struct StatedCounter {
    start: u64,
    end: u64,
    peak_at_start: u64,
    peak_at_end: u64,
}

impl StatedCounter {
    fn of(counters: &DeviceCounters, key: &str) -> Option<Self> {
        Some(Self {
            start: *counters.start.current.get(key)?,
            end: *counters.dump.current.get(key)?,
            peak_at_start: *counters.start.peak.get(key)?,
            peak_at_end: *counters.dump.peak.get(key)?,
        })
    }

    /// Sets the bounds of a figure to its distance from the counter; the first contradiction in words, if there is one.
    fn narrow(&self, counter: &mut Counter, raise: u64) -> Option<String> {
        let end = counter.end.filter(|end| *end != self.end).map(|end| words("at the dump", self.end, end));
        let baseline = self.narrow_baseline(counter);
        let peak = self.narrow_peak(counter, raise);
        end.or(baseline).or(peak)
    }

    fn narrow_baseline(&self, counter: &mut Counter) -> Option<String> {
        let (baseline, error) = counter.baseline.zip(counter.baseline_error)?;
        let off = baseline.abs_diff(self.start);
        counter.baseline_error = Some(off);
        (off > error).then(|| words("at the start", self.start, baseline))
    }

    fn narrow_peak(&self, counter: &mut Counter, raise: u64) -> Option<String> {
        let (own, error) = counter.peak.zip(counter.peak_error)?;
        let peak = own.saturating_add(raise);
        let off = peak.abs_diff(self.peak_at_end);
        // A peak that did not rise was before the recording, and one that fell was reset by the program.
        let is_of_recording = self.peak_at_end > self.peak_at_start && (off <= error || peak < self.peak_at_end);
        counter.peak_error = Some(if is_of_recording { off } else { error });
        (is_of_recording && off > error).then(|| words("at the peak", self.peak_at_end, peak))
    }
}

fn words(moment: &str, counted: u64, computed: u64) -> String {
    format!(
        "{moment}: {} ({counted} B) by PyTorch's counter, {} ({computed} B) by the history",
        Size(counted),
        Size(computed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(baseline: u64, peak: u64, error: u64) -> Counter {
        Counter {
            baseline: Some(baseline),
            peak: Some(peak),
            peak_at: None,
            end: Some(50),
            baseline_error: Some(error),
            peak_error: Some(error),
            is_least: false,
        }
    }

    fn stated(start: u64, peak_at_start: u64, peak_at_end: u64) -> StatedCounter {
        StatedCounter { start, end: 50, peak_at_start, peak_at_end }
    }

    #[test]
    fn counters_narrow_bounds_or_contradict_them() {
        let mut exact = counter(100, 200, 10);
        assert_eq!(stated(100, 150, 200).narrow(&mut exact, 0), None);
        assert_eq!((exact.baseline_error, exact.peak_error), (Some(0), Some(0)));
        let mut near = counter(100, 200, 10);
        assert_eq!(stated(104, 300, 300).narrow(&mut near, 0), None, "the peak is before the recording");
        assert_eq!((near.baseline_error, near.peak_error), (Some(4), Some(10)));
        for (stated, moment) in [
            (stated(111, 150, 200), "at the start"),
            (stated(100, 150, 211), "at the peak"),
            (StatedCounter { end: 51, ..stated(100, 150, 200) }, "at the dump"),
        ] {
            let mut figures = counter(100, 200, 10);
            let found = stated.narrow(&mut figures, 0).unwrap();
            assert!(found.starts_with(moment), "{found}");
            let is_within = 100_u64.abs_diff(stated.start) <= figures.baseline_error.unwrap();
            assert!(is_within, "{moment}: a baseline that the counter contradicts is not exact");
        }
        // The program reset the peak in between.
        assert_eq!(stated(100, 150, 160).narrow(&mut counter(100, 200, 10), 0), None);
    }
}
