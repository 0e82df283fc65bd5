//! `ptmem.leak/1`: what grows over a series of snapshots, or over the steps of one.

use ptmem_base::text::printable;
use ptmem_compare::leak::{DeviceLeaks, Leak, Mode, Search, SeriesPoint};
use ptmem_judge::verdict::{Judged, JudgedSearch, LeakGate};
use ptmem_trace::phase::steps::{CallsOfStep, FoundBy};
use ptmem_trace::profile::{Bucket, Source};
use serde::Serialize;

use super::shared::{BudgetReport, CheckReport, DiagnosticReport, JsonFrames, Tool};
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of all searches, whatever the number of ranks.
    pub(crate) LeakReport<'a>(gate: &'a LeakGate, findings: &'a [&'a JudgedSearch]) {
        schema: "ptmem.leak/1",
        tool: Tool(),
        verdict: gate.verdict().name(),
        exit_code: gate.verdict().exit_code(),
        sources: list(searches(findings).flat_map(|of| of.sources.iter().map(|source| SourceReport(source, of)))),
        mode: searches(findings).next().map_or(Mode::Steps, |search| search.mode),
        group_by: searches(findings).next().map(|search| search.group_by.to_string()).unwrap_or_default(),
        // The steps and the growth of the device that leaks most.
        steps: list(worst_device(findings).into_iter().flat_map(|device| device.points.iter()).map(StepReport)),
        leaks: list(searches(findings).flat_map(|of| of.leaks().map(|(device, leak)| RowReport(of, device, leak)))),
        totals: worst_device(findings).map(|device| device.growth).unwrap_or_default(),
        devices: list(searches(findings).flat_map(|of| of.devices.iter().map(|device| DeviceReport(device, of)))),
        checks: list(findings.iter().flat_map(|of| {
            of.judgement.checks.iter().map(|check| ReportOfProcess::new(&of.search, CheckReport(check)))
        })),
        diagnostics: list(findings.iter().flat_map(|of| {
            let found = of.diagnostics().into_iter();
            found.map(|(_, found)| ReportOfProcess::new(&of.search, DiagnosticReport(found)))
        })),
    }
}

fn searches<'a>(findings: &'a [&'a JudgedSearch]) -> impl Iterator<Item = &'a Search> + Clone {
    findings.iter().map(|finding| &finding.search)
}

/// The device that leaks most; of several equal ones the one that holds most at the end.
fn worst_device<'a>(findings: &'a [&'a JudgedSearch]) -> Option<&'a DeviceLeaks> {
    let devices = searches(findings).flat_map(|search| &search.devices);
    devices.max_by_key(|device| (device.bytes_per_step(), device.points.last().and_then(|point| point.allocated)))
}

object! {
    SourceReport<'a>(source: &'a Source, search: &'a Search) {
        path: source.path,
        bytes: source.bytes,
        kind: source.kind.name(),
        name: search.name,
        rank: search.rank,
    }
}

object! {
    StepReport<'a>(point: &'a SeriesPoint) {
        name: point.name,
        allocated_end: point.allocated,
        reserved_end: point.reserved,
        fragmentation_end: point.fragmentation,
    }
}

object! {
    /// A stack that grows.
    RowReport<'a>(search: &'a Search, device: &'a DeviceLeaks, leak: &'a Leak) {
        metric: leak.metric,
        label: printable(&leak.label),
        also: list(leak.also.iter().map(|label| printable(label))),
        key: leak.key,
        bucket: leak.bucket.map(Bucket::code),
        device: device.device,
        name: search.name,
        rank: search.rank,
        bytes: leak.bytes,
        blocks: leak.blocks,
        bytes_per_step: leak.bytes_per_step,
        since: leak.since,
        share_of_steps: (leak.share() * 1e6).round() / 1e6,
        steps_grown: leak.grew,
        steps_judged: leak.judged,
        end: leak.end.bytes,
        end_blocks: leak.end.blocks,
        frames: JsonFrames::of(search.tables(), leak.stack),
        forward_frames: JsonFrames::forward(search.tables(), leak.stack),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceLeaks, search: &'a Search) {
        device: device.device,
        name: search.name,
        rank: search.rank,
        steps_by: device.how.as_ref().map(steps_by),
        calls_per_step?: device.calls_of_step().map(CallsReport),
        steps_skipped: device.skip,
        steps_judged: device.judged,
        unclear: device.unclear.as_ref().map(|unclear| &unclear.reason),
        steps: list(device.points.iter().map(StepReport)),
        totals: device.growth,
        device_memory?: device.budget.map(BudgetReport),
    }
}

object! {
    CallsReport(calls: CallsOfStep) {
        count: calls.count,
        may_be_more: calls.may_be_more,
    }
}

/// How the steps were found.
fn steps_by(how: &FoundBy) -> String {
    match how {
        FoundBy::Named(pattern) => printable(pattern),
        FoundBy::Optimizers(_) => CallsOfStep::NAMES.to_owned(),
        FoundBy::Recurring(label) => format!("recurring: {}", printable(label)),
        FoundBy::Called(module) => format!("calls: {}", printable(module)),
        FoundBy::Windows => "windows".to_owned(),
    }
}

/// The report of something that concerns one process.
#[derive(Serialize)]
struct ReportOfProcess<'a, T> {
    name: Option<&'a str>,
    rank: Option<u64>,
    #[serde(flatten)]
    report: T,
}

impl<'a, T> ReportOfProcess<'a, T> {
    fn new(search: &'a Search, report: T) -> Self {
        Self { name: search.name.as_deref(), rank: search.rank, report }
    }
}
