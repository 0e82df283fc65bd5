//! Moves, and what they change.

use serde::{Deserialize, Serialize};

use super::{Class, Position};

/// One of PyTorch's byte counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Measure {
    /// Blocks held by tensors.
    Allocated,
    /// The same with blocks whose free is pending.
    Active,
    /// Requested bytes of active blocks.
    Requested,
    /// Segments.
    Reserved,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allocated, Self::Active, Self::Requested, Self::Reserved];
}

/// How far a number of bytes may lie from the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Uncertainty {
    /// Bytes that the truth may be less.
    pub below: u64,
    /// Bytes that it may be more.
    pub above: u64,
}

impl Uncertainty {
    /// That of both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { below: self.below.saturating_add(other.below), above: self.above.saturating_add(other.above) }
    }

    /// That of several blocks.
    #[must_use]
    pub fn times(self, blocks: u64) -> Self {
        Self { below: self.below.saturating_mul(blocks), above: self.above.saturating_mul(blocks) }
    }
}

impl Class {
    /// The bytes that one of its blocks adds.
    #[inline]
    pub(crate) fn size(&self, measure: Measure) -> i128 {
        match measure {
            Measure::Allocated | Measure::Active => self.bytes.into(),
            Measure::Requested => self.requested.into(),
            Measure::Reserved => 0,
        }
    }

    /// The requested bytes of a block; all of them where a saved profile does not say.
    pub fn request(&self) -> u64 {
        if self.requested > 0 { self.requested } else { self.bytes }
    }

    /// How far the bytes that one of its blocks adds may be off, because its size is not certain.
    pub(crate) fn spread_in(&self, measure: Measure) -> Uncertainty {
        match measure {
            Measure::Allocated if self.maybe_pending => Uncertainty { below: self.bytes, ..self.spread },
            Measure::Allocated | Measure::Active => self.spread,
            Measure::Requested | Measure::Reserved => Uncertainty::default(),
        }
    }
}

/// A block of a class, as a move hands it out or takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "(u32, bool)", from = "(u32, bool)")]
pub struct MovedBlock {
    /// Its class.
    pub class: u32,
    /// True if its free was pending already: then it is active, and not allocated.
    pub pending: bool,
}

impl From<MovedBlock> for (u32, bool) {
    fn from(MovedBlock { class, pending }: MovedBlock) -> Self {
        (class, pending)
    }
}

impl From<(u32, bool)> for MovedBlock {
    fn from((class, pending): (u32, bool)) -> Self {
        Self { class, pending }
    }
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Move {
    /// No change: a marker, a double free or an unknown action.
    Nothing,
    /// A block of this class is handed out.
    Alloc(u32),
    /// The free of a block is requested: it is no longer allocated, and still active.
    Request(u32),
    /// A block is given back: it is no longer active, nor allocated if it was until now.
    Free(MovedBlock),
    /// Allocates a block of this class at an address whose previous block was freed without an event.
    Replace(MovedBlock, u32),
    /// A segment of this size comes.
    Reserve(u64),
    /// A segment of this size goes.
    Release(u64),
}

impl Move {
    /// The block that it hands out.
    pub fn begins(self) -> Option<MovedBlock> {
        match self {
            Self::Alloc(class) | Self::Replace(_, class) => Some(MovedBlock { class, pending: false }),
            Self::Nothing | Self::Request(_) | Self::Free(_) | Self::Reserve(_) | Self::Release(_) => None,
        }
    }

    /// The block that it takes, or of which it requests the free.
    pub fn ends(self) -> Option<MovedBlock> {
        match self {
            Self::Request(class) => Some(MovedBlock { class, pending: false }),
            Self::Free(block) | Self::Replace(block, _) => Some(block),
            Self::Nothing | Self::Alloc(_) | Self::Reserve(_) | Self::Release(_) => None,
        }
    }

    /// The class of the block that is no longer allocated after it.
    pub fn frees(self) -> Option<u32> {
        self.ends().filter(|block| !block.pending).map(|block| block.class)
    }

    /// The class of the block that is no longer active after it.
    pub fn completes(self) -> Option<u32> {
        match self {
            Self::Free(block) | Self::Replace(block, _) => Some(block.class),
            Self::Nothing | Self::Alloc(_) | Self::Request(_) | Self::Reserve(_) | Self::Release(_) => None,
        }
    }

    /// Its contribution to a counter.
    pub fn change(self, measure: Measure, classes: &[Class]) -> i128 {
        let ended = match measure {
            Measure::Allocated => self.frees(),
            Measure::Active | Measure::Requested => self.completes(),
            Measure::Reserved => None,
        };
        match self {
            Self::Reserve(bytes) if measure == Measure::Reserved => bytes.into(),
            Self::Release(bytes) if measure == Measure::Reserved => -i128::from(bytes),
            _ => {
                let gained = self.begins().map_or(0, |block| classes[block.class as usize].size(measure));
                gained - ended.map_or(0, |class| classes[class as usize].size(measure))
            }
        }
    }
}

/// A block, and from when to when it was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its class.
    pub class: u32,
    /// The start for those that were there before.
    pub born: Position,
    /// When its free was requested, or it was freed; never for those that are there at the dump.
    pub freed: Position,
}

impl Life {
    /// Whether it is allocated at a place.
    pub fn is_held_at(&self, place: Position) -> bool {
        self.born <= place && place < self.freed
    }
}
