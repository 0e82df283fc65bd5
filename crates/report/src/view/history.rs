//! The memory of a code base over time.

use super::device::overhead;
use super::remarks::remarks;
use super::{Block, Column, Content, Curve, Fact, Group, Noun, Phrase, Row, Section, Source, Table, Timeline};
use super::{Chart, StepLine, Steps, Tone, Value, View};
use crate::Options;
use crate::history::{Commit, DeviceHistory, Figures, History, Outlook, Step};
use crate::leak::Point;
use crate::profile::others;
use crate::tracks::StackTrack;
use crate::units::{Delta, Size};
use crate::verdict::Standing;

/// Profiles that are listed: the latest ones.
const MOST_POINTS: usize = 20;

/// The model of a series of profiles.
pub(crate) fn view(history: &History, options: &Options) -> View {
    let sections = history.devices.iter().map(|device| section(history, device, options)).collect();
    let diagnostics = history.diagnostics.iter().map(|diagnostic| (None, diagnostic));
    let group = Group {
        sources: sources(history),
        facts: skipped(history),
        sections,
        remarks: remarks(diagnostics, history.devices.len() > 1),
        ..Group::default()
    };
    View { groups: vec![group], ..View::default() }
}

fn sources(history: &History) -> Vec<Source> {
    let (Some(first), Some(last)) = (history.points.first(), history.points.last()) else { return Vec::new() };
    let path = if first == last { first.name.clone() } else { format!("{} to {}", first.name, last.name) };
    let amount = Phrase::count(history.points.len() as u64, "profile", "profiles");
    vec![Source { side: None, path, amount }]
}

/// Files that could not be read.
fn skipped(history: &History) -> Vec<Fact> {
    let lines = history.skipped.iter().map(|(path, reason)| vec![Phrase::from(format!("{path}: {reason}"))]);
    let lines: Vec<Vec<Phrase>> = lines.collect();
    if lines.is_empty() { Vec::new() } else { vec![Fact::of_lines("left out", lines)] }
}

fn section(history: &History, device: &DeviceHistory, options: &Options) -> Section {
    let mut contents = vec![Content::Facts(facts(history, device))];
    let peaks: Vec<u64> = device.figures.iter().flatten().filter_map(|figures| figures.peak).collect();
    if let Some(&top) = peaks.iter().max().filter(|_| peaks.len() > 1) {
        let caption = Phrase::from("allocated peak of each profile, at most ").and(Value::Size(top));
        let curves = vec![Curve { side: None, points: peaks, peak: top, marks: None }];
        contents.push(Content::Timeline(Timeline { curves, top, caption: Some(caption) }));
    }
    if device.steps.is_empty() {
        contents.push(Content::Sentence("the peak has no step".to_owned()));
    } else {
        contents.push(Content::Table(steps(history, device)));
    }
    contents.push(Content::Table(points(history, device)));
    contents.push(Content::Table(stacks(history, device, options)));
    Section {
        name: format!("device {}", device.device),
        standing: Standing::Ok,
        growth: 0,
        picture: None,
        chart: Some(Chart::Steps(pictures(history, device))),
        blocks: contents.into_iter().map(Block::open).collect(),
    }
}

/// The peaks and the largest stacks over time.
fn pictures(history: &History, device: &DeviceHistory) -> Steps {
    let points = history.points.iter().zip(&device.figures).map(|(point, figures)| Point {
        name: point.name.clone(),
        allocated: figures.and_then(|figures| figures.peak),
        reserved: figures.and_then(|figures| figures.reserved),
        fragmentation: None,
        active_peak: None,
    });
    let lines = device.stacks.iter().map(|stack| StepLine {
        label: stack.label.clone(),
        bytes: stack.held.iter().map(|held| held.bytes).collect(),
    });
    Steps {
        noun: "profile",
        title: "Allocated peak of each profile".to_owned(),
        points: points.collect(),
        budget: device.budget,
        skip: 0,
        lines_title: "Largest stacks",
        lines: lines.collect(),
    }
}

fn facts(history: &History, device: &DeviceHistory) -> Vec<Fact> {
    let known: Vec<&Figures> = device.figures.iter().flatten().collect();
    let mut facts = Vec::new();
    if let (Some(first), Some(last)) = (known.first(), known.last()) {
        let change = last.peak.zip(first.peak).map(|(last, first)| i128::from(last) - i128::from(first));
        let peak = Phrase::from(Value::size(first.peak)).and(" -> ").and(Value::size(last.peak));
        facts.push(Fact::of_lines("peak", vec![vec![peak, Phrase::from(Value::change(change))]]));
        let reserved = Phrase::from(Value::size(first.reserved)).and(" -> ").and(Value::size(last.reserved));
        facts.push(Fact::new("reserved", reserved));
    }
    if let Some(outlook) = &device.outlook {
        let words = if outlook.grows { " per profile, steadily" } else { " per profile" };
        let pace = Phrase::from(Value::Change(outlook.per_point)).and(words);
        facts.push(Fact::new("trend", pace));
        if let Some(budget) = device.budget {
            facts.push(Fact::new("device memory", full(outlook, budget.memory)));
            facts.push(overhead(budget.overhead));
        }
    }
    let missing = device.figures.iter().filter(|figures| figures.is_none()).count();
    if missing > 0 {
        let total = history.points.len() as u64;
        facts.push(Fact::new(
            "missing",
            Phrase::from("not in ").and(Value::Tally { part: missing as u64, whole: total }).and(" profiles"),
        ));
    }
    facts
}

/// When the device is full.
fn full(outlook: &Outlook, memory: u64) -> Phrase {
    const SECONDS_A_DAY: u64 = 86_400;
    let left = match outlook.headroom {
        Some(0) => return Phrase::from(format!("{} is full", Size(memory))),
        left => Phrase::from(Value::size(left)).and(format!(" of {} left", Size(memory))),
    };
    match (outlook.full_after, outlook.full_after_seconds) {
        (None, _) => left.and(", no steady growth"),
        (Some(more), days) => {
            let full = left.and(", full after ").and(Value::Count(more)).and(" more profiles");
            match days {
                Some(seconds) => full.and(" (about ").and(Value::Count(seconds.div_ceil(SECONDS_A_DAY))).and(" days)"),
                None => full,
            }
        }
    }
}

/// The name of a profile, with the message of its commit.
fn name(history: &History, at: usize) -> String {
    let point = &history.points[at];
    match &point.commit {
        Some(Commit { subject, .. }) => format!("{} {subject}", point.name),
        None => point.name.clone(),
    }
}

/// The steps of the peak, with the stacks that made them.
fn steps(history: &History, device: &DeviceHistory) -> Table {
    let columns = vec![
        Column::figure("change").main(),
        Column::figure("peak"),
        Column::words("since"),
        Column::words("largest changes"),
    ];
    Table {
        title: Some("steps of the peak".to_owned()),
        columns,
        rows: device.steps.iter().map(|step| step_row(history, step)).collect(),
        noun: Noun { one: "step", many: "steps" },
        ..Table::default()
    }
}

fn step_row(history: &History, step: &Step) -> Row {
    let changes = step.stacks.iter().map(|(label, change)| format!("{} {label}", Delta(*change)));
    let cells = [
        Value::Change(step.change()),
        Value::Size(step.after),
        Value::code(name(history, step.at)),
        Value::code(changes.collect::<Vec<String>>().join("; ")),
    ];
    Row::new(Tone::of_change(step.change()), cells)
}

/// The latest profiles.
fn points(history: &History, device: &DeviceHistory) -> Table {
    let columns = vec![
        Column::figure("peak"),
        Column::figure("change").main(),
        Column::figure("reserved").spare(),
        Column::figure("end").spare(),
        Column::words("profile"),
    ];
    let first = history.points.len().saturating_sub(MOST_POINTS);
    Table {
        title: Some("profiles".to_owned()),
        columns,
        rows: (first..history.points.len()).map(|at| point_row(history, device, at)).collect(),
        noun: Noun { one: "profile", many: "profiles" },
        below: (first > 0).then(|| format!("{first} earlier profiles are not listed; the CSV format lists all")),
        ..Table::default()
    }
}

fn point_row(history: &History, device: &DeviceHistory, at: usize) -> Row {
    let now = device.figures[at];
    let peak = now.and_then(|figures| figures.peak);
    let before = device.figures[..at].iter().rev().flatten().find_map(|figures| figures.peak);
    let change = peak.zip(before).map(|(peak, before)| i128::from(peak) - i128::from(before));
    let cells = [
        Value::size(peak),
        change.map_or(Value::Nothing, Value::Change),
        Value::size(now.and_then(|figures| figures.reserved)),
        Value::size(now.map(|figures| figures.end)),
        Value::code(name(history, at)),
    ];
    Row::new(change.map_or(Tone::Plain, Tone::of_change), cells)
}

/// The largest stacks of the latest profile, over time.
fn stacks(history: &History, device: &DeviceHistory, options: &Options) -> Table {
    let points = history.points.len();
    let (listed, rest) = device.stacks.split_at(options.limit(device.stacks.len()));
    let mut rows: Vec<Row> = Vec::with_capacity(listed.len() + 1);
    for stack in listed {
        let bytes: Vec<u64> = (0..points).map(|at| stack.bytes(at)).collect();
        rows.push(stack_row(Value::code(&*stack.label), &bytes));
    }
    if !rest.is_empty() {
        let others = stack_row(Value::words(others(rest.len())), &StackTrack::sums(rest, points));
        rows.push(Row { others: Some(rest.len()), tone: Tone::Faint, ..others });
    }
    Table {
        title: Some("largest stacks at the peak".to_owned()),
        columns: vec![
            Column::figure("first"),
            Column::figure("highest").spare(),
            Column::figure("latest"),
            Column::figure("change").main(),
            Column::words(history.group_by.noun()),
        ],
        rows,
        noun: Noun::STACK,
        ..Table::default()
    }
}

/// A row of stacks that held these bytes in each of the profiles.
fn stack_row(label: Value, bytes: &[u64]) -> Row {
    let first = bytes.first().copied().unwrap_or(0);
    let highest = bytes.iter().copied().max().unwrap_or(0);
    let now = bytes.last().copied().unwrap_or(0);
    let change = i128::from(now) - i128::from(first);
    let cells = [Value::Size(first), Value::Size(highest), Value::Size(now), Value::Change(change), label];
    Row::new(Tone::of_change(change), cells)
}
