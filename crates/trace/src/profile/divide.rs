//! Divides a history into parts of one length.

use ptmem_base::device::DeviceId;
use ptmem_base::text::{cut, thousands};
use ptmem_snapshot::snapshot::Snapshot;

use super::device::DeviceProfile;
use super::error::ProfileError;
use super::every::{Every, Interval, Lack, MOST_INTERVALS};
use super::phases::are_known;
use super::recording::Profile;
use crate::phase::running;
use crate::phase::steps::{self, FoundBy, Step, Steps, WantedSteps};
use crate::replay::Position;
use crate::trace::Window;

/// The longest name of a step in bytes; the rest is cut off.
const LONGEST_NAME: usize = 256;

impl Profile {
    /// Divides the histories as the options ask for. The times of events are known where there is a snapshot.
    pub(super) fn divide(&mut self, snapshot: Option<&Snapshot>) -> Result<(), ProfileError> {
        self.with_devices(|profile, devices| match &profile.options.every {
            Some(every) => divide(profile, devices, every, snapshot),
            None => Ok(()),
        })
    }
}

/// Divides the history of every device; the times of events are known where there is a snapshot.
///
/// # Errors
/// If there are too many parts, or no device has the times or steps that they need.
fn divide(
    profile: &Profile,
    devices: &mut [DeviceProfile],
    every: &Every,
    snapshot: Option<&Snapshot>,
) -> Result<(), ProfileError> {
    let mut undivided = None;
    let mut is_divided = false;
    for device in devices {
        match parts(profile, every, device, snapshot) {
            // Another device may have what this one lacks.
            Err(error @ ProfileError::Undivided { .. }) => undivided = undivided.or(Some(error)),
            parts => {
                let parts = parts?;
                if parts.len() > MOST_INTERVALS {
                    return Err(ProfileError::TooManyIntervals {
                        device: device.device,
                        every: Box::new(every.clone()),
                    });
                }
                is_divided |= !parts.is_empty();
                device.intervals = measured(device, parts);
            }
        }
    }
    undivided.filter(|_| !is_divided).map_or(Ok(()), Err)
}

/// Parts of a history and the memory held in them; empty if unknown.
fn measured(device: &DeviceProfile, parts: Vec<(String, Window)>) -> Vec<Interval> {
    if !are_known(&device.figures) {
        return Vec::new();
    }
    let (names, windows): (Vec<String>, Vec<Window>) = parts.into_iter().unzip();
    let parts = names.into_iter().zip(&windows).zip(device.trace.parts(&windows)).map(|((name, &window), held)| {
        let reserved_peak = device.figures.reserved.peak.map(|_| held.peak.reserved);
        Interval { name, window, held, reserved_peak }
    });
    parts.collect()
}

/// The parts of the history of a device, in order; where they are too many, at least one more than can be shown.
fn parts(
    profile: &Profile,
    every: &Every,
    device: &DeviceProfile,
    snapshot: Option<&Snapshot>,
) -> Result<Vec<(String, Window)>, ProfileError> {
    let id = device.device;
    if device.events == 0 {
        return Ok(Vec::new());
    }
    match *every {
        Every::Events(length) => Ok(by_events(count(length), count(device.events))),
        Every::Time(length) => {
            let recorded = snapshot.and_then(|snapshot| Some((snapshot, snapshot.devices.get(&id)?)));
            let parts = recorded.map_or(Err(Lack::AllTimes), |(snapshot, device)| {
                by_time(length, snapshot.times_of(device), snapshot.first_time()).ok_or(Lack::Times)
            });
            parts.map_err(|lack| undivided(id, every, lack))
        }
        Every::Steps(length, ref named) => {
            let wanted = named.clone().map_or(WantedSteps::Any, WantedSteps::Named);
            let steps = steps::find(&profile.course(device), &device.phases.marks(), &profile.code(), &wanted);
            // Equal parts would not be steps.
            let Some(Steps { steps, .. }) = steps.filter(|steps| steps.how != FoundBy::Windows) else {
                let named = named.as_ref().map(|pattern| Lack::StepsNamed(pattern.as_str().to_owned()));
                return Err(undivided(id, every, named.unwrap_or(Lack::Steps)));
            };
            Ok(by_steps(count(length), &steps, count(device.events)))
        }
    }
}

fn undivided(device: DeviceId, every: &Every, lack: Lack) -> ProfileError {
    ProfileError::Undivided { device, every: Box::new(every.clone()), lack }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn by_events(length: usize, events: usize) -> Vec<(String, Window)> {
    let starts = (0..events).step_by(length).take(MOST_INTERVALS + 1);
    let parts = starts.map(|from| {
        let to = from.saturating_add(length).min(events);
        let name = match to - from {
            1 => format!("event {}", thousands(from as u64)),
            _ => format!("events {} to {}", thousands(from as u64), thousands(to as u64 - 1)),
        };
        (name, Window::of_counts(from, to))
    });
    parts.collect()
}

/// The last one lasts until the dump; events before the first form a part of their own.
fn by_steps(length: usize, steps: &[Step], events: usize) -> Vec<(String, Window)> {
    let mut parts = Vec::new();
    if let Some(first) = steps.first().filter(|first| first.from > Position::START) {
        parts.push(("before the first step".to_owned(), Window { from: Position::START, to: first.from }));
    }
    let mut groups = steps.chunks(length).peekable();
    while let Some(group) = groups.next() {
        let to = groups.peek().and_then(|next| next.first()).map_or(events, |next| next.from.count());
        parts.push((name_of(group), Window::of_counts(group[0].from.count(), to)));
    }
    parts
}

/// The name of a step, as much of it as anybody reads.
fn name(step: &Step) -> String {
    cut(&step.name.to_string(), LONGEST_NAME).to_owned()
}

/// The name of the steps of a part.
fn name_of(group: &[Step]) -> String {
    match group {
        [first, .., last] => format!("{} to {}", name(first), name(last)),
        [only] => name(only),
        [] => String::new(),
    }
}

/// Parts by the time since `first`; `None` where no event has a time.
fn by_time(
    length: u64,
    times: impl Iterator<Item = Option<i64>> + Clone,
    first: Option<i64>,
) -> Option<Vec<(String, Window)>> {
    let first = first.filter(|_| times.clone().any(|time| time.is_some()))?;
    let part_of: Vec<u64> = running(times).map(|time| microseconds(first, time) / length).collect();
    let parts = (0..=part_of.last().copied().unwrap_or(0)).take(MOST_INTERVALS + 1).map(|part| {
        let name = format!("{} to {}", seconds(part * length), seconds((part + 1).saturating_mul(length)));
        let [from, to] = [part, part + 1].map(|part| part_of.partition_point(|&of| of < part));
        (name, Window::of_counts(from, to))
    });
    Some(parts.collect())
}

/// Microseconds from a time to a later one.
fn microseconds(from: i64, to: i64) -> u64 {
    u64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0)
}

/// Microseconds as `1.25 s`.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_zeros_at_their_end() {
        assert_eq!(seconds(1_250_000), "1.25 s");
        assert_eq!(seconds(0), "0 s");
    }
}
