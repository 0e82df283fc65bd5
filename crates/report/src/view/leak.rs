//! Leaks: the examined steps or snapshots, the growth of the totals, and the stacks that leak.

use std::sync::Arc;

use ptmem_base::diagnostic;
use ptmem_base::text::{count, thousands};
use ptmem_base::units::{Delta, Size};
use ptmem_compare::leak::{DeviceLeaks, Leak, LeakMetric, Mode, Search, SeriesPoint};
use ptmem_judge::verdict::{Judged, JudgedSearch, LeakGate, LimitKind, Mark, Verdict};
use ptmem_trace::phase::steps::FoundBy;
use ptmem_trace::profile::others;
use strum::IntoEnumIterator;

use super::device::overhead;
use super::remarks::{checks_of, remarks};
use super::stacks::{RowFrames, frames};
use super::table::rows;
use super::{
    Content, Fact, Group, MOST_LINES, RowOfCells, Section, SourceFile, StepChart, StepLine, Table, Tone, Value, View,
    figure, words,
};
use crate::RenderOptions;

/// Ranks that are shown in full.
const MOST_FINDINGS: usize = 3;

/// Leaks whose call stacks are shown.
const MOST_STACKS: usize = 3;

/// Snapshots of a series that are listed: the first and the last ones.
const MOST_SNAPSHOTS: usize = 12;

/// The model of one or more searches.
pub(crate) fn view(gate: &LeakGate, options: &RenderOptions) -> View {
    let worst = gate.worst_first();
    let has_several = worst.len() > 1;
    let groups = worst.iter().enumerate().map(|(at, finding)| {
        // A pass needs no explanation.
        let is_open = !has_several || finding.judgement.verdict != Verdict::Pass && at < MOST_FINDINGS;
        Group { is_folded: !is_open, ..group(finding, has_several, options) }
    });
    View {
        headline: Some(gate.headline()),
        is_gated: true,
        overview: has_several.then(|| overview(&worst, options)),
        groups: groups.collect(),
        ..View::default()
    }
}

/// The mark of a device.
fn mark(finding: &JudgedSearch, device: &DeviceLeaks) -> Option<Mark> {
    let checks = finding.judgement.checks.iter().filter(|check| check.device == Some(device.device));
    checks.map(Mark::of).max()
}

/// A row for each rank and device, the worst first.
fn overview(findings: &[&JudgedSearch], options: &RenderOptions) -> Table {
    let step = findings.first().map_or("step", |finding| finding.search.mode.noun());
    let per_step = figure(format!("leaks per {step}")).main();
    let heads = [words(""), words(""), figure("device"), per_step, words("what leaks most")];
    let devices =
        findings.iter().flat_map(|finding| finding.search.devices.iter().map(move |device| (finding, device)));
    let devices: Vec<(&&JudgedSearch, &DeviceLeaks)> = devices.collect();
    let rows = rows(
        &devices,
        options,
        |(finding, device)| overview_row(finding, device),
        |_, name| vec![Value::Nothing, name, Value::Nothing, Value::Nothing, Value::Nothing],
    );
    Table::new(heads, rows)
}

fn overview_row(finding: &JudgedSearch, device: &DeviceLeaks) -> RowOfCells {
    let mark = mark(finding, device);
    let leaked = device.unclear.is_none().then(|| device.bytes_per_step());
    let cells = [
        Value::mark(mark),
        Value::words(finding.search.name.clone().unwrap_or_default()),
        device.device.ordinal().map_or(Value::Nothing, Value::number),
        Value::change(leaked),
        device.leaks.first().map_or(Value::Nothing, |leak| Value::code(&*leak.label)),
    ];
    RowOfCells::new(Tone::of_mark(mark), cells)
}

fn group(finding: &JudgedSearch, has_several: bool, options: &RenderOptions) -> Group {
    let JudgedSearch { search, judgement } = finding;
    let sections = search.devices.iter().map(|device| Section {
        name: device.device.to_string(),
        standing: judgement.standing(Some(device.device)),
        growth: device.bytes_per_step(),
        blocks: blocks(search, device, options),
        picture: None,
    });
    Group {
        name: search.name.clone().filter(|_| has_several),
        sources: sources(search),
        sections: sections.collect(),
        remarks: remarks(finding.diagnostics(), search.devices.len() > 1),
        // Each leak is a row of a table.
        checks: checks_of(judgement, |check| check.kind() != LimitKind::Leaks || check.row.is_none()),
        headline: Some(judgement.headline()),
        ..Group::default()
    }
}

/// The steps and what grows over them.
fn course(search: &Search, device: &DeviceLeaks) -> StepChart {
    let noun = device.noun(search.mode);
    let lines = device
        .leaks
        .iter()
        .take(MOST_LINES)
        .map(|leak| StepLine { name: leak.label.clone(), bytes: leak.course.values().into_iter().map(Some).collect() });
    StepChart {
        noun,
        title: format!("allocated at the end of each {noun}"),
        lines_title: "What grows",
        points: Arc::clone(&device.points),
        budget: device.budget,
        skip: device.skip,
        lines: lines.collect(),
    }
}

/// The file of a single snapshot. Those of a series are in the table of the series.
fn sources(search: &Search) -> Vec<SourceFile> {
    let only = search.sources.iter().take(if search.mode == Mode::Steps { 1 } else { 0 });
    only.map(|of| SourceFile { side: None, path: of.path.clone(), amount: Size(of.bytes).to_string() }).collect()
}

fn blocks(search: &Search, device: &DeviceLeaks, options: &RenderOptions) -> Vec<Content> {
    let mut contents = match search.mode {
        Mode::Steps => vec![Content::Facts(vec![steps(device)])],
        Mode::Series => vec![Content::Table(snapshots(device, options))],
    };
    contents.extend(device.unclear.is_none().then(|| Content::Steps(course(search, device))));
    let totals = totals(device, search.mode);
    if !totals.is_empty() {
        contents.push(Content::Facts(totals));
    }
    if device.leaks.is_empty() {
        let sentence =
            if search.says(device, diagnostic::Code::AllocatedGrows) { "no stack leaks" } else { "nothing leaks" };
        contents.extend(device.unclear.is_none().then(|| Content::Sentence(sentence.to_owned())));
    }
    contents.extend(LeakMetric::iter().filter_map(|metric| leaks(search, device, metric, options)).map(Content::Table));
    contents
}

/// The way in which steps were found.
fn steps(device: &DeviceLeaks) -> Fact {
    let total = thousands(device.points.len() as u64);
    let how = match &device.how {
        None => "none".to_owned(),
        Some(FoundBy::Windows) if device.unclear.as_ref().is_some_and(|unclear| unclear.lacks_steps) => {
            "none found".to_owned()
        }
        Some(FoundBy::Named(pattern)) => format!("{total} by {pattern}"),
        Some(FoundBy::Optimizers(calls)) => format!("{total} by {calls}"),
        Some(FoundBy::Recurring(label)) => format!("{total} by a recurring stack: {label}"),
        Some(FoundBy::Called(module)) => format!("{total} by calls of {module}, the outermost module"),
        Some(FoundBy::Windows) => format!("{total} equal parts of the history"),
    };
    let mut lines = vec![vec![how]];
    if device.how.is_some() && device.unclear.is_none() {
        let usable = thousands(device.judged as u64);
        lines.push(vec![format!("{usable} usable ({}blocks of the last are still in use)", warm_up(device))]);
    }
    Fact::of_lines("steps", lines)
}

fn warm_up(device: &DeviceLeaks) -> String {
    match device.skip.min(device.points.len()) {
        0 => String::new(),
        1 => "the first is warm-up, ".to_owned(),
        skip => format!("the first {skip} are warm-up, "),
    }
}

/// The bytes held at the end of each snapshot.
fn snapshots(device: &DeviceLeaks, options: &RenderOptions) -> Table {
    let heads = [figure("allocated"), figure("reserved"), figure("fragmentation"), words("at the end of")];
    let rows = device.points.iter().enumerate().map(|(at, point)| snapshot(point, at < device.skip));
    let mut rows: Vec<RowOfCells> = rows.collect();
    let most = if options.top == Some(0) { usize::MAX } else { MOST_SNAPSHOTS };
    let left = rows.len().saturating_sub(most);
    if left > 0 {
        let half = MOST_SNAPSHOTS / 2;
        let cells = [Value::Nothing, Value::Nothing, Value::Nothing, Value::words(others(left))];
        rows.splice(half..half + left, [RowOfCells::others(left, cells)]);
    }
    Table::new(heads, rows)
}

fn snapshot(point: &SeriesPoint, is_warm_up: bool) -> RowOfCells {
    let remark = if is_warm_up { " (warm-up)" } else { "" };
    let cells = [
        Value::size(point.allocated),
        Value::size(point.reserved),
        Value::size(point.fragmentation),
        Value::code(format!("{}{remark}", point.name)),
    ];
    RowOfCells::new(if is_warm_up { Tone::Faint } else { Tone::Plain }, cells)
}

/// The growth of the totals.
fn totals(device: &DeviceLeaks, mode: Mode) -> Vec<Fact> {
    let noun = device.noun(mode);
    let growth = device.growth;
    let slopes =
        [("allocated", growth.allocated), ("reserved", growth.reserved), ("fragmentation", growth.fragmentation)];
    let known = slopes.into_iter().filter_map(|(name, slope)| Some((name, slope?)));
    // Where nothing grows or shrinks, the sentence below says so.
    let known = known.filter(|_| slopes.iter().any(|(_, slope)| slope.is_some_and(|slope| slope != 0)));
    let mut facts: Vec<Fact> = known.map(|(name, slope)| total(device, name, slope, noun)).collect();
    facts.extend(growth.runs_out_after.map(|left| {
        let full = match left {
            0 => "is full".to_owned(),
            left => format!("full after {}", count(left, &format!("more {noun}"), &format!("more {noun}s"))),
        };
        Fact::new("device memory", full)
    }));
    facts.extend(device.budget.map(|budget| overhead(budget.overhead)));
    facts
}

/// The growth of one total. That of allocated bytes may have other reasons beside what leaks.
fn total(device: &DeviceLeaks, name: &'static str, slope: i128, noun: &str) -> Fact {
    let has_leaks = device.leaks.iter().any(|leak| leak.metric != LeakMetric::Fragmentation);
    let beside = device.growth.beside_leaks.filter(|&beside| name == "allocated" && beside > 0 && has_leaks);
    let rest = beside.map(|beside| format!("{} beside what leaks", Delta(beside)));
    Fact::of_lines(name, vec![[format!("{} per {noun}", Delta(slope))].into_iter().chain(rest).collect()])
}

/// What grows of one metric, the fastest first; `None` if nothing does.
fn leaks(search: &Search, device: &DeviceLeaks, metric: LeakMetric, options: &RenderOptions) -> Option<Table> {
    let leaks: Vec<&Leak> = device.leaks_of(metric).collect();
    let noun = device.noun(search.mode);
    let per_step = format!("per {noun}");
    let listed = &leaks[..options.limit(leaks.len())];
    let has_since = listed.iter().any(|leak| leak.since.is_some());
    let code = search.code();
    let mut with_frames = RowFrames::new(options);
    with_frames.rows = MOST_STACKS;
    let rows = rows(
        &leaks,
        options,
        |&leak| {
            let row = with_frames.placed(row(leak, has_since), &code, leak.stack);
            let Some(stack) = leak.stack else { return row };
            let also = leak.also.iter().map(|label| [Value::words("also"), Value::code(&**label)]);
            with_frames.row(row, || frames((&code, stack)), || also.collect())
        },
        |rest, name| {
            let per_step = Value::Change(rest.iter().map(|leak| leak.bytes_per_step).sum());
            let so_far = Value::Change(rest.iter().map(|leak| leak.bytes).sum());
            let since = has_since.then_some(Value::Nothing);
            [per_step, Value::Nothing, Value::Nothing, so_far].into_iter().chain(since).chain([name]).collect()
        },
    );
    let mut columns = vec![figure(&*per_step), figure("blocks"), figure(format!("{noun}s")), figure("so far")];
    columns.extend(has_since.then(|| words("since")));
    columns.push(words(search.group_by.noun()));
    let total = format!("{} {per_step}", Delta(leaks.iter().map(|leak| leak.bytes_per_step).sum()));
    let table = Table { total, explains: true, ..Table::new(columns, rows) }.titled(metric.title());
    (!leaks.is_empty()).then_some(table)
}

/// The row of a leak, with the snapshot after which it began where any has one.
fn row(leak: &Leak, has_since: bool) -> RowOfCells {
    let mut cells = vec![
        Value::Change(leak.bytes_per_step),
        Value::words(leak.blocks_per_step()),
        Value::tally(leak.grew, leak.judged),
        Value::Change(leak.bytes),
    ];
    cells.extend(has_since.then(|| leak.since.as_deref().map_or(Value::Nothing, |name| Value::words(name.to_owned()))));
    cells.push(Value::stack(&*leak.label, leak.more));
    RowOfCells::new(Tone::Worse, cells)
}
