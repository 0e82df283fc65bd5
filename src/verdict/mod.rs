//! Thresholds, and what they say about a comparison or about one snapshot.

mod accepted;
pub mod config;
mod gate;
mod leak;
mod phases;
mod ranks;
mod threshold;

use std::collections::HashSet;
use std::fmt;

pub use accepted::{Accepted, Day, Subject};
pub use gate::{Comparison, Gate, Reading, Readings};
pub use leak::{Finding, LeakGate, judge_leaks};
pub use ranks::{Member, Missing, Rank, RankPeak, Ranks, judge_ranks, numbers, peaks, peaks_of_one};
pub use threshold::{Figure, Growth, IMBALANCE, Level, Limits, Maximum, ParseThresholdError, Target};

use crate::diagnostic::{Diagnostic, Severity};
use crate::diff::{DeviceDiff, Diff, Row, RowKind, Sides};
use crate::profile::{Cut, DeviceProfile, Moment, Profile};
use crate::replay::History;
use crate::units::{Size, format_percent};
use accepted::Budget;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Thresholds {
    /// Limits on growth.
    pub growth: Vec<Growth>,
    /// Absolute limits.
    pub maximum: Vec<Maximum>,
    /// Stacks that changed by fewer bytes are not gated.
    pub min_delta: u64,
    /// An untrustworthy comparison is inconclusive.
    pub strict: bool,
    /// Growth beyond the limits that was agreed to.
    pub accepted: Vec<Accepted>,
    /// The day on which it has to be valid.
    pub today: Day,
    /// Whether this is one rank of several, so that [`judge_ranks`] tells what concerns all of them.
    pub one_of_ranks: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing gated exceeds its limit.
    Pass,
    /// A gated figure cannot be computed or compared.
    Inconclusive,
    /// A gated figure exceeds its limit.
    Regression,
}

impl Verdict {
    /// The process exit code: 0 pass, 1 regression, 3 inconclusive. (2 is "could not run".)
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Regression => 1,
            Self::Inconclusive => 3,
        }
    }

    /// The word that leads the line of the verdict.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Regression => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Regression => "regression",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// What came of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Within the limit.
    Pass,
    /// Cannot be told.
    Inconclusive,
    /// Beyond the limit.
    Exceeded,
}

impl Outcome {
    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Exceeded => "exceeded",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// One threshold applied to one figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The metric: `peak`, `stack`, ….
    pub metric: String,
    /// The label of the stack or the phase, where it is about one.
    pub scope: Option<String>,
    /// The key of that.
    pub key: Option<String>,
    /// The device ordinal.
    pub device: Option<u32>,
    /// The limit as the user wrote it, in normal form.
    pub limit: String,
    /// Bytes before; `None` for absolute limits and where unknown.
    pub before: Option<u64>,
    /// Bytes after; `None` where unknown.
    pub after: Option<u64>,
    /// Bytes gained; for an absolute limit `None`.
    pub delta: Option<i128>,
    /// Bytes that may be gained, or held for an absolute limit.
    pub allowed: Option<u128>,
    /// Whether exceeding it fails or warns.
    pub level: Level,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it is inconclusive, or another remark.
    pub reason: Option<String>,
    /// Whether the limit is absolute.
    pub absolute: bool,
    /// Whether it passes only because the growth was agreed to.
    pub accepted: bool,
    /// The figure in words, where they are not those of a limit on growth or size.
    pub words: Option<String>,
}

impl Check {
    const FINE: u8 = 2;

    /// A check that nothing is known of yet.
    fn new(metric: String, limit: String, level: Level) -> Self {
        Self {
            metric,
            scope: None,
            key: None,
            device: None,
            limit,
            before: None,
            after: None,
            delta: None,
            allowed: None,
            level,
            outcome: Outcome::Inconclusive,
            reason: None,
            absolute: false,
            accepted: false,
            words: None,
        }
    }

    /// Whether it is about the peaks inside phases.
    #[must_use]
    pub fn is_of_phases(&self) -> bool {
        self.metric.starts_with("phase:")
    }

    /// What its scope is.
    fn noun(&self) -> &'static str {
        if self.is_of_phases() { "phase" } else { "stack" }
    }

    /// 0 where it fails, 1 where it cannot be told or warns, else 2.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match (self.outcome, self.level) {
            (Outcome::Exceeded, Level::Fail) => 0,
            (Outcome::Exceeded, Level::Warn) | (Outcome::Inconclusive, _) => 1,
            (Outcome::Pass, _) => Self::FINE,
        }
    }
}

/// All checks and what they amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// Every check: failures first, in the order of the thresholds otherwise.
    pub checks: Vec<Check>,
    /// Further remarks, such as figures whose bound reaches across the limit.
    pub diagnostics: Vec<Diagnostic>,
    /// Why the verdict is inconclusive although no single check is.
    pub distrust: Vec<String>,
    /// Whether several devices were checked, so that checks should name theirs.
    pub many_devices: bool,
}

/// The diagnostic of a check that passes only because growth was agreed to.
pub const ACCEPTED_GROWTH: &str = "accepted-growth";

/// Diagnostics under which a comparison is not to be trusted: `strict` makes them inconclusive.
const DISTRUSTED: [&str; 17] = [
    "allocated-grows",
    "phase-occurrences-differ",
    "same-input",
    "history-truncated",
    "sizes-not-recovered",
    "checkpoint-mismatch",
    "end-mismatch",
    "baseline-mismatch",
    "events-inconsistent",
    "blocks-overlap",
    "segments-skipped",
    "segments-unknown",
    "segment-sums",
    "time-backwards",
    "settings-differ",
    "recordings-differ",
    "within-error",
];

/// Judges a comparison.
#[must_use]
pub fn judge_diff(diff: &Diff, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    judge.imbalance_of_one(thresholds);
    for growth in thresholds.growth.iter().filter(|growth| growth.target != Target::Imbalance) {
        if diff.devices.is_empty() {
            judge.nothing(
                growth.target.name(),
                growth.limit.to_string(),
                growth.level,
                "neither side holds any memory",
            );
        }
        for device in &diff.devices {
            judge.growth(diff, device, growth, thresholds);
        }
        judge.unmatched_pattern(diff, growth, thresholds);
        judge.unmatched_phase(diff, growth);
    }
    for maximum in &thresholds.maximum {
        let devices = diff
            .devices
            .iter()
            .map(|device| (device.index.after.map(|i| &diff.profiles.after.devices[i]), device.ordinal()));
        judge.maxima(maximum, devices);
    }
    let all = [&diff.profiles.before.diagnostics, &diff.profiles.after.diagnostics, &diff.diagnostics];
    judge.finish(all.into_iter().flatten(), thresholds.strict, diff.devices.len() > 1)
}

/// Judges one snapshot by absolute limits.
#[must_use]
pub fn judge_profile(profile: &Profile, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    judge.imbalance_of_one(thresholds);
    let active: Vec<_> = profile.devices.iter().filter(|device| device.is_active()).collect();
    for maximum in &thresholds.maximum {
        judge.maxima(maximum, active.iter().map(|device| (Some(*device), Some(device.device))));
    }
    judge.finish(profile.diagnostics.iter(), thresholds.strict, active.len() > 1)
}

#[derive(Default)]
struct Judge {
    checks: Vec<Check>,
    diagnostics: Vec<Diagnostic>,
}

/// Why a figure that needs a history has none to stand on.
fn no_history(device: &DeviceProfile, side: &str) -> Option<String> {
    let why = match device.figures.history {
        History::Recorded => return None,
        History::StateOnly | History::Empty => "records no allocations, only the state at the dump",
        History::NoAllocations => "records frees but no allocations",
    };
    Some(format!("the {side} {why}"))
}

impl Judge {
    /// One snapshot has nothing to be out of balance with.
    fn imbalance_of_one(&mut self, thresholds: &Thresholds) {
        if thresholds.one_of_ranks {
            return;
        }
        let reason = "there is only one rank; give a directory or a glob with a file for each";
        for growth in thresholds.growth.iter().filter(|growth| growth.target == Target::Imbalance) {
            self.nothing(growth.target.name(), growth.limit.to_string(), growth.level, reason);
        }
        for maximum in thresholds.maximum.iter().filter(|maximum| maximum.figure == Figure::Imbalance) {
            self.nothing(IMBALANCE.to_owned(), Size(maximum.limit).to_string(), Level::Fail, reason);
        }
    }

    fn nothing(&mut self, metric: String, limit: String, level: Level, reason: &str) {
        let reason = Some(reason.to_owned());
        self.checks.push(Check { reason, ..Check::new(metric, limit, level) });
    }

    fn growth(&mut self, diff: &Diff, device: &DeviceDiff, growth: &Growth, thresholds: &Thresholds) {
        let sides = Sides {
            before: device.index.before.map(|i| &diff.profiles.before.devices[i]),
            after: device.index.after.map(|i| &diff.profiles.after.devices[i]),
        };
        let mut check = Check {
            device: device.ordinal(),
            ..Check::new(growth.target.name(), growth.limit.to_string(), growth.level)
        };
        let mut budget = Budget::new(&thresholds.accepted, thresholds.today);
        let (Some(before), Some(after)) = (sides.before, sides.after) else {
            let side = if sides.before.is_none() { "before" } else { "after" };
            check.reason = Some(format!("the device is missing in the {side}"));
            self.checks.push(check);
            return;
        };
        let needs_history = !matches!(growth.target, Target::Metric(metric) if !metric.needs_history());
        if needs_history && let Some(reason) = no_history(before, "before").or_else(|| no_history(after, "after")) {
            check.reason = Some(format!("{reason}; {} cannot be compared", check.metric));
            self.checks.push(check);
            return;
        }
        match &growth.target {
            // Of all ranks together.
            Target::Imbalance => {}
            Target::Metric(metric) => {
                let change = device.metric(*metric);
                (check.before, check.after, check.delta) = (change.before, change.after, change.delta());
                if let (Some(old), Some(delta)) = (change.before, change.delta()) {
                    check.allowed = Some(growth.limit.allowed(old));
                    check.outcome = if growth.limit.holds(old, delta) { Outcome::Pass } else { Outcome::Exceeded };
                    self.doubt(&mut check, metric.max_error(before), metric.max_error(after));
                    if check.outcome == Outcome::Exceeded {
                        let rows_at_peak = diff.profiles.after.options.at == Moment::Peak;
                        budget.accept_metric(&mut check, *metric, device, rows_at_peak);
                        // Whether it is accepted may depend on what a saved profile does not list.
                        if check.outcome == Outcome::Exceeded && (before.cut.is_some() || after.cut.is_some()) {
                            budget.doubt_metric(&mut check, *metric, device, rows_at_peak);
                        }
                        self.tell_accepted(&check);
                    }
                } else {
                    check.reason = Some(format!("{} cannot be computed", check.metric));
                }
                self.checks.push(check);
            }
            Target::Stack(_) if before.at.is_none() || after.at.is_none() => {
                let side = if before.at.is_none() { "before" } else { "after" };
                check.reason =
                    Some(format!("the {side} has no moment '{}' to compare stacks at", diff.profiles.after.options.at));
                self.checks.push(check);
            }
            Target::Stack(pattern) => {
                // A limit for certain stacks takes the place of that for all.
                let special = |row: &Row| {
                    thresholds
                        .growth
                        .iter()
                        .filter(|other| other.level == growth.level)
                        .any(|other| matches!(&other.target, Target::Stack(Some(pattern)) if row.matches(pattern)))
                };
                let gated = |row: &&Row| {
                    let largest = row.before_within.map_or(row.delta().unsigned_abs(), |_| row.held.after.bytes.into());
                    largest >= u128::from(thresholds.min_delta)
                        && !matches!(row.kind, RowKind::Others(_))
                        && pattern.as_ref().map_or(!special(row), |pattern| row.matches(pattern))
                };
                let mut any = false;
                let matters =
                    |cut: &Cut| cut.largest >= thresholds.min_delta && !growth.limit.holds(0, i128::from(cut.largest));
                if let Some(cut) = after.cut.filter(matters) {
                    any = true;
                    let largest = Size(cut.largest);
                    let reason = format!("the after lists no stacks below {largest}; give the snapshot itself");
                    self.checks.push(Check { reason: Some(reason), ..check.clone() });
                }
                for row in device.rows.iter().chain(&device.unlisted).filter(gated) {
                    let (old, now) = (row.held.before.bytes, row.held.after.bytes);
                    // At worst, what has no certain partner held nothing before.
                    let least = if row.before_within.is_some() { 0 } else { old };
                    if growth.limit.holds(least, i128::from(now) - i128::from(least)) {
                        continue;
                    }
                    any = true;
                    let mut of_row = Check {
                        scope: Some(row.label.clone()),
                        key: Some(row.key.clone()),
                        before: Some(old),
                        after: Some(now),
                        delta: Some(row.delta()),
                        allowed: Some(growth.limit.allowed(old)),
                        outcome: Outcome::Exceeded,
                        ..check.clone()
                    };
                    if let Some(most) = row.before_within {
                        let certain = i128::from(now) - i128::from(most);
                        let is_certain = !row.moved
                            && !growth.limit.holds(most, certain)
                            && certain.unsigned_abs() >= u128::from(thresholds.min_delta);
                        let what =
                            if is_certain { "it may have held up to that before" } else { "so it cannot be told" };
                        of_row.reason = Some(format!(
                            "a side lists no stacks below {}: {what}; save it without --top and --min-bytes",
                            Size(most)
                        ));
                        if !is_certain {
                            of_row.outcome = Outcome::Inconclusive;
                        }
                    }
                    budget.accept_stack(&mut of_row, row);
                    self.tell_accepted(&of_row);
                    self.checks.push(of_row);
                }
                if !any {
                    check.outcome = Outcome::Pass;
                    self.checks.push(check);
                }
            }
            Target::Phase(pattern) => {
                self.phases(&check, growth, pattern, &device.phases, Sides { before, after }, &budget);
            }
        }
    }

    /// A pattern that matches no stack on any device checks nothing.
    fn unmatched_pattern(&mut self, diff: &Diff, growth: &Growth, thresholds: &Thresholds) {
        if !growth.matches(diff) {
            self.checks.retain(|check| check.metric != growth.target.name() || check.outcome != Outcome::Pass);
            // Another rank may have such a stack.
            if thresholds.one_of_ranks {
                return;
            }
            let reason = "the pattern matches no stack on either side; it is compared with labels such as \
                          'forward (model.py:12)'";
            self.nothing(growth.target.name(), growth.limit.to_string(), growth.level, reason);
        }
    }

    fn maxima<'d>(
        &mut self,
        maximum: &Maximum,
        devices: impl Iterator<Item = (Option<&'d DeviceProfile>, Option<u32>)>,
    ) {
        let Figure::Metric(figure) = maximum.figure else { return };
        let mut any = false;
        for (profile, number) in devices {
            any = true;
            let (metric, limit) = (figure.name().to_owned(), Size(maximum.limit).to_string());
            let mut check = Check {
                device: number,
                after: profile.and_then(|device| figure.value(device)),
                allowed: Some(u128::from(maximum.limit)),
                absolute: true,
                ..Check::new(metric, limit, Level::Fail)
            };
            let no_history = profile.and_then(|device| no_history(device, "snapshot"));
            match (profile, check.after) {
                (None, _) => check.reason = Some("the device is missing in the after".to_owned()),
                // What is held at the dump is a lower bound of every peak: enough to fail, not to pass.
                (_, Some(value)) if value > maximum.limit => check.outcome = Outcome::Exceeded,
                _ if figure.needs_history() && no_history.is_some() => {
                    check.reason = no_history.map(|why| format!("{why}; {} is not known", check.metric));
                }
                (Some(device), Some(_)) => {
                    check.outcome = Outcome::Pass;
                    self.doubt(&mut check, Some(0), figure.max_error(device));
                }
                (Some(_), None) => check.reason = Some(format!("{} cannot be computed", check.metric)),
            }
            self.checks.push(check);
        }
        if !any {
            let reason = "the snapshot holds no memory on any device";
            let (metric, limit) = (figure.name().to_owned(), Size(maximum.limit).to_string());
            self.nothing(metric, limit, Level::Fail, reason);
        }
    }

    /// Says where a check passes only because growth was agreed to.
    fn tell_accepted(&mut self, check: &Check) {
        if let (true, Some(reason)) = (check.accepted, &check.reason) {
            let scope = check.scope.as_deref().map(|label| format!("{} {label}", check.noun()));
            let what = scope.unwrap_or_else(|| check.metric.clone());
            let message = format!("{what} exceeds its limit, {reason}");
            self.diagnostics.push(Diagnostic::note(ACCEPTED_GROWTH, check.device, message));
        }
    }

    /// Remarks where the bounds of inexact figures reach across the limit.
    fn doubt(&mut self, check: &mut Check, before: Option<u64>, after: Option<u64>) {
        let (Some(before), Some(after)) = (before, after) else {
            let message = format!("{} is not exact, and its error is not known", check.metric);
            check.reason = Some(message.clone());
            self.diagnostics.push(Diagnostic::warning("within-error", check.device, message));
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
            let message = format!("{} is known to within {total}, which reaches across the limit", check.metric);
            check.reason = Some(message.clone());
            self.diagnostics.push(Diagnostic::warning("within-error", check.device, message));
        }
    }

    fn finish<'d>(
        mut self,
        known: impl Iterator<Item = &'d Diagnostic>,
        strict: bool,
        many_devices: bool,
    ) -> Judgement {
        // Failures first, the largest first; what passed keeps its order.
        let weight = |check: &Check| {
            let beyond = check.delta.unwrap_or(0).max(check.after.map_or(0, i128::from));
            let rank = match (check.outcome, check.level) {
                (Outcome::Exceeded, Level::Fail) => 0,
                (Outcome::Inconclusive, _) => 1,
                (Outcome::Exceeded, Level::Warn) => 2,
                (Outcome::Pass, _) if check.accepted => return (3, 0),
                (Outcome::Pass, _) => return (4, 0),
            };
            (rank, if check.delta.is_some() { -check.delta.unwrap_or(0) } else { -beyond })
        };
        self.checks.sort_by_key(weight);
        let mut distrust = Vec::new();
        if strict && !self.checks.is_empty() {
            let distrusted = |d: &&Diagnostic| d.severity == Severity::Warning && DISTRUSTED.contains(&&*d.code);
            distrust.extend(known.filter(distrusted).map(|d| d.code.to_string()));
            distrust.extend(self.diagnostics.iter().filter(distrusted).map(|d| d.code.to_string()));
            distrust.sort_unstable();
            distrust.dedup();
        }
        let has = |outcome, level| self.checks.iter().any(|c| c.outcome == outcome && c.level == level);
        let verdict = if has(Outcome::Exceeded, Level::Fail) {
            Verdict::Regression
        } else if has(Outcome::Inconclusive, Level::Fail)
            || !distrust.is_empty()
            || strict && has(Outcome::Inconclusive, Level::Warn)
        {
            Verdict::Inconclusive
        } else {
            Verdict::Pass
        };
        Judgement { verdict, checks: self.checks, diagnostics: self.diagnostics, distrust, many_devices }
    }
}

impl Judgement {
    /// Tells whether a row of a device is a reason for the verdict: it exceeds a limit itself, or it grew where a
    /// figure of its device did by too much.
    pub fn explanation(&self, device: &DeviceDiff) -> impl Fn(&Row) -> bool + use<'_> {
        let number = device.ordinal();
        let exceeded = || self.checks.iter().filter(move |c| c.outcome == Outcome::Exceeded && c.device == number);
        let keys: HashSet<&str> = exceeded().filter_map(|check| check.key.as_deref()).collect();
        let grew = exceeded().any(|check| check.key.is_none() && !check.absolute);
        move |row| keys.contains(row.key.as_str()) || grew && row.delta() > 0
    }

    /// How bad it stands with a device: 0 where it fails, 1 where something cannot be told or warns, else 2.
    #[must_use]
    pub fn rank(&self, device: &DeviceDiff) -> u8 {
        let number = device.ordinal();
        let of_device = self.checks.iter().filter(|check| check.device == number);
        of_device.map(Check::rank).min().unwrap_or(Check::FINE)
    }

    /// The check that explains the verdict: the worst failure, else the first that cannot be told, else the
    /// first that passed.
    #[must_use]
    pub fn decisive(&self) -> Option<&Check> {
        let fails = |check: &&Check| check.level == Level::Fail;
        self.checks.iter().find(fails).or_else(|| self.checks.first())
    }

    /// The verdict in one line, with the figure and the limit.
    #[must_use]
    pub fn headline(&self) -> String {
        let word = self.verdict.word();
        let Some(check) = self.decisive() else {
            return format!("{word} nothing was gated: no threshold was given");
        };
        if self.verdict == Verdict::Inconclusive && check.outcome != Outcome::Inconclusive {
            return format!("{word} the comparison is not to be trusted ({})", self.distrust.join(", "));
        }
        let count = |outcome, level| self.checks.iter().filter(|c| c.outcome == outcome && c.level == level).count();
        let sentence =
            if check.level == Level::Fail { self.sentence(check) } else { "only warnings were asked for".to_owned() };
        let mut line = format!("{word} {sentence}");
        let more = count(Outcome::Exceeded, Level::Fail).saturating_sub(1);
        if self.verdict == Verdict::Regression && more > 0 {
            line.push_str(&format!(", and {more} more"));
        }
        match count(Outcome::Exceeded, Level::Warn) {
            0 => {}
            1 => line.push_str("; 1 warning"),
            warnings => line.push_str(&format!("; {warnings} warnings")),
        }
        line
    }

    /// One check in words.
    #[must_use]
    pub fn sentence(&self, check: &Check) -> String {
        let device = match check.device {
            Some(device) if self.many_devices => format!("device {device}: "),
            _ => String::new(),
        };
        let subject = match &check.scope {
            Some(label) => format!("{device}{} {label}", check.noun()),
            None => format!("{device}{}", check.metric),
        };
        if check.outcome == Outcome::Inconclusive {
            let reason = check.reason.as_deref().unwrap_or("cannot be compared");
            return format!("{subject}: {reason}");
        }
        if let Some(words) = &check.words {
            let allowed = if check.outcome == Outcome::Exceeded || check.scope.is_some() {
                format!(", allowed {}", check.limit)
            } else {
                String::new()
            };
            return format!("{device}{words}{allowed}");
        }
        let mut text = match (check.absolute, check.after, check.delta) {
            (true, Some(after), _) => {
                format!("{subject} is {}, allowed {}", Size(after), check.limit)
            }
            (false, _, Some(delta)) => {
                let change = match delta {
                    0 => "did not change".to_owned(),
                    1.. => format!("grew {}", Size(magnitude(delta))),
                    _ => format!("shrank {}", Size(magnitude(delta))),
                };
                let percent = check.before.and_then(|before| format_percent(delta, before));
                let percent = percent.filter(|_| delta != 0).map(|p| format!(" ({p})")).unwrap_or_default();
                format!("{subject} {change}{percent}, allowed {}", check.limit)
            }
            _ => format!("{device}no {} grew by more than {}", check.metric, check.limit),
        };
        // Rounded, the figure and its limit may read the same.
        let measured = if check.absolute { check.after.map(u128::from) } else { check.delta.map(i128::unsigned_abs) };
        if let (Outcome::Exceeded, Some(measured), Some(allowed)) = (check.outcome, measured, check.allowed)
            && Size(saturated(measured)).to_string() == Size(saturated(allowed)).to_string()
        {
            text.push_str(&format!(", {} B too much", measured.saturating_sub(allowed)));
        }
        if let Some(reason) = &check.reason {
            text.push_str(&format!(" ({reason})"));
        }
        text
    }
}

fn magnitude(delta: i128) -> u64 {
    saturated(delta.unsigned_abs())
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
