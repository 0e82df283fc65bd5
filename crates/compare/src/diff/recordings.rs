//! Diagnostics about recordings that were not made the same way.

use super::{DeviceDiff, Sides, devices};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{DeviceProfile, Profile};
use crate::replay::History;
use crate::sides::Side;

/// How the frames that both sides of a device record differ, if they do: equal code has other stacks then.
pub(super) fn other_frames(profiles: &Sides<Profile>, devices: Sides<&DeviceProfile>) -> Option<String> {
    let Sides { before, after } = devices.map(|device| device.recorded_frames);
    if before != after {
        return Some(format!("the before records {}, the after {}", before.name(), after.name()));
    }
    let of_before = devices.before.has_forward_frames(&profiles.before.tables);
    let of_after = devices.after.has_forward_frames(&profiles.after.tables);
    let side = if of_before { Side::Before } else { Side::After };
    (of_before != of_after).then(|| format!("only the {side} records frames of the forward pass (anomaly mode)"))
}

/// Adds how the recordings of a device differ.
pub(super) fn compare(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let number = device.ordinal();
    let Some(devices) = devices(profiles, device.index).both() else {
        let side = if device.index.before.is_none() { Side::Before } else { Side::After };
        found.push(Diagnostic::new(Code::DeviceMissing, number, format!("the {side} lacks this device")));
        return;
    };
    for (side, _) in devices.each().into_iter().filter(|(_, device)| device.at.is_none()) {
        let moment = &profiles.after.options.at;
        let message = format!("the {side} has no moment '{moment}': stacks are not compared");
        found.push(Diagnostic::new(Code::NoSuchMoment, number, message));
    }
    let is_recorded = devices.map(|device| device.figures.history == History::Recorded);
    let message = match (is_recorded.before, is_recorded.after) {
        (true, true) => device
            .other_frames
            .as_ref()
            .map(|differ| format!("{differ}; use the same context=, stacks= and anomaly mode on both sides")),
        (false, false) => None,
        (before, _) => {
            let side = if before { Side::Before } else { Side::After };
            Some(format!("only the {side} has a history of allocations; peaks cannot be compared"))
        }
    };
    found.extend(message.map(|message| Diagnostic::new(Code::RecordingsDiffer, number, message)));
    let Sides { before, after } = devices.map(|device| device.figures.allocation_count);
    if before.min(after) > 0 && before.max(after) / before.min(after) >= 2 {
        let message =
            format!("the before records {before} allocations, the after {after}; do both cover the same steps?",);
        found.push(Diagnostic::new(Code::LengthsDiffer, number, message));
    }
}

/// Adds how the settings of the allocator differ.
pub(super) fn compare_settings(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let Sides { before, after } = profiles.map(|profile| &profile.settings);
    if !before.present || !after.present {
        return;
    }
    // A key that only one release writes is no difference in what was set.
    let differing: Vec<_> = before
        .all
        .iter()
        .filter_map(|(key, old)| {
            let new = after.all.get(key)?;
            (old != new).then(|| format!("{key}: '{old}' before, '{new}' after"))
        })
        .collect();
    if !differing.is_empty() {
        let message = format!("allocator settings differ ({})", differing.join("; "));
        found.push(Diagnostic::new(Code::SettingsDiffer, None, message));
    }
}
