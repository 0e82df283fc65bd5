//! Memory that each step of the after leaves behind and the before does not. In a few steps it stays below every limit.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::phase::steps::{self, FoundBy, WantedSteps};
use ptmem_trace::profile::{DeviceProfile, Profile};

use super::DeviceDiff;
use super::differences::devices;
use ptmem_trace::profile::Metric;

/// Reports a device on which every step gained the same more than before. Other growth, as that of a program whose inputs differ
/// in size, says nothing about the next steps.
pub(super) fn tell(profiles: &Sides<Profile>, device: &DeviceDiff) -> Option<Diagnostic> {
    device.metric(Metric::End).gained().filter(|gained| *gained > 0)?;
    let devices = devices(profiles, device.index).both()?;
    let gains = Sides::BOTH.map(|&side| gains(profiles.of(side), devices.of(side)));
    if gains.before.len() != gains.after.len() {
        return None;
    }
    let more: Vec<i128> = gains.after.iter().zip(&gains.before).map(|(after, before)| after - before).collect();
    let (first, rest) = more.split_first()?;
    let each = u64::try_from(*first).ok().filter(|&each| each > 0)?;
    if rest.is_empty() || rest.iter().any(|other| other != first) {
        return None;
    }
    let message = format!(
        "each of {} of the after leaves {} more behind than that of the before: a leak, if more steps go on like this",
        count(more.len() as u64, "step", "steps"),
        Size(each)
    );
    Some(Diagnostic::new(Code::StepsLeaveMore, device.id(), message))
}

/// Requested bytes that a device gains from the beginning of each named step to that of the next: by how much a block exceeds
/// its request may differ from step to step.
fn gains(profile: &Profile, device: &DeviceProfile) -> Vec<i128> {
    let found =
        steps::find(&profile.course(device), &device.phases.marks(), profile.grouper().code(), &WantedSteps::Any);
    let borders = found.filter(|steps| matches!(steps.how, FoundBy::Named(_))).map(|steps| steps.borders());
    let borders = borders.unwrap_or_default();
    let trace = &device.trace;
    let requested = |class: u32| i128::from(trace.classes[class as usize].requested);
    let changes = trace
        .moves
        .iter()
        .map(|one| one.begins().map_or(0, |block| requested(block.class)) - one.frees().map_or(0, requested));
    let changes: Vec<i128> = changes.collect();
    let steps = borders.windows(2).map(|ends| {
        let [from, to] = [ends[0], ends[1]].map(|end| end.count().min(trace.symbols.len()));
        trace.symbols[from..to.max(from)].iter().map(|&symbol| changes[symbol as usize]).sum()
    });
    steps.collect()
}
