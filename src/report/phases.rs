//! Phases and equal parts of a history, with the same fields in the same order in JSON and in CSV.

use std::borrow::Cow;

use serde::Serialize;

use crate::profile::{Interval, Occurrence};

/// An occurrence of a phase.
#[derive(Debug, Default, Serialize)]
pub(super) struct PhaseRecord<'a> {
    name: Cow<'a, str>,
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

impl<'a> PhaseRecord<'a> {
    /// The record of an occurrence, under its name as the format writes it.
    pub(super) fn new(name: impl Into<Cow<'a, str>>, phase: &Occurrence) -> Self {
        Self {
            name: name.into(),
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
#[derive(Debug, Default, Serialize)]
pub(super) struct IntervalRecord<'a> {
    name: Cow<'a, str>,
    first_event: u64,
    events: u64,
    start: u64,
    peak: u64,
    end: u64,
    reserved_peak: Option<u64>,
}

impl<'a> IntervalRecord<'a> {
    /// The record of a part, under its name as the format writes it.
    pub(super) fn new(name: impl Into<Cow<'a, str>>, part: &Interval) -> Self {
        Self {
            name: name.into(),
            first_event: part.from,
            events: part.to - part.from,
            start: part.start,
            peak: part.peak,
            end: part.end,
            reserved_peak: part.reserved_peak,
        }
    }
}
