//! Phases and equal parts of a history as rows, which several formats show.

use std::collections::HashMap;
use std::fmt::{self, Write};

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use super::Options;
use crate::diff::{self, DeviceDiff, PhaseRow};
use crate::phase::Source;
use crate::profile::{DeviceProfile, Every, Interval, Occurrence};
use crate::text::{count, printable, shorten, thousands};
use crate::units::{Delta, Size, format_percent};
use crate::verdict::{Check, Judgement, Level, Outcome};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const RED: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));
const GREEN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
const YELLOW: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// The narrowest a name may get.
const NARROWEST: usize = 16;

/// A column less than this is no level any more.
const DEEPEST: usize = 8;

/// A list of phases or parts, apart from how it is written.
pub(super) struct List {
    pub(super) title: String,
    /// What stands behind the title.
    pub(super) remark: String,
    /// The names of the columns, that of the names last.
    pub(super) heads: Vec<&'static str>,
    pub(super) lines: Vec<Line>,
    /// What is left out, or why there is nothing.
    pub(super) rest: Option<String>,
}

/// A line of it.
pub(super) struct Line {
    /// All but the name.
    pub(super) cells: Vec<String>,
    /// How deep it lies.
    pub(super) depth: usize,
    pub(super) name: String,
    /// Whether it is a reason for the verdict to fail.
    pub(super) fails: bool,
    style: Style,
}

impl List {
    /// As a table for people. Names are shortened in the middle.
    pub(super) fn write(&self, out: &mut String, width: usize) -> fmt::Result {
        writeln!(out, "\n  {BOLD}{}{BOLD:#} {DIM}({}){DIM:#}", self.title, self.remark)?;
        if !self.lines.is_empty() {
            let columns = self.heads.len() - 1;
            let widest = |column: usize| self.lines.iter().map(|line| line.cells[column].width()).max().unwrap_or(0);
            let widths: Vec<usize> = (0..columns).map(|i| widest(i).max(self.heads[i].width())).collect();
            let mut head = String::new();
            for (head_of, width) in self.heads.iter().zip(&widths) {
                let _ = write!(head, "{head_of:>width$}  ");
            }
            writeln!(out, "  {DIM}{head}{}{DIM:#}", self.heads[columns])?;
            let left = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
            for line in &self.lines {
                let (style, mut text) = (line.style, String::new());
                for (cell, &width) in line.cells.iter().zip(&widths) {
                    let _ = write!(text, "{:pad$}{cell}  ", "", pad = width - cell.width());
                }
                let indent = line.depth.min(DEEPEST) * 2;
                let name = shorten(&line.name, width.saturating_sub(left + indent).max(NARROWEST));
                let _ = write!(text, "{:indent$}{name}", "");
                writeln!(out, "  {style}{}{style:#}", text.trim_end())?;
            }
        }
        if let Some(rest) = &self.rest {
            writeln!(out, "  {DIM}{rest}{DIM:#}")?;
        }
        Ok(())
    }
}

/// The phases of a snapshot: one by one, or where there are too many by name, each where it is highest.
pub(super) fn held(device: &DeviceProfile, options: &Options) -> List {
    let mut names: HashMap<(Source, &str), usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut total = 0;
    for phase in options.phases_of(device) {
        total += 1;
        let place = *names.entry((phase.source, &*phase.name)).or_insert_with(|| {
            groups.push(Group { times: 0, depth: phase.depth, worst: phase });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.times += 1;
        group.depth = group.depth.min(phase.depth);
        if phase.peak > group.worst.peak {
            group.worst = phase;
        }
    }
    let title = "phases".to_owned();
    if groups.is_empty() {
        let why = if device.phases.all.is_empty() {
            "there are no annotations (record_function), metadata or compile contexts"
        } else {
            "--skip-first leaves out all of them"
        };
        return List {
            title,
            remark: "none".to_owned(),
            heads: vec![""],
            lines: Vec::new(),
            rest: Some(why.to_owned()),
        };
    }
    let figures = |phase: &Occurrence| {
        vec![
            Size(phase.start).to_string(),
            Size(phase.end).to_string(),
            Delta(phase.change()).to_string(),
            Size(phase.peak).to_string(),
        ]
    };
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    if total <= limit {
        let several = |phase: &Occurrence| groups[names[&(phase.source, &*phase.name)]].times > 1;
        let line = |phase: &Occurrence| {
            let mut cells = figures(phase);
            cells.push(if several(phase) { phase.number.to_string() } else { String::new() });
            Line { cells, depth: phase.depth as usize, name: named(phase), fails: false, style: PLAIN }
        };
        return List {
            title,
            remark: count(total as u64, "occurrence", "occurrences"),
            heads: vec!["before", "after", "change", "peak inside", "#", "phase"],
            lines: options.phases_of(device).map(line).collect(),
            rest: None,
        };
    }
    // The highest ones, but in the order in which they begin.
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(groups[i].worst.peak));
    let rest = order.split_off(order.len().min(limit));
    order.sort_unstable();
    let line = |group: &Group<'_>| {
        let mut cells = figures(group.worst);
        cells.push(group.worst.number.to_string());
        cells.push(thousands(group.times));
        Line { cells, depth: group.depth as usize, name: named(group.worst), fails: false, style: PLAIN }
    };
    let times: u64 = rest.iter().map(|&i| groups[i].times).sum();
    let occurrences = count(total as u64, "occurrence", "occurrences");
    List {
        title: "phases, each where it is highest".to_owned(),
        remark: format!("{occurrences} of {}", thousands(groups.len() as u64)),
        heads: vec!["before", "after", "change", "peak inside", "#", "times", "phase"],
        lines: order.iter().map(|&i| line(&groups[i])).collect(),
        rest: (!rest.is_empty()).then(|| {
            let phases = count(rest.len() as u64, "more phase", "more phases");
            format!("and {phases} ({})", count(times, "occurrence", "occurrences"))
        }),
    }
}

/// The occurrences of one name.
struct Group<'d> {
    times: u64,
    depth: u32,
    worst: &'d Occurrence,
}

fn named(phase: &Occurrence) -> String {
    let remark = match (phase.begins, phase.ends) {
        (true, true) => "",
        _ if phase.source != Source::Annotation => "",
        (false, _) => " (begins before)",
        (true, false) => " (does not end)",
    };
    format!("{}{remark}", printable(&phase.name))
}

/// The equal parts of a history.
pub(super) fn intervals(device: &DeviceProfile, every: &Every) -> List {
    let line = |part: &Interval| {
        let reserved = part.reserved_peak.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
        let cells =
            vec![Size(part.start).to_string(), Size(part.peak).to_string(), Size(part.end).to_string(), reserved];
        Line { cells, depth: 0, name: part.name.clone(), fails: false, style: PLAIN }
    };
    List {
        title: format!("every {every}"),
        remark: count(device.intervals.len() as u64, "part", "parts"),
        heads: vec!["before", "peak", "after", "reserved peak", "from and to"],
        lines: device.intervals.iter().map(line).collect(),
        rest: device.intervals.is_empty().then(|| "this device has no such parts".to_owned()),
    }
}

/// The phases of a comparison: what changed.
pub(super) fn changes(device: &DeviceDiff, judgement: &Judgement, options: &Options) -> List {
    let number = device.ordinal();
    let checks: HashMap<String, &Check> = judgement
        .checks
        .iter()
        .rev()
        .filter(|check| check.is_of_phases() && check.device == number)
        .filter_map(|check| Some((check.key.clone()?, check)))
        .collect();
    // A check is about the occurrence that exceeds the limit by most.
    let check = |row: &PhaseRow| {
        let is_this =
            |check: &&Check| check.scope.as_ref().is_some_and(|scope| *scope == row.title() || *scope == *row.name);
        checks.get(&row.key()).copied().filter(is_this)
    };
    let explains = |row: &PhaseRow| check(row).is_some_and(|check| check.outcome == Outcome::Exceeded);
    let (rows, [changed, same]) = diff::listed_phases(&device.phases, options.top, options.unchanged, explains);
    let side = |bytes: Option<u64>| bytes.map_or_else(|| "missing".to_owned(), |bytes| Size(bytes).to_string());
    let line = |row: &&PhaseRow| {
        let delta = row.delta();
        let percent = delta.zip(row.peak.before).and_then(|(delta, before)| format_percent(delta, before));
        let (style, word) = match check(row).map(|check| (check.outcome, check.level)) {
            Some((Outcome::Exceeded, Level::Fail)) => (RED.bold(), "FAIL"),
            Some((Outcome::Exceeded, Level::Warn)) => (YELLOW, "WARN"),
            Some((Outcome::Inconclusive, _)) => (YELLOW, "?"),
            Some((Outcome::Pass, _)) => (YELLOW, "accepted"),
            None => match delta {
                Some(1..) => (RED, ""),
                Some(0) => (DIM, ""),
                Some(_) => (GREEN, ""),
                None => (YELLOW, ""),
            },
        };
        let cells = vec![
            delta.map_or_else(|| "unknown".to_owned(), |delta| Delta(delta).to_string()),
            percent.unwrap_or_default(),
            side(row.peak.before),
            side(row.peak.after),
            word.to_owned(),
        ];
        Line { cells, depth: 0, name: printable(&row.title()), fails: word == "FAIL", style }
    };
    let mut rest = Vec::new();
    if changed > 0 {
        rest.push(format!("{} that changed", count(changed as u64, "more phase", "more phases")));
    }
    if same > 0 {
        rest.push(format!("{} that did not change", count(same as u64, "phase", "phases")));
    }
    let rest = match (device.phases.is_empty(), rest.is_empty()) {
        (true, _) => Some("neither side has any".to_owned()),
        (_, true) => None,
        _ => Some(format!("and {}", rest.join(", "))),
    };
    List {
        title: "peaks inside phases".to_owned(),
        remark: count(device.phases.len() as u64, "compared", "compared"),
        heads: vec!["change", "", "before", "after", "", "phase"],
        lines: rows.iter().map(line).collect(),
        rest,
    }
}
