//! The figures of a device, and how far they can be trusted.

use serde::{Deserialize, Serialize};

use super::Timeline;
use crate::trace::{Measure, Position, Window};

/// One of PyTorch's byte counters over the history. `None` is "cannot be known".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counter {
    /// Bytes before the first event.
    pub baseline: Option<u64>,
    /// The highest value, the start included.
    pub peak: Option<u64>,
    /// When it was first reached.
    #[serde(rename = "peak_event")]
    pub peak_at: Option<Position>,
    /// Bytes at the dump, from the final state.
    pub end: Option<u64>,
    /// How far `baseline` may be from the truth, in bytes; 0 is exact, `None` is unknown.
    pub baseline_error: Option<u64>,
    /// How far `peak` may be from the truth, in bytes; 0 is exact, `None` is unknown.
    pub peak_error: Option<u64>,
    /// True if baseline and peak are no more than the least that they were, since memory was given back to the device
    /// unseen: then their bound is the memory of the largest device of that time.
    #[serde(rename = "at_least", default)]
    pub is_least: bool,
}

impl Counter {
    /// True if the figures before the dump are known.
    pub(crate) fn has_history(&self) -> bool {
        self.baseline.is_some() && self.peak.is_some()
    }

    /// True if every figure is exact.
    pub fn exact(&self) -> bool {
        self.max_error() == Some(0) && self.baseline.is_some() && self.peak.is_some()
    }

    /// How far any of the figures may be from the truth; `None` is unknown.
    pub fn max_error(&self) -> Option<u64> {
        Some(self.baseline_error?.max(self.peak_error?))
    }
}

/// Reserved but not active bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fragmentation {
    /// At the reserved peak; `None` is "cannot be known".
    pub peak: Option<u64>,
    /// How far that may be from the truth, because the sizes of active blocks are not certain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peak_error: u64,
    /// At the end.
    pub end: Option<u64>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Bytes that are reserved and not active.
pub(super) fn fragmentation(reserved: i128, active: i128) -> u64 {
    u64::try_from((reserved - active).max(0)).unwrap_or(u64::MAX)
}

/// The self-checks of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checks {
    /// Allocations made inside the history and alive at the end.
    pub sizes: Recovered,
    /// `snapshot` events, which state active bytes.
    pub checkpoints: StatedBytes,
    /// True if the replay ends on the final state, in all four counters.
    pub end_matches: bool,
}

impl Checks {
    /// True if none failed.
    pub fn hold(&self) -> bool {
        self.sizes.recovered == self.sizes.total
            && self.checkpoints.matched == self.checkpoints.total
            && self.end_matches
    }
}

/// Block sizes that a snapshot does not state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recovered {
    /// Those that were recovered.
    pub recovered: u64,
    /// All of them.
    pub total: u64,
}

/// Bytes that a snapshot states along the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatedBytes {
    /// Those that the replay agrees with.
    pub matched: u64,
    /// All of them.
    pub total: u64,
}

/// A failed allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Oom {
    /// Index of the event.
    pub event: u32,
    /// Requested bytes, rounded.
    pub requested: u64,
    /// Bytes that the device had free.
    pub device_free: u64,
    /// Allocated bytes at that moment. `None` is "cannot be known", here and below.
    pub allocated: Option<u64>,
    /// Active bytes at that moment: allocated, or not yet free on every stream.
    pub active: Option<u64>,
    /// Reserved bytes at that moment.
    pub reserved: Option<u64>,
    /// Bytes of the free blocks of the pool that was asked; of the first 16 failed allocations of a device only.
    pub pool_free: Option<u64>,
    /// The largest of those blocks.
    pub largest_free: Option<u64>,
    /// How far any of these figures may be from the truth, in bytes; 0 is exact, `None` is unknown.
    pub max_error: Option<u64>,
}

impl Oom {
    /// The moment of the event.
    pub fn at(&self) -> Position {
        Position::after(self.event as usize)
    }

    /// Bytes that would have been allocated if it had not failed.
    pub fn demand(&self) -> Option<u64> {
        Some(self.allocated?.saturating_add(self.requested))
    }

    /// Reserved but not active bytes.
    pub fn fragmentation(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active?))
    }

    /// Those of [`Oom::fragmentation`] that no request to that pool can use: of other streams, for requests of
    /// other sizes, in private pools.
    pub fn unusable(&self) -> Option<u64> {
        Some(self.fragmentation()?.saturating_sub(self.pool_free?))
    }
}

/// Free blocks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeBlocks {
    /// All of them together.
    pub(super) bytes: u64,
    /// The largest.
    pub(super) largest: u64,
}

/// The kind of history that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKind {
    /// Allocations and frees were recorded, as far as there were any.
    Recorded,
    /// Nothing, or one event (`_record_memory_history("state")`), was recorded, and the final state holds memory.
    StateOnly,
    /// Frees were recorded and allocations were not (`skip_actions`): a peak cannot be known.
    NoAllocations,
    /// No allocation was recorded, and nothing is held, nor kept reserved.
    #[default]
    Empty,
    /// Only figures, without a history or a state.
    NumbersOnly,
}

impl HistoryKind {
    /// True if peaks are known.
    pub fn has_peaks(self) -> bool {
        match self {
            Self::Recorded | Self::NumbersOnly => true,
            Self::StateOnly | Self::NoAllocations | Self::Empty => false,
        }
    }
}

/// The figures of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// The kind of history.
    pub history: HistoryKind,
    /// Sum of block sizes held by tensors: `allocated_bytes.all`.
    pub allocated: Counter,
    /// The same with blocks whose free is pending: `active_bytes.all`.
    pub active: Counter,
    /// Requested bytes of active blocks: `requested_bytes.all`.
    pub requested: Counter,
    /// Bytes held from the driver: `reserved_bytes.all`.
    pub reserved: Counter,
    /// Reserved but not active bytes.
    pub fragmentation: Fragmentation,
    /// Number of `alloc` events.
    #[serde(rename = "allocations")]
    pub allocation_count: u64,
    /// Number of frees (completions, or requests where those were skipped).
    #[serde(rename = "frees")]
    pub free_count: u64,
    /// Block bytes of all `alloc` events together.
    pub allocated_total: u64,
    /// Failed allocations. A saved profile has them with their stacks.
    #[serde(skip)]
    pub ooms: Vec<Oom>,
    /// Number of failed allocations of which only PyTorch's counter is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_count: u64,
    /// The self-checks.
    pub checks: Checks,
    /// A coarse curve.
    #[serde(skip)]
    pub timeline: Timeline,
}
impl Figures {
    /// Number of allocations that failed for lack of memory.
    pub fn failures(&self) -> u64 {
        (self.ooms.len() as u64).saturating_add(self.failed_count)
    }

    /// True if an allocation failed for lack of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        self.failures() > 0
    }

    /// One of the counters.
    pub fn counter(&self, measure: Measure) -> &Counter {
        match measure {
            Measure::Allocated => &self.allocated,
            Measure::Active => &self.active,
            Measure::Requested => &self.requested,
            Measure::Reserved => &self.reserved,
        }
    }

    /// When an allocation failed for the first time.
    pub fn first_oom(&self) -> Option<Position> {
        self.ooms.first().map(Oom::at)
    }

    /// Whether one failed in a part of the history.
    pub fn ran_out_within(&self, window: Window) -> bool {
        let first = self.ooms.partition_point(|oom| oom.at() <= window.from);
        self.ooms.get(first).is_some_and(|oom| oom.at() <= window.to)
    }
}
