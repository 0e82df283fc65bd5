//! Absolute limits: on figures, on stacks, and on what has to be left free.

use std::cell::OnceCell;

use super::judge::no_history;
use super::{Check, Checked, Headroom, Judge, Level, Maximum, Outcome, Target, Thresholds};
use crate::budget::DeviceBudget;
use crate::diagnostic;
use crate::pattern::{Naming, Pattern, Selector};
use crate::profile::{DeviceProfile, HeldLine, Metric, Profile, StackTotal};
use crate::sides::Sides;
use crate::stack::Code;
use crate::units::{GivenSize, Size};

/// The reason where there is nothing to compare with limits.
const NO_MEMORY: &str = "the snapshot holds no memory on any device";

/// The reason where the after lacks a device.
const NO_DEVICE: &str = "the device is missing in the after";

/// A device under absolute limits.
#[derive(Clone, Copy)]
pub(super) struct Limited<'a> {
    /// `None` where the device is missing in the after.
    pub(super) profile: Option<&'a DeviceProfile>,
    /// Its ordinal.
    pub(super) number: Option<u32>,
}

impl Maximum {
    /// A check of the limit, without a result yet.
    pub(super) fn check(&self) -> Check {
        Check {
            allowed: Some(u128::from(self.limit)),
            absolute: true,
            ..Check::new(Checked::Target(self.target.clone()), GivenSize(self.limit).to_string(), Level::Fail)
        }
    }

    /// The pattern of the stacks that it is about, where it is not about all of them.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.target.pattern().filter(|_| matches!(self.target, Target::Stack(_)))
    }

    /// Whether it is about anything that is there: a pattern may match no stack.
    #[must_use]
    pub fn matches(&self, profile: &Profile) -> bool {
        self.matches_some(&Names::new(profile))
    }

    fn matches_some(&self, names: &Names<'_>) -> bool {
        let Some(pattern) = self.pattern() else { return true };
        let mut stacks = names.profile.devices.iter().flat_map(|device| &device.stacks);
        stacks.any(|total| names.naming(total, pattern).is_some())
    }
}

/// The names of the stacks of a profile: their labels, and those of the lines that each of them sums.
pub(super) struct Names<'p> {
    profile: &'p Profile,
    code: OnceCell<Code<'p>>,
}

impl<'p> Names<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        Self { profile, code: OnceCell::new() }
    }

    /// The way in which a pattern names a stack.
    fn naming(&self, total: &StackTotal, pattern: &Pattern) -> Option<Naming> {
        let lines = std::iter::once_with(|| self.lines(total)).flatten();
        pattern.naming(&total.label, lines.map(|line| line.label))
    }

    /// The lines that a stack sums.
    fn lines(&self, total: &StackTotal) -> Vec<HeldLine> {
        if total.bucket.is_some() || total.members.len() <= 1 {
            return Vec::new();
        }
        let code = self.code.get_or_init(|| self.profile.code());
        total.lines(self.profile.options.group_by, code).all
    }

    /// For each stack of a device, whether a pattern selects it.
    fn selected(&self, device: &DeviceProfile, pattern: &Pattern) -> Vec<bool> {
        let namings: Vec<_> = device.stacks.iter().map(|total| self.naming(total, pattern)).collect();
        let selector = Selector::new(pattern, namings.iter().copied());
        namings.into_iter().map(|naming| selector.selects(naming)).collect()
    }

    /// For each stack of a device, whether a limit concerns it: one on all stacks does unless another one is on that
    /// stack.
    fn concerned(&self, device: &DeviceProfile, maximum: &Maximum, thresholds: &Thresholds) -> Vec<bool> {
        if let Some(pattern) = maximum.pattern() {
            return self.selected(device, pattern);
        }
        let mut concerned = vec![true; device.stacks.len()];
        for pattern in thresholds.maximum.iter().filter_map(Maximum::pattern) {
            for (concerned, is_replaced) in concerned.iter_mut().zip(self.selected(device, pattern)) {
                *concerned &= !is_replaced;
            }
        }
        concerned
    }
}

impl Judge {
    /// Applies all absolute limits.
    pub(super) fn maxima(&mut self, devices: &[Limited<'_>], whole: &Profile, thresholds: &Thresholds) {
        let names = Names::new(whole);
        for maximum in &thresholds.maximum {
            if devices.is_empty() && maximum.target != Target::Imbalance {
                self.cannot_tell(maximum.check(), NO_MEMORY);
            }
            for device in devices {
                self.maximum(maximum, *device, &names, thresholds);
            }
            if let Some(pattern) = maximum.pattern().filter(|_| !devices.is_empty() && !maximum.matches_some(&names)) {
                let known = devices.iter().filter_map(|device| device.profile);
                let near = pattern.unmatched("stack", known.flat_map(labels));
                self.unmatched(maximum.check(), thresholds, format!("the pattern matches no stack{near}"));
            }
        }
        if let Some(headroom) = thresholds.headroom {
            for device in devices {
                let check = self.headroom(headroom, *device, whole, thresholds);
                self.checks.push(check);
            }
            if devices.is_empty() {
                self.cannot_tell(headroom.check(headroom.memory.budget(None, 0)), NO_MEMORY);
            }
        }
    }

    fn maximum(&mut self, maximum: &Maximum, device: Limited<'_>, names: &Names<'_>, thresholds: &Thresholds) {
        match &maximum.target {
            Target::Metric(metric) => {
                let check = self.maximum_of_metric(*metric, maximum.check(), device, names.profile, thresholds);
                self.checks.push(check);
            }
            Target::Stack(_) | Target::Module(_) => self.maximum_of_stacks(maximum, device, names, thresholds),
            // Imbalance is checked for all ranks together; of the others there are no absolute limits.
            Target::Imbalance | Target::StackHighest(_) | Target::Phase(_) => {}
        }
    }

    /// Compares a figure of a device with what the check allows.
    fn maximum_of_metric(
        &mut self,
        metric: Metric,
        check: Check,
        device: Limited<'_>,
        whole: &Profile,
        thresholds: &Thresholds,
    ) -> Check {
        let mut check = Check { device: device.number, ..check };
        let Some(profile) = device.profile else {
            check.reason = Some(NO_DEVICE.to_owned());
            return check;
        };
        // The state at the dump is a lower bound of every peak: enough to fail, not to pass.
        let least = metric.at_least(profile);
        if least.map(u128::from) > check.allowed {
            check.after = least;
            check.outcome = Outcome::Exceeded;
            return check;
        }
        check.after = metric.value(profile);
        if let Some(why) = no_history(profile, "snapshot").filter(|_| metric.needs_history()) {
            check.reason = Some(format!("{why}; {} is not known", check.of.name()));
        } else if check.after.is_none() {
            check.reason = Some(format!("{} is not known", check.of.name()));
        } else if metric.is_peak() && profile.ran_out_of_memory() && !thresholds.allow_oom {
            check.reason =
                Some("memory ran out: the peak is the limit of the device, not the need of the program".to_owned());
        } else if let Some(why) = lost_beginning(device, whole).filter(|_| metric.is_peak()) {
            check.reason = Some(why);
        } else {
            check.outcome = Outcome::Pass;
            self.doubt(&mut check, Sides { before: Some(0), after: metric.max_error(profile) });
        }
        check
    }

    /// A check for each stack that holds more than the limit, or one that passes.
    fn maximum_of_stacks(
        &mut self,
        maximum: &Maximum,
        device: Limited<'_>,
        names: &Names<'_>,
        thresholds: &Thresholds,
    ) {
        let check = Check { device: device.number, ..maximum.check() };
        let Some(profile) = device.profile else { return self.cannot_tell(check, NO_DEVICE) };
        let no_moment = profile.at.is_none().then(|| "there is no such moment".to_owned());
        if let Some(why) = no_moment.or_else(|| no_history(profile, "snapshot")) {
            let reason = format!("{why}; {} is not known", check.of.name());
            return self.cannot_tell(check, reason);
        }
        if let Target::Module(_) = maximum.target {
            self.maximum_of_modules(maximum, check, profile, names.profile);
            return;
        }
        let checked = self.checks.len();
        for (total, concerned) in profile.stacks.iter().zip(names.concerned(profile, maximum, thresholds)) {
            if concerned && total.at.bytes > maximum.limit {
                self.checks.push(Check {
                    scope: Some(total.label.clone()),
                    key: Some(total.key.0.clone()),
                    after: Some(total.at.bytes),
                    outcome: Outcome::Exceeded,
                    ..check.clone()
                });
            }
        }
        if self.checks.len() > checked {
            return;
        }
        if let Some(reason) = lost_beginning(device, names.profile) {
            self.cannot_tell(check, reason);
        } else {
            self.or_pass(checked, check);
        }
    }

    /// Compares the reserved peak with the memory that PyTorch's allocator can have of the device.
    fn headroom(&mut self, headroom: Headroom, device: Limited<'_>, whole: &Profile, thresholds: &Thresholds) -> Check {
        let budget = headroom.memory.budget(whole.run.as_ref(), device.number.unwrap_or(0));
        let mut check = self.maximum_of_metric(Metric::Reserved, headroom.check(budget), device, whole, thresholds);
        check.words = check.after.map(|reserved| {
            let DeviceBudget { memory, overhead } = budget;
            let left = match budget.usable().checked_sub(reserved) {
                Some(left) => format!("headroom is {}", Size(left)),
                None => "there is no headroom".to_owned(),
            };
            format!(
                "{left}: {} of {} reserved at the peak, {}, at least {} must be left",
                Size(reserved),
                Size(memory),
                overhead.in_short(),
                Size(headroom.least)
            )
        });
        check
    }
}

/// The reason why a peak may be higher than it is known, where the ring buffer dropped the beginning of a history.
fn lost_beginning(device: Limited<'_>, whole: &Profile) -> Option<String> {
    let mut of_device = whole.diagnostics.iter().filter(|found| found.device == device.number);
    let is_lost = of_device.any(|found| found.code == diagnostic::Code::HistoryTruncated);
    is_lost
        .then(|| "the ring buffer was full: the oldest events are missing, and the peak may be among them".to_owned())
}

/// The labels of all stacks of a device, the largest first.
pub(super) fn labels(device: &DeviceProfile) -> impl Iterator<Item = &str> {
    device.stacks.iter().filter(|total| total.bucket.is_none()).map(|total| &*total.label)
}

impl Headroom {
    /// A check of it, without a result yet: the reserved peak may take all of a budget but the headroom.
    fn check(self, budget: DeviceBudget) -> Check {
        let limit = format!("{} of {}", Size(self.least), Size(budget.memory));
        Check {
            allowed: Some(u128::from(budget.usable().saturating_sub(self.least))),
            absolute: true,
            ..Check::new(Checked::Headroom, limit, Level::Fail)
        }
    }
}
