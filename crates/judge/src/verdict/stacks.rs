//! Limits on the growth of stacks: of what they hold at the peak, and of the most that they held at any moment.

use ptmem_base::pattern::Selector;
use ptmem_base::units::Size;
use ptmem_compare::diff::{Change, Diff, Row, RowKind, Sides};
use ptmem_trace::profile::Bucket;

use super::growth::{Gated, HOW_TO_NAME, has_rows_at_peak, labels};
use super::judge::Judge;
use super::row_names::RowNames;
use super::{Check, CheckedRow, GrowthLimit, LimitKind, Outcome, Thresholds};

/// Bytes of a row on both sides, and how far they may be from the truth.
struct InexactChange {
    change: Change,
    errors: Sides<u64>,
}

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

    /// Whether a change is large enough to be checked.
    fn is_large(&self, delta: i128) -> bool {
        delta.unsigned_abs() >= u128::from(self.thresholds.min_delta)
    }

    /// The check that passes where no row exceeds the limit. It says which rows that do are not checked.
    fn passed(&self, unchecked: UncheckedRows) -> Check {
        let mut check = self.check();
        if unchecked != UncheckedRows::default() {
            let other = if unchecked.others { "other " } else { "" };
            let (of, limit) = (self.growth.target.name(), &self.growth.limit);
            let verb = if check.limit.is_two_sided { "changed" } else { "grew" };
            let least = Size(self.thresholds.min_delta);
            let large = if unchecked.small { format!(" and at least {least} (min-delta)") } else { String::new() };
            let excepted = unchecked.excepted();
            check.figures.words = Some(format!("no {other}{of} {verb} by more than {limit}{large}{excepted}"));
        }
        check
    }

    /// Whether a stack only was held at another moment: its highest did not change as much in the same direction.
    fn is_held_elsewhere(&self, row: &Row) -> bool {
        let Some(highest) = row.highest.both() else { return false };
        let changed_otherwise = highest.delta().signum() != row.delta().signum();
        // At other moments than the peak, the bytes held then count.
        has_rows_at_peak(self.diff) && (changed_otherwise || self.growth.limit.holds(highest.before, highest.delta()))
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

    fn check_named(&self, row: &Row) -> Check {
        let row = CheckedRow { label: row.label.clone(), more: row.lines.more, key: Some(row.key.clone()) };
        Check { row: Some(row), ..self.check() }
    }

    /// The check of a row whose highest exceeds the limit; `None` where it does not, or memory only moved into or
    /// out of checkpoints.
    fn check_of_highest(&self, row: &Row) -> Option<Check> {
        if self.holds_highest_with_checkpoints(row) {
            return None;
        }
        let mut check = self.check_named(row);
        let (Some(before), Some(delta)) = (row.highest.before, check.compare(row.highest, &self.growth.limit)) else {
            let reason =
                "the saved profile does not contain the highest value of each stack; write it again with this version"
                    .to_owned();
            return Some(Check { reason: Some(reason), ..check });
        };
        if let Some(reason) = self.named_otherwise(row) {
            check.reason = Some(reason);
            check.outcome = Outcome::Inconclusive;
        }
        (!self.growth.limit.holds(before, delta)).then_some(check)
    }

    /// The check of a row that may exceed the limit, and the change that must be large enough, where it is known; `None` where it
    /// cannot.
    fn check_of(&self, row: &Row) -> Option<(Check, Option<i128>)> {
        if self.growth.target.kind == LimitKind::StackHighest {
            let check = self.check_of_highest(row)?;
            let delta = check.figures.delta;
            return Some((check, delta));
        }
        Some((self.check_of_row(row)?, Some(row.delta())))
    }

    /// The rows that may exceed the limit.
    fn exceeding(&self) -> ExceedingRows<'a> {
        let scope = self.scope();
        let mut found = ExceedingRows::default();
        for row in self.device.rows.iter().filter(|row| row.kind.is_memory()) {
            let Some((check, delta)) = self.check_of(row) else { continue };
            if !scope(row) {
                found.unchecked.others |= self.growth.target.pattern.is_none();
            } else if !delta.is_none_or(|delta| self.is_large(delta)) {
                found.unchecked.small = true;
            } else {
                found.checks.push((row, check));
            }
        }
        found
    }

    /// Whether the most that the code of a row held at once, in both runs of it together, is within the limit.
    fn holds_highest_with_checkpoints(&self, row: &Row) -> bool {
        let highest = row.joint.and_then(|joint| joint.highest.both());
        highest.is_some_and(|highest| self.growth.limit.holds(highest.before, highest.delta().max(0)))
    }

    /// Whether a row changed by more than the limit on stacks, and not only where the peak is.
    fn exceeds(&self, row: &Row) -> bool {
        self.exceeds_at_place(row) && !self.is_held_elsewhere(row)
    }

    fn exceeds_at_place(&self, row: &Row) -> bool {
        !self.growth.limit.holds(row.held.before.bytes, row.delta())
    }

    /// Whether what the code of a row holds, in both runs of it together, is within the limit.
    fn holds_with_checkpoints(&self, row: &Row) -> bool {
        row.joint.is_some_and(|joint| self.growth.limit.holds(joint.before, joint.delta))
    }

    /// What rows exceed the limit on stacks by without a check.
    fn unchecked_rows(&self) -> UncheckedRows {
        let scope = self.scope();
        let mut unchecked = UncheckedRows::default();
        let rows = self.device.rows.iter().filter(|row| row.kind.is_memory() && self.exceeds_at_place(row));
        for row in rows.filter(|row| self.is_large(row.delta()) && scope(row)) {
            let is_elsewhere = self.is_held_elsewhere(row);
            unchecked.elsewhere += u64::from(is_elsewhere);
            unchecked.slack |= !is_elsewhere && row.is_slack();
            unchecked.checkpointed |= !is_elsewhere && !row.is_slack() && self.holds_with_checkpoints(row);
        }
        unchecked
    }

    /// The same for the limit on the most that they held.
    fn unchecked_highest(&self) -> UncheckedRows {
        let scope = self.scope();
        let rows = self.device.rows.iter().filter(|row| self.holds_highest_with_checkpoints(row) && scope(row));
        let mut changes = rows.filter_map(|row| row.highest.both());
        let checkpointed = changes
            .any(|highest| self.is_large(highest.delta()) && !self.growth.limit.holds(highest.before, highest.delta()));
        UncheckedRows { checkpointed, ..UncheckedRows::default() }
    }

    /// The check of a row that may exceed the limit on stacks; `None` where it cannot, also as the program asks for no more,
    /// or memory only moved into or out of checkpoints.
    fn check_of_row(&self, row: &Row) -> Option<Check> {
        if !self.exceeds(row) || row.is_slack() || self.holds_with_checkpoints(row) {
            return None;
        }
        let mut check = self.check_named(row);
        check.compare(row.held.map(|held| Some(held.bytes)), &self.growth.limit);
        check.outcome = Outcome::Exceeded;
        if row.is_older_than_recording() {
            check.reason = Some(HOW_TO_NAME.to_owned());
        }
        if let Some(reason) = self.named_otherwise(row) {
            check.reason = Some(reason);
            check.outcome = Outcome::Inconclusive;
        }
        Some(check)
    }
}

impl Judge {
    /// The totals of stacks, all or those that a pattern names: a check for each that exceeds the limit, or one that
    /// passes.
    pub(super) fn growth_of_stacks(&mut self, gated: &Gated<'_>) {
        if let Some(side) = gated.sides.map(|device| device.at).missing() {
            let moment = &gated.diff.profiles.after.options.at;
            let reason = format!("the {side} has no moment '{moment}' to compare stacks at");
            return self.cannot_tell(gated.check(), reason);
        }
        let checked = self.checks.len();
        self.growth_of_rows(gated, gated.unchecked_rows());
        self.doubt_rows(gated, checked, |row| InexactChange {
            change: row.held.map(|held| Some(held.bytes)),
            errors: row.held_errors,
        });
    }

    /// The most that stacks held at any moment: a check for each that exceeds the limit, or one that passes.
    pub(super) fn growth_of_highest(&mut self, gated: &Gated<'_>) {
        let checked = self.checks.len();
        self.growth_of_rows(gated, gated.unchecked_highest());
        self.doubt_rows(gated, checked, |row| InexactChange { change: row.highest, errors: row.highest_errors });
    }

    /// Warns of the row whose change is known least, where it could be on the other side of the limit. The first of its checks is
    /// at `checked`.
    fn doubt_rows(&mut self, gated: &Gated<'_>, checked: usize, inexact: impl Fn(&Row) -> InexactChange) {
        let scope = gated.scope();
        let doubtful = gated.device.rows.iter().filter_map(|row| {
            let InexactChange { change, errors } = inexact(row);
            let error = i128::from(errors.before) + i128::from(errors.after);
            if error == 0 || !row.kind.is_memory() || !scope(row) {
                return None;
            }
            let mut check = gated.check_named(row);
            let delta = check.compare(change, &gated.growth.limit)?;
            if let Some(own) = self.checks[checked..].iter().find(|own| own.key() == Some(&*row.key)) {
                check.limit.accepted = own.limit.accepted;
                check.outcome = own.outcome;
            }
            let is_large = gated.is_large(delta.abs().saturating_add(error));
            (is_large && check.crosses_within(error)).then_some((error, check))
        });
        // From the back: of equal ones `max_by_key` takes the last.
        let doubtful: Vec<(i128, Check)> = doubtful.collect();
        if let Some((error, check)) = doubtful.into_iter().rev().max_by_key(|(error, _)| *error) {
            self.tell_within_error(&check, &check.subject(), error);
        }
    }

    /// Adds the checks that rows exceed, or one that passes.
    fn growth_of_rows(&mut self, gated: &Gated<'_>, unchecked: UncheckedRows) {
        let checked = self.checks.len();
        let ExceedingRows { mut checks, unchecked: found } = gated.exceeding();
        if !gated.thresholds.accepted.is_empty() {
            let budget = gated.budget();
            let key = (gated.device.id(), gated.growth.target.kind, gated.growth.level);
            let of_kind = gated.of_kind().flat_map(|gated| gated.exceeding().checks);
            let covered = self.covers.entry(key).or_insert_with(|| budget.cover_stacks(of_kind));
            checks.iter_mut().for_each(|(row, check)| budget.accept_stack(check, row, covered));
        }
        checks.into_iter().for_each(|(_, check)| self.add(check));
        let others = found.others || self.checks.len() > checked;
        self.or_pass(checked, gated.passed(UncheckedRows { others, small: found.small, ..unchecked }), None);
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
