//! Compares two profiles: devices, figures and stacks.

mod alignment;
mod categories;
pub mod cause;
mod inputs;
mod moved;
mod phases;
mod places;
mod recordings;
mod repeat;
mod row;
mod stacks;
mod steps;

use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::pattern::{Pattern, Selector};
pub use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::{Copier, Tables};
pub use ptmem_trace::profile::Metric;
use ptmem_trace::profile::{DeviceProfile, Moment, Profile};
use ptmem_trace::stack::{Grouper, SnapshotCode};

use crate::align::{Alignment, MissingPart, Overlap, Parts};
pub use crate::patch::CodeLine;
use alignment::Aligned;
pub use alignment::PeakPlace;
pub use alignment::alignment;
pub use categories::CategoryChange;
use cause::Cause;
use moved::Compared;
pub use phases::{ListedPhases, Occurrences, PhaseOptions, PhaseRow, listed_phases};
pub use places::{Apart, ComparedPlaces, Place};
pub use row::{ChangeKind, Destination, Row, RowChoice, RowKind, RowLine, RowLines, listed};
pub(crate) use stacks::paired;
use stacks::rows;

/// The bytes of a figure on both sides, where they are known.
pub type Change = Sides<Option<u64>>;

/// The comparison of one device.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceDiff {
    /// Index into the devices of each profile; `None` where the device is missing there.
    pub index: Sides<Option<usize>>,
    /// Names of the device.
    pub device: Sides<Option<DeviceId>>,
    /// The figures, in the order of [`Metric::ALL`].
    pub metrics: Vec<(Metric, Change)>,
    /// Every stack, the largest change first, and [`RowKind::PeakElsewhere`] where it is needed: they add up to the
    /// change of the peak, or of the allocated bytes at another requested moment.
    pub rows: Vec<Row>,
    /// Phases, in the order in which they begin.
    pub phases: Vec<PhaseRow>,
    /// How the histories of both sides correspond; `None` if a side does not have the order of its allocations.
    pub alignment: Option<Alignment>,
    /// Parts that one of the recordings lacks.
    pub missing: Vec<MissingPart>,
    /// The side that is a part of the other, without evidence that its recording is shorter, not its program.
    pub parts_unclear: Option<Side>,
    /// How the frames that both sides record differ, where equal code has other stacks for it.
    pub other_frames: Option<String>,
    /// The places that are compared; `None` where a side has no such moment.
    pub places: Option<ComparedPlaces>,
    /// The places of the peaks in the program, where they are known.
    pub peaks: Sides<Option<PeakPlace>>,
    /// The change by what memory is for, at the moment that is compared.
    pub categories: Vec<CategoryChange>,
    /// The edits that its growth leads to, by the figure that grew, that of the peak first; empty before
    /// [`Diff::find_causes`].
    pub causes: Vec<Cause>,
}

impl DeviceDiff {
    /// The change of a figure.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Change {
        let found = self.metrics.iter().find(|(of, _)| *of == metric);
        found.map(|&(_, change)| change).unwrap_or_default()
    }

    /// A pattern among the names of all stacks of the device.
    #[must_use]
    pub fn selector<'p>(&self, pattern: &'p Pattern) -> Selector<'p> {
        Selector::new(pattern, self.rows.iter().map(|row| row.naming(pattern)))
    }

    /// The name of the device, that of the after where it exists there.
    #[must_use]
    pub fn id(&self) -> Option<DeviceId> {
        self.device.after.or(self.device.before)
    }

    /// How much of the before the after has, where that is little and no missing part explains it.
    #[must_use]
    pub fn little_overlap(&self) -> Option<&Overlap> {
        let is_explained = self.is_host() || self.missing.iter().any(|missing| missing.side == Side::After);
        self.alignment.as_ref()?.overlap.as_ref().filter(|overlap| overlap.is_little() && !is_explained)
    }

    /// True for pinned host memory.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.id() == Some(DeviceId::Host)
    }

    /// The name of the device in a report.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.device.before, self.device.after) {
            (Some(before), Some(after)) if before != after => format!("{before} -> {after}"),
            (Some(device), _) | (None, Some(device)) => format!("{device}"),
            (None, None) => "no device".to_owned(),
        }
    }
}

/// The comparison of two profiles.
#[derive(Debug)]
#[non_exhaustive]
pub struct Diff {
    /// The profiles that were compared.
    pub profiles: Sides<Profile>,
    /// Device by device.
    pub devices: Vec<DeviceDiff>,
    /// Diagnostics that concern the comparison, not one side of it.
    pub diagnostics: Vec<Diagnostic>,
}

impl Diff {
    /// Leaves nothing but what a report shows of one comparison among many, and moves the stacks to tables that these
    /// share, which [`Diff::share`] must get in the end.
    pub fn pool(&mut self, shared: &mut Sides<Tables>) {
        for device in &mut self.devices {
            device.alignment = None;
            device.rows.iter_mut().for_each(|row| row.members = Vec::new());
            device.rows.retain(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0);
            device.rows.shrink_to_fit();
        }
        for side in Side::BOTH {
            let profile = self.profiles.of_mut(side);
            let mut copy = Copier::new(&profile.tables, shared.of_mut(side));
            for row in self.devices.iter_mut().flat_map(|device| &mut device.rows) {
                row.stack.of_mut(side).iter_mut().for_each(|stack| *stack = copy.stack(*stack));
            }
            profile.devices.iter_mut().for_each(|device| device.copy_failed_stacks(&mut copy));
            profile.forget_stacks();
        }
    }

    /// Sets the tables that [`Diff::pool`] moved the stacks to.
    pub fn share(&mut self, shared: &Sides<Arc<Tables>>) {
        self.profiles.before.tables = Arc::clone(&shared.before);
        self.profiles.after.tables = Arc::clone(&shared.after);
    }

    /// True if both have the same frames, so that what is known of them is the same.
    #[must_use]
    pub fn shares_frames(&self, other: &Self) -> bool {
        self.profiles.before.shares_frames(&other.profiles.before)
            && self.profiles.after.shares_frames(&other.profiles.after)
    }

    /// The profiles of a device, where a side has it.
    #[must_use]
    pub fn sides_of(&self, device: &DeviceDiff) -> Sides<Option<&DeviceProfile>> {
        devices(&self.profiles, device.index)
    }

    /// The frames of both sides.
    #[must_use]
    pub fn codes(&self) -> Sides<SnapshotCode<'_>> {
        self.profiles.map(Profile::code)
    }
}

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffOptions {
    /// The similarity, from 0 to 1, from which stacks count as the same although the code has changed.
    pub match_ratio: f64,
    /// Options for phases.
    pub phases: PhaseOptions,
}

/// Default of [`DiffOptions::match_ratio`].
/// Needed for `changes/moved-and-fused`.
const MATCH_RATIO: f64 = 0.75;

impl Default for DiffOptions {
    fn default() -> Self {
        Self { match_ratio: MATCH_RATIO, phases: PhaseOptions::default() }
    }
}

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
#[must_use]
pub fn compare(before: Profile, after: Profile, options: DiffOptions) -> Diff {
    let pairs = pair_devices(&before, &after);
    let mut profiles = Sides { before, after };
    level_names(&mut profiles);
    ptmem_trace::profile::tell_guesses_once(&mut profiles);
    let aligned = alignment::align(&profiles, &pairs, options);
    if matches!(profiles.before.options.at, Moment::Aligned) {
        alignment::look_at_peaks(&mut profiles, &pairs, &aligned);
    }
    let comparing = Comparing {
        profiles: &profiles,
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
        places::tell(&profiles, device, &mut diagnostics);
        diagnostics.extend(steps::tell(&profiles, device));
    }
    recordings::compare_settings(&profiles, &mut diagnostics);
    recordings::compare_runs(&profiles, &devices, &mut diagnostics);
    diagnostics.extend(repeat::tell(&profiles, &devices));
    diagnostics.extend(of_devices.into_iter().flatten());
    Diff { profiles, devices, diagnostics }
}

/// The devices of both sides, where they are there.
fn devices(profiles: &Sides<Profile>, index: Sides<Option<usize>>) -> Sides<Option<&DeviceProfile>> {
    Sides::BOTH.map(|&side| index.of(side).map(|index| &profiles.of(side).devices[index]))
}

/// Pairs devices by number, or the only active one of each side whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them. Devices that did nothing on either side are left out. Pinned host memory is
/// paired with itself, last.
fn pair_devices(before: &Profile, after: &Profile) -> Vec<Sides<Option<usize>>> {
    let allocates = before.allocates() || after.allocates();
    let sides = Sides { before, after };
    let only = sides
        .map(|side| only(side, DeviceProfile::is_active_device).or(only(side, |device| device.is_gated(allocates))));
    let of_both = before.devices.iter().chain(&after.devices);
    let is_single = only.missing().is_none();
    let paired = of_both.filter(|of| of.is_active_host() || of.is_gated(allocates) && !is_single);
    let mut numbers: Vec<DeviceId> = paired.map(|device| device.device).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let by_number = numbers.into_iter().map(|n| Sides { before: before.position(n), after: after.position(n) });
    Some(only).filter(|_| is_single).into_iter().chain(by_number).collect()
}

/// The position of the only device that counts, if there is exactly one.
fn only(profile: &Profile, counts: impl Fn(&DeviceProfile) -> bool) -> Option<usize> {
    let mut found = (0..profile.devices.len()).filter(|&at| counts(&profile.devices[at]));
    found.next().filter(|_| found.next().is_none())
}

/// What the comparison of every device uses.
struct Comparing<'p> {
    profiles: &'p Sides<Profile>,
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
        if let Some(closing) = places.as_ref().and_then(|places| places.closing_row(peaks.before.as_ref())) {
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
        let paired = paired(stacks, groupers, self.options);
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
        let rows = rows(stacks.map(|stacks| &**stacks), &self.groupers, &pairs, at);
        (rows, categories::changes(devices, &self.of_categories))
    }
}
