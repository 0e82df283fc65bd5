//! Phases, and equal parts of a history.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use ptmem_base::text::{count, thousands};
use ptmem_compare::diff::{self, Change, DeviceDiff, ListedPhases, PhaseRow, Sides};
use ptmem_judge::verdict::{Check, CheckedFigures, Judgement, LimitKind, Mark, Outcome, Standing};
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{DeviceProfile, Every, Interval, Occurrence};
use ptmem_trace::trace::WindowCounters;

use super::{RowOfCells, Table, Tone, Value, figure, words};
use crate::{RenderOptions, grouped};

/// The phases of one name, and the place of that name in the order in which phases begin.
type PhaseGroup<'d> = (usize, Vec<&'d Occurrence>);

/// The first of the highest phases.
fn highest<'d>(phases: &[&'d Occurrence]) -> Option<&'d Occurrence> {
    phases.iter().copied().rev().max_by_key(|phase| phase.held.peak.allocated)
}

/// The phases of a snapshot: one by one, or where there are too many by name, each where it is highest.
pub(super) fn held(device: &DeviceProfile, options: &RenderOptions) -> Table {
    let phases: Vec<_> = options.phases_of(device).collect();
    let groups = grouped(phases.iter().copied(), |phase| (phase.source, &*phase.name));
    if phases.is_empty() {
        return without_phases(device);
    }
    let total = count(phases.len() as u64, "occurrence", "occurrences");
    if options.top() == 0 || phases.len() <= options.top() {
        let several = groups.iter().filter(|group| group.len() > 1).map(|group| &*group[0].name);
        let several: HashSet<&str> = several.collect();
        let rows = phases.iter().map(|phase| {
            let number = if several.contains(&*phase.name) { Value::number(phase.number) } else { Value::Nothing };
            row(phase, phase.depth, [number])
        });
        return Table { total, ..table(&["at start", "at end", "change", "peak inside", "#"], "phase", rows) }
            .titled("phases");
    }
    let all = count(groups.len() as u64, "phase", "phases");
    Table { total: format!("{total} of {all}"), ..by_name(groups.into_iter().enumerate().collect(), options.top()) }
        .titled("phases, each at its highest occurrence")
}

fn without_phases(device: &DeviceProfile) -> Table {
    let why = if device.phases.all.is_empty() {
        "there are no annotations (record_function), metadata or compile contexts"
    } else {
        "all of them are among the first occurrences, which are skipped"
    };
    Table { total: "none".to_owned(), below: Some(why.to_owned()), ..Table::default() }.titled("phases")
}

/// The highest phases, in the order in which they begin.
fn by_name(mut groups: Vec<PhaseGroup<'_>>, top: usize) -> Table {
    groups.sort_by_key(|(_, phases)| Reverse(highest(phases).map(|phase| phase.held.peak.allocated)));
    let rest = groups.split_off(groups.len().min(top));
    groups.sort_by_key(|(place, _)| *place);
    let left: usize = rest.iter().map(|(_, phases)| phases.len()).sum();
    let more = count(rest.len() as u64, "more phase", "more phases");
    let below = format!("and {more} ({})", count(left as u64, "occurrence", "occurrences"));
    let rows = groups.iter().filter_map(|(_, phases)| {
        let highest = highest(phases)?;
        let depth = phases.iter().map(|phase| phase.depth).min()?;
        Some(row(highest, depth, [Value::number(highest.number), Value::count(phases.len() as u64)]))
    });
    let heads = ["at start", "at end", "change", "peak inside", "#", "of"];
    Table { below: (!rest.is_empty()).then_some(below), ..table(&heads, "phase", rows) }
}

/// A table of figures with a name behind them.
fn table(figures: &[&str], name: &str, rows: impl Iterator<Item = RowOfCells>) -> Table {
    Table::new(figures.iter().map(|&head| figure(head)).chain([words(name)]).collect::<Vec<_>>(), rows)
}

fn row(phase: &Occurrence, depth: u32, numbers: impl IntoIterator<Item = Value>) -> RowOfCells {
    let WindowCounters { start, end, peak } = phase.held;
    let peak = Value::bounded(peak.allocated, phase.error);
    let [start, end] = [start, end].map(|level| Value::Size(level.allocated));
    let figures = [start, end, Value::Change(phase.change()), peak];
    RowOfCells {
        depth: depth as usize,
        ..RowOfCells::new(Tone::Plain, figures.into_iter().chain(numbers).chain([name(phase)]))
    }
}

fn name(phase: &Occurrence) -> Value {
    let remark = match (phase.source, phase.begins, phase.ends) {
        (PhaseSource::Annotation | PhaseSource::Pass, false, _) => " (begins before)",
        (PhaseSource::Annotation | PhaseSource::Pass, true, false) => " (does not end)",
        (PhaseSource::Annotation | PhaseSource::Pass, true, true)
        | (PhaseSource::Metadata | PhaseSource::CompileContext, ..) => "",
    };
    Value::code(format!("{}{remark}", phase.name))
}

/// The equal parts of a history.
pub(super) fn intervals(device: &DeviceProfile, every: &Every) -> Table {
    let rows = device.intervals.iter().map(interval);
    Table {
        total: count(device.intervals.len() as u64, "part", "parts"),
        below: device.intervals.is_empty().then(|| "this device has no such parts".to_owned()),
        ..table(&["at start", "peak", "at end", "reserved peak"], "from and to", rows)
    }
    .titled(format!("every {every}"))
}

fn interval(part: &Interval) -> RowOfCells {
    let WindowCounters { start, peak, end } = part.held;
    let [start, peak, end] = [start, peak, end].map(|level| Value::Size(level.allocated));
    RowOfCells::new(Tone::Plain, [start, peak, end, Value::size(part.reserved_peak), Value::code(&*part.name)])
}

/// The changed phases of a comparison.
pub(super) fn changes(device: &DeviceDiff, judgement: &Judgement, options: &RenderOptions) -> Table {
    let number = device.id();
    // Collecting in reverse keeps the first and worst of several checks of one phase.
    let of_device = judgement.checks.iter().filter(|check| check.is_of_phases() && check.device == number);
    let (reserved, peaks): (Vec<&Check>, Vec<&Check>) =
        of_device.partition(|check| check.kind() == LimitKind::ReservedInPhases);
    let checks: ChecksByKey<'_> = peaks.into_iter().rev().filter_map(|check| Some((check.key()?, check))).collect();
    let listed = diff::listed_phases(&device.phases, options.top(), options.unchanged, |row| {
        check_of(row, &checks).is_some_and(|check| check.outcome == Outcome::Exceeded)
    });
    let heads = [figure("change"), figure(""), figure("before"), figure("after"), figure(""), words("phase")];
    let reserved = reserved.into_iter().filter_map(reserved_row);
    let changed =
        listed.rows.iter().map(|row| compared_row(row.peak, check_of(row, &checks).map(Mark::of), row.title()));
    Table {
        total: format!("{} compared", thousands(device.phases.len() as u64)),
        below: left_out(device.phases.is_empty(), &listed),
        ..Table::new(heads, reserved.chain(changed))
    }
    .titled("peaks inside phases")
}

/// The checks of the phases of a device, by the key of the phase.
type ChecksByKey<'j> = HashMap<&'j str, &'j Check>;

/// The check of a row: a check is about the occurrence that exceeds the limit by most.
fn check_of<'j>(row: &PhaseRow, checks: &ChecksByKey<'j>) -> Option<&'j Check> {
    let check = *checks.get(&*row.key())?;
    let scope = check.label()?;
    (scope == row.title() || scope == &*row.name).then_some(check)
}

/// The reserved bytes that a check is about, beside which the allocated ones stand.
fn reserved_row(check: &Check) -> Option<RowOfCells> {
    let CheckedFigures { before, after, .. } = check.figures;
    Some(compared_row(Sides { before, after }, Some(Mark::of(check)), format!("{} (reserved)", check.label()?)))
}

fn compared_row(bytes: Change, mark: Option<Mark>, name: String) -> RowOfCells {
    let delta = bytes.gained();
    let tone = match (mark, delta) {
        (Some(mark), _) => Tone::Mark(mark),
        (None, Some(delta)) => Tone::of_change(delta),
        (None, None) => Tone::Mark(Standing::Inconclusive.into()),
    };
    let cells = [
        Value::change(delta),
        Value::percent(delta, bytes.before),
        bytes.before.map_or(Value::missing(), Value::Size),
        bytes.after.map_or(Value::missing(), Value::Size),
        Value::mark(mark),
        Value::code(name),
    ];
    RowOfCells::new(tone, cells)
}

/// The rows that are left out, in words.
fn left_out(is_empty: bool, listed: &ListedPhases<'_>) -> Option<String> {
    if is_empty {
        return Some("neither side has any".to_owned());
    }
    let mut parts = Vec::new();
    if listed.changed > 0 {
        parts.push(format!("{} that changed", count(listed.changed as u64, "more phase", "more phases")));
    }
    if listed.same > 0 {
        parts.push(format!("{} that did not change", count(listed.same as u64, "phase", "phases")));
    }
    (!parts.is_empty()).then(|| format!("and {}", parts.join(", ")))
}
