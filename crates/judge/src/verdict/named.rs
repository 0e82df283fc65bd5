//! Limits on bytes of what has a name beside its stack: modules, each with all its parts, and private pools.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_compare::diff::{Diff, Sides};
use ptmem_trace::profile::{DeviceProfile, Profile};
use ptmem_trace::stack::GroupBy;
use ptmem_trace::tags::{HOW_TO_RECORD, SEVERAL_MODULES};

use super::growth::Gated;
use super::judge::Judge;
use super::limited::Limited;
use super::parts::LimitedPart;
use super::{Check, GrowthLimit, LimitKind, Maximum, Outcome, Thresholds};

impl<'a> Gated<'a> {
    /// What each side holds by its name, where the limit is about that.
    pub(super) fn held(&self) -> Sides<BTreeMap<String, u64>> {
        let kind = self.growth.target.kind;
        Sides::BOTH.map(|&side| held(kind, self.diff.profiles.of(side), self.sides.of(side)))
    }

    /// What the limit is about of this, each with what is accepted of it. What only one side has was, or is, nothing.
    pub(super) fn named_parts(&self, held: &Sides<BTreeMap<String, u64>>) -> Vec<LimitedPart<'a>> {
        let budget = self.budget();
        let names: BTreeSet<&String> = held.before.keys().chain(held.after.keys()).collect();
        let names = names.into_iter().filter(|name| self.growth.target.selects(name));
        let parts = names.map(|name| {
            let figure = held.map(|held| held.get(name).copied().unwrap_or(0));
            let mut check = self.check().named(name);
            check.compare(figure.map(|bytes| Some(*bytes)), &self.growth.limit);
            budget.accept_named(&mut check, name);
            self.part(check, figure)
        });
        parts.collect()
    }
}

impl Judge {
    /// A check for each name that exceeds the limit, or one that passes. What only one side has was, or is, nothing.
    pub(super) fn growth_of_named(&mut self, gated: &Gated<'_>) {
        let kind = gated.growth.target.kind;
        let held = gated.held();
        let profiles = &gated.diff.profiles;
        let mut sides = held.each().into_iter().filter(|_| kind == LimitKind::Modules);
        if let Some((side, _)) =
            sides.find(|(side, held)| held.is_empty() && names(kind, profiles.of(*side)).is_empty())
        {
            return self.cannot_tell(gated.check(), format!("the {side} has no modules: {HOW_TO_RECORD}"));
        }
        let checked = self.checks.len();
        let all = gated.named_parts(&held).into_iter().map(|part| part.check);
        all.filter(|check| check.outcome != Outcome::Pass || check.is_accepted()).for_each(|check| self.add(check));
        self.or_pass(checked, gated.check(), None);
    }

    /// A pattern that matches no module on any device checks nothing. Nor does one that matches no private pool of the after:
    /// its memory may have gone to another pool, or to the default one.
    pub(super) fn unmatched_name(&mut self, diff: &Diff, growth: &GrowthLimit, thresholds: &Thresholds) {
        let kind = growth.target.kind;
        let is_named = matches!(kind, LimitKind::Modules | LimitKind::Pools);
        let Some(pattern) = growth.target.pattern.as_ref().filter(|_| is_named) else { return };
        let Sides { before, after } = diff.profiles.map(|profile| names(kind, profile));
        let is_of_pools = kind == LimitKind::Pools;
        let known: BTreeSet<&String> = after.iter().chain(before.iter().filter(|_| !is_of_pools)).collect();
        if (known.is_empty() && !is_of_pools) || known.iter().any(|name| growth.target.selects(name)) {
            return;
        }
        let near = pattern.unmatched(kind.noun(), known.into_iter().map(String::as_str));
        let reason = match before.iter().find(|name| is_of_pools && growth.target.selects(name)) {
            Some(gone) => format!("the after has no such private pool; the before has {gone}{near}"),
            None if is_of_pools => format!("the pattern matches no private pool on either side{near}"),
            None => format!("the pattern matches no module on either side{near}"),
        };
        self.unmatched(growth.check(), thresholds, reason);
    }

    /// A check for each module that holds more than the limit, or one that passes.
    pub(super) fn maximum_of_modules(
        &mut self,
        limited: &Limited<'_>,
        device: &DeviceProfile,
        maximum: &Maximum,
        check: Check,
    ) {
        let modules = held(LimitKind::Modules, limited.profile, device);
        if modules.is_empty() && names(LimitKind::Modules, limited.profile).is_empty() {
            return self.cannot_tell(check, format!("there are no modules: {HOW_TO_RECORD}"));
        }
        self.maximum_of_held(&modules, maximum, check, None);
    }

    /// A pattern that matches no module or private pool on any device checks nothing. Without any module, each device has a
    /// check that says so.
    pub(super) fn unmatched_in_maximum(&mut self, profile: &Profile, maximum: &Maximum, thresholds: &Thresholds) {
        let kind = maximum.target.kind;
        let is_named = matches!(kind, LimitKind::Modules | LimitKind::Pools);
        let pattern = maximum.target.pattern.as_ref().filter(|_| is_named && !profile.is_numbers());
        let Some(pattern) = pattern else { return };
        let known = names(kind, profile);
        let is_told = known.is_empty() && kind == LimitKind::Modules;
        if !is_told && !known.iter().any(|name| maximum.target.selects(name)) {
            let near = pattern.unmatched(kind.noun(), known.iter().map(String::as_str));
            self.unmatched(maximum.check(), thresholds, format!("the pattern matches no {}{near}", kind.noun()));
        }
    }

    /// A check for each name that holds more than the limit, or one that passes unless something is unknown.
    pub(super) fn maximum_of_held(
        &mut self,
        held: &BTreeMap<String, u64>,
        maximum: &Maximum,
        check: Check,
        unknown: Option<String>,
    ) {
        let checked = self.checks.len();
        let exceeding = held.iter().filter(|(name, bytes)| maximum.target.selects(name) && **bytes > maximum.limit);
        for (name, &bytes) in exceeding {
            self.checks.push(check.clone().named(name).exceeded_by(bytes));
        }
        self.or_pass(checked, check, unknown);
    }
}

/// The names of all modules or private pools of a profile.
pub(crate) fn names(kind: LimitKind, profile: &Profile) -> BTreeSet<String> {
    profile.devices.iter().flat_map(|device| held(kind, profile, device).into_keys()).collect()
}

/// Bytes of each module or private pool of a device by its name.
pub(super) fn held(kind: LimitKind, profile: &Profile, device: &DeviceProfile) -> BTreeMap<String, u64> {
    if kind != LimitKind::Pools {
        return modules_of(profile, device);
    }
    device.private_pools.iter().map(|pool| (pool.name.clone(), pool.reserved)).collect()
}

/// Bytes of each module of a device with all its parts, at the requested moment, by its path.
fn modules_of(profile: &Profile, device: &DeviceProfile) -> BTreeMap<String, u64> {
    let mut held = BTreeMap::new();
    for total in device.grouped(&profile.grouper_by(GroupBy::Module)).iter() {
        let is_outside = total.label.starts_with('<') && total.label != SEVERAL_MODULES;
        if total.bucket.is_some() || is_outside {
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
