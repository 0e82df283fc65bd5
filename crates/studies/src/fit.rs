//! The largest number that fits on a card, known from runs with some of the numbers: a batch size, a context length.

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_compare::budget::{DeviceBudget, DeviceMemory};
use ptmem_compare::tracks::{self, DeviceTrack, StackTrack};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::GroupBy;

/// A search for the largest number that fits.
#[derive(Debug)]
pub struct NumberSearch {
    /// The name of the number.
    pub name: String,
    /// The numbers that were searched, as the user gives them.
    pub range: String,
    /// The card, in words.
    pub card: String,
    /// The runs that fit, by their numbers.
    pub runs: Runs,
    /// The numbers that were tried and do not fit.
    pub too_large: Vec<u64>,
    /// A number, and a larger one that took so much less memory that numbers beyond the first that does not fit may fit.
    pub falling: Option<[u64; 2]>,
    /// The first number that does not fit, and its recording.
    pub beyond: Option<(u64, Profile)>,
}

/// Runs of one program with several numbers.
#[derive(Debug)]
pub struct Runs {
    /// Each of them.
    pub all: Vec<MeasuredRun>,
    /// Each device.
    pub devices: Vec<DeviceRuns>,
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// Notes and warnings about the runs.
    pub diagnostics: Vec<Diagnostic>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MeasuredRun {
    /// Its file.
    pub path: String,
    /// Its number.
    pub x: u64,
}

/// A device in all runs.
#[derive(Debug)]
pub struct DeviceRuns {
    /// Its ordinal.
    pub device: DeviceId,
    /// Allocated peaks of the runs; `None` where one is not known.
    pub peaks: Vec<Option<u64>>,
    /// Reserved peaks of the runs.
    pub reserved: Vec<Option<u64>>,
    /// The stacks at the peaks of the runs, the largest of the last run first.
    pub stacks: Vec<StackTrack>,
    /// The memory of the device, where it is given.
    pub budget: Option<DeviceBudget>,
}

impl Runs {
    /// The runs with these numbers, in their order. Their profiles are those at the peak.
    #[must_use]
    pub fn new(profiles: &[Profile], numbers: &[u64], memory: Option<DeviceMemory>) -> Self {
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
        stacks.retain(|track| track.held.iter().any(|held| held.bytes > 0));
        Self {
            device: device.device,
            peaks: device.in_each(profiles).map(|run| run?.figures.allocated.peak).collect(),
            reserved: device.in_each(profiles).map(|run| run?.figures.reserved.peak).collect(),
            stacks,
            budget: memory.map(|memory| memory.budget_of_last(profiles, device.device)),
        }
    }
}
