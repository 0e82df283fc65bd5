//! Figures of machine formats: `None` if a figure or its bound is unknown.

use ptmem_base::sides::Sides;
use ptmem_compare::diff::{Change, DeviceDiff};
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};
use ptmem_trace::replay::{Counter, HistoryKind};

/// The baseline and the peak of a counter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownCounter {
    pub(super) baseline: Option<u64>,
    pub(super) peak: Option<u64>,
    /// The bound of their error.
    pub(super) max_error: Option<u64>,
}

impl KnownCounter {
    /// Without a history both are the state at the dump, which is not a peak or baseline.
    pub(super) fn new(counter: &Counter, history: HistoryKind) -> Self {
        if !history.has_peaks() {
            return Self::default();
        }
        Self {
            baseline: counter.baseline.filter(|_| counter.baseline_error.is_some()),
            peak: counter.peak.filter(|_| counter.peak_error.is_some()),
            max_error: counter.max_error(),
        }
    }
}

/// The value of a metric.
pub(super) fn value(metric: Metric, device: &DeviceProfile) -> Option<u64> {
    metric.value(device).filter(|_| metric.max_error(device).is_some())
}

/// The change of a metric between two devices.
pub(super) fn change(metric: Metric, device: &DeviceDiff, profiles: &Sides<Profile>) -> Change {
    Change {
        before: device.index.before.and_then(|index| value(metric, &profiles.before.devices[index])),
        after: device.index.after.and_then(|index| value(metric, &profiles.after.devices[index])),
    }
}
