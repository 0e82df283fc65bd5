//! Limits, and what they say about a comparison or about one snapshot.

mod accepted;
mod checks;
mod collect;
mod gate;
mod judge;
mod leak;
mod phases;
mod ranks;
mod threshold;
mod words;

pub use accepted::{Accepted, Day, Subject};
pub use checks::{About, Check, Judgement, Outcome, Standing};
pub use collect::{ComparedRanks, ReadRanks};
pub use gate::{Comparison, Gate, Reading, Readings};
use judge::Judge;
pub use judge::{judge_diff, judge_profile};
pub use leak::{Finding, LeakGate, judge_leaks};
pub use ranks::{Member, Missing, Rank, RankPeak, Ranks, judge_ranks, numbers, peaks, peaks_of_one};
pub use threshold::{Figure, Growth, IMBALANCE, Level, Limits, Maximum, ParseThresholdError, Target};
pub use words::{Headline, Verdict};

/// The limits of one comparison or snapshot, and how strictly they are applied.
#[derive(Debug, Clone, Default)]
pub struct Thresholds {
    /// Limits on growth.
    pub growth: Vec<Growth>,
    /// Absolute limits.
    pub maximum: Vec<Maximum>,
    /// Stacks that changed by fewer bytes are not gated.
    pub min_delta: u64,
    /// An untrustworthy comparison is inconclusive.
    pub strict: bool,
    /// Growth beyond the limits that was agreed to.
    pub accepted: Vec<Accepted>,
    /// The day on which it has to be valid.
    pub today: Day,
    /// Whether this is one rank of several, so that [`judge_ranks`] tells what concerns all of them.
    pub one_of_ranks: bool,
}

impl Thresholds {
    /// Whether there is any limit.
    #[must_use]
    pub fn limits_anything(&self) -> bool {
        !self.growth.is_empty() || !self.maximum.is_empty()
    }
}
