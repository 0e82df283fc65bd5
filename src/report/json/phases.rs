//! Phases and equal parts of a history in the JSON contracts.

use serde::Serialize;

use crate::diff::{DeviceDiff, PhaseRow};
use crate::profile::{DeviceProfile, Interval, Occurrence};
use crate::report::{Options, phases};
use crate::units::percent;

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

/// Every phase that is asked for: no list is cut for machines.
pub(super) fn phases<'a>(device: &'a DeviceProfile, options: &Options) -> Vec<PhaseReport<'a>> {
    let report = |phase: &'a Occurrence| PhaseReport {
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
    };
    phases::of_device(device, options).map(report).collect()
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

pub(super) fn intervals(device: &DeviceProfile) -> Vec<IntervalReport<'_>> {
    device.intervals.iter().map(interval).collect()
}

fn interval(part: &Interval) -> IntervalReport<'_> {
    IntervalReport {
        name: &part.name,
        first_event: part.from,
        events: part.to - part.from,
        start: part.start,
        peak: part.peak,
        end: part.end,
        reserved_peak: part.reserved_peak,
    }
}

/// A phase on both sides.
#[derive(Debug, Serialize)]
pub(super) struct PhaseChangeReport<'a> {
    name: &'a str,
    source: &'static str,
    before_occurrence: Option<u32>,
    after_occurrence: Option<u32>,
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
    percent: Option<f64>,
}

pub(super) fn changes(device: &DeviceDiff) -> Vec<PhaseChangeReport<'_>> {
    device.phases.iter().map(change).collect()
}

fn change(row: &PhaseRow) -> PhaseChangeReport<'_> {
    PhaseChangeReport {
        name: &row.name,
        source: row.source.name(),
        before_occurrence: row.number.before,
        after_occurrence: row.number.after,
        before: row.peak.before,
        after: row.peak.after,
        delta: row.delta(),
        percent: row.delta().zip(row.peak.before).and_then(|(delta, before)| percent(delta, before)),
    }
}
