//! The figures of a device that can be limited.

use std::collections::BTreeMap;

use ptmem_base::sides::Sides;

use super::{DeviceProfile, ErrorBound, Profile};
use crate::replay::Counter;
use crate::trace::Measure;

/// A figure of a device that can be limited. A new one is a variant and its row in `Metric::row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Metric {
    /// Peak of allocated bytes: `max_memory_allocated()`.
    Peak,
    /// Allocated bytes before the first event.
    Baseline,
    /// Allocated bytes at the dump.
    End,
    /// Peak of active bytes.
    Active,
    /// Peak of requested bytes.
    Requested,
    /// Peak of reserved bytes: `max_memory_reserved()`.
    Reserved,
    /// Reserved bytes at the dump.
    ReservedEnd,
    /// Reserved bytes that were not active at the reserved peak.
    Fragmentation,
}

/// The moment at which a metric reads its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The highest within the recording.
    Peak,
    /// When the recording began.
    Start,
    /// At the dump: read from the final state, without a history.
    End,
    /// What is not active of it at its peak.
    UnusedAtPeak,
}

ptmem_base::named!(Metric);

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Peak,
        Self::Baseline,
        Self::End,
        Self::Active,
        Self::Requested,
        Self::Reserved,
        Self::ReservedEnd,
        Self::Fragmentation,
    ];

    /// Its counter, its point, and one line that says what it counts.
    const fn row(self) -> (Measure, Point, &'static str) {
        use Measure::{Active, Allocated, Requested, Reserved};
        match self {
            Self::Peak => (Allocated, Point::Peak, "highest allocated bytes within the recording"),
            Self::Baseline => (Allocated, Point::Start, "allocated bytes when the recording began"),
            Self::End => (Allocated, Point::End, "allocated bytes at the dump"),
            Self::Active => (Active, Point::Peak, "highest active bytes within the recording"),
            Self::Requested => (Requested, Point::Peak, "highest requested bytes within the recording"),
            Self::Reserved => (Reserved, Point::Peak, "highest reserved bytes within the recording"),
            Self::ReservedEnd => (Reserved, Point::End, "reserved bytes at the dump"),
            Self::Fragmentation => (Reserved, Point::UnusedAtPeak, "reserved less active bytes at the reserved peak"),
        }
    }

    /// Its name as a key of JSON.
    pub fn key(self) -> String {
        self.name().replace('-', "_")
    }

    /// One line that says which bytes it counts.
    pub fn description(self) -> &'static str {
        self.row().2
    }

    /// The counter that it reads.
    pub fn measure(self) -> Measure {
        self.row().0
    }

    /// The moment at which it reads that.
    pub fn point(self) -> Point {
        self.row().1
    }

    /// Why it differs between runs of the same code, where that is its nature.
    pub fn noise(self) -> Option<&'static str> {
        (self.measure() == Measure::Reserved).then_some("follows addresses, and when other streams free")
    }

    /// The value on a device, in bytes; `None` where it cannot be known.
    pub fn value(self, device: &DeviceProfile) -> Option<u64> {
        let has_history = !self.needs_history() || device.figures.history.has_peaks();
        self.seen(device).filter(|_| has_history && !self.is_least(device))
    }

    /// The values on both sides. If everything known about both sides is equal, as for a recording and its copy, lower
    /// bounds are compared as values: the unrecorded part is assumed to be equal as well.
    pub fn values(self, sides: Sides<Option<&DeviceProfile>>) -> Sides<Option<u64>> {
        let repeats = sides.both().is_some_and(|both| self.is_least(both.before) && holds_the_same(both));
        sides.map(|device| device.and_then(|device| if repeats { self.seen(device) } else { self.value(device) }))
    }

    fn counter(self, device: &DeviceProfile) -> &Counter {
        device.figures.counter(self.measure())
    }

    /// The value, or a lower bound of it.
    fn seen(self, device: &DeviceProfile) -> Option<u64> {
        let counter = self.counter(device);
        match self.point() {
            Point::Peak => counter.peak,
            Point::Start => counter.baseline,
            Point::End => counter.end,
            Point::UnusedAtPeak => device.figures.fragmentation.peak,
        }
    }

    /// A lower bound of the value: without a history, a peak is at least the state at the dump.
    pub fn at_least(self, device: &DeviceProfile) -> Option<u64> {
        if device.figures.history.has_peaks() {
            return self.seen(device);
        }
        match self.point() {
            Point::Peak | Point::End => self.counter(device).end,
            Point::Start | Point::UnusedAtPeak => None,
        }
    }

    /// True if only a lower bound is known.
    fn is_least(self, device: &DeviceProfile) -> bool {
        self.needs_history() && self.counter(device).is_least
    }

    /// How far the value may be from the truth; 0 where it is exact, `None` where that is unknown.
    pub fn max_error(self, device: &DeviceProfile) -> Option<u64> {
        let counter = self.counter(device);
        match self.point() {
            Point::Peak => counter.peak_error,
            Point::Start => counter.baseline_error,
            Point::End => Some(0),
            Point::UnusedAtPeak => {
                let active = device.figures.active.max_error()?.max(device.figures.fragmentation.peak_error);
                counter.peak_error?.checked_add(active)
            }
        }
    }

    /// True if the figure needs a recorded history, rather than the state at the dump alone.
    pub fn needs_history(self) -> bool {
        self.point() != Point::End
    }

    /// True if a part of a history gives a lower bound.
    pub fn is_least_where_cut(self) -> bool {
        self.point() == Point::Peak
    }

    /// True if reports list it even where nothing limits it and it did not change.
    pub fn is_main(self) -> bool {
        matches!(self, Self::Peak | Self::Reserved)
    }

    /// True if it is taken at a peak, which is the limit of the device where memory ran out.
    pub fn is_peak(self) -> bool {
        matches!(self.point(), Point::Peak | Point::UnusedAtPeak)
    }

    /// True if the same blocks make the figures of both sides inexact, so that their bounds cancel in the difference.
    pub fn has_same_bound(self, sides: Sides<&DeviceProfile>, profiles: &Sides<Profile>) -> bool {
        let errors = sides.map(|device| self.max_error(device));
        let is_equal = errors.before.is_some() && errors.before == errors.after;
        if !is_equal || errors.before == Some(0) {
            return is_equal;
        }
        ErrorBound::is_shared(Sides::BOTH.map(|&side| self.bound(sides.of(side), &profiles.of(side).code())))
    }
}

/// True if all figures of both sides are the same, and so are all stacks.
fn holds_the_same(sides: Sides<&DeviceProfile>) -> bool {
    let stacks = sides.map(|device| {
        let held =
            device.stacks.iter().map(|total| (&total.key.0, [total.baseline, total.peak, total.end], total.highest));
        held.map(|(key, held, highest)| (key, (held, highest.map(|highest| highest.bytes)))).collect::<BTreeMap<_, _>>()
    });
    sides.before.figures == sides.after.figures && stacks.before == stacks.after
}
