//! Limits on the memory of modules, each with all its parts.

use std::collections::{BTreeMap, BTreeSet};

use super::accepted::Budget;
use super::{Check, Growth, Judge, Maximum, Outcome, Target};
use crate::diff::{Diff, Sides};
use crate::pattern::Pattern;
use crate::profile::{DeviceProfile, HOW_TO_RECORD, Profile};

/// Bytes of the modules of a device at the moment that is compared, by path.
pub(super) type Modules = BTreeMap<String, u64>;

/// Modules of a device under a limit on growth.
pub(super) struct LimitedModules<'a> {
    pub(super) growth: &'a Growth,
    pub(super) pattern: &'a Pattern,
    pub(super) modules: Sides<Modules>,
    pub(super) min_delta: u64,
    pub(super) budget: Budget<'a>,
}

impl LimitedModules<'_> {
    /// The check of a module that exceeds the limit; `None` where it does not.
    fn exceeded(&self, check: &Check, name: &str) -> Option<Check> {
        let Sides { before, after } = Sides {
            before: self.modules.before.get(name).copied().unwrap_or(0),
            after: self.modules.after.get(name).copied().unwrap_or(0),
        };
        let delta = i128::from(after) - i128::from(before);
        if self.growth.limit.holds(before, delta) || delta.unsigned_abs() < u128::from(self.min_delta) {
            return None;
        }
        let mut check = Check {
            scope: Some(name.to_owned()),
            before: Some(before),
            after: Some(after),
            delta: Some(delta),
            allowed: Some(self.growth.limit.allowed(before)),
            outcome: Outcome::Exceeded,
            ..check.clone()
        };
        self.budget.accept_module(&mut check, name);
        Some(check)
    }
}

/// The modules of each side of a device.
pub(super) fn of_sides(diff: &Diff, devices: Sides<&DeviceProfile>) -> Sides<Modules> {
    let Sides { before, after } = &diff.profiles;
    Sides { before: before.modules_of(devices.before), after: after.modules_of(devices.after) }
}

/// The modules that match a pattern.
fn matching<'m>(modules: impl Iterator<Item = &'m String>, pattern: &Pattern) -> BTreeSet<&'m str> {
    modules.map(String::as_str).filter(|name| pattern.matches(name)).collect()
}

impl Judge {
    /// A check for each module that exceeds the limit, or one that passes. `check` is that of the limit on the device.
    pub(super) fn modules(&mut self, check: &Check, limited: &LimitedModules<'_>) {
        let lacking = limited.modules.each().into_iter().find(|(_, modules)| modules.is_empty());
        if let Some((side, _)) = lacking {
            let reason = Some(format!("the {side} has no modules: {HOW_TO_RECORD}"));
            self.checks.push(Check { reason, ..check.clone() });
            return;
        }
        let names = limited.modules.before.keys().chain(limited.modules.after.keys());
        let checked = self.checks.len();
        for name in matching(names, limited.pattern) {
            let Some(check) = limited.exceeded(check, name) else { continue };
            self.tell_accepted(&check);
            self.checks.push(check);
        }
        if self.checks.len() == checked {
            self.checks.push(Check { outcome: Outcome::Pass, ..check.clone() });
        }
    }

    /// A pattern that matches no module on any device checks nothing.
    pub(super) fn unmatched_module(&mut self, diff: &Diff, growth: &Growth, one_of_ranks: bool) {
        let Target::Module(pattern) = &growth.target else { return };
        let profiles = [&diff.profiles.before, &diff.profiles.after];
        let names: BTreeSet<String> = profiles.into_iter().flat_map(module_names).collect();
        if names.is_empty() || names.iter().any(|name| pattern.matches(name)) {
            return;
        }
        self.checks.retain(|check| !check.is_of(&growth.target) || check.outcome != Outcome::Pass);
        // Another rank may have such a module.
        if !one_of_ranks {
            let near = pattern.unmatched("module", names.iter().map(String::as_str));
            self.cannot_tell(growth, &format!("the pattern matches no module on either side{near}"));
        }
    }

    /// A check for each module that holds more than the limit, or one that passes.
    pub(super) fn maximum_of_modules(&mut self, maximum: &Maximum, check: Check, device: &DeviceProfile, of: &Profile) {
        let Target::Module(pattern) = &maximum.target else { return };
        let modules = of.modules_of(device);
        if modules.is_empty() {
            self.checks.push(Check { reason: Some(format!("there are no modules: {HOW_TO_RECORD}")), ..check });
            return;
        }
        let matching = matching(modules.keys(), pattern);
        if matching.is_empty() {
            let near = pattern.unmatched("module", modules.keys().map(String::as_str));
            self.checks.push(Check { reason: Some(format!("the pattern matches no module{near}")), ..check });
            return;
        }
        let checked = self.checks.len();
        for name in matching.into_iter().filter(|name| modules[*name] > maximum.limit) {
            self.checks.push(Check {
                scope: Some(name.to_owned()),
                after: Some(modules[name]),
                outcome: Outcome::Exceeded,
                ..check.clone()
            });
        }
        if self.checks.len() == checked {
            self.checks.push(Check { outcome: Outcome::Pass, ..check });
        }
    }
}

/// The paths of all modules of a profile.
pub(crate) fn module_names(profile: &Profile) -> Vec<String> {
    profile.devices.iter().flat_map(|device| profile.modules_of(device).into_keys()).collect()
}
