//! Diagnostics about recordings that were not made the same way: with other settings, or of other versions
//! or code.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Side;
use ptmem_base::text::{count, thousands};
use ptmem_base::units::{Delta, GivenSize};
use ptmem_snapshot::snapshot::{FrameId, OwnPackage, RunFacts};
use ptmem_trace::profile::{DeviceProfile, GroupMember, Profile};

use super::differences::devices;
use super::{DeviceDiff, Diff};
use ptmem_base::sides::Sides;

/// How the frames that both sides of a device record differ, if they do: equal code has other stacks then.
pub(super) fn other_frames(profiles: &Sides<Profile>, devices: Sides<&DeviceProfile>) -> Option<String> {
    // Without allocations, none would have been recorded.
    if devices.each().into_iter().any(|(_, device)| device.allocates_nothing()) {
        return None;
    }
    let Sides { before, after } = devices.map(|device| device.recorded_frames);
    if before != after {
        return Some(format!("the before records {}, the after {}", before.name(), after.name()));
    }
    let of_before = devices.before.has_forward_frames(&profiles.before.tables);
    let of_after = devices.after.has_forward_frames(&profiles.after.tables);
    let side = if of_before { Side::Before } else { Side::After };
    (of_before != of_after).then(|| format!("only the {side} records frames of the forward pass (anomaly mode)"))
}

/// Why the frames of a device differ, or what to do about it.
fn cause_of_other_frames(profiles: &Sides<Profile>, devices: Sides<&DeviceProfile>) -> &'static str {
    let has_cpp = devices.map(|device| device.recorded_frames.cpp);
    let without = if has_cpp.before { &profiles.after } else { &profiles.before };
    if has_cpp.before != has_cpp.after && without.run.as_ref().is_some_and(is_of_oldest_pytorch) {
        "PyTorch 2.0 records no C++ frames"
    } else {
        "use the same context=, stacks= and anomaly mode on both sides"
    }
}

fn is_of_oldest_pytorch(run: &RunFacts) -> bool {
    run.versions.iter().any(|(name, version)| name == "torch" && version.starts_with("2.0."))
}

/// Adds how the recordings of a device differ.
pub(super) fn compare(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let number = device.id();
    let Some(devices) = devices(profiles, device.index).both() else {
        if device.is_host() {
            // Most recordings lack pinned host memory, and only a limit that names it asks for it.
            return;
        }
        let side = if device.index.before.is_none() { Side::Before } else { Side::After };
        // A device on which only requests failed is not missed.
        if devices(profiles, device.index).of(side.other()).is_some_and(DeviceProfile::held_memory) {
            found.push(Diagnostic::new(Code::DeviceMissing, number, format!("the {side} lacks this device")));
        }
        return;
    };
    for (side, _) in devices.each().into_iter().filter(|(_, device)| device.at.is_none() && !device.is_numbers()) {
        let moment = &profiles.after.options.at;
        let message = format!("the {side} has no moment '{moment}': stacks are not compared");
        found.push(Diagnostic::new(Code::NoSuchMoment, number, message));
    }
    let is_recorded = devices.map(|device| device.figures.history.has_peaks());
    let message = match (is_recorded.before, is_recorded.after) {
        // Figures have no frames that could differ.
        (true, true) if devices.before.is_numbers() || devices.after.is_numbers() => None,
        (true, true) => {
            device.other_frames.as_ref().map(|differ| format!("{differ}; {}", cause_of_other_frames(profiles, devices)))
        }
        (false, false) => None,
        (before, _) => {
            let side = if before { Side::Before } else { Side::After };
            Some(format!("only the {side} has a history of allocations; peaks cannot be compared"))
        }
    };
    let other_card = other_cards(profiles, device).map(|differ| format!("{differ}; record both on the same card"));
    let messages = message.into_iter().chain(other_card);
    found.extend(messages.map(|message| Diagnostic::new(Code::RecordingsDiffer, number, message)));
    let Sides { before, after } = devices.map(|device| device.figures.allocation_count);
    if before.min(after) > 0 && before.max(after) / before.min(after) >= 2 {
        let recorded = count(before, "allocation", "allocations");
        let after = thousands(after);
        let message = format!("the before records {recorded}, the after {after}; do both cover the same steps?");
        found.push(Diagnostic::new(Code::LengthsDiffer, number, message));
    }
}

/// The cards on which a device was recorded, if both are known and of different kinds: workspaces, and what kernels need, differ.
fn other_cards(profiles: &Sides<Profile>, device: &DeviceDiff) -> Option<String> {
    let cards = profiles.map(|profile| profile.run.as_ref()).zip(device.device).map(|(run, id)| {
        let card = (*run)?.cards.iter().find(|card| Some(card.device) == *id)?;
        Some(card.kind()).filter(|(name, ..)| !name.is_empty())
    });
    let cards = cards.both().filter(|cards| cards.before != cards.after)?;
    let Sides { before, after } = cards.map(|(name, _, processors)| format!("{name} ({processors} multiprocessors)"));
    Some(format!("the before was recorded on {before}, the after on {after}"))
}

/// How much was computed on simulated GPUs, if that is known and differs: sizes can follow from computed values.
fn other_computation(profiles: &Sides<Profile>) -> Option<String> {
    let computed = profiles.map(|profile| profile.run.as_ref()?.compute).both()?;
    let Sides { before, after } = computed.map(|&bytes| match bytes {
        ALL_COMPUTED.. => "all".to_owned(),
        bytes => GivenSize(bytes).to_string(),
    });
    (before != after)
        .then(|| format!("the before was recorded with --compute {before}, the after with --compute {after}"))
}

/// Adds how recordings on simulated GPUs differ.
pub(super) fn compare_computation(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let differ = other_computation(profiles);
    let message = differ.map(|differ| format!("{differ}; record both with the same"));
    found.extend(message.map(|message| Diagnostic::new(Code::RecordingsDiffer, None, message)));
}

/// The least limit with which simulated GPUs compute whatever they can.
const ALL_COMPUTED: u64 = 1 << 63;

/// Adds how the settings of the allocator differ.
pub(super) fn compare_settings(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let Sides { before, after } = profiles.map(|profile| &profile.settings);
    if !before.present || !after.present {
        return;
    }
    // A key that only one release writes is not a difference between settings.
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

/// Maximum number of versions listed in a line.
const MOST_TOLD: usize = 12;

/// Adds how the versions differ, and whether both ran the same code.
pub(super) fn compare_runs(profiles: &Sides<Profile>, devices: &[DeviceDiff], found: &mut Vec<Diagnostic>) {
    let (Some(before), Some(after)) = (&profiles.before.run, &profiles.after.run) else { return };
    let changed = changed_versions(before, after).into_iter().take(MOST_TOLD).map(|(name, of)| {
        let change = format!("{name} {} → {}", of.before, of.after);
        match through(profiles, devices, &name) {
            0 => change,
            delta => format!("{change} (stacks through its code: {})", Delta(delta)),
        }
    });
    let changed: Vec<_> = changed.collect();
    if !changed.is_empty() {
        found.push(Diagnostic::new(Code::VersionsDiffer, None, changed.join(", ")));
    }
    if let Some(reason) = same_code(before, after) {
        let message = format!("{reason}; install each checkout before it is recorded, or put it first on PYTHONPATH");
        found.push(Diagnostic::new(Code::SameCode, None, message));
    }
}

/// True if both sides are known to hold equally many steps, each of them whole: then neither lacks a part of one.
pub(super) fn have_same_whole_steps(profiles: &Sides<Profile>) -> bool {
    profiles.map(whole_steps).both().is_some_and(|steps| steps.before == steps.after)
}

/// The number of steps that a profile holds whole, where it holds some and is not cut short.
fn whole_steps(profile: &Profile) -> Option<u64> {
    let run = profile.run.as_ref().filter(|run| run.failure().is_none())?;
    let is_cut = profile.diagnostics.iter().any(|found| found.code == Code::HistoryTruncated)
        || profile.devices.iter().any(DeviceProfile::ran_out_of_memory);
    Some(run.steps?.count()).filter(|&count| count > 0 && !is_cut)
}

/// The versions that are not the same, those of packages that one side lacks left out.
fn changed_versions(before: &RunFacts, after: &RunFacts) -> Vec<(String, Sides<String>)> {
    let old: BTreeMap<&str, &str> =
        before.versions.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
    let pairs = after.versions.iter().filter_map(|(name, new)| Some((name, *old.get(name.as_str())?, new)));
    let changed = pairs.filter(|(_, old, new)| old != new);
    changed.map(|(name, old, new)| (name.clone(), Sides { before: old.to_owned(), after: new.clone() })).collect()
}

/// The part of the rows' change that stacks through an installed package make up, on all devices. Nearly all go through PyTorch:
/// for it, as for Python, that says nothing.
fn through(profiles: &Sides<Profile>, devices: &[DeviceDiff], package: &str) -> i128 {
    if ["torch", "python"].contains(&package) {
        return 0;
    }
    let pairs = || devices.iter().flat_map(|device| &device.rows).flat_map(|row| &row.members);
    held_through(&profiles.after, package, pairs().filter_map(|pair| pair.after))
        - held_through(&profiles.before, package, pairs().filter_map(|pair| pair.before))
}

/// The bytes of stacks of a side that go through an installed package.
fn held_through(profile: &Profile, package: &str, members: impl Iterator<Item = GroupMember>) -> i128 {
    let code = profile.code();
    let frames = (0..code.tables().frames().len()).map(FrameId::from_index);
    let is_of: Vec<bool> = frames.map(|frame| is_installed(code.file(frame), package)).collect();
    let through = members.filter(|member| code.python(member.stack).any(|frame| is_of[frame.index()]));
    through.map(|member| i128::from(member.at.bytes)).sum()
}

/// True for a file of an installed package.
fn is_installed(file: &str, package: &str) -> bool {
    let path = file.replace('\\', "/");
    let inside = path.split_once("site-packages/").or_else(|| path.split_once("dist-packages/"));
    inside.is_some_and(|(_, path)| path.split(['/', '.']).next() == Some(package))
}

/// The reason why both sides ran the same code of a package although another is checked out, if they did.
fn same_code(before: &RunFacts, after: &RunFacts) -> Option<String> {
    let old = before.commit.as_ref()?;
    let new = after.commit.as_ref()?;
    let known: BTreeMap<&str, &OwnPackage> =
        before.packages.iter().rev().map(|package| (package.name.as_str(), package)).collect();
    let pairs = after.packages.iter().filter_map(|package| Some((*known.get(package.name.as_str())?, package)));
    // Where each side ran what is checked out there, the commit changed nothing in the package.
    let mut same = pairs.filter(|(old, new)| old.digest == new.digest && !(old.same && new.same));
    let (one, other) = same.next().filter(|_| old != new)?;
    let from = if one.same { &other.path } else { &one.path };
    Some(format!(
        "both sides ran the same code of {}, which was imported from {from}, although their commits differ",
        other.name
    ))
}

impl Diff {
    /// How the recordings of a device differ in what can change its figures beside the program: the card, or what simulated GPUs
    /// computed.
    pub fn recorded_otherwise(&self, device: &DeviceDiff) -> Option<String> {
        other_cards(&self.profiles, device).or_else(|| other_computation(&self.profiles))
    }

    /// The packages whose versions differ between both recordings.
    pub(crate) fn changed_versions(&self) -> Vec<(String, Sides<String>)> {
        let Sides { before, after } = &self.profiles;
        let runs = before.run.as_ref().zip(after.run.as_ref());
        runs.map(|(before, after)| changed_versions(before, after)).unwrap_or_default()
    }

    /// The reason why both sides ran the same code although their commits differ, if they did.
    pub fn same_code(&self) -> Option<String> {
        same_code(self.profiles.before.run.as_ref()?, self.profiles.after.run.as_ref()?)
    }
}
