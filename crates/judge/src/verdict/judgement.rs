//! All checks together, and what they amount to.

use std::cmp::Reverse;
use std::collections::HashSet;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_compare::diff::{DeviceDiff, Row};
use ptmem_trace::profile::Metric;

use super::judge::Judge;
use super::{Beside, Check, GrownMost, Level, LimitKind, Outcome, PeakChange, Standing};

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Nothing gated exceeds its limit.
    Pass,
    /// A gated figure cannot be computed or compared.
    Inconclusive,
    /// A gated figure exceeds its limit.
    Regression,
}

ptmem_base::named!(Verdict);

impl Verdict {
    /// The process exit code: 0 pass, 1 regression, 3 inconclusive. (2 is "could not run".)
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Regression => 1,
            Self::Inconclusive => 3,
        }
    }

    /// The word that leads the line of the verdict.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Regression => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }
}

/// All checks and what they amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// Every check: failures first, in the order of the thresholds otherwise.
    pub checks: Vec<Check>,
    /// Further remarks, such as figures whose bound reaches across the limit.
    pub diagnostics: Vec<Diagnostic>,
    /// Why the verdict is inconclusive although no single check is, with the devices that are concerned.
    pub distrust: Vec<(Code, Option<DeviceId>)>,
    /// The check that says so. No limit is about it, so it is not among the others.
    pub untrusted: Option<Check>,
    /// Whether several devices were checked, so that checks should name theirs.
    pub many_devices: bool,
    /// Whether an inconclusive check of a limit that only warns makes the verdict inconclusive, too (`--strict`).
    pub is_strict: bool,
    /// How little of the before the after has, or how one was recorded otherwise, where that may explain the change.
    pub unlike: Option<String>,
    /// The change of the peak, in a comparison where nothing was gated.
    pub peak: Option<PeakChange>,
    /// What grew although the verdict is a pass.
    pub beside: Option<Beside>,
    /// The row that grew most where a peak grew by too much, with the bytes that it gained.
    pub most: Option<GrownMost>,
    /// The edit that explains a regression, in sentences.
    pub cause: Option<String>,
}

impl Judgement {
    /// A test whether a row of a device is a reason for the verdict: it exceeds a limit itself, or it grew or shrank where a
    /// figure of its device did by too much.
    pub fn explanation(&self, device: &DeviceDiff) -> impl Fn(&Row) -> bool + use<'_> {
        let keys: HashSet<&str> = self.exceeded_on(device).filter_map(Check::key).collect();
        let mut figures = self.exceeded_on(device).filter(|check| check.key().is_none() && !check.limit.is_absolute);
        let shrank = figures.clone().any(Check::is_improvement);
        let grew = figures.any(|check| !check.is_improvement());
        move |row| keys.contains(row.key.as_str()) || grew && row.delta() > 0 || shrank && row.delta() < 0
    }

    /// The checks of a device that exceed their limits.
    pub(super) fn exceeded_on(&self, device: &DeviceDiff) -> impl Iterator<Item = &Check> + Clone + use<'_> {
        let number = device.id();
        self.checks.iter().filter(move |check| check.outcome == Outcome::Exceeded && check.device == number)
    }

    /// Whether it fails by growth, or by shrinkage, and by nothing else, which can be agreed to.
    pub fn fails_by_change_alone(&self) -> bool {
        self.verdict == Verdict::Regression && self.bad().all(Check::fails_by_change)
    }

    /// Whether it fails by shrinkage and by nothing else.
    pub fn fails_by_improvement_alone(&self) -> bool {
        self.verdict == Verdict::Regression && self.bad().all(Check::is_improvement)
    }

    /// Whether nothing fails, or only the before is missing.
    pub(super) fn lacks_a_before_at_most(&self) -> bool {
        self.distrust.is_empty() && self.bad().all(|check| check.kind() == LimitKind::Growth)
    }

    fn bad(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| self.is_bad(check))
    }

    /// Whether a check keeps the verdict from being a pass.
    #[must_use]
    pub fn is_bad(&self, check: &Check) -> bool {
        check.counts(self.is_strict) && check.standing() >= Standing::Inconclusive
    }

    /// Every check, also that of warnings that make the result untrustworthy.
    pub fn all_checks(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().chain(&self.untrusted)
    }

    /// The checks that concern a device: its own, and those of no device where it is the only one.
    pub fn checks_on(&self, device: Option<DeviceId>) -> impl Iterator<Item = &Check> {
        let is_host = device == Some(DeviceId::Host);
        let is_of_only =
            move |check: &Check| check.of.of_host == is_host && check.device.is_none() && !self.many_devices;
        self.checks.iter().filter(move |check| check.device == device || is_of_only(check))
    }

    /// The severity for a device: the worst of the checks that concern it; at best inconclusive if the verdict is because
    /// its figures are not trusted.
    pub fn standing(&self, device: Option<DeviceId>) -> Standing {
        let worst = self.checks_on(device).map(Check::standing).max().unwrap_or(Standing::Ok);
        let is_distrusted = self.distrust.iter().any(|(_, of)| of.is_none() || *of == device);
        if is_distrusted && self.verdict == Verdict::Inconclusive { worst.max(Standing::Inconclusive) } else { worst }
    }

    /// The check that explains the verdict: the worst failure, otherwise the first that cannot be decided, the first
    /// that passes because growth was accepted, the growth of the peak, or the first that passed.
    pub fn decisive(&self) -> Option<&Check> {
        let mut checks = self.checks.iter();
        checks.find(|check| check.limit.level == Level::Fail || self.is_bad(check)).or_else(|| self.checks.first())
    }
}

impl Judge {
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
        let counted = self.checks.iter().filter(|check| check.counts(strict));
        let verdict = match counted.map(Check::standing).max() {
            Some(Standing::Exceeded) => Verdict::Regression,
            Some(Standing::Inconclusive) => Verdict::Inconclusive,
            _ if !distrust.is_empty() => Verdict::Inconclusive,
            _ => Verdict::Pass,
        };
        let is_untrusted = verdict == Verdict::Inconclusive && !distrust.is_empty();
        Judgement {
            verdict,
            checks: self.checks,
            diagnostics: self.diagnostics,
            untrusted: is_untrusted.then(|| untrusted(&distrust)),
            distrust,
            many_devices,
            is_strict: strict,
            unlike: None,
            peak: None,
            beside: None,
            most: None,
            cause: None,
        }
    }
}

/// The check that is inconclusive by diagnostics that are distrusted.
fn untrusted(distrust: &[(Code, Option<DeviceId>)]) -> Check {
    let mut names: Vec<_> = distrust.iter().map(|(code, _)| code.name()).collect();
    names.dedup();
    let cause = if names.len() == 1 { "a warning makes" } else { "warnings make" };
    let reason = format!("{cause} the result untrustworthy ({})", names.join(", "));
    let check = Check::new(LimitKind::Trust, "no distrusted warning".to_owned(), Level::Fail);
    Check { reason: Some(reason), ..check }
}

/// The place of a check among others: memory that ran out first, then failures, the peak and then the largest first, those
/// by an improvement last; checks that pass keep their order, behind the growth of the peak.
fn order(check: &Check) -> impl Ord + use<> {
    let is_of_peak = check.kind() == LimitKind::Metric(Metric::Peak);
    let group = match (check.outcome, check.limit.level) {
        (Outcome::Exceeded, Level::Fail) if check.kind() == LimitKind::OutOfMemory => 0,
        (Outcome::Exceeded, Level::Fail) if check.is_improvement() => 3,
        (Outcome::Exceeded, Level::Fail) if is_of_peak => 1,
        (Outcome::Exceeded, Level::Fail) => 2,
        (Outcome::Inconclusive, _) => 4,
        (Outcome::Exceeded, Level::Warn) => 5,
        (Outcome::Pass, _) if check.is_accepted() => return (6, Reverse(0)),
        (Outcome::Pass, Level::Fail) if is_of_peak && !check.limit.is_absolute => return (7, Reverse(0)),
        (Outcome::Pass, _) => return (8, Reverse(0)),
    };
    let bytes = check.measured().or(check.figures.after.map(i128::from)).unwrap_or(0);
    (group, Reverse(bytes))
}
