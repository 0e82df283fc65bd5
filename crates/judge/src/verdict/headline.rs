//! The verdict of several comparisons or snapshots in one line.

use super::{Headline, Judgement, Level, Outcome, PeakChange, Verdict};

/// A judgement among several, with its name.
#[derive(Clone, Copy)]
pub(super) struct NamedJudgement<'a> {
    name: Option<&'a str>,
    judgement: &'a Judgement,
}

impl<'a> NamedJudgement<'a> {
    pub(super) fn new(name: Option<&'a str>, judgement: &'a Judgement) -> Self {
        Self { name, judgement }
    }

    /// Its line, with the number of warnings in all of several.
    fn headline(&self, warnings: usize) -> Headline {
        self.judgement.headline_beside(warnings.saturating_sub(self.judgement.count_exceeded(Level::Warn)))
    }
}

/// The place of a judgement among others, the worst last.
pub type Badness = (Verdict, Doubt, i128);

/// What a verdict does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Nothing.
    None,
    /// Something without a limit grew.
    Beside,
    /// The sides have little in common, or were recorded otherwise.
    Unlike,
}

impl Doubt {
    pub(super) fn of(judgement: &Judgement) -> Self {
        match (&judgement.unlike, &judgement.beside) {
            (Some(_), _) => Self::Unlike,
            (None, Some(_)) => Self::Beside,
            (None, None) => Self::None,
        }
    }
}

/// By the verdict, then by what it leaves open, then by the bytes of the check that explains it. An improvement counts as less than nothing.
pub(super) fn badness(judgement: &Judgement) -> Badness {
    (judgement.verdict, Doubt::of(judgement), decisive_bytes(judgement))
}

fn decisive_bytes(judgement: &Judgement) -> i128 {
    let Some(check) = judgement.decisive() else { return 0 };
    let measured = check.measured().unwrap_or(0);
    if check.is_improvement() { -measured } else { measured }
}

/// One line for parts that come with the worst first, and for judgements of several of them together.
pub(super) fn headline(parts: &[NamedJudgement<'_>], together: &[NamedJudgement<'_>], noun: &str) -> Headline {
    let all = parts.iter().chain(together).map(|part| part.judgement.verdict);
    let verdict = all.max().unwrap_or(Verdict::Inconclusive);
    let failed = together.iter().filter(|part| !part.judgement.checks.is_empty());
    let of_all =
        failed.filter(|part| part.judgement.verdict != Verdict::Pass).max_by_key(|part| part.judgement.verdict);
    // A part that was not gated says nothing about those that were.
    let gated = parts.iter().find(|part| !part.judgement.checks.is_empty());
    let of_part = gated.or(parts.first()).filter(|part| part.judgement.verdict == verdict);
    let Some(&part) = of_part.or(of_all) else {
        return Headline {
            verdict: Verdict::Inconclusive,
            sentence: "nothing was compared".to_owned(),
            details: Vec::new(),
        };
    };
    let all = parts.iter().chain(together);
    let warnings = all.map(|part| part.judgement.count_exceeded(Level::Warn)).sum();
    let line = part.headline(warnings);
    if of_part.is_some() && parts.len() == 1 && part.name.is_none() {
        return line;
    }
    let sentence = match verdict {
        Verdict::Pass => pass_of_all(parts, together, part, warnings, noun),
        Verdict::Regression | Verdict::Inconclusive => {
            let mut sentence = format!("{}{}", prefix(part), line.sentence);
            sentence.push_str(&others(parts, verdict, of_part.is_some(), noun));
            // A failure of all ranks together is added in short to that of a single rank.
            if let (Some(_), Some(all)) = (of_part, of_all) {
                sentence.push_str(&short(all.judgement));
            }
            sentence
        }
    };
    Headline { verdict, sentence, details: line.details }
}

/// The name of a part, to precede its sentence.
fn prefix(part: NamedJudgement<'_>) -> String {
    part.name.map(|name| format!("{name}: ")).unwrap_or_default()
}

/// The sentence where all parts pass, of which `part` comes nearest to its limit.
fn pass_of_all(
    parts: &[NamedJudgement<'_>],
    together: &[NamedJudgement<'_>],
    part: NamedJudgement<'_>,
    warnings: usize,
    noun: &str,
) -> String {
    let count = parts.len();
    let gated_together = together.iter().find(|all| !all.judgement.checks.is_empty());
    if let Some(all) = gated_together.filter(|_| part.judgement.checks.is_empty()) {
        return format!("all {count} {noun}s: {}", all.headline(warnings).sentence);
    }
    if let Some((part, peak)) = grew_most(parts).filter(|_| count > 1) {
        let but = part.judgement.but_beside();
        return format!(
            "nothing was gated in {count} {noun}s (no limit was given); most on {}{peak}{but}",
            prefix(part)
        );
    }
    let sentence = part.headline(warnings).sentence;
    match (Doubt::of(part.judgement), decisive_bytes(part.judgement)) {
        _ if part.judgement.checks.is_empty() => sentence,
        (Doubt::Unlike, _) => format!("{}{sentence}", prefix(part)),
        _ if count == 1 => format!("{}{sentence}", prefix(part)),
        (Doubt::Beside, _) => format!("all {count} {noun}s pass; {}{sentence}", prefix(part)),
        // Of the others, a figure may have become smaller.
        (Doubt::None, 0) if parts.iter().all(|part| decisive_bytes(part.judgement) == 0) => {
            format!("all {count} {noun}s: {sentence}")
        }
        (Doubt::None, _) => format!("all {count} {noun}s; most on {}{sentence}", prefix(part)),
    }
}

/// The part whose peak grew most; `None` if anything was gated.
fn grew_most<'p>(parts: &[NamedJudgement<'p>]) -> Option<(NamedJudgement<'p>, &'p PeakChange)> {
    if parts.iter().any(|part| !part.judgement.checks.is_empty()) {
        return None;
    }
    // From the back: of equal ones `max_by_key` takes the last, and the first is listed first.
    let known = parts.iter().rev().filter_map(|part| Some((*part, part.judgement.peak.as_ref()?)));
    known.max_by_key(|(_, peak)| peak.delta())
}

/// The number of further parts with the same verdict, and of those that are inconclusive beside a regression.
fn others(parts: &[NamedJudgement<'_>], verdict: Verdict, one_is_told: bool, noun: &str) -> String {
    let same = parts.iter().filter(|part| part.judgement.verdict == verdict).count();
    let mut text = match same - usize::from(one_is_told) {
        0 => String::new(),
        1 => format!("; and 1 more {noun}"),
        others => format!("; and {others} more {noun}s"),
    };
    let unclear = parts.iter().filter(|part| part.judgement.verdict == Verdict::Inconclusive).count();
    if unclear > 0 && verdict == Verdict::Regression {
        text.push_str(&format!("; {unclear} inconclusive"));
    }
    text
}

/// The decisive check of a judgement, without its reason where it exceeds its limit.
fn short(judgement: &Judgement) -> String {
    let Some(check) = judgement.decisive() else { return String::new() };
    let mut check = check.clone();
    if check.outcome == Outcome::Exceeded {
        check.reason = None;
    }
    format!("; {}", judgement.sentence(&check))
}
