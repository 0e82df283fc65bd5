//! Verdicts and checks in words.

use std::fmt;

use ptmem_base::text::{count, shorten};
use ptmem_base::units::{Size, format_percent};

use super::change::{change, improved, saturated};
use super::{Check, CheckedFigures, GrownMost, Judgement, Level, LimitKind, Outcome, Verdict};

/// The verdict in a line, with what explains it further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The verdict, whose word leads the line.
    pub verdict: Verdict,
    /// The rest of the line: the figure and the limit that explain it.
    pub sentence: String,
    /// What would make the line long, and the edit that explains the growth, in sentences with code between backticks.
    pub details: Vec<String>,
}

/// Columns of two lines of a terminal, less what breaks between words leave empty.
const TWO_LINES: usize = 150;

/// The shortest that a label becomes in a line of the verdict: the table has it in full.
const SHORTEST_LABEL: usize = 24;

impl Headline {
    /// The sentence, and what explains it further.
    pub fn in_full(&self) -> String {
        let details = self.details.iter().map(|detail| format!(". {}", detail.trim_end_matches('.')));
        let end = if self.details.is_empty() { "" } else { "." };
        format!("{}{}{end}", self.sentence, details.collect::<String>())
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verdict.word(), self.in_full())
    }
}

impl Judgement {
    /// The verdict in one line, with the figure and the limit.
    pub fn headline(&self) -> Headline {
        self.headline_beside(0)
    }

    /// The same beside others, in which this number of warnings is.
    pub(super) fn headline_beside(&self, warnings: usize) -> Headline {
        // Of an inconclusive verdict, the reason is the sentence.
        let is_decided = self.verdict != Verdict::Inconclusive;
        let reason = self.decisive().filter(|check| is_decided && check.limit.level == Level::Fail);
        let reason = reason.and_then(|check| check.reason.as_ref());
        let most = self.most.as_ref();
        let warnings = warnings + self.count_exceeded(Level::Warn);
        let whole = self.line(true, most, warnings);
        let sentence = if is_decided && !self.fits(&whole) { self.shortened(most, warnings) } else { whole };
        let detail = reason.filter(|reason| !sentence.contains(reason.as_str()));
        Headline { verdict: self.verdict, sentence, details: detail.into_iter().chain(&self.cause).cloned().collect() }
    }

    /// The rest of the line of the verdict, with or without the reason of its check, the stack that grew most, and the number of
    /// warnings.
    fn line(&self, has_reason: bool, most: Option<&GrownMost>, warnings: usize) -> String {
        let unlike = self.unlike.as_ref().map(|unlike| format!("{unlike}; ")).unwrap_or_default();
        format!("{unlike}{}{}", self.explain(has_reason, most, warnings), self.but_beside())
    }

    /// Whether a line takes about two lines of a terminal.
    fn fits(&self, line: &str) -> bool {
        self.verdict.word().len() + 1 + line.chars().count() <= TWO_LINES
    }

    /// The line without the reason, and as far as it takes with shorter labels, or without the stack that grew most.
    fn shortened(&self, most: Option<&GrownMost>, warnings: usize) -> String {
        let most = most.filter(|most| self.fits(&self.line(false, Some(&most.shortened(SHORTEST_LABEL)), warnings)));
        let of_check = self.decisive().and_then(Check::label);
        let mut line = self.line(false, most, warnings);
        for label in most.iter().map(|most| &*most.label).chain(of_check) {
            let excess = (self.verdict.word().len() + 1 + line.chars().count()).saturating_sub(TWO_LINES);
            if excess > 0 {
                let room = label.chars().count().saturating_sub(excess).max(SHORTEST_LABEL);
                line = line.replacen(label, &shorten(label, room), 1);
            }
        }
        line
    }

    /// The growth beside a pass, to follow its sentence.
    pub(super) fn but_beside(&self) -> String {
        let beside = self.beside.as_ref().filter(|_| self.verdict == Verdict::Pass);
        beside.map(|beside| format!(", but {}", beside.in_words(self.many_devices))).unwrap_or_default()
    }

    /// The figure and the limit that explain the verdict.
    fn explain(&self, has_reason: bool, most: Option<&GrownMost>, warnings: usize) -> String {
        let Some(check) = self.decisive() else {
            return self.ungated();
        };
        if let Some(untrusted) = self.untrusted.as_ref().filter(|_| check.outcome != Outcome::Inconclusive) {
            return self.sentence(untrusted);
        }
        let is_warning = check.limit.level == Level::Warn && check.outcome == Outcome::Exceeded;
        let mut line = match check.limit.level {
            Level::Fail if has_reason => self.sentence(check),
            Level::Fail => self.sentence(&Check { reason: None, ..check.clone() }),
            Level::Warn if is_warning => {
                format!("only warnings were requested: {}", self.sentence(check))
            }
            Level::Warn if self.is_bad(check) => self.sentence(check),
            Level::Warn => "only warnings were requested".to_owned(),
        };
        if let Some(most) = most.filter(|_| self.verdict == Verdict::Regression) {
            line.push_str(&format!(", {most}"));
        }
        let more = self.count_exceeded(Level::Fail).saturating_sub(1);
        if self.verdict == Verdict::Regression && more > 0 {
            let more = if check.kind() == LimitKind::Leaks {
                count(more as u64, "more leak", "more leaks")
            } else {
                count(more as u64, "more check fails", "more checks fail")
            };
            line.push_str(&format!("; {more}"));
        }
        let more = if is_warning { "more " } else { "" };
        match warnings.saturating_sub(is_warning.into()) {
            0 => {}
            1 => line.push_str(&format!("; 1 {more}warning")),
            warnings => line.push_str(&format!("; {warnings} {more}warnings")),
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
    pub(super) fn count_exceeded(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.outcome == Outcome::Exceeded && check.limit.level == level).count()
    }

    /// True if a sentence about a check begins with its device. Figures of pinned host memory have its name in theirs.
    fn names_device(&self, check: &Check) -> bool {
        if check.of.of_host { check.row.is_some() } else { self.many_devices }
    }

    /// One check in words.
    pub fn sentence(&self, check: &Check) -> String {
        let device = match check.device {
            Some(device) if self.names_device(check) => format!("{device}: "),
            _ => String::new(),
        };
        let subject = format!("{device}{}", check.subject());
        if check.outcome == Outcome::Inconclusive {
            let reason = check.reason.as_deref().unwrap_or("cannot be compared");
            // Ranks, or cases, that are missing are named by the reason, and so are warnings.
            let is_named = matches!(check.kind(), LimitKind::Ranks | LimitKind::Trust);
            return if is_named { reason.to_owned() } else { format!("{subject}: {reason}") };
        }
        if let Some(words) = &check.figures.words {
            // Some words state the limit themselves.
            let states_limit = matches!(check.kind(), LimitKind::OutOfMemory | LimitKind::Headroom);
            let is_beyond = check.outcome == Outcome::Exceeded || check.is_accepted();
            let tells_limit = !states_limit && (is_beyond || check.row.is_some());
            let allowed = if tells_limit { format!(", allowed {}", check.limit.text) } else { String::new() };
            let is_compared = matches!(check.kind(), LimitKind::Leaks | LimitKind::Headroom);
            let beyond = beyond(check).filter(|_| is_compared).unwrap_or_default();
            return format!("{device}{words}{allowed}{beyond}{}{}", to_do(check), accepted(check));
        }
        let mut text = match (check.limit.is_absolute, check.figures.after, check.figures.delta) {
            (true, Some(after), _) => {
                format!("{subject} is {}, allowed {}", Size(after), check.limit.text)
            }
            (false, _, Some(delta)) => {
                let CheckedFigures { before, bound, .. } = check.figures;
                let change =
                    if check.is_improvement() { improved(delta, before, bound) } else { change(delta, before, bound) };
                format!("{subject} {change}, allowed {}", check.limit.text)
            }
            (true, None, _) | (false, _, None) => format!("{device}{}", check.none("")),
        };
        text.push_str(&beyond(check).unwrap_or_default());
        text.push_str(to_do(check));
        match &check.reason {
            Some(reason) => text.push_str(&format!(" ({reason})")),
            None => text.push_str(accepted(check)),
        }
        text
    }
}

/// That growth beyond a limit passes because it was agreed to, where the reason is not beside.
fn accepted(check: &Check) -> &'static str {
    if check.is_accepted() { ", accepted" } else { "" }
}

/// The advice where a limit is exceeded by an improvement.
fn to_do(check: &Check) -> &'static str {
    if check.is_improvement() { ": update the before" } else { "" }
}

/// The bytes beyond the limit, where the figure and its limit read the same because they are rounded.
fn beyond(check: &Check) -> Option<String> {
    let measured = check.measured()?.unsigned_abs();
    let allowed = check.limit.allowed.filter(|_| check.outcome == Outcome::Exceeded)?;
    let CheckedFigures { before, delta, .. } = check.figures;
    let percent = delta.zip(before).and_then(|(delta, before)| format_percent(delta.abs(), before));
    let reads_the_same = Size(saturated(measured)).to_string() == Size(saturated(allowed)).to_string()
        || percent.is_some_and(|percent| {
            let limit = check.limit.text.trim_start_matches('±');
            [percent.trim_start_matches('+'), &percent.trim_start_matches('+').replace(".0 %", " %")].contains(&limit)
        });
    // Headroom is what is left of the memory.
    let direction = if check.kind() == LimitKind::Headroom { "too little" } else { "too much" };
    let beyond = measured.checked_sub(allowed).filter(|bytes| *bytes > 0 && reads_the_same)?;
    Some(format!(", {} {direction}", Size(saturated(beyond))))
}

impl Check {
    /// The words of a check that passes for all that have no check of their own: `other ` where some do.
    pub(super) fn none(&self, other: &str) -> String {
        let is_beyond = match (self.limit.is_absolute, self.limit.is_two_sided) {
            (true, _) => "is larger than",
            (false, true) => "changed by more than",
            (false, false) => "grew by more than",
        };
        format!("no {other}{} {is_beyond} {}", all(self), self.limit.text)
    }
}

/// All that a check without a subject of its own is about.
fn all(check: &Check) -> String {
    let is_of_all_phases = check.kind() == LimitKind::Phases && check.of.pattern.is_none();
    if is_of_all_phases { "outermost named phase".to_owned() } else { check.of.name().to_string() }
}
