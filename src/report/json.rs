//! The JSON contracts `ptmem.profile/1`, `ptmem.diff/1`, `ptmem.suite/1` and `ptmem.ranks/1`.
//!
//! The structures here are the contract: separate from the model, so that the model can change without
//! breaking a reader. Keys stand in a fixed order; integers are bytes.

mod leaks;
mod phases;

use std::collections::BTreeMap;

use serde::Serialize;

use super::ranks::{self, Compared, Line, Others};
use super::{Options, Subject};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::diff::{self, RowKind, Side, Sides};
use crate::profile::{Bucket, DeviceProfile, Profile, StackTotal, others};
use crate::replay::{Counter, Position};
use crate::report::phases::are_shown;
use crate::snapshot::{FrameId, Tables};
use crate::tree::{self, Layout, Tree};
use crate::units::percent;
use crate::verdict::{Check, Comparison, Gate, Judgement, Missing, Ranks, Reading, Readings, Verdict};
use phases::{IntervalReport, PhaseChangeReport, PhaseReport};

/// The tool that wrote a report.
#[derive(Debug, Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

const TOOL: Tool = Tool { name: "ptmem", version: env!("CARGO_PKG_VERSION") };

#[derive(Debug, Serialize)]
struct Source<'a> {
    path: &'a str,
    bytes: u64,
    kind: &'static str,
}

#[derive(Debug, Serialize)]
struct ProfileReport<'a> {
    schema: &'static str,
    tool: Tool,
    source: Source<'a>,
    group_by: String,
    at: String,
    devices: Vec<DeviceReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Vec<CheckReport<'a>>>,
    diagnostics: Vec<DiagnosticReport<'a>>,
}

#[derive(Debug, Serialize)]
struct CounterReport {
    baseline: Option<u64>,
    peak: Option<u64>,
    /// -1 where the peak is the baseline.
    peak_event: Option<i64>,
    end: u64,
    exact: bool,
    max_error: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Recovered {
    recovered: u64,
    total: u64,
}

#[derive(Debug, Serialize)]
struct Matched {
    matched: u64,
    total: u64,
}

#[derive(Debug, Serialize)]
struct ChecksReport {
    sizes: Recovered,
    checkpoints: Matched,
    end_matches: bool,
}

#[derive(Debug, Serialize)]
struct Fragmentation {
    peak: Option<u64>,
    end: u64,
}

#[derive(Debug, Serialize)]
struct DeviceReport<'a> {
    device: u32,
    events: u64,
    duration_us: Option<u64>,
    actions: &'a BTreeMap<String, u64>,
    allocated: CounterReport,
    active: CounterReport,
    requested: CounterReport,
    reserved: CounterReport,
    fragmentation: Fragmentation,
    checks: ChecksReport,
    allocations: u64,
    frees: u64,
    allocated_total: u64,
    ooms: Vec<OomReport>,
    at_event: Option<i64>,
    stacks: Vec<StackReport<'a>>,
    phases: Vec<PhaseReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Vec<IntervalReport<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeReport>>,
}

#[derive(Debug, Serialize)]
struct OomReport {
    event: u32,
    requested: u64,
    device_free: u64,
    allocated: Option<u64>,
    active: Option<u64>,
    reserved: Option<u64>,
    demand: Option<u64>,
    fragmentation: Option<u64>,
    pool_free: Option<u64>,
    largest_free: Option<u64>,
    max_error: Option<u64>,
}

#[derive(Debug, Serialize)]
struct StackReport<'a> {
    label: String,
    key: String,
    bucket: Option<&'static str>,
    baseline: u64,
    peak: u64,
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom: Option<u64>,
    at: u64,
    baseline_blocks: u64,
    peak_blocks: u64,
    end_blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_blocks: Option<u64>,
    at_blocks: u64,
    allocations: u64,
    allocated_total: u64,
    frames: Vec<FrameReport<'a>>,
    forward_frames: Vec<FrameReport<'a>>,
}

#[derive(Debug, Serialize)]
struct FrameReport<'a> {
    name: &'a str,
    filename: &'a str,
    line: i128,
}

#[derive(Debug, Serialize)]
struct DiagnosticReport<'a> {
    code: Code,
    severity: Severity,
    device: Option<u32>,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct CheckReport<'a> {
    metric: &'a str,
    scope: Option<&'a str>,
    device: Option<u32>,
    limit: &'a str,
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
    allowed: Option<u128>,
    level: &'static str,
    result: &'static str,
    accepted: bool,
    reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct SuiteReport<'a> {
    schema: &'static str,
    tool: Tool,
    verdict: &'static str,
    exit_code: u8,
    comparisons: Vec<DiffReport<'a>>,
    ranks: Vec<RanksReport<'a>>,
}

/// What holds for the ranks of a job together.
#[derive(Debug, Serialize)]
struct RanksReport<'a> {
    name: Option<&'a str>,
    before: Option<&'a str>,
    after: Option<&'a str>,
    verdict: &'static str,
    missing: Vec<MissingReport<'a>>,
    imbalance: MetricReport,
    median: Option<String>,
    worst: Option<String>,
    table: Vec<RankReport<'a>>,
    stacks: Vec<RankRow>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<OwnedDiagnostic>,
}

#[derive(Debug, Serialize)]
struct MissingReport<'a> {
    name: &'a str,
    rank: Option<u64>,
    node: Option<u64>,
    side: &'static str,
    path: &'a str,
}

/// One device of one rank.
#[derive(Debug, Serialize)]
struct RankReport<'a> {
    name: String,
    comparison: Option<&'a str>,
    rank: Option<u64>,
    node: Option<u64>,
    before_device: Option<u32>,
    after_device: Option<u32>,
    verdict: &'static str,
    peak: MetricReport,
}

/// A stack of the worst rank, as the others have it.
#[derive(Debug, Serialize)]
struct RankRow {
    label: String,
    key: String,
    delta: i128,
    median: Option<i128>,
    ranks: usize,
}

#[derive(Debug, Serialize)]
struct OwnedDiagnostic {
    code: Code,
    severity: Severity,
    side: Option<&'static str>,
    device: Option<u32>,
    message: String,
}

/// The snapshots of the ranks of a job: `ptmem.ranks/1`.
#[derive(Debug, Serialize)]
struct ReadingsReport<'a> {
    schema: &'static str,
    tool: Tool,
    path: Option<&'a str>,
    group_by: String,
    at: String,
    verdict: Option<&'static str>,
    exit_code: Option<u8>,
    imbalance: Option<u64>,
    median: Option<String>,
    worst: Option<String>,
    table: Vec<HeldReport>,
    stacks: Vec<HeldRow>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<OwnedDiagnostic>,
    ranks: Vec<ReadingReport<'a>>,
}

/// One device of one rank.
#[derive(Debug, Serialize)]
struct HeldReport {
    name: String,
    rank: Option<u64>,
    node: Option<u64>,
    device: Option<u32>,
    verdict: Option<&'static str>,
    baseline: Option<u64>,
    peak: Option<u64>,
    end: Option<u64>,
    active: Option<u64>,
    requested: Option<u64>,
    reserved: Option<u64>,
}

/// A stack of the rank that stands first, as the others have it.
#[derive(Debug, Serialize)]
struct HeldRow {
    label: String,
    key: String,
    bytes: u64,
    median: Option<i128>,
    ranks: usize,
}

#[derive(Debug, Serialize)]
struct ReadingReport<'a> {
    name: &'a str,
    rank: Option<u64>,
    node: Option<u64>,
    profile: ProfileReport<'a>,
}

#[derive(Debug, Serialize)]
struct DiffReport<'a> {
    schema: &'static str,
    tool: Tool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    verdict: &'static str,
    exit_code: u8,
    before: Source<'a>,
    after: Source<'a>,
    group_by: String,
    at: String,
    devices: Vec<DeviceDiffReport<'a>>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<SidedDiagnostic<'a>>,
}

/// A diagnostic of a comparison: it may concern one side.
#[derive(Debug, Serialize)]
struct SidedDiagnostic<'a> {
    code: Code,
    severity: Severity,
    side: Option<&'static str>,
    device: Option<u32>,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct DeviceDiffReport<'a> {
    before_device: Option<u32>,
    after_device: Option<u32>,
    rank: Option<u64>,
    metrics: Metrics,
    stacks: Vec<RowReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Vec<PhaseChangeReport<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeReport>>,
}

/// A line of the call tree.
#[derive(Debug, Serialize)]
struct TreeReport {
    depth: usize,
    name: String,
    path: Option<String>,
    line: Option<u32>,
    #[serde(flatten)]
    held: TreeHeld,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TreeHeld {
    Held { bytes: u64, blocks: u64 },
    Change { before: u64, after: u64, delta: i128, before_blocks: u64, after_blocks: u64 },
}

/// A tree as a flat list: nesting would be as deep as the stacks of the input.
fn lines(tree: &Tree, top: usize, changes: bool) -> Vec<TreeReport> {
    let lines = tree.lines(Layout { top, least: u64::from(changes), changes, fold: false });
    let report = |line: &tree::Line<'_>| {
        let (name, path, number) = match (line.chain.last(), line.others) {
            (Some(node), _) => (node.frame.name.clone(), node.frame.path.clone(), node.frame.line),
            (None, 0) => ("[itself]".to_owned(), None, None),
            (None, count) => (others(count), None, None),
        };
        let Sides { before, after } = line.held;
        let held = if changes {
            let (before_blocks, after_blocks) = (before.blocks, after.blocks);
            let delta = line.held.delta();
            TreeHeld::Change { before: before.bytes, after: after.bytes, delta, before_blocks, after_blocks }
        } else {
            TreeHeld::Held { bytes: after.bytes, blocks: after.blocks }
        };
        TreeReport { depth: line.depth, name, path, line: number, held }
    };
    lines.iter().map(report).collect()
}

/// The metrics as an object whose keys keep their order.
#[derive(Debug, Serialize)]
struct Metrics {
    peak: MetricReport,
    baseline: MetricReport,
    end: MetricReport,
    active: MetricReport,
    requested: MetricReport,
    reserved: MetricReport,
}

#[derive(Debug, Serialize)]
struct MetricReport {
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
    percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct RowReport<'a> {
    change: &'static str,
    moved: bool,
    label: String,
    key: String,
    bucket: Option<&'static str>,
    before: u64,
    after: u64,
    delta: i128,
    before_blocks: u64,
    after_blocks: u64,
    before_mean: u64,
    after_mean: u64,
    manner: Option<String>,
    frames: Vec<FrameReport<'a>>,
    forward_frames: Vec<FrameReport<'a>>,
    before_frames: Vec<FrameReport<'a>>,
}

/// The result as one object.
pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, serde_json::Error> {
    match subject {
        Subject::Profile(of, judgement) => text(&profile(of, judgement, true, options)),
        Subject::Ranks(of) => text(&readings(of, options)),
        Subject::Leaks(gate) => leaks::render(gate),
        Subject::Gate(gate) => match &gate.comparisons[..] {
            [one] if one.name.is_none() => text(&diff(one, true, options)),
            _ => text(&suite(gate, options)),
        },
    }
}

/// Several comparisons as `ptmem.suite/1`.
fn suite<'a>(gate: &'a Gate, options: &Options) -> SuiteReport<'a> {
    let jobs: Vec<_> = gate.ranks.iter().map(|ranks| ranks::compared(gate, ranks)).collect();
    let has_stacks = |comparison: &Comparison| {
        let mut lines = jobs.iter().flat_map(|lines| first(lines, options));
        comparison.member.is_none() || lines.any(|line| std::ptr::eq(line.of, comparison))
    };
    SuiteReport {
        schema: "ptmem.suite/1",
        tool: TOOL,
        verdict: gate.verdict().name(),
        exit_code: gate.verdict().exit_code(),
        comparisons: gate.comparisons.iter().map(|c| diff(c, has_stacks(c), options)).collect(),
        ranks: gate.ranks.iter().zip(&jobs).map(|(ranks, lines)| of_ranks(gate, ranks, lines, options)).collect(),
    }
}

/// Of so many lines of ranks the first have their stacks in the report: those of hundreds of ranks nobody reads, and
/// with their frames they take hundreds of megabytes.
fn first<'l, T, D>(lines: &'l [Line<'_, T, D>], options: &Options) -> &'l [Line<'l, T, D>] {
    let most = if options.top == 0 { lines.len() } else { options.top.min(lines.len()) };
    &lines[..most]
}

fn of_ranks<'a>(gate: &'a Gate, of: &'a Ranks, lines: &[Compared<'a>], options: &Options) -> RanksReport<'a> {
    let others = Others::changes(lines);
    let rows = lines.first().map(|line| line.rows(options)).unwrap_or_default();
    let medians = ranks::medians_of_rows(&others, &rows);
    let row = |(row, median): (&diff::Row, Option<i128>)| RankRow {
        label: row.label.clone(),
        key: row.key.clone(),
        delta: row.delta(),
        median,
        ranks: others.same(&row.key, row.delta()),
    };
    let line = |line: &Compared<'a>| {
        let rank = line.of.member.as_ref().and_then(|member| member.rank);
        RankReport {
            name: line.name.clone(),
            comparison: line.of.name.as_deref(),
            rank: rank.map(|rank| rank.number),
            node: rank.and_then(|rank| rank.node),
            before_device: line.device.and_then(|device| device.device.before),
            after_device: line.device.and_then(|device| device.device.after),
            verdict: line.of.judgement.verdict.name(),
            peak: metric_of(line.device.map(|device| device.metric(diff::Metric::Peak)).unwrap_or_default()),
        }
    };
    let missing = |missing: &'a Missing| MissingReport {
        name: &missing.member.label,
        rank: missing.member.rank.map(|rank| rank.number),
        node: missing.member.rank.and_then(|rank| rank.node),
        side: missing.side.name(),
        path: &missing.path,
    };
    RanksReport {
        name: of.name.as_deref(),
        before: of.paths.before.as_deref(),
        after: of.paths.after.as_deref(),
        verdict: gate.headline_of_job(of).verdict.name(),
        missing: of.missing.iter().map(missing).collect(),
        imbalance: metric_of(of.imbalance),
        median: others.median.map(str::to_owned),
        worst: lines.first().map(|line| line.name.clone()),
        table: lines.iter().map(line).collect(),
        stacks: rows.iter().zip(medians).map(row).collect(),
        checks: of.judgement.checks.iter().map(check).collect(),
        diagnostics: owned(ranks::diagnostics_of_gate(gate, of)),
    }
}

fn owned(found: Vec<(Option<Side>, Diagnostic)>) -> Vec<OwnedDiagnostic> {
    let owned = |(side, diagnostic): (Option<Side>, Diagnostic)| {
        let side = side.map(Side::name);
        let Diagnostic { code, device, message } = diagnostic;
        OwnedDiagnostic { code, severity: code.severity(), side, device, message }
    };
    found.into_iter().map(owned).collect()
}

/// The snapshots of the ranks of a job as `ptmem.ranks/1`.
fn readings<'a>(of: &'a Readings, options: &Options) -> ReadingsReport<'a> {
    let lines = ranks::shown(of);
    let others = Others::held(&lines);
    let worst = lines.first();
    let stacks = worst.and_then(|line| line.device).map(|device| device.listed(options.top, 1)).unwrap_or_default();
    let medians = ranks::medians_of_stacks(&others, &stacks);
    let row = |(total, median): (&StackTotal, Option<i128>)| HeldRow {
        label: total.label.clone(),
        key: total.key.0.clone(),
        bytes: total.at.bytes,
        median,
        ranks: others.same(&total.key.0, i128::from(total.at.bytes)),
    };
    let has_stacks = |reading: &Reading| first(&lines, options).iter().any(|line| std::ptr::eq(line.of, reading));
    let line = |line: &ranks::Shown<'_>| {
        let figure = |metric: diff::Metric| metric.value(line.device?);
        let rank = line.of.member.rank;
        HeldReport {
            name: line.name.clone(),
            rank: rank.map(|rank| rank.number),
            node: rank.and_then(|rank| rank.node),
            device: line.device.map(|device| device.device),
            verdict: line.of.judgement.as_ref().map(|judgement| judgement.verdict.name()),
            baseline: figure(diff::Metric::Baseline),
            peak: figure(diff::Metric::Peak),
            end: figure(diff::Metric::End),
            active: figure(diff::Metric::Active),
            requested: figure(diff::Metric::Requested),
            reserved: figure(diff::Metric::Reserved),
        }
    };
    let reading = |reading: &'a Reading| ReadingReport {
        name: &reading.member.label,
        rank: reading.member.rank.map(|rank| rank.number),
        node: reading.member.rank.and_then(|rank| rank.node),
        profile: profile(&reading.profile, reading.judgement.as_ref(), has_stacks(reading), options),
    };
    let of_first = of.readings.first().map(|reading| &reading.profile.options);
    ReadingsReport {
        schema: "ptmem.ranks/1",
        tool: TOOL,
        path: of.ranks.paths.after.as_deref(),
        group_by: of_first.map(|of| of.group_by.to_string()).unwrap_or_default(),
        at: of_first.map(|of| of.at.to_string()).unwrap_or_default(),
        verdict: of.verdict().map(Verdict::name),
        exit_code: of.verdict().map(Verdict::exit_code),
        imbalance: of.ranks.imbalance.after,
        median: others.median.map(str::to_owned),
        worst: worst.map(|line| line.name.clone()),
        table: lines.iter().map(line).collect(),
        stacks: stacks.iter().zip(medians).map(row).collect(),
        checks: of.ranks.judgement.checks.iter().map(check).collect(),
        diagnostics: owned(ranks::diagnostics_of_readings(of)),
        ranks: of.readings.iter().map(reading).collect(),
    }
}

/// A profile as `ptmem.profile/1`, with the checks of `judgement` where there is one.
fn profile<'a>(
    profile: &'a Profile,
    judgement: Option<&'a Judgement>,
    has_stacks: bool,
    options: &Options,
) -> ProfileReport<'a> {
    let mut diagnostics: Vec<_> = profile.diagnostics.iter().map(diagnostic).collect();
    diagnostics.extend(judgement.into_iter().flat_map(|j| &j.diagnostics).map(diagnostic));
    ProfileReport {
        schema: "ptmem.profile/1",
        tool: TOOL,
        source: source(profile),
        group_by: profile.options.group_by.to_string(),
        at: profile.options.at.to_string(),
        devices: profile.devices.iter().map(|d| device(d, profile, has_stacks, options)).collect(),
        verdict: judgement.map(|j| j.verdict.name()),
        exit_code: judgement.map(|j| j.verdict.exit_code()),
        checks: judgement.map(|j| j.checks.iter().map(check).collect()),
        diagnostics,
    }
}

/// A comparison as `ptmem.diff/1`.
fn diff<'a>(comparison: &'a Comparison, has_stacks: bool, options: &Options) -> DiffReport<'a> {
    let Comparison { name, diff, judgement, .. } = comparison;
    let sides =
        [(Some("before"), &diff.profiles.before.diagnostics), (Some("after"), &diff.profiles.after.diagnostics)];
    let both = [(None, &diff.diagnostics), (None, &judgement.diagnostics)];
    let found = sides.into_iter().chain(both).flat_map(|(side, found)| found.iter().map(move |d| (side, d)));
    DiffReport {
        schema: "ptmem.diff/1",
        tool: TOOL,
        name: name.as_deref(),
        verdict: judgement.verdict.name(),
        exit_code: judgement.verdict.exit_code(),
        before: source(&diff.profiles.before),
        after: source(&diff.profiles.after),
        group_by: diff.profiles.after.options.group_by.to_string(),
        at: diff.profiles.after.options.at.to_string(),
        devices: diff.devices.iter().map(|d| device_diff(d, comparison, has_stacks, options)).collect(),
        checks: judgement.checks.iter().map(check).collect(),
        diagnostics: found
            .map(|(side, Diagnostic { code, device, message })| SidedDiagnostic {
                code: *code,
                severity: code.severity(),
                side,
                device: *device,
                message,
            })
            .collect(),
    }
}

fn text(report: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

fn source(profile: &Profile) -> Source<'_> {
    Source { path: &profile.source.path, bytes: profile.source.bytes, kind: profile.source.kind.name() }
}

fn diagnostic(found: &Diagnostic) -> DiagnosticReport<'_> {
    DiagnosticReport { code: found.code, severity: found.severity(), device: found.device, message: &found.message }
}

fn counter(counter: &Counter) -> CounterReport {
    CounterReport {
        baseline: counter.baseline,
        peak: counter.peak,
        peak_event: counter.peak_at.map(Position::event_index),
        end: counter.end,
        exact: counter.exact(),
        max_error: counter.max_error(),
    }
}

/// The most text that the frames of one stack may take. Far beyond any real stack: a small file can refer to
/// one long name millions of times.
const MOST_FRAME_TEXT: usize = 1 << 20;

fn frames<'a>(tables: &'a Tables, ids: Option<&[FrameId]>) -> Vec<FrameReport<'a>> {
    let ids = ids.unwrap_or_default();
    let mut text = 0;
    let mut reports = Vec::new();
    for &id in ids {
        let frame = tables.frame(id);
        let (name, filename) = (tables.string(frame.name), tables.string(frame.filename));
        text += name.len() + filename.len() + 64;
        if text > MOST_FRAME_TEXT {
            reports.push(FrameReport { name: "<more frames>", filename: "", line: 0 });
            break;
        }
        reports.push(FrameReport { name, filename, line: frame.line });
    }
    reports
}

fn device<'a>(
    device: &'a DeviceProfile,
    profile: &'a Profile,
    has_stacks: bool,
    options: &Options,
) -> DeviceReport<'a> {
    let tables = &profile.tables;
    let ran_out = !device.figures.ooms.is_empty();
    let listed = if has_stacks { device.listed(options.top, 0) } else { Vec::new() };
    let reports = listed
        .into_iter()
        .map(|total| StackReport {
            bucket: total.bucket.map(Bucket::code),
            baseline: total.baseline.bytes,
            peak: total.peak.bytes,
            end: total.end.bytes,
            oom: ran_out.then_some(total.oom.bytes),
            at: total.at.bytes,
            baseline_blocks: total.baseline.blocks,
            peak_blocks: total.peak.blocks,
            end_blocks: total.end.blocks,
            oom_blocks: ran_out.then_some(total.oom.blocks),
            at_blocks: total.at.blocks,
            allocations: total.allocations,
            allocated_total: total.allocated_total,
            frames: frames(tables, total.stack().map(|stack| tables.stack(stack))),
            forward_frames: frames(tables, total.stack().map(|stack| tables.forward(stack))),
            label: total.label,
            key: total.key.0,
        })
        .collect();
    let checks = device.figures.checks;
    DeviceReport {
        device: device.device,
        events: device.events,
        duration_us: device.duration_us,
        actions: &device.actions,
        allocated: counter(&device.figures.allocated),
        active: counter(&device.figures.active),
        requested: counter(&device.figures.requested),
        reserved: counter(&device.figures.reserved),
        fragmentation: Fragmentation {
            peak: device.figures.fragmentation_at_peak,
            end: device.figures.fragmentation_at_end,
        },
        checks: ChecksReport {
            sizes: Recovered { recovered: checks.sizes_recovered, total: checks.sizes_total },
            checkpoints: Matched { matched: checks.checkpoints_matched, total: checks.checkpoints_total },
            end_matches: checks.end_matches,
        },
        allocations: device.figures.allocation_count,
        frees: device.figures.free_count,
        allocated_total: device.figures.allocated_total,
        ooms: device
            .figures
            .ooms
            .iter()
            .map(|oom| OomReport {
                event: oom.event,
                requested: oom.requested,
                device_free: oom.device_free,
                allocated: oom.allocated,
                active: oom.active,
                reserved: oom.reserved,
                demand: oom.demand(),
                fragmentation: oom.fragmentation(),
                pool_free: oom.pool.map(|pool| pool.bytes),
                largest_free: oom.pool.map(|pool| pool.largest),
                max_error: oom.max_error,
            })
            .collect(),
        // The dump is no event; the last one is the nearest.
        at_event: device.at.map(|at| at.event_index().min(i64::try_from(device.events).unwrap_or(i64::MAX) - 1)),
        stacks: reports,
        phases: phases::phases(device, options),
        intervals: profile.options.every.as_ref().map(|_| phases::intervals(device)),
        tree: options.tree.as_ref().filter(|_| has_stacks).map(|tree| {
            let tree = tree::of_device(device, &profile.code(), tree);
            lines(&tree, options.top, false)
        }),
    }
}

fn check(check: &Check) -> CheckReport<'_> {
    CheckReport {
        metric: &check.metric,
        scope: check.scope.as_deref(),
        device: check.device,
        limit: &check.limit,
        before: check.before,
        after: check.after,
        delta: check.delta,
        allowed: check.allowed,
        level: check.level.name(),
        result: check.outcome.name(),
        accepted: check.accepted,
        reason: check.reason.as_deref(),
    }
}

fn metric(device: &diff::DeviceDiff, metric: diff::Metric) -> MetricReport {
    metric_of(device.metric(metric))
}

fn metric_of(change: diff::Change) -> MetricReport {
    let percent = change.before.zip(change.delta()).and_then(|(before, delta)| percent(delta, before));
    MetricReport { before: change.before, after: change.after, delta: change.delta(), percent }
}

fn device_diff<'a>(
    device: &'a diff::DeviceDiff,
    comparison: &'a Comparison,
    has_stacks: bool,
    options: &Options,
) -> DeviceDiffReport<'a> {
    let Comparison { diff, judgement, .. } = comparison;
    let explains = judgement.explanation(device);
    let (before, after) = (&diff.profiles.before.tables, &diff.profiles.after.tables);
    let rows = if has_stacks { diff::listed(&device.rows, options.listing(comparison), explains) } else { Vec::new() };
    DeviceDiffReport {
        before_device: device.device.before,
        after_device: device.device.after,
        rank: comparison.member.as_ref().and_then(|member| member.rank).map(|rank| rank.number),
        metrics: Metrics {
            peak: metric(device, diff::Metric::Peak),
            baseline: metric(device, diff::Metric::Baseline),
            end: metric(device, diff::Metric::End),
            active: metric(device, diff::Metric::Active),
            requested: metric(device, diff::Metric::Requested),
            reserved: metric(device, diff::Metric::Reserved),
        },
        stacks: rows
            .into_iter()
            .map(|row| RowReport {
                change: row.change.name(),
                moved: row.moved,
                before_mean: row.held.before.mean(),
                after_mean: row.held.after.mean(),
                manner: row.manner(),
                delta: row.delta(),
                bucket: match row.kind {
                    RowKind::Stack => None,
                    RowKind::Bucket(bucket) => Some(bucket.code()),
                    RowKind::Others(_) => Some("others"),
                },
                before: row.held.before.bytes,
                after: row.held.after.bytes,
                before_blocks: row.held.before.blocks,
                after_blocks: row.held.after.blocks,
                frames: frames(after, row.stack.after.map(|stack| after.stack(stack))),
                forward_frames: frames(after, row.stack.after.map(|stack| after.forward(stack))),
                before_frames: frames(before, row.stack.before.map(|stack| before.stack(stack))),
                label: row.label,
                key: row.key,
            })
            .collect(),
        phases: are_shown(comparison, options).then(|| phases::changes(device)),
        tree: options
            .tree
            .as_ref()
            .filter(|_| has_stacks)
            .map(|tree| lines(&tree::of_diff(device, &diff.codes(), tree), options.top, true)),
    }
}
