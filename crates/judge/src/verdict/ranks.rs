//! Checks of all ranks of a job together: no rank is missing, and their peaks are balanced.

use std::collections::BTreeSet;

use ptmem_base::units::Size;
use ptmem_compare::diff::{Change, Side, Sides};
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};

use super::judge::Judge;
use super::partial::missing_of;
use super::phases::near_phases;
use super::{
    Check, Comparison, GrowthLimit, Judgement, Level, LimitKind, Maximum, Member, MissingRank, Outcome, Reading,
    Thresholds, growth, maxima, numbers,
};

/// Why the imbalance is unknown.
pub(super) const ONE_RANK: &str = "there is only one rank; give a directory or a glob with a file for each";

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

/// The peaks of the devices of a rank that has no partner on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankPeaks(Vec<KnownPeak>);

impl RankPeaks {
    /// The peaks in a profile.
    pub fn of(profile: &Profile) -> Self {
        let peaks = profile.devices.iter().filter(|device| device.is_active_device()).map(Some).map(KnownPeak::of);
        Self(or_unknown(peaks.collect()))
    }
}

/// A rank among others.
pub(super) struct RankResult<'a> {
    label: &'a str,
    /// The peaks of its devices; a single unknown one where no device did anything.
    peaks: Vec<Sides<KnownPeak>>,
    /// Its own checks.
    checks: &'a [Check],
    /// The labels of its stacks.
    stacks: Vec<&'a str>,
    /// The names of its phases.
    phases: Vec<&'a str>,
}

impl<'a> RankResult<'a> {
    pub(super) fn compared(comparison: &'a Comparison) -> Self {
        let Comparison { member, diff, judgement, .. } = comparison;
        let peaks = diff.devices.iter().filter(|device| !device.is_host()).map(|device| {
            let mut known = diff.sides_of(device).map(|device| KnownPeak::of(*device));
            missing_of(device, LimitKind::Imbalance).for_each(|missing| known.of_mut(missing.side).is_cut = true);
            known
        });
        Self {
            label: member.as_ref().map_or("", |member| &member.label),
            peaks: or_unknown(peaks.collect()),
            checks: &judgement.checks,
            stacks: growth::labels(diff.devices.iter()).collect(),
            phases: diff.devices.iter().flat_map(|device| &device.phases).map(|row| &*row.name).collect(),
        }
    }

    pub(super) fn read(reading: &'a Reading) -> Self {
        let peaks = RankPeaks::of(&reading.profile).0.into_iter();
        Self {
            label: reading.member.as_ref().map_or("", |member| &member.label),
            peaks: peaks.map(|after| Sides { before: KnownPeak::default(), after }).collect(),
            checks: reading.judgement.as_ref().map_or(&[], |judgement| &judgement.checks),
            stacks: reading.profile.devices.iter().flat_map(maxima::labels).collect(),
            // There are no absolute limits on phases.
            phases: Vec::new(),
        }
    }
}

/// The peaks of devices; a single unknown one where no device did anything.
fn or_unknown<T: Default>(peaks: Vec<T>) -> Vec<T> {
    if peaks.is_empty() { vec![T::default()] } else { peaks }
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
        let spread = Sides::BOTH.map(|&side| RankSpread::of(ranks, &missing, side, thresholds.allow_partial));
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
        let judgement = judge.finish(std::iter::empty(), thresholds.strict, false);
        Self { name, paths, missing, imbalance, judgement }
    }
}

/// A peak and how far it may be from the truth, each `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct KnownPeak {
    peak: Option<u64>,
    error: Option<u64>,
    /// True if the recording lacks a part of the other side's.
    is_cut: bool,
}

impl KnownPeak {
    /// The peak of a device; one that is missing or has no history has none.
    fn of(device: Option<&DeviceProfile>) -> Self {
        match device.filter(|device| device.figures.history.has_peaks()) {
            Some(device) => {
                Self { peak: Metric::Peak.value(device), error: Metric::Peak.max_error(device), is_cut: false }
            }
            None => Self::default(),
        }
    }
}

/// The highest peak of one side, the rank that it is of, and the median.
struct RankSpread<'p> {
    highest: u64,
    label: &'p str,
    median: u64,
    /// The largest error of a peak, where all are known.
    error: Option<u64>,
}

impl<'p> RankSpread<'p> {
    /// The spread over all ranks of a side; one side lacks those that are `missing`. The error is the reason why the spread
    /// is not known.
    fn of(
        ranks: &'p [RankResult<'_>],
        missing: &'p [MissingRank],
        side: Side,
        allow_partial: bool,
    ) -> Result<Self, String> {
        if ranks.len() + missing.len() < 2 {
            return Err(ONE_RANK.to_owned());
        }
        if let Some(missing) = missing.iter().find(|missing| missing.side == side) {
            return Err(format!("{} is missing in the {side}", missing.member.label));
        }
        let mut peaks: Vec<(u64, &str)> = Vec::with_capacity(ranks.len());
        let mut error = Some(0);
        let paired =
            ranks.iter().map(|rank| (rank.label, rank.peaks.iter().map(|sides| *sides.of(side)).collect::<Vec<_>>()));
        let alone = missing.iter().map(|of| (&*of.member.label, of.peaks.0.clone()));
        for (label, devices) in paired.chain(alone) {
            if devices.iter().any(|known| known.is_cut) && !allow_partial {
                return Err(format!("the {side} of {label} lacks a part that the other side records"));
            }
            // The peak of a rank is that of its fullest device.
            let known: Option<Vec<u64>> = devices.iter().map(|known| known.peak).collect();
            let peak = known.and_then(|peaks| peaks.into_iter().max());
            peaks.push((peak.ok_or_else(|| format!("{label} has no peak in the {side}"))?, label));
            let errors = devices.iter().map(|known| known.error);
            error = errors.fold(error, |one, other| Some(one?.max(other?)));
        }
        // The first of those that are equally high names the highest.
        peaks.sort_by_key(|(peak, _)| *peak);
        let values: Vec<u64> = peaks.iter().map(|(peak, _)| *peak).collect();
        let highest = peaks.iter().find(|(peak, _)| Some(peak) == values.last());
        let (median, &(highest, label)) = median(&values).zip(highest).ok_or("there is no rank")?;
        Ok(Self { highest, label, median, error })
    }

    /// The distance of the highest peak from the median.
    fn imbalance(&self) -> u64 {
        self.highest - self.median
    }

    /// The largest error of that: it is a difference, and both of its figures may be off.
    fn error(&self) -> Option<u64> {
        Some(self.error?.saturating_mul(2))
    }

    /// The figures behind the imbalance, in words.
    fn explain(&self) -> String {
        let Self { highest, label, median, .. } = self;
        format!("{label} peaks at {}, the median of the ranks is {}", Size(*highest), Size(*median))
    }
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
                let phases: BTreeSet<&str> = ranks.iter().flat_map(|rank| &rank.phases).copied().collect();
                near_phases(pattern, phases.into_iter())
            } else {
                let stacks: BTreeSet<&str> = ranks.iter().flat_map(|rank| &rank.stacks).copied().collect();
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
        RankResult { label, peaks: vec![sides], checks: &[], stacks: Vec::new(), phases: Vec::new() }
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

    #[test]
    fn the_median_is_that_of_statistics() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[1, 2, 9]), Some(2));
        assert_eq!(median(&[1, 2, 5, 9]), Some(3));
        assert_eq!(median(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    }
}
