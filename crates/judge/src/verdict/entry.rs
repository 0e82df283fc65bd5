//! The ways in: the verdict on a comparison, and on one snapshot.

use ptmem_compare::diff::{DeviceDiff, Diff, Sides};
use ptmem_trace::profile::{Metric, Profile};

use super::doubts::{self, JudgedInput};
use super::judge::Judge;
use super::rank_peaks::ONE_RANK;
use super::{
    Beside, Check, Excuse, GrownFigure, GrownMost, GrowthLimit, Judgement, Level, LimitKind, Maximum, NoBefore,
    Outcome, PeakChange, Thresholds, cause, peak,
};

/// Judges a comparison.
pub fn judge_diff(diff: &Diff, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    judge.out_of_memory_of_diff(diff, thresholds);
    judge.imbalance_of_one(thresholds);
    judge.growth_of_serving(diff, thresholds);
    for growth in thresholds.growth.iter().filter(|growth| growth.target.kind.is_of_devices()) {
        let devices = growth.target.devices_of(diff);
        let mut devices = devices.filter(|device| concern(thresholds, diff, device)).peekable();
        if devices.peek().is_none() {
            let has_host = diff.devices.iter().any(DeviceDiff::is_host);
            let reason = growth.target.nothing("neither side has", "neither side holds any memory", has_host);
            judge.cannot_tell(growth.check(), reason);
        }
        for device in devices {
            judge.growth(diff, device, growth, thresholds);
        }
        if !diff.profiles.each().into_iter().any(|(_, profile)| profile.is_numbers()) {
            judge.unmatched_pattern(diff, growth, thresholds);
            judge.unmatched_phase(diff, growth, thresholds);
            judge.unmatched_name(diff, growth, thresholds);
        }
    }
    let after = &diff.profiles.after;
    let all = diff.devices.iter().filter(|device| concern(thresholds, diff, device));
    let devices = all.clone().filter_map(|device| Some(&after.devices[device.index.after?]));
    let missing = all.filter(|device| device.index.after.is_none()).map(DeviceDiff::id);
    judge.maxima(after, &devices.collect::<Vec<_>>(), &missing.collect::<Vec<_>>(), thresholds);
    let input = JudgedInput::Comparison(diff);
    doubts::apply_all(input, thresholds, &mut judge.checks);
    let many = diff.devices.iter().filter(|device| !device.is_host()).count() > 1;
    let judgement = judge.finish(input.diagnostics(), thresholds.strict, many);
    let peak = PeakChange::of(diff, thresholds).filter(|_| judgement.checks.is_empty());
    let beside = GrownFigure::of(diff, &judgement.checks, thresholds).map(Beside::Figure);
    let unlike = unlike(diff, many);
    let most = judgement.decisive().and_then(|check| most_of_failed(diff, check));
    cause::complete(Judgement { peak, beside, unlike, most, ..judgement }, diff)
}

/// Whether a device of a comparison is judged: not one on which requests of the before failed, and which held nothing.
fn concern(thresholds: &Thresholds, diff: &Diff, device: &DeviceDiff) -> bool {
    let Sides { before, after } = diff.sides_of(device);
    let is_unused = after.is_none_or(|after| !after.held_memory() && !after.ran_out_of_memory());
    let is_given_up = is_unused && before.is_some_and(|before| !before.held_memory());
    (device.is_host() || !is_given_up) && before.into_iter().chain(after).any(|device| thresholds.concern(device))
}

/// The row that grew most where a check fails by the peak of its device at the place that is compared.
fn most_of_failed(diff: &Diff, check: &Check) -> Option<GrownMost> {
    let is_of_peak =
        check.kind() == LimitKind::Metric(Metric::Peak) && check.fails_by_change() && check.reason.is_none();
    let has_grown = is_of_peak && !check.is_improvement() && !check.figures.is_elsewhere;
    let device = diff.devices.iter().find(|device| has_grown && device.id() == check.device)?;
    // Where the peak grew by more than what is beside workspaces, these may have grown most.
    let gained = device.metric(Metric::Peak).gained().filter(|gained| check.figures.delta >= Some(*gained))?;
    peak::most(diff, device, gained)
}

/// How little of the before the first device of the after has on which that is little; otherwise how a device was recorded otherwise.
fn unlike(diff: &Diff, many_devices: bool) -> Option<String> {
    let mut devices = diff.devices.iter();
    let little = devices.clone().find_map(|device| Some((device, device.little_overlap()?.to_string())));
    let (device, words) =
        little.or_else(|| devices.find_map(|device| Some((device, diff.recorded_otherwise(device)?))))?;
    let name = device.id().filter(|_| many_devices).map(|device| format!("{device}: ")).unwrap_or_default();
    Some(format!("{name}{words}"))
}

/// Judges one snapshot by absolute limits.
pub fn judge_profile(profile: &Profile, thresholds: &Thresholds) -> Judgement {
    let mut judge = Judge::default();
    let devices: Vec<_> = profile.gated_devices().filter(|device| thresholds.concern(device)).collect();
    let many = devices.len() > 1;
    let active: Vec<_> = devices.into_iter().chain(profile.host()).collect();
    for device in &active {
        judge.out_of_memory(device, thresholds);
    }
    judge.imbalance_of_one(thresholds);
    judge.maxima(profile, &active, &[], thresholds);
    judge.growth_without_before(thresholds);
    doubts::apply_all(JudgedInput::Snapshot(profile), thresholds, &mut judge.checks);
    judge.finish(profile.diagnostics.iter(), thresholds.strict, many)
}

impl Judge {
    /// Growth that should be gated, and has nothing to be compared with. A broken base excuses it only where an absolute limit
    /// was decided.
    fn growth_without_before(&mut self, thresholds: &Thresholds) {
        let Some(NoBefore { reason, excuse }) = &thresholds.no_before else { return };
        let check = Check::new(LimitKind::Growth, "a before".to_owned(), Level::Fail);
        let is_limited =
            self.checks.iter().any(|check| check.limit.is_absolute && check.outcome != Outcome::Inconclusive);
        let why = match excuse {
            Some(Excuse::First) => Ok(format!("nothing to compare with yet: {reason}")),
            Some(Excuse::BrokenBase) if thresholds.strict => {
                Err(format!("not judged, and limits are strict: {reason}"))
            }
            Some(Excuse::BrokenBase) if !is_limited => {
                Err(format!("not judged, and no absolute limit is set: {reason}"))
            }
            Some(Excuse::BrokenBase) => Ok(format!("growth is not judged, because the base is broken: {reason}")),
            None => Err(format!("not judged: {reason}")),
        };
        let check = match why {
            Ok(words) => check.passed(words),
            Err(reason) => Check { reason: Some(reason), ..check },
        };
        // Before limits that pass, of which the first leads the report.
        self.checks.insert(0, check);
    }

    /// One snapshot has nothing to be out of balance with.
    fn imbalance_of_one(&mut self, thresholds: &Thresholds) {
        if thresholds.one_of_ranks {
            return;
        }
        let all = thresholds.growth.iter().map(GrowthLimit::check).chain(thresholds.maximum.iter().map(Maximum::check));
        all.filter(|check| check.kind() == LimitKind::Imbalance).for_each(|check| self.cannot_tell(check, ONE_RANK));
    }
}
