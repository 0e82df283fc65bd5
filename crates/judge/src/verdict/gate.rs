//! Comparisons, or snapshots, that have one verdict.

use std::cmp::Reverse;
use std::ops::Range;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_compare::diff::{Diff, Sides};
use ptmem_trace::profile::Profile;

use super::ranks::OfRank;
use super::{Check, Headline, Judgement, Member, Missing, Outcome, PeakChange, Ranks, Thresholds, Verdict};

/// A comparison with the verdict by its limits.
#[derive(Debug)]
pub struct Comparison {
    /// Name of the comparison, if there are several.
    pub name: Option<String>,
    /// Its rank, where there are several.
    pub member: Option<Member>,
    /// Compared profiles and their differences.
    pub diff: Diff,
    /// Verdict by the limits.
    pub judgement: Judgement,
    /// Stacks that changed by fewer bytes are not listed.
    pub min_delta: u64,
}

/// Comparisons that have one verdict.
#[derive(Debug, Default)]
pub struct Gate {
    /// Each with limits of its own; those of the ranks of one job side by side.
    pub comparisons: Vec<Comparison>,
    /// Results for all ranks of a job together.
    pub ranks: Vec<Ranks>,
}

/// One snapshot of several, with the verdict by the limits.
#[derive(Debug)]
pub struct Reading {
    /// Its rank, where there are several.
    pub member: Member,
    /// Its figures.
    pub profile: Profile,
    /// Verdict by the limits, if there are any.
    pub judgement: Option<Judgement>,
}

/// The snapshots of the ranks of a job.
#[derive(Debug)]
pub struct Readings {
    /// In order of the ranks.
    pub readings: Vec<Reading>,
    /// Results for all ranks together.
    pub ranks: Ranks,
}

/// A judgement among several, with its name.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    name: Option<&'a str>,
    judgement: &'a Judgement,
}

impl<'a> Part<'a> {
    pub(super) fn new(name: Option<&'a str>, judgement: &'a Judgement) -> Self {
        Self { name, judgement }
    }

    /// By this the worst part comes last.
    fn badness(&self) -> (Verdict, i128) {
        badness(self.judgement)
    }
}

impl Gate {
    /// Judges some of the comparisons together as those of the ranks of one job: the directory or glob of each side, the
    /// ranks that one side lacks, and the limits on each rank.
    pub fn judge_ranks(
        &mut self,
        members: Range<usize>,
        name: Option<String>,
        paths: Sides<String>,
        missing: Vec<Missing>,
        thresholds: &Thresholds,
    ) {
        let ranks: Vec<_> = self.comparisons[members.clone()].iter().map(OfRank::compared).collect();
        let paths = Sides { before: Some(paths.before), after: Some(paths.after) };
        let ranks = Ranks::judged(name, paths, members, missing, &ranks, thresholds);
        self.ranks.push(ranks);
    }

    /// Adds remarks that concern all of it.
    pub fn remark(&mut self, remarks: impl IntoIterator<Item = Diagnostic>) {
        let ranks = self.ranks.first_mut().map(|ranks| &mut ranks.judgement);
        let first = ranks.or_else(|| self.comparisons.first_mut().map(|comparison| &mut comparison.judgement));
        if let Some(first) = first {
            first.diagnostics.extend(remarks);
        }
    }

    /// The verdict: the worst of all.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let comparisons = self.comparisons.iter().map(|comparison| comparison.judgement.verdict);
        let ranks = self.ranks.iter().map(|ranks| ranks.judgement.verdict);
        comparisons.chain(ranks).max().unwrap_or(Verdict::Inconclusive)
    }

    /// Whether it is a regression by growth and nothing else, which can be agreed to.
    #[must_use]
    pub fn fails_by_growth_alone(&self) -> bool {
        let comparisons = self.comparisons.iter().map(|comparison| &comparison.judgement);
        let mut all = comparisons.chain(self.ranks.iter().map(|ranks| &ranks.judgement));
        self.verdict() == Verdict::Regression
            && all.all(|judgement| judgement.verdict == Verdict::Pass || judgement.fails_by_growth_alone())
    }

    /// The comparisons, the worst first.
    #[must_use]
    pub fn worst_first(&self) -> Vec<&Comparison> {
        let mut comparisons: Vec<_> = self.comparisons.iter().collect();
        comparisons.sort_by_key(|comparison| Reverse(badness(&comparison.judgement)));
        comparisons
    }

    /// Whether all comparisons are of the ranks of one job.
    #[must_use]
    pub fn is_one_job(&self) -> bool {
        self.ranks.len() == 1 && self.ranks[0].members.len() == self.comparisons.len()
    }

    /// Whether anything was gated.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.comparisons.iter().any(|comparison| !comparison.judgement.checks.is_empty())
            || self.ranks.iter().any(|ranks| !ranks.judgement.checks.is_empty())
    }

    /// The verdict of the ranks of a job, in one line.
    #[must_use]
    pub fn headline_of_job(&self, ranks: &Ranks) -> Headline {
        let members = self.comparisons[ranks.members.clone()].iter();
        let parts = members.map(|of| Part::new(of.member.as_ref().map(|member| &*member.label), &of.judgement));
        headline(&worst_first(parts), &[Part::new(None, &ranks.judgement)], "rank")
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let parts = self.comparisons.iter().map(|of| Part::new(of.name.as_deref(), &of.judgement));
        let together: Vec<_> = self.ranks.iter().map(|of| Part::new(of.name.as_deref(), &of.judgement)).collect();
        headline(&worst_first(parts), &together, if self.is_one_job() { "rank" } else { "comparison" })
    }
}

impl Readings {
    /// The ranks of a job in this directory or glob, judged together by the limits on each.
    #[must_use]
    pub fn new(path: String, readings: Vec<Reading>, thresholds: &Thresholds) -> Self {
        let ranks: Vec<_> = readings.iter().map(OfRank::read).collect();
        let paths = Sides { before: None, after: Some(path) };
        let ranks = Ranks::judged(None, paths, 0..readings.len(), Vec::new(), &ranks, thresholds);
        Self { readings, ranks }
    }

    /// The verdict: the worst of all; `None` where nothing was judged.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let judgements = self.readings.iter().filter_map(|reading| reading.judgement.as_ref());
        let worst = judgements.map(|judgement| judgement.verdict).max()?;
        Some(worst.max(self.ranks.judgement.verdict))
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let judged =
            self.readings.iter().filter_map(|of| Some(Part::new(Some(&of.member.label), of.judgement.as_ref()?)));
        headline(&worst_first(judged), &[Part::new(None, &self.ranks.judgement)], "rank")
    }
}

/// The verdict of a judgement, and the bytes of the check that explains it.
fn badness(judgement: &Judgement) -> (Verdict, i128) {
    (judgement.verdict, judgement.decisive().and_then(measured).unwrap_or(0))
}

/// The bytes that a check compares with its limit: those gained, or held for an absolute limit.
fn measured(check: &Check) -> Option<i128> {
    check.delta.or_else(|| check.after.filter(|_| check.absolute).map(i128::from))
}

/// Parts with the worst first.
fn worst_first<'a>(parts: impl Iterator<Item = Part<'a>>) -> Vec<Part<'a>> {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by_key(|part| Reverse(part.badness()));
    parts
}

/// One line for parts that come with the worst first, and for judgements of several of them together.
pub(super) fn headline(parts: &[Part<'_>], together: &[Part<'_>], noun: &str) -> Headline {
    let all = parts.iter().chain(together).map(|part| part.judgement.verdict);
    let verdict = all.max().unwrap_or(Verdict::Inconclusive);
    let failed = together.iter().filter(|part| !part.judgement.checks.is_empty());
    let of_all =
        failed.filter(|part| part.judgement.verdict != Verdict::Pass).max_by_key(|part| part.judgement.verdict);
    // A part that was not gated says nothing about those that were.
    let gated = parts.iter().find(|part| !part.judgement.checks.is_empty());
    let of_part = gated.or(parts.first()).filter(|part| part.judgement.verdict == verdict);
    let Some(&part) = of_part.or(of_all) else {
        return Headline { verdict: Verdict::Inconclusive, sentence: "nothing was compared".to_owned(), cause: None };
    };
    let line = part.judgement.headline();
    if of_part.is_some() && parts.len() == 1 && part.name.is_none() {
        return line;
    }
    let sentence = match verdict {
        Verdict::Pass => pass_of_all(parts, part, noun),
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
    let cause = line.cause.filter(|_| verdict == Verdict::Regression);
    Headline { verdict, sentence, cause }
}

/// The name of a part, to precede its sentence.
fn prefix(part: Part<'_>) -> String {
    part.name.map(|name| format!("{name}: ")).unwrap_or_default()
}

/// The sentence where all parts pass, of which `part` comes nearest to its limit.
fn pass_of_all(parts: &[Part<'_>], part: Part<'_>, noun: &str) -> String {
    let count = parts.len();
    if let Some((part, peak)) = grew_most(parts).filter(|_| count > 1) {
        return format!(
            "nothing was gated in {count} {noun}s (no threshold was given); most on {}{peak}",
            prefix(part)
        );
    }
    let sentence = part.judgement.headline().sentence;
    match part.badness() {
        _ if part.judgement.checks.is_empty() => sentence,
        _ if count == 1 => format!("{}{sentence}", prefix(part)),
        (_, 0) => format!("all {count} {noun}s: {sentence}"),
        _ => format!("all {count} {noun}s; most on {}{sentence}", prefix(part)),
    }
}

/// The part whose peak grew most; `None` if anything was gated.
fn grew_most<'p>(parts: &[Part<'p>]) -> Option<(Part<'p>, &'p PeakChange)> {
    if parts.iter().any(|part| !part.judgement.checks.is_empty()) {
        return None;
    }
    // From the back: of equal ones `max_by_key` takes the last, and the first is listed first.
    let known = parts.iter().rev().filter_map(|part| Some((*part, part.judgement.peak.as_ref()?)));
    known.max_by_key(|(_, peak)| peak.delta())
}

/// The number of further parts with the same verdict, and of those that are inconclusive beside a regression.
fn others(parts: &[Part<'_>], verdict: Verdict, one_is_told: bool, noun: &str) -> String {
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
