//! Phases, and equal parts of a history.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{Column, Content, Mark, Noun, Phrase, Row, Table, Tone, Value};
use crate::Options;
use crate::diff::{self, DeviceDiff, ListedPhases, PhaseRow};
use crate::phase::Source;
use crate::profile::{DeviceProfile, Every, Interval, Occurrence};
use crate::text::count;
use crate::verdict::{Check, Judgement, Outcome, Standing};

/// Phases of one name.
struct Group<'d> {
    times: u64,
    depth: u32,
    highest: &'d Occurrence,
}

/// Phases by name, in the order in which they begin.
struct Groups<'d> {
    all: Vec<Group<'d>>,
    by_name: HashMap<(Source, &'d str), usize>,
}

impl<'d> Groups<'d> {
    fn new(phases: impl Iterator<Item = &'d Occurrence>) -> Self {
        let mut groups = Self { all: Vec::new(), by_name: HashMap::new() };
        for phase in phases {
            let place = *groups.by_name.entry((phase.source, &phase.name)).or_insert(groups.all.len());
            match groups.all.get_mut(place) {
                Some(group) => group.add(phase),
                None => groups.all.push(Group { times: 1, depth: phase.depth, highest: phase }),
            }
        }
        groups
    }

    /// Whether there are several phases of that name.
    fn has_several(&self, phase: &Occurrence) -> bool {
        self.by_name.get(&(phase.source, &*phase.name)).is_some_and(|&place| self.all[place].times > 1)
    }
}

impl<'d> Group<'d> {
    fn add(&mut self, phase: &'d Occurrence) {
        self.times += 1;
        self.depth = self.depth.min(phase.depth);
        if phase.peak > self.highest.peak {
            self.highest = phase;
        }
    }

    fn row(&self) -> Row {
        let mut cells = figures(self.highest);
        cells.extend([Value::Number(u64::from(self.highest.number)), Value::Count(self.times), name(self.highest)]);
        Row { depth: self.depth as usize, ..Row::new(Tone::Plain, cells) }
    }
}

/// The phases of a snapshot: one by one, or where there are too many by name, each where it is highest.
pub(super) fn held(device: &DeviceProfile, options: &Options) -> Content {
    let phases: Vec<_> = options.phases_of(device).collect();
    let groups = Groups::new(phases.iter().copied());
    Content::Table(if phases.is_empty() {
        without_phases(device)
    } else if options.top == 0 || phases.len() <= options.top {
        one_by_one(&phases, &groups)
    } else {
        by_name(&groups, phases.len(), options.top)
    })
}

fn without_phases(device: &DeviceProfile) -> Table {
    let why = if device.phases.all.is_empty() {
        "there are no annotations (record_function), metadata or compile contexts"
    } else {
        "all of them are among the first occurrences, which are skipped"
    };
    Table {
        title: Some("phases".to_owned()),
        total: vec!["none".into()],
        below: Some(why.to_owned()),
        ..Table::default()
    }
}

fn one_by_one(phases: &[&Occurrence], groups: &Groups<'_>) -> Table {
    let rows = phases.iter().map(|phase| {
        let mut cells = figures(phase);
        let is_numbered = groups.has_several(phase);
        cells.push(if is_numbered { Value::Number(u64::from(phase.number)) } else { Value::Nothing });
        cells.push(name(phase));
        Row { depth: phase.depth as usize, ..Row::new(Tone::Plain, cells) }
    });
    Table {
        title: Some("phases".to_owned()),
        total: vec![Phrase::count(phases.len() as u64, "occurrence", "occurrences")],
        columns: columns(&["before", "after", "change", "peak inside", "#"], "phase"),
        rows: rows.collect(),
        noun: Noun::PHASE,
        ..Table::default()
    }
}

/// The highest phases, in the order in which they begin.
fn by_name(groups: &Groups<'_>, phases: usize, top: usize) -> Table {
    let mut shown: Vec<usize> = (0..groups.all.len()).collect();
    shown.sort_by_key(|&place| Reverse(groups.all[place].highest.peak));
    let rest = shown.split_off(shown.len().min(top));
    shown.sort_unstable();
    let left: u64 = rest.iter().map(|&place| groups.all[place].times).sum();
    let more = count(rest.len() as u64, "more phase", "more phases");
    let below = format!("and {more} ({})", count(left, "occurrence", "occurrences"));
    let total = Phrase::count(phases as u64, "occurrence", "occurrences");
    Table {
        title: Some("phases, each where it is highest".to_owned()),
        total: vec![total.and(" of ").and(Value::Count(groups.all.len() as u64))],
        columns: columns(&["before", "after", "change", "peak inside", "#", "times"], "phase"),
        rows: shown.iter().map(|&place| groups.all[place].row()).collect(),
        noun: Noun::PHASE,
        below: (!rest.is_empty()).then_some(below),
        ..Table::default()
    }
}

fn columns(figures: &[&str], name: &str) -> Vec<Column> {
    figures.iter().map(|&head| Column::figure(head)).chain([Column::words(name)]).collect()
}

fn figures(phase: &Occurrence) -> Vec<Value> {
    vec![Value::Size(phase.start), Value::Size(phase.end), Value::Change(phase.change()), Value::Size(phase.peak)]
}

fn name(phase: &Occurrence) -> Value {
    let remark = match (phase.source, phase.begins, phase.ends) {
        (Source::Annotation | Source::Pass, false, _) => " (begins before)",
        (Source::Annotation | Source::Pass, true, false) => " (does not end)",
        (Source::Annotation | Source::Pass, true, true) | (Source::Metadata | Source::CompileContext, ..) => "",
    };
    Value::code(format!("{}{remark}", phase.name))
}

/// The equal parts of a history.
pub(super) fn intervals(device: &DeviceProfile, every: &Every) -> Content {
    let is_empty = device.intervals.is_empty();
    Content::Table(Table {
        title: Some(format!("every {every}")),
        total: vec![Phrase::count(device.intervals.len() as u64, "part", "parts")],
        columns: columns(&["before", "peak", "after", "reserved peak"], "from and to"),
        rows: device.intervals.iter().map(interval).collect(),
        below: is_empty.then(|| "this device has no such parts".to_owned()),
        ..Table::default()
    })
}

fn interval(part: &Interval) -> Row {
    let sizes = [Value::Size(part.start), Value::Size(part.peak), Value::Size(part.end)];
    let name = Value::code(&*part.name);
    Row::new(Tone::Plain, sizes.into_iter().chain([Value::size(part.reserved_peak), name]))
}

/// The phases of a comparison: what changed.
pub(super) fn changes(device: &DeviceDiff, judgement: &Judgement, options: &Options) -> Content {
    let checks = PhaseChecks::new(device, judgement);
    let listed = diff::listed_phases(&device.phases, options.top, options.unchanged, |row| checks.is_exceeded(row));
    let heads = [
        Column::figure("change"),
        Column::figure(""),
        Column::figure("before"),
        Column::figure("after"),
        Column::figure(""),
        Column::words("phase"),
    ];
    Content::Table(Table {
        title: Some("peaks inside phases".to_owned()),
        total: vec![Phrase::count(device.phases.len() as u64, "compared", "compared")],
        columns: heads.into(),
        rows: listed.rows.iter().map(|row| change_row(row, checks.find(row))).collect(),
        noun: Noun::PHASE,
        below: left_out(device.phases.is_empty(), &listed),
        ..Table::default()
    })
}

/// The checks of the phases of a device, by the key of the phase.
struct PhaseChecks<'j>(HashMap<&'j str, &'j Check>);

impl<'j> PhaseChecks<'j> {
    fn new(device: &DeviceDiff, judgement: &'j Judgement) -> Self {
        let number = device.ordinal();
        // Collecting in reverse keeps the first and worst of several checks of one phase.
        let of_device = judgement.checks.iter().rev().filter(|check| check.is_of_phases() && check.device == number);
        Self(of_device.filter_map(|check| Some((check.key.as_deref()?, check))).collect())
    }

    /// The check of a row: a check is about the occurrence that exceeds the limit by most.
    fn find(&self, row: &PhaseRow) -> Option<&'j Check> {
        let check = *self.0.get(&*row.key())?;
        let scope = check.scope.as_ref()?;
        (*scope == row.title() || **scope == *row.name).then_some(check)
    }

    fn is_exceeded(&self, row: &PhaseRow) -> bool {
        self.find(row).is_some_and(|check| check.outcome == Outcome::Exceeded)
    }
}

fn change_row(row: &PhaseRow, check: Option<&Check>) -> Row {
    let delta = row.delta();
    let mark = check.map(Mark::of);
    let tone = match (mark, delta) {
        (Some(mark), _) => Tone::Mark(mark),
        (None, Some(delta)) => Tone::of_change(delta),
        (None, None) => Tone::Mark(Mark { standing: Standing::Inconclusive, accepted: false }),
    };
    let cells = [
        Value::change(delta),
        Value::percent(delta, row.peak.before),
        row.peak.before.map_or(Value::Missing, Value::Size),
        row.peak.after.map_or(Value::Missing, Value::Size),
        Value::mark(mark),
        Value::code(row.title()),
    ];
    Row::new(tone, cells)
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
