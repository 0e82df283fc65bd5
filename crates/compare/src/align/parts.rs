//! The parts of a recording that one side lacks.

use ptmem_base::sides::Side;

/// An end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

/// A part of a recording that is missing on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingPart {
    /// Where it is missing.
    pub side: Side,
    /// Which part.
    pub end: End,
    /// Its share of the allocations of the other side, in thousandths.
    pub share: u64,
}

/// The parts that one of two recordings lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parts {
    /// Those that are known to be missing.
    pub missing: Vec<MissingPart>,
    /// The side whose allocations are, one by one, those at an end of the other: its recording or its program is shorter.
    pub unclear: Option<Side>,
}
