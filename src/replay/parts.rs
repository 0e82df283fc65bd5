//! The counters over time, as far as anybody asks: at given borders, and the highest value between two of them.

use super::Position;

/// The counters at a moment, in bytes. Where the history does not add up, no less than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// Allocated bytes.
    pub allocated: u64,
    /// Active bytes.
    pub active: u64,
    /// Reserved bytes. Without meaning where [`super::Figures::reserved`] cannot be known.
    pub reserved: u64,
}

impl Level {
    /// Reserved, and not active.
    #[must_use]
    pub fn fragmentation(self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }

    /// The higher value of each counter.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.max(other.allocated),
            active: self.active.max(other.active),
            reserved: self.reserved.max(other.reserved),
        }
    }
}

/// A part of the history, from one border to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub from: Position,
    /// The counters there.
    pub start: Level,
    /// The highest value of each counter within it, its start included.
    pub peak: Level,
    /// The counters where it ends.
    pub end: Level,
}

/// The parts of a history, while it is replayed.
#[derive(Debug)]
pub(super) struct Parts<'b> {
    borders: std::iter::Peekable<std::slice::Iter<'b, Position>>,
    done: Vec<Part>,
    now: Part,
    /// True if there were any borders.
    asked: bool,
}

impl<'b> Parts<'b> {
    /// `borders` in order. There is always a part that begins with the history.
    pub(super) fn new(borders: &'b [Position], start: Level) -> Self {
        let now = Part { from: Position::START, start, peak: start, end: start };
        let done = Vec::with_capacity(borders.len());
        let mut parts = Self { borders: borders.iter().peekable(), done, now, asked: !borders.is_empty() };
        parts.skip_to(Position::START);
        parts
    }

    fn skip_to(&mut self, at: Position) -> bool {
        let mut reached = false;
        while self.borders.next_if(|&&border| border <= at).is_some() {
            reached = true;
        }
        reached
    }

    /// Where the part ends; `None` for the last.
    pub(super) fn next_border(&mut self) -> Option<Position> {
        self.borders.peek().map(|&&border| border)
    }

    /// The counters at a moment no later than the next border, and the highest since they were last told.
    pub(super) fn reach(&mut self, at: Position, highest: Level, level: Level) {
        self.now.end = level;
        self.now.peak = self.now.peak.max(highest);
        if self.skip_to(at) {
            self.done.push(self.now);
            self.now = Part { from: at, start: level, peak: level, end: level };
        }
    }

    pub(super) fn finish(mut self) -> Vec<Part> {
        if self.asked {
            self.done.push(self.now);
        }
        self.done
    }
}
