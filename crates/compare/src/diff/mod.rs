//! Compares two profiles: devices, figures and stacks.

mod alignment;
mod categories;
pub mod cause;
mod checkpoints;
mod converted;
mod differences;
mod exchanged;
mod extracted;
mod inputs;
mod likeness;
mod moved;
mod options;
mod phases;
mod places;
mod recordings;
mod repeat;
mod row;
mod stacks;
mod steps;
mod unpaired;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_trace::profile::{DeviceProfile, Moment, Profile};
use ptmem_trace::stack::{ComparedFunctions, Grouper};

use crate::align::Parts;
use alignment::Aligned;
use differences::devices;
use moved::Compared;
use stacks::rows;

pub use categories::CategoryChange;
pub use differences::{DeviceDiff, Diff};
pub use options::DiffOptions;
pub use phases::{ListedPhases, Occurrences, PhaseOptions, PhaseRow, listed_phases};
pub use places::{Apart, ComparedPlaces, Place};
pub use row::{Change, ChangeKind, Destination, JointChange, Row, RowChoice, RowKind, RowLine, RowLines, listed};
pub(crate) use stacks::paired;

pub use crate::patch::CodeLine;
pub use ptmem_base::sides::{Side, Sides};
pub use ptmem_trace::profile::Metric;

/// Uses the same names of functions on both sides: if only one side knew the classes of functions, none of its stacks
/// would equal a stack of the other.
fn level_names(profiles: &mut Sides<Profile>) {
    if profiles.before.has_qualified_names() != profiles.after.has_qualified_names() {
        let Sides { before, after } = profiles;
        let knowing = [before, after].into_iter().filter(|profile| profile.has_qualified_names());
        knowing.for_each(Profile::forget_qualified_names);
    }
}

/// Compares a before with an after. Where the before was read at [`Moment::Aligned`], both are compared where the program
/// does the same: at the peak of the after, and where the before does what it does there.
pub fn compare(before: Profile, after: Profile, options: DiffOptions) -> Diff {
    let pairs = pair_devices(&before, &after);
    let mut profiles = Sides { before, after };
    level_names(&mut profiles);
    ptmem_trace::profile::tell_guesses_once(&mut profiles);
    let codes = profiles.map(Profile::code);
    let functions = ComparedFunctions::new(codes.map(|code| code));
    let aligned = alignment::align(&profiles, &pairs, &functions, options);
    if matches!(profiles.before.options.at, Moment::Aligned) {
        alignment::look_at_peaks(&mut profiles, &pairs, &aligned);
    }
    let comparing = Comparing {
        profiles: &profiles,
        functions,
        groupers: profiles.map_at_once(Profile::grouper),
        of_categories: categories::groupers(&profiles),
        options,
    };
    let compared = pairs.into_iter().zip(aligned).map(|(index, aligned)| comparing.device(index, aligned));
    let (mut devices, of_devices): (Vec<DeviceDiff>, Vec<Vec<Diagnostic>>) = compared.unzip();
    // A rank mostly has one device, and there can be thousands of ranks: without this, each keeps room for four.
    devices.shrink_to_fit();
    let mut diagnostics = Vec::new();
    for device in &devices {
        recordings::compare(&profiles, device, &mut diagnostics);
        alignment::tell(&profiles, device, &mut diagnostics);
        alignment::tell_places(&profiles, device, &mut diagnostics);
        diagnostics.extend(steps::tell(&profiles, device));
    }
    recordings::compare_computation(&profiles, &mut diagnostics);
    recordings::compare_settings(&profiles, &mut diagnostics);
    recordings::compare_runs(&profiles, &devices, &mut diagnostics);
    diagnostics.extend(repeat::tell(&profiles, &devices));
    diagnostics.extend(of_devices.into_iter().flatten());
    Diff { profiles, devices, diagnostics }
}

/// Pairs devices by number, or the only used one of each side whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them. Devices that neither side uses are left out. Pinned host memory is
/// paired with itself, last.
fn pair_devices(before: &Profile, after: &Profile) -> Vec<Sides<Option<usize>>> {
    let only = Sides { before: only_gated(before), after: only_gated(after) };
    let of_both = before.devices.iter().chain(&after.devices);
    let is_single = only.missing().is_none();
    let paired = of_both.filter(|of| of.is_active_host() || of.is_gated() && !is_single);
    let mut numbers: Vec<DeviceId> = paired.map(|device| device.device).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let by_number = numbers.into_iter().map(|n| Sides { before: before.position(n), after: after.position(n) });
    Some(only).filter(|_| is_single).into_iter().chain(by_number).collect()
}

/// The position of the only device that limits are about, if there is exactly one.
fn only_gated(profile: &Profile) -> Option<usize> {
    let mut found = (0..profile.devices.len()).filter(|&at| profile.devices[at].is_gated());
    found.next().filter(|_| found.next().is_none())
}

/// What the comparison of every device uses.
struct Comparing<'p> {
    profiles: &'p Sides<Profile>,
    functions: ComparedFunctions,
    groupers: Sides<Grouper<'p>>,
    of_categories: Sides<Grouper<'p>>,
    options: DiffOptions,
}

impl Comparing<'_> {
    /// Compares one device, with what is to be said about its inputs and phases.
    fn device(&self, index: Sides<Option<usize>>, aligned: Aligned) -> (DeviceDiff, Vec<Diagnostic>) {
        let devices = devices(self.profiles, index);
        let Aligned { mut alignment, peaks } = aligned;
        let Parts { missing, unclear } = match &mut alignment {
            Some(alignment) if !recordings::have_same_whole_steps(self.profiles) => {
                std::mem::take(&mut alignment.parts)
            }
            Some(_) | None => Parts::default(),
        };
        let places = devices
            .both()
            .and_then(|devices| ComparedPlaces::new(self.profiles, devices, alignment.as_ref(), &missing));
        let mut found = Vec::new();
        let (mut rows, mut categories) = self.rows(devices, &mut found);
        if let Some(closing) = places.as_ref().and_then(|places| places.closing_row(peaks.before.as_deref())) {
            categories.push(CategoryChange::peak_elsewhere(&closing));
            rows.push(closing);
        }
        let diff = DeviceDiff {
            index,
            device: devices.map(|device| device.map(|device| device.device)),
            metrics: Metric::ALL.map(|metric| (metric, metric.values(devices))).to_vec(),
            rows,
            phases: phases::rows(devices, self.options.phases, &mut found),
            alignment,
            missing,
            parts_unclear: unclear,
            other_frames: devices.both().and_then(|devices| recordings::other_frames(self.profiles, devices)),
            places,
            peaks,
            categories,
            causes: Vec::new(),
        };
        (diff, found)
    }

    /// The stacks and categories of a device. Without the moment on both sides they cannot be compared.
    fn rows(
        &self,
        devices: Sides<Option<&DeviceProfile>>,
        found: &mut Vec<Diagnostic>,
    ) -> (Vec<Row>, Vec<CategoryChange>) {
        let groupers = Sides { before: &self.groupers.before, after: &self.groupers.after };
        let stacks = devices.map(|device| device.map(|device| &*device.stacks).unwrap_or_default());
        let paired = paired(stacks, groupers, &self.functions, self.options);
        if let Some(devices) = devices.both() {
            found.extend(inputs::compare(devices, &paired.pairs, groupers));
        }
        let has_moment = devices.map(|device| device.is_none_or(|device| device.at.is_some()));
        if !(has_moment.before && has_moment.after) {
            return (Vec::new(), Vec::new());
        }
        let is_at_peak = matches!(self.profiles.after.options.at, Moment::Peak | Moment::Aligned);
        let at = devices.map(|device| device.and_then(|device| device.at).filter(|_| is_at_peak));
        let Compared { stacks, pairs } = moved::follow(devices, groupers, paired);
        let rows = rows(stacks.map(|stacks| &**stacks), devices, &self.groupers, &pairs, at);
        (rows, categories::changes(devices, &self.of_categories))
    }
}
