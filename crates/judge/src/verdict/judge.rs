//! Checks and remarks as rules make them.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_compare::diff::Sides;

use super::accepted::StackCovers;
use super::{Check, Outcome, Thresholds};

/// Checks and remarks as they are made.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) checks: Vec<Check>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// How accepted growth covers stacks.
    pub(super) covers: StackCovers,
}

impl Judge {
    /// Adds a check that is inconclusive for a reason.
    pub(super) fn cannot_tell(&mut self, check: Check, reason: impl Into<String>) {
        self.checks.push(Check { reason: Some(reason.into()), ..check });
    }

    /// The same for a pattern that matches nothing on any device: a limit that nothing exceeds does not count as a
    /// pass. Another rank may have a match.
    pub(super) fn unmatched(&mut self, check: Check, thresholds: &Thresholds, reason: String) {
        self.checks.retain(|other| {
            other.of != check.of || other.limit.is_absolute != check.limit.is_absolute || other.outcome != Outcome::Pass
        });
        if !thresholds.one_of_ranks {
            self.cannot_tell(check, reason);
        }
    }

    /// Adds a check, unless one that does not pass was added since there were `checked` of them: one that passes, or that is
    /// inconclusive for a reason. It is about what has no check of its own.
    pub(super) fn or_pass(&mut self, checked: usize, mut check: Check, unknown: Option<String>) {
        if self.passes_since(checked) {
            if self.checks.len() > checked && check.figures.words.is_none() {
                check.figures.words = Some(check.none("other "));
            }
            let outcome = if unknown.is_some() { Outcome::Inconclusive } else { Outcome::Pass };
            self.checks.push(Check { outcome, reason: unknown, ..check });
        }
    }

    /// Whether all checks pass that were added since there were `checked` of them: those of accepted growth.
    pub(super) fn passes_since(&self, checked: usize) -> bool {
        self.checks[checked..].iter().all(|check| check.outcome == Outcome::Pass)
    }

    /// Adds a check, with a remark where it passes only because the growth was accepted.
    pub(super) fn add(&mut self, check: Check) {
        self.tell_accepted(&check);
        self.checks.push(check);
    }

    /// Adds a remark to a check that passes only because the growth was accepted.
    fn tell_accepted(&mut self, check: &Check) {
        if let (true, Some(reason)) = (check.is_accepted(), &check.reason) {
            let message = format!("{} exceeds its limit, {reason}", check.subject());
            self.diagnostics.push(Diagnostic::new(Code::AcceptedGrowth, check.device, message));
        }
    }

    /// Warns where the bounds of inexact figures reach across the limit; where a bound is not known, nothing is.
    pub(super) fn doubt(&mut self, check: &mut Check, errors: Sides<Option<u64>>) {
        self.doubt_by_name(check, &check.subject(), errors);
    }

    /// The same for a figure of this name.
    pub(super) fn doubt_by_name(&mut self, check: &mut Check, name: &str, errors: Sides<Option<u64>>) {
        let (Some(before), Some(after)) = (errors.before, errors.after) else {
            check.outcome = Outcome::Inconclusive;
            check.excuse = None;
            check.reason = Some(format!("{name} is not exact, and its error is not known"));
            return;
        };
        let error = i128::from(before) + i128::from(after);
        if check.crosses_within(error) {
            let accepted = check.reason.take().map(|reason| format!("{reason}; ")).unwrap_or_default();
            check.reason = Some(accepted + &self.tell_within_error(check, name, error));
        }
    }

    /// Warns that a figure of this name is not known well enough for a limit.
    pub(super) fn tell_within_error(&mut self, check: &Check, name: &str, error: i128) -> String {
        let total = Size(u64::try_from(error).unwrap_or(u64::MAX));
        let limit = if check.limit.accepted > 0 { "what is accepted" } else { "the limit" };
        let message = format!("{name} is known to within {total}, which reaches across {limit}");
        self.diagnostics.push(Diagnostic::new(Code::WithinError, check.device, message.clone()));
        message
    }
}
