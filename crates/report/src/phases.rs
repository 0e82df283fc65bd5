//! Phases and equal parts of a history, with the same fields in the same order in JSON and in CSV.

use crate::json_writer::record;
use crate::profile::{Interval, Occurrence};

record! {
    /// An occurrence of a phase.
    pub(super) PhaseRecord<'a>(phase: &'a Occurrence) {
        name: &*phase.name,
        source: phase.source.name(),
        occurrence: phase.number,
        depth: phase.depth,
        first_event: phase.from,
        events: phase.to - phase.from,
        start: phase.start,
        peak: phase.peak,
        end: phase.end,
        change: phase.change(),
        begins: phase.begins,
        ends: phase.ends,
    }
}

record! {
    /// A part of a history.
    pub(super) IntervalRecord<'a>(part: &'a Interval) {
        name: &*part.name,
        first_event: part.from,
        events: part.to - part.from,
        start: part.start,
        peak: part.peak,
        end: part.end,
        reserved_peak: part.reserved_peak,
    }
}
