//! The figures of one recording, device by device.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{self, Diagnostic};
use ptmem_base::text::nearest;
use ptmem_snapshot::snapshot::{AllocatorSettings, Copier, FunctionsOfFile, RunFacts, Tables};

use super::device::DeviceProfile;
use super::error::ProfileError;
use super::moment::Moment;
use super::options::ReadOptions;
use super::phases::Phases;
use super::serving::{Serving, StatedFigure};
use super::source::{InputKind, Raise, Source};
use crate::phase::steps::AllocationCourse;
use crate::stack::{Facts, GroupBy, Grouper, SnapshotCode};
use crate::tags::{HOW_TO_RECORD, how_to_record};

/// The figures of one snapshot.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Profile {
    /// Where it came from.
    pub source: Source,
    /// For a saved profile, the snapshot that it was computed from.
    pub recorded: Option<Source>,
    /// Why its figures were raised since it was first stored.
    pub raises: Vec<Raise>,
    /// How it was computed.
    pub options: ReadOptions,
    /// The patterns of [`ReadOptions::ignore`] by which phases are left out of it.
    pub ignored: Vec<String>,
    /// Allocator settings at the dump.
    pub settings: AllocatorSettings,
    /// True if the release keeps annotations in its snapshots.
    pub keeps_annotations: bool,
    /// Microseconds since 1970 of the last event of any device, where the release wrote times.
    pub ended_us: Option<i64>,
    /// Per device, in order of their numbers; pinned host memory last.
    pub devices: Vec<DeviceProfile>,
    /// Facts about the run, where the recorder added some.
    pub run: Option<RunFacts>,
    /// What a server stated of its memory.
    pub serving: BTreeMap<Serving, StatedFigure>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// The frames that [`super::GroupMember::stack`] refers to; profiles of one job may share them.
    pub tables: Arc<Tables>,
    /// Facts about these frames, where the tables are still its own.
    pub(super) facts: Option<Arc<Facts>>,
}

impl Profile {
    /// The reason why it does not leave out the phases to ignore, or leaves out others, as the end of a sentence about a side.
    pub fn ignores_otherwise(&self) -> Option<String> {
        let asked = self.options.ignored();
        if self.ignored == asked {
            return None;
        }
        let list = |patterns: &[String]| patterns.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(", ");
        Some(match (self.source.kind, self.ignored.is_empty()) {
            (InputKind::Profile, true) => {
                format!("was saved with the phases to ignore ({}): write it again from its snapshot", list(&asked))
            }
            (InputKind::Profile, false) => {
                format!("was saved without the phases {}: write it again from its snapshot", list(&self.ignored))
            }
            (InputKind::Numbers, _) => format!("holds only figures, with the phases to ignore ({})", list(&asked)),
            (InputKind::Snapshot | InputKind::Segments, _) => {
                format!("lacks frees, so that phases cannot be left out ({})", list(&asked))
            }
        })
    }

    /// Drops everything that a report on many profiles does not show, and moves the stacks to shared tables. The caller
    /// sets [`Profile::tables`] to these in the end.
    pub fn pool(&mut self, shared: &mut Tables) {
        self.forget_history();
        let mut copy = Copier::new(&self.tables, shared);
        for device in &mut self.devices {
            device.copy_failed_stacks(&mut copy);
            for total in &mut device.stacks {
                for member in &mut total.members {
                    member.stack = copy.stack(member.stack);
                }
                total.members.shrink_to_fit();
            }
            device.stacks.shrink_to_fit();
        }
        self.tables = Arc::default();
        self.facts = None;
    }

    /// Runs a function on the devices, after computing the facts about their stacks.
    pub(super) fn with_devices<T>(&mut self, act: impl FnOnce(&Self, &mut [DeviceProfile]) -> T) -> T {
        let mut devices = std::mem::take(&mut self.devices);
        self.facts = Some(self.code().facts());
        let done = act(self, &mut devices);
        self.devices = devices;
        done
    }

    /// Drops what happened, and keeps the figures and the stacks: of a series of profiles the histories would take most.
    pub fn forget_history(&mut self) {
        self.devices.iter_mut().for_each(DeviceProfile::forget_trace);
    }

    /// Looks at another moment: [`super::Sums::at`] is held then. Moments by time are known while a snapshot is read alone.
    pub fn look_at(&mut self, at: Moment) {
        self.options.at = at;
        self.with_devices(|profile, devices| {
            let grouper = profile.grouper();
            devices.iter_mut().for_each(|device| device.look_at(&profile.options.at, &grouper, profile.run.as_ref()));
        });
    }

    /// Names of phases similar to a mistyped one, as the end of a sentence.
    pub fn nearest_phases(&self, name: &str) -> String {
        nearest(name, "phase", self.devices.iter().flat_map(|device| &device.phases.all).map(|phase| &*phase.name))
    }

    /// Adds the passes of training, which follow from the stacks.
    pub(super) fn add_passes(&mut self) {
        self.with_devices(|profile, devices| {
            devices.iter_mut().for_each(|device| device.add_passes(&profile.code(), &profile.options.at));
        });
    }

    /// Puts the stacks of all devices into groups.
    pub(super) fn group(&mut self) {
        self.with_devices(|profile, devices| {
            let grouper = profile.grouper();
            devices.iter_mut().for_each(|device| device.group(&grouper, profile.run.as_ref()));
        });
    }

    /// Keeps one device and its diagnostics.
    pub(super) fn restrict_to(&mut self, device: DeviceId) -> Result<(), ProfileError> {
        if !self.devices.iter().any(|known| known.device == device) {
            return Err(ProfileError::NoDevice {
                device,
                known: self.devices.iter().map(|known| known.device).collect(),
            });
        }
        self.devices.retain(|known| known.device == device);
        self.diagnostics.retain(|found| found.device.is_none_or(|of| of == device));
        Ok(())
    }

    /// Drops everything that a report on many comparisons does not show.
    pub fn forget_stacks(&mut self) {
        self.forget_history();
        self.devices.iter_mut().for_each(|device| device.stacks = Vec::new());
        self.tables = Arc::default();
        self.facts = None;
    }

    /// Drops the phases, which only pages of one comparison among many show.
    pub fn forget_phases(&mut self) {
        self.devices.iter_mut().for_each(|device| device.phases = Phases::default());
    }

    /// True if the recorder saw what stacks are grouped by, where it does so only if asked; also if nothing was recorded.
    pub fn is_recorded_for(&self, by: GroupBy) -> bool {
        let mut classes = self.devices.iter().flat_map(|device| &device.trace.classes).peekable();
        let every_one_is = how_to_record(by).is_none() || classes.peek().is_none();
        every_one_is || classes.any(|class| class.tags.of(by).is_some())
    }

    /// True if the recorder saw purposes of memory.
    pub fn has_purposes(&self) -> bool {
        let mut classes = self.devices.iter().flat_map(|device| &device.trace.classes);
        classes.any(|class| class.tags.purpose.is_some())
    }

    /// Notes how to record modules, where a recorder that can do so was not asked to.
    pub fn note_lack_of_modules(&mut self) {
        let is_of_recorder = self.run.as_ref().is_some_and(|run| !run.recorder.is_empty());
        if is_of_recorder && !self.has_purposes() {
            let message = format!("there is no memory by module and by purpose: {HOW_TO_RECORD}");
            self.diagnostics.push(Diagnostic::new(diagnostic::Code::ModulesNotRecorded, None, message));
        }
    }

    /// The position of a device by its number.
    pub fn position(&self, device: DeviceId) -> Option<usize> {
        self.devices.iter().position(|known| known.device == device)
    }

    /// True if it holds only figures.
    pub fn is_numbers(&self) -> bool {
        self.devices.iter().any(DeviceProfile::is_numbers)
    }

    /// True if anything was allocated in the recorded part, on any device.
    pub fn allocates(&self) -> bool {
        self.devices.iter().any(|of| of.device.is_device() && of.figures.allocation_count > 0)
    }

    /// Pinned host memory, where any was recorded or is held.
    pub fn host(&self) -> Option<&DeviceProfile> {
        self.devices.iter().find(|device| device.is_active_host())
    }

    /// The devices that limits are about.
    pub fn gated_devices(&self) -> impl Iterator<Item = &DeviceProfile> {
        self.devices.iter().filter(|device| device.is_gated())
    }

    /// True if another profile has the same frames under the same rules.
    pub fn shares_frames(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tables, &other.tables) && self.options.rules == other.options.rules
    }

    /// The frames of its stacks.
    pub fn code(&self) -> SnapshotCode<'_> {
        match &self.facts {
            Some(facts) => SnapshotCode::with(&self.tables, facts),
            None => SnapshotCode::new(&self.tables, &self.options.rules, self.functions()),
        }
    }

    /// The commit at which it was recorded, where that is known.
    pub fn commit(&self) -> Option<&str> {
        self.run.as_ref()?.commit.as_deref()
    }

    /// The qualified names of functions, as far as the run states them.
    fn functions(&self) -> &[FunctionsOfFile] {
        self.run.as_ref().map_or(&[], |run| &run.functions)
    }

    /// True if functions have the names that they have within their classes.
    pub fn has_qualified_names(&self) -> bool {
        !self.functions().is_empty()
    }

    /// Groups stacks by the last part of the names of functions: another profile knows nothing else.
    pub fn forget_qualified_names(&mut self) {
        self.run.iter_mut().for_each(|run| run.functions.clear());
        self.name_functions(&[]);
    }

    /// Groups stacks by these names of functions.
    pub fn name_functions(&mut self, names: &[FunctionsOfFile]) {
        self.facts = Some(SnapshotCode::new(&self.tables, &self.options.rules, names).facts());
        self.group();
    }

    /// The allocations of one of its devices, by which steps are found.
    pub fn course(&self, device: &DeviceProfile) -> AllocationCourse {
        let calls = self.run.iter().flat_map(|run| &run.calls).find(|of| of.device == device.device);
        let optimizers = self.run.as_ref().map(|run| run.optimizers.clone()).unwrap_or_default();
        AllocationCourse::new(&device.trace, calls, optimizers)
    }

    /// The grouper that gave the stacks their keys and labels.
    pub fn grouper(&self) -> Grouper<'_> {
        self.grouper_by(self.options.group_by)
    }

    /// The same for another grouping.
    pub fn grouper_by(&self, by: GroupBy) -> Grouper<'_> {
        Grouper::of(self.code(), by)
    }
}
