//! The change of the peak in a comparison without limits: a verdict that gated nothing says what grew all the same.

use std::fmt;

use super::growth::has_rows_at_peak;
use super::judge::no_history;
use super::words::change;
use crate::diff::{DeviceDiff, Diff, RowKind};
use crate::profile::{DeviceProfile, Metric};
use crate::sides::{Side, Sides};
use crate::units::Delta;

/// The change of the peak of the device that grew most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakChange {
    /// The device.
    pub device: Option<u32>,
    /// The peak on both sides.
    pub peak: Sides<u64>,
    /// The row that grew most, with the bytes that it gained.
    pub most: Option<(String, i128)>,
}

impl PeakChange {
    /// The change in a comparison; none where no device has a known peak on both sides.
    pub(super) fn of(diff: &Diff) -> Option<Self> {
        let changes = diff.devices.iter().filter_map(|device| Self::of_device(diff, device));
        changes.max_by_key(Self::delta)
    }

    fn of_device(diff: &Diff, device: &DeviceDiff) -> Option<Self> {
        let peak = Sides {
            before: known_peak(&diff.profiles.before.devices[device.index.before?], Side::Before)?,
            after: known_peak(&diff.profiles.after.devices[device.index.after?], Side::After)?,
        };
        let rows = device.rows.iter().filter(|row| matches!(row.kind, RowKind::Stack | RowKind::Bucket(_)));
        let most = rows.max_by_key(|row| row.delta()).filter(|row| row.delta() > 0 && has_rows_at_peak(diff));
        let most = most.map(|row| (row.label.clone(), row.delta()));
        Some(Self { device: device.ordinal(), peak, most })
    }

    /// Bytes gained.
    pub(super) fn delta(&self) -> i128 {
        i128::from(self.peak.after) - i128::from(self.peak.before)
    }
}

/// The peak of a side, where its recording tells it.
fn known_peak(device: &DeviceProfile, side: Side) -> Option<u64> {
    let is_known = no_history(device, side.name()).is_none() && Metric::Peak.max_error(device).is_some();
    Metric::Peak.value(device).filter(|_| is_known)
}

impl fmt::Display for PeakChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peak {}", change(self.delta(), Some(self.peak.before)))?;
        match &self.most {
            Some((label, delta)) if self.delta() > 0 => write!(f, ", most by {label} ({})", Delta(*delta)),
            Some(_) | None => Ok(()),
        }
    }
}
