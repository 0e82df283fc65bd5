//! Limits on the memory of modules, each with all its parts.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_compare::diff::{Diff, Sides};
use ptmem_trace::profile::{DeviceProfile, Profile};
use ptmem_trace::stack::GroupBy;
use ptmem_trace::tags::HOW_TO_RECORD;

use super::growth::Gated;
use super::maxima::Limited;
use super::{About, Check, Growth, Judge, Maximum, Outcome, Thresholds};

impl Judge {
    /// A check for each module that exceeds the limit, or one that passes.
    pub(super) fn growth_of_modules(&mut self, gated: &Gated<'_>) {
        let Sides { before, after } = &gated.diff.profiles;
        let modules =
            Sides { before: modules_of(before, gated.sides.before), after: modules_of(after, gated.sides.after) };
        if let Some((side, _)) = modules.each().into_iter().find(|(_, modules)| modules.is_empty()) {
            return self.cannot_tell(gated.check(), format!("the {side} has no modules: {HOW_TO_RECORD}"));
        }
        let checked = self.checks.len();
        let names: BTreeSet<&String> = modules.before.keys().chain(modules.after.keys()).collect();
        for name in names.into_iter().filter(|name| gated.growth.target.selects(name)) {
            let held = modules.map(|modules| modules.get(name).copied().unwrap_or(0));
            if gated.is_growth(held.before, held.delta()) {
                let mut check = Check { scope: Some(name.clone()), ..gated.check() };
                check.compare(held.map(|bytes| Some(*bytes)), &gated.growth.limit);
                gated.budget().accept_named(&mut check, name);
                self.add(check);
            }
        }
        self.or_pass(checked, gated.check());
    }

    /// A pattern that matches no module on any device checks nothing.
    pub(super) fn unmatched_module(&mut self, diff: &Diff, growth: &Growth, thresholds: &Thresholds) {
        let Some(pattern) = growth.target.pattern.as_ref().filter(|_| growth.target.about == About::Modules) else {
            return;
        };
        let profiles = [&diff.profiles.before, &diff.profiles.after];
        let names: BTreeSet<String> = profiles.into_iter().flat_map(module_names).collect();
        if !names.is_empty() && !names.iter().any(|name| pattern.matches(name)) {
            let near = pattern.unmatched("module", names.iter().map(String::as_str));
            self.unmatched(growth.check(), thresholds, format!("the pattern matches no module on either side{near}"));
        }
    }

    /// A check for each module that holds more than the limit, or one that passes.
    pub(super) fn maximum_of_modules(
        &mut self,
        limited: &Limited<'_>,
        device: &DeviceProfile,
        maximum: &Maximum,
        check: Check,
    ) {
        let Some(pattern) = &maximum.target.pattern else { return };
        let modules = modules_of(limited.profile, device);
        if modules.is_empty() {
            return self.cannot_tell(check, format!("there are no modules: {HOW_TO_RECORD}"));
        }
        if !modules.keys().any(|name| pattern.matches(name)) {
            if limited.thresholds.may_match_nothing {
                return;
            }
            let near = pattern.unmatched("module", modules.keys().map(String::as_str));
            return self.cannot_tell(check, format!("the pattern matches no module{near}"));
        }
        let checked = self.checks.len();
        for (name, &bytes) in modules.iter().filter(|(name, bytes)| pattern.matches(name) && **bytes > maximum.limit) {
            self.checks.push(Check {
                scope: Some(name.clone()),
                after: Some(bytes),
                outcome: Outcome::Exceeded,
                ..check.clone()
            });
        }
        self.or_pass(checked, check);
    }
}

/// The paths of all modules of a profile.
pub(crate) fn module_names(profile: &Profile) -> Vec<String> {
    profile.devices.iter().flat_map(|device| modules_of(profile, device).into_keys()).collect()
}

/// Bytes of each module of a device with all its parts, at the requested moment, by its path.
fn modules_of(profile: &Profile, device: &DeviceProfile) -> BTreeMap<String, u64> {
    let mut held = BTreeMap::new();
    for total in device.grouped(&profile.grouper_by(GroupBy::Module)) {
        if total.bucket.is_some() || total.label.starts_with('<') {
            continue;
        }
        let ends = total.label.match_indices('.').map(|(end, _)| end).chain([total.label.len()]);
        for end in ends {
            let sum: &mut u64 = held.entry(total.label[..end].to_owned()).or_default();
            *sum = sum.saturating_add(total.at.bytes);
        }
    }
    held
}
