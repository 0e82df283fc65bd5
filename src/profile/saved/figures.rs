//! The figures of a device in the file.

use serde::{Deserialize, Serialize};

use super::Error;
use crate::replay::{Checks, Counter, Figures, FreeBlocks, History, Oom, Position, Timeline};

/// A counter of the allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedCounter {
    pub(super) baseline: Option<u64>,
    pub(super) peak: Option<u64>,
    pub(super) peak_event: Option<i64>,
    pub(super) end: u64,
    pub(super) exact: bool,
    pub(super) max_error: Option<u64>,
    pub(super) baseline_error: Option<u64>,
    pub(super) peak_error: Option<u64>,
    /// True if baseline and peak are the least that they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) at_least: bool,
}

impl SavedCounter {
    pub(super) fn new(counter: &Counter, history: History) -> Self {
        // Without a history, the state at the dump stands in for baseline and peak.
        let has_history = history == History::Recorded;
        Self {
            baseline: counter.baseline,
            peak: counter.peak,
            peak_event: counter.peak_at.map(Position::event_index),
            end: counter.end,
            exact: has_history && counter.exact(),
            max_error: counter.max_error().filter(|_| has_history),
            baseline_error: counter.baseline_error,
            peak_error: counter.peak_error,
            at_least: counter.is_least,
        }
    }

    pub(super) fn counter(&self) -> Counter {
        Counter {
            baseline: self.baseline,
            peak: self.peak,
            peak_at: self.peak_event.map(position),
            end: self.end,
            baseline_error: self.baseline_error,
            peak_error: self.peak_error,
            is_least: self.at_least,
        }
    }
}

/// The position just after an event, -1 for the start.
pub(super) fn position(event: i64) -> Position {
    usize::try_from(event).map_or(Position::START, Position::after)
}

/// Reserved bytes that are not active.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFragmentation {
    pub(super) peak: Option<u64>,
    pub(super) end: u64,
}

impl SavedFragmentation {
    pub(super) fn new(figures: &Figures) -> Self {
        Self { peak: figures.fragmentation_at_peak, end: figures.fragmentation_at_end }
    }
}

/// Block sizes that were recovered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) recovered: u64,
    pub(super) total: u64,
}

/// Checkpoints that the replay agrees with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Matched {
    pub(super) matched: u64,
    pub(super) total: u64,
}

/// The self-checks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedChecks {
    pub(super) sizes: Recovered,
    pub(super) checkpoints: Matched,
    pub(super) end_matches: bool,
}

impl SavedChecks {
    pub(super) fn new(checks: Checks) -> Self {
        Self {
            sizes: Recovered { recovered: checks.sizes_recovered, total: checks.sizes_total },
            checkpoints: Matched { matched: checks.checkpoints_matched, total: checks.checkpoints_total },
            end_matches: checks.end_matches,
        }
    }

    pub(super) fn checks(&self) -> Checks {
        Checks {
            sizes_recovered: self.sizes.recovered,
            sizes_total: self.sizes.total,
            checkpoints_matched: self.checkpoints.matched,
            checkpoints_total: self.checkpoints.total,
            end_matches: self.end_matches,
        }
    }
}

/// A failed allocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedOom {
    pub(super) event: u32,
    pub(super) requested: u64,
    pub(super) device_free: u64,
    pub(super) allocated: Option<u64>,
    pub(super) active: Option<u64>,
    pub(super) reserved: Option<u64>,
    pub(super) demand: Option<u64>,
    pub(super) fragmentation: Option<u64>,
    pub(super) pool_free: Option<u64>,
    pub(super) largest_free: Option<u64>,
    pub(super) max_error: Option<u64>,
    /// The stack of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
}

impl SavedOom {
    pub(super) fn new(oom: &Oom, frames: String) -> Self {
        Self {
            event: oom.event,
            requested: oom.requested,
            device_free: oom.device_free,
            allocated: oom.allocated,
            active: oom.active,
            reserved: oom.reserved,
            demand: oom.demand(),
            fragmentation: oom.fragmentation(),
            pool_free: oom.pool.map(|pool| pool.bytes),
            largest_free: oom.pool.map(|pool| pool.largest),
            max_error: oom.max_error,
            frames,
        }
    }

    /// The failed allocation. Figures that follow from others have to agree with them.
    pub(super) fn oom(&self) -> Result<Oom, Error> {
        let pool = self.pool_free.zip(self.largest_free).map(|(bytes, largest)| FreeBlocks { bytes, largest });
        let oom = Oom {
            event: self.event,
            requested: self.requested,
            device_free: self.device_free,
            allocated: self.allocated,
            active: self.active,
            reserved: self.reserved,
            pool,
            max_error: self.max_error,
        };
        if oom.demand() != self.demand || oom.fragmentation() != self.fragmentation {
            let event = self.event;
            return Err(Error::Damaged(format!("the figures of the failed allocation at event {event} do not agree")));
        }
        Ok(oom)
    }
}

/// Coarse curves.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedTimeline {
    pub(super) allocated: Vec<u64>,
    pub(super) reserved: Vec<u64>,
}

/// More points of a curve are not kept.
const MOST_POINTS: usize = 120;

impl SavedTimeline {
    pub(super) fn new(timeline: &Timeline) -> Self {
        Self { allocated: coarse(&timeline.allocated), reserved: coarse(&timeline.reserved) }
    }

    pub(super) fn into_timeline(self) -> Timeline {
        Timeline { allocated: self.allocated, reserved: self.reserved }
    }
}

/// The highest values in equal parts of a curve.
fn coarse(values: &[u64]) -> Vec<u64> {
    let count = MOST_POINTS.min(values.len());
    let parts = (0..count).map(|i| &values[i * values.len() / count..(i + 1) * values.len() / count]);
    parts.map(|part| part.iter().copied().max().unwrap_or(0)).collect()
}
