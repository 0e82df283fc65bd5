//! Memory that ran out.

use super::{About, Check, Judge, Level, Outcome, Thresholds};
use crate::diff::{DeviceDiff, Diff};
use crate::profile::{DeviceProfile, Profile};
use crate::units::Size;

impl Judge {
    /// Memory that ran out in the after and not in the before is a regression, whatever else is limited.
    pub(super) fn out_of_memory_of_diff(&mut self, diff: &Diff, thresholds: &Thresholds) {
        for device in &diff.devices {
            let before = device.index.before.map(|index| &diff.profiles.before.devices[index]);
            if !before.is_some_and(DeviceProfile::ran_out_of_memory) {
                self.out_of_memory_of_device(&diff.profiles.after, device, thresholds);
            }
        }
    }

    fn out_of_memory_of_device(&mut self, after: &Profile, device: &DeviceDiff, thresholds: &Thresholds) {
        if let Some(index) = device.index.after {
            self.out_of_memory(&after.devices[index], thresholds);
        }
    }

    /// Memory that ran out is more than the device has, whatever the limits say.
    pub(super) fn out_of_memory(&mut self, device: &DeviceProfile, thresholds: &Thresholds) {
        if thresholds.allow_oom || !device.ran_out_of_memory() {
            return;
        }
        self.checks.push(Check {
            device: Some(device.device),
            outcome: Outcome::Exceeded,
            reason: Some(sentence(device)),
            words: Some(sentence(device)),
            ..Check::new(About::OutOfMemory, "oom".to_owned(), "none".to_owned(), Level::Fail)
        });
    }
}

/// The first request that failed: how large it was, where it was made, and what was held.
fn sentence(device: &DeviceProfile) -> String {
    let Some(oom) = device.figures.ooms.first() else { return "out of memory".to_owned() };
    let mut text = format!("out of memory: {} requested", Size(oom.requested));
    if let Some(label) = &device.failed_request {
        text.push_str(&format!(" by {label}"));
    }
    match (oom.allocated, oom.reserved) {
        (Some(allocated), Some(reserved)) => {
            text.push_str(&format!(", with {} allocated and {} reserved", Size(allocated), Size(reserved)));
        }
        (Some(allocated), None) => text.push_str(&format!(", with {} allocated", Size(allocated))),
        (None, _) => {}
    }
    text.push_str(&format!(", {} free on the device", Size(oom.device_free)));
    match device.figures.ooms.len() {
        0 | 1 => {}
        times => text.push_str(&format!("; {times} requests failed")),
    }
    text
}
