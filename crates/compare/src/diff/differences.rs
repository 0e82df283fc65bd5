//! What a comparison finds: the differences of two profiles, device by device.

use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::pattern::{Pattern, Selector};
use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::{Copier, Tables};
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};
use ptmem_trace::stack::SnapshotCode;

use super::categories::CategoryChange;
use super::cause::{Cause, Figure};
use super::phases::PhaseRow;
use super::places::ComparedPlaces;
use super::row::{Change, Row};
use crate::align::{Alignment, MissingPart, Overlap};
use crate::patch::Edit;

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
    /// Every stack, the largest change first, and [`super::RowKind::PeakElsewhere`] where it is needed: they add up to the
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
    pub peaks: Sides<Option<String>>,
    /// The change by what memory is for, at the moment that is compared.
    pub categories: Vec<CategoryChange>,
    /// The edits that its growth leads to, by the figure that grew, that of the peak first; empty before
    /// [`Diff::find_causes`].
    pub causes: Vec<Cause>,
}

impl DeviceDiff {
    /// The change of a figure.
    pub fn metric(&self, metric: Metric) -> Change {
        let found = self.metrics.iter().find(|(of, _)| *of == metric);
        found.map(|&(_, change)| change).unwrap_or_default()
    }

    /// A pattern among the names of all stacks of the device.
    pub fn selector<'p>(&self, pattern: &'p Pattern) -> Selector<'p> {
        Selector::new(pattern, self.rows.iter().map(|row| row.naming(pattern)))
    }

    /// The name of the device, that of the after where it exists there.
    pub fn id(&self) -> Option<DeviceId> {
        self.device.after.or(self.device.before)
    }

    /// How much of the before the after has, where that is little and no missing part explains it.
    pub fn little_overlap(&self) -> Option<&Overlap> {
        let is_explained = self.is_host() || self.missing.iter().any(|missing| missing.side == Side::After);
        self.alignment.as_ref()?.overlap.as_ref().filter(|overlap| overlap.is_little() && !is_explained)
    }

    /// True for pinned host memory.
    pub fn is_host(&self) -> bool {
        self.id() == Some(DeviceId::Host)
    }

    /// The cause of the growth of a figure.
    pub fn cause(&self, figure: Figure) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.figure == figure)
    }

    /// An edit of the change.
    pub fn edit(&self, edit: usize) -> Option<&Edit> {
        self.causes.first()?.edits.get(edit)
    }

    /// The name of the device in a report.
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
                let stacks = [row.stack.of_mut(side), row.explained_by.of_mut(side)].into_iter().flatten();
                stacks.for_each(|stack| *stack = copy.stack(*stack));
            }
            profile.devices.iter_mut().for_each(|device| device.copy_failed_stacks(&mut copy));
            profile.forget_stacks();
        }
    }

    /// Drops the phases of both sides: the comparison has its own.
    pub fn forget_phases(&mut self) {
        Side::BOTH.iter().for_each(|&side| self.profiles.of_mut(side).forget_phases());
    }

    /// Sets the tables that [`Diff::pool`] moved the stacks to.
    pub fn share(&mut self, shared: &Sides<Arc<Tables>>) {
        self.profiles.before.tables = Arc::clone(&shared.before);
        self.profiles.after.tables = Arc::clone(&shared.after);
    }

    /// True if both have the same frames, so that what is known of them is the same.
    pub fn shares_frames(&self, other: &Self) -> bool {
        self.profiles.before.shares_frames(&other.profiles.before)
            && self.profiles.after.shares_frames(&other.profiles.after)
    }

    /// The profiles of a device, where a side has it.
    pub fn sides_of(&self, device: &DeviceDiff) -> Sides<Option<&DeviceProfile>> {
        devices(&self.profiles, device.index)
    }

    /// The frames of both sides.
    pub fn codes(&self) -> Sides<SnapshotCode<'_>> {
        self.profiles.map(Profile::code)
    }
}

/// The devices of both sides, where they are there.
pub(super) fn devices(profiles: &Sides<Profile>, index: Sides<Option<usize>>) -> Sides<Option<&DeviceProfile>> {
    Sides::BOTH.map(|&side| index.of(side).map(|index| &profiles.of(side).devices[index]))
}
