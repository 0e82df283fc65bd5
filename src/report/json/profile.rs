//! `ptmem.profile/1`: the figures of one snapshot, with the checks of absolute limits where there are any.

use std::collections::BTreeMap;

use serde::Serialize;

use super::shared::{BudgetReport, CheckReport, DiagnosticReport, Frames, SourceReport, TOOL, Tool, frames};
use super::tree::{self, TreeReport};
use crate::profile::{Bucket, DeviceProfile, HeldLine, Profile, StackTotal};
use crate::replay::{Checks, Counter, Figures, Fragmentation, History, Oom};
use crate::report::Options;
use crate::report::known::KnownCounter;
use crate::report::phases::{IntervalRecord, PhaseRecord};
use crate::snapshot::Tables;
use crate::tree::of_device;
use crate::verdict::Judgement;

/// The report of one snapshot.
#[derive(Debug, Serialize)]
pub(super) struct ProfileReport<'a> {
    schema: &'static str,
    tool: Tool,
    source: SourceReport<'a>,
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
    checks: Checks,
    allocations: u64,
    frees: u64,
    allocated_total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory: Option<BudgetReport>,
    ooms: Vec<OomReport<'a>>,
    at_event: Option<i64>,
    stacks: Vec<StackReport<'a>>,
    phases: Vec<PhaseRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Vec<IntervalRecord<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeReport>>,
}

#[derive(Debug, Serialize)]
struct CounterReport {
    #[serde(flatten)]
    counter: Counter,
    exact: bool,
    max_error: Option<u64>,
}

#[derive(Debug, Serialize)]
struct OomReport<'a> {
    #[serde(flatten)]
    oom: Oom,
    demand: Option<u64>,
    fragmentation: Option<u64>,
    frames: Frames<'a>,
}

#[derive(Debug, Serialize)]
struct StackReport<'a> {
    label: String,
    key: String,
    bucket: Option<&'static str>,
    baseline: Option<u64>,
    peak: Option<u64>,
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom: Option<u64>,
    at: u64,
    baseline_blocks: Option<u64>,
    peak_blocks: Option<u64>,
    end_blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_blocks: Option<u64>,
    at_blocks: u64,
    allocations: u64,
    allocated_total: u64,
    highest: Option<u64>,
    /// -1 where it was held at the start.
    highest_event: Option<i64>,
    lines: Vec<LineReport>,
    /// Types and shapes of the tensors that the row consists of, at the moment that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<LineReport>,
    frames: Frames<'a>,
    forward_frames: Frames<'a>,
}

/// One of the lines of code that a row sums, with its operator, at the moment that was asked for.
#[derive(Debug, Serialize)]
struct LineReport {
    label: String,
    at: u64,
    at_blocks: u64,
}

impl LineReport {
    fn new(line: HeldLine) -> Self {
        Self { label: line.label, at: line.held.bytes, at_blocks: line.held.blocks }
    }
}

impl<'a> ProfileReport<'a> {
    /// The report, with the checks of `judgement` where there is one.
    pub(super) fn new(
        profile: &'a Profile,
        judgement: Option<&'a Judgement>,
        has_stacks: bool,
        options: &Options,
    ) -> Self {
        let judged = judgement.into_iter().flat_map(|judgement| &judgement.diagnostics);
        let devices = profile.devices.iter().map(|device| DeviceReport::new(device, profile, has_stacks, options));
        Self {
            schema: "ptmem.profile/1",
            tool: TOOL,
            source: SourceReport::new(profile),
            group_by: profile.options.group_by.to_string(),
            at: profile.options.at.to_string(),
            devices: devices.collect(),
            verdict: judgement.map(|judgement| judgement.verdict.name()),
            exit_code: judgement.map(|judgement| judgement.verdict.exit_code()),
            checks: judgement.map(|judgement| judgement.checks.iter().map(CheckReport::new).collect()),
            diagnostics: profile.diagnostics.iter().chain(judged).map(DiagnosticReport::new).collect(),
        }
    }
}

impl<'a> DeviceReport<'a> {
    fn new(device: &'a DeviceProfile, profile: &'a Profile, has_stacks: bool, options: &Options) -> Self {
        let figures = &device.figures;
        let every = profile.options.every.as_ref();
        let budget = options.device_memory.map(|memory| memory.budget(profile.run.as_ref(), device.device));
        Self {
            device: device.device,
            events: device.events,
            duration_us: device.duration_us,
            actions: &device.actions,
            allocated: CounterReport::new(&figures.allocated, figures.history),
            active: CounterReport::new(&figures.active, figures.history),
            requested: CounterReport::new(&figures.requested, figures.history),
            reserved: CounterReport::new(&figures.reserved, figures.history),
            fragmentation: fragmentation(figures),
            checks: figures.checks,
            allocations: figures.allocation_count,
            frees: figures.free_count,
            allocated_total: figures.allocated_total,
            device_memory: budget.map(BudgetReport::from),
            ooms: ooms(device, &profile.tables),
            at_event: at_event(device),
            stacks: if has_stacks { stacks(device, profile, options) } else { Vec::new() },
            phases: options.phases_of(device).map(|phase| PhaseRecord::new(&*phase.name, phase)).collect(),
            intervals: every
                .map(|_| device.intervals.iter().map(|part| IntervalRecord::new(&*part.name, part)).collect()),
            tree: if has_stacks { tree_of(device, profile, options) } else { None },
        }
    }
}

/// The event of the moment that was asked for. The dump is no event: the last event is the nearest.
fn at_event(device: &DeviceProfile) -> Option<i64> {
    let last = i64::try_from(device.events).unwrap_or(i64::MAX) - 1;
    device.at.map(|at| at.event_index().min(last))
}

/// Failed requests beyond these are listed without their frames: a job that catches and retries has many.
const MOST_FAILED_STACKS: usize = 16;

fn ooms<'a>(device: &DeviceProfile, tables: &'a Tables) -> Vec<OomReport<'a>> {
    let mut reports = Vec::with_capacity(device.figures.ooms.len());
    for (index, oom) in device.figures.ooms.iter().enumerate() {
        let stack = device.failed_stacks.get(index).copied().flatten().filter(|_| index < MOST_FAILED_STACKS);
        reports.push(OomReport {
            oom: *oom,
            demand: oom.demand(),
            fragmentation: oom.fragmentation(),
            frames: frames(tables, stack.map(|stack| tables.stack(stack))),
        });
    }
    reports
}

fn stacks<'a>(device: &DeviceProfile, profile: &'a Profile, options: &Options) -> Vec<StackReport<'a>> {
    let code = profile.code();
    let mut reports = Vec::new();
    for total in device.listed(options.top, 0) {
        let lines = total.lines(profile.options.group_by, &code).all.into_iter().map(LineReport::new).collect();
        reports.push(StackReport { lines, ..StackReport::new(total, &profile.tables, &device.figures) });
    }
    reports
}

fn tree_of(device: &DeviceProfile, profile: &Profile, options: &Options) -> Option<Vec<TreeReport>> {
    let tree = of_device(device, profile.options.group_by, &profile.code(), options.tree.as_ref()?);
    Some(tree::held(&tree, options.top))
}

impl<'a> StackReport<'a> {
    fn new(total: StackTotal, tables: &'a Tables, figures: &Figures) -> Self {
        let ran_out = !figures.ooms.is_empty();
        let has_history = figures.history == History::Recorded;
        let stack = total.stack();
        Self {
            bucket: total.bucket.map(Bucket::code),
            baseline: has_history.then_some(total.baseline.bytes),
            peak: has_history.then_some(total.peak.bytes),
            end: total.end.bytes,
            oom: ran_out.then_some(total.oom.bytes),
            at: total.at.bytes,
            baseline_blocks: has_history.then_some(total.baseline.blocks),
            peak_blocks: has_history.then_some(total.peak.blocks),
            end_blocks: total.end.blocks,
            oom_blocks: ran_out.then_some(total.oom.blocks),
            at_blocks: total.at.blocks,
            allocations: total.allocations,
            allocated_total: total.allocated_total,
            highest: total.highest.map(|highest| highest.bytes),
            highest_event: total.highest.map(|highest| highest.at.event_index()),
            lines: Vec::new(),
            shapes: total.shapes.into_iter().map(LineReport::new).collect(),
            frames: frames(tables, stack.map(|stack| tables.stack(stack))),
            forward_frames: frames(tables, stack.map(|stack| tables.forward(stack))),
            label: total.label,
            key: total.key.0,
        }
    }
}

impl CounterReport {
    /// Without a history, only the state at the dump is known.
    fn new(counter: &Counter, history: History) -> Self {
        let KnownCounter { baseline, peak, max_error } = KnownCounter::new(counter, history);
        let known = Counter {
            baseline,
            peak,
            peak_at: peak.and(counter.peak_at),
            baseline_error: baseline.and(counter.baseline_error),
            peak_error: peak.and(counter.peak_error),
            ..*counter
        };
        Self { counter: known, exact: max_error.is_some() && counter.exact(), max_error }
    }
}

/// Reserved bytes that are not active, as far as they are known.
fn fragmentation(figures: &Figures) -> Fragmentation {
    let reserved = KnownCounter::new(&figures.reserved, figures.history);
    Fragmentation { peak: reserved.peak.and(figures.fragmentation.peak), ..figures.fragmentation }
}
