//! Memory that each step of the after leaves behind and the before does not. In a few steps it stays below every limit.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::phase::steps::{self, Steps, WantedSteps};
use ptmem_trace::profile::{DeviceProfile, Profile};

use super::DeviceDiff;
use super::differences::devices;
use ptmem_trace::profile::Metric;
use ptmem_trace::trace::Measure;

/// Reports a device on which every step gained the same more than before, or every step after some that gained as much as before:
/// what a step leaves behind may show only when later ones replace other memory. Other growth, as that of a program whose inputs
/// differ in size, says nothing about the next steps.
pub(super) fn tell(profiles: &Sides<Profile>, device: &DeviceDiff) -> Option<Diagnostic> {
    let ends_higher = device.metric(Metric::End).gained().is_some_and(|gained| gained > 0);
    let devices = devices(profiles, device.index).both()?;
    if !ends_higher && most_risen(devices.after) <= most_risen(devices.before) {
        return None;
    }
    let gains = Sides::BOTH.map(|&side| gains(profiles.of(side), devices.of(side)));
    if gains.before.len() != gains.after.len() {
        return None;
    }
    let more: Vec<[i128; 2]> = gains
        .after
        .iter()
        .zip(&gains.before)
        .map(|(after, before)| [after[0] - before[0], after[1] - before[1]])
        .collect();
    let grew = &more[more.iter().position(|step| *step != [0; 2])?..];
    // By how much a block exceeds its request may differ from step to step, and many requests may share a size of blocks.
    let figure = [0, 1].into_iter().find(|&figure| {
        grew.len() > 1 && grew.iter().all(|step| step[figure] == grew[0][figure] && step[figure] > 0)
    })?;
    let each = u64::try_from(grew[0][figure]).ok().filter(|_| grew.iter().all(|step| step[0] > 0))?;
    let steps = count(more.len() as u64, "step", "steps");
    let which = if grew.len() == more.len() { steps } else { format!("the last {} of {steps}", grew.len()) };
    let meaning = if ends_higher { "a leak, if more steps go on like this" } else { "it is held until after them" };
    let message =
        format!("each of {which} of the after leaves {} more behind than that of the before: {meaning}", Size(each));
    Some(Diagnostic::new(Code::StepsLeaveMore, device.id(), message))
}

/// The most by which what is held where a phase begins rises from its first occurrence to its last. To look is cheap beside finding
/// steps.
fn most_risen(device: &DeviceProfile) -> i128 {
    let mut first: BTreeMap<&str, u64> = BTreeMap::new();
    let rises = device.phases.marks().into_iter().map(|phase| {
        let held = phase.held.start.allocated;
        i128::from(held) - i128::from(*first.entry(&phase.name).or_insert(held))
    });
    rises.max().unwrap_or(0)
}

/// Allocated and requested bytes that a device gains from the beginning of each named step to that of the next.
fn gains(profile: &Profile, device: &DeviceProfile) -> Vec<[i128; 2]> {
    let found =
        steps::find(&profile.course(device), &device.phases.marks(), profile.grouper().code(), &WantedSteps::Any);
    let borders = found.filter(Steps::are_named).map(|steps| steps.borders());
    let borders = borders.unwrap_or_default();
    let counters = [Measure::Allocated, Measure::Requested];
    let held = counters.map(|counter| device.trace.values(counter).collect::<Vec<i128>>());
    let last = held[0].len() - 1;
    let steps = borders.windows(2).map(|ends| {
        let [from, to] = [ends[0], ends[1]].map(|end| end.count().min(last));
        [held[0][to] - held[0][from], held[1][to] - held[1][from]]
    });
    steps.collect()
}
