//! Limits on the growth of stacks: of what they hold at the peak, and of the most that they held at any moment.

use std::iter;

use ptmem_base::pattern::Selector;
use ptmem_base::units::Size;
use ptmem_compare::diff::{Diff, Row, RowKind};
use ptmem_trace::profile::{Bucket, SupposedSizes};
use ptmem_trace::tags::how_to_record;

use super::accepted::{Budget, StackCover};
use super::growth::{Gated, HOW_TO_NAME, labels};
use super::judge::Judge;
use super::judged_figures::{FigureOf, JudgedFigures};
use super::row_names::RowNames;
use super::{Check, CheckedRow, GrowthLimit, LimitKind, Outcome, Thresholds};

/// Rows that grew by more than a limit, and are not checked.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct UncheckedRows {
    /// Some have limits or checks of their own.
    others: bool,
    /// Some changed by less than is checked.
    small: bool,
    /// Some changed only by slack in the blocks of the allocator.
    slack: bool,
    /// Some changed only by what moved into or out of checkpoints.
    checkpointed: bool,
    /// Number of those of which the most that they held at any moment did not exceed the limit.
    elsewhere: u64,
}

impl UncheckedRows {
    /// Adds a row in scope that a figure keeps within the limit, although the one that the limit names is beyond it.
    fn add(&mut self, kept_by: FigureOf) {
        match kept_by {
            FigureOf::Limited => {}
            FigureOf::Highest => self.elsewhere += 1,
            FigureOf::Requested => self.slack = true,
            FigureOf::Code => self.checkpointed = true,
        }
    }

    /// What rows may have changed by, in words.
    fn excepted(self) -> String {
        let slack = self.slack.then(|| "by slack in the blocks of the allocator".to_owned());
        let checkpointed = self.checkpointed.then(|| "by what moved into or out of checkpoints".to_owned());
        let elsewhere = (self.elsewhere > 0).then(|| format!("{} whose highest did not", self.elsewhere));
        let excepted: Vec<String> = [slack, checkpointed, elsewhere].into_iter().flatten().collect();
        if excepted.is_empty() { String::new() } else { format!(", except {}", excepted.join(" and ")) }
    }
}

/// The rows of a device beyond a limit.
#[derive(Default)]
struct ExceedingRows<'a> {
    checks: Vec<(&'a Row, Check)>,
    unchecked: UncheckedRows,
}

impl<'a> Gated<'a> {
    /// A test whether a limit on stacks is about a row: one that its pattern selects, or without a pattern all but those with
    /// limits of their own.
    pub(super) fn scope(&self) -> impl Fn(&Row) -> bool + use<'a> {
        let names = RowNames::of(self.growth.target.kind, self.diff);
        let own = self.growth.target.pattern.as_ref().map(|pattern| names.selector(self.device, pattern));
        let others = self.patterns().filter(|_| own.is_none());
        let others: Vec<Selector<'a>> = others.map(|pattern| names.selector(self.device, pattern)).collect();
        move |row| match &own {
            Some(selector) => names.is_selected(row, selector),
            None => !others.iter().any(|other| names.is_selected(row, other)),
        }
    }

    /// The check that passes where no row exceeds the limit. It says which rows that do are not checked.
    fn passed(&self, unchecked: UncheckedRows) -> Check {
        let mut check = self.check();
        if unchecked != UncheckedRows::default() {
            let other = if unchecked.others { "other " } else { "" };
            let least = Size(self.thresholds.min_delta);
            let large = if unchecked.small { format!(" and at least {least} (min-delta)") } else { String::new() };
            let excepted = unchecked.excepted();
            check.figures.words = Some(check.none(other) + &large + &excepted);
        }
        check
    }

    /// The reason why a row may have grown only by its name: one side records other frames than the other, and the row
    /// has no frames or no partner.
    fn named_otherwise(&self, row: &Row) -> Option<String> {
        let is_alone = match row.kind {
            RowKind::Stack => row.stack.both().is_none(),
            RowKind::Bucket(bucket) => bucket == Bucket::NoFrames,
            RowKind::Others(_) | RowKind::PeakElsewhere => false,
        };
        let differ = self.device.other_frames.as_ref().filter(|_| is_alone)?;
        Some(format!("{differ}; {} cannot be compared", self.growth.target.name()))
    }

    /// The check of a row by the figure that the limit names.
    pub(super) fn compare_row(&self, row: &Row) -> Check {
        let named = CheckedRow { label: row.label.clone(), more: row.lines.more, key: Some(row.key.clone()) };
        let mut check = Check { row: Some(named), ..self.check() };
        let is_of_highest = self.growth.target.kind == LimitKind::StackHighest;
        let change = if is_of_highest { row.highest } else { row.held.map(|held| Some(held.bytes)) };
        check.compare(change, &self.growth.limit);
        check
    }

    /// How agreements cover the rows that exceed limits of its kind and level, or may do so.
    pub(super) fn cover(&self, budget: &Budget<'_>) -> StackCover {
        if self.thresholds.accepted.is_empty() {
            return StackCover::default();
        }
        let exceeding = self.of_kind().flat_map(|gated| gated.exceeding().checks);
        budget.cover_stacks(exceeding.collect(), self.of_kind().flat_map(|gated| gated.uncertain()).collect())
    }

    /// The rows whose sizes are not certain, or were supposed, if they may exceed the limit, with the most bytes by which.
    fn uncertain(&self) -> Vec<(&'a Row, Check, u64)> {
        let scope = self.scope();
        let supposed = SupposedSizes::of(&self.diff.profiles);
        let mut uncertain = Vec::new();
        for row in self.device.rows.iter().filter(|row| row.kind.is_memory()) {
            let unknown = supposed.unknown(iter::once(&row.supposed)).map_or(0, |unknown| unknown.bytes);
            let figures = self.figures_of(row).filter(|figures| unknown > 0 || figures.are_inexact());
            let most = figures.map_or(0, |figures| figures.most_excess(unknown.into(), self.thresholds.min_delta));
            if most > 0 && scope(row) {
                uncertain.push((row, self.compare_row(row), u64::try_from(most).unwrap_or(u64::MAX)));
            }
        }
        uncertain
    }

    /// The check of a row that exceeds the limit, or may do so, where its figures are not known.
    fn check_of(&self, row: &Row, is_known: bool) -> Check {
        let mut check = self.compare_row(row);
        if row.is_older_than_recording() && check.kind() == LimitKind::Stacks {
            check.reason = Some(HOW_TO_NAME.to_owned());
        }
        let unknown = if is_known { self.named_otherwise(row) } else { Some(NO_HIGHEST.to_owned()) };
        if let Some(reason) = unknown {
            check.reason = Some(reason);
            check.outcome = Outcome::Inconclusive;
        }
        check
    }

    /// The rows that may exceed the limit. Others do not, also as the program asks for no more, or memory only moved into or out of
    /// checkpoints.
    fn exceeding(&self) -> ExceedingRows<'a> {
        let scope = self.scope();
        let mut found = ExceedingRows::default();
        for row in self.device.rows.iter().filter(|row| row.kind.is_memory()) {
            let figures = self.figures_of(row);
            let delta = figures.as_ref().map(JudgedFigures::delta);
            let is_large = delta.is_none_or(|delta| delta.unsigned_abs() >= self.thresholds.min_delta.into());
            match figures.as_ref().and_then(JudgedFigures::kept_by) {
                Some(FigureOf::Limited) => {}
                Some(kept_by) if is_large && scope(row) => found.unchecked.add(kept_by),
                Some(_) => {}
                None if !scope(row) => found.unchecked.others |= self.growth.target.pattern.is_none(),
                None if !is_large => found.unchecked.small = true,
                None => found.checks.push((row, self.check_of(row, figures.is_some()))),
            }
        }
        found
    }
}

/// Why the most that a stack held is not known.
const NO_HIGHEST: &str =
    "the saved profile does not contain the highest value of each stack; write it again with this version";

impl Judge {
    /// The totals of stacks, or the most that they held at any moment, of all or those that a pattern names: a check for each that
    /// exceeds the limit, or one that passes.
    pub(super) fn growth_of_stacks(&mut self, gated: &Gated<'_>) {
        let lacking = gated.sides.map(|device| device.at).missing();
        if let Some(side) = lacking.filter(|_| gated.growth.target.kind == LimitKind::Stacks) {
            let moment = &gated.diff.profiles.after.options.at;
            let reason = format!("the {side} has no moment '{moment}' to compare stacks at");
            return self.cannot_tell(gated.check(), reason);
        }
        let by = gated.diff.profiles.after.options.group_by;
        let known = gated.diff.profiles.map(|profile| profile.is_recorded_for(by));
        let lacking = match (known.before, known.after) {
            (true, true) => None,
            (true, false) => Some("the after has"),
            (false, true) => Some("the before has"),
            (false, false) => Some("neither side has"),
        };
        if let Some((side, how)) = lacking.zip(how_to_record(by)) {
            let number = if known.before == known.after { "any" } else { "no" };
            return self.cannot_tell(gated.check(), format!("{side} {number} {}: {how}", by.plural()));
        }
        let checked = self.checks.len();
        let ExceedingRows { mut checks, mut unchecked } = gated.exceeding();
        let budget = gated.budget();
        let covered = self.covers.entry(gated.cover_key()).or_insert_with(|| gated.cover(&budget));
        checks.iter_mut().for_each(|(row, check)| budget.accept_stack(check, row, covered));
        checks.into_iter().for_each(|(_, check)| self.add(check));
        unchecked.others |= self.checks.len() > checked;
        self.or_pass(checked, gated.passed(unchecked), None);
        self.doubt_rows(gated);
    }

    /// Warns of the row whose change is known least, where it could be on the other side of the limit.
    fn doubt_rows(&mut self, gated: &Gated<'_>) {
        let Some(covered) = self.covers.get(&gated.cover_key()) else { return };
        let mut doubtful: Vec<(i128, Check)> = Vec::new();
        for part in gated.stacks(covered).into_iter().filter(|part| part.figures.are_inexact()) {
            let figures = part.figures_beyond_accepted();
            let Some(figure) = figures.in_doubt() else { continue };
            let mut check = part.check;
            if figure.of == FigureOf::Highest {
                check.of.kind = LimitKind::StackHighest;
                check.limit.accepted = 0;
            }
            doubtful.push((figure.error, check));
        }
        // From the back: of equal ones `max_by_key` takes the last.
        if let Some((error, check)) = doubtful.into_iter().rev().max_by_key(|(error, _)| *error) {
            self.tell_within_error(&check, &check.subject(), error);
        }
    }

    /// A pattern that matches no stack on any device of its limit checks nothing.
    pub(super) fn unmatched_pattern(&mut self, diff: &Diff, growth: &GrowthLimit, thresholds: &Thresholds) {
        let mut rows = growth.target.devices_of(diff).flat_map(|device| &device.rows);
        let stacks = [LimitKind::Stacks, LimitKind::StackHighest].contains(&growth.target.kind);
        let pattern = growth.target.pattern.as_ref().filter(|_| stacks);
        let names = RowNames::of(growth.target.kind, diff);
        let unmatched = pattern.filter(|pattern| !rows.any(|row| names.naming(row, pattern).is_some()));
        if let Some(pattern) = unmatched {
            let near = pattern.unmatched("stack", labels(growth.target.devices_of(diff)));
            self.unmatched(growth.check(), thresholds, format!("the pattern matches no stack on either side{near}"));
        }
    }
}
