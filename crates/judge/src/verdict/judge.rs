//! The judge: applies limits to the figures of a comparison or of one snapshot.

use std::cmp::Reverse;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_compare::diff::{DeviceDiff, Diff, Sides};
use ptmem_trace::profile::{DeviceProfile, EndingKind, Metric, Profile, Supposed};
use ptmem_trace::replay::HistoryKind;

use super::ranks::ONE_RANK;
use super::{
    About, Beside, Check, Excuse, GrownMost, Judgement, Level, NoBefore, Outcome, PeakChange, Thresholds, Verdict,
    cause, peak,
};

/// Judges a comparison.
#[must_use]
pub fn judge_diff(diff: &Diff, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    judge.out_of_memory_of_diff(diff, thresholds);
    judge.imbalance_of_one(thresholds);
    for growth in thresholds.growth.iter().filter(|growth| growth.target.about != About::Imbalance) {
        let mut devices = diff.devices.iter().filter(|device| growth.target.concerns(device.id())).peekable();
        if devices.peek().is_none() {
            judge.cannot_tell(
                growth.check(),
                growth.target.missing("neither side has", "neither side holds any memory"),
            );
        }
        for device in devices {
            judge.growth(diff, device, growth, thresholds);
        }
        if !diff.profiles.each().into_iter().any(|(_, profile)| profile.is_numbers()) {
            judge.unmatched_pattern(diff, growth, thresholds);
            judge.unmatched_phase(diff, growth, thresholds);
            judge.unmatched_name(diff, growth, thresholds);
        }
    }
    let after = &diff.profiles.after;
    let devices = diff.devices.iter().filter_map(|device| Some(&after.devices[device.index.after?]));
    let missing = diff.devices.iter().filter(|device| device.index.after.is_none()).map(DeviceDiff::id);
    judge.maxima(after, &devices.collect::<Vec<_>>(), &missing.collect::<Vec<_>>(), thresholds, Some(diff));
    judge.doubt_runs_of_diff(diff);
    let all = [&diff.profiles.before.diagnostics, &diff.profiles.after.diagnostics, &diff.diagnostics];
    let many = diff.devices.iter().filter(|device| !device.is_host()).count() > 1;
    let judgement = judge.finish(all.into_iter().flatten(), thresholds.strict, many);
    let peak = PeakChange::of(diff, thresholds).filter(|_| judgement.checks.is_empty());
    let beside = Beside::of(diff, &judgement.checks, thresholds);
    let unlike = unlike(diff, many);
    let most = judgement.decisive().and_then(|check| most_of_failed(diff, check));
    cause::complete(Judgement { peak, beside, unlike, most, ..judgement }, diff)
}

/// The row that grew most where a check fails by the peak of its device.
fn most_of_failed(diff: &Diff, check: &Check) -> Option<GrownMost> {
    let is_of_peak = check.about() == About::Metric(Metric::Peak) && check.fails_by_growth() && check.reason.is_none();
    let device = diff.devices.iter().find(|device| is_of_peak && device.id() == check.device)?;
    peak::most(diff, device, check.delta?)
}

/// How little of the before the first device of the after has on which that is little.
fn unlike(diff: &Diff, many_devices: bool) -> Option<String> {
    let (device, overlap) = diff.devices.iter().find_map(|device| Some((device, device.little_overlap()?)))?;
    let name = device.id().filter(|_| many_devices).map(|device| format!("{device}: ")).unwrap_or_default();
    Some(format!("{name}{overlap}"))
}

/// Judges one snapshot by absolute limits.
#[must_use]
pub fn judge_profile(profile: &Profile, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    let devices = profile.gated_devices();
    let many = devices.len() > 1;
    let active: Vec<_> = devices.into_iter().chain(profile.host()).collect();
    for device in &active {
        judge.out_of_memory(device, thresholds);
    }
    judge.imbalance_of_one(thresholds);
    judge.maxima(profile, &active, &[], thresholds, None);
    judge.growth_without_before(thresholds);
    judge.doubt_run(failure(profile));
    judge.finish(profile.diagnostics.iter(), thresholds.strict, many)
}

/// Checks and remarks as they are made.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) checks: Vec<Check>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The reason why a figure that needs a history cannot be known, if there is one.
pub(super) fn no_history(device: &DeviceProfile, side: &str, about: About) -> Option<String> {
    let why = match device.figures.history {
        HistoryKind::Recorded if device.figures.allocation_count > 0 => return None,
        // The state at the dump has them.
        history if about == About::Pools && history != HistoryKind::NumbersOnly => return None,
        HistoryKind::NumbersOnly if matches!(about, About::Metric(_)) => return None,
        HistoryKind::NumbersOnly => {
            "holds only figures, without stacks or a history (record the same run, as with ptmem_gate.record(), and compare \
             snapshots)"
        }
        HistoryKind::Recorded => "allocates nothing in its recorded part",
        HistoryKind::StateOnly | HistoryKind::Empty => "records no allocations, only the state at the dump",
        HistoryKind::NoAllocations => "records frees but no allocations",
    };
    Some(format!("the {side} {why}"))
}

impl Judge {
    /// Growth that should be gated, and has nothing to be compared with. A broken base excuses it only where an absolute limit
    /// was decided.
    fn growth_without_before(&mut self, thresholds: &Thresholds) {
        let Some(NoBefore { reason, excuse }) = &thresholds.no_before else { return };
        let check = Check::new(About::Growth, "a before".to_owned(), Level::Fail);
        let is_limited = self.checks.iter().any(|check| check.absolute && check.outcome != Outcome::Inconclusive);
        let why = match excuse {
            Some(Excuse::First) => Ok(format!("nothing to compare with yet: {reason}")),
            Some(Excuse::BrokenBase) if thresholds.strict => {
                Err(format!("not judged, and limits are strict: {reason}"))
            }
            Some(Excuse::BrokenBase) if !is_limited => {
                Err(format!("not judged, and no absolute limit is set: {reason}"))
            }
            Some(Excuse::BrokenBase) => Ok(format!("growth is not judged, because the base is broken: {reason}")),
            None => Err(format!("not judged: {reason}")),
        };
        let check = match why {
            Ok(words) => Check { outcome: Outcome::Pass, words: Some(words), ..check },
            Err(reason) => Check { reason: Some(reason), ..check },
        };
        // Before limits that pass, of which the first leads the report.
        self.checks.insert(0, check);
    }

    /// One snapshot has nothing to be out of balance with.
    fn imbalance_of_one(&mut self, thresholds: &Thresholds) {
        if thresholds.one_of_ranks {
            return;
        }
        for growth in thresholds.growth.iter().filter(|growth| growth.target.about == About::Imbalance) {
            self.cannot_tell(growth.check(), ONE_RANK);
        }
        for maximum in thresholds.maximum.iter().filter(|maximum| maximum.target.about == About::Imbalance) {
            self.cannot_tell(maximum.check(), ONE_RANK);
        }
    }

    /// Adds a check that is inconclusive for a reason.
    pub(super) fn cannot_tell(&mut self, check: Check, reason: impl Into<String>) {
        self.checks.push(Check { reason: Some(reason.into()), ..check });
    }

    /// The same for a pattern that matches nothing on any device: a limit that nothing exceeds does not count as a
    /// pass. Another rank may have a match.
    pub(super) fn unmatched(&mut self, check: Check, thresholds: &Thresholds, reason: String) {
        self.checks
            .retain(|other| other.of != check.of || other.absolute != check.absolute || other.outcome != Outcome::Pass);
        if !thresholds.one_of_ranks {
            self.cannot_tell(check, reason);
        }
    }

    /// Adds a check, unless another one was added since there were `checked` of them: one that passes, or that is inconclusive
    /// because a part is lost.
    pub(super) fn or_pass(&mut self, checked: usize, check: Check, lost: Option<String>) {
        if self.checks.len() == checked {
            let outcome = if lost.is_some() { Outcome::Inconclusive } else { Outcome::Pass };
            self.checks.push(Check { outcome, reason: lost, ..check });
        }
    }

    /// Adds a check, with a remark where it passes only because the growth was accepted.
    pub(super) fn add(&mut self, check: Check) {
        self.tell_accepted(&check);
        self.checks.push(check);
    }

    /// Adds a remark to a check that passes only because the growth was accepted.
    fn tell_accepted(&mut self, check: &Check) {
        if let (true, Some(reason)) = (check.accepted, &check.reason) {
            let message = format!("{} exceeds its limit, {reason}", check.subject());
            self.diagnostics.push(Diagnostic::new(Code::AcceptedGrowth, check.device, message));
        }
    }

    /// Warns where the bounds of inexact figures reach across the limit; where a bound is not known, nothing is.
    pub(super) fn doubt(&mut self, check: &mut Check, errors: Sides<Option<u64>>) {
        let (Some(before), Some(after)) = (errors.before, errors.after) else {
            check.outcome = Outcome::Inconclusive;
            check.reason = Some(format!("{} is not exact, and its error is not known", check.of.name()));
            return;
        };
        let error = i128::from(before) + i128::from(after);
        let measured = if check.absolute { check.after.map(i128::from) } else { check.delta };
        let (Some(measured), Some(allowed)) = (measured, check.allowed.and_then(|a| i128::try_from(a).ok())) else {
            return;
        };
        let crosses = match check.outcome {
            Outcome::Pass => measured + error > allowed,
            _ => measured - error <= allowed,
        };
        if error > 0 && crosses {
            let total = Size(u64::try_from(error).unwrap_or(u64::MAX));
            let message = format!("{} is known to within {total}, which reaches across the limit", check.of.name());
            check.reason = Some(message.clone());
            self.diagnostics.push(Diagnostic::new(Code::WithinError, check.device, message));
        }
    }

    fn has(&self, outcome: Outcome, level: Level) -> bool {
        self.checks.iter().any(|check| check.outcome == outcome && check.level == level)
    }

    /// The verdict of all checks; `known` are the diagnostics of what they compare.
    pub(super) fn finish<'d>(
        mut self,
        known: impl Iterator<Item = &'d Diagnostic>,
        strict: bool,
        many_devices: bool,
    ) -> Judgement {
        self.checks.sort_by_key(order);
        let mut distrust = Vec::new();
        if strict && !self.checks.is_empty() {
            distrust.extend(known.map(|diagnostic| (diagnostic.code, diagnostic.device)));
            distrust.extend(self.diagnostics.iter().map(|diagnostic| (diagnostic.code, diagnostic.device)));
            distrust.retain(|(code, _)| code.is_distrusted());
            distrust.sort_unstable_by_key(|(code, device)| (code.name(), *device));
            distrust.dedup();
        }
        let is_unclear = self.has(Outcome::Inconclusive, Level::Fail)
            || !distrust.is_empty()
            || strict && self.has(Outcome::Inconclusive, Level::Warn);
        let verdict = if self.has(Outcome::Exceeded, Level::Fail) {
            Verdict::Regression
        } else if is_unclear {
            Verdict::Inconclusive
        } else {
            Verdict::Pass
        };
        Judgement {
            verdict,
            checks: self.checks,
            diagnostics: self.diagnostics,
            distrust,
            many_devices,
            unlike: None,
            peak: None,
            beside: None,
            most: None,
            cause: None,
        }
    }
}

/// The place of a check among others: memory that ran out first, then failures, the peak and then the largest first;
/// checks that pass keep their order.
fn order(check: &Check) -> impl Ord + use<> {
    let group = match (check.outcome, check.level) {
        (Outcome::Exceeded, Level::Fail) if check.about() == About::OutOfMemory => 0,
        (Outcome::Exceeded, Level::Fail) if check.about() == About::Metric(Metric::Peak) => 1,
        (Outcome::Exceeded, Level::Fail) => 2,
        (Outcome::Inconclusive, _) => 3,
        (Outcome::Exceeded, Level::Warn) => 4,
        (Outcome::Pass, _) if check.accepted => return (5, Reverse(0)),
        (Outcome::Pass, _) => return (6, Reverse(0)),
    };
    let bytes = check.delta.or(check.after.map(i128::from)).unwrap_or(0);
    (group, Reverse(bytes))
}

impl Judge {
    /// Retracts checks that a comparison cannot decide, because a side is not a whole run, both ran the same code, or one
    /// program differs from run to run.
    pub(super) fn doubt_runs_of_diff(&mut self, diff: &Diff) {
        if let Some(reason) = diff.same_code() {
            self.take_back(&reason, |check| !check.absolute);
        }
        if diff.is_not_repeatable() {
            let reason =
                "both sides ran the same program, and differ by more than the limit allows: seed it, or allow more";
            self.take_back(reason, |check| !check.absolute && check.differs_by_more_than_allowed());
        }
        self.doubt_supposed_sizes(diff);
        let failures = Sides { before: failure(&diff.profiles.before), after: failure(&diff.profiles.after) };
        // A part of a run needs as much as it shows, and perhaps more.
        if let Some(failure) = failures.after {
            let reason = format!("the after is not a whole run: {failure}");
            self.take_back(&reason, |check| check.outcome != Outcome::Exceeded);
        }
        if let Some(failure) = failures.before {
            let run = diff.profiles.before.run.as_ref();
            let ran_out = run.and_then(|run| run.ending.as_ref()).is_some_and(|ending| ending.kind == EndingKind::Oom);
            let concerns = |check: &Check| !(check.absolute || check.mended && ran_out);
            self.take_back(&format!("the before is not a whole run: {failure}"), concerns);
        }
    }

    /// Makes checks inconclusive that memory of supposed sizes could decide, where the sides did not suppose the same.
    fn doubt_supposed_sizes(&mut self, diff: &Diff) {
        let Some(Supposed { bytes, first }) = Supposed::of(&diff.profiles) else { return };
        let first = first.map(|line| format!(", first at {line}")).unwrap_or_default();
        let reason = format!(
            "{} of memory have sizes that simulated GPUs supposed, differently on each side{first}: record both with --compute all",
            Size(bytes)
        );
        self.take_back(&reason, |check| check.is_decided_within(bytes));
    }

    /// The same for one snapshot under absolute limits, or in a search for leaks.
    pub(super) fn doubt_run(&mut self, failure: Option<String>) {
        if let Some(failure) = failure {
            let reason = format!("the snapshot is not of a whole run: {failure}");
            self.take_back(&reason, |check| check.outcome != Outcome::Exceeded);
        }
    }

    /// Makes the checks of a kind inconclusive. Memory that ran out did so.
    fn take_back(&mut self, reason: &str, concerns: impl Fn(&Check) -> bool) {
        for check in &mut self.checks {
            if check.about() != About::OutOfMemory && concerns(check) {
                check.outcome = Outcome::Inconclusive;
                check.reason = Some(reason.to_owned());
                check.advice = None;
                check.bound = None;
                check.accepted = false;
            }
        }
    }
}

/// The reason why a profile is not that of a whole run.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    profile.run.as_ref()?.failure()
}
