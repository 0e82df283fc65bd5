//! How the runs differ that two snapshots were recorded from.

use std::collections::BTreeMap;

use super::{Diff, Sides};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{DeviceProfile, Profile};
use crate::snapshot::{OwnPackage, RunFacts};

/// The most versions that are told in a line.
const MOST_TOLD: usize = 12;

/// Adds how the versions differ, and whether both ran the same code.
pub(super) fn compare(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let (Some(before), Some(after)) = (&profiles.before.run, &profiles.after.run) else { return };
    let changed = changed_versions(before, after);
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
    match (whole_steps(&profiles.before), whole_steps(&profiles.after)) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    }
}

/// The number of steps that a profile holds whole, where it holds some and is not cut short.
fn whole_steps(profile: &Profile) -> Option<u64> {
    let run = profile.run.as_ref().filter(|run| run.failure().is_none())?;
    let is_cut = profile.diagnostics.iter().any(|found| found.code == Code::HistoryTruncated)
        || profile.devices.iter().any(DeviceProfile::ran_out_of_memory);
    Some(run.steps?.count()).filter(|&count| count > 0 && !is_cut)
}

/// The versions that are not the same, those of packages that one side lacks left out.
fn changed_versions(before: &RunFacts, after: &RunFacts) -> Vec<String> {
    let old: BTreeMap<&str, &str> =
        before.versions.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
    let pairs = after.versions.iter().filter_map(|(name, new)| Some((name, *old.get(name.as_str())?, new)));
    let changed = pairs.filter(|(_, old, new)| old != new).take(MOST_TOLD);
    changed.map(|(name, old, new)| format!("{name} {old} → {new}")).collect()
}

/// The reason why both sides ran the same code of a package although another is checked out, if they did.
fn same_code(before: &RunFacts, after: &RunFacts) -> Option<String> {
    let (old, new) = (before.commit.as_ref()?, after.commit.as_ref()?);
    let pairs = after.packages.iter().filter_map(|package| Some((find(before, &package.name)?, package)));
    // Where each side ran what is checked out there, the commit changed nothing in the package.
    let mut same = pairs.filter(|(old, new)| old.digest == new.digest && !(old.same && new.same));
    let (one, other) = same.next().filter(|_| old != new)?;
    let from = if one.same { &other.path } else { &one.path };
    Some(format!(
        "both sides ran the same code of {}, which was imported from {from}, although their commits differ",
        other.name
    ))
}

fn find<'r>(run: &'r RunFacts, name: &str) -> Option<&'r OwnPackage> {
    run.packages.iter().find(|package| package.name == name)
}

impl Diff {
    /// The reason why both sides ran the same code although their commits differ, if they did.
    #[must_use]
    pub(crate) fn same_code(&self) -> Option<String> {
        same_code(self.profiles.before.run.as_ref()?, self.profiles.after.run.as_ref()?)
    }
}
