//! Phases and equal parts of a history, as several contracts have them.

use serde::Serialize;

use super::shared::ChangeReport;
use crate::diff::PhaseRow;
use crate::profile::{Interval, Occurrence};

/// An occurrence of a phase.
#[derive(Debug, Serialize)]
pub(super) struct PhaseReport<'a> {
    name: &'a str,
    source: &'static str,
    occurrence: u32,
    depth: u32,
    first_event: u64,
    events: u64,
    start: u64,
    peak: u64,
    end: u64,
    change: i128,
    begins: bool,
    ends: bool,
}

impl<'a> PhaseReport<'a> {
    pub(super) fn new(phase: &'a Occurrence) -> Self {
        Self {
            name: &phase.name,
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
}

/// A part of a history.
#[derive(Debug, Serialize)]
pub(super) struct IntervalReport<'a> {
    name: &'a str,
    first_event: u64,
    events: u64,
    start: u64,
    peak: u64,
    end: u64,
    reserved_peak: Option<u64>,
}

impl<'a> IntervalReport<'a> {
    pub(super) fn new(part: &'a Interval) -> Self {
        Self {
            name: &part.name,
            first_event: part.from,
            events: part.to - part.from,
            start: part.start,
            peak: part.peak,
            end: part.end,
            reserved_peak: part.reserved_peak,
        }
    }
}

/// A phase on both sides.
#[derive(Debug, Serialize)]
pub(super) struct PhaseChangeReport<'a> {
    name: &'a str,
    source: &'static str,
    before_occurrence: Option<u32>,
    after_occurrence: Option<u32>,
    #[serde(flatten)]
    peak: ChangeReport,
}

impl<'a> PhaseChangeReport<'a> {
    pub(super) fn new(row: &'a PhaseRow) -> Self {
        Self {
            name: &row.name,
            source: row.source.name(),
            before_occurrence: row.number.before,
            after_occurrence: row.number.after,
            peak: ChangeReport::new(row.peak),
        }
    }
}
