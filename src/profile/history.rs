//! The history of a device as pictures need it: the counters over time in few points, and the life of every
//! allocation, from which the memory held at any moment follows. It is as long as the recording, so it is kept only
//! where [`super::Options::history`] asks for it.

use super::exact::Attribution;
use super::{DeviceProfile, Held};
use crate::replay::{History as Kind, Position};
use crate::snapshot::Event;
use crate::trace::Measure;

/// Equal parts of the history of which each gives the lowest and the highest point of the curve. With two values of
/// one counter and one of the other for each, a device has fewer than 4,000 points.
const WINDOWS: usize = 700;

/// The recorded history of a device.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The counters, in order of time. The highest value of every part of the history is among them.
    pub(crate) points: Vec<Point>,
    /// Every allocation, in the order in which they began; those from before the recording come first.
    pub(crate) lives: Vec<Life>,
}

/// The counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// The moment.
    pub(crate) at: Position,
    /// Microseconds since the first event of any device, where the release wrote times.
    pub(crate) time_us: Option<u64>,
    /// Allocated bytes.
    pub(crate) allocated: u64,
    /// Reserved bytes, where they are known.
    pub(crate) reserved: Option<u64>,
}

/// An allocation, and from when to when it was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// The stack that allocated it.
    pub(crate) owner: Attribution,
    /// Bytes of its block.
    pub(crate) bytes: u64,
    /// The event that allocated it; the start for older ones.
    pub(crate) born: Position,
    /// The event that freed it.
    pub(crate) freed: Position,
}

impl History {
    /// The history of a device; `None` where no allocations were recorded.
    pub(super) fn of(device: &DeviceProfile) -> Option<Self> {
        let trace = &device.trace;
        if device.figures.history != Kind::Recorded || trace.symbols.is_empty() {
            return None;
        }
        let lives = trace.lives().into_iter().filter(|life| life.born < life.freed).map(|life| {
            let class = &trace.classes[life.class as usize];
            Life { owner: class.origin.into(), bytes: class.bytes, born: life.born, freed: life.freed }
        });
        let mut lives: Vec<Life> = lives.collect();
        lives.sort_by_key(|life| life.born);
        let allocated: Vec<u64> = trace.values(Measure::Allocated).map(level).collect();
        let is_known = device.figures.reserved.baseline.is_some();
        let reserved = is_known.then(|| trace.values(Measure::Reserved).map(level).collect::<Vec<u64>>());
        let points = chosen(&allocated, reserved.as_deref()).into_iter().map(|place| Point {
            at: Position::of_count(place),
            time_us: device.time_us(Position::of_count(place)),
            allocated: allocated[place],
            reserved: reserved.as_ref().map(|reserved| reserved[place]),
        });
        Some(Self { points: points.collect(), lives })
    }

    /// The number of allocations within the recording that began no later than a moment: the place of the moment in
    /// the program.
    pub(crate) fn place(&self, at: Position) -> usize {
        self.lives.partition_point(|life| life.born <= at) - self.older()
    }

    /// The allocations within the recording, in order.
    pub(crate) fn recorded(&self) -> &[Life] {
        &self.lives[self.older()..]
    }

    fn older(&self) -> usize {
        self.lives.partition_point(|life| life.born == Position::START)
    }
}

/// The memory of one class at the moments that a profile knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owned {
    /// The stack.
    pub(crate) owner: Attribution,
    /// Held before the first event.
    pub(crate) baseline: Held,
    /// Held at the allocated peak.
    pub(crate) peak: Held,
    /// Held at the end.
    pub(crate) end: Held,
    /// Held when the first allocation failed, if one did.
    pub(crate) oom: Held,
    /// Held at the moment that was asked for.
    pub(crate) at: Held,
}

impl DeviceProfile {
    /// The memory of every class at the moments that a profile knows.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Owned> {
        self.trace.classes.iter().zip(&self.sums).map(|(class, sums)| Owned {
            owner: class.origin.into(),
            baseline: sums.baseline,
            peak: sums.peak,
            end: sums.end,
            oom: sums.oom,
            at: sums.at,
        })
    }

    /// Microseconds from the first event of any device to a place, as far as the times that are kept tell.
    pub(crate) fn time_us(&self, at: Position) -> Option<u64> {
        let next = self.times.partition_point(|&(place, _)| place < at);
        let &(to, until) = self.times.get(next)?;
        let Some(&(from, since)) = next.checked_sub(1).and_then(|last| self.times.get(last)) else {
            return Some(until);
        };
        let part = (at.count() - from.count()) as u64;
        let whole = (to.count() - from.count()) as u64;
        let passed = u128::from(until.saturating_sub(since)) * u128::from(part) / u128::from(whole.max(1));
        Some(since.saturating_add(u64::try_from(passed).unwrap_or(0)))
    }
}

/// A sum that goes up and down by blocks. Where a history does not add up it counts as 0 until it is positive again.
fn level(sum: i128) -> u64 {
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

/// The places of the points to keep: the first and the last, and of every window the first of its lowest and of its
/// highest allocated bytes and of its highest reserved bytes.
fn chosen(allocated: &[u64], reserved: Option<&[u64]>) -> Vec<usize> {
    let count = allocated.len();
    let windows = WINDOWS.min(count);
    let mut places = vec![0, count.saturating_sub(1)];
    for window in 0..windows {
        let range = window * count / windows..(window + 1) * count / windows;
        places.extend(range.clone().min_by_key(|&place| allocated[place]));
        // `max_by_key` on the reversed range takes the first of equal values.
        places.extend(range.clone().rev().max_by_key(|&place| allocated[place]));
        places.extend(reserved.and_then(|reserved| range.rev().max_by_key(|&place| reserved[place])));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Pairs of a place and its time that are kept: equally far apart, and the last one.
const TIMES: usize = 128;

/// The times of places of a device. `first_us` is that of the first event of any device.
pub(super) fn times(events: &[Event], first_us: Option<i64>) -> Vec<(Position, u64)> {
    let Some(first_us) = first_us else { return Vec::new() };
    let count = TIMES.min(events.len());
    let mut times: Vec<(Position, u64)> = Vec::with_capacity(count + 1);
    let places = (0..count).map(|i| i * events.len() / count).chain(events.len().checked_sub(1));
    for place in places {
        let time = events[place].time().and_then(|time| u64::try_from(time.checked_sub(first_us)?).ok());
        let is_later = times.last().is_none_or(|&(last, _)| last < Position::after(place));
        times.extend(time.filter(|_| is_later).map(|time| (Position::after(place), time)));
    }
    times
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
        assert!(places.len() < 4_000 && places.is_sorted(), "{}", places.len());
        assert_eq!(chosen(&[1, 2, 3], None), [0, 1, 2]);
    }
}
