//! The largest number that fits on a card, known from runs with some of the numbers: a batch size, a context length.

use ptmem::budget::{DeviceBudget, DeviceMemory};
use ptmem::device::DeviceId;
use ptmem::diagnostic::Diagnostic;
use ptmem::profile::Profile;
use ptmem::stack::GroupBy;
use ptmem::tracks::{self, DeviceTrack, StackTrack};

/// A search for the largest number that fits.
#[derive(Debug)]
pub(crate) struct NumberSearch {
    /// The name of the number.
    pub(crate) name: String,
    /// The numbers that were searched, as the user gives them.
    pub(crate) range: String,
    /// The card, in words.
    pub(crate) card: String,
    /// The runs that fit, by their numbers.
    pub(crate) runs: Runs,
    /// The numbers that were tried and do not fit.
    pub(crate) too_large: Vec<u64>,
    /// A number, and a larger one that took so much less memory that numbers beyond the first that does not fit may fit.
    pub(crate) falling: Option<[u64; 2]>,
    /// The first number that does not fit, and its recording.
    pub(crate) beyond: Option<(u64, Profile)>,
    /// Whether that run went on to its end after memory ran out.
    pub(crate) went_on: bool,
}

/// Runs of one program with several numbers.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Each of them.
    pub(crate) all: Vec<MeasuredRun>,
    /// Each device.
    pub(crate) devices: Vec<DeviceRuns>,
    /// The grouping of stacks.
    pub(crate) group_by: GroupBy,
    /// Notes and warnings about the runs.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct MeasuredRun {
    /// Its file.
    pub(crate) path: String,
    /// Its number.
    pub(crate) x: u64,
}

/// A device in all runs.
#[derive(Debug)]
pub(crate) struct DeviceRuns {
    /// Its ordinal.
    pub(crate) device: DeviceId,
    /// Allocated peaks of the runs; `None` where one is not known.
    pub(crate) peaks: Vec<Option<u64>>,
    /// Reserved peaks of the runs.
    pub(crate) reserved: Vec<Option<u64>>,
    /// The stacks at the peaks of the runs, the largest of the last run first.
    pub(crate) stacks: Vec<StackTrack>,
    /// The memory of the device, where it is given.
    pub(crate) budget: Option<DeviceBudget>,
}

impl Runs {
    /// The runs with these numbers, in their order. Their profiles are those at the peak.
    pub(crate) fn new(profiles: &[Profile], numbers: &[u64], memory: Option<DeviceMemory>) -> Self {
        let all = profiles.iter().zip(numbers).map(|(of, &x)| MeasuredRun { path: of.source.path.clone(), x });
        Self {
            all: all.collect(),
            devices: tracks::devices(profiles).iter().map(|of| DeviceRuns::new(profiles, of, memory)).collect(),
            group_by: profiles.last().map(|profile| profile.options.group_by).unwrap_or_default(),
            diagnostics: tracks::diagnostics(profiles),
        }
    }
}

impl DeviceRuns {
    fn new(profiles: &[Profile], device: &DeviceTrack, memory: Option<DeviceMemory>) -> Self {
        let mut stacks = tracks::stacks(profiles, device);
        stacks.retain(|track| track.held.iter().any(|(_, held)| held.bytes > 0));
        Self {
            device: device.device,
            peaks: device.in_each(profiles).map(|run| run?.figures.allocated.peak).collect(),
            reserved: device.in_each(profiles).map(|run| run?.figures.reserved.peak).collect(),
            stacks,
            budget: memory.map(|memory| memory.budget_of_last(profiles, device.device)),
        }
    }
}
