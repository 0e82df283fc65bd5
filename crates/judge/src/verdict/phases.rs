//! Limits on the peaks inside phases.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::pattern::Pattern;
use ptmem_base::text::{count, shorten, thousands};
use ptmem_base::units::Size;
use ptmem_compare::diff::{Change, Diff, PhaseRow, Side, Sides};
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{MOST_PHASES, Occurrence};
use ptmem_trace::stack::Pass;

use super::accepted::Budget;
use super::growth::{Gated, RAN_OUT};
use super::judge::Judge;
use super::phase_errors::PhaseErrors;
use super::{Check, CheckedRow, GrowthLimit, Level, LimitKind, Outcome, Target, Thresholds};

impl<'a> Gated<'a> {
    /// The reason why not all phases are known, if a side has more than are read.
    fn phases_cut(&self) -> Option<String> {
        let side = Side::BOTH.into_iter().find(|side| self.sides.of(*side).phases.cut > 0)?;
        let most = thousands(MOST_PHASES as u64);
        let more = thousands(self.sides.of(side).phases.cut);
        Some(format!("only the first {most} phases of the {side} are read, {more} more are not"))
    }

    /// Whether the limit applies to a phase: with a pattern, to phases whose name matches; without one, to the
    /// outermost phases that are named, except those with limits of their own, and calls of PyTorch in which neither side
    /// allocates, such as `Optimizer.zero_grad`. Inner phases may grow below the peaks of outermost ones.
    pub(super) fn is_about(&self, row: &PhaseRow) -> bool {
        match &self.growth.target.pattern {
            Some(pattern) => pattern.matches(&row.name),
            None => row.is_outermost && row.matters() && !self.has_own_limit(row),
        }
    }

    /// Whether a limit of the same kind names a phase.
    fn has_own_limit(&self, row: &PhaseRow) -> bool {
        self.patterns().any(|pattern| pattern.matches(&row.name))
    }

    /// The rows that the limit concerns.
    pub(super) fn phase_rows(&self) -> impl Iterator<Item = &'a PhaseRow> {
        let rows = self.device.phases.iter().filter(|row| self.is_about(row));
        let is_of_reserved = self.growth.target.kind == LimitKind::ReservedInPhases;
        rows.map(move |row| if is_of_reserved { row.of_reserved() } else { row })
    }

    /// The same, those of one phase together.
    fn phases(&self) -> BTreeMap<(PhaseSource, &'a str), Vec<&'a PhaseRow>> {
        let mut phases: BTreeMap<(PhaseSource, &str), Vec<&PhaseRow>> = BTreeMap::new();
        for row in self.phase_rows() {
            phases.entry((row.source, &*row.name)).or_default().push(row);
        }
        phases
    }

    /// The figure of a phase that the limit is about.
    pub(super) fn figure(&self, row: &PhaseRow) -> Change {
        if self.growth.target.kind == LimitKind::ReservedInPhases { row.reserved } else { row.peak }
    }

    /// The bytes by which a phase is beyond its limit, negative where it is not.
    pub(super) fn excess(&self, row: &PhaseRow) -> Option<i128> {
        let figure = self.figure(row);
        Some(self.growth.limit.excess(figure.before?, figure.gained()?))
    }

    /// The reason why a figure of a phase cannot be compared.
    fn why_unknown(&self, row: &PhaseRow) -> String {
        match row.peak.both() {
            None => self.why_missing(row),
            Some(_) => format!("the reserved bytes of the {} are not known", lacking(row.reserved)),
        }
    }

    /// The reason why a side has no occurrence of a phase to compare.
    fn why_missing(&self, row: &PhaseRow) -> String {
        let side = lacking(row.peak);
        let mut all = self.sides.of(side).phases.all.iter();
        match all.any(|phase| phase.source == row.source && phase.name == row.name) {
            true => format!("all its occurrences in the {side} are among the first, which skip-first leaves out"),
            false => format!("the phase is missing in the {side}"),
        }
    }

    /// The outermost phases on both sides that have limits of their own, where the limit is about all others.
    fn phases_of_others(&self) -> impl Iterator<Item = &'a PhaseRow> {
        let is_for_all = self.growth.target.pattern.is_none();
        let rows =
            self.device.phases.iter().filter(move |row| is_for_all && row.is_outermost && self.has_own_limit(row));
        rows.filter(|row| row.peak.both().is_some())
    }

    /// The check that passes where no phase exceeds the limit. It says whether one does that has a limit or a check of its own, or
    /// about which the limit is not.
    fn phases_pass(&self, reason: Option<String>, has_checks: bool) -> Check {
        let mut check = Check { outcome: Outcome::Pass, reason, ..self.check() };
        let has_others = has_checks || self.phases_of_others().any(|row| self.excess(row) > Some(0));
        let except = if self.calls_exceed() { EXCEPT_CALLS } else { "" };
        if has_others || !except.is_empty() {
            let reason = check.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let none = check.none(if has_others { "other " } else { "" });
            check.figures.words = Some(none + except + &reason);
        }
        check
    }

    /// Whether an outermost phase exceeds a limit on all of them that is not about it: a call of PyTorch in which nothing is allocated.
    fn calls_exceed(&self) -> bool {
        let mut calls = self.device.phases.iter().filter(|row| row.is_outermost && !row.matters());
        self.growth.target.pattern.is_none() && calls.any(|row| !self.has_own_limit(row) && self.excess(row) > Some(0))
    }

    /// The inner phase that grew most, in words, where the limit is only about outermost ones.
    fn growth_inside(&self) -> Option<String> {
        let rows = self.device.phases.iter().filter(|row| !row.is_outermost && row.matters());
        let rows = rows.filter(|row| !self.has_own_limit(row) && !self.has_other_border(row));
        let grown = rows.filter(|row| row.delta() > Some(0) && self.excess(row) > Some(0));
        // From the back: of equal ones `max_by_key` takes the last.
        let most = grown.filter(|_| self.growth.target.pattern.is_none()).rev().max_by_key(|row| row.delta())?;
        let bytes = Size(u64::try_from(most.delta()?).unwrap_or(u64::MAX));
        let name = shorten(&most.name, LONGEST_NAME);
        let grown = match most.source {
            PhaseSource::Pass => format!("the pass {name}, found by call stacks,"),
            _ => format!("inside another phase, {name}"),
        };
        Some(format!("{grown} grew {bytes}: a limit on phase:{name} would gate it"))
    }

    /// Whether the border of a pass moved, as call stacks show it: both sides record as many events, and it has another part of them.
    fn has_other_border(&self, row: &PhaseRow) -> bool {
        let events = Sides::BOTH.map(|&side| {
            let of_side = self.sides.of(side);
            let is_it = |of: &&Occurrence| {
                (of.source, &of.name, Some(of.number)) == (row.source, &row.name, *row.number.of(side))
            };
            let window = of_side.phases.all.iter().find(is_it).map(|of| of.window.to.count() - of.window.from.count());
            (of_side.trace.symbols.len(), window)
        });
        row.source == PhaseSource::Pass && events.before.0 == events.after.0 && events.before.1 != events.after.1
    }

    /// Whether memory ran out within a phase, and that hides what it needs.
    fn is_hidden(&self, row: &PhaseRow) -> bool {
        self.ran_out() && (row.ran_out.before || row.ran_out.after)
    }

    /// A check of the limit on a phase, without a result yet.
    fn check_of_phase(&self, row: &PhaseRow) -> Check {
        let row = CheckedRow { label: row.title(), key: Some(row.key()), ..CheckedRow::default() };
        Check { row: Some(row), ..self.check() }
    }

    /// The same with its figures, and with what is accepted of them.
    pub(super) fn compare_phase(&self, row: &PhaseRow, budget: &Budget<'_>) -> Check {
        let mut check = self.check_of_phase(row);
        check.compare(self.figure(row), &self.growth.limit);
        budget.accept_named(&mut check, &row.name);
        check
    }

    /// Remarks on a phase of which an occurrence exceeds the limit.
    fn remarks(&self, occurrences: &[&PhaseRow], row: &PhaseRow) -> Vec<String> {
        let mut remarks = Vec::new();
        let exceeding = occurrences.iter().filter(|row| self.excess(row) > Some(0)).count();
        if exceeding > 1 {
            let all = thousands(occurrences.len() as u64);
            remarks.push(format!("{} of {all} occurrences exceed it", thousands(exceeding as u64)));
        }
        if !(row.is_whole.before && row.is_whole.after) {
            remarks.push("not recorded from its beginning to its end".to_owned());
        }
        remarks
    }
}

impl GrowthLimit {
    /// Whether another limit decides where this one checks nothing: on other figures, and a warning only for a warning.
    fn leaves_to(&self, other: &Self) -> bool {
        other.target.kind != LimitKind::Phases && (other.level == Level::Fail || self.level == Level::Warn)
    }
}

impl Target {
    /// Whether a side has phases that it is about, also if their first occurrences are left out.
    fn has_phases(&self, diff: &Diff) -> bool {
        let sides = self.devices_of(diff).map(|device| diff.sides_of(device));
        let devices = sides.flat_map(|Sides { before, after }| before.into_iter().chain(after));
        let mut phases = devices.flat_map(|device| &device.phases.all);
        phases.any(|phase| self.pattern.as_ref().map_or(phase.is_outermost, |pattern| pattern.matches(&phase.name)))
    }
}

/// The side that lacks a figure.
fn lacking(figure: Change) -> Side {
    figure.missing().unwrap_or(Side::After)
}

/// Why there may be no evaluation.
const NO_EVALUATION: &str = "; evaluation is told by lines that call modules from which no backward pass follows, other than those \
                             of training";

/// Why phases of both sides may not be compared.
const ONLY_CALLS: &str = "the only phases on both sides are calls of PyTorch that allocate nothing";

/// The phases that a limit on all of them is not about.
const EXCEPT_CALLS: &str = ", except calls of PyTorch that allocate nothing";

/// Why there may be phases, but none to compare.
const SKIPPED: &str = "all occurrences are among the first, which skip-first leaves out";

/// The longest name of a phase in a remark, in characters.
const LONGEST_NAME: usize = 60;

impl Judge {
    /// A check per name that exceeds the limit, about the occurrence that does so by most, and one per name in which memory ran
    /// out; one that passes where there are none.
    pub(super) fn growth_of_phases(&mut self, gated: &Gated<'_>) {
        if let Some(reason) = gated.phases_cut() {
            return self.cannot_tell(gated.check(), reason);
        }
        let checked = self.checks.len();
        let budget = gated.budget();
        let errors = PhaseErrors::of(gated, &budget);
        // The phase that stays nearest to its limit, or may be furthest beyond it.
        let mut nearest: Option<(Option<i128>, Check, &PhaseRow)> = None;
        let mut missing = Vec::new();
        for occurrences in gated.phases().into_values() {
            if let Some(hidden) = occurrences.iter().find(|row| gated.is_hidden(row)) {
                self.cannot_tell(gated.check_of_phase(hidden), RAN_OUT);
            }
            let known = occurrences.iter().filter(|row| !gated.is_hidden(row));
            // Take the first of equal ones.
            let worst = known.clone().rev().max_by_key(|row| gated.excess(row));
            let Some(&row) = worst else { continue };
            let check = gated.compare_phase(row, &budget);
            match gated.excess(row) {
                None if gated.growth.target.pattern.is_some() => {
                    self.cannot_tell(check.named(&*row.name), gated.why_unknown(row));
                }
                None => missing.push(row),
                Some(1..) => self.exceeding_phase(check, &occurrences, row, gated, &errors),
                Some(_) => {
                    let all = known.map(|row| (*row, gated.compare_phase(row, &budget)));
                    let possible = all.map(|(row, check)| (errors.possible_excess(&check, row), check, row));
                    nearest = nearest.into_iter().chain(possible).rev().max_by_key(|(excess, ..)| *excess);
                }
            }
        }
        self.phases_not_compared(gated, &missing);
        // Where no growth exceeds the limit that was not accepted, the phase that comes nearest to it may be too near.
        if let Some((_, mut check, row)) = nearest.filter(|_| self.passes_since(checked)) {
            self.doubt(&mut check, errors.of_phase(row));
            let Check { outcome, reason, .. } = check;
            let reason = reason.or_else(|| gated.growth_inside());
            self.checks.push(match outcome {
                Outcome::Pass => gated.phases_pass(reason, self.checks.len() > checked),
                Outcome::Inconclusive | Outcome::Exceeded => Check { outcome, reason, ..gated.check() },
            });
        } else if self.checks.len() == checked && gated.phases_of_others().next().is_some() {
            self.checks.push(gated.phases_pass(gated.growth_inside(), false));
        }
    }

    /// A change may add or remove parts of the program: a diagnostic per reason says so, and the other limits judge them.
    fn phases_not_compared(&mut self, gated: &Gated<'_>, missing: &[&PhaseRow]) {
        let mut by_reason = BTreeMap::<String, Vec<&PhaseRow>>::new();
        missing.iter().for_each(|row| by_reason.entry(gated.why_missing(row)).or_default().push(row));
        for (reason, rows) in by_reason {
            let name = shorten(&rows[0].name, LONGEST_NAME);
            let others = match rows.len() - 1 {
                0 => String::new(),
                more => format!("; likewise inside {}", count(more as u64, "other phase", "other phases")),
            };
            let message = format!("the peak inside phase {name} is not compared: {reason}{others}");
            let remark = Diagnostic::new(Code::PhaseNotCompared, gated.device.id(), message);
            if !self.diagnostics.contains(&remark) {
                self.diagnostics.push(remark);
            }
        }
    }

    fn exceeding_phase(
        &mut self,
        mut check: Check,
        occurrences: &[&PhaseRow],
        row: &PhaseRow,
        gated: &Gated<'_>,
        errors: &PhaseErrors<'_>,
    ) {
        let remarks = if check.reason.is_none() { gated.remarks(occurrences, row) } else { Vec::new() };
        self.doubt(&mut check, errors.of_phase(row));
        let reasons: Vec<String> = check.reason.take().into_iter().chain(remarks).collect();
        check.reason = Some(reasons.join("; ")).filter(|reason| !reason.is_empty());
        self.add(check);
    }

    /// A pattern that matches no phase on any device of its limit checks nothing. Nor does a limit on all phases where both
    /// sides have none in common, but beside other limits that fail this is only noted: PyTorch before 2.5 keeps no names.
    pub(super) fn unmatched_phase(&mut self, diff: &Diff, growth: &GrowthLimit, thresholds: &Thresholds) {
        let Target { kind, pattern, .. } = &growth.target;
        if !kind.is_of_phases() {
            return;
        }
        let rows = growth.target.devices_of(diff).flat_map(|device| &device.phases);
        // A check that passes, or an inconclusive one, was added already.
        if self.checks.iter().any(|check| check.of == growth.target && check.limit.level == growth.level) {
            return;
        }
        let is_empty = !rows.clone().any(|row| pattern.is_some() || row.is_outermost);
        let is_skipped = growth.target.has_phases(diff);
        let is_on_both = rows.clone().any(|row| row.is_outermost && row.peak.both().is_some());
        let none_compared = if is_on_both { ONLY_CALLS } else { "no phase is on both sides" };
        let reason = match pattern {
            None if thresholds.growth.iter().any(|other| growth.leaves_to(other)) => {
                let why = match is_empty {
                    true if is_skipped => SKIPPED,
                    true => "neither side has any phases that the program names",
                    false => none_compared,
                };
                let message = format!("the limit {}={} checks nothing: {why}", growth.target.name(), growth.limit);
                return self.diagnostics.push(Diagnostic::new(Code::LimitNotChecked, None, message));
            }
            Some(pattern) if rows.clone().any(|row| pattern.matches(&row.name)) => return,
            _ if is_skipped && (is_empty || pattern.is_some()) => SKIPPED.to_owned(),
            _ if is_empty && growth.target.of_host => {
                "no phase of either side has events of pinned host memory".to_owned()
            }
            _ if is_empty => {
                "neither side has any phases that the program names: no annotations (record_function), no metadata, no compile contexts"
                    .to_owned()
            }
            None => none_compared.to_owned(),
            Some(pattern) => {
                let near = near_phases(pattern, rows.map(|row| &*row.name));
                format!("the pattern matches no phase on either side{near}")
            }
        };
        match pattern {
            Some(_) if !is_skipped => self.unmatched(growth.check(), thresholds, reason),
            _ => self.cannot_tell(growth.check(), reason),
        }
    }
}

/// Phases whose names are near a pattern that matches none, as the rest of a sentence.
pub(super) fn near_phases<'n>(pattern: &Pattern, names: impl Iterator<Item = &'n str>) -> String {
    let near = pattern.unmatched("phase", names);
    let told = if pattern.matches(Pass::Evaluation.into()) { NO_EVALUATION } else { "" };
    near + told
}
