//! Curves over a recording.

use super::Phrase;
use crate::sides::Side;

/// Curves on one scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// The curves, before the after.
    pub(crate) curves: Vec<Curve>,
    /// The highest value of all curves, which is the top of the scale.
    pub(crate) top: u64,
    /// A line that says what the values are, where they are not allocated bytes over the recording.
    pub(crate) caption: Option<Phrase>,
}

/// Allocated bytes over the recording, or at the end of each step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// Its side; none where there is only one.
    pub side: Option<Side>,
    /// The highest value in each of several equal parts of the recording.
    pub points: Vec<u64>,
    /// The highest value.
    pub(crate) peak: u64,
    /// The place of the peak and the memory at the start, where these are marked.
    pub(crate) marks: Option<Marks>,
}

/// Marks below a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Bytes at the start of the recording.
    pub baseline: u64,
    /// The event at which the peak lies.
    pub(crate) peak_event: usize,
    /// The number of events.
    pub events: usize,
}
