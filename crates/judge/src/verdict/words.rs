//! Verdicts and checks in words.

use std::fmt;

use ptmem_base::device::DeviceId;
use ptmem_base::sides::{Side, Sides};
use ptmem_base::text::count;
use ptmem_base::units::{Delta, Size, format_percent};
use ptmem_compare::diff::{DeviceDiff, Diff, RowKind};
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};

use super::growth::has_rows_at_peak;
use super::judge::{failure, no_history};
use super::partial::Partial;
use super::{About, Bound, Check, Judgement, Level, Outcome, Thresholds};

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }
}

/// The verdict in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The verdict, whose word leads the line.
    pub verdict: Verdict,
    /// The rest of the line: the figure and the limit that explain it.
    pub sentence: String,
    /// The edit that explains the growth, in sentences with code between backticks.
    pub cause: Option<String>,
}

impl Headline {
    /// The sentence, and the cause.
    #[must_use]
    pub fn in_full(&self) -> String {
        self.cause.as_ref().map_or_else(|| self.sentence.clone(), |cause| format!("{}. {cause}", self.sentence))
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verdict.word(), self.in_full())
    }
}

impl Judgement {
    /// The verdict in one line, with the figure and the limit.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let unlike = self.unlike.as_ref().map(|unlike| format!("{unlike}; ")).unwrap_or_default();
        let sentence = format!("{unlike}{}", self.explain());
        Headline { verdict: self.verdict, sentence, cause: self.cause.clone() }
    }

    /// The figure and the limit that explain the verdict.
    fn explain(&self) -> String {
        let Some(check) = self.decisive() else {
            return self.ungated();
        };
        if self.verdict == Verdict::Inconclusive && check.outcome != Outcome::Inconclusive {
            let names: Vec<_> = self.distrust.iter().map(|code| code.name()).collect();
            let cause = if names.len() == 1 { "a warning makes" } else { "warnings make" };
            return format!("{cause} the result untrustworthy ({})", names.join(", "));
        }
        let mut line = match check.level {
            Level::Fail => self.sentence(check),
            Level::Warn => "only warnings were requested".to_owned(),
        };
        let more = self.count_exceeded(Level::Fail).saturating_sub(1);
        if self.verdict == Verdict::Regression && more > 0 && self.cause.is_none() {
            let more = match check.about() {
                About::Leaks => count(more as u64, "more leak", "more leaks"),
                _ => count(more as u64, "more check fails", "more checks fail"),
            };
            line.push_str(&format!("; {more}"));
        }
        match self.count_exceeded(Level::Warn) {
            0 => {}
            1 => line.push_str("; 1 warning"),
            warnings => line.push_str(&format!("; {warnings} warnings")),
        }
        line
    }

    /// The verdict of a comparison without limits: what grew.
    fn ungated(&self) -> String {
        let Some(peak) = &self.peak else { return "nothing was gated: no limit was given".to_owned() };
        let device = peak.device.filter(|_| self.many_devices);
        let device = device.map(|device| format!("{device}: ")).unwrap_or_default();
        format!("nothing was gated (no limit was given): {device}{peak}")
    }

    /// The number of checks of a level beyond their limits.
    fn count_exceeded(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.outcome == Outcome::Exceeded && check.level == level).count()
    }

    /// True if a sentence about a check begins with its device. Figures of pinned host memory have its name in theirs.
    fn names_device(&self, check: &Check) -> bool {
        if check.of.of_host { check.scope.is_some() } else { self.many_devices }
    }

    /// One check in words.
    #[must_use]
    pub fn sentence(&self, check: &Check) -> String {
        let device = match check.device {
            Some(device) if self.names_device(check) => format!("{device}: "),
            _ => String::new(),
        };
        let subject = format!("{device}{}", check.subject());
        if check.outcome == Outcome::Inconclusive {
            let reason = check.reason.as_deref().unwrap_or("cannot be compared");
            return format!("{subject}: {reason}");
        }
        if let Some(words) = &check.words {
            // Some words state the limit themselves.
            let states_limit = matches!(check.about(), About::OutOfMemory | About::Headroom);
            let tells_limit = !states_limit && (check.outcome == Outcome::Exceeded || check.scope.is_some());
            let allowed = if tells_limit { format!(", allowed {}", check.limit) } else { String::new() };
            return format!("{device}{words}{allowed}");
        }
        let mut text = match (check.absolute, check.after, check.delta) {
            (true, Some(after), _) => {
                format!("{subject} is {}, allowed {}", Size(after), check.limit)
            }
            (false, _, Some(delta)) => {
                let change = change(delta, check.before, check.bound);
                format!("{subject} {change}, allowed {}", check.limit)
            }
            (true, None, _) => format!("{device}no {} is larger than {}", all(check), check.limit),
            (false, _, None) => format!("{device}no {} grew by more than {}", all(check), check.limit),
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

/// All that a check without a subject of its own is about.
fn all(check: &Check) -> String {
    let is_of_all_phases = check.about() == About::Phases && check.of.pattern.is_none();
    if is_of_all_phases { "outermost named phase".to_owned() } else { check.of.name().to_string() }
}

/// A change in words, with its percentage where the value before is known.
fn change(delta: i128, before: Option<u64>, bound: Option<Bound>) -> String {
    let direction = match (delta, bound) {
        (0, Some(Bound::AtMost)) => return "did not grow".to_owned(),
        (0, _) => return "did not change".to_owned(),
        (1.., None) => "grew",
        (1.., Some(Bound::AtLeast)) => "grew by at least",
        (1.., Some(Bound::AtMost)) => "grew by at most",
        (_, None | Some(Bound::AtLeast)) => "shrank",
        (_, Some(Bound::AtMost)) => "shrank by at least",
    };
    let percent = before.and_then(|before| format_percent(delta, before));
    let percent = percent.map(|percent| format!(" ({percent})")).unwrap_or_default();
    format!("{direction} {}{percent}", Size(saturated(delta.unsigned_abs())))
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The change of the peak of the device that grew most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakChange {
    /// The device.
    pub device: Option<DeviceId>,
    /// The peak on both sides.
    pub peak: Sides<u64>,
    /// The row that grew most, with the bytes that it gained.
    pub most: Option<(String, i128)>,
    /// Of the other figures the one that grew most, if by enough to be listed.
    other: Option<(Metric, Sides<u64>)>,
    /// How far the change is known where a side lacks a part; the error is the reason why its direction is not.
    bound: Result<Option<Bound>, String>,
}

impl PeakChange {
    /// The change in a comparison; `None` if no device has a known peak on both sides.
    pub(super) fn of(diff: &Diff, thresholds: &Thresholds) -> Option<Self> {
        let devices = diff.devices.iter().filter(|device| !device.is_host());
        let changes = devices.filter_map(|device| Self::of_device(diff, device, thresholds));
        changes.max_by_key(Self::delta)
    }

    fn of_device(diff: &Diff, device: &DeviceDiff, thresholds: &Thresholds) -> Option<Self> {
        let sides = diff.sides_of(device).both()?;
        let peak = Sides::BOTH.map(|&side| known_peak(sides.of(side), side)).both()?;
        let partial = Partial::new(device, sides, About::Metric(Metric::Peak)).filter(|_| !thresholds.allow_partial);
        let short = Sides::BOTH.map(|&side| why_short(diff.profiles.of(side), sides.of(side), side, thresholds));
        let bound = Partial::or_short(partial, short).map(|partial| partial.bound_of_peak(peak.delta())).transpose();
        let rows = device.rows.iter().filter(|row| matches!(row.kind, RowKind::Stack | RowKind::Bucket(_)));
        let most = rows.max_by_key(|row| row.delta()).filter(|row| row.delta() > 0 && has_rows_at_peak(diff));
        let most = most.map(|row| (row.label.clone(), row.delta()));
        let other = grown_elsewhere(device, thresholds.min_delta);
        Some(Self { device: device.id(), peak, most, other, bound })
    }

    /// Bytes gained.
    pub(super) fn delta(&self) -> i128 {
        self.peak.delta()
    }
}

/// Of the figures beside the peak the one that grew most.
fn grown_elsewhere(device: &DeviceDiff, min_delta: u64) -> Option<(Metric, Sides<u64>)> {
    let others = [Metric::End, Metric::Baseline, Metric::Reserved]
        .into_iter()
        .filter_map(|metric| Some((metric, device.metric(metric).both()?)));
    let grown = others.filter(|(_, sides)| sides.delta() > 0 && sides.delta() >= i128::from(min_delta));
    // From the back: of equal ones `max_by_key` takes the last.
    grown.rev().max_by_key(|(_, sides)| sides.delta())
}

/// The reason why a whole run may need more than a side holds.
fn why_short(profile: &Profile, device: &DeviceProfile, side: Side, thresholds: &Thresholds) -> Option<String> {
    let failed = failure(profile).map(|failure| format!("the {side} is not a whole run: {failure}"));
    let ran_out = device.ran_out_of_memory() && !thresholds.allow_oom;
    failed.or_else(|| ran_out.then(|| format!("memory ran out in the {side}")))
}

/// The peak of a side, where its recording tells it.
fn known_peak(device: &DeviceProfile, side: Side) -> Option<u64> {
    let is_known = no_history(device, side.name(), About::Metric(Metric::Peak)).is_none()
        && Metric::Peak.max_error(device).is_some();
    Metric::Peak.value(device).filter(|_| is_known)
}

impl fmt::Display for PeakChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bound {
            Err(reason) => return write!(f, "peak cannot be compared: {reason}"),
            Ok(bound) => write!(f, "peak {}", change(self.delta(), Some(self.peak.before), *bound))?,
        }
        match (&self.most, &self.other) {
            (Some((label, delta)), _) if self.delta() > 0 => write!(f, ", most by {label} ({})", Delta(*delta)),
            (_, Some((metric, sides))) if self.delta() <= 0 && self.bound == Ok(None) => {
                write!(f, ", but {} {}", metric.name(), change(sides.delta(), Some(sides.before), None))
            }
            _ => Ok(()),
        }
    }
}
