//! The figures of a device in the file.

use serde::{Deserialize, Serialize};

use crate::replay::{Oom, Timeline};

/// A failed allocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedOom {
    #[serde(flatten)]
    pub(super) oom: Oom,
    /// The stack of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
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
