//! Options of a search for leaks, with their defaults.

use ptmem_base::units::approximate;
use ptmem_trace::phase::steps::WantedSteps;
use ptmem_trace::profile::{Moment, ReadOptions};

use crate::budget::DeviceMemory;

/// The subject of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Snapshots, one after the other.
    #[default]
    Series,
    /// The steps of one snapshot.
    Steps,
}

impl Mode {
    /// The unit of the search: a `snapshot` or a `step`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Series => "snapshot",
            Self::Steps => "step",
        }
    }
}

/// When something is a leak.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeakOptions {
    /// How to read the snapshots; their stacks are those at the end of each, whatever moment this names.
    pub reading: ReadOptions,
    /// Number of snapshots or steps that are warm-up. By default none of a series, and the first of the steps.
    pub skip: Option<usize>,
    /// Bytes that a stack must have gained in total. By default 1 MiB over a series; steps show a leak of any size.
    pub min_growth: Option<u64>,
    /// The share of the steps, from 0 to 1, in which it must have grown. By default 80 %.
    pub min_share: Option<f64>,
    /// The steps to look for in a single snapshot.
    pub steps: WantedSteps,
    /// Memory of the device in bytes, to compute when it runs out.
    pub device_memory: Option<DeviceMemory>,
    /// Memory may run out: the program probes for the most that fits.
    pub allow_oom: bool,
}

/// The least growth of totals that is reported, in bytes. Needed for dumps of `corners/streams`.
pub(super) const WORTH_TELLING: u64 = 1 << 20;

/// Default of `LeakOptions::min_share`. Needed for dumps of `corners/streams`.
pub const MIN_SHARE: f64 = 0.8;

impl LeakOptions {
    /// How to read the snapshots: only the end of each matters for a series.
    pub fn reading(&self) -> ReadOptions {
        ReadOptions { at: Moment::End, ..self.reading.clone() }
    }

    pub(super) fn min_share(&self) -> f64 {
        self.min_share.unwrap_or(MIN_SHARE)
    }

    /// The least growth of a stack over a series, and of totals.
    pub(super) fn least_growth(&self) -> u64 {
        self.min_growth.unwrap_or(WORTH_TELLING)
    }

    /// True if it grew in enough of the steps that count.
    pub(super) fn is_steady(&self, grew: usize, judged: usize) -> bool {
        grew > 0 && share(grew, judged) >= self.min_share()
    }
}

/// The share of the steps that count in which something grew.
pub(super) fn share(grew: usize, judged: usize) -> f64 {
    approximate(grew as u64) / approximate(judged.max(1) as u64)
}
