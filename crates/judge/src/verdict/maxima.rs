//! Absolute limits: on figures, on stacks, and on what has to be left free.

use std::cell::OnceCell;

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::Pattern;
use ptmem_base::sides::Sides;
use ptmem_base::units::{GivenSize, Size};
use ptmem_compare::budget::DeviceBudget;
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};

use super::history::no_history;
use super::judge::Judge;
use super::limited::Limited;
use super::named::held;
use super::{Check, CheckedRow, Headroom, Level, LimitKind, Maximum, NamedThing, Outcome, Target, Thresholds};

impl Maximum {
    /// A check of the limit, without a result yet.
    pub(super) fn check(&self) -> Check {
        let limit = GivenSize(self.limit).to_string();
        Check::new(self.target.clone(), limit, Level::Fail).of_at_most(u128::from(self.limit))
    }

    /// The pattern of the stacks that it is about, where it is not about all of them.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.target.pattern.as_ref().filter(|_| self.target.kind == LimitKind::Stacks)
    }
}

/// The devices, and the missing ones, that a limit is about.
fn concerned<'d>(
    target: &Target,
    (devices, missing): (&[&'d DeviceProfile], &[Option<DeviceId>]),
) -> (Vec<&'d DeviceProfile>, Vec<Option<DeviceId>>) {
    let devices = devices.iter().copied().filter(|of| target.concerns(Some(of.device)));
    let missing = missing.iter().copied().filter(|device| target.concerns(*device));
    (devices.collect(), missing.collect())
}

impl Judge {
    /// Applies all absolute limits to devices of a profile; it lacks those with the `missing` ordinals.
    pub(super) fn maxima(
        &mut self,
        profile: &Profile,
        devices: &[&DeviceProfile],
        missing: &[Option<DeviceId>],
        thresholds: &Thresholds,
    ) {
        let limited = Limited { profile, thresholds, code: OnceCell::new() };
        // Imbalance is checked for all ranks together.
        let all = (devices, missing);
        for maximum in thresholds.maximum.iter().filter(|maximum| maximum.target.kind != LimitKind::Imbalance) {
            let (devices, missing) = &concerned(&maximum.target, all);
            self.without_device(&limited, &maximum.check(), devices, missing);
            for device in devices {
                let check = Check { device: Some(device.device), ..maximum.check() };
                match (maximum.target.kind, maximum.target.kind.thing()) {
                    (LimitKind::Metric(metric), _) => self.maximum_of_metric(&limited, device, metric, check),
                    (_, Some(NamedThing::Pool)) => self.maximum_of_pools(&limited, device, maximum, check),
                    (_, Some(NamedThing::Stack | NamedThing::Module)) => {
                        self.maximum_of_stacks(&limited, device, maximum, check);
                    }
                    // These have no absolute limits on a device.
                    (_, Some(NamedThing::Phase) | None) => {}
                }
            }
            if let Some(pattern) = maximum
                .pattern()
                .filter(|pattern| !devices.is_empty() && !profile.is_numbers() && !limited.has(devices, pattern))
            {
                let near = pattern.unmatched("stack", devices.iter().flat_map(|device| labels(device)));
                self.unmatched(maximum.check(), thresholds, format!("the pattern matches no stack{near}"));
            }
            self.unmatched_in_maximum(profile, maximum, thresholds);
        }
        if let Some(headroom) = thresholds.headroom {
            let (devices, missing) = concerned(&LimitKind::Headroom.into(), all);
            let check = headroom.check(headroom.memory.budget(None, DeviceId::FIRST));
            self.without_device(&limited, &check, &devices, &missing);
            for device in devices {
                self.headroom(&limited, device, headroom);
            }
        }
    }

    /// Adds an inconclusive check of a limit for each device that is missing, or where there is none at all.
    fn without_device(
        &mut self,
        limited: &Limited<'_>,
        check: &Check,
        devices: &[&DeviceProfile],
        missing: &[Option<DeviceId>],
    ) {
        if devices.is_empty() && missing.is_empty() {
            let has_host = limited.profile.host().is_some();
            let no_memory = "the snapshot holds no memory on any device";
            let reason = check.of.nothing("the snapshot has no", no_memory, has_host);
            self.cannot_tell(check.clone(), reason);
        }
        for &device in missing {
            let reason = check.of.missing("the after has no", "the device is missing in the after");
            self.cannot_tell(Check { device, ..check.clone() }, reason);
        }
    }

    /// Compares a figure of a device with what the check allows.
    fn maximum_of_metric(&mut self, limited: &Limited<'_>, device: &DeviceProfile, metric: Metric, mut check: Check) {
        // The state at the dump is a lower bound of every peak: enough to fail, not to pass.
        let least = metric.at_least(device);
        if least.map(u128::from) > check.limit.allowed {
            check.figures.after = least;
            check.outcome = Outcome::Exceeded;
            let error = metric.max_error(device).filter(|_| metric.value(device) == least);
            self.doubt(&mut check, Sides { before: Some(0), after: error.or(Some(0)) });
            self.checks.push(check);
            return;
        }
        check.figures.after = metric.value(device);
        let name = check.of.name();
        let kind = LimitKind::Metric(metric);
        let no_history = no_history(limited.profile, device, "snapshot", kind).filter(|_| metric.needs_history());
        if let Some(why) = no_history {
            self.cannot_tell(check, format!("{why}; {name} is not known"));
        } else if check.figures.after.is_none() {
            let known = least
                .map_or_else(|| "not known".to_owned(), |least| format!("only known to be at least {}", Size(least)));
            self.cannot_tell(check, format!("{name} is {known}"));
        } else {
            check.outcome = Outcome::Pass;
            self.doubt(&mut check, Sides { before: Some(0), after: metric.max_error(device) });
            self.checks.push(check);
        }
    }

    /// A check for each stack that holds more than the limit, or one that passes.
    fn maximum_of_stacks(&mut self, limited: &Limited<'_>, device: &DeviceProfile, maximum: &Maximum, check: Check) {
        let no_moment = device.at.is_none().then(|| "there is no such moment".to_owned());
        if let Some(why) = no_history(limited.profile, device, "snapshot", maximum.target.kind).or(no_moment) {
            let reason = format!("{why}; {} is not known", check.of.name());
            return self.cannot_tell(check, reason);
        }
        if maximum.target.kind == LimitKind::Modules {
            return self.maximum_of_modules(limited, device, maximum, check);
        }
        let checked = self.checks.len();
        let mut passed = check.clone();
        let mut error = None;
        for (total, concerned) in device.stacks.iter().zip(limited.concerned(device, maximum)) {
            let exceeds = total.at.bytes > maximum.limit;
            if exceeds && concerned {
                let more = limited.lines(total).more;
                let row = CheckedRow { label: total.label.clone(), more, key: Some(total.key.0.clone()) };
                self.checks.push(Check { row: Some(row), ..check.clone() }.exceeded_by(total.at.bytes));
            } else if exceeds && maximum.target.pattern.is_none() {
                passed.figures.words = Some(check.none("other "));
            }
            if concerned && total.at.bytes.abs_diff(maximum.limit) < total.at_bound.bytes {
                error = error.max(Some(total.at_bound.bytes));
            }
        }
        if let Some(error) = error {
            self.tell_within_error(&check, &check.subject(), error.into());
        }
        self.or_pass(checked, passed, None);
    }

    /// A check for the private pools of each name that reserve more than the limit, or one that passes.
    fn maximum_of_pools(&mut self, limited: &Limited<'_>, device: &DeviceProfile, maximum: &Maximum, check: Check) {
        let unknown = no_history(limited.profile, device, "snapshot", LimitKind::Pools);
        self.maximum_of_held(&held(LimitKind::Pools, limited.profile, device), maximum, check, unknown);
    }

    /// Compares the reserved peak with the memory that PyTorch's allocator can have of the device.
    fn headroom(&mut self, limited: &Limited<'_>, device: &DeviceProfile, headroom: Headroom) {
        let budget = headroom.memory.budget(limited.profile.run.as_ref(), device.device);
        let mut check = Check { device: Some(device.device), ..headroom.check(budget) };
        // The words name the figure that is compared; without one there are none.
        let least = Metric::Reserved.at_least(device).filter(|least| Some(u128::from(*least)) > check.limit.allowed);
        check.figures.words = least.or_else(|| Metric::Reserved.value(device)).map(|reserved| {
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
        self.maximum_of_metric(limited, device, Metric::Reserved, check);
    }
}

/// The labels of all stacks of a device, the largest first.
pub(super) fn labels(device: &DeviceProfile) -> impl Iterator<Item = &str> {
    device.stacks.iter().filter(|total| total.bucket.is_none()).map(|total| &*total.label)
}

impl Headroom {
    /// A check of it, without a result yet: the reserved peak may take all of a budget but the headroom.
    fn check(self, budget: DeviceBudget) -> Check {
        let limit = format!("{} of {}", Size(self.least), Size(budget.memory));
        let most = budget.usable().saturating_sub(self.least);
        Check::new(LimitKind::Headroom, limit, Level::Fail).of_at_most(u128::from(most))
    }
}
