//! `ptmem.diff/2`: one comparison.

use std::collections::BTreeMap;

use ptmem_compare::diff::cause::{Cause, EditShare};
use ptmem_compare::diff::{Apart, CategoryChange, ComparedPlaces, DeviceDiff, Diff, PhaseRow, Row, RowLine};
use ptmem_compare::patch::Edit;
use ptmem_compare::tree::{self, TreeLayout, of_diff};
use ptmem_judge::verdict::{Comparison, Judged};

use super::shared::{
    ChangeReport, CheckReport, JsonFrames, Metrics, PoolReport, SidedDiagnostic, SourceReport, Tool, TreeLines,
};
use crate::RenderOptions;
use crate::view::pools::{PoolChange, paired};
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of one comparison.
    pub(super) DiffReport<'a>(comparison: &'a Comparison, has_stacks: bool, options: &'a RenderOptions) {
        schema: "ptmem.diff/2",
        tool: Tool(),
        name?: comparison.name,
        verdict: comparison.judgement.verdict.name(),
        exit_code: comparison.judgement.verdict.exit_code(),
        before: SourceReport(&comparison.diff.profiles.before),
        after: SourceReport(&comparison.diff.profiles.after),
        group_by: comparison.diff.profiles.after.options.group_by.to_string(),
        at: comparison.diff.profiles.after.options.at.to_string(),
        devices: list(comparison.diff.devices.iter().map(|of| DeviceReport(of, comparison, has_stacks, options))),
        checks: list(comparison.judgement.checks.iter().map(CheckReport)),
        diagnostics: list(comparison.diagnostics().into_iter().map(|(side, found)| SidedDiagnostic(side, found))),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceDiff, comparison: &'a Comparison, has_stacks: bool, options: &'a RenderOptions) {
        before_device: device.device.before,
        after_device: device.device.after,
        rank: comparison.member.as_ref().and_then(|member| member.rank).map(|rank| rank.number),
        places: device.places.as_ref().map(PlacesReport),
        metrics: Metrics(device, &comparison.diff.profiles),
        categories: list(device.categories.iter().map(CategoryReport)),
        private_pools?: pools(device, comparison).map(|pools| list(pools.into_iter().map(PoolChangeReport))),
        // The edits of the change that the growth leads to which decides, otherwise that at the peak; only with --git.
        cause?: comparison.judgement.cause_of(device).map(CauseReport),
        stacks: list(rows(device, comparison, has_stacks, options).iter().map(|row| RowReport(row, comparison, device))),
        phases?: options.shows_phases(comparison).then(|| list(device.phases.iter().map(PhaseChangeReport))),
        tree?: options.tree.as_ref().filter(|_| has_stacks).map(|tree| lines(device, &comparison.diff, tree, options.top())),
    }
}

fn pools<'a>(device: &'a DeviceDiff, comparison: &'a Comparison) -> Option<Vec<PoolChange<'a>>> {
    Some(paired(comparison.diff.sides_of(device))).filter(|pools| !pools.is_empty())
}

object! {
    /// The private pools of one name on both sides; null where a side has none.
    PoolChangeReport<'a>(pool: PoolChange<'a>) {
        name: pool.0,
        before: pool.1.before.map(PoolReport),
        after: pool.1.after.map(PoolReport),
    }
}

fn rows(device: &DeviceDiff, comparison: &Comparison, has_stacks: bool, options: &RenderOptions) -> Vec<Row> {
    if !has_stacks {
        return Vec::new();
    }
    options.listed(comparison, device)
}

fn lines(device: &DeviceDiff, diff: &Diff, tree: &tree::TreeOptions, top: usize) -> TreeLines {
    let layout = TreeLayout { top, least: 1, changes: true, fold: false };
    TreeLines { tree: of_diff(device, diff.profiles.after.options.group_by, &diff.codes(), tree), layout }
}

object! {
    /// The shares of edits in the growth of all rows; with `no_edit` they add up to `grown`.
    CauseReport<'a>(cause: &'a Cause) {
        place: cause.place,
        lead: cause.lead(),
        grown: cause.grown,
        no_edit: cause.no_edit,
        // The part of `no_edit` whose stacks have no Python frames, as in the backward pass.
        without_python: cause.without_python,
        shrunk: cause.shrunk,
        before_peak_elsewhere: cause.elsewhere,
        edits: list(cause.shares.iter().map(|share| EditReport(&cause.edits[share.edit], cause, Some(share)))),
        // Edits that can matter, and that no growth leads to.
        others: list(cause.others().map(|edit| EditReport(edit, cause, None))),
    }
}

object! {
    /// An edit: a line that was added or removed, or a package of another version.
    EditReport<'a>(edit: &'a Edit, cause: &'a Cause, share: Option<&'a EditShare>) {
        // Whether the report names it first.
        leads: cause.leading().is_some_and(|lead| std::ptr::eq(&raw const cause.edits[lead.edit], edit)),
        kind: edit.kind.name(),
        path: edit.shown().map(|(_, path, _, _)| path).or(edit.whole_file()),
        line: edit.shown().map(|(_, _, line, _)| line),
        added: edit.line.after.as_ref().map(|(_, text)| text),
        removed: edit.line.before.as_ref().map(|(_, text)| text),
        scope: edit.scope,
        package: edit.package().map(|(name, _)| name),
        before_version: edit.package().map(|(_, versions)| &versions.before),
        after_version: edit.package().map(|(_, versions)| &versions.after),
        bytes?: share.map(|share| share.bytes),
        how?: share.map(|share| share.ways.iter().map(|(how, bytes)| (how.name(), *bytes)).collect::<BTreeMap<_, _>>()),
        growth?: share.map(|share| share.row.1.to_string()),
        largest?: share.map(|share| &share.row.0),
    }
}

object! {
    /// The places that are compared.
    PlacesReport<'a>(places: &'a ComparedPlaces) {
        before: places.at.before,
        after: places.at.after,
        before_peak: places.before_peak,
        reason: places.reason.map(Apart::code),
    }
}

object! {
    /// The memory of one category at the moment that is compared.
    CategoryReport<'a>(change: &'a CategoryChange) {
        name: change.name,
        before: change.held.before,
        after: change.held.after,
        delta: change.held.delta(),
    }
}

object! {
    RowReport<'a>(row: &'a Row, comparison: &'a Comparison, device: &'a DeviceDiff) {
        change: row.change.code(row.delta()),
        moved: row.moved,
        label: row.label,
        key: row.key,
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
        lines: list(row.lines.all.iter().map(SummedReport)),
        // Types and shapes of the tensors that the row consists of.
        shapes?: (!row.shapes.is_empty()).then(|| list(row.shapes.iter().map(SummedReport))),
        frames: JsonFrames::of(&comparison.diff.profiles.after.tables, row.stack_now()),
        forward_frames: JsonFrames::forward(&comparison.diff.profiles.after.tables, row.stack_now()),
        before_frames: JsonFrames::of(&comparison.diff.profiles.before.tables, row.explained_by.before),
    }
}

object! {
    /// One of the lines of code that a row sums, with its operator.
    SummedReport<'a>(line: &'a RowLine) {
        label: line.label,
        before: line.held.before.bytes,
        after: line.held.after.bytes,
        delta: line.held.delta(),
        before_blocks: line.held.before.blocks,
        after_blocks: line.held.after.blocks,
    }
}

object! {
    /// A phase on both sides.
    PhaseChangeReport<'a>(row: &'a PhaseRow) {
        name: &*row.name,
        source: row.source.name(),
        before_occurrence: row.number.before,
        after_occurrence: row.number.after,
        ..ChangeReport(row.peak),
        reserved: ChangeReport(row.reserved),
    }
}
