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
    /// The steps that it consists of, where it is equal steps.
    pub steps: Option<ExtraSteps>,
}

/// Equal steps that one side makes beyond those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraSteps {
    /// Their number.
    pub extra: usize,
    /// The number of all its equal steps.
    pub count: usize,
}

/// The parts that one of two recordings lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parts {
    /// Those that are known to be missing.
    pub missing: Vec<MissingPart>,
    /// The side whose allocations are, one by one, those at an end of the other: its recording or its program is shorter.
    pub unclear: Option<Side>,
}
