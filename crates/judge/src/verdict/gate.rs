//! The tree of results: a suite has single results and jobs, a job its ranks, and each has its verdict and its remarks.

use std::cmp::Reverse;
use std::slice;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_compare::diff::{Diff, Side, Sides};
use ptmem_trace::profile::Profile;

use super::doubts::JudgedInput;
use super::headline::{Badness, NamedJudgement, badness, headline};
use super::ranks::RankResult;
use super::{Headline, Judgement, Member, MissingRank, Outcome, Ranks, Thresholds, Verdict, has_ranks};

/// A diagnostic, and the side that it concerns where that is one.
pub type Sided<'a> = (Option<Side>, &'a Diagnostic);

/// A leaf of the tree: a comparison, a snapshot or a search for leaks.
pub trait Judged {
    /// The word for one of several.
    fn noun(&self) -> &'static str;

    /// Its name, if there are several.
    fn name(&self) -> Option<&str>;

    /// Its rank, where it is of a job.
    fn member(&self) -> Option<&Member>;

    /// The examined file: the after of a comparison, the last one of a series.
    fn source(&self) -> &str;

    /// Verdict by the limits, if there are any.
    fn judgement(&self) -> Option<&Judgement>;

    /// The same, to be changed.
    fn judgement_mut(&mut self) -> Option<&mut Judgement>;

    /// The diagnostics of the input, then those of the judgement.
    fn diagnostics(&self) -> Vec<Sided<'_>>;

    /// By this the worst leaf comes last.
    fn badness(&self) -> Option<Badness> {
        self.judgement().map(badness)
    }
}

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

/// A snapshot, with the verdict by absolute limits.
#[derive(Debug)]
pub struct Reading {
    /// Its rank, where there are several.
    pub member: Option<Member>,
    /// Its figures.
    pub profile: Profile,
    /// Verdict by the limits, if there are any.
    pub judgement: Option<Judgement>,
}

/// Results that have one verdict.
#[derive(Debug)]
pub struct Suite<T> {
    /// Single results and jobs, each with limits of its own.
    pub nodes: Vec<GateNode<T>>,
}

/// Comparisons that have one verdict.
pub type Gate = Suite<Comparison>;

/// A snapshot, or those of the ranks of a job.
pub type Readings = Suite<Reading>;

/// A single result, or those of the ranks of a job.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a single result is larger than a job")]
pub enum GateNode<T> {
    /// A single result.
    One(T),
    /// The ranks of a job.
    Job(Job<T>),
}

/// The results of the ranks of a job.
#[derive(Debug)]
pub struct Job<T> {
    /// One for each rank, in order; of comparisons, for each that both sides have.
    pub members: Vec<T>,
    /// Results for all ranks together.
    pub ranks: Ranks,
}

impl<T> From<T> for Suite<T> {
    fn from(one: T) -> Self {
        Self { nodes: vec![GateNode::One(one)] }
    }
}

impl<T> GateNode<T> {
    /// Its leaves.
    pub fn leaves(&self) -> &[T] {
        match self {
            Self::One(one) => slice::from_ref(one),
            Self::Job(job) => &job.members,
        }
    }

    /// The job, if it is one.
    pub fn job(&self) -> Option<&Job<T>> {
        if let Self::Job(job) = self { Some(job) } else { None }
    }
}

impl<T> Suite<T> {
    /// All leaves, those of the ranks of a job side by side.
    pub fn leaves(&self) -> impl Iterator<Item = &T> + Clone {
        self.nodes.iter().flat_map(GateNode::leaves)
    }

    /// The single results.
    pub fn singles(&self) -> impl Iterator<Item = &T> + Clone {
        self.nodes.iter().filter(|node| node.job().is_none()).flat_map(GateNode::leaves)
    }

    /// The jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Job<T>> + Clone {
        self.nodes.iter().filter_map(GateNode::job)
    }

    /// The result, if there is only one, and no job.
    pub fn only(&self) -> Option<&T> {
        if let [GateNode::One(only)] = &self.nodes[..] { Some(only) } else { None }
    }

    /// The same, to be changed.
    pub fn only_mut(&mut self) -> Option<&mut T> {
        if let [GateNode::One(only)] = &mut self.nodes[..] { Some(only) } else { None }
    }

    /// Whether all results are of the ranks of one job.
    pub fn is_one_job(&self) -> bool {
        matches!(self.nodes[..], [GateNode::Job(_)])
    }
}

impl<T: Judged> Suite<T> {
    /// Every judgement: of the leaves, then of the ranks of jobs together.
    fn judgements(&self) -> impl Iterator<Item = &Judgement> {
        self.leaves().filter_map(T::judgement).chain(self.jobs().map(|job| &job.ranks.judgement))
    }

    /// Adds remarks that concern all of it. They are reported with the first job or result.
    pub fn remark(&mut self, remarks: impl IntoIterator<Item = Diagnostic>) {
        let at = self.nodes.iter().position(|node| node.job().is_some()).unwrap_or(0);
        let first = self.nodes.get_mut(at).and_then(|node| match node {
            GateNode::One(one) => one.judgement_mut(),
            GateNode::Job(job) => Some(&mut job.ranks.judgement),
        });
        if let Some(first) = first {
            first.diagnostics.extend(remarks);
        }
    }

    /// The verdict: the worst of all.
    pub fn verdict(&self) -> Verdict {
        self.judgements().map(|judgement| judgement.verdict).max().unwrap_or(Verdict::Inconclusive)
    }

    /// Whether anything was gated.
    pub fn is_gated(&self) -> bool {
        self.judgements().any(|judgement| !judgement.checks.is_empty())
    }

    /// Whether it passes, and no limit that only warns is exceeded or cannot be decided.
    pub fn holds_all_limits(&self) -> bool {
        let mut checks = self.judgements().flat_map(|judgement| &judgement.checks);
        self.verdict() == Verdict::Pass && checks.all(|check| check.outcome == Outcome::Pass)
    }

    /// Whether it fails by growth, or by shrinkage, and by nothing else, which can be agreed to.
    pub fn fails_by_change_alone(&self) -> bool {
        self.verdict() == Verdict::Regression
            && self
                .judgements()
                .all(|judgement| judgement.verdict == Verdict::Pass || judgement.fails_by_change_alone())
    }

    /// Whether it fails only by what a reviewer can approve: by a change, or because the before is missing.
    pub fn can_be_approved(&self) -> bool {
        let lacks_a_before = self.judgements().all(Judgement::lacks_a_before_at_most);
        self.fails_by_change_alone() || self.verdict() != Verdict::Pass && lacks_a_before
    }

    /// The leaves, the worst first.
    pub fn worst_first(&self) -> Vec<&T> {
        worst_first(self.leaves())
    }

    /// The verdict in one line, with the figure and the limit that explain it.
    pub fn headline(&self) -> Headline {
        let together: Vec<_> =
            self.jobs().map(|Job { ranks, .. }| NamedJudgement::new(ranks.name.as_deref(), &ranks.judgement)).collect();
        let noun = match &self.nodes[..] {
            [GateNode::Job(job)] => job.noun(),
            _ => self.leaves().next().map_or("result", T::noun),
        };
        headline(&parts(self.leaves(), T::name), &together, noun)
    }
}

impl<T: Judged> Job<T> {
    /// The word for one of its files.
    fn noun(&self) -> &'static str {
        if has_ranks(self.members.iter().filter_map(T::member)) { "rank" } else { "case" }
    }

    /// The verdict in one line; `None` where the members were not judged.
    pub fn headline(&self) -> Option<Headline> {
        if self.members.iter().any(|of| of.judgement().is_none()) {
            return None;
        }
        let parts = parts(self.members.iter(), |of| of.member().map(|member| &*member.label));
        Some(headline(&parts, &[NamedJudgement::new(None, &self.ranks.judgement)], self.noun()))
    }
}

fn worst_first<'a, T: Judged + 'a>(leaves: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut leaves: Vec<_> = leaves.collect();
    leaves.sort_by_key(|leaf| Reverse(leaf.badness()));
    leaves
}

/// The judged leaves by their names, the worst first.
fn parts<'a, T: Judged + 'a>(
    leaves: impl Iterator<Item = &'a T>,
    name: impl Fn(&'a T) -> Option<&'a str>,
) -> Vec<NamedJudgement<'a>> {
    worst_first(leaves)
        .into_iter()
        .filter_map(|leaf| Some(NamedJudgement::new(name(leaf), leaf.judgement()?)))
        .collect()
}

impl Job<Comparison> {
    /// The ranks of a job, judged together: the directory or glob of each side, the ranks that one side lacks, and the
    /// limits on each rank.
    pub fn compared(
        members: Vec<Comparison>,
        name: Option<String>,
        paths: Sides<String>,
        missing: Vec<MissingRank>,
        thresholds: &Thresholds,
    ) -> Self {
        let of_ranks: Vec<_> =
            members.iter().map(|of| RankResult::new(of, JudgedInput::Comparison(&of.diff))).collect();
        let paths = Sides { before: Some(paths.before), after: Some(paths.after) };
        let ranks = Ranks::judged(name, paths, missing, &of_ranks, thresholds);
        Self { members, ranks }
    }
}

impl Job<Reading> {
    /// The ranks of a job in this directory or glob, judged together by the limits on each.
    pub fn read(path: String, members: Vec<Reading>, thresholds: &Thresholds) -> Self {
        let ranks: Vec<_> = members.iter().map(|of| RankResult::new(of, JudgedInput::Snapshot(&of.profile))).collect();
        let paths = Sides { before: None, after: Some(path) };
        let ranks = Ranks::judged(None, paths, Vec::new(), &ranks, thresholds);
        Self { members, ranks }
    }
}

impl Judged for Comparison {
    fn noun(&self) -> &'static str {
        "comparison"
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    fn source(&self) -> &str {
        &self.diff.profiles.after.source.path
    }

    fn judgement(&self) -> Option<&Judgement> {
        Some(&self.judgement)
    }

    fn judgement_mut(&mut self) -> Option<&mut Judgement> {
        Some(&mut self.judgement)
    }

    fn diagnostics(&self) -> Vec<Sided<'_>> {
        let sides = self.diff.profiles.each().into_iter();
        let of_sides = sides.flat_map(|(side, of)| of.diagnostics.iter().map(move |found| (Some(side), found)));
        let of_both = self.diff.diagnostics.iter().chain(&self.judgement.diagnostics);
        of_sides.chain(of_both.map(|found| (None, found))).collect()
    }
}

impl Judged for Reading {
    fn noun(&self) -> &'static str {
        "snapshot"
    }

    fn name(&self) -> Option<&str> {
        self.member().map(|member| &*member.label)
    }

    fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    fn source(&self) -> &str {
        &self.profile.source.path
    }

    fn judgement(&self) -> Option<&Judgement> {
        self.judgement.as_ref()
    }

    fn judgement_mut(&mut self) -> Option<&mut Judgement> {
        self.judgement.as_mut()
    }

    fn diagnostics(&self) -> Vec<Sided<'_>> {
        diagnostics_of_snapshot(&self.profile, self.judgement())
    }
}

/// The diagnostics of a snapshot, then those of its judgement.
pub fn diagnostics_of_snapshot<'a>(profile: &'a Profile, judgement: Option<&'a Judgement>) -> Vec<Sided<'a>> {
    let of_judgement = judgement.into_iter().flat_map(|judgement| &judgement.diagnostics);
    profile.diagnostics.iter().chain(of_judgement).map(|found| (None, found)).collect()
}
