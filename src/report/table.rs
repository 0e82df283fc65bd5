//! Tables for people: readable at 80 columns, coloured where the terminal wants colour.
//!
//! Text is written with ANSI styles; whoever prints it strips them where they are not wanted. Rows are
//! never wrapped: what is too long is shortened in the middle.

mod leaks;

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Color, Style};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use unicode_width::UnicodeWidthStr;

use super::explain::{self, Line};
use super::ranks::{self, Others};
use super::sparkline::{column_of, sparkline};
use super::tree::Shown;
use super::{Options, Subject, oom, phases};
use crate::diagnostic::{Diagnostic, Severity};
use crate::diff::{self, DeviceDiff, Diff, Kind, Metric, Row, RowKind, Side};
use crate::profile::{DeviceProfile, Held, Moment, Profile, StackTotal, others};
use crate::replay::{Counter, History, Position};
use crate::text::{count, printable, shorten, shorten_label, thousands};
use crate::tree as call_tree;
use crate::units::{Delta, Size, format_percent, format_share};
use crate::verdict::{
    Check, Comparison, Gate, Headline, Judgement, Level, Outcome, Ranks, Readings, Standing, Verdict,
};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));
const CYAN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
const GREEN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
const YELLOW: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// What a value is called that cannot be known.
const UNKNOWN: &str = "unknown";

/// The narrowest a label may get; terminals narrower than what the numbers need scroll.
const NARROWEST_LABEL: usize = 12;

/// From so many columns on there is room for everything.
const WIDE: usize = 96;

/// A table whose last column takes what the others leave.
struct Grid {
    rows: Vec<(Vec<String>, Style)>,
    /// Lines below a row, by its index, that keep to no column.
    notes: Vec<(usize, String)>,
    alignments: Vec<CellAlignment>,
    indent: usize,
}

const LEFT: CellAlignment = CellAlignment::Left;
const RIGHT: CellAlignment = CellAlignment::Right;

impl Grid {
    fn new(header: &[&str], alignments: &[CellAlignment]) -> Self {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        Self { rows: vec![(header, DIM)], notes: Vec::new(), alignments: alignments.to_vec(), indent: 2 }
    }

    fn row(&mut self, style: Style, cells: impl IntoIterator<Item = String>) {
        self.rows.push((cells.into_iter().collect(), style));
    }

    /// A remark on the latest row.
    fn note(&mut self, text: String) {
        self.notes.push((self.rows.len() - 1, text));
    }

    fn write(self, out: &mut String, width: usize) -> fmt::Result {
        let columns = self.alignments.len();
        let widest = |column: usize| self.rows.iter().map(|(cells, _)| cells[column].width()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns).map(widest).collect();
        let others: usize = widths[..columns - 1].iter().map(|width| width + 2).sum();
        let room = width.saturating_sub(self.indent + others).max(NARROWEST_LABEL);
        widths[columns - 1] = widths[columns - 1].min(room);
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let mut styles = Vec::with_capacity(self.rows.len());
        for (cells, style) in self.rows {
            let cells =
                cells.into_iter().zip(&widths).zip(&self.alignments).map(|((cell, &width), &alignment)| {
                    Cell::new(shorten_label(&cell, width)).set_alignment(alignment)
                });
            table.add_row(cells.collect::<Vec<_>>());
            styles.push(style);
        }
        for (column, &width) in table.column_iter_mut().zip(&widths) {
            column.set_padding((0, 2));
            let width = u16::try_from(width + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        // Notes stand a little to the right of the first column.
        let note_indent = self.indent + widths[0] + 2;
        for (index, (line, style)) in table.lines().zip(styles).enumerate() {
            let line = line.trim_end();
            writeln!(out, "{:indent$}{style}{line}{style:#}", "", indent = self.indent)?;
            for (_, note) in self.notes.iter().filter(|(row, _)| *row == index) {
                let note = shorten(note, width.saturating_sub(note_indent).max(NARROWEST_LABEL));
                writeln!(out, "{:note_indent$}{DIM}{note}{DIM:#}", "")?;
            }
        }
        Ok(())
    }
}

/// The result as tables.
#[must_use]
pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match subject {
        Subject::Profile(profile, judgement) => write_profile(&mut out, profile, judgement, options),
        Subject::Gate(gate) => write_gate(&mut out, gate, options),
        Subject::Leaks(gate) => leaks::write(&mut out, gate, options),
        Subject::Ranks(readings) => write_readings(&mut out, readings, options),
    };
    out
}

/// The figures, timeline and largest stacks of a snapshot, with the checks of `judgement` where there is one.
fn write_profile(out: &mut String, profile: &Profile, judgement: Option<&Judgement>, options: &Options) -> fmt::Result {
    let source = &profile.source;
    let path = shorten(&source.path, options.width.saturating_sub(14).max(NARROWEST_LABEL));
    writeln!(out, "{BOLD}{path}{BOLD:#}  {DIM}{}{DIM:#}", Size(source.bytes))?;
    let active: Vec<_> = profile.devices.iter().filter(|device| device.is_active()).collect();
    for device in &active {
        writeln!(out)?;
        writeln!(out, "{BOLD}device {}{BOLD:#}", device.device)?;
        device_details(out, profile, device, None, options)?;
    }
    let idle: Vec<_> = profile.devices.iter().filter(|d| !d.is_active()).map(|d| d.device.to_string()).collect();
    if !idle.is_empty() && !active.is_empty() {
        writeln!(out, "\n{DIM}nothing on device {}{DIM:#}", idle.join(", "))?;
    }
    if active.is_empty() {
        writeln!(out, "\nnothing is recorded and nothing is held")?;
    }
    diagnostics(out, profile.diagnostics.iter().map(|d| (None, d)), profile.devices.len() > 1, options.width)?;
    if let Some(judgement) = judgement {
        checks(out, judgement, options.width)?;
        verdict(out, &judgement.headline())?;
    }
    Ok(())
}

/// Figures, timeline and stacks of a device.
fn device_details(
    out: &mut String,
    profile: &Profile,
    device: &DeviceProfile,
    others: Option<&Others<'_>>,
    options: &Options,
) -> fmt::Result {
    summary(out, device, options)?;
    timeline(out, device, options.width)?;
    if let Some(every) = &profile.options.every {
        phases::intervals(device, every).write(out, options.width)?;
    }
    if options.phases {
        phases::held(device, options).write(out, options.width)?;
    }
    match &options.tree {
        Some(tree) if device.at.is_some() => {
            let whole = call_tree::of_device(device, &profile.code(), tree);
            Shown::held(&whole, tree, options.top).write(out, &oom::moment(profile, device), options.width)?;
        }
        _ => stacks(out, profile, device, others, options)?,
    }
    if let Some(top) = oom::extra(profile, device, options.top) {
        let rows = device.listed_at_oom(top, 1);
        largest(out, profile, &moment_name(Moment::Oom), &rows, |stack| stack.oom, None, options.width)?;
    }
    Ok(())
}

fn optional(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Size(bytes).to_string())
}

fn summary(out: &mut String, device: &DeviceProfile, options: &Options) -> fmt::Result {
    let mut recording = count(device.events, "event", "events");
    if let Some(us) = device.duration_us.filter(|&us| us > 0) {
        let _ = write!(recording, " in {}.{:03} s", us / 1_000_000, us % 1_000_000 / 1000);
    }
    match device.figures.history {
        History::Recorded => {}
        History::StateOnly => recording.push_str(", state at the dump only"),
        History::NoAllocations => recording.push_str(", allocations were not recorded"),
        History::Empty => recording.push_str(", nothing held"),
    }
    fact(out, "recording", &recording)?;
    if !device.actions.is_empty() {
        let actions: Vec<_> =
            device.actions.iter().map(|(name, n)| format!("{} {}", printable(name), thousands(*n))).collect();
        for (i, line) in fill(&actions, options.width.saturating_sub(19)).iter().enumerate() {
            fact(out, if i == 0 { "events" } else { "" }, line)?;
        }
    }
    fact(
        out,
        "allocations",
        &format!(
            "{} of {} in total, {}",
            thousands(device.figures.allocation_count),
            Size(device.figures.allocated_total),
            count(device.figures.free_count, "free", "frees")
        ),
    )?;
    let share = |part: Option<u64>, whole: Option<u64>| match part.zip(whole) {
        Some((part, whole)) => match format_share(part, whole) {
            Some(share) => format!("{} ({share})", Size(part)),
            None => Size(part).to_string(),
        },
        None => UNKNOWN.to_owned(),
    };
    fact(
        out,
        "fragmentation",
        &format!(
            "{} at the reserved peak, {} at the end",
            share(device.figures.fragmentation_at_peak, device.figures.reserved.peak),
            share(Some(device.figures.fragmentation_at_end), Some(device.figures.reserved.end))
        ),
    )?;
    for oom in device.figures.ooms.iter().take(oom::MOST) {
        let lines = oom::facts(oom).into_iter().flat_map(|items| fill(&items, options.width.saturating_sub(19)));
        for (i, line) in lines.enumerate() {
            fact(out, if i == 0 { "out of memory" } else { "" }, &line)?;
        }
    }
    if let Some(more) = oom::more(device) {
        fact(out, "", &more)?;
    }
    if let Some(memory) = options.device_memory {
        let peak = device.figures.reserved.peak;
        let headroom = peak.map(|peak| Delta(i128::from(memory) - i128::from(peak)));
        let headroom =
            headroom.map_or_else(|| UNKNOWN.to_owned(), |d| d.to_string().trim_start_matches('+').to_owned());
        fact(
            out,
            "device memory",
            &format!("{}, {} reserved at the peak, {headroom} left", Size(memory), share(peak, Some(memory))),
        )?;
    }
    writeln!(out)?;
    let mut grid =
        Grid::new(&["", "baseline", "peak", "at event", "end", ""], &[LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT]);
    let counters = [
        ("allocated", &device.figures.allocated),
        ("active", &device.figures.active),
        ("requested", &device.figures.requested),
        ("reserved", &device.figures.reserved),
    ];
    for (name, counter) in counters {
        grid.row(
            if name == "allocated" { BOLD } else { Style::new() },
            [
                name.to_owned(),
                optional(counter.baseline),
                optional(counter.peak),
                counter.peak_at.map_or_else(|| UNKNOWN.to_owned(), at_event),
                Size(counter.end).to_string(),
                exactness(counter),
            ],
        );
    }
    grid.write(out, options.width)
}

/// Items in lines of at most `width` columns.
fn fill(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.width() + 2 + item.width() <= width => {
                line.push_str(", ");
                line.push_str(item);
            }
            _ => lines.push(item.clone()),
        }
    }
    lines
}

fn fact(out: &mut String, name: &str, value: &str) -> fmt::Result {
    writeln!(out, "  {DIM}{name:<14}{DIM:#}  {value}")
}

fn at_event(position: Position) -> String {
    position.event().map_or_else(|| "start".to_owned(), |event| thousands(u64::from(event)))
}

fn exactness(counter: &Counter) -> String {
    match (counter.baseline_error, counter.peak_error) {
        (Some(0), Some(0)) => String::new(),
        (Some(error), Some(0)) => format!("baseline ± {}", Size(error)),
        (Some(baseline), Some(peak)) => format!("± {}", Size(baseline.max(peak))),
        _ if counter.peak.is_some() => "not reliable".to_owned(),
        _ => String::new(),
    }
}

fn timeline(out: &mut String, device: &DeviceProfile, width: usize) -> fmt::Result {
    let points = &device.figures.timeline.allocated;
    let (Some(peak), Some(baseline)) = (device.figures.allocated.peak, device.figures.allocated.baseline) else {
        return Ok(());
    };
    if points.len() < 2 {
        return Ok(());
    }
    let columns = width.saturating_sub(4).clamp(10, 120);
    let events = usize::try_from(device.events).unwrap_or(usize::MAX);
    writeln!(out)?;
    writeln!(out, "  {}", sparkline(points, peak, columns))?;
    let index = device.figures.allocated.peak_at.and_then(Position::event).unwrap_or(0) as usize;
    let column = column_of(index, events, points.len(), columns);
    let shown = columns.min(points.len());
    let start = format!("└ baseline {}", Size(baseline));
    let mark = format!("peak {}", Size(peak));
    // The peak's mark stands to the side of its column where there is room, else on a line of its own.
    let left = column.checked_sub(mark.width() + 1).filter(|&at| at > start.width());
    if let Some(at) = left {
        let gap = at - start.width();
        writeln!(out, "  {DIM}{start}{:gap$}{DIM:#}{BOLD}{mark} ┘{BOLD:#}", "")
    } else if column > start.width() {
        let gap = column - start.width();
        writeln!(out, "  {DIM}{start}{:gap$}{DIM:#}{BOLD}└ {mark}{BOLD:#}", "")
    } else if column + mark.width() + 2 <= shown.max(columns) {
        writeln!(out, "  {:column$}{BOLD}└ {mark}{BOLD:#}", "")?;
        writeln!(out, "  {DIM}{start}{DIM:#}")
    } else {
        writeln!(out, "  {DIM}{start}{DIM:#}, {BOLD}{mark}{BOLD:#}")
    }
}

pub(super) fn moment_name(moment: Moment) -> String {
    match moment {
        Moment::Peak => "at the peak".to_owned(),
        Moment::Baseline => "at the baseline".to_owned(),
        Moment::End => "at the end".to_owned(),
        Moment::Oom => "when memory ran out".to_owned(),
        Moment::Event(index) => format!("after event {}", thousands(u64::from(index))),
        Moment::Time(_) => format!("at {moment}"),
    }
}

fn stacks(
    out: &mut String,
    profile: &Profile,
    device: &DeviceProfile,
    others: Option<&Others<'_>>,
    options: &Options,
) -> fmt::Result {
    let moment = oom::moment(profile, device);
    if device.at.is_none() {
        return writeln!(out, "\n  no stacks {moment}: this device has no such moment");
    }
    largest(out, profile, &moment, &device.listed(options.top, 1), |stack| stack.at, others, options.width)
}

/// The stacks that hold most at a moment, all that is held together.
fn largest(
    out: &mut String,
    profile: &Profile,
    moment: &str,
    rows: &[StackTotal],
    held: fn(&StackTotal) -> Held,
    others: Option<&Others<'_>>,
    width: usize,
) -> fmt::Result {
    let total = rows.iter().fold(0, |sum: u64, stack| sum.saturating_add(held(stack).bytes));
    writeln!(out, "\n  {BOLD}largest stacks {moment}{BOLD:#} {DIM}({}){DIM:#}", Size(total))?;
    let name = profile.options.group_by.noun();
    let medians = others.map(|others| ranks::medians_of_stacks(others, rows)).unwrap_or_default();
    let (mut names, mut alignments) = (vec!["bytes", "share", "blocks"], vec![RIGHT, RIGHT, RIGHT]);
    if others.is_some() {
        (names, alignments) = (vec!["bytes", "median", "ranks", "share", "blocks"], vec![RIGHT; 5]);
    }
    let mut grid = Grid::new(&[&names[..], &[name]].concat(), &[&alignments[..], &[LEFT]].concat());
    for (at, stack) in rows.iter().enumerate() {
        let held = held(stack);
        let share = format_share(held.bytes, total).unwrap_or_default();
        let style = if stack.bucket.is_some() { DIM } else { Style::new() };
        let mut cells = vec![Size(held.bytes).to_string()];
        if let Some(others) = others {
            let median = medians.get(at).copied().flatten().and_then(|bytes| u64::try_from(bytes).ok());
            cells.push(median.map(|bytes| Size(bytes).to_string()).unwrap_or_default());
            cells.push(others.share(&stack.key.0, i128::from(held.bytes)));
        }
        cells.extend([share, thousands(held.blocks), printable(&stack.label)]);
        grid.row(style, cells);
    }
    grid.write(out, width)?;
    note_of_others(out, others)
}

/// What the columns of other ranks are about.
fn note_of_others(out: &mut String, others: Option<&Others<'_>>) -> fmt::Result {
    let Some(median) = others.and_then(|others| others.median) else { return Ok(()) };
    let text = format!("median: {}, in the middle; ranks: on how many it is the same", printable(median));
    writeln!(out, "  {DIM}{text}{DIM:#}")
}

/// The snapshots of the ranks of a job: all ranks in a table, and the one that holds most.
fn write_readings(out: &mut String, readings: &Readings, options: &Options) -> fmt::Result {
    let path = readings.ranks.paths.after.as_deref().unwrap_or_default();
    let path = shorten(path, options.width.saturating_sub(14).max(NARROWEST_LABEL));
    let count_of = count(readings.readings.len() as u64, "rank", "ranks");
    writeln!(out, "{BOLD}{path}{BOLD:#}  {DIM}{count_of}{DIM:#}\n")?;
    let lines = ranks::shown(readings);
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    let (listed, rest) = lines.split_at(limit.min(lines.len()));
    let alignments = [LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT];
    let mut grid = Grid::new(&["", "baseline", "peak", "end", "reserved", ""], &alignments);
    for line in listed {
        let figure = |metric: Metric| optional(line.device.and_then(|device| metric.value(device)));
        let mut cells = vec![at_start(&line.name)];
        cells.extend([Metric::Baseline, Metric::Peak, Metric::End, Metric::Reserved].map(figure));
        cells.push(line.remark().to_owned());
        grid.row(style_of_standing(line.standing), cells);
    }
    if !rest.is_empty() {
        let peaks = rest.iter().map(|line| line.peak().map(i128::from));
        let mut cells = vec![String::new(); 6];
        (cells[0], cells[2]) = (others(rest.len()), ranks::range(peaks, false));
        cells[5] = common(rest.iter().map(ranks::Shown::remark));
        grid.row(DIM, cells);
    }
    grid.write(out, options.width)?;
    imbalance(out, &readings.ranks)?;
    if let Some(line) = lines.first()
        && let Some(device) = line.device
    {
        writeln!(out, "\n{BOLD}{}{BOLD:#}", at_start(&line.name))?;
        let others = Others::held(&lines);
        let others = Some(&others).filter(|others| others.ranks > 1);
        device_details(out, &line.of.profile, device, others, options)?;
    }
    let found = ranks::diagnostics_of_readings(readings);
    diagnostics(out, found.iter().map(|(side, d)| (*side, d)), false, options.width)?;
    if readings.verdict().is_none() {
        return Ok(());
    }
    let worst = lines.first().and_then(|line| line.of.judgement.as_ref());
    checks_of_job(out, worst, &readings.ranks.judgement, options.width)?;
    verdict(out, &readings.headline())
}

/// A name that begins a line, where the log of a GitHub job would take `::` for the begin of a command.
fn at_start(name: &str) -> String {
    let name = printable(name);
    if name.trim_start().starts_with("::") { format!("'{name}'") } else { name }
}

fn style_of_standing(standing: Standing) -> Style {
    match standing {
        Standing::Exceeded => RED,
        Standing::Inconclusive | Standing::Warning => YELLOW,
        Standing::Ok => Style::new(),
    }
}

/// What all of them are, or nothing.
fn common<'r>(mut remarks: impl Iterator<Item = &'r str>) -> String {
    let first = remarks.next().unwrap_or_default();
    if remarks.all(|other| other == first) { first.to_owned() } else { String::new() }
}

/// How far the highest peak lies above the median.
fn imbalance(out: &mut String, ranks: &Ranks) -> fmt::Result {
    let text = match (ranks.imbalance.before, ranks.imbalance.after) {
        (Some(before), Some(after)) => format!("{} -> {}", Size(before), Size(after)),
        (None, Some(after)) => Size(after).to_string(),
        _ => return Ok(()),
    };
    writeln!(out, "\n  {DIM}imbalance, the highest peak less the median:{DIM:#} {text}")
}

/// The checks of the worst rank, and those of all ranks together.
fn checks_of_job(out: &mut String, worst: Option<&Judgement>, all: &Judgement, width: usize) -> fmt::Result {
    let worst_checks = worst.map(|judgement| &*judgement.checks).unwrap_or_default();
    let both = Judgement {
        checks: all.checks.iter().chain(worst_checks).cloned().collect(),
        many_devices: worst.is_some_and(|judgement| judgement.many_devices),
        ..all.clone()
    };
    checks(out, &both, width)
}

/// The comparisons of the ranks of a job: all ranks in a table, and the one that fares worst.
fn write_job(out: &mut String, gate: &Gate, of: &Ranks, options: &Options) -> fmt::Result {
    for (side, path) in of.paths.each() {
        let path = shorten(path.as_deref().unwrap_or_default(), options.width.saturating_sub(22).max(NARROWEST_LABEL));
        let alone = of.missing.iter().filter(|missing| missing.side != side).count();
        let ranks = count((of.members.len() + alone) as u64, "rank", "ranks");
        writeln!(out, "{side:<8}{BOLD}{path}{BOLD:#}  {DIM}{ranks}{DIM:#}")?;
    }
    writeln!(out)?;
    let lines = ranks::compared(gate, of);
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    let (listed, rest) = lines.split_at(limit.min(lines.len()));
    let alignments = [LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT];
    let mut grid = Grid::new(&["peak", "before", "after", "change", "", ""], &alignments);
    for line in listed {
        let growth = line.growth();
        let change = line.device.map(|device| device.metric(Metric::Peak));
        let before = change.and_then(|change| change.before);
        let percent = growth.zip(before).and_then(|(delta, before)| format_percent(delta, before));
        let cells = [
            at_start(&line.name),
            optional(before),
            optional(change.and_then(|change| change.after)),
            growth.map_or_else(|| UNKNOWN.to_owned(), |delta| Delta(delta).to_string()),
            percent.unwrap_or_default(),
            line.remark().to_owned(),
        ];
        grid.row(style_of_standing(line.standing), cells);
    }
    if !rest.is_empty() {
        let mut cells = vec![String::new(); 6];
        (cells[0], cells[3]) = (others(rest.len()), ranks::range(rest.iter().map(ranks::Compared::growth), true));
        cells[5] = common(rest.iter().map(ranks::Compared::remark));
        grid.row(DIM, cells);
    }
    for missing in of.missing.iter().take(limit) {
        let [before, after] = if missing.side == Side::After { ["", "missing"] } else { ["missing", ""] };
        let label = at_start(&missing.member.label);
        grid.row(YELLOW, [&*label, before, after, "", "", "?"].map(str::to_owned));
    }
    if of.missing.len() > limit {
        let more = others(of.missing.len() - limit);
        grid.row(YELLOW, [&*more, "", "missing", "", "", "?"].map(str::to_owned));
    }
    grid.write(out, options.width)?;
    imbalance(out, of)?;
    let worst = lines.first();
    if let Some(line) = worst
        && let Some(device) = line.device
    {
        writeln!(out, "\n{BOLD}{}{BOLD:#}", at_start(&line.name))?;
        let others = Others::changes(&lines);
        let others = Some(&others).filter(|others| others.ranks > 1);
        compared_device(out, line.of, device, others, options)?;
        elsewhere(out, &lines, options)?;
    }
    let found = ranks::diagnostics_of_gate(gate, of);
    diagnostics(out, found.iter().map(|(side, d)| (*side, d)), false, options.width)?;
    checks_of_job(out, worst.map(|line| &line.of.judgement), &of.judgement, options.width)
}

/// The stacks that explain why other ranks fail, where they are not those of the worst.
fn elsewhere(out: &mut String, lines: &[ranks::Compared<'_>], options: &Options) -> fmt::Result {
    let found = ranks::elsewhere(lines, options);
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  {BOLD}stacks that grew on other ranks alone{BOLD:#}")?;
    let mut grid = Grid::new(&["change", "ranks", "most on", "stack"], &[RIGHT, RIGHT, LEFT, LEFT]);
    for (row, name, count) in found {
        let cells = [Delta(row.delta()).to_string(), thousands(count as u64), printable(name), printable(&row.label)];
        grid.row(RED, cells);
    }
    grid.write(out, options.width)
}

/// Every comparison with its verdict, and where there are several, the verdict of all.
fn write_gate(out: &mut String, gate: &Gate, options: &Options) -> fmt::Result {
    let mut at = 0;
    while let Some(comparison) = gate.comparisons.get(at) {
        let job = gate.ranks.iter().find(|ranks| ranks.members.start == at && !ranks.members.is_empty());
        let name = job.map_or(&comparison.name, |job| &job.name);
        if let Some(name) = name {
            writeln!(out, "{BOLD}== {} =={BOLD:#}", printable(name))?;
        }
        match job {
            Some(job) => {
                write_job(out, gate, job, options)?;
                if !gate.is_one_job() {
                    verdict(out, &gate.headline_of_job(job))?;
                }
            }
            None => write_diff(out, comparison, options)?,
        }
        if name.is_some() {
            writeln!(out)?;
        }
        at = job.map_or(at + 1, |job| job.members.end);
    }
    if gate.comparisons.len() > 1 || gate.is_one_job() { verdict(out, &gate.headline()) } else { Ok(()) }
}

/// The comparison of two snapshots and its verdict.
fn write_diff(out: &mut String, comparison: &Comparison, options: &Options) -> fmt::Result {
    let Comparison { diff, judgement, .. } = comparison;
    let sides = [("before", &diff.profiles.before.source), ("after", &diff.profiles.after.source)];
    for (side, source) in sides {
        let path = shorten(&source.path, options.width.saturating_sub(22).max(NARROWEST_LABEL));
        writeln!(out, "{side:<8}{BOLD}{path}{BOLD:#}  {DIM}{}{DIM:#}", Size(source.bytes))?;
    }
    // What explains the verdict comes first.
    let mut devices: Vec<_> = diff.devices.iter().collect();
    devices.sort_by_key(|device| std::cmp::Reverse(judgement.standing(device.ordinal())));
    for device in devices {
        writeln!(out)?;
        writeln!(out, "{BOLD}{}{BOLD:#}", device.name())?;
        compared_device(out, comparison, device, None, options)?;
    }
    let before = diff.profiles.before.diagnostics.iter().map(|d| (Some(Side::Before), d));
    let after = diff.profiles.after.diagnostics.iter().map(|d| (Some(Side::After), d));
    let both = diff.diagnostics.iter().chain(&judgement.diagnostics).map(|d| (None, d));
    diagnostics(out, before.chain(after).chain(both), diff.devices.len() > 1, options.width)?;
    checks(out, judgement, options.width)?;
    verdict(out, &judgement.headline())
}

/// Metrics and stacks of a device.
fn compared_device(
    out: &mut String,
    comparison: &Comparison,
    device: &DeviceDiff,
    others: Option<&Others<'_>>,
    options: &Options,
) -> fmt::Result {
    let Comparison { diff, judgement, min_delta, .. } = comparison;
    metrics(out, device, judgement, options.width)?;
    if options.shows_phases(comparison) {
        phases::changes(device, judgement, options).write(out, options.width)?;
    }
    if let (Some(tree), false) = (&options.tree, device.rows.is_empty()) {
        let whole = call_tree::of_diff(device, &diff.codes(), tree);
        let shown = Shown::changes(&whole, tree, options.top, *min_delta);
        return shown.write(out, &moment_name(diff.profiles.after.options.at), options.width);
    }
    let explains = judgement.explanation(device);
    let rows = diff::listed(&device.rows, options.listing(comparison), explains);
    changed_stacks(out, diff, device, &rows, others, options)?;
    if options.explain {
        explanations(out, diff, &rows, options.width)?;
    }
    Ok(())
}

/// The metrics, those first that explain the verdict.
fn metrics(out: &mut String, device: &DeviceDiff, judgement: &Judgement, width: usize) -> fmt::Result {
    let number = device.ordinal();
    // Several limits may stand on one figure: the worst outcome counts.
    let worst = |name: &str| {
        let of_metric = |check: &&Check| check.metric == name && check.device == number && check.scope.is_none();
        judgement.checks.iter().filter(of_metric).min_by_key(|check| std::cmp::Reverse(check.standing()))
    };
    let mut rows: Vec<_> =
        device.metrics.iter().map(|&(metric, change)| (metric, change, worst(metric.name()))).collect();
    // A stable sort: what failed comes first, the rest keeps its order.
    rows.sort_by_key(|(_, _, check)| std::cmp::Reverse(check.map_or(Standing::Ok, Check::standing)));
    let side = |device: Option<usize>, value| device.map_or_else(|| "missing".to_owned(), |_| optional(value));
    let mut grid = Grid::new(&["", "before", "after", "change", "", ""], &[LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT]);
    for (metric, change, check) in rows {
        let (style, remark) = check.map_or((Style::new(), ""), word);
        let style = if remark == "ok" { Style::new() } else { style };
        let delta = change.delta();
        let percent = delta.zip(change.before).and_then(|(delta, before)| format_percent(delta, before));
        grid.row(
            style,
            [
                metric.name().to_owned(),
                side(device.index.before, change.before),
                side(device.index.after, change.after),
                delta.map_or_else(|| UNKNOWN.to_owned(), |delta| Delta(delta).to_string()),
                percent.unwrap_or_default(),
                remark.to_owned(),
            ],
        );
    }
    grid.write(out, width)
}

fn changed_stacks(
    out: &mut String,
    diff: &Diff,
    device: &DeviceDiff,
    rows: &[Row],
    others: Option<&Others<'_>>,
    options: &Options,
) -> fmt::Result {
    if device.index.before.is_none() || device.index.after.is_none() {
        return Ok(());
    }
    let moment = moment_name(diff.profiles.after.options.at);
    let lacks = |profile: &Profile, index: Option<usize>| index.is_some_and(|i| profile.devices[i].at.is_none());
    if lacks(&diff.profiles.before, device.index.before) || lacks(&diff.profiles.after, device.index.after) {
        return writeln!(out, "\n  no stacks {moment}: not both sides have such a moment");
    }
    if rows.is_empty() {
        return writeln!(out, "\n  no stack changed {moment}");
    }
    let total: i128 = device.rows.iter().map(Row::delta).sum();
    writeln!(out, "\n  {BOLD}stacks {moment}{BOLD:#} {DIM}({}){DIM:#}", Delta(total))?;
    // The change and the after say what was before: on a narrow terminal the label needs the room more.
    let wide = options.width >= WIDE;
    let name = diff.profiles.after.options.group_by.noun();
    let mut names = vec!["change"];
    if others.is_some() {
        names.extend(["median", "ranks"]);
    }
    if wide {
        names.push("before");
    }
    if wide || others.is_none() {
        names.extend(["after", "blocks"]);
    }
    let mut alignments = vec![RIGHT; names.len()];
    names.extend(["", name]);
    alignments.extend([LEFT, LEFT]);
    let medians = others.map(|others| ranks::medians_of_rows(others, rows)).unwrap_or_default();
    let mut grid = Grid::new(&names, &alignments);
    for (at, row) in rows.iter().enumerate() {
        let style = match (row.kind, row.change) {
            (RowKind::Stack, Kind::Grew | Kind::Added) => RED,
            (RowKind::Stack, Kind::Shrank | Kind::Removed) => GREEN,
            _ => DIM,
        };
        let (before, after) = (row.held.before, row.held.after);
        let blocks = if before.blocks == after.blocks {
            thousands(after.blocks)
        } else {
            format!("{} -> {}", thousands(before.blocks), thousands(after.blocks))
        };
        let mut cells = vec![Delta(row.delta()).to_string()];
        if let Some(others) = others {
            let median = medians.get(at).copied().flatten();
            cells.push(median.map(|delta| Delta(delta).to_string()).unwrap_or_default());
            cells.push(others.share(&row.key, row.delta()));
        }
        if wide {
            cells.push(Size(before.bytes).to_string());
        }
        if wide || others.is_none() {
            cells.extend([Size(after.bytes).to_string(), blocks]);
        }
        let change = match row.change {
            change if !row.moved => change.name().to_owned(),
            Kind::Same => "moved".to_owned(),
            change => format!("{}, moved", change.name()),
        };
        cells.extend([change, printable(&row.label)]);
        grid.row(style, cells);
        // Whether there are more blocks or larger ones.
        if let (RowKind::Stack, Some(manner)) = (row.kind, row.manner()) {
            let means = if before.mean() == after.mean() {
                Size(after.mean()).to_string()
            } else {
                format!("{} -> {}", Size(before.mean()), Size(after.mean()))
            };
            grid.note(format!("{manner} ({means} each)"));
        }
    }
    grid.write(out, options.width)?;
    note_of_others(out, others)
}

/// For every row how its stack changed.
fn explanations(out: &mut String, diff: &Diff, rows: &[Row], width: usize) -> fmt::Result {
    let codes = diff.codes();
    for row in rows.iter().filter(|row| row.kind == RowKind::Stack) {
        let before = row.stack.before.map(|stack| (&codes.before, stack));
        let after = row.stack.after.map(|stack| (&codes.after, stack));
        let delta = Delta(row.delta()).to_string();
        let label = shorten_label(&row.label, width.saturating_sub(delta.width() + 4).max(NARROWEST_LABEL));
        writeln!(out, "\n  {BOLD}{delta}  {label}{BOLD:#}")?;
        for line in explain::lines(before, after) {
            let (style, sign, text) = match &line {
                Line::Head(text) => (BOLD, "", text),
                Line::Hunk(text) => (CYAN, "", text),
                Line::Context(text) => (Style::new(), " ", text),
                Line::Removed(text) => (RED, "-", text),
                Line::Added(text) => (GREEN, "+", text),
            };
            let text = shorten_label(text, width.saturating_sub(5).max(NARROWEST_LABEL));
            writeln!(out, "    {style}{sign}{text}{style:#}")?;
        }
    }
    Ok(())
}

/// Diagnostics, wrapped at words; warnings before notes.
fn diagnostics<'a>(
    out: &mut String,
    found: impl Iterator<Item = (Option<Side>, &'a Diagnostic)>,
    many_devices: bool,
    width: usize,
) -> fmt::Result {
    let mut found: Vec<_> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    found.sort_by_key(|(_, diagnostic)| std::cmp::Reverse(diagnostic.severity()));
    writeln!(out)?;
    while !found.is_empty() {
        let (side, diagnostic) = found.remove(0);
        // What holds for both sides is said once.
        let twin = found.iter().position(|(other, same)| *other != side && *same == diagnostic);
        let side = if twin.map(|at| found.remove(at)).is_some() { Some("both") } else { side.map(Side::name) };
        let mut scope = side.map(|side| format!("{side}: ")).unwrap_or_default();
        if let Some(device) = diagnostic.device.filter(|_| many_devices && !diagnostic.message.starts_with("device")) {
            let _ = write!(scope, "device {device}: ");
        }
        let style = if diagnostic.severity() == Severity::Warning { YELLOW } else { DIM };
        let head = format!("{}[{}]", diagnostic.severity(), diagnostic.code);
        let body = format!("{scope}{}", printable(&diagnostic.message));
        let line = wrap(&format!("{head} {body}"), width.saturating_sub(2).max(40));
        let (first, rest) = line.split_at(head.len().min(line.len()));
        writeln!(out, "{style}{first}{style:#}{rest}")?;
    }
    Ok(())
}

/// Breaks a text at spaces, but not within backticks; lines after the first are indented.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let (mut column, mut quoted) = (0, false);
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.width() > width && !quoted {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.width();
        quoted ^= word.matches('`').count() % 2 == 1;
    }
    out
}

/// The outcome of a check in a word.
fn word(check: &Check) -> (Style, &'static str) {
    match (check.outcome, check.level) {
        (Outcome::Pass, _) if check.accepted => (YELLOW, "accepted"),
        (Outcome::Pass, _) => (GREEN, "ok"),
        (Outcome::Exceeded, Level::Fail) => (RED.bold(), "FAIL"),
        (Outcome::Exceeded, Level::Warn) => (YELLOW, "WARN"),
        (Outcome::Inconclusive, _) => (YELLOW, "?"),
    }
}

/// The checks, where there is more to say than the verdict's line does.
fn checks(out: &mut String, judgement: &Judgement, width: usize) -> fmt::Result {
    const MOST: usize = 10;
    if judgement.checks.len() < 2 {
        return Ok(());
    }
    writeln!(out)?;
    let widest = judgement.checks.iter().take(MOST).map(|check| word(check).1.width()).max().unwrap_or(0).max(4);
    for check in judgement.checks.iter().take(MOST) {
        let (style, word) = word(check);
        let sentence = wrap(&printable(&judgement.sentence(check)), width.saturating_sub(8).max(40));
        writeln!(out, "{style}{word:<widest$}{style:#}  {}", sentence.replace("\n  ", "\n      "))?;
    }
    if judgement.checks.len() > MOST {
        writeln!(out, "      and {}", count((judgement.checks.len() - MOST) as u64, "more check", "more checks"))?;
    }
    Ok(())
}

fn verdict(out: &mut String, headline: &Headline) -> fmt::Result {
    let style = match headline.verdict {
        Verdict::Pass => GREEN,
        Verdict::Regression => RED,
        Verdict::Inconclusive => YELLOW,
    }
    .bold();
    let word = headline.verdict.word();
    writeln!(out, "\n{style}{word}{style:#} {}", printable(&headline.sentence))
}
