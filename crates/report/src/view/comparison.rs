//! Comparisons with one verdict: a pair of snapshots, a suite of pairs, the ranks of jobs.

use std::cmp::Reverse;

use ptmem_base::sides::{Side, Sides};
use ptmem_base::text::count;
use ptmem_compare::diff::cause::Figure;
use ptmem_compare::diff::{Change, DeviceDiff};
use ptmem_judge::verdict::{
    Comparison, Gate, GateNode, Job, Judged, Mark, Member, Ranks, Standing, Verdict, has_ranks,
};

use super::changes::{self, Changed, with_mean};
use super::remarks::{checks, remarks};
use super::table::rows;
use super::{
    Column, Explanation, Fact, Group, RowOfCells, Section, SourceFile, Table, Tone, Value, View, acceptance, device,
    figure, serving, words,
};
use crate::RenderOptions;
use crate::finding::grew_most;
use crate::known::peak;
use crate::picture::Picture;
use crate::place::user_place;
use crate::ranks::{self, Compared, Others, RankLine};

/// The model of a gate.
pub(crate) fn view(gate: &Gate, options: &RenderOptions) -> View {
    let groups = gate.nodes.iter().filter_map(|node| match node {
        GateNode::One(pair) => Some(of_comparison(pair, options)),
        GateNode::Job(job) if job.members.is_empty() => None,
        GateNode::Job(job) => Some(of_job(job, gate.is_one_job(), options)),
    });
    View {
        headline: Some(gate.headline()),
        is_gated: gate.is_gated(),
        explanation: explanation(gate, options),
        acceptance: acceptance::ways(gate, options),
        overview: overview(gate, options),
        groups: groups.collect(),
        ..View::default()
    }
}

/// The comparison of two snapshots.
fn of_comparison(comparison: &Comparison, options: &RenderOptions) -> Group {
    let Comparison { diff, judgement, .. } = comparison;
    let sides = diff.profiles.each();
    let sections = diff.devices.iter().map(|device| Section {
        growth: peak(comparison, Some(device)).gained().unwrap_or(0),
        ..section(comparison, device, None, options)
    });
    let mut sections: Vec<Section> = sections.collect();
    // The section that explains the verdict comes first.
    sections.sort_by_key(|section| Reverse(section.standing));
    Group {
        name: comparison.name.clone(),
        sources: sides.iter().map(|&(side, profile)| SourceFile::of_profile(Some(side), profile)).collect(),
        facts: serving::facts(&sides.map(|(_, profile)| profile)).into_iter().collect(),
        sections,
        remarks: remarks(comparison.diagnostics(), diff.devices.len() > 1),
        checks: checks(judgement),
        recording: options.pictures.then(|| device::recordings(&sides.map(|(side, profile)| (side.name(), profile)))),
        headline: Some(judgement.headline()),
        ..Group::default()
    }
}

/// A device of a comparison, with the other ranks where it is of a job.
fn section(
    comparison: &Comparison,
    device: &DeviceDiff,
    others: Option<&Others<'_>>,
    options: &RenderOptions,
) -> Section {
    let picture = options.pictures.then(|| Picture::of_diff(&comparison.diff, device, options.internals()));
    Section {
        name: device.name(),
        standing: comparison.judgement.standing(device.id()),
        blocks: Changed { comparison, device, picture: picture.as_ref(), others, options }.blocks(),
        picture,
        ..Section::default()
    }
}

/// The ranks of a job in a table, and what all of them have in common.
pub(super) fn of_ranks<T: Judged, D>(
    job: &Job<T>,
    lines: &[RankLine<'_, T, D>],
    has_ranks: bool,
    table: Table,
) -> Group {
    let Job { ranks, .. } = job;
    let found = ranks::diagnostics_of_job(job);
    Group {
        name: ranks.name.clone(),
        ranks: Some(table),
        facts: imbalance(ranks).into_iter().filter(|_| has_ranks).collect(),
        remarks: remarks(found.iter().map(|(side, found)| (*side, found)), false),
        checks_of_job: checks(&ranks.judgement),
        checks: lines.first().and_then(|line| line.of.judgement()).map(checks).unwrap_or_default(),
        ..Group::default()
    }
}

/// The comparisons of the ranks of a job: all ranks in a table, and the one that fares worst.
fn of_job(job: &Job<Comparison>, is_all: bool, options: &RenderOptions) -> Group {
    let lines = ranks::compared(job);
    let shown = lines.iter().take(options.ranks_in_full());
    let table = Table::new(heads(), rank_rows(&job.ranks, &lines, None, options));
    Group {
        sources: Side::BOTH.map(|side| source_of_job(job, side)).into(),
        sections: shown.filter_map(|line| section_of_rank(line, &lines, options)).collect(),
        headline: job.headline().filter(|_| !is_all),
        ..of_ranks(job, &lines, has_ranks(members(job)), table)
    }
}

fn source_of_job(job: &Job<Comparison>, side: Side) -> SourceFile {
    let Job { members: compared, ranks } = job;
    let path = ranks.paths.of(side).clone().unwrap_or_default();
    let alone = ranks.missing.iter().filter(|missing| missing.side != side).count();
    SourceFile { side: Some(side), path, amount: amount(compared.len() + alone, has_ranks(members(job))) }
}

fn section_of_rank(line: &Compared<'_>, lines: &[Compared<'_>], options: &RenderOptions) -> Option<Section> {
    let all = Others::changes(lines);
    let mut section = section(line.of, line.device?, Some(&all).filter(|others| others.ranks > 1), options);
    if lines.first().is_some_and(|worst| worst.name == line.name) {
        section.blocks.extend(changes::elsewhere(lines, options));
    }
    Some(Section { name: line.name.clone(), growth: line.figure.unwrap_or(0), ..section })
}

fn members(job: &Job<Comparison>) -> impl Iterator<Item = &Member> {
    let compared = job.members.iter().filter_map(|comparison| comparison.member.as_ref());
    compared.chain(job.ranks.missing.iter().map(|missing| &missing.member))
}

/// The number of ranks or cases.
pub(super) fn amount(number: usize, has_ranks: bool) -> String {
    let [one, many] = if has_ranks { ["rank", "ranks"] } else { ["case", "cases"] };
    count(number as u64, one, many)
}

/// The distance of the highest peak from the median.
fn imbalance(ranks: &Ranks) -> Vec<Fact> {
    let sizes = match (ranks.imbalance.before, ranks.imbalance.after) {
        (Some(before), Some(after)) => Value::sizes(Sides { before, after }),
        (None, Some(after)) => Value::Size(after),
        (_, None) => return Vec::new(),
    };
    vec![Fact::new("imbalance", format!("{sizes} (the highest peak less the median)"))]
}

fn heads() -> [Column; 6] {
    [words("peak"), figure("before"), figure("after"), figure("change").main(), figure(""), words("")]
}

/// A row for each device, the worst first; empty if there is only one.
fn overview(gate: &Gate, options: &RenderOptions) -> Option<Table> {
    let mut devices: Vec<(&Comparison, Option<&DeviceDiff>)> = Vec::new();
    for comparison in gate.singles() {
        devices.extend(comparison.diff.devices.iter().map(|device| (comparison, Some(device))));
        devices.extend(comparison.diff.devices.is_empty().then_some((comparison, None)));
    }
    if devices.len() < 2 && gate.jobs().next().is_none() {
        return None;
    }
    devices.sort_by_key(|&(comparison, device)| {
        let standing = comparison.judgement.standing(device.and_then(DeviceDiff::id));
        Reverse((standing, peak(comparison, device).gained().unwrap_or(0)))
    });
    let mut rows: Vec<RowOfCells> =
        devices.into_iter().map(|(comparison, device)| device_row(comparison, device)).collect();
    for job in gate.jobs() {
        rows.extend(rank_rows(&job.ranks, &ranks::compared(job), job.ranks.name.as_deref(), options));
    }
    Some(Table::new(heads(), rows))
}

fn device_row(comparison: &Comparison, device: Option<&DeviceDiff>) -> RowOfCells {
    let number = device.and_then(DeviceDiff::id);
    let mark = ranks::mark(comparison.judgement.standing(number), &comparison.judgement, number);
    let name = device.map_or_else(|| "no device".to_owned(), DeviceDiff::name);
    figures_row(named(comparison.name.as_deref(), &name), device, peak(comparison, device), mark)
}

fn figures_row(name: String, device: Option<&DeviceDiff>, change: Change, mark: Option<Mark>) -> RowOfCells {
    let index = device.map(|device| device.index).unwrap_or_default();
    let cells = [
        Value::words(name),
        changes::side(index.before, change.before),
        changes::side(index.after, change.after),
        Value::change(change.gained()),
        Value::percent(change.gained(), change.before),
        Value::mark(mark),
    ];
    RowOfCells::new(Tone::of_mark(mark), cells)
}

/// The ranks of a job, the worst first, a row for the rest, and the ranks that one side lacks.
fn rank_rows(job: &Ranks, lines: &[Compared<'_>], name: Option<&str>, options: &RenderOptions) -> Vec<RowOfCells> {
    let listed = rows(
        lines,
        options,
        |line| figures_row(named(name, &line.name), line.device, peak(line.of, line.device), line.mark),
        |rest, others| {
            let changes = Value::change_range(rest.iter().map(|line| line.figure));
            let mark = Value::mark(ranks::common(rest.iter().map(|line| line.mark)));
            let name = Value::words(named(name, &others.to_string()));
            vec![name, Value::Nothing, Value::Nothing, changes, Value::Nothing, mark]
        },
    );
    let missing = rows(
        &job.missing,
        options,
        |missing| missing_row(named(name, &missing.member.label), missing.side),
        |_, others| missing_row(named(name, &others.to_string()), Side::After).cells,
    );
    listed.into_iter().chain(missing).collect()
}

/// The name of a rank or a device, behind that of its job or comparison where there are several.
fn named(scope: Option<&str>, name: &str) -> String {
    scope.map_or_else(|| name.to_owned(), |scope| format!("{scope}: {name}"))
}

fn missing_row(name: String, side: Side) -> RowOfCells {
    let mark = Mark::from(Standing::Inconclusive);
    let mut cells = [const { Value::Nothing }; 6];
    cells[0] = Value::words(name);
    cells[if side == Side::Before { 1 } else { 2 }] = Value::missing();
    cells[5] = Value::mark(Some(mark));
    RowOfCells::new(Tone::Mark(mark), cells)
}

/// The stack that explains the verdict in one line: that of its check, or that which grew most at the peak if the check is
/// about that.
fn explanation(gate: &Gate, options: &RenderOptions) -> Option<Explanation> {
    let explained = match gate.verdict() {
        Verdict::Regression => Standing::Exceeded,
        Verdict::Pass => Standing::Warning,
        Verdict::Inconclusive => return None,
    };
    let Comparison { diff, judgement, .. } = gate.worst_first().into_iter().next()?;
    let check = judgement.checks.iter().find(|check| check.standing() == explained)?;
    let device = diff.devices.iter().find(|device| device.id() == check.device)?;
    let Sides { after, .. } = diff.codes();
    let row = match (check.key(), check.explained_by(diff, device)) {
        (Some(key), _) => device.rows.iter().find(|row| row.key == key),
        (None, Some(Figure::Peak)) if !check.is_improvement() => grew_most(device, &after),
        (None, _) => None,
    }?;
    let place = row.stack_now().and_then(|stack| user_place(&after, stack, options));
    // The number of blocks alone could hide that their size changed by more.
    let manner = row.manner().map(|manner| with_mean(&manner, row));
    Some(Explanation { label: row.label.clone(), kind: row.change, delta: row.delta(), manner, place })
}
