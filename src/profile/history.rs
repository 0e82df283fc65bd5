//! The history of a device as pictures need it: the counters over time in few points, and the life of every
//! allocation, from which the memory held at any moment follows. It is as long as the recording, so it is kept only
//! where [`super::Options::history`] asks for it.

use super::exact::Attribution;
use super::{DeviceProfile, Held};
use crate::replay::{History as Kind, Position, Replay};
use crate::snapshot::{Action, Device, Event, Snapshot, StackId};

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
    pub(super) fn of(snapshot: &Snapshot, device: &Device, replay: &Replay) -> Option<Self> {
        let events = snapshot.events_of(device);
        let first_events = snapshot.devices.values().filter_map(|device| snapshot.events_of(device).first());
        let first_us = first_events.filter_map(Event::time).min();
        if replay.figures.history != Kind::Recorded || events.is_empty() {
            return None;
        }
        let lives = replay.allocations.iter().filter(|allocation| allocation.born < allocation.freed);
        let mut lives: Vec<Life> = lives
            .map(|allocation| Life {
                owner: Attribution::from(allocation.origin(snapshot)),
                bytes: allocation.bytes,
                born: allocation.born,
                freed: allocation.freed,
            })
            .collect();
        lives.sort_by_key(|life| life.born);
        let allocated = allocated(&lives, events.len());
        let reserved = replay.figures.reserved.baseline.map(|baseline| reserved(baseline, events));
        let points = chosen(&allocated, reserved.as_deref()).into_iter().map(|place| Point {
            at: Position::of_count(place),
            time_us: time(events, place, first_us),
            allocated: allocated[place],
            reserved: reserved.as_ref().map(|reserved| reserved[place]),
        });
        Some(Self { points: points.collect(), lives })
    }

    /// Gives every stack its number in other tables.
    pub(super) fn renumber(&mut self, mut stack: impl FnMut(StackId) -> StackId) {
        for life in &mut self.lives {
            if let Attribution::Stack(id) = &mut life.owner {
                *id = stack(*id);
            }
        }
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

/// The memory of one stack at the moments that a profile knows.
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
    /// The memory of every single stack at the moments that a profile knows.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Owned> {
        self.totals.stacks.iter().map(|exact| Owned {
            owner: exact.attribution,
            baseline: exact.sums.baseline,
            peak: exact.sums.peak,
            end: exact.sums.end,
            oom: exact.sums.oom,
            at: exact.sums.at,
        })
    }
}

/// A sum that goes up and down by blocks. Where a history does not add up it counts as 0 until it is positive again.
fn level(sum: i128) -> u64 {
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

/// Allocated bytes at the start and after each event.
fn allocated(lives: &[Life], events: usize) -> Vec<u64> {
    let mut changes = vec![0_i128; events + 1];
    for life in lives {
        if let Some(change) = changes.get_mut(life.born.count()) {
            *change += i128::from(life.bytes);
        }
        if let Some(change) = changes.get_mut(life.freed.count()) {
            *change -= i128::from(life.bytes);
        }
    }
    let mut sum = 0;
    changes
        .into_iter()
        .map(|change| {
            sum += change;
            level(sum)
        })
        .collect()
}

/// Reserved bytes at the start and after each event.
fn reserved(baseline: u64, events: &[Event]) -> Vec<u64> {
    let mut sum = i128::from(baseline);
    let mut levels = Vec::with_capacity(events.len() + 1);
    levels.push(baseline);
    for event in events {
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => sum += i128::from(event.size),
            Action::SegmentFree | Action::SegmentUnmap => sum -= i128::from(event.size),
            Action::Alloc
            | Action::FreeRequested
            | Action::FreeCompleted
            | Action::Snapshot
            | Action::Oom
            | Action::Other(_) => {}
        }
        levels.push(level(sum));
    }
    levels
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

/// The time of a place since the first event of any device.
fn time(events: &[Event], place: usize, first_us: Option<i64>) -> Option<u64> {
    let event = events.get(place.saturating_sub(1))?;
    u64::try_from(event.time()?.checked_sub(first_us?)?).ok()
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
