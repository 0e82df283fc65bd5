//! Comparisons, or snapshots, that have one verdict.

use std::cmp::Reverse;
use std::slice;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_compare::diff::{Diff, Sides};
use ptmem_trace::profile::Profile;

use super::headline::{Part, badness, headline, worst_first};
use super::ranks::OfRank;
use super::{Headline, Judgement, Member, Missing, Ranks, Thresholds, Verdict, has_ranks};

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
    /// Each with limits of its own.
    pub parts: Vec<PairOrJob>,
}

/// Two snapshots that were compared, or those of the ranks of a job.
#[derive(Debug)]
pub enum PairOrJob {
    /// Two snapshots.
    Pair(Box<Comparison>),
    /// The ranks of a job.
    Job(Box<Job>),
}

/// The comparisons of the ranks of a job.
#[derive(Debug)]
pub struct Job {
    /// One for each rank that both sides have.
    pub comparisons: Vec<Comparison>,
    /// Results for all ranks together.
    pub ranks: Ranks,
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

impl Gate {
    /// All comparisons, those of the ranks of a job side by side.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> + Clone {
        self.parts.iter().flat_map(PairOrJob::comparisons)
    }

    /// The comparisons that are not of the ranks of a job.
    pub fn pairs(&self) -> impl Iterator<Item = &Comparison> + Clone {
        self.parts.iter().filter(|part| part.job().is_none()).flat_map(PairOrJob::comparisons)
    }

    /// The jobs whose ranks were compared.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> + Clone {
        self.parts.iter().filter_map(PairOrJob::job)
    }

    /// The comparison, if there is only one, and no job.
    #[must_use]
    pub fn only_pair(&self) -> Option<&Comparison> {
        if let [PairOrJob::Pair(only)] = &self.parts[..] { Some(only) } else { None }
    }

    /// The same, to be changed.
    pub fn only_pair_mut(&mut self) -> Option<&mut Comparison> {
        if let [PairOrJob::Pair(only)] = &mut self.parts[..] { Some(only) } else { None }
    }

    /// Every judgement: of the comparisons, then of the ranks of jobs together.
    fn judgements(&self) -> impl Iterator<Item = &Judgement> {
        self.comparisons().map(|of| &of.judgement).chain(self.jobs().map(|job| &job.ranks.judgement))
    }

    /// Adds remarks that concern all of it. They are reported with the first job or comparison.
    pub fn remark(&mut self, remarks: impl IntoIterator<Item = Diagnostic>) {
        let at = self.parts.iter().position(|part| part.job().is_some()).unwrap_or(0);
        let first = self.parts.get_mut(at).map(|part| match part {
            PairOrJob::Pair(pair) => &mut pair.judgement,
            PairOrJob::Job(job) => &mut job.ranks.judgement,
        });
        if let Some(first) = first {
            first.diagnostics.extend(remarks);
        }
    }

    /// The verdict: the worst of all.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.judgements().map(|judgement| judgement.verdict).max().unwrap_or(Verdict::Inconclusive)
    }

    /// Whether it is a regression by growth and nothing else, which can be agreed to.
    #[must_use]
    pub fn fails_by_growth_alone(&self) -> bool {
        self.verdict() == Verdict::Regression
            && self
                .judgements()
                .all(|judgement| judgement.verdict == Verdict::Pass || judgement.fails_by_growth_alone())
    }

    /// The comparisons, the worst first.
    #[must_use]
    pub fn worst_first(&self) -> Vec<&Comparison> {
        let mut comparisons: Vec<_> = self.comparisons().collect();
        comparisons.sort_by_key(|comparison| Reverse(badness(&comparison.judgement)));
        comparisons
    }

    /// Whether all comparisons are of the ranks of one job.
    #[must_use]
    pub fn is_one_job(&self) -> bool {
        matches!(self.parts[..], [PairOrJob::Job(_)])
    }

    /// Whether anything was gated.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.judgements().any(|judgement| !judgement.checks.is_empty())
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let parts = self.comparisons().map(|of| Part::new(of.name.as_deref(), &of.judgement));
        let jobs = self.jobs().map(|Job { ranks, .. }| Part::new(ranks.name.as_deref(), &ranks.judgement));
        let together: Vec<_> = jobs.collect();
        headline(
            &worst_first(parts),
            &together,
            match &self.parts[..] {
                [PairOrJob::Job(job)] => noun(job.comparisons.iter().filter_map(|of| of.member.as_ref())),
                _ => "comparison",
            },
        )
    }
}

/// The word for one of several files.
fn noun<'m>(members: impl Iterator<Item = &'m Member>) -> &'static str {
    if has_ranks(members) { "rank" } else { "case" }
}

impl From<Comparison> for Gate {
    fn from(comparison: Comparison) -> Self {
        Self { parts: vec![comparison.into()] }
    }
}

impl From<Comparison> for PairOrJob {
    fn from(comparison: Comparison) -> Self {
        Self::Pair(Box::new(comparison))
    }
}

impl PairOrJob {
    /// Its comparisons.
    #[must_use]
    pub fn comparisons(&self) -> &[Comparison] {
        match self {
            Self::Pair(pair) => slice::from_ref(pair),
            Self::Job(job) => &job.comparisons,
        }
    }

    /// The job, if it is one.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        if let Self::Job(job) = self { Some(job) } else { None }
    }
}

impl Job {
    /// The ranks of a job, judged together: the directory or glob of each side, the ranks that one side lacks, and the
    /// limits on each rank.
    #[must_use]
    pub fn judged(
        comparisons: Vec<Comparison>,
        name: Option<String>,
        paths: Sides<String>,
        missing: Vec<Missing>,
        thresholds: &Thresholds,
    ) -> Self {
        let of_ranks: Vec<_> = comparisons.iter().map(OfRank::compared).collect();
        let paths = Sides { before: Some(paths.before), after: Some(paths.after) };
        let ranks = Ranks::judged(name, paths, missing, &of_ranks, thresholds);
        Self { comparisons, ranks }
    }

    /// The verdict in one line.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let members = self.comparisons.iter();
        let parts = members.map(|of| Part::new(of.member.as_ref().map(|member| &*member.label), &of.judgement));
        let noun = noun(self.comparisons.iter().filter_map(|of| of.member.as_ref()));
        headline(&worst_first(parts), &[Part::new(None, &self.ranks.judgement)], noun)
    }
}

impl Readings {
    /// The ranks of a job in this directory or glob, judged together by the limits on each.
    #[must_use]
    pub fn new(path: String, readings: Vec<Reading>, thresholds: &Thresholds) -> Self {
        let ranks: Vec<_> = readings.iter().map(OfRank::read).collect();
        let paths = Sides { before: None, after: Some(path) };
        let ranks = Ranks::judged(None, paths, Vec::new(), &ranks, thresholds);
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
        let noun = noun(self.readings.iter().map(|of| &of.member));
        headline(&worst_first(judged), &[Part::new(None, &self.ranks.judgement)], noun)
    }
}
