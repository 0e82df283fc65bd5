//! The memory of a code base over time.

use ptmem::leak::SeriesPoint;
use ptmem::report::RenderOptions;
use ptmem::report::view::{
    Content, Fact, Group, MOST_LINES, RowOfCells, Section, SourceFile, StepChart, StepLine, Table, Tone, Value, View,
    figure, known_size, overhead, remarks, rows, words,
};
use ptmem::tracks::StackTrack;
use ptmem::units::{Delta, Size};
use ptmem_base::text::{count, thousands};

use super::course::{CoursePeak, DeviceHistory, FileCommit, History, PointFigures};

/// Profiles that are listed: the latest ones.
const MOST_POINTS: usize = 20;

/// The model of a series of profiles.
pub(super) fn view(history: &History, options: &RenderOptions) -> View {
    let sections = history.devices.iter().map(|device| section(history, device, options)).collect();
    let diagnostics = history.diagnostics.iter().map(|diagnostic| (None, diagnostic));
    let mut group = Group::about(sources(history));
    group.facts = skipped(history);
    group.sections = sections;
    group.remarks = remarks(diagnostics, history.devices.len() > 1);
    View::of_groups(vec![group])
}

fn sources(history: &History) -> Vec<SourceFile> {
    let (Some(first), Some(last)) = (history.points.first(), history.points.last()) else { return Vec::new() };
    let path = if first == last { first.name.clone() } else { format!("{} to {}", first.name, last.name) };
    vec![SourceFile { side: None, path, amount: count(history.points.len() as u64, "profile", "profiles") }]
}

/// Files that could not be read.
fn skipped(history: &History) -> Vec<Fact> {
    let lines = history.skipped.iter().map(|(path, reason)| vec![format!("{path}: {reason}")]);
    let fact = Fact::of_lines("left out", lines.collect());
    if history.skipped.is_empty() { Vec::new() } else { vec![fact] }
}

fn section(history: &History, device: &DeviceHistory, options: &RenderOptions) -> Section {
    let steps = if device.steps.is_empty() {
        let is_trend = device.outlook.is_some_and(|outlook| outlook.grows);
        let from = if is_trend { " from the trend" } else { "" };
        Content::Sentence(format!("no single change of the peak stands out{from}"))
    } else {
        Content::Table(steps(history, device))
    };
    let mut blocks = vec![
        Content::Facts(facts(history, device)),
        Content::Steps(course(history, device)),
        steps,
        Content::Table(points(history, device, options)),
    ];
    if !device.stacks.is_empty() {
        blocks.push(Content::Table(stacks(history, device, options)));
    }
    Section::new(device.device.to_string(), blocks)
}

/// The peaks and the largest stacks over time.
fn course(history: &History, device: &DeviceHistory) -> StepChart {
    let points = history.points.iter().zip(&device.figures).map(|(point, figures)| SeriesPoint {
        name: point.name.as_str().into(),
        allocated: figures.and_then(|figures| figures.peak),
        reserved: figures.and_then(|figures| figures.reserved),
        fragmentation: None,
        active_peak: None,
    });
    let lines = device.stacks.iter().take(MOST_LINES).map(|stack| {
        let held = stack.in_each().zip(&device.has_stacks).map(|(held, known)| known.then_some(held.bytes));
        StepLine { name: stack.label.clone(), bytes: held.collect() }
    });
    StepChart {
        noun: "profile",
        title: "allocated peak of each profile".to_owned(),
        points: points.collect(),
        budget: device.budget,
        skip: 0,
        lines_title: "Largest stacks",
        lines: lines.collect(),
    }
}

fn facts(history: &History, device: &DeviceHistory) -> Vec<Fact> {
    let known: Vec<&PointFigures> = device.figures.iter().flatten().collect();
    let mut facts = Vec::new();
    if let (Some(first), Some(last)) = (known.first(), known.last()) {
        let change = last.peak.zip(first.peak).map(|(last, first)| i128::from(last) - i128::from(first));
        let peak = format!("{} -> {}", known_size(first.peak), known_size(last.peak));
        facts.push(Fact::of_lines("peak", vec![vec![peak, Value::change(change).to_string()]]));
        let reserved = format!("{} -> {}", known_size(first.reserved), known_size(last.reserved));
        facts.push(Fact::new("reserved", reserved));
    }
    if let Some(outlook) = &device.outlook {
        let steadily = if outlook.grows { ", steadily" } else { "" };
        facts.push(Fact::new("trend", format!("{} per profile{steadily}", Delta(outlook.per_profile))));
    }
    if let Some(budget) = device.budget {
        facts.push(Fact::new("device memory", left(device, budget.memory)));
        facts.push(overhead(budget.overhead));
    }
    let missing = device.figures.iter().filter(|figures| figures.is_none()).count();
    if missing > 0 {
        facts.push(Fact::new("missing", format!("not in {missing}/{} profiles", history.points.len())));
    }
    facts
}

/// How much of the device is left, and when it is full.
fn left(device: &DeviceHistory, memory: u64) -> String {
    const SECONDS_A_DAY: u64 = 86_400;
    let memory = Size(memory);
    if device.headroom == Some(0) {
        return format!("{memory} is full");
    }
    let left = format!("{} of {memory} left", known_size(device.headroom));
    let Some(outlook) = device.outlook else { return left };
    let Some(more) = outlook.full_after else { return left + ", no steady growth" };
    let days = outlook.full_after_seconds.map(|seconds| thousands(seconds.div_ceil(SECONDS_A_DAY)));
    let days = days.map(|days| format!(" (about {days} days)")).unwrap_or_default();
    format!("{left}, full after {} more profiles{days}", thousands(more))
}

/// The name of a profile, with the message of its commit.
fn name(history: &History, at: usize) -> String {
    let point = &history.points[at];
    match &point.commit {
        Some(FileCommit { subject, .. }) => format!("{} {subject}", point.name),
        None => point.name.clone(),
    }
}

/// The steps of the peak, with the stacks that made them.
fn steps(history: &History, device: &DeviceHistory) -> Table {
    let heads = [figure("change").main(), figure("peak"), words("since"), words("largest changes")];
    Table::new(heads, device.steps.iter().map(|step| step_row(history, step))).titled("changes of the peak")
}

fn step_row(history: &History, step: &CoursePeak) -> RowOfCells {
    let changes = step.stacks.iter().map(|stack| format!("{} {}{}", Delta(stack.change), stack.label, stack.more));
    let cells = [
        Value::Change(step.change()),
        Value::Size(step.after),
        Value::code(name(history, step.at)),
        Value::code(changes.collect::<Vec<String>>().join("; ")),
    ];
    RowOfCells::new(Tone::of_change(step.change()), cells)
}

/// The latest profiles.
fn points(history: &History, device: &DeviceHistory, options: &RenderOptions) -> Table {
    let [reserved, end] = ["reserved", "end"].map(|head| figure(head).spare());
    let heads = [figure("peak"), figure("change").main(), reserved, end, words("profile")];
    let most = if options.top == Some(0) { usize::MAX } else { MOST_POINTS };
    let first = history.points.len().saturating_sub(most);
    let rows = (first..history.points.len()).map(|at| point_row(history, device, at));
    let mut table = Table::new(heads, rows).titled("profiles");
    table.below = (first > 0).then(|| format!("{first} earlier profiles are not listed; the CSV format lists all"));
    table
}

fn point_row(history: &History, device: &DeviceHistory, at: usize) -> RowOfCells {
    let now = device.figures[at];
    let peak = now.and_then(|figures| figures.peak);
    let before = device.figures[..at].iter().rev().flatten().find_map(|figures| figures.peak);
    let change = peak.zip(before).map(|(peak, before)| i128::from(peak) - i128::from(before));
    let cells = [
        Value::size(peak),
        change.map_or(Value::Nothing, Value::Change),
        Value::size(now.and_then(|figures| figures.reserved)),
        Value::size(now.and_then(|figures| figures.end)),
        Value::code(name(history, at)),
    ];
    RowOfCells::new(change.map_or(Tone::Plain, Tone::of_change), cells)
}

/// The largest stacks of the latest profile, over time.
fn stacks(history: &History, device: &DeviceHistory, options: &RenderOptions) -> Table {
    let points = history.points.len();
    let rows = rows(
        &device.stacks,
        options,
        |stack| stack_row(device, Value::stack(&*stack.label, stack.more), &StackTrack::sums([stack], points)),
        |rest, name| stack_row(device, name, &StackTrack::sums(rest, points)).cells,
    );
    let [first, highest, latest] = [figure("first"), figure("highest").spare(), figure("latest")];
    let heads = [first, highest, latest, figure("change").main(), words(history.group_by.noun())];
    // Without a history, stacks hold what they do at the dump.
    let knows_peaks = device.figures.iter().flatten().all(|figures| figures.peak.is_some());
    Table::new(heads, rows).titled(if knows_peaks { "largest stacks at the peak" } else { "largest stacks" })
}

/// A row of stacks that held these bytes in each of the profiles.
fn stack_row(device: &DeviceHistory, label: Value, bytes: &[u64]) -> RowOfCells {
    let held = bytes.iter().zip(&device.has_stacks).map(|(&bytes, known)| known.then_some(bytes));
    // A profile that lacks the device has no figures either.
    let held = held.zip(&device.figures).filter(|(_, figures)| figures.is_some()).map(|(held, _)| held);
    let held: Vec<Option<u64>> = held.collect();
    let [first, now] = [held.first(), held.last()].map(|held| held.copied().flatten());
    let highest = held.iter().flatten().max().copied();
    let change = now.zip(first).map(|(now, first)| i128::from(now) - i128::from(first));
    let cells = [Value::size(first), Value::size(highest), Value::size(now), Value::change(change), label];
    RowOfCells::new(change.map_or(Tone::Plain, Tone::of_change), cells)
}
