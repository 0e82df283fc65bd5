//! One device's history: what the caching allocator did, rebuilt from its events and its final state.
//!
//! The history says what was requested; what a block really occupies, and so
//! `torch.cuda.max_memory_allocated()`, follows from simulating the allocator: it hands out the head of
//! a free block, splits off the rest only if the rest is large enough, and always merges free
//! neighbours. So at an allocation the free block that was taken reaches from its address to the next
//! occupied one or the end of the segment, and both are known.
//!
//! The baseline is rebuilt backwards from the final state. Every run checks itself: recovered sizes
//! against the final blocks, `snapshot` events against active bytes, the end of the replay against the
//! final state. What fails becomes a diagnostic, and the figure is no longer called exact.

mod backing;
mod census;
mod counters;
mod diagnose;
mod figures;
mod index_set;
mod layout;
mod lifetimes;
mod moves;
mod occupied;
mod out_of_memory;
mod rounding;
mod segment_map;
mod sizes;
mod state;
mod stated;

use std::collections::BTreeMap;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_snapshot::snapshot::{Action, BlockState, Device, Event, Snapshot, StackId};
use serde::{Deserialize, Serialize};

use crate::trace::Bucket;
pub use crate::trace::{Origin, Position};
pub use layout::{Layout, SegmentPart};
pub use segment_map::Home;
pub use state::state_at;

use crate::tags::DeviceTags;
use crate::trace::Trace;
use census::Census;

/// One use of a block, from `alloc` to `free_completed`.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    /// Bytes that the block occupies.
    pub bytes: u64,
    /// Requested bytes.
    pub requested: u64,
    /// Where it was allocated, if that was captured (a captured stack without frames does not count
    /// as known, see [`Allocation::origin`]).
    pub stack: Option<StackId>,
    /// `alloc`; the start for what was there before.
    pub born: Position,
    /// `free_requested`: from here on no longer allocated.
    pub freed: Position,
    /// `free_completed`: from here on no longer active.
    pub completed: Position,
    /// The index of its address among all block addresses; once the trace is built, its class there. (Long histories
    /// have so many that each field counts.)
    place: u32,
    /// Where `bytes` comes from.
    basis: Basis,
}

/// The source of the size of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// The final state says it.
    FinalState,
    /// It follows from the free block that was taken.
    Rule,
    /// The rounded request; it may be larger.
    Request,
}

impl Allocation {
    fn new(place: u32, requested: u64) -> Self {
        Self {
            bytes: 0,
            requested,
            stack: None,
            born: Position::START,
            freed: Position::NEVER,
            completed: Position::NEVER,
            place,
            basis: Basis::Request,
        }
    }

    fn end(&mut self, now: Position) {
        self.freed = self.freed.min(now);
        self.completed = now;
    }

    /// True if it counts as allocated until the completion of its free.
    fn is_freed_by_completion(&self) -> bool {
        self.completed != Position::NEVER && self.freed == self.completed
    }

    /// True if it counts as allocated at that moment.
    #[must_use]
    pub fn allocated_at(&self, moment: Position) -> bool {
        self.born <= moment && moment < self.freed
    }

    /// Its class in the trace of the replay.
    #[must_use]
    pub fn class(&self) -> u32 {
        self.place
    }

    /// To whom its bytes belong.
    #[must_use]
    pub fn origin(&self, snapshot: &Snapshot) -> Origin {
        match self.stack {
            Some(stack) if snapshot.tables.has_frames(stack) => Origin::Stack(stack),
            _ if self.born != Position::START => Origin::Bucket(Bucket::NoFrames),
            _ if self.basis == Basis::FinalState => Origin::Bucket(Bucket::BeforeRecording),
            _ => Origin::Bucket(Bucket::NotRecorded),
        }
    }
}

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
    /// True if every figure is exact.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.max_error() == Some(0) && self.baseline.is_some() && self.peak.is_some()
    }

    /// How far any of the figures may be from the truth; `None` is unknown.
    #[must_use]
    pub fn max_error(&self) -> Option<u64> {
        Some(self.baseline_error?.max(self.peak_error?))
    }
}

/// Reserved but not active bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fragmentation {
    /// At the reserved peak; `None` is "cannot be known".
    pub peak: Option<u64>,
    /// At the end.
    pub end: Option<u64>,
}

/// The self-checks of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checks {
    /// Allocations made inside the history and alive at the end.
    pub sizes: Recovered,
    /// `snapshot` events, which state active bytes.
    pub checkpoints: Matched,
    /// True if the replay ends on the final state, in all four counters.
    pub end_matches: bool,
}

impl Checks {
    /// True if none failed.
    #[must_use]
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
pub struct Matched {
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
    /// Bytes that would have been allocated if it had not failed.
    #[must_use]
    pub fn demand(&self) -> Option<u64> {
        Some(self.allocated?.saturating_add(self.requested))
    }

    /// Reserved but not active bytes.
    #[must_use]
    pub fn fragmentation(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active?))
    }

    /// Those of [`Oom::fragmentation`] that no request to that pool can use: of other streams, for requests of
    /// other sizes, in private pools.
    #[must_use]
    pub fn unusable(&self) -> Option<u64> {
        Some(self.fragmentation()?.saturating_sub(self.pool_free?))
    }
}

/// Free blocks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FreeBlocks {
    /// All of them together.
    bytes: u64,
    /// The largest.
    largest: u64,
}

/// A coarse curve of the history: the highest values in equal parts of it, by event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timeline {
    /// Allocated bytes.
    pub allocated: Vec<u64>,
    /// Reserved bytes; empty where they cannot be known.
    pub reserved: Vec<u64>,
}

/// The kind of history that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKind {
    /// Allocations and frees were recorded, as far as there were any.
    Recorded,
    /// Nothing, or one event (`_record_memory_history("state")`), was recorded, and the final state holds blocks.
    StateOnly,
    /// Frees were recorded and allocations were not (`skip_actions`): a peak cannot be known.
    NoAllocations,
    /// No allocation was recorded and nothing is held.
    #[default]
    Empty,
    /// Figures alone, without a history or a state.
    NumbersOnly,
}

impl HistoryKind {
    /// True if peaks are known.
    #[must_use]
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
    /// The self-checks.
    pub checks: Checks,
    /// A coarse curve.
    #[serde(skip)]
    pub timeline: Timeline,
}

impl Figures {
    /// When an allocation failed for the first time.
    #[must_use]
    pub fn first_oom(&self) -> Option<Position> {
        self.ooms.first().map(|oom| Position::after(oom.event as usize))
    }
}

/// The history of one device, replayed.
#[derive(Debug)]
pub struct Replay {
    /// The figures.
    pub figures: Figures,
    /// Number of events by action.
    pub actions: BTreeMap<Action, u64>,
    /// The moment of the dump, just after the last event: the only one that the final state itself shows.
    pub dump: Position,
    /// All that happened, move by move.
    pub trace: Trace,
    /// Every use of a block that the snapshot knows of.
    pub allocations: Vec<Allocation>,
    /// The address of each of them, where [`Wanted::layout`] asks for it.
    pub addresses: Vec<u64>,
    /// Where blocks and segments lie, where [`Wanted::layout`] asks for it.
    pub layout: Option<Layout>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why a history cannot be replayed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// More events or blocks than positions.
    #[error("device {device} has more than {MOST} events or blocks; split the recording (max_entries)", MOST = lifetimes::MOST_EVENTS)]
    TooLong {
        /// Device ordinal.
        device: u32,
    },
    /// A sum that no memory could hold.
    #[error("the {what} bytes of device {device} add up to more than 2^64-1; the file is damaged")]
    Overflow {
        /// Device ordinal.
        device: u32,
        /// Which figure.
        what: &'static str,
    },
}

/// A device of a snapshot.
#[derive(Clone, Copy)]
struct DeviceView<'s> {
    snapshot: &'s Snapshot,
    /// Its ordinal.
    id: u32,
    device: &'s Device,
}

impl<'s> DeviceView<'s> {
    /// Its recorded history, oldest first.
    fn events(&self) -> &'s [Event] {
        self.snapshot.events_of(self.device)
    }
}

/// Replays the history of a device.
///
/// # Errors
/// Where a sum leaves 64 bits, or the history is too long.
pub fn run(snapshot: &Snapshot, id: u32, device: &Device) -> Result<Replay, Error> {
    run_with(snapshot, id, device, Wanted::default())
}

/// What a replay gives beside the figures.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'n> {
    /// The tags of allocations that their events do not state.
    pub tags: Option<&'n DeviceTags>,
    /// Whether to keep the addresses of blocks and segments.
    pub layout: bool,
}

/// The same with more than the figures.
///
/// # Errors
/// As [`run`].
pub fn run_with(snapshot: &Snapshot, id: u32, device: &Device, wanted: Wanted<'_>) -> Result<Replay, Error> {
    let events = snapshot.events_of(device);
    let blocks: usize = device.segments.iter().map(|segment| segment.blocks.len()).sum();
    if events.len().max(blocks) > lifetimes::MOST_EVENTS {
        return Err(Error::TooLong { device: id });
    }
    let active = device
        .segments
        .iter()
        .flat_map(|segment| segment.blocks.iter().copied())
        .filter(|block| block.state != BlockState::Inactive);
    let census = Census::of(events);
    let lifetimes = lifetimes::trace(events, &active.collect::<Vec<_>>(), &census);
    figures::measure(DeviceView { snapshot, id, device }, lifetimes, census, wanted)
}
