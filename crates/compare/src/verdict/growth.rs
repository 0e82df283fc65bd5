//! Limits on growth: a device of a comparison under one of them.

use super::accepted::Budget;
use super::judge::{NO_ERROR, no_history};
use super::modules::{self, LimitedModules};
use super::phases::{LimitedPhases, PhaseScope};
use super::{Check, Checked, Growth, Judge, Outcome, Target, Thresholds};
use crate::align::End;
use crate::diagnostic::Advice;
use crate::diff::{Change, DeviceDiff, Diff, Row, RowKind, Sides};
use crate::pattern::{Pattern, Selector};
use crate::profile::{Bucket, DeviceProfile, Metric, Moment};
use crate::units::Size;

/// A device of a comparison under one limit on growth.
pub(super) struct Gated<'a> {
    diff: &'a Diff,
    device: &'a DeviceDiff,
    /// The device on each side, where it exists.
    profiles: Sides<Option<&'a DeviceProfile>>,
    growth: &'a Growth,
    thresholds: &'a Thresholds,
}

/// The advice for memory without a name.
const HOW_TO_NAME: &str = "allocated before the recording: record from the start of the process, and start again right \
                           before the steps, to see its stacks";

/// Stacks that a limit is about.
enum Scope<'p> {
    /// Those that a pattern selects.
    Only(Selector<'p>),
    /// All but those with limits of their own.
    AllBut(Vec<Selector<'p>>),
}

impl Scope<'_> {
    fn holds(&self, row: &Row) -> bool {
        match self {
            Self::Only(selector) => row.is_selected(selector),
            Self::AllBut(others) => !others.iter().any(|other| row.is_selected(other)),
        }
    }
}

impl<'a> Gated<'a> {
    pub(super) fn new(diff: &'a Diff, device: &'a DeviceDiff, growth: &'a Growth, thresholds: &'a Thresholds) -> Self {
        let profiles = Sides {
            before: device.index.before.map(|i| &diff.profiles.before.devices[i]),
            after: device.index.after.map(|i| &diff.profiles.after.devices[i]),
        };
        Self { diff, device, profiles, growth, thresholds }
    }

    /// A check of the limit on the device, without a result yet.
    fn check(&self) -> Check {
        let Growth { target, limit, level } = self.growth;
        Check {
            device: self.device.ordinal(),
            ..Check::new(Checked::Target(target.clone()), limit.to_string(), *level)
        }
    }

    /// The same, inconclusive for a reason.
    fn inconclusive(&self, reason: String) -> Check {
        Check { reason: Some(reason), ..self.check() }
    }

    /// The reason why a side has no history, where the limit needs one.
    fn no_history(&self, sides: Sides<&DeviceProfile>) -> Option<String> {
        let needs_history = match &self.growth.target {
            Target::Metric(metric) => metric.needs_history(),
            Target::Stack(_) | Target::StackHighest(_) | Target::Phase(_) | Target::Module(_) | Target::Imbalance => {
                true
            }
        };
        let reason = sides.each().into_iter().find_map(|(side, device)| no_history(device, side.name()))?;
        needs_history.then(|| format!("{reason}; {} cannot be compared", self.growth.target.name()))
    }

    /// The reason why memory that ran out on both sides hides the figure, where it does.
    fn ran_out(&self, sides: Sides<&DeviceProfile>) -> Option<String> {
        let is_hidden = match &self.growth.target {
            Target::Metric(metric) => metric.is_peak(),
            Target::Stack(_) | Target::StackHighest(_) | Target::Module(_) => true,
            Target::Phase(_) | Target::Imbalance => false,
        };
        let ran_out = sides.before.ran_out_of_memory() && sides.after.ran_out_of_memory();
        let reason = "memory ran out on both sides: the peak is the limit of the device, not the need of the program";
        (is_hidden && ran_out && !self.thresholds.allow_oom).then(|| reason.to_owned())
    }

    /// The check that passes because the after no longer runs out of memory: the before needed more than its device has.
    fn mended(&self, sides: Sides<&DeviceProfile>) -> Option<Check> {
        let is_mended = sides.before.ran_out_of_memory() && !sides.after.ran_out_of_memory();
        if !is_mended || self.thresholds.allow_oom {
            return None;
        }
        let takes = match &self.growth.target {
            Target::Metric(metric) => {
                metric.value(sides.after).map(|bytes| format!("; {} of the after is {}", metric.name(), Size(bytes)))
            }
            Target::Stack(_) | Target::StackHighest(_) | Target::Phase(_) | Target::Module(_) | Target::Imbalance => {
                None
            }
        };
        let words = format!("memory ran out in the before and no longer does{}", takes.unwrap_or_default());
        Some(Check { outcome: Outcome::Pass, words: Some(words), ..self.check() })
    }

    fn budget(&self) -> Budget<'a> {
        Budget::new(&self.thresholds.accepted, self.device, self.thresholds.today)
    }

    /// The way to see what grew, where at least half of a growth has no name because it is older than the recording. Two
    /// moments that do not correspond tell nothing: memory may be freed between them.
    fn hidden_growth(&self, metric: Metric, growth: i128) -> Option<String> {
        let hidden = match metric {
            Metric::Peak if self.device.places.as_ref().is_some_and(|places| places.reason.is_none()) => {
                let rows = self.device.rows.iter().filter(|row| row.is_older_than_recording());
                rows.map(Row::delta).sum()
            }
            Metric::Baseline => {
                let [before, after] = [self.profiles.before?, self.profiles.after?].map(unnamed_baseline);
                i128::from(after) - i128::from(before)
            }
            _ => 0,
        };
        (hidden > 0 && hidden.saturating_mul(2) >= growth)
            .then(|| format!("{} more was {HOW_TO_NAME}", Size(u64::try_from(hidden).unwrap_or(u64::MAX))))
    }

    /// The rows that a limit on stacks, all or those that a pattern names, concerns.
    fn scope<'p>(&self, pattern: Option<&'p Pattern>) -> Scope<'p>
    where
        'a: 'p,
    {
        if let Some(pattern) = pattern {
            return Scope::Only(self.device.selector(pattern));
        }
        let same_level = self.thresholds.growth.iter().filter(|other| other.level == self.growth.level);
        let patterns = same_level.filter_map(|other| match &other.target {
            Target::Stack(pattern) => pattern.as_ref(),
            _ => None,
        });
        Scope::AllBut(patterns.map(|pattern| self.device.selector(pattern)).collect())
    }

    /// Whether a limit on the stacks of a scope concerns a row.
    fn concerns(&self, row: &Row, scope: &Scope<'_>) -> bool {
        row.delta().unsigned_abs() >= u128::from(self.thresholds.min_delta) && row.kind.is_memory() && scope.holds(row)
    }

    /// The reason why a side lacks a part that the limit is about, unless that is allowed.
    fn part_missing(&self, sides: Sides<&DeviceProfile>) -> Option<String> {
        let missing = self.device.missing.iter().find(|missing| match &self.growth.target {
            Target::Metric(Metric::Baseline) => missing.end == End::Head,
            Target::Metric(Metric::End) => missing.end == End::Tail,
            Target::Metric(_) | Target::Stack(_) | Target::StackHighest(_) | Target::Module(_) => true,
            Target::Phase(_) | Target::Imbalance => false,
        })?;
        let name = self.growth.target.name();
        (!self.thresholds.allow_partial).then(|| {
            format!(
                "the {} lacks {} that the other side records ({}); {name} cannot be compared",
                missing.side,
                missing.part(),
                missing.cause(sides.of(missing.side).ran_out_of_memory())
            )
        })
    }

    /// The reason why a peak may be lost: the ring buffer of one side alone ran over, by what PyTorch says. Where both did,
    /// what is left of them is compared.
    fn ran_over(&self, sides: Sides<&DeviceProfile>) -> Option<String> {
        let is_concerned = match &self.growth.target {
            Target::Metric(metric) => metric.is_peak() || *metric == Metric::Baseline,
            Target::Stack(_) | Target::StackHighest(_) | Target::Module(_) => true,
            Target::Phase(_) | Target::Imbalance => false,
        };
        let side = match (sides.before.ran_over, sides.after.ran_over) {
            (true, false) => "before",
            (false, true) => "after",
            (true, true) | (false, false) => return None,
        };
        (is_concerned && !self.thresholds.allow_partial).then(|| {
            format!("the ring buffer of the {side} ran over, so that the beginning of its history is missing; record with a larger max_entries")
        })
    }

    /// Whether a stack only was held at another moment: its highest stays within the limit.
    fn is_held_elsewhere(&self, row: &Row) -> bool {
        // At other moments than the peak, the bytes held then count.
        has_rows_at_peak(self.diff)
            && row.joined.or(row.highest.both()).is_some_and(|highest| {
                let delta = i128::from(highest.after) - i128::from(highest.before);
                delta <= 0 || self.growth.limit.holds(highest.before, delta)
            })
    }

    /// The reason why a row may have grown only by its name: one side records other frames than the other, and the row
    /// has no frames or no partner.
    fn named_otherwise(&self, row: &Row) -> Option<String> {
        let is_alone = match row.kind {
            RowKind::Stack => row.stack.both().is_none(),
            RowKind::Bucket(bucket) => bucket == Bucket::NoFrames,
            RowKind::Others(_) | RowKind::PeakElsewhere => false,
        };
        let differ = self.device.other_frames.filter(|_| is_alone)?;
        Some(format!("{differ}; {} cannot be compared", self.growth.target.name()))
    }

    /// Whether the highest of a stack exceeds the limit.
    fn is_growth(&self, before: u64, delta: i128) -> bool {
        !self.growth.limit.holds(before, delta) && delta.unsigned_abs() >= u128::from(self.thresholds.min_delta)
    }

    /// The check of a row whose highest exceeds the limit; `None` where it does not.
    fn check_of_highest(&self, row: &Row) -> Option<Check> {
        let limit = &self.growth.limit;
        let change = Change { before: row.highest.before, after: row.highest.after };
        let check = Check {
            scope: Some(row.label.clone()),
            key: Some(row.key.clone()),
            before: change.before,
            after: change.after,
            ..self.check()
        };
        if let Some(within) = row.joined {
            let reason = "a change to the code took it apart or put it together, so that the most it held is not known";
            let grew = self.is_growth(within.before, i128::from(within.after) - i128::from(within.before));
            return grew.then(|| Check { reason: Some(reason.to_owned()), ..check });
        }
        let (Some(before), Some(delta)) = (change.before, change.delta()) else {
            let reason = "a saved profile does not say what it held at most; write it again by this version".to_owned();
            return Some(Check { reason: Some(reason), ..check });
        };
        if !self.is_growth(before, delta) {
            return None;
        }
        let allowed = Some(limit.allowed(before));
        let reason = self.named_otherwise(row);
        let outcome = if reason.is_some() { Outcome::Inconclusive } else { Outcome::Exceeded };
        Some(Check { delta: Some(delta), allowed, outcome, reason, ..check })
    }

    /// The check of a row that may exceed the limit on stacks; `None` where it cannot.
    fn check_of_row(&self, row: &Row) -> Option<Check> {
        let limit = &self.growth.limit;
        let before = row.held.before.bytes;
        let after = row.held.after.bytes;
        if limit.holds(before, row.delta()) || self.is_held_elsewhere(row) || is_rounding(row) {
            return None;
        }
        let mut check = Check {
            scope: Some(row.label.clone()),
            key: Some(row.key.clone()),
            before: Some(before),
            after: Some(after),
            delta: Some(row.delta()),
            allowed: Some(limit.allowed(before)),
            outcome: Outcome::Exceeded,
            ..self.check()
        };
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

/// The bytes that were held when the recording began and that have no stack.
fn unnamed_baseline(device: &DeviceProfile) -> u64 {
    let unnamed = device
        .stacks
        .iter()
        .filter(|total| matches!(total.bucket, Some(Bucket::BeforeRecording | Bucket::NotRecorded)));
    unnamed.fold(0, |sum: u64, total| sum.saturating_add(total.baseline.bytes))
}

/// The labels of all stacks of a comparison, those that changed most first.
pub(super) fn labels(diff: &Diff) -> impl Iterator<Item = &str> {
    let rows = diff.devices.iter().flat_map(|device| &device.rows);
    rows.filter(|row| row.kind == RowKind::Stack).map(|row| &*row.label)
}

/// Whether the rows of a comparison add up to the change of the peak.
pub(super) fn has_rows_at_peak(diff: &Diff) -> bool {
    matches!(diff.profiles.after.options.at, Moment::Peak | Moment::Aligned(_))
}

impl Judge {
    /// Applies a limit on growth to a device.
    pub(super) fn growth(&mut self, gated: &Gated<'_>) {
        if let Some(side) = gated.profiles.missing() {
            self.checks.push(gated.inconclusive(format!("the device is missing in the {side}")));
            return;
        }
        let Some(sides) = gated.profiles.both() else { return };
        if let Some(reason) = gated.no_history(sides) {
            self.checks.push(gated.inconclusive(reason));
            return;
        }
        if let Some(check) = gated.mended(sides) {
            self.checks.push(check);
            return;
        }
        if let Some(reason) = gated.ran_out(sides) {
            self.checks.push(gated.inconclusive(reason));
            return;
        }
        if let Some(reason) = gated.part_missing(sides).or_else(|| gated.ran_over(sides)) {
            self.checks.push(Check { advice: Some(Advice::AllowPartial), ..gated.inconclusive(reason) });
            return;
        }
        match &gated.growth.target {
            Target::Metric(metric) => self.growth_of_metric(gated, *metric, sides),
            Target::Stack(pattern) => self.growth_of_stacks(gated, pattern.as_ref(), sides),
            Target::StackHighest(pattern) => self.growth_of_highest(gated, pattern.as_ref()),
            Target::Phase(pattern) => {
                let limited = LimitedPhases {
                    growth: gated.growth,
                    scope: PhaseScope::new(pattern.as_ref(), gated.growth.level, gated.thresholds),
                    rows: &gated.device.phases,
                    devices: sides,
                    budget: gated.budget(),
                };
                self.phases(&gated.check(), &limited);
            }
            Target::Module(pattern) => {
                let limited = LimitedModules {
                    growth: gated.growth,
                    pattern,
                    modules: modules::of_sides(gated.diff, sides),
                    min_delta: gated.thresholds.min_delta,
                    budget: gated.budget(),
                };
                self.modules(&gated.check(), &limited);
            }
            // Checked for all ranks together.
            Target::Imbalance => {}
        }
    }

    /// A figure of a device.
    fn growth_of_metric(&mut self, gated: &Gated<'_>, metric: Metric, sides: Sides<&DeviceProfile>) {
        let change = gated.device.metric(metric);
        let limit = &gated.growth.limit;
        let place = gated.device.peaks.after.as_ref().filter(|_| metric == Metric::Peak).map(|peak| peak.label.clone());
        let mut check =
            Check { before: change.before, after: change.after, delta: change.delta(), place, ..gated.check() };
        let (Some(before), Some(delta)) = (change.before, change.delta()) else {
            check.reason = Some(format!("{} is not known on both sides", check.of.name()));
            self.checks.push(check);
            return;
        };
        check.allowed = Some(limit.allowed(before));
        check.outcome = if limit.holds(before, delta) { Outcome::Pass } else { Outcome::Exceeded };
        let errors = sides.map(|device| metric.max_error(device));
        self.doubt(&mut check, if metric.has_same_bound(sides) { NO_ERROR } else { errors });
        if check.outcome == Outcome::Exceeded {
            let budget = gated.budget();
            budget.accept_metric(&mut check, metric, gated.device, has_rows_at_peak(gated.diff));
            self.tell_accepted(&check);
        }
        if check.outcome == Outcome::Exceeded && check.reason.is_none() {
            check.reason = gated.hidden_growth(metric, delta);
        }
        self.checks.push(check);
    }

    /// The totals of stacks, all or those that a pattern names: a check for each that exceeds the limit, or one that
    /// passes.
    fn growth_of_stacks(&mut self, gated: &Gated<'_>, pattern: Option<&Pattern>, sides: Sides<&DeviceProfile>) {
        if let Some(side) = sides.map(|device| device.at).missing() {
            let moment = &gated.diff.profiles.after.options.at;
            self.checks.push(gated.inconclusive(format!("the {side} has no moment '{moment}' to compare stacks at")));
            return;
        }
        let checked = self.checks.len();
        let mut budget = gated.budget();
        let scope = gated.scope(pattern);
        for row in gated.device.rows.iter().filter(|row| gated.concerns(row, &scope)) {
            let Some(mut check) = gated.check_of_row(row) else { continue };
            budget.accept_stack(&mut check, row);
            self.tell_accepted(&check);
            self.checks.push(check);
        }
        if self.checks.len() == checked {
            self.checks.push(Check { outcome: Outcome::Pass, ..gated.check() });
        }
    }

    /// The most that stacks held at any moment: a check for each that exceeds the limit, or one that passes.
    fn growth_of_highest(&mut self, gated: &Gated<'_>, pattern: Option<&Pattern>) {
        let checked = self.checks.len();
        let mut budget = gated.budget();
        let rows = gated.device.rows.iter().filter(|row| row.kind.is_memory());
        let selector = pattern.map(|pattern| gated.device.selector(pattern));
        for row in rows.filter(|row| selector.is_none_or(|selector| row.is_selected(&selector))) {
            let Some(mut check) = gated.check_of_highest(row) else { continue };
            budget.accept_stack(&mut check, row);
            self.tell_accepted(&check);
            self.checks.push(check);
        }
        if self.checks.len() == checked {
            self.checks.push(Check { outcome: Outcome::Pass, ..gated.check() });
        }
    }

    /// A pattern that matches no stack on any device checks nothing.
    pub(super) fn unmatched_pattern(&mut self, diff: &Diff, growth: &Growth, thresholds: &Thresholds) {
        if !growth.matches(diff) {
            self.checks.retain(|check| !check.is_of(&growth.target) || check.outcome != Outcome::Pass);
            // Another rank may have such a stack.
            if thresholds.one_of_ranks {
                return;
            }
            let near = growth.pattern().map(|pattern| pattern.unmatched("stack", labels(diff)));
            let reason = format!("the pattern matches no stack on either side{}", near.unwrap_or_default());
            self.cannot_tell(growth, &reason);
        }
    }
}

/// True if the program asked for no more in as many blocks: the allocator gave it larger ones, by what was free.
fn is_rounding(row: &Row) -> bool {
    let Sides { before, after } = row.requested;
    row.held.before.blocks == row.held.after.blocks && (1..=before).contains(&after)
}
