//! Comparisons, or snapshots, that have one verdict.

use std::cmp::Reverse;

use super::{Check, Judgement, Member, Outcome, Ranks, Verdict};
use crate::diff::Diff;
use crate::profile::Profile;

/// A comparison and what its limits say about it.
#[derive(Debug)]
pub struct Comparison {
    /// What it is called, where there are several.
    pub name: Option<String>,
    /// Which of several ranks it is of.
    pub member: Option<Member>,
    /// What was compared.
    pub diff: Diff,
    /// What the limits say.
    pub judgement: Judgement,
    /// Stacks that changed by fewer bytes are not listed.
    pub min_delta: u64,
}

/// Comparisons that have one verdict.
#[derive(Debug, Default)]
pub struct Gate {
    /// Each with limits of its own; those of the ranks of one job side by side.
    pub comparisons: Vec<Comparison>,
    /// What holds for the ranks of a job together.
    pub ranks: Vec<Ranks>,
}

/// One snapshot of several, and what the limits say about it.
#[derive(Debug)]
pub struct Reading {
    /// Which of several ranks it is of.
    pub member: Member,
    /// Its figures.
    pub profile: Profile,
    /// What the limits say, where there are any.
    pub judgement: Option<Judgement>,
}

/// The snapshots of the ranks of a job.
#[derive(Debug)]
pub struct Readings {
    /// In order of the ranks.
    pub readings: Vec<Reading>,
    /// What holds for them together.
    pub ranks: Ranks,
}

/// What is judged by itself, with its name.
type Part<'a> = (Option<&'a str>, &'a Judgement);

impl Gate {
    /// The verdict: the worst of all.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let comparisons = self.comparisons.iter().map(|comparison| comparison.judgement.verdict);
        let ranks = self.ranks.iter().map(|ranks| ranks.judgement.verdict);
        comparisons.chain(ranks).max().unwrap_or(Verdict::Inconclusive)
    }

    /// The comparisons, the worst first.
    #[must_use]
    pub fn worst_first(&self) -> Vec<&Comparison> {
        let mut comparisons: Vec<_> = self.comparisons.iter().collect();
        comparisons.sort_by_key(|comparison| Reverse((comparison.judgement.verdict, weight(&comparison.judgement))));
        comparisons
    }

    /// Whether all of it is one job.
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

    /// The verdict of the ranks of a job, and the same in one line.
    #[must_use]
    pub fn of_job(&self, ranks: &Ranks) -> (Verdict, String) {
        let mut parts: Vec<Part<'_>> = self.comparisons[ranks.members.clone()]
            .iter()
            .map(|comparison| (comparison.member.as_ref().map(|member| &*member.label), &comparison.judgement))
            .collect();
        parts.sort_by_key(|(_, judgement)| Reverse((judgement.verdict, weight(judgement))));
        let verdict = parts.iter().map(|(_, judgement)| judgement.verdict).max().unwrap_or(Verdict::Inconclusive);
        let verdict = verdict.max(ranks.judgement.verdict);
        (verdict, headline(parts, &[(None, &ranks.judgement)], verdict, ["rank", "ranks"]))
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    #[must_use]
    pub fn headline(&self) -> String {
        let comparisons = self.worst_first().into_iter().map(|c| (c.name.as_deref(), &c.judgement)).collect();
        let ranks: Vec<Part<'_>> = self.ranks.iter().map(|ranks| (ranks.name.as_deref(), &ranks.judgement)).collect();
        let nouns = if self.is_one_job() { ["rank", "ranks"] } else { ["comparison", "comparisons"] };
        headline(comparisons, &ranks, self.verdict(), nouns)
    }
}

impl Readings {
    /// The verdict: the worst of all; `None` where nothing was judged.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let judgements = self.readings.iter().filter_map(|reading| reading.judgement.as_ref());
        let worst = judgements.map(|judgement| judgement.verdict).max()?;
        Some(worst.max(self.ranks.judgement.verdict))
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    #[must_use]
    pub fn headline(&self) -> String {
        let part = |reading: &'_ Reading| -> Option<(String, Judgement)> {
            Some((reading.member.label.clone(), reading.judgement.clone()?))
        };
        let mut parts: Vec<_> = self.readings.iter().filter_map(part).collect();
        parts.sort_by_key(|(_, judgement)| Reverse((judgement.verdict, weight(judgement))));
        let parts = parts.iter().map(|(name, judgement)| (Some(name.as_str()), judgement)).collect();
        let verdict = self.verdict().unwrap_or(Verdict::Inconclusive);
        headline(parts, &[(None, &self.ranks.judgement)], verdict, ["rank", "ranks"])
    }
}

/// How much the check that explains a verdict amounts to.
fn weight(judgement: &Judgement) -> i128 {
    let check = judgement.decisive();
    check.map_or(0, |check| check.delta.or(check.after.filter(|_| check.absolute).map(i128::from)).unwrap_or(0))
}

/// The parts with the worst first, and what is judged of several of them together.
fn headline(parts: Vec<Part<'_>>, together: &[Part<'_>], verdict: Verdict, [one, many]: [&str; 2]) -> String {
    let together = together.iter().copied().filter(|(_, judgement)| !judgement.checks.is_empty());
    let of_all = together.filter(|(_, judgement)| judgement.verdict != Verdict::Pass).max_by_key(|(_, j)| j.verdict);
    // What was not gated says nothing about what was.
    let gated = parts.iter().copied().find(|(_, judgement)| !judgement.checks.is_empty());
    let of_part = gated.or(parts.first().copied()).filter(|(_, judgement)| judgement.verdict == verdict);
    let Some((name, judgement)) = of_part.or(of_all) else {
        return format!("{} nothing was compared", Verdict::Inconclusive.word());
    };
    let line = judgement.headline();
    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let is_part = of_part.is_some();
    if is_part && parts.len() == 1 && name.is_none() {
        return line;
    }
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    if verdict == Verdict::Pass {
        let gated = !judgement.checks.is_empty();
        return match (one, gated) {
            ("rank", false) => line,
            ("rank", true) if parts.len() > 1 => format!("{word} all {} {many}; most on {name}{rest}", parts.len()),
            ("rank", true) => format!("{word} {name}{rest}"),
            _ => format!("{word} all {} {many}", parts.len()),
        };
    }
    let count = |of: Verdict| parts.iter().filter(|(_, judgement)| judgement.verdict == of).count();
    let more = match count(verdict) - usize::from(is_part) {
        0 => String::new(),
        1 => format!("; and 1 more {one}"),
        others => format!("; and {others} more {many}"),
    };
    let unclear = match count(Verdict::Inconclusive) {
        unclear if unclear > 0 && verdict == Verdict::Regression => format!("; {unclear} inconclusive"),
        _ => String::new(),
    };
    // What is wrong with all together is said beside what is wrong with one, shortly.
    let also = of_all.filter(|_| is_part).map(|(_, judgement)| {
        let check = judgement.decisive().cloned().map(|check| match check.outcome {
            Outcome::Exceeded => Check { reason: None, ..check },
            _ => check,
        });
        check.map(|check| format!("; {}", judgement.sentence(&check))).unwrap_or_default()
    });
    format!("{word} {name}{rest}{more}{unclear}{}", also.unwrap_or_default())
}
