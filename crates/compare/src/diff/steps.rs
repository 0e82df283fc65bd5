//! Memory that each step of the after leaves behind and the before does not. In a few steps it stays below every limit.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::phase::steps::{self, FoundBy, WantedSteps};
use ptmem_trace::profile::{DeviceProfile, Profile};
use ptmem_trace::trace::Window;

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

/// Bytes that a device gains from the beginning of each named step to that of the next.
fn gains(profile: &Profile, device: &DeviceProfile) -> Vec<i128> {
    let found =
        steps::find(&profile.course(device), &device.phases.marks(), profile.grouper().code(), &WantedSteps::Any);
    let borders = found.filter(|steps| matches!(steps.how, FoundBy::Named(_))).map(|steps| steps.borders());
    let borders = borders.unwrap_or_default();
    let windows: Vec<Window> = borders.windows(2).map(|ends| Window { from: ends[0], to: ends[1] }).collect();
    let parts = device.trace.parts(&windows);
    parts.into_iter().map(|part| i128::from(part.end.allocated) - i128::from(part.start.allocated)).collect()
}
