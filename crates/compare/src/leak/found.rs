//! What a search found.

use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Delta;
use ptmem_snapshot::snapshot::{RunFacts, Tables};
use ptmem_trace::profile::{Profile, Source};
use ptmem_trace::stack::{GroupBy, Rules, SnapshotCode};

use super::device::DeviceLeaks;
use super::leaking::Leak;
use super::options::Mode;

/// The findings in a series of snapshots, or in one.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Search {
    /// Its name, where there are several.
    pub name: Option<String>,
    /// The rank that the snapshots are of, where there are several.
    pub rank: Option<u64>,
    /// The files of the snapshots.
    pub sources: Vec<Source>,
    /// The subject of a search.
    pub mode: Mode,
    /// Per device that did anything.
    pub devices: Vec<DeviceLeaks>,
    /// Whether the latest snapshot has pinned host memory, which is not searched.
    pub has_host: bool,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// The reason why the only snapshot, or the latest of a series, is not of a whole run.
    pub failure: Option<String>,
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// The frames that [`Leak::stack`] refers to.
    pub(super) tables: Arc<Tables>,
    /// The commit at which they were recorded, where that is known.
    pub commit: Option<String>,
    pub(super) rules: Rules,
}

impl Search {
    /// The findings on the devices. `latest` is the only snapshot, or the latest of a series. Leaks refer to its
    /// stacks.
    pub(super) fn new(mode: Mode, latest: &Profile, devices: Vec<DeviceLeaks>, diagnostics: Vec<Diagnostic>) -> Self {
        // Without a leak the report shows no stack.
        let has_leaks = devices.iter().any(|device| !device.leaks.is_empty());
        Self {
            sources: vec![latest.source.clone()],
            mode,
            devices,
            has_host: latest.host().is_some(),
            diagnostics,
            failure: failure(latest),
            group_by: latest.options.group_by,
            tables: if has_leaks { Arc::clone(&latest.tables) } else { Arc::default() },
            commit: latest.commit().map(str::to_owned),
            rules: latest.options.rules.clone(),
            ..Self::default()
        }
    }

    /// The frames of its stacks.
    pub fn code(&self) -> SnapshotCode<'_> {
        SnapshotCode::new(&self.tables, &self.rules, &[])
    }

    /// The frames that [`Leak::stack`] refers to.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// True if a remark of this code was made on a device.
    pub fn says(&self, device: &DeviceLeaks, code: Code) -> bool {
        self.diagnostics.iter().any(|found| found.device == Some(device.device) && found.code == code)
    }

    /// All leaks with their devices, the fastest of each device first.
    pub fn leaks(&self) -> impl Iterator<Item = (&DeviceLeaks, &Leak)> + Clone {
        self.devices.iter().flat_map(|device| device.leaks.iter().map(move |leak| (device, leak)))
    }
}

/// The reason why a snapshot is not of a whole run.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    profile.run.as_ref().and_then(RunFacts::failure)
}

/// The remark on reserved memory that nothing uses and that grows with each of what a noun names.
pub(super) fn fragmentation_grows(device: DeviceId, noun: &str, leak: &Leak) -> Diagnostic {
    let message = format!(
        "unused reserved bytes grow by {} per {noun}, {} in all; look for sizes that vary, or set expandable_segments",
        Delta(leak.bytes_per_step).to_string().trim_start_matches('+'),
        Delta(leak.bytes).to_string().trim_start_matches('+'),
    );
    Diagnostic::new(Code::FragmentationGrows, device, message)
}

/// The remark on leaks of which the recordings do not say whether only reference cycles hold them.
pub(super) fn cycles_unknown(device: DeviceId, mode: Mode) -> Diagnostic {
    let message = match mode {
        Mode::Steps => {
            "it is not known whether Python's garbage collector would free what leaks: record with ptmem_gate.record(), which \
             notes that, or call gc.collect() before the dump"
        }
        // No snapshot of a series says whether it ran before the dump.
        Mode::Series => "Python's garbage collector may free what leaks, unless gc.collect() ran before each dump",
    };
    Diagnostic::new(Code::CyclesUnknown, device, message)
}
