//! Calls of optimizers that make up one step.

use std::iter::once;
use std::ops::Range;

use ptmem_snapshot::snapshot::StackId;
use rustc_hash::FxHashSet;

use super::rounds::Rounds;
use super::used::{TrainedPass, UsedStacks};
use super::{AllocationCourse, FoundBy, StepName, Steps, nearly_all};
use crate::stack::SnapshotCode;

/// Calls of optimizers that are tried as one step: each number costs a walk over the history.
const MOST_IN_ROUND: usize = 8;

/// The similarity of neighbors is at most this percentage of the similarity of recurring calls. Needed for
/// `adversarial` of crates/simulate/tests/torch/programs.py.
const NEIGHBOURS_ALIKE: usize = 75;

/// The part of a history from one call of an optimizer to the next.
pub(super) struct CallRound {
    /// Its events.
    pub(super) events: Range<usize>,
    /// The stacks that allocate in it.
    stacks: FxHashSet<Option<StackId>>,
    /// Its forward and backward pass, if it has both: it may be a whole step.
    pub(super) pass: Option<TrainedPass>,
}

impl Steps {
    /// Joins the calls that make up one round: a step may call several optimizers, for several models or devices.
    /// Merges pairs of rounds if every second round is more similar than neighbors are, and not only in what no pass uses.
    pub(super) fn folded(mut self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> Self {
        let known = Rounds::new(course, code);
        let mut rounds = self.rounds(course, &known);
        let joined = self.join(&Self::begin_after_whole(&rounds)).or_else(|| self.join(&self.begin_by_names()));
        if joined.is_some() {
            rounds = self.rounds(course, &known);
        }
        let mut period = period(&rounds);
        let joined = joined.unwrap_or(1);
        let mut is_certain = true;
        if period > 1 && have_passes(&rounds) {
            let used = UsedStacks::new(&rounds, course, &known);
            period = used.period(period);
            is_certain = period == 1 || used.show_models(period);
        }
        self.steps = self.steps.into_iter().step_by(period).collect();
        let calls = joined * period;
        if let FoundBy::Named(name) = &mut self.how
            && calls > 1
        {
            name.push_str(&format!(", {calls} to a step"));
            match joined {
                _ if is_certain => {}
                1 => name.push_str("; if each call is a step, use --step Optimizer.step"),
                several => name.push_str(&format!("; perhaps {several} to a step")),
            }
        }
        self
    }

    fn rounds(&self, course: &AllocationCourse, known: &Rounds<'_, '_>) -> Vec<CallRound> {
        let ends = self.steps.iter().skip(1).map(|step| step.from.count()).chain(once(course.events));
        let rounds = self.steps.iter().zip(ends).map(|(step, end)| step.from.count()..end);
        let rounds = rounds.map(|events| {
            let stacks = course.within(&events).iter().map(|one| one.stack).collect();
            CallRound { pass: TrainedPass::of(&events, course, known), stacks, events }
        });
        rounds.collect()
    }

    /// The calls that begin a step: those after a whole round. What several optimizers allocate between their calls, such as to clip
    /// gradients, is none.
    fn begin_after_whole(rounds: &[CallRound]) -> Vec<usize> {
        // The last round is not over.
        let over = rounds.split_last().map(|(_, over)| over).unwrap_or_default();
        // Without one, passes are not known.
        let has_whole = over.iter().any(|round| round.pass.is_some());
        let ends = (1..).zip(over).filter(|(_, round)| !has_whole || round.pass.is_some());
        once(0).chain(ends.map(|(call, _)| call)).collect()
    }

    /// The calls that begin a step if it calls optimizers of different names, each once: between them, it may allocate nothing.
    fn begin_by_names(&self) -> Vec<usize> {
        let mut called: FxHashSet<&StepName> = FxHashSet::default();
        let mut begin = Vec::new();
        for (call, step) in self.steps.iter().enumerate() {
            if called.contains(&step.name) || call == 0 {
                called.clear();
                begin.push(call);
            }
            called.insert(&step.name);
        }
        begin
    }

    /// Joins calls to steps that begin with certain ones, if nearly all steps have several. Returns the number of calls in a step.
    fn join(&mut self, begin: &[usize]) -> Option<usize> {
        // The last step is not over.
        let over = begin.windows(2).map(|pair| pair[1] - pair[0]);
        let of_several = over.clone().filter(|&calls| calls > 1).count();
        if !nearly_all(of_several, over.len()) {
            return None;
        }
        let last = self.steps.len() - begin.last().copied().unwrap_or(0);
        let most = over.chain(once(last)).max();
        self.steps = begin.iter().map(|&call| self.steps[call].clone()).collect();
        most
    }
}

/// All but the first round, which warms up, and the last, which is not over.
pub(super) fn judged(rounds: &[CallRound]) -> &[CallRound] {
    rounds.get(1..rounds.len().saturating_sub(1)).unwrap_or_default()
}

/// Whether nearly all rounds have a forward and a backward pass.
fn have_passes(rounds: &[CallRound]) -> bool {
    let having = judged(rounds).iter().filter(|round| round.pass.is_some()).count();
    nearly_all(having, judged(rounds).len())
}

/// The number of rounds after which everything recurs, if it is not every round.
fn period(rounds: &[CallRound]) -> usize {
    let rounds = judged(rounds);
    // Rounds with no allocation do not show what recurs.
    let allocating = rounds.iter().filter(|round| !round.stacks.is_empty()).count();
    if !nearly_all(allocating, rounds.len()) {
        return 1;
    }
    let next = likeness(rounds, 1);
    let lags = (2..=MOST_IN_ROUND).filter(|lag| rounds.len() >= lag * 3).map(|lag| (lag, likeness(rounds, lag)));
    let periods = lags.filter(|(_, alike)| nearly_all(*alike, 1000) && next * 100 <= alike * NEIGHBOURS_ALIKE);
    // Take the shortest of equally good periods: two rounds in a row are a period too.
    let best = periods.reduce(|best, other| if other.1 > best.1 + 50 { other } else { best });
    best.map_or(1, |(lag, _)| lag)
}

/// Likeness of rounds at a distance, in thousandths: the mean share of the stacks of two that both have.
fn likeness(rounds: &[CallRound], lag: usize) -> usize {
    let pairs: Vec<usize> = rounds.iter().zip(rounds.iter().skip(lag)).map(|(a, b)| a.in_common(b)).collect();
    pairs.iter().sum::<usize>().checked_div(pairs.len()).unwrap_or(0)
}

impl CallRound {
    /// The share of the stacks of two rounds that both have, in thousandths.
    fn in_common(&self, other: &Self) -> usize {
        let common = self.stacks.intersection(&other.stacks).count();
        let all = self.stacks.len() + other.stacks.len() - common;
        (common * 1000).checked_div(all).unwrap_or(1000)
    }
}
