//! `ptmem.profile/1`: the figures of one snapshot, with the checks of absolute limits where there are any.

use ptmem_compare::tree::{self, TreeLayout, of_device};
use ptmem_judge::verdict::{Judgement, diagnostics_of_snapshot};
use ptmem_trace::profile::{
    Bucket, DeviceProfile, HeldLine, HeldLines, Interval, Occurrence, PrivatePool, Profile, StackTotal,
};
use ptmem_trace::replay::{Counter, Figures, Fragmentation, HistoryKind, Oom};
use serde::Serialize;

use super::shared::{
    BudgetReport, CheckReport, DiagnosticReport, JsonFrames, PoolReport, SourceReport, Tool, TreeLines,
};
use crate::{RenderOptions, known};
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of one snapshot, with the checks of a judgement where there is one.
    pub ProfileReport<'a>(
        profile: &'a Profile,
        judgement: Option<&'a Judgement>,
        has_stacks: bool,
        options: &'a RenderOptions,
    ) {
        schema: "ptmem.profile/1",
        tool: Tool(),
        source: SourceReport(profile),
        group_by: profile.options.group_by.to_string(),
        at: profile.options.at.to_string(),
        devices: list(profile.devices.iter().map(|device| DeviceReport(device, profile, has_stacks, options))),
        verdict?: judgement.map(|judgement| judgement.verdict.name()),
        exit_code?: judgement.map(|judgement| judgement.verdict.exit_code()),
        checks?: judgement.map(|judgement| list(judgement.checks.iter().map(CheckReport))),
        diagnostics: list(diagnostics_of_snapshot(profile, judgement).into_iter().map(|(_, found)| DiagnosticReport(found))),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceProfile, profile: &'a Profile, has_stacks: bool, options: &'a RenderOptions) {
        device: device.device,
        events: device.events,
        duration_us: device.duration_us,
        actions: device.actions,
        allocated: CounterReport::new(&device.figures.allocated, device.figures.history),
        active: CounterReport::new(&device.figures.active, device.figures.history),
        requested: CounterReport::new(&device.figures.requested, device.figures.history),
        reserved: CounterReport::new(&device.figures.reserved, device.figures.history),
        fragmentation: fragmentation(&device.figures),
        private_pools?: (!device.private_pools.is_empty()).then(|| list(device.private_pools.iter().map(NamedPool))),
        checks: device.figures.checks,
        allocations: device.figures.allocation_count,
        frees: device.figures.free_count,
        allocated_total: device.figures.allocated_total,
        device_memory?: options.device_memory.map(|of| BudgetReport(of.budget(profile.run.as_ref(), device.device))),
        ooms: list(device.figures.ooms.iter().enumerate().map(|(index, oom)| OomReport::new(device, profile, index, oom))),
        failed_count?: Some(device.figures.failed_count).filter(|&count| count > 0),
        at_event: at_event(device),
        stacks: list(stacks(device, profile, has_stacks, options).iter().map(|(total, lines)| {
            StackReport(total, lines, profile, &device.figures)
        })),
        phases: list(options.phases_of(device).map(PhaseRecord)),
        intervals?: profile.options.every.as_ref().map(|_| list(device.intervals.iter().map(IntervalRecord))),
        tree?: options.tree.as_ref().filter(|_| has_stacks).map(|tree| lines(device, profile, tree, options.top())),
    }
}

object! {
    /// The private pools of one name at the end of the recording.
    NamedPool<'a>(pool: &'a PrivatePool) {
        name: pool.name,
        ..PoolReport(pool),
    }
}

/// The stacks that are listed, with the lines that each sums.
fn stacks(
    device: &DeviceProfile,
    profile: &Profile,
    has_stacks: bool,
    options: &RenderOptions,
) -> Vec<(StackTotal, HeldLines)> {
    let totals = if has_stacks { device.listed(options.top(), 0) } else { Vec::new() };
    let code = profile.code();
    let with_lines = totals.into_iter().map(|total| {
        let lines = total.lines(profile.options.group_by, &code);
        (total, lines)
    });
    with_lines.collect()
}

fn lines(device: &DeviceProfile, profile: &Profile, tree: &tree::TreeOptions, top: usize) -> TreeLines {
    let layout = TreeLayout { top, least: 0, changes: false, fold: false };
    TreeLines { tree: of_device(device, profile.options.group_by, &profile.code(), tree), layout }
}

/// The event of the requested moment. The dump is not an event: the last event is the nearest.
fn at_event(device: &DeviceProfile) -> Option<i64> {
    let last = i64::try_from(device.events).unwrap_or(i64::MAX) - 1;
    device.at.map(|at| at.event_index().min(last))
}

#[derive(Serialize)]
struct CounterReport {
    #[serde(flatten)]
    counter: Counter,
    exact: bool,
    max_error: Option<u64>,
}

impl CounterReport {
    /// Without a history, only the state at the dump is known; of figures, those that are stated.
    fn new(counter: &Counter, history: HistoryKind) -> Self {
        let known = known::counter(counter, history);
        let max_error = known.max_error();
        Self { exact: max_error.is_some() && counter.exact(), max_error, counter: known }
    }
}

/// Reserved bytes that are not active, as far as they are known.
fn fragmentation(figures: &Figures) -> Fragmentation {
    let reserved = known::counter(&figures.reserved, figures.history);
    Fragmentation { peak: reserved.peak.and(figures.fragmentation.peak), ..figures.fragmentation }
}

/// Failed requests beyond these are listed without their frames: a job that catches and retries has many.
const MOST_FAILED_STACKS: usize = 16;

#[derive(Serialize)]
struct OomReport<'a> {
    #[serde(flatten)]
    oom: Oom,
    demand: Option<u64>,
    fragmentation: Option<u64>,
    frames: JsonFrames<'a>,
}

impl<'a> OomReport<'a> {
    fn new(device: &DeviceProfile, profile: &'a Profile, index: usize, oom: &Oom) -> Self {
        let stack = device.failed_stacks.get(index).copied().flatten().filter(|_| index < MOST_FAILED_STACKS);
        let frames = JsonFrames::of(&profile.tables, stack);
        Self { oom: *oom, demand: oom.demand(), fragmentation: oom.fragmentation(), frames }
    }
}

object! {
    StackReport<'a>(total: &'a StackTotal, lines: &'a HeldLines, profile: &'a Profile, figures: &'a Figures) {
        label: total.label,
        key: total.key.0,
        bucket: total.bucket.map(Bucket::code),
        baseline: recorded(figures, total.baseline.bytes),
        peak: recorded(figures, total.peak.bytes),
        end: total.end.bytes,
        oom?: failed(figures, total.oom.bytes),
        at: total.at.bytes,
        baseline_blocks: recorded(figures, total.baseline.blocks),
        peak_blocks: recorded(figures, total.peak.blocks),
        end_blocks: total.end.blocks,
        oom_blocks?: failed(figures, total.oom.blocks),
        at_blocks: total.at.blocks,
        allocations: total.allocations,
        allocated_total: total.allocated_total,
        highest: total.highest.map(|highest| highest.bytes),
        highest_error?: Some(total.highest_bound.bytes).filter(|&error| error > 0),
        // -1 where it was held at the start.
        highest_event: total.highest.map(|highest| highest.at.event_index()),
        lines: list(lines.all.iter().map(LineReport)),
        // Types and shapes of the tensors that the row consists of, at the requested moment.
        shapes?: (!total.shapes.is_empty()).then(|| list(total.shapes.iter().map(LineReport))),
        frames: JsonFrames::of(&profile.tables, total.stack()),
        forward_frames: JsonFrames::forward(&profile.tables, total.stack()),
    }
}

/// A figure of a stack that requires a history.
fn recorded(figures: &Figures, figure: u64) -> Option<u64> {
    (figures.history == HistoryKind::Recorded).then_some(figure)
}

/// A figure of a stack when memory ran out.
fn failed(figures: &Figures, figure: u64) -> Option<u64> {
    (!figures.ooms.is_empty()).then_some(figure)
}

object! {
    /// One of the lines of code that a row sums, with its operator, at the requested moment.
    LineReport<'a>(line: &'a HeldLine) {
        label: line.label,
        at: line.held.bytes,
        at_blocks: line.held.blocks,
    }
}

object! {
    /// An occurrence of a phase.
    PhaseRecord<'a>(phase: &'a Occurrence) {
        name: &*phase.name,
        source: phase.source.name(),
        occurrence: phase.number,
        depth: phase.depth,
        first_event: phase.window.from.count(),
        events: phase.window.events(),
        start: phase.held.start.allocated,
        peak: phase.held.peak.allocated,
        end: phase.held.end.allocated,
        // How far the peak may be from the truth.
        max_error?: Some(phase.error).filter(|&error| error > 0),
        change: phase.change(),
        begins: phase.begins,
        ends: phase.ends,
    }
}

object! {
    /// A part of a history.
    IntervalRecord<'a>(part: &'a Interval) {
        name: &*part.name,
        first_event: part.window.from.count(),
        events: part.window.events(),
        start: part.held.start.allocated,
        peak: part.held.peak.allocated,
        end: part.held.end.allocated,
        reserved_peak: part.reserved_peak,
    }
}
