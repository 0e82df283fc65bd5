//! The times of places.

use super::DeviceProfile;
use crate::replay::Position;
use crate::snapshot::Event;

impl DeviceProfile {
    /// Microseconds from the first event of any device to a place, as far as the times that are kept tell.
    pub fn time_us(&self, at: Position) -> Option<u64> {
        let next = self.times.partition_point(|&(place, _)| place < at);
        let &(to, until) = self.times.get(next)?;
        let Some(&(from, since)) = next.checked_sub(1).and_then(|last| self.times.get(last)) else {
            return Some(until);
        };
        let part = at.count().saturating_sub(from.count()) as u64;
        let whole = to.count().saturating_sub(from.count()) as u64;
        let passed = u128::from(until.saturating_sub(since)) * u128::from(part) / u128::from(whole.max(1));
        Some(since.saturating_add(u64::try_from(passed).unwrap_or(0)))
    }
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
