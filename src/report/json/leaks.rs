//! The contract `ptmem.leak/1`.

use serde::Serialize;

use super::{CheckReport, DiagnosticReport, FrameReport, TOOL, Tool, check, diagnostic, frames, text};
use crate::leak::{DeviceLeaks, Point, Search};
use crate::phase::steps::How;
use crate::text::printable;
use crate::verdict::{Finding, LeakGate};

#[derive(Debug, Serialize)]
struct LeakReport<'a> {
    schema: &'static str,
    tool: Tool,
    verdict: &'static str,
    exit_code: u8,
    sources: Vec<Source<'a>>,
    mode: &'static str,
    group_by: String,
    /// Those of the device that leaks most.
    steps: Vec<StepReport<'a>>,
    leaks: Vec<Leak<'a>>,
    /// Those of the device that leaks most.
    totals: Totals,
    devices: Vec<DeviceReport<'a>>,
    checks: Vec<RankCheck<'a>>,
    diagnostics: Vec<RankDiagnostic<'a>>,
}

#[derive(Debug, Serialize)]
struct Source<'a> {
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

#[derive(Debug, Serialize)]
struct Leak<'a> {
    label: String,
    also: Vec<String>,
    key: &'a str,
    bucket: Option<&'static str>,
    device: u32,
    rank: Option<u64>,
    bytes: i128,
    blocks: i128,
    bytes_per_step: i128,
    share_of_steps: f64,
    steps_grown: usize,
    steps_judged: usize,
    end: u64,
    end_blocks: u64,
    frames: Vec<FrameReport<'a>>,
    forward_frames: Vec<FrameReport<'a>>,
}

#[derive(Debug, Serialize)]
struct Totals {
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
    totals: Totals,
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

/// The result as one object, of however many ranks.
pub(super) fn render(gate: &LeakGate) -> Result<String, serde_json::Error> {
    let findings = gate.worst_first();
    let searches = || findings.iter().map(|finding| &finding.search);
    let devices = || searches().flat_map(|search| search.devices.iter().map(move |device| (search, device)));
    let held = |device: &DeviceLeaks| device.points.last().and_then(|point| point.allocated);
    let worst = devices().max_by_key(|(_, device)| (device.bytes_per_step(), held(device))).map(|(_, device)| device);
    let report = LeakReport {
        schema: "ptmem.leak/1",
        tool: TOOL,
        verdict: gate.verdict().name(),
        exit_code: gate.verdict().exit_code(),
        sources: searches().flat_map(sources).collect(),
        mode: searches().next().map_or("steps", |search| search.mode.name()),
        group_by: searches().next().map(|search| search.group_by.to_string()).unwrap_or_default(),
        steps: worst.map(steps).unwrap_or_default(),
        leaks: searches().flat_map(leaks).collect(),
        totals: totals(worst),
        devices: devices().map(|(search, device)| of_device(search, device)).collect(),
        checks: findings.iter().flat_map(|finding| checks(finding)).collect(),
        diagnostics: findings.iter().flat_map(|finding| diagnostics(finding)).collect(),
    };
    text(&report)
}

fn sources(search: &Search) -> impl Iterator<Item = Source<'_>> {
    search.sources.iter().map(|source| Source {
        path: &source.path,
        bytes: source.bytes,
        kind: source.kind.name(),
        rank: search.rank,
    })
}

fn steps(device: &DeviceLeaks) -> Vec<StepReport<'_>> {
    let steps = device.points.iter().map(|Point { name, allocated, reserved, fragmentation }| StepReport {
        name,
        allocated_end: *allocated,
        reserved_end: *reserved,
        fragmentation_end: *fragmentation,
    });
    steps.collect()
}

fn totals(device: Option<&DeviceLeaks>) -> Totals {
    let growth = device.map(|device| device.growth).unwrap_or_default();
    Totals {
        allocated_slope: growth.allocated,
        reserved_slope: growth.reserved,
        fragmentation_slope: growth.fragmentation,
        runs_out_after: growth.runs_out_after,
    }
}

fn of_device<'a>(search: &Search, device: &'a DeviceLeaks) -> DeviceReport<'a> {
    let steps_by = device.how.as_ref().map(|how| match how {
        How::Named(pattern) => printable(pattern),
        How::Recurring(label) => format!("recurring: {}", printable(label)),
        How::Windows => "windows".to_owned(),
    });
    DeviceReport {
        device: device.device,
        rank: search.rank,
        steps_by,
        steps_skipped: device.skip,
        steps_judged: device.judged,
        unclear: device.unclear.as_deref(),
        steps: steps(device),
        totals: totals(Some(device)),
    }
}

fn leaks(search: &Search) -> Vec<Leak<'_>> {
    let tables = search.tables();
    let mut leaks = Vec::new();
    for (device, leak) in search.leaks() {
        leaks.push(Leak {
            label: printable(&leak.label),
            also: leak.also.iter().map(|label| printable(label)).collect(),
            key: &leak.key,
            bucket: leak.bucket.map(crate::profile::Bucket::code),
            device: device.device,
            rank: search.rank,
            bytes: leak.bytes,
            blocks: leak.blocks,
            bytes_per_step: leak.bytes_per_step,
            share_of_steps: (leak.share() * 1e6).round() / 1e6,
            steps_grown: leak.grew,
            steps_judged: leak.judged,
            end: leak.end.bytes,
            end_blocks: leak.end.blocks,
            frames: frames(tables, leak.stack.map(|stack| tables.stack(stack))),
            forward_frames: frames(tables, leak.stack.map(|stack| tables.forward(stack))),
        });
    }
    leaks
}

fn checks(finding: &Finding) -> Vec<RankCheck<'_>> {
    let rank = finding.search.rank;
    finding.judgement.checks.iter().map(|of| RankCheck { rank, check: check(of) }).collect()
}

fn diagnostics(finding: &Finding) -> Vec<RankDiagnostic<'_>> {
    let all = finding.search.diagnostics.iter().chain(&finding.judgement.diagnostics);
    all.map(|found| RankDiagnostic { rank: finding.search.rank, diagnostic: diagnostic(found) }).collect()
}
