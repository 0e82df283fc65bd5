//! Diagnostics about recordings that were not made the same way.

use std::fmt;

use super::{DeviceDiff, Sides};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{DeviceProfile, Profile};
use crate::replay::History;
use crate::sides::Side;
use crate::stack::Languages;

/// How the frames that both sides of a device record differ, so that equal code has other stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherFrames {
    /// Those of other languages.
    Languages(Sides<Languages>),
    /// Only this side has frames of the forward pass, which anomaly mode records.
    Forward(Side),
}

impl OtherFrames {
    /// The difference between the two sides of a device, if any.
    pub(super) fn between(profiles: &Sides<Profile>, devices: Sides<&DeviceProfile>) -> Option<Self> {
        let languages = devices.map(|device| device.recorded_frames);
        if languages.before != languages.after {
            return Some(Self::Languages(languages));
        }
        let before = devices.before.has_forward_frames(&profiles.before.tables);
        let after = devices.after.has_forward_frames(&profiles.after.tables);
        (before != after).then_some(Self::Forward(if before { Side::Before } else { Side::After }))
    }

    /// What follows for stacks, and what to do.
    fn consequence(self) -> &'static str {
        match self {
            Self::Languages(_) => "stacks do not match. Record both with the same context= and stacks=",
            Self::Forward(_) => {
                "stacks of the backward pass may not match. Turn anomaly mode on, or off, on both sides"
            }
        }
    }
}

impl fmt::Display for OtherFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Languages(Sides { before, after }) => {
                write!(f, "the before records {}, the after {}", before.name(), after.name())
            }
            Self::Forward(side) => write!(f, "only the {side} records frames of the forward pass (anomaly mode)"),
        }
    }
}

/// Adds how the recordings of a device differ.
pub(super) fn compare(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let number = device.ordinal();
    let (Some(before), Some(after)) = (device.index.before, device.index.after) else {
        let side = if device.index.before.is_none() { "before" } else { "after" };
        let message = format!("the {side} lacks this device");
        found.push(Diagnostic::new(Code::DeviceMissing, number, message));
        return;
    };
    let before = &profiles.before.devices[before];
    let after = &profiles.after.devices[after];
    for (side, device) in [("before", before), ("after", after)] {
        if device.at.is_none() {
            let moment = &profiles.after.options.at;
            let message = format!("the {side} has no moment '{moment}': stacks are not compared");
            found.push(Diagnostic::new(Code::NoSuchMoment, number, message));
        }
    }
    if (before.figures.history == History::Recorded) != (after.figures.history == History::Recorded) {
        let side = if before.figures.history == History::Recorded { "before" } else { "after" };
        found.push(Diagnostic::new(
            Code::RecordingsDiffer,
            number,
            format!("only the {side} has a history of allocations; peaks cannot be compared"),
        ));
    } else if before.figures.history == History::Recorded
        && let Some(differ) = device.other_frames
    {
        let message = format!("{differ}; {}", differ.consequence());
        found.push(Diagnostic::new(Code::RecordingsDiffer, number, message));
    }
    if before.duration_us == Some(0) && after.duration_us == Some(0) && before.events == 0 {
        return;
    }
    let fewer = before.figures.allocation_count.min(after.figures.allocation_count);
    let more = before.figures.allocation_count.max(after.figures.allocation_count);
    if fewer > 0 && more / fewer >= 2 {
        found.push(Diagnostic::new(
            Code::LengthsDiffer,
            number,
            format!(
                "the before records {} allocations, the after {}; do both cover the same steps?",
                before.figures.allocation_count, after.figures.allocation_count
            ),
        ));
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
