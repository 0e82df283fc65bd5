//! Memory that ran out.

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
        let failed = FailedRequests::of(device).filter(|_| !thresholds.allow_oom);
        self.checks.extend(failed.map(|failed| check(&failed, device.device)));
    }

    /// The same for a search for leaks. Where memory ran out in the first snapshot of a series and in the latest, both
    /// ends are those of runs cut short, and nothing follows about the time between them.
    pub(super) fn out_of_memory_of_leaks(&mut self, device: &DeviceLeaks, mode: Mode) {
        let Some(failed) = &device.failure else { return };
        let check = check(failed, device.device);
        self.checks.push(match mode {
            Mode::Series if failed.from_the_first => {
                let words = in_words(failed);
                let reason = format!("{words}; it also ran out in the first snapshot, so both runs were cut short");
                let figures = CheckedFigures::default();
                Check { outcome: Outcome::Inconclusive, reason: Some(reason), figures, ..check }
            }
            Mode::Series | Mode::Steps => check,
        });
    }
}

/// The first failed allocation of a device in words.
pub fn out_of_memory(device: &DeviceProfile) -> Option<String> {
    let failed = FailedRequests::of(device)?;
    let held = held(&failed).map(|held| format!("; {held}")).unwrap_or_default();
    Some(in_words(&failed) + &held)
}

fn check(failed: &FailedRequests, device: DeviceId) -> Check {
    Check {
        device: Some(device),
        outcome: Outcome::Exceeded,
        reason: held(failed),
        figures: CheckedFigures { words: Some(in_words(failed)), ..CheckedFigures::default() },
        ..Check::new(LimitKind::OutOfMemory, "none".to_owned(), Level::Fail)
    }
}

/// The memory held and free when the first request failed, and the largest block that could have served it.
fn held(failed: &FailedRequests) -> Option<String> {
    let Oom { allocated, reserved, device_free, largest_free, .. } = failed.first?;
    let allocated = allocated.map(|bytes| format!("{} were allocated", Size(bytes)));
    let reserved = reserved.map(|bytes| format!("{} reserved", Size(bytes)));
    let free = format!("{} free on the device", Size(device_free));
    let largest = largest_free.map(|bytes| format!("largest free block of its pool {}", Size(bytes)));
    Some(allocated.into_iter().chain(reserved).chain([free]).chain(largest).collect::<Vec<_>>().join(", "))
}

/// The first request that failed: its size and its stack; and the number of failures.
fn in_words(failed: &FailedRequests) -> String {
    let FailedRequests { first, request, count: number, .. } = failed;
    let Some(first) = first else {
        return format!("out of memory: {}", count(*number, "request failed", "requests failed"));
    };
    let by = request.as_ref().map(|label| format!(" by {label}")).unwrap_or_default();
    let more = if *number > 1 { format!("; {number} requests failed") } else { String::new() };
    format!("out of memory: {} requested{by}{more}", Size(first.requested))
}
