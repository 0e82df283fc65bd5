//! `ptmem.leak/1`: what grows over a series of snapshots, or over the steps of one.

use serde::Serialize;

use super::shared::{BudgetReport, CheckReport, DiagnosticReport, Frames, TOOL, Tool, frames};
use crate::leak::{DeviceLeaks, Growth, Leak, Point, Search};
use crate::phase::steps::How;
use crate::profile::{Bucket, Source};
use crate::snapshot::Tables;
use crate::text::printable;
use crate::verdict::{Finding, LeakGate};

/// The report of all searches, whatever the number of ranks.
#[derive(Debug, Serialize)]
pub(super) struct LeakReport<'a> {
    schema: &'static str,
    tool: Tool,
    verdict: &'static str,
    exit_code: u8,
    sources: Vec<SourceReport<'a>>,
    mode: &'static str,
    group_by: String,
    /// The steps of the device that leaks most.
    steps: Vec<StepReport<'a>>,
    leaks: Vec<RowReport<'a>>,
    /// The growth of the device that leaks most.
    totals: TotalsReport,
    devices: Vec<DeviceReport<'a>>,
    checks: Vec<RankCheck<'a>>,
    diagnostics: Vec<RankDiagnostic<'a>>,
}

#[derive(Debug, Serialize)]
struct SourceReport<'a> {
    path: &'a str,
    bytes: u64,
    kind: &'static str,
    rank: Option<u64>,
}

#[derive(Debug, Serialize)]
struct StepReport<'a> {
    name: &'a str,
    allocated_end: Option<u64>,
    reserved_end: Option<u64>,
    fragmentation_end: Option<u64>,
}

/// A stack that grows.
#[derive(Debug, Serialize)]
struct RowReport<'a> {
    metric: &'static str,
    label: String,
    also: Vec<String>,
    key: &'a str,
    bucket: Option<&'static str>,
    device: u32,
    rank: Option<u64>,
    bytes: i128,
    blocks: i128,
    bytes_per_step: i128,
    since: Option<&'a str>,
    share_of_steps: f64,
    steps_grown: usize,
    steps_judged: usize,
    end: u64,
    end_blocks: u64,
    frames: Frames<'a>,
    forward_frames: Frames<'a>,
}

#[derive(Debug, Serialize)]
struct TotalsReport {
    allocated_slope: Option<i128>,
    reserved_slope: Option<i128>,
    fragmentation_slope: Option<i128>,
    runs_out_after: Option<u64>,
}

#[derive(Debug, Serialize)]
struct DeviceReport<'a> {
    device: u32,
    rank: Option<u64>,
    steps_by: Option<String>,
    steps_skipped: usize,
    steps_judged: usize,
    unclear: Option<&'a str>,
    steps: Vec<StepReport<'a>>,
    totals: TotalsReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory: Option<BudgetReport>,
}

#[derive(Debug, Serialize)]
struct RankCheck<'a> {
    rank: Option<u64>,
    #[serde(flatten)]
    check: CheckReport<'a>,
}

#[derive(Debug, Serialize)]
struct RankDiagnostic<'a> {
    rank: Option<u64>,
    #[serde(flatten)]
    diagnostic: DiagnosticReport<'a>,
}

impl<'a> LeakReport<'a> {
    pub(super) fn new(gate: &'a LeakGate) -> Self {
        let findings = gate.worst_first();
        let searches: Vec<&Search> = findings.iter().map(|finding| &finding.search).collect();
        let worst = worst_device(&searches);
        let mut report = Self {
            schema: "ptmem.leak/1",
            tool: TOOL,
            verdict: gate.verdict().name(),
            exit_code: gate.verdict().exit_code(),
            sources: Vec::new(),
            mode: searches.first().map_or("steps", |search| search.mode.name()),
            group_by: searches.first().map(|search| search.group_by.to_string()).unwrap_or_default(),
            steps: worst.map(steps).unwrap_or_default(),
            leaks: Vec::new(),
            totals: TotalsReport::new(worst.map(|device| device.growth).unwrap_or_default()),
            devices: Vec::new(),
            checks: Vec::new(),
            diagnostics: Vec::new(),
        };
        for finding in findings {
            report.add(finding);
        }
        report
    }

    fn add(&mut self, finding: &'a Finding) {
        let Finding { search, judgement } = finding;
        let rank = search.rank;
        let diagnostics = search.diagnostics.iter().chain(&judgement.diagnostics);
        self.sources.extend(search.sources.iter().map(|source| SourceReport::new(source, rank)));
        self.leaks.extend(search.leaks().map(|(device, leak)| RowReport::new(search.tables(), device, leak, rank)));
        self.devices.extend(search.devices.iter().map(|device| DeviceReport::new(device, rank)));
        self.checks.extend(judgement.checks.iter().map(|check| RankCheck { rank, check: CheckReport::new(check) }));
        self.diagnostics
            .extend(diagnostics.map(|found| RankDiagnostic { rank, diagnostic: DiagnosticReport::new(found) }));
    }
}

/// The device that leaks most; of several alike the one that holds most at the end.
fn worst_device<'a>(searches: &[&'a Search]) -> Option<&'a DeviceLeaks> {
    let devices = searches.iter().flat_map(|search| &search.devices);
    devices.max_by_key(|device| (device.bytes_per_step(), device.points.last().and_then(|point| point.allocated)))
}

impl<'a> SourceReport<'a> {
    fn new(source: &'a Source, rank: Option<u64>) -> Self {
        Self { path: &source.path, bytes: source.bytes, kind: source.kind.name(), rank }
    }
}

fn steps(device: &DeviceLeaks) -> Vec<StepReport<'_>> {
    device.points.iter().map(StepReport::new).collect()
}

impl<'a> StepReport<'a> {
    fn new(point: &'a Point) -> Self {
        Self {
            name: &point.name,
            allocated_end: point.allocated,
            reserved_end: point.reserved,
            fragmentation_end: point.fragmentation,
        }
    }
}

impl TotalsReport {
    fn new(growth: Growth) -> Self {
        Self {
            allocated_slope: growth.allocated,
            reserved_slope: growth.reserved,
            fragmentation_slope: growth.fragmentation,
            runs_out_after: growth.runs_out_after,
        }
    }
}

impl<'a> DeviceReport<'a> {
    fn new(device: &'a DeviceLeaks, rank: Option<u64>) -> Self {
        Self {
            device: device.device,
            rank,
            steps_by: device.how.as_ref().map(steps_by),
            steps_skipped: device.skip,
            steps_judged: device.judged,
            unclear: device.unclear.as_ref().map(|unclear| unclear.reason.as_str()),
            steps: steps(device),
            totals: TotalsReport::new(device.growth),
            device_memory: device.budget.map(BudgetReport::from),
        }
    }
}

/// How the steps were found.
fn steps_by(how: &How) -> String {
    match how {
        How::Named(pattern) => printable(pattern),
        How::Recurring(label) => format!("recurring: {}", printable(label)),
        How::Windows => "windows".to_owned(),
    }
}

impl<'a> RowReport<'a> {
    fn new(tables: &'a Tables, device: &DeviceLeaks, leak: &'a Leak, rank: Option<u64>) -> Self {
        Self {
            metric: leak.metric.name(),
            label: printable(&leak.label),
            also: leak.also.iter().map(|label| printable(label)).collect(),
            key: &leak.key,
            bucket: leak.bucket.map(Bucket::code),
            device: device.device,
            rank,
            bytes: leak.bytes,
            blocks: leak.blocks,
            bytes_per_step: leak.bytes_per_step,
            since: leak.since.as_deref(),
            share_of_steps: (leak.share() * 1e6).round() / 1e6,
            steps_grown: leak.grew,
            steps_judged: leak.judged,
            end: leak.end.bytes,
            end_blocks: leak.end.blocks,
            frames: frames(tables, leak.stack.map(|stack| tables.stack(stack))),
            forward_frames: frames(tables, leak.stack.map(|stack| tables.forward(stack))),
        }
    }
}
