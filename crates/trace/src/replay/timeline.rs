//! A history as a whole, from its trace alone: a figure here is also that of a saved profile.

use serde::{Deserialize, Serialize};

use crate::trace::{Measure, Trace};

/// Points of the coarse curve: more than any terminal has columns.
const POINTS: usize = 480;

/// A coarse curve of the history: the highest values in equal parts of it, by event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timeline {
    /// Allocated bytes.
    pub allocated: Vec<u64>,
    /// Reserved bytes; empty where they cannot be known.
    pub reserved: Vec<u64>,
}

impl Timeline {
    /// The curve of a history.
    pub(crate) fn of(trace: &Trace) -> Self {
        let reserved = if trace.reserved < 0 { Vec::new() } else { highest_in_parts(trace, Measure::Reserved) };
        Self { allocated: highest_in_parts(trace, Measure::Allocated), reserved }
    }
}

/// The highest values of a counter in equal parts of a history, each of which begins after its first event.
fn highest_in_parts(trace: &Trace, measure: Measure) -> Vec<u64> {
    let events = trace.symbols.len();
    let count = POINTS.min(events);
    let mut values = trace.values(measure).skip(1);
    let parts = (0..count).map(|part| {
        let [from, to] = [part, part + 1].map(|part| (part * events).div_ceil(count));
        let most = values.by_ref().take(to - from).max().unwrap_or(0);
        u64::try_from(most.max(0)).unwrap_or(u64::MAX)
    });
    parts.collect()
}
