//! The times of events, in one or two bytes each: most events follow the one before within a few microseconds.

use std::ops::Range;

/// Times in microseconds since the Unix epoch, one for each event; `None` where the file has none.
#[derive(Debug, Clone, Default)]
pub struct EventTimes {
    /// The differences to the time before, the lowest seven bits first, with the sign in the very lowest one. The first
    /// is to 0, and no time counts as [`NO_TIME`].
    differences: Vec<u8>,
    /// The places of every [`STRIDE`]th time.
    places: Vec<TimePlace>,
    latest: i64,
    len: usize,
    /// See [`EventTimes::may_go_back`].
    may_go_back: bool,
}

const NO_TIME: i64 = i64::MIN;

/// How many times are decoded at most to find one.
const STRIDE: usize = 1024;

/// Where a time is.
#[derive(Debug, Clone, Copy)]
struct TimePlace {
    /// Its first byte.
    at: usize,
    /// The time before it.
    before: i64,
}

impl EventTimes {
    /// Adds the time of the next event.
    #[inline]
    pub(super) fn push(&mut self, time: Option<i64>) {
        if self.len.is_multiple_of(STRIDE) {
            self.places.push(TimePlace { at: self.differences.len(), before: self.latest });
        }
        let time = time.unwrap_or(NO_TIME);
        let difference = time.wrapping_sub(self.latest);
        self.may_go_back |= time < self.latest;
        self.latest = time;
        self.len += 1;
        let mut rest = (difference << 1 ^ difference >> 63).cast_unsigned();
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                self.differences.push(low);
                return;
            }
            self.differences.push(low | 0x80);
        }
    }

    /// The number of events.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// True if a time may be earlier than one before it, or missing.
    #[must_use]
    pub fn may_go_back(&self) -> bool {
        self.may_go_back
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Option<i64>> + Clone {
        self.range(0..self.len)
    }

    /// The times of some events, in their order.
    pub(super) fn range(&self, events: Range<usize>) -> impl Iterator<Item = Option<i64>> + Clone {
        let place = self.places.get(events.start / STRIDE);
        let place = place.copied().unwrap_or(TimePlace { at: self.differences.len(), before: 0 });
        let mut decoder = TimeDecoder { bytes: &self.differences[place.at..], latest: place.before };
        decoder.by_ref().take(events.start % STRIDE).for_each(drop);
        decoder.take(events.len())
    }
}

impl FromIterator<Option<i64>> for EventTimes {
    fn from_iter<I: IntoIterator<Item = Option<i64>>>(all: I) -> Self {
        let mut times = Self::default();
        all.into_iter().for_each(|time| times.push(time));
        times
    }
}

/// Decodes times, beginning at a place.
#[derive(Clone)]
struct TimeDecoder<'t> {
    bytes: &'t [u8],
    latest: i64,
}

impl Iterator for TimeDecoder<'_> {
    type Item = Option<i64>;

    #[inline]
    fn next(&mut self) -> Option<Option<i64>> {
        let mut code = 0;
        let mut bits = 0;
        loop {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            code |= u64::from(byte & 0x7f) << bits;
            bits += 7;
            if byte < 0x80 {
                break;
            }
        }
        let difference = (code >> 1).cast_signed() ^ -(code & 1).cast_signed();
        self.latest = self.latest.wrapping_add(difference);
        Some((self.latest != NO_TIME).then_some(self.latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_from_any_place_on() {
        let extremes = [Some(0), Some(-1), Some(63), Some(-64), None, None, Some(i64::MAX), Some(i64::MIN + 1)];
        let usual = (0..3 * STRIDE as i64).map(|i| Some(1_700_000_000_000_000 + i * i % 300));
        let all: Vec<Option<i64>> = extremes.into_iter().chain(usual).chain(extremes).collect();
        let times: EventTimes = all.iter().copied().collect();
        assert_eq!(times.len(), all.len());
        for from in [0, 1, 7, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE, all.len() - 1, all.len()] {
            for to in [from, all.len().min(from + 5), all.len()] {
                assert_eq!(times.range(from..to).collect::<Vec<_>>(), all[from..to], "{from} to {to}");
            }
        }
    }

    #[test]
    fn usual_times_take_one_or_two_bytes() {
        let times: EventTimes = (0..10_000).map(|i| Some(1_700_000_000_000_000 + 50 * i)).collect();
        assert!(times.differences.len() < 10_020, "{}", times.differences.len());
    }
}
