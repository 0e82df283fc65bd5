//! The memory reserved with the recorded settings and with others.

use ptmem_base::device::DeviceId;
use serde::Serialize;

use super::Pinned;

/// A self-check that is off by a larger share of the peak gives no advice.
const TRUSTED: f64 = 0.01;

/// The reserved memory of a recording, and other settings that were tried.
#[derive(Debug, Clone)]
pub struct Study {
    /// The snapshot as it was given.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Ordinal of the device.
    pub device: DeviceId,
    /// The recorded settings as `PYTORCH_CUDA_ALLOC_CONF` would state them.
    pub recorded: String,
    /// Whether the file states them.
    pub is_stated: bool,
    /// Whether they changed, as far as block sizes show it.
    pub settings_changed: bool,
    /// False if the state at the dump takes the place of the peak.
    pub has_history: bool,
    /// What the recording reserved, and for which blocks.
    pub pinned: Pinned,
    /// `None` if no settings were tried.
    pub trial: Option<Trial>,
}

/// The settings that were tried.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The release of PyTorch that repeated the requests.
    pub release: String,
    /// The memory of the card, where it is known.
    pub capacity: Option<u64>,
    /// Number of requests that failed in the recording.
    pub failed: usize,
    /// Number of private pools.
    pub private_pools: usize,
    /// Number of streams.
    pub streams: usize,
    /// Bytes that were in use before the recording.
    pub held_before: u64,
    /// Bytes that were reserved beyond them.
    pub cached_before: u64,
    /// The recorded settings against the recording.
    pub check: SelfCheck,
    /// The row to compare with, by its index.
    pub base: usize,
    /// A row for each setting, the recorded ones first.
    pub outcomes: Vec<Outcome>,
    /// Why settings have no outcome.
    pub left_out: Vec<String>,
}

/// The recorded settings against the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SelfCheck {
    /// The reserved peak of the recording.
    pub recorded_peak: u64,
    /// The reserved peak of the repetition.
    pub repeated_peak: u64,
    /// The largest difference of reserved bytes after a request.
    pub largest_deviation: u64,
    /// Whether that is little enough for advice.
    pub trusted: bool,
}

impl SelfCheck {
    /// The check of a repetition whose reserved bytes are off by as much as `largest_deviation`.
    #[must_use]
    pub fn new(recorded_peak: u64, repeated_peak: u64, largest_deviation: u64) -> Self {
        let peak = ptmem_base::units::approximate(recorded_peak.max(1));
        let trusted = ptmem_base::units::approximate(largest_deviation) / peak <= TRUSTED;
        Self { recorded_peak, repeated_peak, largest_deviation, trusted }
    }
}

/// The outcome of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`; empty for the defaults.
    pub settings: String,
    /// True if earlier memory was allocated in its recorded segments.
    pub earlier_memory_as_recorded: bool,
    /// The reserved peak.
    pub reserved_peak: u64,
    /// Reserved and not in use at the peak.
    pub free_at_peak: u64,
    /// Segments that came: `cudaMalloc`, or parts mapped.
    pub segments_obtained: u64,
    /// Segments that went: `cudaFree`, or parts unmapped.
    pub segments_returned: u64,
    /// Requests that failed in the recording and succeeded here.
    pub failed_requests_avoided: usize,
    /// Requests that succeeded in the recording and failed here.
    pub new_failed_requests: usize,
}

impl Trial {
    /// The row that others are compared with.
    #[must_use]
    pub fn base(&self) -> Option<&Outcome> {
        self.outcomes.get(self.base)
    }

    /// The settings other than the recorded ones under which every request fitted that did so in the recording.
    pub fn fitting(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().skip(self.base + 1).filter(|outcome| outcome.new_failed_requests == 0)
    }
}
