//! Checks of all ranks of a job together: no rank is missing, and their peaks are balanced.

use std::collections::BTreeSet;
use std::slice;

use ptmem_compare::diff::{Change, DeviceDiff, Diff, Side, Sides};

use super::doubts::{self, JudgedInput};
use super::judge::Judge;
use super::partial::Partial;
use super::phases::near_phases;
use super::rank_peaks::{KnownPeak, RankPeaks, RankSpread, or_unknown};
use super::{
    Check, GrowthLimit, Judged, Judgement, Level, LimitKind, Maximum, Member, MissingRank, Outcome, Thresholds, growth,
    maxima, numbers,
};

/// The ranks of a job.
#[derive(Debug)]
pub struct Ranks {
    /// Name of the comparison, if there are several.
    pub name: Option<String>,
    /// The directory or glob of each side; no before where nothing was compared.
    pub paths: Sides<Option<String>>,
    /// Ranks that only one side has.
    pub missing: Vec<MissingRank>,
    /// The distance of the highest peak from the median.
    pub imbalance: Change,
    /// Verdict on limits for all ranks together.
    pub judgement: Judgement,
}

/// A rank among others.
pub(super) struct RankResult<'a> {
    label: &'a str,
    /// Its recordings.
    input: JudgedInput<'a>,
    /// The peaks of its devices; a single unknown one where no device did anything.
    peaks: Vec<Sides<KnownPeak>>,
    /// Its own checks.
    checks: &'a [Check],
}

impl<'a> RankResult<'a> {
    pub(super) fn new(of: &'a impl Judged, input: JudgedInput<'a>) -> Self {
        let label = of.member().map_or("", |member| &member.label);
        let checks = of.judgement().map_or(&[][..], |judgement| &judgement.checks);
        Self { label, input, peaks: peaks(input), checks }
    }

    fn peaks_of(&self, side: Side) -> Vec<KnownPeak> {
        self.peaks.iter().map(|sides| *sides.of(side)).collect()
    }

    /// The labels of its stacks.
    fn stacks(&self) -> Vec<&'a str> {
        match self.input {
            JudgedInput::Comparison(diff) => growth::labels(diff.devices.iter()).collect(),
            JudgedInput::Snapshot(profile) => profile.devices.iter().flat_map(maxima::labels).collect(),
        }
    }

    /// The names of its phases. There are no absolute limits on phases.
    fn phases(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let devices = self.input.diff().into_iter().flat_map(|diff| &diff.devices);
        devices.flat_map(|device| &device.phases).map(|row| &*row.name)
    }
}

/// The peaks of the devices of recordings.
fn peaks(input: JudgedInput<'_>) -> Vec<Sides<KnownPeak>> {
    match input {
        JudgedInput::Comparison(diff) => {
            let devices = diff.devices.iter().filter(|device| !device.is_host());
            or_unknown(devices.map(|device| peaks_on(diff, device)).collect())
        }
        JudgedInput::Snapshot(profile) => {
            let peaks = RankPeaks::of(profile).0.into_iter();
            peaks.map(|after| Sides { before: KnownPeak::default(), after }).collect()
        }
    }
}

fn peaks_on(diff: &Diff, device: &DeviceDiff) -> Sides<KnownPeak> {
    let sides = diff.sides_of(device);
    let lacks = sides.both().and_then(|of| Partial::new(device, of, LimitKind::Imbalance)).map(|partial| partial.lacks);
    Sides::BOTH.map(|&side| {
        let is_cut = lacks.is_some_and(|lacks| *lacks.of(side));
        KnownPeak { is_cut, ..KnownPeak::of(diff.profiles.of(side), *sides.of(side)) }
    })
}

impl Ranks {
    /// Judges the ranks of a job together, of which each was judged by the same limits. A pattern that matches nothing of
    /// any rank checks nothing.
    pub(super) fn judged(
        name: Option<String>,
        paths: Sides<Option<String>>,
        missing: Vec<MissingRank>,
        ranks: &[RankResult<'_>],
        thresholds: &Thresholds,
    ) -> Self {
        let mut judge = Judge::default();
        for side in Side::BOTH {
            judge.missing(side, &missing);
        }
        let spread = Sides::BOTH.map(|&side| {
            let paired: Vec<_> = ranks.iter().map(|rank| (rank.label, rank.peaks_of(side))).collect();
            RankSpread::of(&paired, &missing, side, thresholds.allow_partial)
        });
        for growth in &thresholds.growth {
            if growth.target.kind == LimitKind::Imbalance {
                judge.growth_of_imbalance(growth, &spread);
            } else {
                judge.unmatched_on_all_ranks(growth.check(), ranks);
            }
        }
        for maximum in &thresholds.maximum {
            if maximum.target.kind == LimitKind::Imbalance {
                judge.maximum_of_imbalance(maximum, &spread.after);
            } else {
                judge.unmatched_on_all_ranks(maximum.check(), ranks);
            }
        }
        let imbalance = spread.map(|spread| spread.as_ref().ok().map(RankSpread::imbalance));
        let of_ranks = judge.checks.iter_mut().filter(|check| check.kind().is_of_ranks());
        let decided = of_ranks.filter(|check| check.outcome != Outcome::Inconclusive);
        decided.for_each(|check| doubt_by_ranks(check, ranks, thresholds));
        let known = ranks.iter().flat_map(|rank| rank.input.diagnostics());
        let judgement = judge.finish(known, thresholds.strict, false);
        Self { name, paths, missing, imbalance, judgement }
    }
}

/// Makes a check of all ranks inconclusive by the first rank whose recordings are doubtful.
fn doubt_by_ranks(check: &mut Check, ranks: &[RankResult<'_>], thresholds: &Thresholds) {
    for rank in ranks {
        let mut doubted = check.clone();
        doubts::apply_all(rank.input, thresholds, slice::from_mut(&mut doubted));
        if doubted.outcome == Outcome::Inconclusive {
            let reason = doubted.reason.map(|reason| format!("{}: {reason}", rank.label));
            *check = Check { reason, ..doubted };
            return;
        }
    }
}

impl Judge {
    /// Adds a check where one side lacks ranks: that never passes, whatever the limits.
    fn missing(&mut self, side: Side, missing: &[MissingRank]) {
        let of_side = missing.iter().filter(|missing| missing.side == side);
        let members: Vec<&Member> = of_side.map(|missing| &missing.member).collect();
        if members.is_empty() {
            return;
        }
        let verb = if members.len() == 1 { "is" } else { "are" };
        let reason = format!("{} {verb} missing in the {side}", numbers(&members));
        let check = Check::new(LimitKind::Ranks, "both sides".to_owned(), Level::Fail);
        self.checks.push(Check { reason: Some(reason), ..check });
    }

    /// A limit whose pattern matches nothing of any rank is inconclusive: none of them checked it.
    fn unmatched_on_all_ranks(&mut self, check: Check, ranks: &[RankResult<'_>]) {
        let mut checks = ranks.iter().flat_map(|rank| rank.checks);
        let is_checked = checks.any(|other| other.of == check.of && other.limit.is_absolute == check.limit.is_absolute);
        if let Some(pattern) = check.of.pattern.as_ref().filter(|_| !is_checked) {
            let noun = check.kind().noun();
            let near = if check.is_of_phases() {
                let phases: BTreeSet<&str> = ranks.iter().flat_map(RankResult::phases).collect();
                near_phases(pattern, phases.into_iter())
            } else {
                let stacks: BTreeSet<&str> = ranks.iter().flat_map(RankResult::stacks).collect();
                pattern.unmatched(noun, stacks.into_iter().filter(|_| noun == "stack"))
            };
            self.cannot_tell(check, format!("the pattern matches no {noun} of any rank{near}"));
        }
    }

    fn growth_of_imbalance(&mut self, growth: &GrowthLimit, spread: &Sides<Result<RankSpread<'_>, String>>) {
        let mut check = growth.check();
        match (&spread.before, &spread.after) {
            (Ok(before), Ok(after)) => {
                let sides = Sides { before, after };
                check.compare(sides.map(|spread| Some(spread.imbalance())), &growth.limit);
                check.reason = (check.outcome == Outcome::Exceeded).then(|| after.explain());
                self.doubt(&mut check, sides.map(|spread| spread.error()));
            }
            (Err(why), _) | (_, Err(why)) => check.reason = Some(why.clone()),
        }
        self.checks.push(check);
    }

    fn maximum_of_imbalance(&mut self, maximum: &Maximum, spread: &Result<RankSpread<'_>, String>) {
        let mut check = maximum.check();
        match spread {
            Ok(spread) => {
                check.figures.after = Some(spread.imbalance());
                let holds = spread.imbalance() <= maximum.limit;
                check.outcome = if holds { Outcome::Pass } else { Outcome::Exceeded };
                check.reason = (!holds).then(|| spread.explain());
                self.doubt(&mut check, Sides { before: Some(0), after: spread.error() });
            }
            Err(why) => check.reason = Some(why.clone()),
        }
        self.checks.push(check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    fn peak(label: &str, before: Option<u64>, after: Option<u64>) -> RankResult<'_> {
        let sides = Sides { before, after }.map(|peak| KnownPeak { peak: *peak, error: Some(0), is_cut: false });
        let input = JudgedInput::Snapshot(Box::leak(Box::default()));
        RankResult { label, input, peaks: vec![sides], checks: &[] }
    }

    fn judged(ranks: &[RankResult<'_>], missing: Vec<MissingRank>, thresholds: &Thresholds) -> Ranks {
        Ranks::judged(None, Sides::default(), missing, ranks, thresholds)
    }

    fn judge(ranks: &[RankResult<'_>], growth: &str, max: &str) -> Ranks {
        let growth = GrowthLimit::parse(growth, Level::Fail).unwrap();
        let thresholds =
            Thresholds { growth: vec![growth], maximum: vec![max.parse().unwrap()], ..Thresholds::default() };
        judged(ranks, Vec::new(), &thresholds)
    }

    #[test]
    fn imbalance_is_the_highest_peak_less_the_median() {
        let peaks: Vec<_> = [("rank 0", 100, 100), ("rank 1", 100, 120), ("rank 2", 100, 110), ("rank 3", 130, 200)]
            .map(|(rank, before, after)| peak(rank, Some(before), Some(after)))
            .into();
        let Ranks { judgement, imbalance, .. } = judge(&peaks, "imbalance=55B", "imbalance=85B");
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
    fn a_rank_on_two_devices_counts_once() {
        let two = |label| {
            let mut rank = peak(label, Some(90), Some(90));
            rank.peaks.extend(peak(label, Some(12), Some(12)).peaks);
            rank
        };
        let ranks = [peak("rank 0", Some(90), Some(90)), two("rank 1"), two("rank 2")];
        let imbalance = judge(&ranks, "imbalance=0", "imbalance=0").imbalance;
        assert_eq!((imbalance.before, imbalance.after), (Some(0), Some(0)));
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
        let Ranks { judgement, imbalance, .. } = judge(&one, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert!(judgement.headline().sentence.contains("only one rank"), "{}", judgement.headline());
        let unknown = [peak("rank 0", Some(1), Some(1)), peak("rank 1", None, Some(1))];
        let Ranks { judgement, imbalance, .. } = judge(&unknown, "imbalance=0", "imbalance=1GiB");
        assert_eq!((judgement.verdict, imbalance.before, imbalance.after), (Verdict::Inconclusive, None, Some(0)));
        assert!(judgement.headline().sentence.contains("rank 1 has no peak in the before"), "{}", judgement.headline());
        let missing = MissingRank {
            member: Member { rank: None, label: "rank 2".to_owned() },
            side: Side::After,
            path: String::new(),
            peaks: RankPeaks::default(),
        };
        let two = [peak("rank 0", Some(1), Some(1)), peak("rank 1", Some(1), Some(1))];
        let Ranks { judgement, imbalance, .. } = judged(&two, vec![missing], &Thresholds::default());
        assert_eq!((judgement.verdict, imbalance.after), (Verdict::Inconclusive, None));
        assert_eq!(judgement.headline().to_string(), "INCONCLUSIVE rank 2 is missing in the after");
    }
}
