//! One device of a comparison: metrics, phases, stacks, timelines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::Delta;
use ptmem_compare::diff::{self, ChangeKind, Destination, DeviceDiff, Metric, RowKind};
use ptmem_compare::tree as call_tree;
use ptmem_judge::verdict::{Check, Comparison, LimitKind, Mark, Standing};
use ptmem_trace::profile::{DeviceProfile, Moment};
use ptmem_trace::replay::HistoryKind;
use ptmem_trace::stack::SnapshotCode;

use super::device::{IN_STATE, curve, moment_name};
use super::held::{NO_STACKS, median_note};
use super::stacks::{RowFrames, changed_frames, details, tensors};
use super::{Aside, Column, Content, Curve, Fact, RowOfCells, Table, Tone, Value, figure, phases, pools, tree, words};
use crate::RenderOptions;
use crate::known;
use crate::picture::Picture;
use crate::ranks::{Compared, Others};

/// A device of a comparison, with the other ranks where it is of a job.
pub(super) struct Changed<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) device: &'a DeviceDiff,
    pub(super) picture: Option<&'a Picture>,
    pub(super) others: Option<&'a Others<'a>>,
    pub(super) options: &'a RenderOptions,
}

impl Changed<'_> {
    /// Everything about the device.
    pub(super) fn blocks(&self) -> Vec<Content> {
        let judgement = &self.comparison.judgement;
        let mut blocks = vec![Content::Table(self.metrics())];
        blocks.extend(pools::changes(self.diff().sides_of(self.device), judgement, self.options).map(Content::Table));
        blocks.extend(self.facts());
        if self.options.shows_phases(self.comparison) {
            blocks.push(Content::Table(phases::changes(self.device, judgement, self.options)));
        }
        match &self.options.tree {
            Some(options) if !self.device.rows.is_empty() && self.picture.is_none() => blocks.push(self.tree(options)),
            _ => blocks.extend(self.stacks()),
        }
        blocks
    }

    /// The place of a peak that grew, and the change by what memory is for, at the moment that is compared.
    fn facts(&self) -> Option<Content> {
        let has_grown = self.device.metric(Metric::Peak).gained().is_some_and(|delta| delta > 0);
        let peak = self.device.peaks.after.clone().filter(|_| has_grown);
        let mut facts: Vec<Fact> = peak.map(|peak| Fact::new("peak now at", peak)).into_iter().collect();
        let changes = self.device.categories.iter().filter(|of| of.held.delta() != 0);
        let items: Vec<String> = changes.map(|of| format!("{} {}", of.name, Delta(of.held.delta()))).collect();
        facts.extend((!items.is_empty()).then(|| Fact::of_lines("categories", vec![items])));
        facts.extend(self.totals_at_dump());
        (!facts.is_empty()).then_some(Content::Facts(facts))
    }

    /// The totals that are known of two recordings without a history, beside the allocated bytes.
    fn totals_at_dump(&self) -> Option<Fact> {
        let Sides { before: Some(before), after: Some(after) } = self.diff().sides_of(self.device) else { return None };
        let [before, after] = [before, after].map(|DeviceProfile { figures, .. }| {
            [("active", figures.active.end), ("requested", figures.requested.end), ("reserved", figures.reserved.end)]
        });
        let known = before.into_iter().zip(after).filter_map(|((name, before), (_, after))| {
            Some(format!("{name} {}", Value::sizes(Sides { before: before?, after: after? })))
        });
        let known: Vec<String> = known.collect();
        let are_state_only = Side::BOTH.into_iter().all(|side| self.is_state_only(side));
        (are_state_only && !known.is_empty()).then(|| Fact::of_lines("at the dump", vec![known]))
    }

    fn diff(&self) -> &diff::Diff {
        &self.comparison.diff
    }

    /// The moment whose stacks are listed; a side without a history has its state at the dump in place of the peak.
    fn moment(&self) -> String {
        let at = match &self.diff().profiles.after.options.at {
            // If both peaks are at the same place, a label for their sides is unnecessary.
            Moment::Aligned if self.device.places.as_ref().is_none_or(|places| places.higher_elsewhere() == 0) => {
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
        self.device.index.of(side).is_some_and(|index| profile.devices[index].figures.history == HistoryKind::StateOnly)
    }

    /// The metrics, those first that explain the verdict.
    fn metrics(&self) -> Table {
        let mut rows: Vec<(Standing, RowOfCells)> =
            self.device.metrics.iter().map(|&(metric, _)| self.metric(metric)).collect();
        rows.sort_by_key(|(standing, _)| Reverse(*standing));
        let heads = [words(""), figure("before"), figure("after"), figure("change").main(), figure(""), words("")];
        Table { aside: "Other metrics", ..Table::new(heads, rows.into_iter().map(|(_, row)| row)) }
    }

    fn metric(&self, metric: Metric) -> (Standing, RowOfCells) {
        let change = known::change(metric, self.device, &self.diff().profiles);
        let number = self.device.id();
        let checks = self.comparison.judgement.checks.iter();
        let of_metric = checks
            .filter(|check| check.kind() == LimitKind::Metric(metric) && check.device == number && check.row.is_none());
        // Several limits may apply to one figure: the worst outcome counts.
        let worst = of_metric.min_by_key(|check| Reverse(check.standing()));
        let mark = worst.map(Mark::of);
        let delta = change.gained();
        let cells = [
            Value::words(metric.name()),
            side(self.device.index.before, change.before),
            side(self.device.index.after, change.after),
            Value::change(delta),
            Value::percent(delta, change.before),
            worst.map_or(Value::Nothing, |check| Value::Mark {
                mark: Mark::of(check),
                limit: Some(check.limit.text.clone()),
            }),
        ];
        let aside = if mark.is_some() || self.matters(metric, delta) { Aside::Not } else { Aside::LeftOut };
        (
            mark.map_or(Standing::Ok, |mark| mark.standing),
            RowOfCells { aside, ..RowOfCells::new(Tone::of_mark(mark), cells) },
        )
    }

    /// Whether a metric is shown without a limit: the peak, the reserved memory that the card needs for it, and the
    /// memory held before and after the recording if it differs, and was not held at the peak as well.
    fn matters(&self, metric: Metric, delta: Option<i128>) -> bool {
        let least = u128::from(self.comparison.min_delta.max(1));
        let mut shown = self.device.metrics.iter().filter(|(other, _)| other.is_main());
        let repeats = shown.any(|&(other, change)| {
            other.measure() == metric.measure() && other != metric && change == self.device.metric(metric)
        });
        let has_changed = delta.is_some_and(|delta| delta.unsigned_abs() >= least);
        metric.is_main() || !metric.is_peak() && has_changed && !repeats
    }

    fn tree(&self, options: &call_tree::TreeOptions) -> Content {
        let whole =
            call_tree::of_diff(self.device, self.diff().profiles.after.options.group_by, &self.diff().codes(), options);
        tree::changes(&whole, options, self.options.top(), self.comparison.min_delta, &self.moment())
    }

    /// The stacks that changed, and the curves of both sides.
    fn stacks(&self) -> Vec<Content> {
        let (Some(before), Some(after)) = (self.device.index.before, self.device.index.after) else {
            return Vec::new();
        };
        let profiles = &self.diff().profiles;
        let moment = self.moment();
        let has_moment = profiles.before.devices[before].at.is_some() && profiles.after.devices[after].at.is_some();
        let rows = self.options.listed(self.comparison, self.device);
        let by = profiles.after.options.group_by;
        let stacks = if profiles.each().into_iter().any(|(_, profile)| profile.is_numbers()) {
            Content::Sentence(NO_STACKS.to_owned())
        } else if !has_moment {
            Content::Sentence(format!("no {} {moment}: one side has no such moment", by.plural()))
        } else if rows.is_empty() {
            Content::Sentence(format!("no {} changed {moment}", by.noun()))
        } else {
            Content::Table(self.table(&rows, &self.diff().codes()))
        };
        [stacks].into_iter().chain(self.timelines(before, after).map(Content::Timeline)).collect()
    }

    fn table(&self, rows: &[diff::Row], codes: &Sides<SnapshotCode<'_>>) -> Table {
        let has_others = self.others.is_some();
        let mut columns = vec![figure("change")];
        if has_others {
            columns.extend([figure("median"), figure("ranks")]);
        }
        // On a narrow terminal the label needs the room of the blocks more.
        columns.extend(["before", "after"].map(|head| Column { is_spare: has_others, ..figure(head) }));
        columns.push(figure("blocks").spare());
        let by = self.diff().profiles.after.options.group_by;
        columns.extend([words(""), words(by.noun())]);
        let failed = self.failed();
        let mut with_frames = RowFrames::new(self.options);
        let mut lines = Vec::with_capacity(rows.len());
        for of in rows {
            let named = of.stack_now();
            let row = with_frames.placed(self.row(of), &codes.after, named);
            let mark = failed.contains(of.key.as_str()).then_some(Standing::Exceeded.into());
            let is_explained = self.options.explain || self.options.pictures || of.delta() > 0;
            let row = if of.kind == RowKind::Stack && is_explained {
                with_frames.row(row, || changed_frames(of.explained_by, codes), || summed(of))
            } else {
                row
            };
            lines.push(RowOfCells { mark, ..row });
        }
        let total: i128 = self.device.rows.iter().map(diff::Row::delta).sum();
        Table {
            total: Delta(total).to_string(),
            aside: "Other stacks",
            below: self.others.and_then(median_note),
            explains: self.options.explain,
            without_frames: with_frames.more,
            ..Table::new(columns, lines).titled(format!("{} {}", by.plural(), self.moment()))
        }
    }

    /// The keys of the stacks that exceed a limit of their own.
    fn failed(&self) -> HashSet<&str> {
        let number = self.device.id();
        let checks = self.comparison.judgement.checks.iter();
        let failed = checks.filter(|check| check.device == number && check.standing() == Standing::Exceeded);
        failed.filter_map(Check::key).collect()
    }

    fn row(&self, row: &diff::Row) -> RowOfCells {
        let delta = row.delta();
        let others = match row.kind {
            RowKind::Others(count) => Some(count),
            RowKind::Stack | RowKind::Bucket(_) | RowKind::PeakElsewhere => None,
        };
        let mut cells = vec![Value::Change(delta)];
        if let Some(all) = self.others {
            let median = all.of_median(&row.key).filter(|_| others.is_none());
            cells.push(median.map_or(Value::Nothing, Value::Change));
            cells.push(Value::ranks(all.same(&row.key, delta), all.ranks));
        }
        cells.extend([Value::Size(row.held.before.bytes), Value::Size(row.held.after.bytes)]);
        cells.push(Value::counts(row.held.map(|held| held.blocks)));
        let mean = row.held.map(|held| held.mean());
        cells.push(direction(row));
        cells.push(match others {
            Some(_) => Value::words(&*row.label),
            None => Value::stack(&*row.label, row.lines.more),
        });
        let manner = row.manner().filter(|_| row.kind == RowKind::Stack);
        let is_aside = (delta <= 0 && row.kind != RowKind::PeakElsewhere) || others.is_some();
        RowOfCells {
            note: note(row, manner),
            aside: if is_aside { Aside::Folded } else { Aside::Not },
            others,
            in_picture: self.picture.and_then(|picture| picture.row(&row.key)),
            details: self.picture.map(|_| details(mean, row.highest)).unwrap_or_default(),
            ..RowOfCells::new(row_tone(row), cells)
        }
    }

    /// The curves of both sides on one scale.
    fn timelines(&self, before: usize, after: usize) -> Option<Vec<Curve>> {
        let profiles = &self.diff().profiles;
        let before = curve(&profiles.before.devices[before], Some(Side::Before))?;
        let after = curve(&profiles.after.devices[after], Some(Side::After))?;
        Some(vec![before, after])
    }
}

/// The figure of a side, where the device is there.
pub(super) fn side(device: Option<usize>, figure: Option<u64>) -> Value {
    device.map_or(Value::missing(), |_| Value::size(figure))
}

fn row_tone(row: &diff::Row) -> Tone {
    match (row.kind, row.change) {
        (RowKind::Stack, ChangeKind::Grew | ChangeKind::Added) => Tone::Worse,
        (RowKind::Stack, ChangeKind::Shrank | ChangeKind::Removed) => Tone::Better,
        (RowKind::Stack, ChangeKind::Same | ChangeKind::HeldEarlier | ChangeKind::HeldLater)
        | (RowKind::Bucket(_) | RowKind::Others(_) | RowKind::PeakElsewhere, _) => Tone::Faint,
    }
}

/// A change in words, with the frame of a package that it passes through.
fn note(row: &diff::Row, manner: Option<String>) -> Option<String> {
    let manner = manner.map(|manner| with_mean(&manner, row));
    let through = row.through.as_ref().map(|frame| format!("through {frame}"));
    let parts: Vec<String> = [manner, through].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A change in words, with the mean size of the blocks on both sides.
pub(super) fn with_mean(manner: &str, row: &diff::Row) -> String {
    format!("{manner} ({} on average)", Value::sizes(row.held.map(|held| held.mean())))
}

/// The direction in which a stack changed, and how its code did.
fn direction(row: &diff::Row) -> Value {
    let kind = match (row.kind, row.change, row.moved) {
        (RowKind::PeakElsewhere, ..) => return Value::Nothing,
        (_, ChangeKind::Same, true) => "moved".to_owned(),
        (_, kind, true) => format!("{}, moved", kind.name()),
        (_, kind, false) => kind.name().to_owned(),
    };
    Value::words(kind + row.leads.map(Destination::words).unwrap_or_default())
}

/// The lines of code that a row sums, and the tensors that it consists of.
fn summed(row: &diff::Row) -> Vec<[Value; 2]> {
    let lines = row.lines.all.iter().map(|line| (line.label.clone(), line));
    let shapes = row.shapes.iter().map(|line| {
        let tensors = tensors(&line.label, line.held.after.blocks.max(line.held.before.blocks));
        (tensors, line)
    });
    lines.chain(shapes).map(|(label, line)| [Value::Change(line.held.delta()), Value::code(label)]).collect()
}

/// The stacks that explain why other ranks of a job, or other devices, fail, where they are not those of the worst one: each with
/// its change where it grew most.
pub(super) fn elsewhere(lines: &[Compared<'_>], options: &RenderOptions) -> Option<Content> {
    let (worst, rest) = lines.split_first()?;
    let known = worst.all_rows().iter().filter(|row| row.delta() > 0);
    let known: HashSet<&str> = known.map(|row| row.key.as_str()).collect();
    let mut grew: BTreeMap<&str, Vec<(&diff::Row, &Compared<'_>)>> = BTreeMap::new();
    for line in rest.iter().take_while(|line| line.standing == worst.standing && worst.standing > Standing::Ok) {
        let least = i128::from(line.of.min_delta.max(1));
        let rows = line.all_rows().iter().filter(|row| row.delta() >= least && row.kind.is_memory());
        for row in rows.filter(|row| !known.contains(row.key.as_str())) {
            grew.entry(&row.key).or_default().push((row, line));
        }
    }
    let mut grew: Vec<_> = grew.into_values().collect();
    grew.iter_mut().for_each(|ranks| ranks.sort_by_key(|(row, _)| Reverse(row.delta())));
    grew.sort_by_key(|ranks| Reverse(ranks[0].0.delta()));
    let rows = grew.iter().take(options.limit(grew.len())).map(|ranks| {
        let (row, most) = ranks[0];
        let distinct: HashSet<_> = ranks.iter().map(|(_, line)| std::ptr::from_ref(line.of)).collect();
        let [change, count] = [Value::Change(row.delta()), Value::count(distinct.len() as u64)];
        RowOfCells::new(
            Tone::Worse,
            [change, count, Value::words(&*most.name), Value::stack(&*row.label, row.lines.more)],
        )
    });
    let heads = [figure("change"), figure("ranks"), words("most on"), words("stack")];
    let is_on_worst = grew.iter().flatten().any(|(_, line)| std::ptr::eq(line.of, worst.of));
    let others = if is_on_worst { "devices" } else { "ranks" };
    let table = Table::new(heads, rows).titled(format!("stacks that grew only on other {others}"));
    (!grew.is_empty()).then_some(Content::Table(table))
}
