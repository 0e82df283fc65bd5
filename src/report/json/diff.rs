//! `ptmem.diff/2`: one comparison.

use serde::Serialize;

use super::shared::{ChangeReport, CheckReport, Frames, Metrics, SidedDiagnostic, SourceReport, TOOL, Tool, frames};
use super::tree::{self, TreeReport};
use crate::diff::{
    self, Apart, CategoryChange, CodeLine, ComparedPlaces, DeviceDiff, Diff, PhaseRow, Place, Row, RowLine, Side,
    Sides, Touched,
};
use crate::report::Options;
use crate::snapshot::Tables;
use crate::tree::of_diff;
use crate::verdict::Comparison;

/// The report of one comparison.
#[derive(Debug, Serialize)]
pub(super) struct DiffReport<'a> {
    schema: &'static str,
    tool: Tool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    verdict: &'static str,
    exit_code: u8,
    before: SourceReport<'a>,
    after: SourceReport<'a>,
    group_by: String,
    at: String,
    devices: Vec<DeviceReport<'a>>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<SidedDiagnostic<'a>>,
}

#[derive(Debug, Serialize)]
struct DeviceReport<'a> {
    before_device: Option<u32>,
    after_device: Option<u32>,
    rank: Option<u64>,
    places: Option<PlacesReport<'a>>,
    metrics: Metrics<'a>,
    categories: Vec<CategoryReport<'a>>,
    /// Bytes gained through lines that the change of the code touches; null where that is not known.
    changed_here_delta: Option<i128>,
    stacks: Vec<RowReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Vec<PhaseChangeReport<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeReport>>,
}

/// The places that are compared.
#[derive(Debug, Serialize)]
struct PlacesReport<'a> {
    before: PlaceReport<'a>,
    after: PlaceReport<'a>,
    before_peak: Option<PlaceReport<'a>>,
    reason: Option<&'static str>,
}

impl<'a> PlacesReport<'a> {
    fn new(places: &'a ComparedPlaces) -> Self {
        Self {
            before: PlaceReport::new(&places.at.before),
            after: PlaceReport::new(&places.at.after),
            before_peak: places.before_peak.as_ref().map(PlaceReport::new),
            reason: places.reason.map(Apart::code),
        }
    }
}

/// A place of one side.
#[derive(Debug, Serialize)]
struct PlaceReport<'a> {
    event: i64,
    step: Option<u64>,
    phase: Option<&'a str>,
    allocated: u64,
}

impl<'a> PlaceReport<'a> {
    fn new(place: &'a Place) -> Self {
        let Place { at, step, phase, allocated } = place;
        Self { event: at.event_index(), step: *step, phase: phase.as_deref(), allocated: *allocated }
    }
}

/// The memory of one category at the moment that is compared.
#[derive(Debug, Serialize)]
struct CategoryReport<'a> {
    name: &'a str,
    before: u64,
    after: u64,
    delta: i128,
}

impl<'a> CategoryReport<'a> {
    fn new(change: &'a CategoryChange) -> Self {
        let Sides { before, after } = change.held;
        Self { name: &change.name, before, after, delta: change.delta() }
    }
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
    before_highest: Option<u64>,
    after_highest: Option<u64>,
    manner: Option<String>,
    changed_here: Option<TouchedReport>,
    lines: Vec<SummedReport>,
    /// Types and shapes of the tensors that the row consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<SummedReport>,
    frames: Frames<'a>,
    forward_frames: Frames<'a>,
    before_frames: Frames<'a>,
}

/// The lines of a row that the change of the code touches.
#[derive(Debug, Serialize)]
struct TouchedReport {
    delta: i128,
    before: Vec<LineReport>,
    after: Vec<LineReport>,
}

#[derive(Debug, Serialize)]
struct LineReport {
    path: String,
    line: u32,
}

impl TouchedReport {
    fn new(touched: Touched) -> Self {
        let Touched { delta, lines } = touched;
        Self { delta, before: line_reports(lines.before), after: line_reports(lines.after) }
    }
}

fn line_reports(lines: Vec<CodeLine>) -> Vec<LineReport> {
    lines.into_iter().map(|CodeLine { path, line }| LineReport { path, line }).collect()
}

/// One of the lines of code that a row sums, with its operator.
#[derive(Debug, Serialize)]
struct SummedReport {
    label: String,
    before: u64,
    after: u64,
    delta: i128,
    before_blocks: u64,
    after_blocks: u64,
}

impl SummedReport {
    fn new(line: &RowLine) -> Self {
        let Sides { before, after } = line.held;
        Self {
            label: line.label.clone(),
            before: before.bytes,
            after: after.bytes,
            delta: line.held.delta(),
            before_blocks: before.blocks,
            after_blocks: after.blocks,
        }
    }
}

impl<'a> DiffReport<'a> {
    pub(super) fn new(comparison: &'a Comparison, has_stacks: bool, options: &Options) -> Self {
        let Comparison { name, diff, judgement, .. } = comparison;
        let profiles = &diff.profiles;
        let devices = diff.devices.iter().map(|device| DeviceReport::new(device, comparison, has_stacks, options));
        Self {
            schema: "ptmem.diff/2",
            tool: TOOL,
            name: name.as_deref(),
            verdict: judgement.verdict.name(),
            exit_code: judgement.verdict.exit_code(),
            before: SourceReport::new(&profiles.before),
            after: SourceReport::new(&profiles.after),
            group_by: profiles.after.options.group_by.to_string(),
            at: profiles.after.options.at.to_string(),
            devices: devices.collect(),
            checks: judgement.checks.iter().map(CheckReport::new).collect(),
            diagnostics: diagnostics(comparison),
        }
    }
}

/// The diagnostics of both sides, then those of the comparison.
fn diagnostics(comparison: &Comparison) -> Vec<SidedDiagnostic<'_>> {
    let Diff { profiles, diagnostics, .. } = &comparison.diff;
    let before = profiles.before.diagnostics.iter().map(|found| SidedDiagnostic::new(Some(Side::Before), found));
    let after = profiles.after.diagnostics.iter().map(|found| SidedDiagnostic::new(Some(Side::After), found));
    let both = diagnostics.iter().chain(&comparison.judgement.diagnostics);
    before.chain(after).chain(both.map(|found| SidedDiagnostic::new(None, found))).collect()
}

impl<'a> DeviceReport<'a> {
    fn new(device: &'a DeviceDiff, comparison: &'a Comparison, has_stacks: bool, options: &Options) -> Self {
        let phases = options.shows_phases(comparison);
        Self {
            before_device: device.device.before,
            after_device: device.device.after,
            rank: comparison.member.as_ref().and_then(|member| member.rank).map(|rank| rank.number),
            places: device.places.as_ref().map(PlacesReport::new),
            metrics: Metrics { device, profiles: &comparison.diff.profiles },
            categories: device.categories.iter().map(CategoryReport::new).collect(),
            changed_here_delta: device.touched,
            stacks: if has_stacks { stacks(device, comparison, options) } else { Vec::new() },
            phases: phases.then(|| device.phases.iter().map(PhaseChangeReport::new).collect()),
            tree: if has_stacks { tree_of(device, &comparison.diff, options) } else { None },
        }
    }
}

fn stacks<'a>(device: &DeviceDiff, comparison: &'a Comparison, options: &Options) -> Vec<RowReport<'a>> {
    let explains = comparison.judgement.explanation(device);
    let rows = diff::listed(&device.rows, options.listing(comparison), explains);
    let profiles = &comparison.diff.profiles;
    let tables = Sides { before: &*profiles.before.tables, after: &*profiles.after.tables };
    rows.into_iter().map(|row| RowReport::new(row, tables, device.touched.is_some())).collect()
}

fn tree_of(device: &DeviceDiff, diff: &Diff, options: &Options) -> Option<Vec<TreeReport>> {
    let tree = of_diff(device, diff.profiles.after.options.group_by, &diff.codes(), options.tree.as_ref()?);
    Some(tree::changes(&tree, options.top))
}

impl<'a> RowReport<'a> {
    fn new(row: Row, tables: Sides<&'a Tables>, has_touched: bool) -> Self {
        let Sides { before, after } = tables;
        let stack = row.stack;
        Self {
            change: row.change.code(row.delta()),
            moved: row.moved,
            bucket: row.kind.bucket(),
            before: row.held.before.bytes,
            after: row.held.after.bytes,
            delta: row.delta(),
            before_blocks: row.held.before.blocks,
            after_blocks: row.held.after.blocks,
            before_mean: row.held.before.mean(),
            after_mean: row.held.after.mean(),
            before_highest: row.highest.before,
            after_highest: row.highest.after,
            manner: row.manner(),
            changed_here: has_touched.then_some(row.touched).map(TouchedReport::new),
            frames: frames(after, stack.after.map(|stack| after.stack(stack))),
            forward_frames: frames(after, stack.after.map(|stack| after.forward(stack))),
            before_frames: frames(before, stack.before.map(|stack| before.stack(stack))),
            lines: row.lines.all.iter().map(SummedReport::new).collect(),
            shapes: row.shapes.iter().map(SummedReport::new).collect(),
            label: row.label,
            key: row.key,
        }
    }
}

/// A phase on both sides.
#[derive(Debug, Serialize)]
pub(super) struct PhaseChangeReport<'a> {
    name: &'a str,
    source: &'static str,
    before_occurrence: Option<u32>,
    after_occurrence: Option<u32>,
    #[serde(flatten)]
    peak: ChangeReport,
}

impl<'a> PhaseChangeReport<'a> {
    pub(super) fn new(row: &'a PhaseRow) -> Self {
        Self {
            name: &row.name,
            source: row.source.name(),
            before_occurrence: row.number.before,
            after_occurrence: row.number.after,
            peak: ChangeReport::new(row.peak),
        }
    }
}
