//! One device of a comparison: metrics, phases, stacks, timelines.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::device::{IN_STATE, curve, moment_name};
use super::held::median_note;
use super::stacks::{first_ones, tensors};
use super::{
    Aside, Block, CallStack, CallStacks, Column, Content, Fact, Mark, Note, Noun, Phrase, Row, Site, StackChange,
    StackChanges, StackLine, SummedLine, Table, Timeline, Tone, Value, details, explain, phases, tree,
};
use crate::Options;
use crate::diff::{self, DeviceDiff, Kind, Metric, RowKind, RowLine};
use crate::known;
use crate::picture::Picture;
use crate::profile::Moment;
use crate::ranks::{self, Compared, Others};
use crate::replay::History;
use crate::sides::{Side, Sides};
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::tree as call_tree;
use crate::units::Delta;
use crate::verdict::{Comparison, Standing, Target};

/// The mark of a stack that exceeds a limit of its own.
const FAILED: Mark = Mark { standing: Standing::Exceeded, accepted: false };

/// A device of a comparison, with the other ranks where it is of a job.
pub(super) struct Changed<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) device: &'a DeviceDiff,
    pub(super) picture: Option<&'a Picture>,
    pub(super) others: Option<&'a Others<'a>>,
    pub(super) options: &'a Options,
}

impl Changed<'_> {
    /// Everything about the device.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let judgement = &self.comparison.judgement;
        let mut blocks = vec![Block::open(Content::Table(self.metrics()))];
        blocks.extend(self.categories());
        if self.options.shows_phases(self.comparison) {
            blocks.push(Block::open(phases::changes(self.device, judgement, self.options)));
        }
        match &self.options.tree {
            Some(options) if !self.device.rows.is_empty() && self.picture.is_none() => {
                blocks.push(Block::open(self.tree(options)));
            }
            _ => blocks.extend(self.stacks()),
        }
        blocks
    }

    /// The change by what memory is for, at the moment that is compared.
    fn categories(&self) -> Option<Block> {
        let changes = self.device.categories.iter();
        let items: Vec<Phrase> = changes
            .map(|change| Phrase::from(Value::code(&*change.name)).and(" ").and(Value::Change(change.delta())))
            .collect();
        let fact = Fact::of_lines("categories", vec![items]);
        (!self.device.categories.is_empty()).then(|| Block::open(Content::Facts(vec![fact])))
    }

    fn diff(&self) -> &diff::Diff {
        &self.comparison.diff
    }

    /// The moment whose stacks are listed; a side without a history has its state at the dump in place of the peak.
    fn moment(&self) -> String {
        let at = match &self.diff().profiles.after.options.at {
            // Where both peaks are the same place, nobody needs to know whose it is.
            Moment::Aligned(_) if self.device.places.as_ref().is_none_or(|places| places.higher_elsewhere() == 0) => {
                &Moment::Peak
            }
            at => at,
        };
        let moment = moment_name(at);
        if !matches!(at, Moment::Peak | Moment::Baseline) {
            return moment;
        }
        match Side::BOTH.into_iter().filter(|side| self.is_state_only(*side)).collect::<Vec<_>>()[..] {
            [] => moment,
            [side] => format!("{moment}, of the {} {IN_STATE}", side.name()),
            _ => IN_STATE.to_owned(),
        }
    }

    /// Whether a side has no history, only its state at the dump.
    fn is_state_only(&self, side: Side) -> bool {
        let profile = self.diff().profiles.of(side);
        self.device.index.of(side).is_some_and(|index| profile.devices[index].figures.history == History::StateOnly)
    }

    /// The metrics, those first that explain the verdict.
    fn metrics(&self) -> Table {
        let mut rows: Vec<(Standing, Row)> =
            self.device.metrics.iter().map(|&(metric, _)| self.metric(metric)).collect();
        rows.sort_by_key(|(standing, _)| Reverse(*standing));
        let columns = vec![
            Column::words(""),
            Column::figure("before"),
            Column::figure("after"),
            Column::figure("change").main(),
            Column::figure(""),
            Column::words(""),
        ];
        Table {
            columns,
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            noun: Noun::METRIC,
            aside: "Other metrics",
            ..Table::default()
        }
    }

    fn metric(&self, metric: Metric) -> (Standing, Row) {
        let change = known::change(metric, self.device, &self.diff().profiles);
        let number = self.device.ordinal();
        let checks = self.comparison.judgement.checks.iter();
        let of_metric = checks
            .filter(|check| check.is_of(&Target::Metric(metric)) && check.device == number && check.scope.is_none());
        // Several limits may stand on one figure: the worst outcome counts.
        let worst = of_metric.min_by_key(|check| Reverse(check.standing()));
        let mark = worst.map(Mark::of);
        let delta = change.delta();
        let cells = [
            metric.name().into(),
            side(self.device.index.before, change.before),
            side(self.device.index.after, change.after),
            Value::change(delta),
            Value::percent(delta, change.before),
            worst.map_or(Value::Nothing, |check| Value::Mark {
                mark: Mark::of(check),
                limit: Some(check.limit.clone()),
            }),
        ];
        let aside = if mark.is_some() || self.matters(metric, delta) { Aside::Not } else { Aside::LeftOut };
        (mark.map_or(Standing::Ok, |mark| mark.standing), Row { aside, ..Row::new(Tone::of_mark(mark), cells) })
    }

    /// Whether a metric without a limit tells more than others do: the peak, what the card has to hold for it, and what
    /// is held before and after the recording where that is another amount.
    fn matters(&self, metric: Metric, delta: Option<i128>) -> bool {
        match metric {
            Metric::Peak | Metric::Reserved => true,
            Metric::Baseline | Metric::End => {
                delta.is_some_and(|delta| delta.unsigned_abs() >= u128::from(self.comparison.min_delta.max(1)))
            }
            Metric::Active | Metric::Requested | Metric::Fragmentation => false,
        }
    }

    fn tree(&self, options: &call_tree::Options) -> Content {
        let whole =
            call_tree::of_diff(self.device, self.diff().profiles.after.options.group_by, &self.diff().codes(), options);
        tree::changes(&whole, options, self.options.top, self.comparison.min_delta, &self.moment())
    }

    /// The stacks that changed, the curves of both sides, and what explains the rows.
    fn stacks(&self) -> Vec<Block> {
        let (Some(before), Some(after)) = (self.device.index.before, self.device.index.after) else {
            return Vec::new();
        };
        let profiles = &self.diff().profiles;
        let timelines = self.timelines(before, after).map(Content::Timeline).map(Block::folded);
        let moment = self.moment();
        let has_moment = profiles.before.devices[before].at.is_some() && profiles.after.devices[after].at.is_some();
        let rows = self.listed();
        if !has_moment || rows.is_empty() {
            let by = profiles.after.options.group_by;
            let sentence = if has_moment {
                format!("no {} changed {moment}", by.noun())
            } else {
                format!("no {} {moment}: not both sides have such a moment", by.plural())
            };
            return [Block::open(Content::Sentence(sentence))].into_iter().chain(timelines).collect();
        }
        let codes = self.diff().codes();
        let mut blocks = vec![Block::open(Content::Table(self.table(&rows, &codes)))];
        if self.options.explain {
            blocks.push(Block::open(Content::StackChanges(stack_changes(&rows, &codes))));
        }
        blocks.extend(timelines);
        let grew = rows.iter().filter(|row| row.delta() > 0 && row.kind.is_memory());
        let grew: Vec<_> = grew.filter_map(|row| Some((row, row.stack.after?))).collect();
        // The rows of a page have their frames.
        if !grew.is_empty() && !self.options.pictures {
            let made = grew.iter().map(|(row, stack)| self.call_stack(row, *stack, &codes.after));
            let stacks = CallStacks::new("Call stacks of what grew", made, grew.len());
            blocks.push(Block::folded(Content::CallStacks(stacks)));
        }
        blocks
    }

    fn listed(&self) -> Vec<diff::Row> {
        let explains = self.comparison.judgement.explanation(self.device);
        diff::listed(&self.device.rows, self.options.listing(self.comparison), explains)
    }

    fn table(&self, rows: &[diff::Row], codes: &Sides<Code<'_>>) -> Table {
        let has_others = self.others.is_some();
        let mut columns = vec![Column::figure("change")];
        if has_others {
            columns.extend([Column::figure("median"), Column::figure("ranks")]);
        }
        // Change and after say what was there before: on a narrow terminal the label needs the room more.
        columns.push(Column::figure("before").spare());
        columns.extend(["after", "blocks"].map(|head| Column { is_spare: has_others, ..Column::figure(head) }));
        if self.picture.is_some() {
            columns.extend(details::columns());
        }
        let by = self.diff().profiles.after.options.group_by;
        columns.extend([Column::words(""), Column::words(by.noun())]);
        let medians = self.others.map(|others| ranks::medians_of_rows(others, rows)).unwrap_or_default();
        let failed = self.failed();
        let lines = rows.iter().enumerate().map(|(at, row)| {
            let mark = failed.contains(row.key.as_str()).then_some(FAILED);
            let site = row.stack.after.and_then(|stack| Site::new(&codes.after, stack, self.options));
            let frames = if at < details::MOST_FRAMES { self.frames(row, codes) } else { Vec::new() };
            let shows_source = self.options.source;
            let summed = if frames.is_empty() { Vec::new() } else { summed(row) };
            Row { mark, site, shows_source, summed, frames, ..self.row(row, medians.get(at).copied().flatten()) }
        });
        let total: i128 = self.device.rows.iter().map(diff::Row::delta).sum();
        Table {
            title: Some(format!("{} {}", by.plural(), self.moment())),
            total: vec![Value::Change(total).into()],
            columns,
            rows: lines.collect(),
            noun: Noun::of(by),
            aside: "Other stacks",
            below: self.others.and_then(median_note),
        }
    }

    /// The frames of a row on both sides, for a page.
    fn frames(&self, row: &diff::Row, codes: &Sides<Code<'_>>) -> Vec<StackLine> {
        match (self.picture, row.kind) {
            (Some(_), RowKind::Stack) => stack_change(row, codes).lines,
            _ => Vec::new(),
        }
    }

    /// The keys of the stacks that exceed a limit of their own.
    fn failed(&self) -> HashSet<&str> {
        let number = self.device.ordinal();
        let checks = self.comparison.judgement.checks.iter();
        let failed = checks.filter(|check| check.device == number && check.standing() == Standing::Exceeded);
        failed.filter_map(|check| check.key.as_deref()).collect()
    }

    fn row(&self, row: &diff::Row, median: Option<i128>) -> Row {
        let Sides { before, after } = row.held;
        let delta = row.delta();
        let mut cells = vec![Value::Change(delta)];
        if let Some(others) = self.others {
            cells.push(median.map_or(Value::Nothing, Value::Change));
            cells.push(Value::Ranks { same: others.same(&row.key, delta), of: others.ranks });
        }
        cells.extend([Value::Size(before.bytes), Value::Size(after.bytes)]);
        cells.push(Value::Counts(row.held.map(|held| held.blocks)));
        if let Some(picture) = self.picture {
            let span = picture.span(&row.key);
            cells.extend(details::cells(row.held.map(|held| held.mean()), row.highest, span));
        }
        cells.push(match row.kind {
            RowKind::PeakElsewhere => Value::Nothing,
            _ => Value::Direction { kind: row.change, moved: row.moved, is_touched: row.touched.is_some() },
        });
        let others = match row.kind {
            RowKind::Others(count) => Some(count),
            RowKind::Stack | RowKind::Bucket(_) | RowKind::PeakElsewhere => None,
        };
        cells.push(if others.is_some() {
            Value::words(&*row.label)
        } else {
            Value::stack(&*row.label, row.lines.more)
        });
        let mean = Sides { before: before.mean(), after: after.mean() };
        let manner = row.manner().filter(|_| row.kind == RowKind::Stack);
        let is_aside = (delta <= 0 && row.kind != RowKind::PeakElsewhere) || others.is_some();
        Row {
            note: manner.map(|words| Note { words, mean }),
            aside: if is_aside { Aside::Folded } else { Aside::Not },
            others,
            in_picture: self.picture.and_then(|picture| picture.row(&row.key)),
            ..Row::new(row_tone(row), cells)
        }
    }

    /// The call stack of a row that grew.
    fn call_stack(&self, row: &diff::Row, stack: StackId, after: &Code<'_>) -> CallStack {
        CallStack {
            amount: Value::Change(row.delta()),
            label: row.label.clone(),
            also: Vec::new(),
            lines: summed(row),
            frames: call_tree::frames(after, stack),
            site: Site::new(after, stack, self.options),
        }
    }

    /// The curves of both sides on one scale.
    fn timelines(&self, before: usize, after: usize) -> Option<Timeline> {
        let profiles = &self.diff().profiles;
        let before = curve(&profiles.before.devices[before], Some(Side::Before))?;
        let after = curve(&profiles.after.devices[after], Some(Side::After))?;
        let top = before.peak.max(after.peak);
        Some(Timeline { curves: vec![before, after], top, caption: None })
    }
}

/// The figure of a side, where the device is there.
fn side(device: Option<usize>, figure: Option<u64>) -> Value {
    device.map_or(Value::Missing, |_| Value::size(figure))
}

fn row_tone(row: &diff::Row) -> Tone {
    match (row.kind, row.change) {
        (RowKind::Stack, Kind::Grew | Kind::Added) => Tone::Worse,
        (RowKind::Stack, Kind::Shrank | Kind::Removed) => Tone::Better,
        (RowKind::Stack, Kind::Same | Kind::HeldEarlier | Kind::HeldLater)
        | (RowKind::Bucket(_) | RowKind::Others(_) | RowKind::PeakElsewhere, _) => Tone::Faint,
    }
}

/// How the stacks of the rows differ.
fn stack_changes(rows: &[diff::Row], codes: &Sides<Code<'_>>) -> StackChanges {
    let stacks = rows.iter().filter(|row| row.kind == RowKind::Stack);
    let all = first_ones(stacks.clone().map(|row| stack_change(row, codes)), |change| change.lines.len());
    let more = stacks.count() - all.len();
    StackChanges { all, more }
}

fn stack_change(row: &diff::Row, codes: &Sides<Code<'_>>) -> StackChange {
    let before = row.stack.before.map(|stack| (&codes.before, stack));
    let after = row.stack.after.map(|stack| (&codes.after, stack));
    let lines = explain::lines(before, after);
    StackChange { delta: Delta(row.delta()), label: row.label.clone(), summed: summed(row), lines }
}

/// The lines of code that a row sums, and the tensors that it consists of.
fn summed(row: &diff::Row) -> Vec<SummedLine> {
    let tensors = row.shapes.iter().map(|line| SummedLine {
        amount: Value::Change(line.held.delta()),
        label: tensors(&line.label, line.held.after.blocks.max(line.held.before.blocks)),
    });
    row.lines.all.iter().map(SummedLine::from).chain(tensors).collect()
}

impl From<&RowLine> for SummedLine {
    fn from(line: &RowLine) -> Self {
        Self { amount: Value::Change(line.held.delta()), label: line.label.clone() }
    }
}

/// The stacks that explain why other ranks of a job fail, where they are not those of the worst rank.
pub(super) fn elsewhere(lines: &[Compared<'_>], options: &Options) -> Option<Block> {
    let found = ranks::elsewhere(lines, options);
    if found.is_empty() {
        return None;
    }
    let rows = found.into_iter().map(|ranks::Elsewhere { row, name, ranks }| {
        let cells = [
            Value::Change(row.delta()),
            Value::Count(ranks as u64),
            Value::words(name),
            Value::stack(&*row.label, row.lines.more),
        ];
        Row::new(Tone::Worse, cells)
    });
    let columns =
        vec![Column::figure("change"), Column::figure("ranks"), Column::words("most on"), Column::words("stack")];
    Some(Block::open(Content::Table(Table {
        title: Some("stacks that grew on other ranks alone".to_owned()),
        columns,
        rows: rows.collect(),
        noun: Noun::STACK,
        ..Table::default()
    })))
}
