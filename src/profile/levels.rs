//! The counters between any two borders of a history.

use super::every::{self, Interval};
use crate::replay::{Level, Part, Position};

/// The counters over a part of a history.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeldOver {
    /// At its beginning.
    pub(super) start: Level,
    /// The highest, its ends included.
    pub(super) peak: Level,
    /// At its end.
    pub(super) end: Level,
}

/// The counters at borders, and the highest between any two of them.
pub(super) struct Levels<'p> {
    parts: &'p [Part],
    /// A tree: an inner node at `i` is the highest of those at `2 * i` and `2 * i + 1`, the parts are its leaves.
    highest: Vec<Level>,
}

impl<'p> Levels<'p> {
    /// `parts` are not empty.
    pub(super) fn new(parts: &'p [Part]) -> Self {
        let mut highest = vec![Level::default(); parts.len()];
        highest.extend(parts.iter().map(|part| part.peak));
        for i in (1..parts.len()).rev() {
            highest[i] = highest[2 * i].max(highest[2 * i + 1]);
        }
        Self { parts, highest }
    }

    fn index(&self, at: Position) -> usize {
        self.parts.partition_point(|part| part.from < at)
    }

    /// At a border. Where the history broke off before it, at its end.
    fn at(&self, index: usize) -> Level {
        match (self.parts.get(index), self.parts.last()) {
            (Some(part), _) => part.start,
            (None, Some(last)) => last.end,
            (None, None) => Level::default(),
        }
    }

    /// The counters from a border to a later one.
    pub(super) fn over(&self, from: Position, to: Position) -> HeldOver {
        let first = self.index(from);
        let last = self.index(to);
        let start = self.at(first);
        let end = self.at(last);
        let mut peak = start.max(end);
        let mut low = first + self.parts.len();
        let mut high = last + self.parts.len();
        while low < high {
            if low % 2 == 1 {
                peak = peak.max(self.highest[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                peak = peak.max(self.highest[high]);
            }
            low /= 2;
            high /= 2;
        }
        HeldOver { start, peak, end }
    }

    /// One of the equal parts.
    pub(super) fn interval(&self, range: every::Range, has_reserved: bool) -> Interval {
        let held = self.over(range.from, range.to);
        Interval {
            from: range.from.count() as u64,
            to: range.to.count() as u64,
            name: range.name,
            start: held.start.allocated,
            peak: held.peak.allocated,
            end: held.end.allocated,
            reserved_peak: has_reserved.then_some(held.peak.reserved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(bytes: u64) -> Level {
        Level { allocated: bytes, active: bytes, reserved: bytes * 2 }
    }

    /// The tree finds what looking at every part does.
    #[test]
    fn the_highest_of_any_run_is_found() {
        for length in 1..40_usize {
            let parts: Vec<Part> = (0..length)
                .map(|i| {
                    let low = (i as u64 * 7919) % 31;
                    let from = Position::of_count(i * 3);
                    Part { from, start: level(low), peak: level(low + (i as u64 * 104_729) % 53), end: level(low) }
                })
                .collect();
            let levels = Levels::new(&parts);
            for from in 0..length {
                for to in from..length {
                    let peak = parts[from..to].iter().map(|part| part.peak).reduce(Level::max);
                    let peak = peak.unwrap_or(parts[from].start).max(parts[to].start);
                    let expected = HeldOver { start: parts[from].start, peak, end: parts[to].start };
                    let found = levels.over(parts[from].from, parts[to].from);
                    assert_eq!(found, expected, "{from}..{to} of {length}");
                }
                // A border that the history does not reach.
                let found = levels.over(parts[from].from, Position::of_count(length * 3 + 5));
                assert_eq!(found.peak, parts[from..].iter().map(|part| part.peak).reduce(Level::max).unwrap());
                assert_eq!(found.end, parts[length - 1].end);
            }
        }
    }
}
