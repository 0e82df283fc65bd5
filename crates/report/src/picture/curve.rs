//! The curves of a device, with what is worth a mark on them.

use std::cmp::Reverse;
use std::collections::HashSet;

use ptmem_base::sides::Side;
use ptmem_base::units::Size;
use ptmem_trace::profile::{Occurrence, PrivatePool};
use ptmem_trace::replay::{HistoryKind, Position};
use ptmem_trace::trace::Measure;
use serde::Serialize;

use super::areas::{Amounts, areas};
use super::record::Past;
use crate::name::name;

/// Phases of one device that are drawn: the longest ones.
const MOST_BANDS: usize = 80;

/// Failed allocations of one device that are drawn.
const MOST_FAILURES: usize = 50;

/// Equal parts of the history of which each gives the lowest and the highest point of a still curve.
const PARTS: usize = 160;

/// The curves of one side.
#[derive(Debug)]
pub(crate) struct SideCurves {
    /// Its side; `None` where there is only one.
    pub side: Option<Side>,
    /// The counters over the recording, in order.
    pub points: Vec<SpotValue>,
    /// Whether the points are the highest values in equal parts of the recording, which is the resolution of a coarse
    /// profile.
    pub is_coarse: bool,
    /// Bytes allocated at the start.
    pub baseline: Option<u64>,
    /// The peaks and the failed allocations.
    pub events: Vec<CurveEvent>,
    /// Named parts of the history.
    pub bands: Vec<Band>,
    /// The allocated memory at the points by what it is for, the lowest of the stack first.
    pub areas: Vec<Amounts>,
    /// The private pools whose reserved bytes are known over the recording.
    pub pools: Vec<PrivatePool>,
}

impl SideCurves {
    /// Whether the reserved bytes are known at any point.
    pub(crate) fn has_reserved(&self) -> bool {
        self.points.iter().any(|point| point.reserved.is_some())
    }
}

/// A moment of a recording on the three scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Spot {
    /// Its place.
    #[serde(rename = "event")]
    pub at: Position,
    /// Microseconds since the first event of any device.
    #[serde(rename = "time")]
    pub time_us: Option<u64>,
    /// Allocations of the program before it, of the after where two are aligned.
    pub program: Option<i64>,
}

/// The counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct SpotValue {
    /// The moment.
    #[serde(flatten)]
    pub spot: Spot,
    /// Allocated bytes.
    pub allocated: u64,
    /// Reserved bytes, where they are known.
    pub reserved: Option<u64>,
}

/// A moment that has a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CurveEvent {
    /// The moment.
    pub spot: Spot,
    /// The reason for the mark.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The value of the curve there.
    pub bytes: u64,
    /// The mark in words.
    pub text: String,
}

/// Reasons for a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum EventKind {
    /// The peak of allocated memory.
    AllocatedPeak,
    /// The peak of reserved memory.
    ReservedPeak,
    /// A failed allocation.
    OutOfMemory {
        /// Requested bytes.
        requested: u64,
        /// The largest free block that could have served it, where that is known.
        largest: Option<u64>,
    },
}

/// A named part of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Band {
    /// Its name, with the number of the occurrence.
    pub name: String,
    /// Number of phases around it.
    pub depth: u32,
    /// Its start.
    pub from: Spot,
    /// Its end.
    pub to: Spot,
    /// The highest allocated bytes within it.
    pub peak: u64,
}

impl Past<'_> {
    fn spot(&self, at: Position) -> Spot {
        Spot { at, time_us: self.time(at), program: self.program(at) }
    }

    /// Where nothing but a coarse curve is left, all events take equally long.
    fn time(&self, at: Position) -> Option<u64> {
        let device = self.device;
        if device.has_moves() {
            return device.time_us(at);
        }
        Some(part_of(at.count() as u64, device.events, device.duration_us?))
    }

    fn program(&self, at: Position) -> Option<i64> {
        let place = self.begun.partition_point(|&begun| begun <= at);
        match self.alignment {
            Some(alignment) if self.side == Side::Before => Some(alignment.map.after_of(place)),
            // Two sides without an alignment have no common scale.
            None if self.is_compared || !self.device.has_moves() => None,
            _ => i64::try_from(place).ok(),
        }
    }

    fn event(&self, at: Position, kind: EventKind, bytes: u64) -> CurveEvent {
        let side = if self.is_compared { format!("{} ", self.side) } else { String::new() };
        let text = match kind {
            EventKind::AllocatedPeak => format!("{side}peak {}", Size(bytes)),
            EventKind::ReservedPeak => format!("{side}reserved peak {}", Size(bytes)),
            EventKind::OutOfMemory { requested, .. } => format!("{side}out of memory: {} refused", Size(requested)),
        };
        CurveEvent { spot: self.spot(at), kind, bytes, text }
    }
}

/// The curve of a side, where it is more than a point. `names` are those of the categories.
pub(super) fn curve(past: &Past<'_>, names: &[String]) -> Option<SideCurves> {
    let device = past.device;
    let is_coarse = !device.has_moves();
    let points = if is_coarse { coarse_points(past) } else { points(past) };
    if points.len() < 2 || device.figures.history != HistoryKind::Recorded {
        return None;
    }
    Some(SideCurves {
        side: past.is_compared.then_some(past.side),
        is_coarse,
        baseline: device.figures.allocated.baseline,
        events: events(past),
        bands: bands(past),
        areas: areas(past, names, &points),
        pools: device.private_pools.iter().filter(|pool| !pool.curve.is_empty()).cloned().collect(),
        points,
    })
}

/// The lowest and the highest points of equal parts of the history, in order.
fn points(past: &Past<'_>) -> Vec<SpotValue> {
    let device = past.device;
    let allocated: Vec<u64> = device.trace.values(Measure::Allocated).map(level).collect();
    let is_known = device.figures.reserved.baseline.is_some();
    let reserved = is_known.then(|| device.trace.values(Measure::Reserved).map(level).collect::<Vec<u64>>());
    let chosen = chosen(&allocated, reserved.as_deref()).into_iter().map(|place| SpotValue {
        spot: past.spot(Position::of_count(place)),
        allocated: allocated[place],
        reserved: reserved.as_ref().map(|reserved| reserved[place]),
    });
    chosen.collect()
}

/// A sum that goes up and down by blocks. Where a history does not add up it counts as 0 until it is positive again.
fn level(sum: i128) -> u64 {
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

/// The places of the points to keep: the first and the last, and of every part the first of its lowest and of its
/// highest allocated bytes and of its highest reserved bytes.
fn chosen(allocated: &[u64], reserved: Option<&[u64]>) -> Vec<usize> {
    let count = allocated.len();
    let parts = PARTS.min(count);
    let mut places = vec![0, count.saturating_sub(1)];
    for part in 0..parts {
        let range = part * count / parts..(part + 1) * count / parts;
        places.extend(range.clone().min_by_key(|&place| allocated[place]));
        // `max_by_key` on the reversed range takes the first of equal values.
        places.extend(range.clone().rev().max_by_key(|&place| allocated[place]));
        places.extend(reserved.and_then(|reserved| range.rev().max_by_key(|&place| reserved[place])));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// The same part of another whole.
fn part_of(part: u64, whole: u64, other: u64) -> u64 {
    let scaled = (u128::from(part.min(whole)) * u128::from(other)).checked_div(whole.into());
    scaled.and_then(|part| u64::try_from(part).ok()).unwrap_or(0)
}

/// The highest values in equal parts of the recording, each drawn where its part ends.
fn coarse_points(past: &Past<'_>) -> Vec<SpotValue> {
    let timeline = &past.device.figures.timeline;
    let parts = timeline.allocated.len() as u64;
    let points = (1..).zip(&timeline.allocated).enumerate().map(|(index, (part, &allocated))| {
        let events = usize::try_from(part_of(part, parts, past.device.events)).unwrap_or(usize::MAX);
        SpotValue {
            spot: past.spot(Position::of_count(events)),
            allocated,
            reserved: timeline.reserved.get(index).copied(),
        }
    });
    points.collect()
}

fn events(past: &Past<'_>) -> Vec<CurveEvent> {
    let figures = &past.device.figures;
    let counters =
        [(EventKind::AllocatedPeak, &figures.allocated), (EventKind::ReservedPeak, &figures.reserved)].into_iter();
    let peaks = counters.filter_map(|(kind, counter)| {
        counter.peak_error?;
        Some(past.event(counter.peak_at?, kind, counter.peak?))
    });
    let failures = figures.ooms.iter().take(MOST_FAILURES).map(|oom| {
        let kind = EventKind::OutOfMemory { requested: oom.requested, largest: oom.largest_free };
        past.event(Position::after(oom.event as usize), kind, oom.allocated.unwrap_or(0))
    });
    peaks.chain(failures).collect()
}

/// The longest phases, in their order, with their numbers where several have one name.
fn bands(past: &Past<'_>) -> Vec<Band> {
    let all = &past.device.phases.all;
    let mut names: HashSet<&str> = HashSet::new();
    let several: HashSet<&str> = all.iter().map(|phase| &*phase.name).filter(|name| !names.insert(name)).collect();
    let mut longest: Vec<(usize, &Occurrence)> = all.iter().enumerate().collect();
    longest.sort_by_key(|(_, phase)| Reverse(phase.window.events()));
    longest.truncate(MOST_BANDS);
    longest.sort_by_key(|(place, _)| *place);
    let bands = longest.into_iter().map(|(_, phase)| Band {
        name: if several.contains(&*phase.name) {
            name(&format!("{} #{}", phase.name, phase.number))
        } else {
            name(&phase.name)
        },
        depth: phase.depth,
        from: past.spot(phase.window.from),
        to: past.spot(phase.window.to),
        peak: phase.held.peak.allocated,
    });
    bands.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peak_of_a_long_curve_is_kept() {
        let mut allocated = vec![5_u64; 100_000];
        let mut reserved = vec![10_u64; 100_000];
        (allocated[777], allocated[50_001], allocated[50_002], reserved[99_000]) = (9, 0, 8, 20);
        let places = chosen(&allocated, Some(&reserved));
        for place in [0, 777, 50_001, 50_002, 99_000, 99_999] {
            assert!(places.binary_search(&place).is_ok(), "{place}");
        }
        assert!(places.len() <= 3 * PARTS + 2 && places.is_sorted(), "{}", places.len());
        assert_eq!(chosen(&[1, 2, 3], None), [0, 1, 2]);
    }
}
