//! The time axis of a device.

use ptmem_trace::profile::DeviceProfile;
use ptmem_trace::replay::Position;

/// The time of every place in a history.
#[derive(Debug)]
pub(super) struct Clock {
    /// The source of its times in words: that of every event, the few that a saved profile keeps, or none.
    pub(super) source: &'static str,
    /// Microseconds of every event. They never decrease.
    micros: Vec<u64>,
}

/// The highest time of a trace: readers take it as a signed number.
const LATEST: u64 = i64::MAX as u64;

impl Clock {
    pub(super) fn new(device: &DeviceProfile) -> Self {
        let events = 0..device.trace.symbols.len();
        let (source, times) = if device.event_times.len() == events.len() {
            ("recorded time", device.event_times.clone())
        } else if device.times.is_empty() {
            ("1 us = 1 event", events.map(|event| event as u64).collect())
        } else {
            let times = events.map(|event| device.time_us(Position::after(event)).unwrap_or(0));
            ("interpolated time", times.collect())
        };
        let mut latest = 0;
        let mut micros: Vec<u64> = times;
        for time in &mut micros {
            // A clock that goes back does not bring events back.
            latest = latest.max(*time);
            *time = latest;
        }
        Self { source, micros }
    }

    /// Nanoseconds just after a place: those of the next event.
    pub(super) fn nanos_after(&self, at: Position) -> u64 {
        self.nanos(at.count())
    }

    /// Nanoseconds at a place: those of the event that it is just after.
    pub(super) fn nanos_at(&self, at: Position) -> u64 {
        self.nanos(at.count().saturating_sub(1))
    }

    /// Those of an event, or of the last one.
    fn nanos(&self, event: usize) -> u64 {
        self.micros.get(event).or(self.micros.last()).map_or(0, |micros| micros.saturating_mul(1000).min(LATEST))
    }
}
