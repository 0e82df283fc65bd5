//! `ptmem.fit/1`: how memory scales with the varied number.

use ptmem_base::text::printable;
use ptmem_base::units::whole;
use ptmem_studies::scale::{DeviceScale, MeasuredRun, Range, Scale, Search, StackScale};
use ptmem_trace::profile::{Bucket, Profile};

use super::profile::ProfileReport;
use super::shared::{BudgetReport, DiagnosticReport, Tool};
use crate::RenderOptions;
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of several runs, by the varied number.
    pub(super) FitReport<'a>(scales: &'a [Scale], options: &'a RenderOptions) {
        schema: "ptmem.fit/1",
        tool: Tool(),
        numbers: list(scales.iter().map(|scale| ScaleReport(scale, options))),
    }
}

object! {
    ScaleReport<'a>(scale: &'a Scale, options: &'a RenderOptions) {
        name: printable(&scale.name),
        search: scale.search.as_ref().map(|search| SearchReport(search, scale.runs.last(), options)),
        group_by: scale.group_by.to_string(),
        runs: scale.runs,
        devices: list(scale.devices.iter().map(DeviceReport)),
        diagnostics: list(scale.diagnostics.iter().map(DiagnosticReport)),
    }
}

object! {
    SearchReport<'a>(search: &'a Search, largest: Option<&'a MeasuredRun>, options: &'a RenderOptions) {
        range: search.range,
        card: search.card,
        largest: largest.map(|run| run.x),
        too_large: search.too_large,
        falling: search.falling,
        beyond: search.beyond.as_ref().map(|(x, profile)| BeyondReport(*x, profile, options)),
    }
}

object! {
    BeyondReport<'a>(x: f64, profile: &'a Profile, options: &'a RenderOptions) {
        x,
        snapshot: ProfileReport(profile, None, true, options),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceScale) {
        device: device.device,
        // One for each run.
        peaks: device.peaks,
        reserved: device.reserved,
        forecasts: device.forecasts,
        device_memory?: device.budget.map(BudgetReport),
        full: device.full.map(FullReport),
        // At the peak of each run.
        stacks: list(device.stacks.iter().map(StackReport)),
    }
}

object! {
    FullReport(place: Range<Option<f64>>) {
        earliest: place.low,
        best: place.best,
        latest: place.high,
    }
}

object! {
    StackReport<'a>(stack: &'a StackScale) {
        label: printable(&stack.track.label),
        bucket: stack.track.bucket.map(Bucket::code),
        shape: stack.fit.shape.name(),
        constant: stack.fit.best[0],
        linear: stack.fit.best[1],
        quadratic: stack.fit.best[2],
        misses: whole(stack.fit.misses),
        // One for each run.
        bytes: list(stack.track.held.iter().map(|held| held.bytes)),
    }
}
