//! Checks of all ranks of a job together: none is missing, and their peaks are in balance.

mod matched;
mod peaks;

use std::fmt;
use std::ops::Range;

pub use self::matched::Matched;
use self::peaks::Balance;
pub use self::peaks::{RankPeak, peaks, peaks_of_one};
use super::{Check, Checked, Growth, Judge, Judgement, Level, Maximum, Outcome, Target, Thresholds};
use crate::diff::{Change, Side, Sides};
use crate::text::{count, numbers as written};
use crate::units::GivenSize;

/// The process of a job that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The node, where ranks are counted on each.
    pub node: Option<u64>,
    /// Its number.
    pub number: u64,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.node {
            write!(f, "node {node} ")?;
        }
        write!(f, "rank {}", self.number)
    }
}

/// One of several files of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its rank, where the name of the file tells.
    pub rank: Option<Rank>,
    /// Name of the rank: `rank 3`, or the name of the file.
    pub label: String,
}

/// A rank that only one side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The rank.
    pub member: Member,
    /// The side that lacks it.
    pub side: Side,
    /// Its file on the side that has it.
    pub path: String,
}

/// The ranks of a job.
#[derive(Debug)]
pub struct Ranks {
    /// Name of the comparison, if there are several.
    pub name: Option<String>,
    /// The directory or glob of each side; no before where nothing was compared.
    pub paths: Sides<Option<String>>,
    /// Their places among the comparisons, or the snapshots.
    pub members: Range<usize>,
    /// Ranks that only one side has.
    pub missing: Vec<Missing>,
    /// How far the highest peak lies above the median of them.
    pub imbalance: Change,
    /// Verdict on limits for all ranks together.
    pub judgement: Judgement,
}

/// The judgement of all ranks together, and how far their peaks are out of balance.
#[derive(Debug)]
pub struct JudgedRanks {
    /// Verdict on limits for all ranks together.
    pub judgement: Judgement,
    /// How far the highest peak lies above the median of them.
    pub imbalance: Change,
}

/// Judges all ranks together: `ranks` of them are on both sides, with these peaks. A limit that `matched` no stack of
/// any rank is inconclusive.
#[must_use]
pub fn judge_ranks(
    ranks: usize,
    peaks: &[RankPeak],
    missing: &[Missing],
    matched: &Matched,
    thresholds: &Thresholds,
) -> JudgedRanks {
    let mut judge = Judge::default();
    for side in Side::BOTH {
        judge.missing(side, missing);
    }
    judge.unmatched_on_all_ranks(matched, thresholds);
    let balance = Balance::new(ranks, peaks, missing);
    for growth in thresholds.growth.iter().filter(|growth| growth.target == Target::Imbalance) {
        judge.growth_of_imbalance(growth, &balance);
    }
    for maximum in thresholds.maximum.iter().filter(|maximum| maximum.target == Target::Imbalance) {
        judge.maximum_of_imbalance(maximum, &balance);
    }
    let judgement = judge.finish(std::iter::empty(), thresholds.strict, false);
    JudgedRanks { judgement, imbalance: balance.imbalance() }
}

impl Judge {
    /// Adds a check where one side lacks ranks: that never passes, whatever the limits.
    fn missing(&mut self, side: Side, missing: &[Missing]) {
        let of_side = missing.iter().filter(|missing| missing.side == side);
        let members: Vec<&Member> = of_side.map(|missing| &missing.member).collect();
        if members.is_empty() {
            return;
        }
        let verb = if members.len() == 1 { "is" } else { "are" };
        let reason = format!("{} {verb} missing in the {side}", numbers(&members));
        let check = Check::new(Checked::Ranks, "both sides".to_owned(), Level::Fail);
        self.checks.push(Check { reason: Some(reason), ..check });
    }

    fn growth_of_imbalance(&mut self, growth: &Growth, balance: &Balance<'_>) {
        let Growth { target, limit, level } = growth;
        let mut check = Check::new(Checked::Target(target.clone()), limit.to_string(), *level);
        match (&balance.spread.before, &balance.spread.after) {
            (Ok(before), Ok(after)) => {
                let old = before.imbalance();
                let new = after.imbalance();
                let delta = i128::from(new) - i128::from(old);
                check.before = Some(old);
                check.after = Some(new);
                check.delta = Some(delta);
                check.allowed = Some(limit.allowed(old));
                check.outcome = if limit.holds(old, delta) { Outcome::Pass } else { Outcome::Exceeded };
                check.reason = (check.outcome == Outcome::Exceeded).then(|| after.explain());
                self.doubt(&mut check, balance.error);
            }
            (Err(why), _) | (_, Err(why)) => check.reason = Some(why.clone()),
        }
        self.checks.push(check);
    }

    fn maximum_of_imbalance(&mut self, maximum: &Maximum, balance: &Balance<'_>) {
        let Maximum { target, limit } = maximum;
        let mut check = Check {
            absolute: true,
            allowed: Some(u128::from(*limit)),
            ..Check::new(Checked::Target(target.clone()), GivenSize(*limit).to_string(), Level::Fail)
        };
        match &balance.spread.after {
            Ok(spread) => {
                check.after = Some(spread.imbalance());
                let holds = spread.imbalance() <= *limit;
                check.outcome = if holds { Outcome::Pass } else { Outcome::Exceeded };
                check.reason = (!holds).then(|| spread.explain());
                self.doubt(&mut check, Sides { before: Some(0), after: balance.error.after });
            }
            Err(why) => check.reason = Some(why.clone()),
        }
        self.checks.push(check);
    }
}

/// Ranks in words: `rank 3`, `ranks 0-3 and 7`, or what else they are called; not all where they are many.
#[must_use]
pub fn numbers(members: &[&Member]) -> String {
    const MOST: usize = 6;
    let plain: Option<Vec<u64>> =
        members.iter().map(|member| member.rank.filter(|rank| rank.node.is_none()).map(|rank| rank.number)).collect();
    match (members, plain) {
        ([only], _) => only.label.clone(),
        (_, Some(all)) => format!("ranks {}", written(all)),
        _ if members.len() <= MOST => members.iter().map(|member| &*member.label).collect::<Vec<_>>().join(", "),
        _ => {
            let first: Vec<_> = members.iter().take(MOST - 1).map(|member| &*member.label).collect();
            let more = count((members.len() - first.len()) as u64, "more", "more");
            format!("{} and {more}", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::peaks::Known;
    use super::*;
    use crate::verdict::Verdict;

    fn peak(rank: u64, before: Option<u64>, after: Option<u64>) -> RankPeak {
        let member = Member { rank: Some(Rank { node: None, number: rank }), label: format!("rank {rank}") };
        let sides = Sides { before, after }.map(|peak| Known { peak: *peak, error: Some(0) });
        RankPeak::new(&member, sides)
    }

    fn judge(peaks: &[RankPeak], growth: &str, max: &str) -> JudgedRanks {
        let growth = Growth::parse(growth, Level::Fail).unwrap();
        let thresholds =
            Thresholds { growth: vec![growth], maximum: vec![max.parse().unwrap()], ..Thresholds::default() };
        judge_ranks(peaks.len(), peaks, &[], &Matched::default(), &thresholds)
    }

    #[test]
    fn imbalance_is_the_highest_peak_less_the_median() {
        let peaks: Vec<_> = [(0, 100, 100), (1, 100, 120), (2, 100, 110), (3, 130, 200)]
            .map(|(rank, before, after)| peak(rank, Some(before), Some(after)))
            .into();
        let JudgedRanks { judgement, imbalance } = judge(&peaks, "imbalance=55B", "imbalance=85B");
        assert_eq!((imbalance.before, imbalance.after), (Some(30), Some(85)));
        assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
        let judgement = judge(&peaks, "imbalance=54B", "imbalance=85B").judgement;
        assert_eq!(
            judgement.headline().to_string(),
            "FAIL imbalance grew 55 B (+183.3 %), allowed 54 B (rank 3 peaks at 200 B, the median of the ranks is 115 B)"
        );
        let judgement = judge(&peaks, "imbalance=55B", "imbalance=84B").judgement;
        assert_eq!(judgement.verdict, Verdict::Regression);
    }

    #[test]
    fn what_cannot_be_told_is_no_pass() {
        let one = [peak(0, Some(1), Some(1))];
        let JudgedRanks { judgement, imbalance } = judge(&one, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert!(judgement.headline().sentence.contains("only one rank"), "{}", judgement.headline());
        let unknown = [peak(0, Some(1), Some(1)), peak(1, None, Some(1))];
        let JudgedRanks { judgement, imbalance } = judge(&unknown, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.before, imbalance.after), (Verdict::Inconclusive, None, Some(0)));
        assert!(judgement.headline().sentence.contains("rank 1 has no peak in the before"), "{}", judgement.headline());
        let missing = Missing {
            member: Member { rank: None, label: "rank 2".to_owned() },
            side: Side::After,
            path: String::new(),
        };
        let two = [peak(0, Some(1), Some(1)), peak(1, Some(1), Some(1))];
        let JudgedRanks { judgement, imbalance } =
            judge_ranks(2, &two, &[missing], &Matched::default(), &Thresholds::default());
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert_eq!(judgement.headline().to_string(), "INCONCLUSIVE ranks: rank 2 is missing in the after");
    }
}
