//! The change of the peak, and of figures beside it, in words.

use std::cmp::Reverse;
use std::fmt;

use ptmem_base::device::DeviceId;
use ptmem_base::sides::{Side, Sides};
use ptmem_base::text::shorten;
use ptmem_base::units::Delta;
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_trace::profile::{DeviceProfile, Metric, Profile};

use super::change::change;
use super::doubts::failure;
use super::growth::has_rows_at_peak;
use super::history::no_history;
use super::partial::Partial;
use super::{Bound, Check, LimitKind, Thresholds};

/// The change of the peak of the device that grew most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakChange {
    /// The device.
    pub device: Option<DeviceId>,
    /// The peak on both sides.
    pub peak: Sides<u64>,
    /// The row that grew most.
    pub most: Option<GrownMost>,
    /// How far the change is known where a side lacks a part; the error is the reason why its direction is not.
    bound: Result<Option<Bound>, String>,
}

impl PeakChange {
    /// The change in a comparison; `None` if no device has a known peak on both sides.
    pub(super) fn of(diff: &Diff, thresholds: &Thresholds) -> Option<Self> {
        let devices = diff.devices.iter().filter(|device| !device.is_host());
        let changes = devices.filter_map(|device| Self::of_device(diff, device, thresholds));
        // From the back: of equal ones `max_by_key` takes the last.
        changes.rev().max_by_key(Self::delta)
    }

    fn of_device(diff: &Diff, device: &DeviceDiff, thresholds: &Thresholds) -> Option<Self> {
        let sides = diff.sides_of(device).both()?;
        let peak = Sides::BOTH.map(|&side| known_peak(diff.profiles.of(side), sides.of(side), side)).both()?;
        let partial = partial(diff, device, sides, thresholds);
        let bound = partial.map(|partial| partial.bound_of_peak(peak.delta())).transpose();
        Some(Self { device: device.id(), peak, most: most(diff, device, peak.delta()), bound })
    }

    /// Bytes gained.
    pub(super) fn delta(&self) -> i128 {
        self.peak.delta()
    }
}

/// The row of a device that grew most at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrownMost {
    /// Its label.
    pub label: String,
    /// Bytes that it gained.
    pub gained: i128,
    /// Bytes that all others gained together.
    pub others: i128,
}

impl GrownMost {
    /// The same with a shorter label.
    pub(super) fn shortened(&self, width: usize) -> Self {
        Self { label: shorten(&self.label, width), ..self.clone() }
    }
}

impl fmt::Display for GrownMost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, gained, others } = self;
        write!(f, "most by {label} ({}{})", Delta(*gained), others_shrank(*gained, *others))
    }
}

/// The change of all other rows, to follow those that grew, where it makes the sum of these exceed that of all.
pub(super) fn others_shrank(gained: i128, others: i128) -> String {
    let is_more = others < 0 && Delta(gained).to_string() != Delta(gained + others).to_string();
    if is_more { format!(", others {}", Delta(others)) } else { String::new() }
}

/// The row that grew most at a peak that grew by this.
pub(super) fn most(diff: &Diff, device: &DeviceDiff, delta: i128) -> Option<GrownMost> {
    let rows = device.rows.iter().filter(|row| row.kind.is_memory());
    let most = rows.min_by_key(|row| Reverse(row.delta())).filter(|row| row.delta() > 0 && has_rows_at_peak(diff))?;
    Some(GrownMost { label: most.label.clone(), gained: most.delta(), others: delta - most.delta() })
}

/// Growth that a pass mentions, although no limit is about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// A figure without a limit grew.
    Figure(GrownFigure),
    /// The last snapshots of a series do not show whether something on a device leaks.
    Recent {
        /// The device.
        device: DeviceId,
        /// What leaks there, in words.
        explained: Option<&'static str>,
    },
}

impl Beside {
    /// What grew, with the device where there are several.
    pub(super) fn in_words(&self, many_devices: bool) -> String {
        match self {
            Self::Figure(figure) => figure.in_words(many_devices),
            Self::Recent { device, explained } => {
                let device = if many_devices { format!("{device}: ") } else { String::new() };
                let beside = explained.map(|explained| format!(" beside {explained}")).unwrap_or_default();
                format!("{device}recent growth{beside} cannot be judged yet")
            }
        }
    }
}

/// A figure without a limit that grew: the peak, or one that grew by more than the peak did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrownFigure {
    device: Option<DeviceId>,
    metric: Metric,
    sides: Sides<u64>,
    /// Bytes by which it certainly grew, more than the peak where it is another figure.
    surplus: i128,
}

/// A figure without a limit is mentioned if it grew by more than this percentage beyond the growth of the peak. Needed
/// for `after.pkl`.
const MOST_BESIDE: i128 = 5;

impl GrownFigure {
    /// The one of these that grew most in a comparison under these checks.
    pub(super) fn of(diff: &Diff, checks: &[Check], thresholds: &Thresholds) -> Option<Self> {
        let devices = diff.devices.iter().filter(|device| !device.is_host());
        let whole = devices.filter(|device| is_whole(diff, device, thresholds));
        let figures = whole.flat_map(|device| {
            let beside = [Metric::Peak, Metric::End, Metric::Baseline, Metric::Reserved, Metric::ReservedEnd];
            // Without any limit the verdict is about the peak itself.
            let beside = beside.into_iter().filter(|&metric| metric != Metric::Peak || !checks.is_empty());
            beside.map(|metric| Self::new(diff, device, metric))
        });
        let grown = figures.flatten().filter(|figure| figure.surplus >= i128::from(thresholds.min_delta.max(1)));
        let grown = grown.filter(|figure| figure.is_notable() && !figure.is_checked(checks)).collect::<Vec<_>>();
        // The first of equal ones, as above.
        grown.into_iter().rev().max_by_key(|figure| figure.surplus)
    }

    fn new(diff: &Diff, device: &DeviceDiff, metric: Metric) -> Option<Self> {
        let sides = device.metric(metric).both()?;
        let errors = diff.sides_of(device).both()?.map(|of| metric.max_error(of)).both()?;
        let of_peak = device.metric(Metric::Peak).gained().filter(|_| metric != Metric::Peak).unwrap_or(0).max(0);
        let surplus = sides.delta() - of_peak - i128::from(errors.before) - i128::from(errors.after);
        Some(Self { device: device.id(), metric, sides, surplus })
    }

    fn is_notable(&self) -> bool {
        self.surplus * 100 > i128::from(self.sides.before) * MOST_BESIDE
    }

    fn is_checked(&self, checks: &[Check]) -> bool {
        let mut relative = checks.iter().filter(|check| check.device == self.device && !check.limit.is_absolute);
        relative.any(|check| check.kind() == LimitKind::Metric(self.metric))
    }

    /// `end grew 32.01 MiB (+25.8 %)`, with the device where there are several.
    fn in_words(&self, many_devices: bool) -> String {
        let device = self.device.filter(|_| many_devices).map(|device| format!("{device}: ")).unwrap_or_default();
        format!("{device}{} {}", self.metric.name(), change(self.sides.delta(), Some(self.sides.before), None))
    }
}

/// The parts of a run that a side of a device lacks.
fn partial(diff: &Diff, device: &DeviceDiff, sides: Sides<&DeviceProfile>, thresholds: &Thresholds) -> Option<Partial> {
    let partial = Partial::new(device, sides, LimitKind::Metric(Metric::Peak)).filter(|_| !thresholds.allow_partial);
    let short = Sides::BOTH.map(|&side| why_short(diff.profiles.of(side), sides.of(side), side, thresholds));
    Partial::or_short(partial, short)
}

/// Whether both sides of a device have the whole of a run.
fn is_whole(diff: &Diff, device: &DeviceDiff, thresholds: &Thresholds) -> bool {
    let sides = diff.sides_of(device).both();
    sides.is_some_and(|sides| partial(diff, device, sides, thresholds).is_none())
}

/// The reason why a whole run may need more than a side holds.
fn why_short(profile: &Profile, device: &DeviceProfile, side: Side, thresholds: &Thresholds) -> Option<String> {
    let failed = failure(profile).map(|failure| format!("the {side} is not a whole run: {failure}"));
    let ran_out = device.ran_out_of_memory() && !thresholds.allow_oom;
    failed.or_else(|| ran_out.then(|| format!("memory ran out in the {side}")))
}

/// The peak of a side, where its recording tells it.
fn known_peak(profile: &Profile, device: &DeviceProfile, side: Side) -> Option<u64> {
    let is_known = no_history(profile, device, side.name(), LimitKind::Metric(Metric::Peak)).is_none()
        && Metric::Peak.max_error(device).is_some();
    Metric::Peak.value(device).filter(|_| is_known)
}

impl fmt::Display for PeakChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bound {
            Err(reason) => return write!(f, "peak cannot be compared: {reason}"),
            Ok(bound) => write!(f, "peak {}", change(self.delta(), Some(self.peak.before), *bound))?,
        }
        let most = self.most.as_ref().filter(|_| self.delta() > 0);
        most.map_or(Ok(()), |most| write!(f, ", {most}"))
    }
}
