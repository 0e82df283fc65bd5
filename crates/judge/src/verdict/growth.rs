//! Limits on growth: a device of a comparison under one of them.

use ptmem_base::pattern::Pattern;
use ptmem_base::units::Size;
use ptmem_compare::budget::{Overhead, outside};
use ptmem_compare::diff::{DeviceDiff, Diff, Row, RowKind, Sides};
use ptmem_trace::profile::{Bucket, DeviceProfile, Metric, Moment};

use super::accepted::{Budget, CoverKey};
use super::history::no_history;
use super::judge::Judge;
use super::row_names::RowNames;
use super::{Check, GrowthLimit, LimitKind, NamedThing, Outcome, PassedBy, Target, Thresholds};

impl GrowthLimit {
    /// A check of the limit, without a result yet.
    pub(super) fn check(&self) -> Check {
        let mut check = Check::new(self.target.clone(), self.limit.to_string(), self.level);
        check.limit.is_two_sided = self.limit.is_two_sided();
        check
    }
}

/// A device of a comparison, which both sides have, under one limit on growth.
#[derive(Clone, Copy)]
pub(super) struct Gated<'a> {
    pub(super) diff: &'a Diff,
    pub(super) device: &'a DeviceDiff,
    pub(super) sides: Sides<&'a DeviceProfile>,
    pub(super) growth: &'a GrowthLimit,
    pub(super) thresholds: &'a Thresholds,
}

/// The advice for memory without a name.
pub(super) const HOW_TO_NAME: &str = "allocated before the recording: record from the start of the process, and start \
                                      again right before the steps, to see its stacks";

/// Why a peak is not known where memory ran out on both sides.
pub(super) const RAN_OUT: &str =
    "memory ran out on both sides: the peak is the limit of the device, not the need of the program";

/// Why a peak is not known where memory ran out.
pub(super) const RAN_OUT_OF_ONE: &str =
    "memory ran out: the peak is the limit of the device, not the need of the program";

/// The advice for pinned host memory that is not there.
const HOW_TO_PIN: &str = "if the program uses any, record it with record_pinned_host_memory=True, from PyTorch 2.14 on";

impl<'a> Gated<'a> {
    /// A check of the limit on the device, without a result yet.
    pub(super) fn check(&self) -> Check {
        Check { device: self.device.id(), ..self.growth.check() }
    }

    /// The same, inconclusive for a reason.
    pub(super) fn inconclusive(&self, reason: String) -> Check {
        Check { reason: Some(reason), ..self.check() }
    }

    /// The device under each limit of its kind and level.
    pub(super) fn of_kind(&self) -> impl Iterator<Item = Self> + use<'a> {
        let gated = *self;
        let Target { kind, of_host, .. } = gated.growth.target;
        let same_level = gated.thresholds.growth.iter().filter(move |other| other.level == gated.growth.level);
        let of_kind = same_level.filter(move |other| other.target.kind == kind && other.target.of_host == of_host);
        of_kind.map(move |growth| Self { growth, ..gated })
    }

    /// The patterns of all limits of its kind and level on the device.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &'a Pattern> + use<'a> {
        self.of_kind().filter_map(|other| other.growth.target.pattern.as_ref())
    }

    /// The key by which agreements about stacks cover them.
    pub(super) fn cover_key(&self) -> CoverKey {
        (self.device.id(), self.growth.target.kind, self.growth.level)
    }

    pub(super) fn budget(&self) -> Budget<'a> {
        let names = RowNames::of(self.growth.target.kind, self.diff);
        Budget::new(&self.thresholds.accepted, self.device, names, self.thresholds.today)
    }

    /// The errors of a figure, which cancel where the same blocks of both sides make them.
    pub(super) fn errors(&self, metric: Metric, of: impl Fn(&DeviceProfile) -> Option<u64>) -> Sides<Option<u64>> {
        if metric.has_same_bound(self.sides, &self.diff.profiles) {
            return Sides { before: Some(0), after: Some(0) };
        }
        self.sides.map(|device| of(device))
    }

    /// Accepts the growth of a figure beyond its limit as far as it was agreed to.
    pub(super) fn accept(&self, check: &mut Check, metric: Metric) {
        self.budget().accept_metric(check, metric, has_rows_at_peak(self.diff));
    }

    /// The check that represents all others if the recordings cannot show the limited figure, or no longer fail.
    fn obstacle(&self) -> Option<Check> {
        if let Some(reason) = self.no_history() {
            return Some(self.inconclusive(reason));
        }
        if let Some(check) = self.mended() {
            // It may run out of memory where the before did: in a part that it lacks.
            let partial = self.partial().filter(|partial| partial.lacks.after);
            return Some(partial.map_or(check, |partial| self.inconclusive(partial.reason)));
        }
        (self.ran_out() && self.growth.target.kind.is_at_peak()).then(|| self.inconclusive(RAN_OUT.to_owned()))
    }

    /// The reason why a side has no history, where the limit needs one.
    fn no_history(&self) -> Option<String> {
        let target = &self.growth.target;
        let profiles = &self.diff.profiles;
        let mut sides = self.sides.each().into_iter();
        let reason =
            sides.find_map(|(side, device)| no_history(profiles.of(side), device, side.name(), target.kind))?;
        Some(format!("{reason}; {} cannot be compared", target.name()))
    }

    /// Whether memory ran out on both sides, unless that is allowed.
    pub(super) fn ran_out(&self) -> bool {
        let Sides { before, after } = self.sides;
        before.ran_out_of_memory() && after.ran_out_of_memory() && !self.thresholds.allow_oom
    }

    /// The check that passes because the after no longer runs out of memory: the before needed more than its device has.
    fn mended(&self) -> Option<Check> {
        let is_mended = self.sides.before.ran_out_of_memory() && !self.sides.after.ran_out_of_memory();
        if !is_mended || self.thresholds.allow_oom {
            return None;
        }
        let mut words = "memory ran out in the before and no longer does".to_owned();
        if let LimitKind::Metric(metric) = self.growth.target.kind
            && let Some(bytes) = metric.value(self.sides.after)
        {
            words += &format!("; {} is now {}", metric.name(), Size(bytes));
        }
        Some(Check { excuse: Some(PassedBy::Mended), ..self.check().passed(words) })
    }

    /// That a peak grew by slack, where the program asked for no more.
    fn slack(&self, metric: Metric) -> Option<String> {
        let requested = self.device.metric(Metric::Requested).gained().filter(|_| metric == Metric::Peak)?;
        (requested <= 0)
            .then(|| "requested bytes did not grow: probably slack in the blocks of the allocator".to_owned())
    }

    /// How to see the stacks that grew, if at least half of a growth is older than the recording and has no stack. This
    /// needs corresponding moments: otherwise memory may be freed between them.
    fn hidden_growth(&self, metric: Metric, growth: i128) -> Option<String> {
        let hidden = match metric {
            Metric::Peak if self.device.places.as_ref().is_some_and(|places| places.reason.is_none()) => {
                let rows = self.device.rows.iter().filter(|row| row.is_older_than_recording());
                rows.map(Row::delta).sum()
            }
            Metric::Baseline => self.sides.map(|device| unnamed_baseline(device)).delta(),
            _ => 0,
        };
        (hidden > 0 && hidden.saturating_mul(2) >= growth)
            .then(|| format!("{} more was {HOW_TO_NAME}", Size(u64::try_from(hidden).unwrap_or(u64::MAX))))
    }
}

impl Target {
    /// The reason why it is not there: `without`, such as "the before has no", for pinned host memory; `of_device` for a
    /// device.
    pub(super) fn missing(&self, without: &str, of_device: &str) -> String {
        if self.of_host { format!("{without} pinned host memory: {HOW_TO_PIN}") } else { of_device.to_owned() }
    }

    /// The reason why nothing is there that it is about: `otherwise` for devices, unless pinned host memory was examined.
    pub(super) fn nothing(&self, without: &str, otherwise: &str, has_host: bool) -> String {
        if self.of_host || !has_host {
            return self.missing(without, otherwise);
        }
        let own = format!("; host:{} limits that", self.name());
        let own = if self.kind.is_of_host_too() { &*own } else { "" };
        format!("it is about devices, and only pinned host memory was examined{own}")
    }
}

/// The bytes that were held when the recording began and that have no stack.
fn unnamed_baseline(device: &DeviceProfile) -> u64 {
    let unnamed = device
        .stacks
        .iter()
        .filter(|total| matches!(total.bucket, Some(Bucket::BeforeRecording | Bucket::NotRecorded)));
    unnamed.fold(0, |sum: u64, total| sum.saturating_add(total.baseline.bytes))
}

/// The labels of all stacks of devices, those that changed most first.
pub(super) fn labels<'d>(devices: impl Iterator<Item = &'d DeviceDiff>) -> impl Iterator<Item = &'d str> {
    let rows = devices.flat_map(|device| &device.rows);
    rows.filter(|row| row.kind == RowKind::Stack).map(|row| &*row.label)
}

/// Whether the rows of a comparison add up to the change of the peak.
pub(super) fn has_rows_at_peak(diff: &Diff) -> bool {
    matches!(diff.profiles.after.options.at, Moment::Peak | Moment::Aligned)
}

impl Judge {
    /// Applies a limit on growth to a device.
    pub(super) fn growth(&mut self, diff: &Diff, device: &DeviceDiff, growth: &GrowthLimit, thresholds: &Thresholds) {
        let profiles = diff.sides_of(device);
        if let Some(side) = profiles.missing() {
            let check = Check { device: device.id(), ..growth.check() };
            let reason = format!("the device is missing in the {side}");
            return self.cannot_tell(check, growth.target.missing(&format!("the {side} has no"), &reason));
        }
        let Some(sides) = profiles.both() else { return };
        let gated = Gated { diff, device, sides, growth, thresholds };
        if let Some(check) = gated.obstacle() {
            self.checks.push(check);
            return;
        }
        match gated.partial() {
            Some(partial) => self.growth_of_rest(&gated, &partial),
            None => self.growth_of(&gated),
        }
    }

    /// Applies a limit to what is recorded.
    pub(super) fn growth_of(&mut self, gated: &Gated<'_>) {
        let kind = gated.growth.target.kind;
        match (kind, kind.thing()) {
            (LimitKind::Metric(metric), _) => self.growth_of_metric(gated, metric),
            (_, Some(NamedThing::Stack)) => self.growth_of_stacks(gated),
            (_, Some(NamedThing::Phase)) => self.growth_of_phases(gated),
            (_, Some(NamedThing::Module | NamedThing::Pool)) => self.growth_of_named(gated),
            // The only other kind of devices.
            (_, None) => self.growth_of_outside(gated),
        }
    }

    /// Memory in use outside of PyTorch's allocator: measured on a real card, estimated on a simulated one.
    fn growth_of_outside(&mut self, gated: &Gated<'_>) {
        let mut check = gated.check();
        let ids = gated.sides.map(|device| device.device);
        let runs = gated.diff.profiles.map(|profile| profile.run.as_ref());
        let outside = Sides { before: outside(runs.before, ids.before), after: outside(runs.after, ids.after) };
        let [before, after] = [outside.before, outside.after];
        if before == Overhead::Unknown || after == Overhead::Unknown {
            let reason = "a snapshot does not name its card; record with 'ptmem simulate' or ptmem_gate.record()";
            return self.cannot_tell(check, reason);
        }
        check.compare(outside.map(|outside| Some(outside.bytes())), &gated.growth.limit);
        let is_estimate = before.estimate().is_some() || after.estimate().is_some();
        check.reason = is_estimate.then(|| "an estimate: the card is simulated".to_owned());
        self.add(check);
    }

    /// A figure of a device.
    fn growth_of_metric(&mut self, gated: &Gated<'_>, metric: Metric) {
        let change = gated.device.metric(metric);
        let mut check = gated.check();
        let Some(delta) = check.compare(change, &gated.growth.limit) else {
            let reason = format!("{} is not known on both sides", check.of.name());
            return self.cannot_tell(check, reason);
        };
        let errors = gated.errors(metric, |device| metric.max_error(device));
        gated.accept(&mut check, metric);
        self.doubt(&mut check, errors);
        if gated.counts_beside_workspaces(metric) {
            match check.outcome {
                Outcome::Pass => check = self.beside_workspaces(gated, metric, check),
                Outcome::Exceeded => check.beside = self.also_beside_workspaces(gated, metric).map(Box::new),
                Outcome::Inconclusive => {}
            }
        }
        let is_explained = check.reason.is_none() && !check.figures.is_elsewhere;
        if check.outcome == Outcome::Exceeded && delta > 0 && is_explained {
            check.reason = gated.hidden_growth(metric, delta).or_else(|| gated.slack(metric));
        }
        self.add(check);
    }
}
