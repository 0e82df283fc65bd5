//! Leaks: the steps or snapshots that were looked at, the growth of the totals, and the stacks that leak.

use super::device::overhead;
use super::remarks::remarks;
use super::{
    Block, CallStack, CallStacks, Chart, Checks, Column, Content, Curve, Fact, Group, Mark, Noun, Overview, Phrase,
    Row, Section, Site, Source, StepLine, Steps, Table, Timeline, Tone, Value, View, Visibility,
};
use crate::Options;
use crate::leak::{DeviceLeaks, Leak, Mode, Point, Search};
use crate::phase::steps::How;
use crate::profile::others;
use crate::stack::Code;
use crate::tree;
use crate::verdict::{Finding, LeakGate, Verdict};

/// Ranks that are shown in full.
const MOST_FINDINGS: usize = 3;

/// Leaks whose call stacks are shown.
const MOST_STACKS: usize = 3;

/// Snapshots of a series that are listed: the first and the last ones.
const MOST_SNAPSHOTS: usize = 12;

/// The model of one or more searches.
pub(super) fn view(gate: &LeakGate, options: &Options) -> View {
    let worst = gate.worst_first();
    let has_several = worst.len() > 1;
    let groups = worst.iter().enumerate().map(|(at, finding)| {
        // A pass needs no explanation.
        let is_open = !has_several || finding.judgement.verdict != Verdict::Pass && at < MOST_FINDINGS;
        let visibility = if is_open { Visibility::Open } else { Visibility::Folded };
        Group { visibility, ..group(finding, has_several, options) }
    });
    View {
        headline: Some(gate.headline()),
        is_gated: true,
        overview: has_several.then(|| Overview { table: overview(&worst, options), is_in_groups: false }),
        groups: groups.collect(),
        ..View::default()
    }
}

/// The mark of a device.
fn mark(finding: &Finding, device: &DeviceLeaks) -> Option<Mark> {
    let checks = finding.judgement.checks.iter().filter(|check| check.device == Some(device.device));
    checks.map(Mark::of).max()
}

/// A row for each rank and device, the worst first.
fn overview(findings: &[&Finding], options: &Options) -> Table {
    let step = findings.first().map_or("step", |finding| finding.search.mode.nouns().one);
    let columns = vec![
        Column::words(""),
        Column::words(""),
        Column::figure("device"),
        Column::figure(format!("leaks per {step}")).main(),
        Column::words("what leaks most"),
    ];
    let devices =
        findings.iter().flat_map(|finding| finding.search.devices.iter().map(move |device| (finding, device)));
    let mut rows: Vec<Row> = devices.map(|(finding, device)| overview_row(finding, device)).collect();
    let rest = rows.split_off(options.limit(rows.len())).len();
    if rest > 0 {
        let cells = [Value::Nothing, Value::words(others(rest)), Value::Nothing, Value::Nothing, Value::Nothing];
        rows.push(Row { others: Some(rest), ..Row::new(Tone::Faint, cells) });
    }
    Table { columns, rows, ..Table::default() }
}

fn overview_row(finding: &Finding, device: &DeviceLeaks) -> Row {
    let mark = mark(finding, device);
    let leaked = device.unclear.is_none().then(|| device.bytes_per_step());
    let cells = [
        Value::mark(mark),
        Value::words(finding.search.name.clone().unwrap_or_default()),
        Value::Number(u64::from(device.device)),
        Value::change(leaked),
        device.leaks.first().map_or(Value::Nothing, |leak| Value::code(&*leak.label)),
    ];
    Row::new(Tone::of_mark(mark), cells)
}

fn group(finding: &Finding, has_several: bool, options: &Options) -> Group {
    let Finding { search, judgement } = finding;
    let sections = search.devices.iter().map(|device| Section {
        name: format!("device {}", device.device),
        standing: judgement.standing(Some(device.device)),
        growth: device.bytes_per_step(),
        blocks: blocks(search, device, options),
        picture: None,
        chart: (options.pictures && device.unclear.is_none()).then(|| Chart::Steps(step_pictures(search, device))),
    });
    let diagnostics = search.diagnostics.iter().chain(&judgement.diagnostics);
    Group {
        name: search.name.clone().filter(|_| has_several),
        sources: sources(search),
        sections: sections.collect(),
        remarks: remarks(diagnostics.map(|diagnostic| (None, diagnostic)), search.devices.len() > 1),
        checks: Checks::new(judgement, false),
        headline: Some(judgement.headline()),
        ..Group::default()
    }
}

/// The steps and what grows over them.
fn step_pictures(search: &Search, device: &DeviceLeaks) -> Steps {
    let noun = device.nouns(search.mode).one;
    Steps {
        noun,
        title: format!("Allocated at the end of each {noun}"),
        lines_title: "What grows",
        points: device.points.clone(),
        budget: device.budget,
        skip: device.skip,
        lines: device.leaks.iter().map(StepLine::from).collect(),
    }
}

impl From<&Leak> for StepLine {
    fn from(leak: &Leak) -> Self {
        Self { label: leak.label.clone(), bytes: leak.course.clone() }
    }
}

/// The file of a single snapshot. Those of a series stand in the table of the series.
fn sources(search: &Search) -> Vec<Source> {
    match search.mode {
        Mode::Series => Vec::new(),
        Mode::Steps => {
            let only = search.sources.iter().take(1);
            only.map(|of| Source { side: None, path: of.path.clone(), amount: Value::Size(of.bytes).into() }).collect()
        }
    }
}

fn blocks(search: &Search, device: &DeviceLeaks, options: &Options) -> Vec<Block> {
    let mut contents = match search.mode {
        Mode::Steps => steps(device),
        Mode::Series => vec![Content::Table(snapshots(device))],
    };
    let totals = totals(device, search.mode);
    if !totals.is_empty() {
        contents.push(Content::Facts(totals));
    }
    if device.leaks.is_empty() {
        let sentence = if search.grows_unexplained(device) { "no stack leaks" } else { "nothing leaks" };
        contents.extend(device.unclear.is_none().then(|| Content::Sentence(sentence.to_owned())));
    } else {
        contents.push(Content::Table(leaks(search, device, options)));
        let stacks = call_stacks(search, device, options);
        if !stacks.is_empty() {
            contents.push(Content::CallStacks(CallStacks { title: "Call stacks", stacks, more: 0 }));
        }
    }
    contents.into_iter().map(Block::open).collect()
}

/// The way in which steps were found, and the bytes held at the end of each.
fn steps(device: &DeviceLeaks) -> Vec<Content> {
    let total = Value::Count(device.points.len() as u64);
    let how = match &device.how {
        None => Phrase::from("none"),
        Some(How::Named(pattern)) => Phrase::from(total).and(format!(" by {pattern}")),
        Some(How::Recurring(label)) => Phrase::from(total).and(format!(" by a recurring stack: {label}")),
        Some(How::Windows) => Phrase::from(total).and(" equal parts of the history"),
    };
    let mut lines = vec![vec![how]];
    if device.how.is_some() && device.unclear.is_none() {
        let usable = Phrase::from(Value::Count(device.judged as u64));
        lines.push(vec![usable.and(format!(" usable ({}the last still in use)", warm_up(device)))]);
    }
    let mut contents = vec![Content::Facts(vec![Fact::of_lines("steps", lines)])];
    let points: Vec<u64> = device.points.iter().filter_map(|point| point.allocated).collect();
    if let Some(&peak) = points.iter().max().filter(|_| points.len() > 1 && device.unclear.is_none()) {
        let caption = Phrase::from("allocated at the end of each step, at most ").and(Value::Size(peak));
        let curves = vec![Curve { side: None, points, peak, marks: None }];
        contents.push(Content::Timeline(Timeline { curves, top: peak, caption: Some(caption) }));
    }
    contents
}

fn warm_up(device: &DeviceLeaks) -> String {
    match device.skip.min(device.points.len()) {
        0 => String::new(),
        1 => "the first is warm-up, ".to_owned(),
        skip => format!("the first {skip} are warm-up, "),
    }
}

/// The bytes held at the end of each snapshot.
fn snapshots(device: &DeviceLeaks) -> Table {
    let columns = vec![
        Column::figure("allocated"),
        Column::figure("reserved"),
        Column::figure("fragmentation"),
        Column::words("at the end of"),
    ];
    let rows = device.points.iter().enumerate().map(|(at, point)| snapshot(point, at < device.skip));
    let mut rows: Vec<Row> = rows.collect();
    let left = rows.len().saturating_sub(MOST_SNAPSHOTS);
    if left > 0 {
        let half = MOST_SNAPSHOTS / 2;
        let cells = [Value::Nothing, Value::Nothing, Value::Nothing, Value::words(others(left))];
        let rest = Row { others: Some(left), ..Row::new(Tone::Faint, cells) };
        rows.splice(half..half + left, [rest]);
    }
    Table { columns, rows, ..Table::default() }
}

fn snapshot(point: &Point, is_warm_up: bool) -> Row {
    let remark = if is_warm_up { " (warm-up)" } else { "" };
    let cells = [
        Value::size(point.allocated),
        Value::size(point.reserved),
        Value::size(point.fragmentation),
        Value::code(format!("{}{remark}", point.name)),
    ];
    Row::new(if is_warm_up { Tone::Faint } else { Tone::Plain }, cells)
}

/// The growth of the totals.
fn totals(device: &DeviceLeaks, mode: Mode) -> Vec<Fact> {
    let noun = device.nouns(mode);
    let growth = device.growth;
    let slopes =
        [("allocated", growth.allocated), ("reserved", growth.reserved), ("fragmentation", growth.fragmentation)];
    let known = slopes.into_iter().filter_map(|(name, slope)| Some((name, slope?)));
    let mut facts: Vec<Fact> = known
        .map(|(name, slope)| Fact::new(name, Phrase::from(Value::Change(slope)).and(format!(" per {}", noun.one))))
        .collect();
    facts.extend(growth.runs_out_after.map(|left| {
        let full = match left {
            0 => Phrase::from("is full"),
            1 => Phrase::from("full after 1 more ").and(noun.one),
            left => Phrase::from("full after ").and(Value::Count(left)).and(format!(" more {}", noun.many)),
        };
        Fact::new("device memory", full)
    }));
    facts.extend(device.budget.map(|budget| overhead(budget.overhead)));
    facts
}

/// The stacks that leak, the fastest first.
fn leaks(search: &Search, device: &DeviceLeaks, options: &Options) -> Table {
    let noun = device.nouns(search.mode);
    let per_step = format!("per {}", noun.one);
    let (listed, rest) = device.leaks.split_at(options.limit(device.leaks.len()));
    let code = search.code();
    let has_since = listed.iter().any(|leak| leak.since.is_some());
    let mut rows: Vec<Row> = listed.iter().map(|of| leak(of, &code, has_since, options)).collect();
    if !rest.is_empty() {
        let mut cells = vec![
            Value::Change(rest.iter().map(|leak| leak.bytes_per_step).sum()),
            Value::Nothing,
            Value::Nothing,
            Value::Change(rest.iter().map(|leak| leak.bytes).sum()),
        ];
        cells.extend(has_since.then_some(Value::Nothing));
        cells.push(Value::words(others(rest.len())));
        rows.push(Row { others: Some(rest.len()), ..Row::new(Tone::Faint, cells) });
    }
    let mut columns = vec![
        Column::figure(per_step.clone()),
        Column::figure("blocks"),
        Column::figure(noun.many),
        Column::figure("so far"),
    ];
    columns.extend(has_since.then(|| Column::words("since")));
    columns.push(Column::words(search.group_by.noun()));
    Table {
        title: Some("what leaks".to_owned()),
        total: vec![Phrase::from(Value::Change(device.bytes_per_step())).and(format!(" {per_step}"))],
        columns,
        rows,
        noun: Noun::LEAK,
        ..Table::default()
    }
}

/// The row of a leak, with the snapshot after which it began where any has one.
fn leak(leak: &Leak, code: &Code<'_>, has_since: bool, options: &Options) -> Row {
    let mut cells = vec![
        Value::Change(leak.bytes_per_step),
        leak.blocks_per_step().into(),
        Value::Tally { part: leak.grew as u64, whole: leak.judged as u64 },
        Value::Change(leak.bytes),
    ];
    cells.extend(has_since.then(|| leak.since.as_deref().map_or(Value::Nothing, |name| Value::words(name.to_owned()))));
    cells.push(Value::stack(&*leak.label, leak.more));
    let site = leak.stack.and_then(|stack| Site::new(code, stack, options));
    Row { site, shows_source: options.source, ..Row::new(Tone::Worse, cells) }
}

fn call_stacks(search: &Search, device: &DeviceLeaks, options: &Options) -> Vec<CallStack> {
    let code = search.code();
    let shown = device.leaks.iter().take(options.limit(MOST_STACKS));
    let known = shown.filter_map(|leak| Some((leak, leak.stack?)));
    known
        .map(|(leak, stack)| CallStack {
            amount: Value::Change(leak.bytes_per_step),
            label: leak.label.clone(),
            also: leak.also.clone(),
            lines: Vec::new(),
            frames: tree::frames(&code, stack),
            site: Site::new(&code, stack, options),
        })
        .collect()
}
