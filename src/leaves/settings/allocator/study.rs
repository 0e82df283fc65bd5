//! The memory reserved with the recorded settings and with others.

use ptmem::device::DeviceId;
use ptmem::units::{Size, format_share};
use serde::Serialize;

use super::Pinned;

/// A self-check that is off by a larger share of the peak gives no advice. Needed for benches/random_programs.py.
const TRUSTED: f64 = 0.01;

/// The reserved memory of a recording, and other settings that were tried.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SettingsStudy {
    /// The snapshot as it was given.
    pub(crate) snapshot: String,
    /// Its size.
    #[serde(skip)]
    pub(crate) bytes: u64,
    /// Ordinal of the device.
    pub(crate) device: DeviceId,
    /// The recorded settings as `PYTORCH_CUDA_ALLOC_CONF` would state them.
    pub(crate) recorded_settings: String,
    /// Whether the file states them.
    pub(crate) settings_stated: bool,
    /// Whether they changed, as far as block sizes show it.
    #[serde(skip)]
    pub(crate) settings_changed: bool,
    /// False if the state at the dump takes the place of the peak.
    pub(crate) has_history: bool,
    /// What the recording reserved, and for which blocks.
    #[serde(flatten)]
    pub(crate) pinned: Pinned,
    /// `None` if no settings were tried.
    pub(crate) trial: Option<Trial>,
}

/// The settings that were tried.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trial {
    /// The release of PyTorch that repeated the requests.
    pub(crate) pytorch: String,
    /// The memory of the card, where it is known.
    pub(crate) device_memory: Option<u64>,
    /// Number of requests that failed in the recording.
    pub(crate) failed_requests: usize,
    /// Number of private pools.
    pub(crate) private_pools: usize,
    /// Number of streams.
    pub(crate) streams: usize,
    /// Bytes that were in use before the recording.
    pub(crate) in_use_before: u64,
    /// Bytes that were reserved beyond them.
    pub(crate) free_before: u64,
    /// The recorded settings against the recording.
    pub(crate) self_check: SelfCheck,
    /// The row to compare with, by its index.
    pub(crate) compared_with: usize,
    /// A row for each setting, the recorded ones first.
    pub(crate) settings: Vec<SettingsOutcome>,
    /// Why settings have no outcome.
    pub(crate) left_out: Vec<String>,
    /// The best settings, in words.
    pub(crate) advice: String,
}

/// The recorded settings against the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct SelfCheck {
    /// The reserved peak of the recording.
    pub(crate) recorded_peak: u64,
    /// The reserved peak of the repetition.
    pub(crate) repeated_peak: u64,
    /// The largest difference of reserved bytes after a request.
    pub(crate) largest_deviation: u64,
    /// Whether that is little enough for advice.
    pub(crate) trusted: bool,
}

impl SelfCheck {
    /// The check of a repetition whose reserved bytes are off by as much as `largest_deviation`.
    pub(crate) fn new(recorded_peak: u64, repeated_peak: u64, largest_deviation: u64) -> Self {
        let peak = ptmem_base::units::approximate(recorded_peak.max(1));
        let trusted = ptmem_base::units::approximate(largest_deviation) / peak <= TRUSTED;
        Self { recorded_peak, repeated_peak, largest_deviation, trusted }
    }
}

/// The outcome of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SettingsOutcome {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`; empty for the defaults.
    pub(crate) settings: String,
    /// True if earlier memory was allocated in its recorded segments.
    pub(crate) earlier_memory_as_recorded: bool,
    /// The reserved peak.
    pub(crate) reserved_peak: u64,
    /// Reserved and not in use at the peak.
    pub(crate) free_at_peak: u64,
    /// Segments that came: `cudaMalloc`, or parts mapped.
    pub(crate) segments_obtained: u64,
    /// Segments that went: `cudaFree`, or parts unmapped.
    pub(crate) segments_returned: u64,
    /// Requests that failed in the recording and succeeded here.
    pub(crate) failed_requests_avoided: usize,
    /// Requests that succeeded in the recording and failed here.
    pub(crate) new_failed_requests: usize,
}

impl SettingsOutcome {
    /// Its settings in a sentence.
    fn name(&self) -> &str {
        if self.settings.is_empty() { "the defaults" } else { &self.settings }
    }
}

impl Trial {
    /// The row that others are compared with.
    pub(crate) fn base(&self) -> Option<&SettingsOutcome> {
        self.settings.get(self.compared_with)
    }

    /// The settings other than the recorded ones under which every request fitted that did so in the recording.
    pub(crate) fn fitting(&self) -> impl Iterator<Item = &SettingsOutcome> {
        self.settings.iter().skip(self.compared_with + 1).filter(|outcome| outcome.new_failed_requests == 0)
    }
}

/// The best settings, in words.
pub(crate) fn advice(study: &SettingsStudy, trial: &Trial) -> String {
    let Some(base) = trial.base().filter(|_| trial.self_check.trusted) else { return no_advice(study, trial) };
    let best = trial.fitting().min_by_key(|outcome| (outcome.reserved_peak, outcome.settings.len()));
    let mut text = match best {
        Some(best) if best.reserved_peak < base.reserved_peak => {
            let less = base.reserved_peak - best.reserved_peak;
            let share = format_share(less, base.reserved_peak).unwrap_or_default();
            format!("the same requests reserve {} ({share}) less with {}", Size(less), best.name())
        }
        None if trial.settings.len() <= trial.compared_with + 1 => return "no other settings were tried".to_owned(),
        None => "with each of the tried settings, requests fail that succeeded in the recording".to_owned(),
        Some(_) => "none of the tried settings reserves less for these requests".to_owned(),
    };
    if trial.failed_requests > 0 {
        let avoiding = trial.fitting().filter(|outcome| outcome.failed_requests_avoided == trial.failed_requests);
        let avoiding: Vec<&str> = avoiding.map(SettingsOutcome::name).collect();
        let (errors, are) = match trial.failed_requests {
            1 => ("the recorded out-of-memory error".to_owned(), "is"),
            many => (format!("all {many} recorded out-of-memory errors"), "are"),
        };
        text += &match &avoiding[..] {
            [] => format!("; none of them avoids {errors} without causing others"),
            some => format!("; {errors} {are} avoided by {}", some.join(" and ")),
        };
    }
    text
}

/// Why the self-check failed, as far as the recording shows it.
fn no_advice(study: &SettingsStudy, trial: &Trial) -> String {
    let peak = study.pinned.reserved_peak;
    if let Some(memory) = trial.device_memory.filter(|memory| *memory < peak) {
        return format!(
            "no advice: the recording reserved {}, more than the {} of the device; give its memory with --device-memory",
            Size(peak),
            Size(memory)
        );
    }
    if !study.settings_stated {
        return "no advice: with the default settings the repeated requests do not lead to the recorded memory, and the snapshot \
                does not state its settings. Give them in ptmem.toml: allocator-settings, as in PYTORCH_CUDA_ALLOC_CONF"
            .to_owned();
    }
    let release = format!("another release of PyTorch than {}, or a memory limit that the program set", trial.pytorch);
    let causes = [
        (
            study.settings_changed,
            "the allocator settings changed, but all requests are repeated with those at the dump",
        ),
        (
            !study.settings_changed,
            "the program may have changed the allocator settings: the snapshot states only those at the dump",
        ),
        (
            study.recorded_settings.contains("garbage_collection_threshold"),
            "garbage_collection_threshold depends on a memory limit of the program, which the snapshot does not state",
        ),
        (
            trial.failed_requests > 0,
            "requests failed, perhaps at a memory limit of the program, which the snapshot does not state",
        ),
        (
            trial.private_pools > 0,
            "the snapshot does not state whether private pools split blocks, and which pool a segment belonged to that was freed",
        ),
        (
            trial.in_use_before > 0 || trial.free_before > 0,
            "the requests from before the recording are unknown (record from the start of the process)",
        ),
        (true, &release),
    ];
    let causes: Vec<&str> = causes.iter().filter(|(applies, _)| *applies).map(|(_, cause)| *cause).collect();
    format!(
        "no advice: with the recorded settings the repeated requests do not lead to the recorded memory. Possible causes: {}",
        causes.join("; ")
    )
}
