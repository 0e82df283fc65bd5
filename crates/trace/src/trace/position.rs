//! Places in a history.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment: the start of the history, or just after one of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u32);

impl Position {
    /// Before the first event.
    pub const START: Self = Self(0);
    /// Later than every event.
    pub const NEVER: Self = Self(u32::MAX);

    /// Just after the event at `index`.
    pub fn after(index: usize) -> Self {
        Self(u32::try_from(index).map_or(u32::MAX - 1, |index| index.saturating_add(1).min(u32::MAX - 1)))
    }

    /// Just after the first `count` events.
    pub fn of_count(count: usize) -> Self {
        count.checked_sub(1).map_or(Self::START, Self::after)
    }

    /// The number of events before it.
    pub fn count(self) -> usize {
        self.0 as usize
    }

    /// The index of the event that this is just after, as machine-readable output has it: -1 for the start.
    pub fn event_index(self) -> i64 {
        self.event().map_or(-1, i64::from)
    }

    /// The index of the event that this is just after; `None` for the start.
    pub fn event(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// A part of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Just before its first event.
    pub from: Position,
    /// Just after its last event.
    pub to: Position,
}

impl Window {
    /// From just after the first `from` events to just after the first `to`.
    pub fn of_counts(from: usize, to: usize) -> Self {
        Self { from: Position::of_count(from), to: Position::of_count(to) }
    }

    /// The number of its events.
    pub fn events(self) -> usize {
        self.to.count().saturating_sub(self.from.count())
    }
}

/// As machine-readable output has it: [`Position::event_index`].
impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.event_index())
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(|event| usize::try_from(event).map_or(Self::START, Self::after))
    }
}
