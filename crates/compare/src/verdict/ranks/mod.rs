//! Checks of all ranks of a job together: none is missing, and their peaks are in balance.

mod peaks;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use self::peaks::{Balance, Known};
use super::{
    About, Check, Comparison, Growth, Judge, Judgement, Level, Maximum, Outcome, Reading, Thresholds, growth, maxima,
};
use crate::diff::{Change, Side, Sides};
use crate::text::{count, numbers as written};

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

/// A rank among others.
pub(super) struct OfRank<'a> {
    label: &'a str,
    /// The peaks of its devices; a single unknown one where no device did anything.
    peaks: Vec<Sides<Known>>,
    /// Its own checks.
    checks: &'a [Check],
    /// The labels of its stacks.
    stacks: Vec<&'a str>,
}

impl<'a> OfRank<'a> {
    pub(super) fn compared(comparison: &'a Comparison) -> Self {
        let Comparison { member, diff, judgement, .. } = comparison;
        let peaks = diff.devices.iter().map(|device| Sides {
            before: Known::of(device.index.before.map(|index| &diff.profiles.before.devices[index])),
            after: Known::of(device.index.after.map(|index| &diff.profiles.after.devices[index])),
        });
        Self {
            label: member.as_ref().map_or("", |member| &member.label),
            peaks: or_unknown(peaks.collect()),
            checks: &judgement.checks,
            stacks: growth::labels(diff).collect(),
        }
    }

    pub(super) fn read(reading: &'a Reading) -> Self {
        let active = reading.profile.devices.iter().filter(|device| device.is_active());
        let peaks = active.map(|device| Sides { before: Known::default(), after: Known::of(Some(device)) });
        Self {
            label: &reading.member.label,
            peaks: or_unknown(peaks.collect()),
            checks: reading.judgement.as_ref().map_or(&[], |judgement| &judgement.checks),
            stacks: reading.profile.devices.iter().flat_map(maxima::labels).collect(),
        }
    }
}

fn or_unknown(peaks: Vec<Sides<Known>>) -> Vec<Sides<Known>> {
    if peaks.is_empty() { vec![Sides::default()] } else { peaks }
}

/// The judgement of all ranks together, and how far their peaks are out of balance.
pub(super) struct JudgedRanks {
    pub(super) judgement: Judgement,
    pub(super) imbalance: Change,
}

/// Judges the ranks of a job together, of which each was judged by the same limits. A pattern that matches nothing of any
/// rank checks nothing.
pub(super) fn judge_ranks(ranks: &[OfRank<'_>], missing: &[Missing], thresholds: &Thresholds) -> JudgedRanks {
    let mut judge = Judge::default();
    for side in Side::BOTH {
        judge.missing(side, missing);
    }
    let balance = Balance::new(ranks, missing);
    for growth in &thresholds.growth {
        match growth.target.about {
            About::Imbalance => judge.growth_of_imbalance(growth, &balance),
            _ => judge.unmatched_on_all_ranks(growth.check(), ranks),
        }
    }
    for maximum in &thresholds.maximum {
        match maximum.target.about {
            About::Imbalance => judge.maximum_of_imbalance(maximum, &balance),
            _ => judge.unmatched_on_all_ranks(maximum.check(), ranks),
        }
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
        let check = Check::new(About::Ranks, "both sides".to_owned(), Level::Fail);
        self.checks.push(Check { reason: Some(reason), ..check });
    }

    /// A limit whose pattern matches nothing of any rank is inconclusive: none of them checked it.
    fn unmatched_on_all_ranks(&mut self, check: Check, ranks: &[OfRank<'_>]) {
        let mut checks = ranks.iter().flat_map(|rank| rank.checks);
        let is_checked = checks.any(|other| other.of == check.of && other.absolute == check.absolute);
        if let Some(pattern) = check.of.pattern.as_ref().filter(|_| !is_checked) {
            let noun = check.about().noun();
            let stacks: BTreeSet<&str> = ranks.iter().flat_map(|rank| &rank.stacks).copied().collect();
            let near = pattern.unmatched(noun, stacks.into_iter().filter(|_| noun == "stack"));
            self.cannot_tell(check, format!("the pattern matches no {noun} of any rank{near}"));
        }
    }

    fn growth_of_imbalance(&mut self, growth: &Growth, balance: &Balance<'_>) {
        let mut check = growth.check();
        match (&balance.spread.before, &balance.spread.after) {
            (Ok(_), Ok(after)) => {
                check.compare(balance.imbalance(), &growth.limit);
                check.reason = (check.outcome == Outcome::Exceeded).then(|| after.explain());
                self.doubt(&mut check, balance.error);
            }
            (Err(why), _) | (_, Err(why)) => check.reason = Some(why.clone()),
        }
        self.checks.push(check);
    }

    fn maximum_of_imbalance(&mut self, maximum: &Maximum, balance: &Balance<'_>) {
        let mut check = maximum.check();
        match &balance.spread.after {
            Ok(spread) => {
                check.after = Some(spread.imbalance());
                let holds = spread.imbalance() <= maximum.limit;
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
    use super::*;
    use crate::verdict::Verdict;

    fn peak(label: &str, before: Option<u64>, after: Option<u64>) -> OfRank<'_> {
        let sides = Sides { before, after }.map(|peak| Known { peak: *peak, error: Some(0) });
        OfRank { label, peaks: vec![sides], checks: &[], stacks: Vec::new() }
    }

    fn judge(ranks: &[OfRank<'_>], growth: &str, max: &str) -> JudgedRanks {
        let growth = Growth::parse(growth, Level::Fail).unwrap();
        let thresholds =
            Thresholds { growth: vec![growth], maximum: vec![max.parse().unwrap()], ..Thresholds::default() };
        judge_ranks(ranks, &[], &thresholds)
    }

    #[test]
    fn imbalance_is_the_highest_peak_less_the_median() {
        let peaks: Vec<_> = [("rank 0", 100, 100), ("rank 1", 100, 120), ("rank 2", 100, 110), ("rank 3", 130, 200)]
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
    fn a_pattern_that_matches_on_no_rank_is_no_pass() {
        let ranks = [peak("rank 0", Some(1), Some(1)), peak("rank 1", Some(1), Some(1))];
        for (limit, noun) in [("module:decoder*=0", "module"), ("stack:decoder*=0", "stack")] {
            let judgement = judge(&ranks, limit, "imbalance=1GiB").judgement;
            assert_eq!(judgement.verdict, Verdict::Inconclusive, "{limit}");
            let told = format!("the pattern matches no {noun} of any rank");
            assert!(judgement.headline().sentence.contains(&told), "{}", judgement.headline());
        }
    }

    #[test]
    fn what_cannot_be_told_is_no_pass() {
        let one = [peak("rank 0", Some(1), Some(1))];
        let JudgedRanks { judgement, imbalance } = judge(&one, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert!(judgement.headline().sentence.contains("only one rank"), "{}", judgement.headline());
        let unknown = [peak("rank 0", Some(1), Some(1)), peak("rank 1", None, Some(1))];
        let JudgedRanks { judgement, imbalance } = judge(&unknown, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.before, imbalance.after), (Verdict::Inconclusive, None, Some(0)));
        assert!(judgement.headline().sentence.contains("rank 1 has no peak in the before"), "{}", judgement.headline());
        let missing = Missing {
            member: Member { rank: None, label: "rank 2".to_owned() },
            side: Side::After,
            path: String::new(),
        };
        let two = [peak("rank 0", Some(1), Some(1)), peak("rank 1", Some(1), Some(1))];
        let JudgedRanks { judgement, imbalance } = judge_ranks(&two, &[missing], &Thresholds::default());
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert_eq!(judgement.headline().to_string(), "INCONCLUSIVE ranks: rank 2 is missing in the after");
    }
}
