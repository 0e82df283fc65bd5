//! Memory that ran out.

use ptmem_base::device::DeviceId;
use ptmem_base::units::Size;
use ptmem_compare::diff::{Diff, Sides};
use ptmem_compare::leak::{DeviceLeaks, Mode};
use ptmem_trace::profile::{DeviceProfile, Oom};

use super::{About, Check, Judge, Level, Outcome, Thresholds};

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
        let words = out_of_memory(device).filter(|_| !thresholds.allow_oom);
        self.checks.extend(words.map(|words| exceeded(device.device, words)));
    }

    /// The same for a search for leaks. Where memory ran out in the first snapshot of a series and in the latest, both
    /// ends are those of runs cut short, and nothing follows about the time between them.
    pub(super) fn out_of_memory_of_leaks(&mut self, device: &DeviceLeaks, mode: Mode) {
        let Some(failure) = &device.failure else { return };
        let words = sentence(&failure.first, failure.request.as_deref(), failure.count);
        let check = exceeded(device.device, words.clone());
        self.checks.push(match mode {
            Mode::Series if failure.from_the_first => {
                let reason = format!("{words}; it also ran out in the first snapshot, so both runs were cut short");
                Check { outcome: Outcome::Inconclusive, reason: Some(reason), words: None, ..check }
            }
            Mode::Series | Mode::Steps => check,
        });
    }
}

fn exceeded(device: DeviceId, words: String) -> Check {
    Check {
        device: Some(device),
        outcome: Outcome::Exceeded,
        reason: Some(words.clone()),
        words: Some(words),
        ..Check::new(About::OutOfMemory, "none".to_owned(), Level::Fail)
    }
}

/// The first failed allocation of a device in words.
pub fn out_of_memory(device: &DeviceProfile) -> Option<String> {
    let first = device.figures.ooms.first().filter(|_| device.ran_out_of_memory())?;
    Some(sentence(first, device.failed_request.as_deref(), device.figures.ooms.len()))
}

/// The first request that failed: its size, its stack, the memory held, and the largest block that could have served
/// it; and the number of failures.
fn sentence(oom: &Oom, request: Option<&str>, count: usize) -> String {
    let mut text = format!("out of memory: {} requested", Size(oom.requested));
    if let Some(label) = request {
        text.push_str(&format!(" by {label}"));
    }
    match (oom.allocated, oom.reserved) {
        (Some(allocated), Some(reserved)) => {
            text.push_str(&format!(", with {} allocated and {} reserved", Size(allocated), Size(reserved)));
        }
        (Some(allocated), None) => text.push_str(&format!(", with {} allocated", Size(allocated))),
        (None, _) => {}
    }
    text.push_str(&format!(", {} free on the device", Size(oom.device_free)));
    if let Some(largest) = oom.largest_free {
        text.push_str(&format!(", largest free block of its pool {}", Size(largest)));
    }
    match count {
        0 | 1 => {}
        times => text.push_str(&format!("; {times} requests failed")),
    }
    text
}
