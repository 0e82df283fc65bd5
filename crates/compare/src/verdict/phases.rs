//! Limits on the peaks inside phases.

use std::collections::HashMap;

use super::accepted::Budget;
use super::judge::NO_ERROR;
use super::{Check, Growth, Judge, Level, Outcome, Target, Thresholds};
use crate::diagnostic::{Code, Diagnostic};
use crate::diff::{Diff, PhaseRow, Side, Sides};
use crate::pattern::Pattern;
use crate::phase::Source;
use crate::profile::{DeviceProfile, MOST_PHASES, Metric};
use crate::text::{shorten, thousands};

/// The bytes by which a phase grew beyond its limit, negative where it did not.
fn excess(growth: &Growth, row: &PhaseRow) -> Option<i128> {
    let allowed = i128::try_from(growth.limit.allowed(row.peak.before?)).unwrap_or(i128::MAX);
    Some(row.delta()?.saturating_sub(allowed))
}

/// Phases that a limit is about.
pub(super) enum PhaseScope<'a> {
    /// Those whose name matches: one that a side lacks cannot be judged.
    Only(&'a Pattern),
    /// The outermost ones that the program names and both sides have, but those with limits of their own. What is inside of
    /// them, such as PyTorch's own steps of the optimizer, may grow below their peaks.
    AllBut(Vec<&'a Pattern>),
}

impl<'a> PhaseScope<'a> {
    /// The phases of a limit of this level among others.
    pub(super) fn new(pattern: Option<&'a Pattern>, level: Level, thresholds: &'a Thresholds) -> Self {
        let Some(pattern) = pattern else {
            let same_level = thresholds.growth.iter().filter(|other| other.level == level);
            return Self::AllBut(same_level.filter_map(Growth::phases).collect());
        };
        Self::Only(pattern)
    }

    fn holds(&self, row: &PhaseRow) -> bool {
        match self {
            Self::Only(pattern) => pattern.matches(&row.name),
            Self::AllBut(others) => row.is_outermost && !others.iter().any(|pattern| pattern.matches(&row.name)),
        }
    }
}

/// Phases of a device under a limit.
pub(super) struct LimitedPhases<'a> {
    pub(super) growth: &'a Growth,
    pub(super) scope: PhaseScope<'a>,
    pub(super) rows: &'a [PhaseRow],
    pub(super) devices: Sides<&'a DeviceProfile>,
    pub(super) budget: Budget<'a>,
}

impl<'a> LimitedPhases<'a> {
    /// The reason why not all phases are known, where a side has more than are looked at.
    fn cut(&self) -> Option<String> {
        let side = Side::BOTH.into_iter().find(|side| self.devices.of(*side).phases.cut > 0)?;
        let most = thousands(MOST_PHASES as u64);
        let more = thousands(self.devices.of(side).phases.cut);
        Some(format!("only the first {most} phases of the {side} are looked at, {more} more are not"))
    }

    /// The rows that the limit concerns, those of one phase together.
    fn by_name(&self) -> Vec<Vec<&'a PhaseRow>> {
        let mut places: HashMap<(Source, &str), usize> = HashMap::new();
        let mut names: Vec<Vec<&PhaseRow>> = Vec::new();
        for row in self.rows.iter().filter(|row| self.scope.holds(row)) {
            let place = *places.entry((row.source, &*row.name)).or_insert_with(|| {
                names.push(Vec::new());
                names.len() - 1
            });
            names[place].push(row);
        }
        names
    }

    /// The errors of the peaks.
    fn errors(&self) -> Sides<Option<u64>> {
        if Metric::Peak.has_same_bound(self.devices) {
            return NO_ERROR;
        }
        self.devices.map(|device| device.figures.allocated.max_error())
    }

    /// The check of an occurrence that exceeds the limit.
    fn exceeded(&self, check: &Check, row: &PhaseRow) -> Check {
        Check {
            scope: Some(row.title()),
            key: Some(row.key()),
            before: row.peak.before,
            after: row.peak.after,
            delta: row.delta(),
            allowed: row.peak.before.map(|before| self.growth.limit.allowed(before)),
            outcome: Outcome::Exceeded,
            ..check.clone()
        }
    }

    /// The check of a phase that one side lacks.
    fn missing(&self, check: &Check, row: &PhaseRow) -> Check {
        Check {
            outcome: Outcome::Inconclusive,
            scope: Some(row.name.to_string()),
            reason: Some(format!("the phase is missing in the {}", lacking(row))),
            ..self.exceeded(check, row)
        }
    }

    /// Remarks on a phase of which an occurrence exceeds the limit.
    fn remarks(&self, occurrences: &[&PhaseRow], row: &PhaseRow) -> Vec<String> {
        let mut remarks = Vec::new();
        let beyond = occurrences.iter().filter_map(|row| excess(self.growth, row));
        let exceeding = beyond.filter(|beyond| *beyond > 0).count();
        if exceeding > 1 {
            let all = thousands(occurrences.len() as u64);
            remarks.push(format!("{} of {all} occurrences exceed it", thousands(exceeding as u64)));
        }
        if !row.is_whole {
            remarks.push("not recorded from its beginning to its end".to_owned());
        }
        remarks
    }
}

/// The side that lacks a phase.
fn lacking(row: &PhaseRow) -> Side {
    if row.peak.before.is_none() { Side::Before } else { Side::After }
}

/// The longest name of a phase in a remark, in characters.
const LONGEST_NAME: usize = 60;

/// The check of a phase that stays within its limit, and by how much: 0 is the nearest.
struct Within {
    beyond: i128,
    check: Check,
}

impl Judge {
    /// A check per name that exceeds the limit, about the occurrence that does so by most; one that passes where none
    /// does. `check` is that of the limit on the device.
    pub(super) fn phases(&mut self, check: &Check, limited: &LimitedPhases<'_>) {
        if let Some(reason) = limited.cut() {
            self.checks.push(Check { reason: Some(reason), ..check.clone() });
            return;
        }
        let checked = self.checks.len();
        let mut nearest: Option<Within> = None;
        for occurrences in limited.by_name() {
            // Take the first of equal ones.
            let worst = occurrences.iter().rev().max_by_key(|row| excess(limited.growth, row));
            let Some(&row) = worst else { continue };
            match excess(limited.growth, row) {
                None => match limited.scope {
                    PhaseScope::Only(_) => self.checks.push(limited.missing(check, row)),
                    PhaseScope::AllBut(_) => self.phase_not_compared(check, row),
                },
                Some(1..) => self.exceeding_phase(limited, limited.exceeded(check, row), &occurrences, row),
                Some(beyond) => {
                    let check = Check { outcome: Outcome::Pass, ..limited.exceeded(check, row) };
                    if nearest.as_ref().is_none_or(|nearest| beyond > nearest.beyond) {
                        nearest = Some(Within { beyond, check });
                    }
                }
            }
        }
        // Where nothing exceeds the limit, the phase that comes nearest to it may be too near.
        if let Some(mut nearest) = nearest.filter(|_| self.checks.len() == checked) {
            self.doubt(&mut nearest.check, limited.errors());
            let Check { outcome, reason, scope, .. } = nearest.check;
            let reason = reason.map(|reason| format!("{}: {reason}", scope.unwrap_or_default()));
            self.checks.push(Check { outcome, reason, ..check.clone() });
        }
    }

    /// A change may add a part of the program, or take one away: that is told, and the other limits judge it.
    fn phase_not_compared(&mut self, check: &Check, row: &PhaseRow) {
        let name = shorten(&row.name, LONGEST_NAME);
        let message = format!("the peak inside phase {name} is not compared: it is missing in the {}", lacking(row));
        let remark = Diagnostic::new(Code::PhaseNotCompared, check.device, message);
        if !self.diagnostics.contains(&remark) {
            self.diagnostics.push(remark);
        }
    }

    fn exceeding_phase(
        &mut self,
        limited: &LimitedPhases<'_>,
        mut check: Check,
        occurrences: &[&PhaseRow],
        row: &PhaseRow,
    ) {
        self.doubt(&mut check, limited.errors());
        let mut remarks: Vec<String> = check.reason.take().into_iter().collect();
        remarks.extend(limited.remarks(occurrences, row));
        check.reason = Some(remarks.join("; ")).filter(|reason| !reason.is_empty());
        limited.budget.accept_phase(&mut check, &row.name);
        self.tell_accepted(&check);
        self.checks.push(check);
    }

    /// A pattern that matches no phase on any device checks nothing. Nor does a limit on all phases where both sides have
    /// none in common, but beside limits on other figures that is no matter: PyTorch before 2.5 keeps no names.
    pub(super) fn unmatched_phase(&mut self, diff: &Diff, growth: &Growth, thresholds: &Thresholds) {
        let Target::Phase(pattern) = &growth.target else { return };
        let rows = diff.devices.iter().flat_map(|device| &device.phases);
        // A check that passes, or an inconclusive one, was added already.
        if self.checks.iter().any(|check| check.is_of(&growth.target) && check.level == growth.level) {
            return;
        }
        let is_empty = !rows.clone().any(|row| pattern.is_some() || row.is_outermost);
        let reason = match pattern {
            None if thresholds.growth.iter().any(|other| !matches!(other.target, Target::Phase(_))) => return,
            Some(pattern) if rows.clone().any(|row| pattern.matches(&row.name)) => return,
            _ if is_empty => {
                "neither side has any phases: no annotations (record_function), no metadata, no compile contexts"
                    .to_owned()
            }
            None => "no phase is on both sides".to_owned(),
            Some(pattern) => {
                let near = pattern.unmatched("phase", rows.map(|row| &*row.name));
                format!("the pattern matches no phase on either side{near}")
            }
        };
        self.cannot_tell(growth, &reason);
    }
}
