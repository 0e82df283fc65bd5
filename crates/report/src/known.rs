//! Figures of machine formats: `None` if a figure or its bound is unknown.

use ptmem_base::sides::Sides;
use ptmem_compare::diff::{Change, DeviceDiff};
use ptmem_judge::verdict::Comparison;
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};
use ptmem_trace::replay::{Counter, HistoryKind};

/// A counter with those of its figures that are known. Without a history its baseline and its peak are the state at the dump.
pub(super) fn counter(counter: &Counter, history: HistoryKind) -> Counter {
    let baseline = counter.baseline.filter(|_| history.has_peaks() && counter.baseline_error.is_some());
    let peak = counter.peak.filter(|_| history.has_peaks() && counter.peak_error.is_some());
    Counter {
        baseline,
        peak,
        peak_at: peak.and(counter.peak_at),
        baseline_error: baseline.and(counter.baseline_error),
        peak_error: peak.and(counter.peak_error),
        ..*counter
    }
}

/// The value of a metric.
pub(super) fn value(metric: Metric, device: &DeviceProfile) -> Option<u64> {
    metric.value(device).filter(|_| metric.max_error(device).is_some())
}

/// The change of the peak of a device of a comparison.
pub(super) fn peak(comparison: &Comparison, device: Option<&DeviceDiff>) -> Change {
    device.map(|device| change(Metric::Peak, device, &comparison.diff.profiles)).unwrap_or_default()
}

/// The change of a metric between two devices.
pub(super) fn change(metric: Metric, device: &DeviceDiff, profiles: &Sides<Profile>) -> Change {
    Change {
        before: device.index.before.and_then(|index| value(metric, &profiles.before.devices[index])),
        after: device.index.after.and_then(|index| value(metric, &profiles.after.devices[index])),
    }
}
