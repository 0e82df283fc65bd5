//! Checks: one limit applied to one figure.

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Advice;
use ptmem_base::label::More;
use ptmem_base::units::Limit;
use ptmem_compare::diff::{Change, Row};
use ptmem_trace::trace::Measure;

use super::{Bound, Level, LimitKind, NamedThing, Target};

/// The result of one check, whether it fails or warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// Within the limit.
    Pass,
    /// Cannot be decided.
    #[default]
    Inconclusive,
    /// Beyond the limit.
    Exceeded,
}

ptmem_base::named!(Outcome);

/// The severity of a check, worst last: its result and its level together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Standing {
    /// Within the limit.
    #[default]
    Ok,
    /// Beyond a limit that only warns.
    Warning,
    /// Cannot be computed or compared.
    Inconclusive,
    /// Beyond a limit that fails.
    Exceeded,
}

ptmem_base::named!(Standing);

/// The finding of the checks about a row, a figure or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Their finding.
    pub standing: Standing,
    /// Whether it is ok only because the growth was agreed to.
    pub accepted: bool,
}

impl Mark {
    /// The mark of a check.
    pub fn of(check: &Check) -> Self {
        Self { accepted: check.is_accepted() && check.outcome == Outcome::Pass, ..Self::from(check.standing()) }
    }

    /// The word for it in a table.
    pub fn word(self) -> &'static str {
        match self.standing {
            Standing::Ok if self.accepted => "accepted",
            Standing::Ok => "ok",
            Standing::Warning => "WARN",
            Standing::Inconclusive => "?",
            Standing::Exceeded => "FAIL",
        }
    }
}

impl From<Standing> for Mark {
    fn from(standing: Standing) -> Self {
        Self { standing, accepted: false }
    }
}

/// One threshold applied to one figure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Check {
    /// The subject of the check.
    pub of: Target,
    /// The device ordinal.
    pub device: Option<DeviceId>,
    /// The stack, phase or module that it is about, where it is about one.
    pub row: Option<CheckedRow>,
    /// The limit.
    pub limit: CheckedLimit,
    /// The figures that are compared with it.
    pub figures: CheckedFigures,
    /// Result of the check.
    pub outcome: Outcome,
    /// Why it passes whatever its figures are.
    pub excuse: Option<PassedBy>,
    /// Why it is inconclusive, or another remark.
    pub reason: Option<String>,
    /// Advice in addition to the reason, if a setting would help.
    pub advice: Option<Advice>,
    /// The edit that most of the growth leads to.
    pub edit: Option<CheckedEdit>,
    /// The same figure beside cuBLAS workspaces, where both exceed the limit: an agreement must cover both.
    pub beside: Option<Box<Check>>,
}

/// The edit that most of the growth of a check leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedEdit {
    /// Its index into [`ptmem_compare::diff::cause::Cause::edits`].
    pub index: usize,
    /// Its place, or the package and its versions.
    pub place: String,
    /// Whether the sentence about the verdict names it.
    pub is_lead: bool,
}

/// A stack, phase or module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckedRow {
    /// Its label.
    pub label: String,
    /// What its row sums beside the line that it is named after.
    pub more: More,
    /// Its key, where it has one.
    pub key: Option<String>,
}

/// A limit as it applies to one figure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckedLimit {
    /// As the user wrote it, in normal form.
    pub text: String,
    /// Bytes that may be gained, or held for an absolute limit.
    pub allowed: Option<u128>,
    /// Bytes beyond these that may be accepted.
    pub accepted: u128,
    /// Whether exceeding it fails or warns.
    pub level: Level,
    /// Whether it is absolute.
    pub is_absolute: bool,
    /// Whether it also limits shrinkage.
    pub is_two_sided: bool,
}

/// Figures that a limit is about; each `None` where unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckedFigures {
    /// Bytes before; `None` for absolute limits.
    pub before: Option<u64>,
    /// Bytes after.
    pub after: Option<u64>,
    /// Bytes gained; `None` for absolute limits.
    pub delta: Option<i128>,
    /// How far the growth is known, where a side lacks a part.
    pub bound: Option<Bound>,
    /// In words, where they are not those of a limit on growth or size.
    pub words: Option<String>,
    /// True for figures beside cuBLAS workspaces.
    pub is_beside_workspaces: bool,
    /// True for a peak beside cuBLAS workspaces that is not where stacks are compared: their growth does not explain it.
    pub is_elsewhere: bool,
}

/// Why a check passes whatever its figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedBy {
    /// Memory no longer runs out.
    Mended,
    /// The growth was agreed to.
    Accepted,
}

impl Check {
    /// A check without a result yet.
    pub(super) fn new(of: impl Into<Target>, limit: String, level: Level) -> Self {
        let limit = CheckedLimit { text: limit, level, ..CheckedLimit::default() };
        Self { of: of.into(), limit, ..Self::default() }
    }

    /// Compares a change with a limit on growth, and returns the growth where it is known.
    pub(super) fn compare(&mut self, change: Change, limit: &Limit) -> Option<i128> {
        self.figures.before = change.before;
        self.figures.after = change.after;
        self.figures.delta = change.gained();
        let before = change.before?;
        let delta = self.figures.delta?;
        self.limit.allowed = Some(limit.allowed(before));
        self.outcome = if limit.holds(before, delta) { Outcome::Pass } else { Outcome::Exceeded };
        Some(delta)
    }

    /// The bytes that are compared with the limit: held, gained, or of a change in either direction.
    pub(super) fn measured(&self) -> Option<i128> {
        match (self.limit.is_absolute, self.limit.is_two_sided) {
            (true, _) => self.figures.after.map(i128::from),
            (false, false) => self.figures.delta,
            (false, true) => self.figures.delta.map(i128::saturating_abs),
        }
    }

    /// The counter that its figures are of.
    pub(super) fn measure(&self) -> Option<Measure> {
        self.kind().counter()
    }

    /// Whether it exceeds a limit on both sides by shrinkage, or a capacity by growth.
    pub fn is_improvement(&self) -> bool {
        self.outcome == Outcome::Exceeded && self.limits_improvement()
    }

    /// Whether its limit on both sides is about how far its figure became better.
    pub(super) fn limits_improvement(&self) -> bool {
        self.limit.is_two_sided && self.worsened().is_some_and(|bytes| bytes < 0)
    }

    /// By how much its figure became worse, negative where it became better: a capacity by shrinking, others by growth.
    pub fn worsened(&self) -> Option<i128> {
        let delta = self.figures.delta?;
        Some(if self.kind().is_capacity() { -delta } else { delta })
    }

    /// Whether it exceeds its limit, or would if the growth had the other sign.
    pub(super) fn differs_by_more_than_allowed(&self) -> bool {
        let differs =
            self.figures.delta.zip(self.limit.allowed).is_some_and(|(delta, allowed)| delta.unsigned_abs() > allowed);
        self.outcome == Outcome::Exceeded || differs
    }

    /// Whether it is about a device: its own, or any where it is about whole ranks.
    pub(super) fn is_about(&self, device: Option<DeviceId>) -> bool {
        if self.kind().is_of_ranks() { device.is_some_and(DeviceId::is_device) } else { self.device == device }
    }

    /// Whether memory of a row may be a part of what it is about.
    pub(super) fn may_concern(&self, row: &Row) -> bool {
        !self.is_of_stacks() || self.row.as_ref().is_none_or(|own| own.key.as_ref().is_none_or(|key| *key == row.key))
    }

    /// The bytes by which it is beyond what the limit allows and what is accepted, negative where it is not.
    pub(super) fn distance(&self) -> Option<i128> {
        let most = self.limit.allowed?.saturating_add(self.limit.accepted);
        Some(self.measured()?.saturating_sub(i128::try_from(most).unwrap_or(i128::MAX)))
    }

    /// Whether its outcome could be another if its figures are off by an error.
    pub(super) fn crosses_within(&self, error: i128) -> bool {
        self.distance().is_some_and(|distance| distance - error <= 0 && distance + error > 0)
    }

    /// The label of the stack, phase or module, where it is about one.
    pub fn label(&self) -> Option<&str> {
        self.row.as_ref().map(|row| &*row.label)
    }

    /// The key of that.
    pub fn key(&self) -> Option<&str> {
        self.row.as_ref()?.key.as_deref()
    }

    /// Whether it passes only because the growth was agreed to.
    pub fn is_accepted(&self) -> bool {
        self.excuse == Some(PassedBy::Accepted)
    }

    /// The same as a check of an absolute limit.
    pub(super) fn of_at_most(self, bytes: u128) -> Self {
        let limit = CheckedLimit { allowed: Some(bytes), is_absolute: true, ..self.limit };
        Self { limit, ..self }
    }

    /// The check with a row of this label.
    pub(super) fn named(self, label: impl Into<String>) -> Self {
        Self { row: Some(CheckedRow { label: label.into(), ..CheckedRow::default() }), ..self }
    }

    /// The same with these figures.
    pub(super) fn with(self, figures: CheckedFigures) -> Self {
        Self { figures, ..self }
    }

    /// A check of an absolute limit that is exceeded by this.
    pub(super) fn exceeded_by(self, bytes: u64) -> Self {
        let figures = CheckedFigures { after: Some(bytes), ..CheckedFigures::default() };
        Self { figures, outcome: Outcome::Exceeded, ..self }
    }

    /// A check that passes, and what it says in place of its figures.
    pub(super) fn passed(self, words: String) -> Self {
        let figures = CheckedFigures { words: Some(words), ..self.figures };
        Self { figures, outcome: Outcome::Pass, ..self }
    }

    /// The kind of what it is about.
    pub fn kind(&self) -> LimitKind {
        self.of.kind
    }

    /// Whether it is about stacks.
    pub(super) fn is_of_stacks(&self) -> bool {
        self.kind().thing() == Some(NamedThing::Stack)
    }

    /// Whether it is about phases.
    pub fn is_of_phases(&self) -> bool {
        self.kind().is_of_phases()
    }

    /// The metric, or the stack, module or phase with all that its row sums.
    pub fn subject(&self) -> String {
        match &self.row {
            Some(CheckedRow { label, more, .. }) => format!("{} {label}{more}", self.noun()),
            None => self.of.name(),
        }
    }

    /// The kind of thing that its scope names.
    fn noun(&self) -> &'static str {
        match self.kind() {
            // It need not be what the stack holds at the peak, which tables show.
            LimitKind::StackHighest => "the most held by stack",
            LimitKind::ReservedInPhases => "reserved in phase",
            kind => kind.noun(),
        }
    }

    /// Whether it fails by growth, or by shrinkage: a figure above an absolute limit, memory that ran out and leaks are neither.
    pub(super) fn fails_by_change(&self) -> bool {
        let is_change = !matches!(self.kind(), LimitKind::OutOfMemory | LimitKind::Leaks);
        is_change && !self.limit.is_absolute && self.standing() == Standing::Exceeded
    }

    /// Whether it decides the verdict: not one that only warns, unless limits are strict.
    pub(super) fn counts(&self, strict: bool) -> bool {
        self.limit.level == Level::Fail || strict
    }

    /// Its severity.
    pub fn standing(&self) -> Standing {
        match (self.outcome, self.limit.level) {
            (Outcome::Pass, _) => Standing::Ok,
            (Outcome::Exceeded, Level::Warn) => Standing::Warning,
            (Outcome::Exceeded, Level::Fail) => Standing::Exceeded,
            (Outcome::Inconclusive, _) => Standing::Inconclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(standing: Standing, accepted: bool) -> Mark {
        Mark { standing, accepted }
    }

    #[test]
    fn marks_are_ordered_from_fine_to_bad() {
        let all = [
            mark(Standing::Ok, false),
            mark(Standing::Ok, true),
            mark(Standing::Warning, false),
            mark(Standing::Inconclusive, false),
            mark(Standing::Exceeded, false),
        ];
        assert!(all.is_sorted());
        assert_eq!(all.map(Mark::word), ["ok", "accepted", "WARN", "?", "FAIL"]);
    }
}
