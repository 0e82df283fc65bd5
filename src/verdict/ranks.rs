//! Checks of all ranks of a job together: none is missing, and their peaks are in balance.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::{About, Check, Figure, Judge, Judgement, Level, Outcome, Target, Thresholds};
use crate::diff::{Change, Diff, Side, Sides};
use crate::pattern::Pattern;
use crate::profile::{DeviceProfile, Metric, Profile};
use crate::replay::History;
use crate::text::{count, nearest, numbers as written};
use crate::units::{GivenSize, Limit, Size};

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
    /// Which.
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
    /// Which of the comparisons, or of the snapshots, are theirs.
    pub members: Range<usize>,
    /// Ranks that only one side has.
    pub missing: Vec<Missing>,
    /// How far the highest peak lies above the median of them.
    pub imbalance: Change,
    /// Verdict on limits for all ranks together.
    pub judgement: Judgement,
}

/// The peak of one device of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPeak {
    /// Whose it is.
    label: String,
    /// Bytes; `None` where they are not known.
    peak: Sides<Option<u64>>,
    /// How far they may be from the truth; `None` where that is not known.
    error: Sides<Option<u64>>,
}

/// The peaks of the devices of one rank.
#[must_use]
pub fn peaks(member: &Member, diff: &Diff) -> Vec<RankPeak> {
    let side = |profile: &Profile, index: Option<usize>| figures(index.map(|index| &profile.devices[index]));
    let mut peaks: Vec<_> = diff
        .devices
        .iter()
        .map(|device| {
            let before = side(&diff.profiles.before, device.index.before);
            let after = side(&diff.profiles.after, device.index.after);
            rank_peak(member, before, after)
        })
        .collect();
    if peaks.is_empty() {
        peaks.push(rank_peak(member, (None, None), (None, None)));
    }
    peaks
}

/// The same of one side alone, as the after.
#[must_use]
pub fn peaks_of_one(member: &Member, profile: &Profile) -> Vec<RankPeak> {
    let active = profile.devices.iter().filter(|device| device.is_active());
    let mut peaks: Vec<_> = active.map(|device| rank_peak(member, (None, None), figures(Some(device)))).collect();
    if peaks.is_empty() {
        peaks.push(rank_peak(member, (None, None), (None, None)));
    }
    peaks
}

type Known = (Option<u64>, Option<u64>);

fn rank_peak(member: &Member, before: Known, after: Known) -> RankPeak {
    RankPeak {
        label: member.label.clone(),
        peak: Sides { before: before.0, after: after.0 },
        error: Sides { before: before.1, after: after.1 },
    }
}

/// The peak of a device, and its error; what has no history has none.
fn figures(device: Option<&DeviceProfile>) -> Known {
    let device = device.filter(|device| device.figures.history == History::Recorded);
    device.map_or((None, None), |device| (Metric::Peak.value(device), Metric::Peak.max_error(device)))
}

/// The median: of an even number the mean of the two in the middle, rounded down.
fn median(sorted: &[u64]) -> Option<u64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted[sorted.len() / 2 - 1];
    Some(lower + (upper - lower) / 2)
}

/// The highest peak, whose it is, and the median.
struct Spread<'p> {
    highest: u64,
    label: &'p str,
    median: u64,
}

impl Spread<'_> {
    fn imbalance(&self) -> u64 {
        self.highest - self.median
    }
}

/// How one side is spread; why that cannot be told.
fn spread<'p>(peaks: &'p [RankPeak], side: &str, of: impl Fn(&RankPeak) -> Option<u64>) -> Result<Spread<'p>, String> {
    if let Some(unknown) = peaks.iter().find(|peak| of(peak).is_none()) {
        return Err(format!("{} has no peak in the {side}", unknown.label));
    }
    let mut values: Vec<u64> = peaks.iter().filter_map(&of).collect();
    values.sort_unstable();
    let nothing = || "there is no rank".to_owned();
    let (median, highest) = (median(&values).ok_or_else(nothing)?, *values.last().ok_or_else(nothing)?);
    let label = peaks.iter().find(|peak| of(peak) == Some(highest)).map_or("", |peak| &peak.label);
    Ok(Spread { highest, label, median })
}

/// Which limits are about a stack that some rank has: a pattern need not match on each.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    /// For each limit on growth.
    pub growth: Vec<bool>,
    /// For each absolute limit.
    pub maximum: Vec<bool>,
    /// The labels of ranks on which the pattern of some limit matches no stack.
    labels: BTreeSet<String>,
}

impl Matched {
    /// No rank has been seen yet.
    #[must_use]
    pub fn new(thresholds: &Thresholds) -> Self {
        let growth = vec![false; thresholds.growth.len()];
        Self { growth, maximum: vec![false; thresholds.maximum.len()], labels: BTreeSet::new() }
    }

    /// Adds the comparison of a rank.
    pub fn add_diff(&mut self, diff: &Diff, thresholds: &Thresholds) {
        for (matched, growth) in self.growth.iter_mut().zip(&thresholds.growth) {
            *matched |= growth.matches(diff);
        }
        if self.growth.contains(&false) {
            self.labels.extend(super::growth::labels(diff).map(str::to_owned));
        }
        self.add_profile(&diff.profiles.after, thresholds);
    }

    /// The reason of a check whose pattern matches no stack of any rank.
    fn reason(&self, pattern: Option<&Pattern>) -> String {
        let labels = self.labels.iter().map(String::as_str);
        let near = pattern.map(|pattern| nearest(pattern.as_str(), "stack", labels));
        format!("the pattern matches no stack of any rank{}", near.unwrap_or_default())
    }

    /// Adds the snapshot of a rank.
    pub fn add_profile(&mut self, profile: &Profile, thresholds: &Thresholds) {
        for (matched, maximum) in self.maximum.iter_mut().zip(&thresholds.maximum) {
            *matched |= maximum.matches(profile);
        }
        if self.maximum.contains(&false) {
            self.labels.extend(profile.devices.iter().flat_map(super::maxima::labels).map(str::to_owned));
        }
    }
}

/// Judges all ranks together: `ranks` of them are on both sides, with these peaks. A limit that `matched` no stack of
/// any rank cannot be told.
#[must_use]
pub fn judge_ranks(
    ranks: usize,
    peaks: &[RankPeak],
    missing: &[Missing],
    matched: &Matched,
    thresholds: &Thresholds,
) -> (Judgement, Change) {
    let mut judge = Judge::default();
    for side in Side::BOTH {
        judge.missing(&missing.iter().filter(|missing| missing.side == side).collect::<Vec<_>>());
    }
    for (growth, is_matched) in thresholds.growth.iter().zip(&matched.growth) {
        if growth.pattern().is_some() && !is_matched {
            judge.cannot_tell(growth, &matched.reason(growth.pattern()));
        }
    }
    for (maximum, _) in thresholds.maximum.iter().zip(&matched.maximum).filter(|(_, is_matched)| !**is_matched) {
        judge.cannot_tell_maximum(maximum, &matched.reason(maximum.pattern()));
    }
    let complete = |side: Side| {
        let lacks = missing.iter().find(|missing| missing.side == side);
        match lacks {
            _ if ranks + missing.len() < 2 => {
                Err("there is only one rank; give a directory or a glob with a file for each".to_owned())
            }
            Some(missing) => Err(format!("{} is missing in the {}", missing.member.label, missing.side)),
            None => Ok(()),
        }
    };
    let before = complete(Side::Before).and_then(|()| spread(peaks, "before", |peak| peak.peak.before));
    let after = complete(Side::After).and_then(|()| spread(peaks, "after", |peak| peak.peak.after));
    // Both figures of a difference may be off.
    let error = |of: fn(&RankPeak) -> Option<u64>| {
        let most = peaks.iter().map(of).try_fold(0, |most: u64, error| Some(most.max(error?)));
        most.map(|most| most.saturating_mul(2))
    };
    let (before_error, after_error) = (error(|peak| peak.error.before), error(|peak| peak.error.after));
    for growth in thresholds.growth.iter().filter(|growth| growth.target == Target::Imbalance) {
        let mut check = Check::new(About::Imbalance, growth.target.name(), growth.limit.to_string(), growth.level);
        match (&before, &after) {
            (Ok(before), Ok(after)) => {
                judge.growth_of_imbalance(check, before, after, &growth.limit, before_error, after_error);
            }
            (Err(why), _) | (_, Err(why)) => {
                check.reason = Some(why.clone());
                judge.checks.push(check);
            }
        }
    }
    for maximum in thresholds.maximum.iter().filter(|maximum| maximum.figure == Figure::Imbalance) {
        let mut check = Check {
            absolute: true,
            allowed: Some(maximum.limit.into()),
            ..Check::new(About::Imbalance, maximum.figure.name(), GivenSize(maximum.limit).to_string(), Level::Fail)
        };
        match &after {
            Ok(spread) => {
                check.after = Some(spread.imbalance());
                let holds = spread.imbalance() <= maximum.limit;
                check.outcome = if holds { Outcome::Pass } else { Outcome::Exceeded };
                check.reason = (!holds).then(|| explain(spread));
                judge.doubt(&mut check, Sides { before: Some(0), after: after_error });
            }
            Err(why) => check.reason = Some(why.clone()),
        }
        judge.checks.push(check);
    }
    let imbalance = |side: &Result<Spread<'_>, String>| side.as_ref().ok().map(Spread::imbalance);
    let change = Change { before: imbalance(&before), after: imbalance(&after) };
    (judge.finish(std::iter::empty(), thresholds.strict, false), change)
}

fn explain(spread: &Spread<'_>) -> String {
    let Spread { highest, label, median } = spread;
    format!("{label} peaks at {}, the median of the ranks is {}", Size(*highest), Size(*median))
}

impl Judge {
    /// Ranks that one side lacks: never a pass, whatever the limits.
    fn missing(&mut self, missing: &[&Missing]) {
        let Some(first) = missing.first() else { return };
        let side = first.side;
        let members: Vec<&Member> = missing.iter().map(|missing| &missing.member).collect();
        let verb = if members.len() == 1 { "is" } else { "are" };
        let reason = format!("{} {verb} missing in the {side}", numbers(&members));
        let check = Check::new(About::Ranks, "ranks".to_owned(), "both sides".to_owned(), Level::Fail);
        self.checks.push(Check { reason: Some(reason), ..check });
    }

    fn growth_of_imbalance(
        &mut self,
        mut check: Check,
        before: &Spread<'_>,
        after: &Spread<'_>,
        limit: &Limit,
        before_error: Option<u64>,
        after_error: Option<u64>,
    ) {
        let (old, new) = (before.imbalance(), after.imbalance());
        let delta = i128::from(new) - i128::from(old);
        (check.before, check.after, check.delta) = (Some(old), Some(new), Some(delta));
        check.allowed = Some(limit.allowed(old));
        check.outcome = if limit.holds(old, delta) { Outcome::Pass } else { Outcome::Exceeded };
        check.reason = (check.outcome == Outcome::Exceeded).then(|| explain(after));
        self.doubt(&mut check, Sides { before: before_error, after: after_error });
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
    use crate::verdict::{Growth, Verdict};

    fn peak(rank: u64, before: Option<u64>, after: Option<u64>) -> RankPeak {
        let member = Member { rank: Some(Rank { node: None, number: rank }), label: format!("rank {rank}") };
        rank_peak(&member, (before, Some(0)), (after, Some(0)))
    }

    fn judge(peaks: &[RankPeak], growth: &str, max: &str) -> (Judgement, Change) {
        let growth = Growth::parse(growth, Level::Fail).unwrap();
        let thresholds =
            Thresholds { growth: vec![growth], maximum: vec![max.parse().unwrap()], ..Thresholds::default() };
        judge_ranks(peaks.len(), peaks, &[], &Matched::default(), &thresholds)
    }

    #[test]
    fn the_median_is_that_of_statistics() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[1, 2, 9]), Some(2));
        assert_eq!(median(&[1, 2, 5, 9]), Some(3));
        assert_eq!(median(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    }

    #[test]
    fn imbalance_is_the_highest_peak_less_the_median() {
        let peaks: Vec<_> = [(0, 100, 100), (1, 100, 120), (2, 100, 110), (3, 130, 200)]
            .map(|(rank, before, after)| peak(rank, Some(before), Some(after)))
            .into();
        let (judgement, change) = judge(&peaks, "imbalance=55B", "imbalance=85B");
        assert_eq!((change.before, change.after), (Some(30), Some(85)));
        assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
        let (judgement, _) = judge(&peaks, "imbalance=54B", "imbalance=85B");
        assert_eq!(
            judgement.headline().to_string(),
            "FAIL imbalance grew 55 B (+183.3 %), allowed 54 B (rank 3 peaks at 200 B, the median of the ranks is 115 B)"
        );
        let (judgement, _) = judge(&peaks, "imbalance=55B", "imbalance=84B");
        assert_eq!(judgement.verdict, Verdict::Regression);
    }

    #[test]
    fn what_cannot_be_told_is_no_pass() {
        let one = [peak(0, Some(1), Some(1))];
        let (judgement, change) = judge(&one, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, change.after), (Verdict::Inconclusive, None));
        assert!(judgement.headline().sentence.contains("only one rank"), "{}", judgement.headline());
        let unknown = [peak(0, Some(1), Some(1)), peak(1, None, Some(1))];
        let (judgement, change) = judge(&unknown, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, change.before, change.after), (Verdict::Inconclusive, None, Some(0)));
        assert!(judgement.headline().sentence.contains("rank 1 has no peak in the before"), "{}", judgement.headline());
        let missing = Missing {
            member: Member { rank: None, label: "rank 2".to_owned() },
            side: Side::After,
            path: String::new(),
        };
        let two = [peak(0, Some(1), Some(1)), peak(1, Some(1), Some(1))];
        let (judgement, change) = judge_ranks(2, &two, &[missing], &Matched::default(), &Thresholds::default());
        assert_eq!((judgement.verdict, change.after), (Verdict::Inconclusive, None));
        assert_eq!(judgement.headline().to_string(), "INCONCLUSIVE ranks: rank 2 is missing in the after");
    }
}
