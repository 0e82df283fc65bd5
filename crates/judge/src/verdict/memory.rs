//! Memory that ran out.

use std::fmt;

use ptmem_base::device::DeviceId;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_compare::diff::{Diff, Sides};
use ptmem_compare::leak::{DeviceLeaks, FailedRequests, Mode};
use ptmem_trace::profile::{DeviceProfile, Oom};

use super::judge::Judge;
use super::{Check, CheckedFigures, Level, LimitKind, Outcome, Thresholds};

impl Judge {
    /// Memory that ran out in the after and not in the before is a regression, whatever else is limited.
    pub(super) fn out_of_memory_of_diff(&mut self, diff: &Diff, thresholds: &Thresholds) {
        for device in &diff.devices {
            let Sides { before, after } = diff.sides_of(device);
            if let Some(after) = after.filter(|_| !before.is_some_and(DeviceProfile::ran_out_of_memory)) {
                self.out_of_memory(after, thresholds);
            }
        }
    }

    /// Memory that ran out is more than the device has, whatever the limits say.
    pub(super) fn out_of_memory(&mut self, device: &DeviceProfile, thresholds: &Thresholds) {
        let failures = Failures::of(device).filter(|_| !thresholds.allow_oom);
        self.checks.extend(failures.map(|failures| failures.check(device.device)));
    }

    /// The same for a search for leaks. Where memory ran out in the first snapshot of a series and in the latest, both
    /// ends are those of runs cut short, and nothing follows about the time between them.
    pub(super) fn out_of_memory_of_leaks(&mut self, device: &DeviceLeaks, mode: Mode) {
        let Some(failure) = &device.failure else { return };
        let FailedRequests { first, request, count, .. } = failure;
        let failures = Failures { first: first.as_ref(), request: request.as_deref(), count: *count };
        let check = failures.check(device.device);
        self.checks.push(match mode {
            Mode::Series if failure.from_the_first => {
                let reason = format!("{failures}; it also ran out in the first snapshot, so both runs were cut short");
                let figures = CheckedFigures::default();
                Check { outcome: Outcome::Inconclusive, reason: Some(reason), figures, ..check }
            }
            Mode::Series | Mode::Steps => check,
        });
    }
}

/// Requests of a device that failed for lack of memory.
struct Failures<'d> {
    /// The first, where more than the number is known.
    first: Option<&'d Oom>,
    /// The label of its stack.
    request: Option<&'d str>,
    count: u64,
}

/// The first failed allocation of a device in words.
pub fn out_of_memory(device: &DeviceProfile) -> Option<String> {
    let failures = Failures::of(device)?;
    let held = failures.held().map(|held| format!("; {held}")).unwrap_or_default();
    Some(format!("{failures}{held}"))
}

impl<'d> Failures<'d> {
    fn of(device: &'d DeviceProfile) -> Option<Self> {
        let count = device.figures.failures();
        let first = device.figures.ooms.first();
        (count > 0).then_some(Self { first, request: device.failed_request.as_deref(), count })
    }

    fn check(&self, device: DeviceId) -> Check {
        Check {
            device: Some(device),
            outcome: Outcome::Exceeded,
            reason: self.held(),
            figures: CheckedFigures { words: Some(self.to_string()), ..CheckedFigures::default() },
            ..Check::new(LimitKind::OutOfMemory, "none".to_owned(), Level::Fail)
        }
    }

    /// The memory held and free when the first request failed, and the largest block that could have served it.
    fn held(&self) -> Option<String> {
        let Oom { allocated, reserved, device_free, largest_free, .. } = *self.first?;
        let allocated = allocated.map(|bytes| format!("{} were allocated", Size(bytes)));
        let reserved = reserved.map(|bytes| format!("{} reserved", Size(bytes)));
        let free = format!("{} free on the device", Size(device_free));
        let largest = largest_free.map(|bytes| format!("largest free block of its pool {}", Size(bytes)));
        Some(allocated.into_iter().chain(reserved).chain([free]).chain(largest).collect::<Vec<_>>().join(", "))
    }
}

/// The first request that failed: its size and its stack; and the number of failures.
impl fmt::Display for Failures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first else {
            return write!(f, "out of memory: {}", count(self.count, "request failed", "requests failed"));
        };
        write!(f, "out of memory: {} requested", Size(first.requested))?;
        self.request.map_or(Ok(()), |label| write!(f, " by {label}"))?;
        match self.count {
            0 | 1 => Ok(()),
            times => write!(f, "; {times} requests failed"),
        }
    }
}
