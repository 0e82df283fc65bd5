//! Rows of several recordings, and of the settings that were tried on one.

use std::io;

use ptmem_base::device::DeviceId;
use ptmem_base::json_writer::record;
use ptmem_studies::allocator::{Outcome, Pin, Study};
use ptmem_studies::fit::NumberSearch;
use ptmem_studies::history::History;

use super::{Table, cell, io_error};

/// A device of one of several profiles.
struct Place<'a> {
    device: DeviceId,
    profile: &'a str,
    /// Seconds since 1970 of a commit, or the number of a run.
    at: String,
}

impl Place<'_> {
    /// Writes a figure of it, or the bytes of a stack.
    fn row(&self, table: &mut Table<'_>, metric: &str, label: &str, bytes: Option<u64>) -> io::Result<()> {
        let device = i64::from(self.device).to_string();
        let bytes = bytes.map_or(String::new(), |of| of.to_string());
        table.out.write_record([&device, &cell(self.profile), &self.at, metric, &cell(label), &bytes]).map_err(io_error)
    }
}

pub(super) fn history(table: &mut Table<'_>, history: &History) -> io::Result<()> {
    table.head(&["device", "profile", "time", "metric", "label", "bytes"])?;
    for device in &history.devices {
        for (index, point) in history.points.iter().enumerate() {
            let Some(figures) = device.figures[index] else { continue };
            let time = point.commit.as_ref().map(|commit| commit.time.to_string());
            let place = Place { device: device.device, profile: &point.name, at: time.unwrap_or_default() };
            place.row(table, "peak", "", figures.peak)?;
            place.row(table, "reserved", "", figures.reserved)?;
            place.row(table, "end", "", figures.end)?;
            let mut held = device.stacks.iter().filter(|stack| stack.bytes(index) > 0);
            held.try_for_each(|stack| place.row(table, "stack", &stack.label, Some(stack.bytes(index))))?;
        }
    }
    Ok(())
}

pub(super) fn fit(table: &mut Table<'_>, searches: &[NumberSearch]) -> io::Result<()> {
    table.head(&["device", "profile", "x", "metric", "label", "bytes"])?;
    for runs in searches.iter().map(|search| &search.runs) {
        for (device, (index, run)) in
            runs.devices.iter().flat_map(|of| runs.all.iter().enumerate().map(move |run| (of, run)))
        {
            let place = Place { device: device.device, profile: &run.path, at: run.x.to_string() };
            place.row(table, "peak", "", device.peaks[index])?;
            place.row(table, "reserved", "", device.reserved[index])?;
            let mut stacks = device.stacks.iter();
            stacks.try_for_each(|stack| place.row(table, "stack", &stack.label, Some(stack.bytes(index))))?;
        }
    }
    Ok(())
}

record! {
    /// A stack whose blocks keep segments that are mostly free.
    PinRecord<'a>(pin: &'a Pin) {
        label: pin.stack,
        blocks: pin.blocks,
        bytes: pin.bytes,
        segments: pin.segments,
        free: pin.free,
    }
}

record! {
    /// Settings that were tried.
    OutcomeRecord<'a>(outcome: &'a Outcome) {
        settings: outcome.settings,
        earlier_memory_as_recorded: outcome.earlier_memory_as_recorded,
        reserved_peak: outcome.reserved_peak,
        free_at_peak: outcome.free_at_peak,
        segments_obtained: outcome.segments_obtained,
        segments_returned: outcome.segments_returned,
        failed_requests_avoided: outcome.failed_requests_avoided,
        new_failed_requests: outcome.new_failed_requests,
    }
}

/// The settings that were tried, or else the stacks that keep memory, behind the device.
pub(super) fn settings(table: &mut Table<'_>, study: &Study) -> io::Result<()> {
    match &study.trial {
        Some(trial) => table.of_devices(trial.settings.iter().map(|of| (study.device, OutcomeRecord(of)))),
        None => table.of_devices(study.pinned.pinning_stacks.iter().map(|pin| (study.device, PinRecord(pin)))),
    }
}
