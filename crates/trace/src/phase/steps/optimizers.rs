//! Steps that call several optimizers.

use rustc_hash::FxHashSet;

use super::{Course, How, Steps};
use crate::snapshot::StackId;

/// A step calls no more optimizers than these.
const MOST_IN_ROUND: usize = 8;

/// Calls that are this alike, in thousandths, recur.
const ALIKE: u64 = 700;

/// Neighbours are at most this percentage as alike as calls that recur.
const NEIGHBOURS_ALIKE: u64 = 75;

impl Steps {
    /// Puts those together that make up one round: a step may call several optimizers, for several models or devices.
    /// Merges each two rounds if every second round is more alike than neighbours are.
    pub(super) fn folded(mut self, course: &Course) -> Self {
        let mut begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        begins.push(course.events);
        let rounds = begins.windows(2).map(|pair| course.within(&(pair[0]..pair[1])));
        let rounds: Vec<FxHashSet<Option<StackId>>> =
            rounds.map(|round| round.iter().map(|one| one.stack).collect()).collect();
        // The first round warms up, and the last is not over.
        let rounds = rounds.get(1..rounds.len().saturating_sub(1)).unwrap_or_default();
        let next = likeness(rounds, 1);
        // Calls after which everything recurs, with their likeness.
        let lags = (2..=MOST_IN_ROUND).filter(|lag| rounds.len() >= lag * 3).map(|lag| (lag, likeness(rounds, lag)));
        let periods = lags.filter(|(_, alike)| *alike >= ALIKE && next * 100 <= alike * NEIGHBOURS_ALIKE);
        // Take the shortest of equally good periods: two rounds in a row are a period too.
        if let Some((lag, _)) = periods.reduce(|best, other| if other.1 > best.1 + 50 { other } else { best }) {
            self.steps = self.steps.into_iter().step_by(lag).collect();
            if let How::Named(name) = &mut self.how {
                name.push_str(&format!(", {lag} to a step"));
            }
        }
        self
    }
}

/// Likeness of rounds at a distance, in thousandths: the mean share of the stacks of two that both have.
fn likeness(rounds: &[FxHashSet<Option<StackId>>], lag: usize) -> u64 {
    let pairs: Vec<u64> = rounds.iter().zip(rounds.iter().skip(lag)).map(|(a, b)| in_common(a, b)).collect();
    pairs.iter().sum::<u64>().checked_div(pairs.len() as u64).unwrap_or(0)
}

/// The share of the stacks of two rounds that both have, in thousandths.
fn in_common(a: &FxHashSet<Option<StackId>>, b: &FxHashSet<Option<StackId>>) -> u64 {
    let common = a.intersection(b).count() as u64;
    let all = (a.len() + b.len()) as u64 - common;
    (common * 1000).checked_div(all).unwrap_or(1000)
}
