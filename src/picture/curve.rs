//! The curves of a device, with what is worth a mark on them.

use super::Pictured;
use super::area::{self, Area};
use crate::align::Correspondence;
use crate::profile::{DeviceProfile, Occurrence, Point};
use crate::replay::{History, Position};
use crate::sides::Side;

/// Phases of one device that are drawn: the longest ones.
const MOST_BANDS: usize = 80;

/// Failed allocations of one device that are drawn.
const MOST_FAILURES: usize = 50;

/// Moments at which the memory of each category is computed.
const AREA_SAMPLES: usize = 240;

/// The curves of one side.
#[derive(Debug)]
pub(crate) struct Curve {
    /// Its side; `None` where there is only one.
    pub(crate) side: Option<Side>,
    /// The counters over the recording, in order.
    pub(crate) points: Vec<SpotValue>,
    /// Whether the points are the highest values in equal parts of the recording, all that a saved profile has.
    pub(crate) is_coarse: bool,
    /// Bytes allocated at the start.
    pub(crate) baseline: Option<u64>,
    /// The peaks and the failed allocations.
    pub(crate) events: Vec<Event>,
    /// Named parts of the history.
    pub(crate) bands: Vec<Band>,
    /// The allocated memory by what it is for, the lowest of the stack first.
    pub(crate) areas: Vec<Area>,
    /// The points of which [`Area::bytes`] has the values.
    pub(crate) area_points: Vec<usize>,
}

impl Curve {
    /// Whether the reserved bytes are known at any point.
    pub(crate) fn has_reserved(&self) -> bool {
        self.points.iter().any(|point| point.reserved.is_some())
    }
}

/// A moment of a recording on the three scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Events before it.
    pub(crate) event: u64,
    /// Microseconds since the first event of any device.
    pub(crate) time_us: Option<u64>,
    /// Allocations of the program before it, of the after where two are aligned.
    pub(crate) program: Option<i64>,
}

/// The counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpotValue {
    /// The moment.
    pub(crate) spot: Spot,
    /// Allocated bytes.
    pub(crate) allocated: u64,
    /// Reserved bytes, where they are known.
    pub(crate) reserved: Option<u64>,
}

/// A moment that has a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// The moment.
    pub(crate) spot: Spot,
    /// The reason for the mark.
    pub(crate) kind: EventKind,
    /// The value of the curve there.
    pub(crate) bytes: u64,
}

/// Reasons for a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The peak of allocated memory.
    AllocatedPeak,
    /// The peak of reserved memory.
    ReservedPeak,
    /// A failed allocation.
    OutOfMemory {
        /// Bytes that were asked for.
        requested: u64,
    },
}

/// A named part of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Band {
    /// Its name, with the number of the occurrence.
    pub(crate) name: String,
    /// Number of phases around it.
    pub(crate) depth: u32,
    /// Its start.
    pub(crate) from: Spot,
    /// Its end.
    pub(crate) to: Spot,
    /// The highest allocated bytes within it.
    pub(crate) peak: u64,
}

/// Turns moments of one side into spots.
struct Scale<'p> {
    side: Side,
    device: &'p DeviceProfile,
    correspondence: Option<&'p Correspondence>,
    /// Whether the places of this side are those of the scale.
    is_own: bool,
}

impl Scale<'_> {
    fn spot(&self, at: Position) -> Spot {
        Spot { event: at.count() as u64, time_us: self.time(at), program: self.program(at) }
    }

    /// The moment after a number of events.
    fn spot_of_event(&self, events: u64) -> Spot {
        self.spot(Position::of_count(usize::try_from(events).unwrap_or(usize::MAX)))
    }

    /// The time of the nearest point of the curve, which is that of the moment for all moments that matter. A coarse
    /// curve takes all events for equally long.
    fn time(&self, at: Position) -> Option<u64> {
        let Some(lifetimes) = &self.device.lifetimes else {
            return Some(part_of(at.count() as u64, self.device.events, self.device.duration_us?));
        };
        let points = &lifetimes.points;
        let next = points.partition_point(|point| point.at < at).min(points.len().checked_sub(1)?);
        points[next].time_us
    }

    fn program(&self, at: Position) -> Option<i64> {
        let place = self.device.lifetimes.as_ref()?.place(at);
        match (self.correspondence, self.side) {
            (Some(correspondence), Side::Before) => Some(correspondence.after_of(place)),
            (Some(_), Side::After) => i64::try_from(place).ok(),
            (None, _) => i64::try_from(place).ok().filter(|_| self.is_own),
        }
    }
}

/// The curve of a side, where it is more than a point.
pub(super) fn curve(pictured: &Pictured<'_>, side: Side, correspondence: Option<&Correspondence>) -> Option<Curve> {
    let device = (*pictured.devices.of(side))?;
    let profile = (*pictured.profiles.of(side))?;
    let is_compared = pictured.rows.is_some();
    let scale = Scale { side, device, correspondence, is_own: !is_compared };
    let points = match &device.lifetimes {
        Some(lifetimes) => lifetimes.points.iter().map(|point| value(&scale, point)).collect(),
        None => coarse_points(device),
    };
    if points.len() < 2 || device.figures.history != History::Recorded {
        return None;
    }
    let allocated: Vec<u64> = points.iter().map(|point: &SpotValue| point.allocated).collect();
    let area_points = highest_in_parts(&allocated, AREA_SAMPLES);
    Some(Curve {
        side: is_compared.then_some(side),
        is_coarse: device.lifetimes.is_none(),
        baseline: device.figures.allocated.baseline,
        events: events(&scale),
        bands: bands(&scale),
        areas: area::areas(profile, device, &area_points),
        area_points,
        points,
    })
}

fn value(scale: &Scale<'_>, point: &Point) -> SpotValue {
    let spot = Spot { event: point.at.count() as u64, time_us: point.time_us, program: scale.program(point.at) };
    SpotValue { spot, allocated: point.allocated, reserved: point.reserved }
}

/// The same part of another whole.
fn part_of(part: u64, whole: u64, other: u64) -> u64 {
    let scaled = (u128::from(part.min(whole)) * u128::from(other)).checked_div(whole.into());
    scaled.and_then(|part| u64::try_from(part).ok()).unwrap_or(0)
}

/// The highest values in equal parts of the recording, each drawn where its part ends.
fn coarse_points(device: &DeviceProfile) -> Vec<SpotValue> {
    let timeline = &device.figures.timeline;
    let count = timeline.allocated.len() as u64;
    let mut points = Vec::with_capacity(timeline.allocated.len());
    for (index, &allocated) in timeline.allocated.iter().enumerate() {
        let part = index as u64 + 1;
        let spot = Spot {
            event: part_of(part, count, device.events),
            time_us: device.duration_us.map(|duration| part_of(part, count, duration)),
            program: None,
        };
        points.push(SpotValue { spot, allocated, reserved: timeline.reserved.get(index).copied() });
    }
    points
}

/// The point with the most allocated bytes of each of several equal parts of a curve, and its first and last point.
pub(super) fn highest_in_parts(allocated: &[u64], parts: usize) -> Vec<usize> {
    let parts = parts.min(allocated.len());
    let mut places = vec![0, allocated.len().saturating_sub(1)];
    for part in 0..parts {
        let range = part * allocated.len() / parts..(part + 1) * allocated.len() / parts;
        places.extend(range.rev().max_by_key(|&place| allocated[place]));
    }
    places.sort_unstable();
    places.dedup();
    places
}

fn events(scale: &Scale<'_>) -> Vec<Event> {
    let figures = &scale.device.figures;
    let counters =
        [(EventKind::AllocatedPeak, &figures.allocated), (EventKind::ReservedPeak, &figures.reserved)].into_iter();
    let peaks = counters.filter_map(|(kind, counter)| {
        counter.peak_error?;
        Some(Event { spot: scale.spot(counter.peak_at?), kind, bytes: counter.peak? })
    });
    let failures = figures.ooms.iter().take(MOST_FAILURES).map(|oom| Event {
        spot: scale.spot(Position::after(oom.event as usize)),
        kind: EventKind::OutOfMemory { requested: oom.requested },
        bytes: oom.allocated.unwrap_or(0),
    });
    peaks.chain(failures).collect()
}

/// The longest phases, in their order.
fn bands(scale: &Scale<'_>) -> Vec<Band> {
    let mut longest: Vec<(usize, &Occurrence)> = scale.device.phases.all.iter().enumerate().collect();
    longest.sort_by_key(|(_, phase)| std::cmp::Reverse(phase.to - phase.from));
    longest.truncate(MOST_BANDS);
    longest.sort_by_key(|(place, _)| *place);
    let bands = longest.into_iter().map(|(_, phase)| Band {
        name: format!("{} #{}", phase.name, phase.number + 1),
        depth: phase.depth,
        from: scale.spot_of_event(phase.from),
        to: scale.spot_of_event(phase.to),
        peak: phase.peak,
    });
    bands.collect()
}
