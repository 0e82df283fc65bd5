//! `ptmem.fit/2`: the largest numbers that fit, and the runs that show it.

use ptmem::profile::{Bucket, Profile};
use ptmem::report::json::{BudgetReport, DiagnosticReport, ProfileReport, Tool};
use ptmem::report::{RenderOptions, printable};
use ptmem::tracks::StackTrack;
use ptmem_base::json_writer::{list, object};

use super::runs::{DeviceRuns, NumberSearch};

object! {
    /// The report of the searches, one for each number.
    pub(super) FitReport<'a>(searches: &'a [NumberSearch], options: &'a RenderOptions) {
        schema: "ptmem.fit/2",
        tool: Tool(),
        numbers: list(searches.iter().map(|search| SearchReport(search, options))),
    }
}

object! {
    SearchReport<'a>(search: &'a NumberSearch, options: &'a RenderOptions) {
        name: printable(&search.name),
        range: search.range,
        card: search.card,
        largest: search.runs.all.last().map(|run| run.x),
        too_large: search.too_large,
        falling: search.falling,
        beyond: search.beyond.as_ref().map(|(x, profile)| BeyondReport(*x, profile, options)),
        group_by: search.runs.group_by.to_string(),
        runs: search.runs.all,
        devices: list(search.runs.devices.iter().map(DeviceReport)),
        diagnostics: list(search.runs.diagnostics.iter().map(DiagnosticReport)),
    }
}

object! {
    BeyondReport<'a>(x: u64, profile: &'a Profile, options: &'a RenderOptions) {
        x,
        snapshot: ProfileReport(profile, None, true, options),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceRuns) {
        device: device.device,
        // One for each run.
        peaks: device.peaks,
        reserved: device.reserved,
        device_memory?: device.budget.map(BudgetReport),
        // At the peak of each run.
        stacks: list(device.stacks.iter().map(StackReport)),
    }
}

object! {
    StackReport<'a>(stack: &'a StackTrack) {
        label: printable(&stack.label),
        bucket: stack.bucket.map(Bucket::code),
        // One for each run.
        bytes: list(stack.in_each().map(|held| held.bytes)),
    }
}
