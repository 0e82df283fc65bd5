//! The history of one device: the actions of the caching allocator, rebuilt from its events and its final state.
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
//!
//! For example, a segment of 2 MiB has a block of 512 bytes in use at the dump, 512 free bytes, a block of 1,024 bytes in
//! use, and free bytes. The stages, each a file here, find out:
//!
//! | event | whose it is (`lifetimes`) | its size (`sizes`) | allocated (`counters`) |
//! |---|---|---|---|
//! | none | block C is in use at the dump, and nothing allocates it: it is older | 512, at the dump | 512 |
//! | 0: `alloc` of 500 bytes | block A, until event 2 | 512, by the rules of `rounding` | 1,024 |
//! | 1: `alloc` of 1,024 bytes | block B, until the dump | 1,024, at the dump | 2,048, the peak |
//! | 2: `free_requested` of 500 bytes | block A | | 1,536 |
//! | 3: `free_completed` of 500 bytes | block A | | 1,536 |
//!
//! `moves` makes a trace of that: C is held at the start, and the events are moves of A, B and A. `measure` holds the end
//! against the blocks at the dump, 512 + 1,024 = 1,536 bytes: all figures are exact.

mod agreement;
mod allocation;
mod backing;
mod census;
mod counters;
mod diagnose;
mod figures;
mod index_set;
mod layout;
mod left_out;
mod lifetimes;
mod measure;
mod moves;
mod occupied;
mod out_of_memory;
mod private_pools;
mod rounding;
mod segment_map;
mod sizes;
mod state;
mod stated;
mod timeline;

use std::collections::BTreeMap;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::pattern::Pattern;
use ptmem_snapshot::snapshot::{Action, BlockState, Device, Event, Snapshot};

pub use crate::trace::{Origin, Position};
pub use allocation::Allocation;
use allocation::Basis;
use figures::FreeBlocks;
pub use figures::{Checks, Counter, Figures, Fragmentation, HistoryKind, Oom, Recovered, StatedBytes};
pub use layout::{Layout, SegmentPart};
pub use private_pools::PrivatePool;
pub(crate) use private_pools::merged as merged_pools;
pub use segment_map::Home;
pub use state::state_at;
pub use timeline::Timeline;

use crate::tags::DeviceTags;
use crate::trace::Trace;
use census::Census;

/// The history of one device, replayed.
#[derive(Debug)]
pub struct Replay {
    /// The figures.
    pub figures: Figures,
    /// Number of events by action.
    pub actions: BTreeMap<Action, u64>,
    /// All that happened, move by move.
    pub trace: Trace,
    /// Every use of a block that the snapshot knows of.
    pub allocations: Vec<Allocation>,
    /// The address of each of them, where [`WantedResults::layout`] asks for it.
    pub addresses: Vec<u64>,
    /// Where blocks and segments lie, where [`WantedResults::layout`] asks for it.
    pub layout: Option<Layout>,
    /// The private pools of the final state, without names.
    pub private_pools: Vec<PrivatePool>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// True if all is left out that was to be ignored.
    pub ignores: bool,
}

/// Why a history cannot be replayed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReplayError {
    /// More events or blocks than positions.
    #[error("{device} has more than {MOST} events or blocks; split the recording (max_entries)", MOST = lifetimes::MOST_EVENTS)]
    TooLong {
        /// Device ordinal.
        device: DeviceId,
    },
    /// A sum that no memory could hold.
    #[error("the {what} bytes of {device} add up to more than 2^64-1; the file is damaged")]
    Overflow {
        /// Device ordinal.
        device: DeviceId,
        /// Which figure.
        what: &'static str,
    },
}

/// A device of a snapshot.
#[derive(Clone, Copy)]
struct DeviceView<'s> {
    snapshot: &'s Snapshot,
    /// Its ordinal.
    id: DeviceId,
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
pub fn run(snapshot: &Snapshot, id: DeviceId, device: &Device) -> Result<Replay, ReplayError> {
    run_with(snapshot, id, device, WantedResults::default())
}

/// Results of a replay other than the figures.
#[derive(Clone, Copy, Default)]
pub struct WantedResults<'n> {
    /// The tags of allocations that their events do not state.
    pub tags: Option<&'n DeviceTags>,
    /// Whether to keep the addresses of blocks and segments.
    pub layout: bool,
    /// The phases whose allocations do not count if they are freed within them.
    pub ignore: &'n [Pattern],
}

/// The same with more than the figures.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    snapshot: &Snapshot,
    id: DeviceId,
    device: &Device,
    wanted: WantedResults<'_>,
) -> Result<Replay, ReplayError> {
    let events = snapshot.events_of(device);
    let blocks: usize = device.segments.iter().map(|segment| segment.blocks.len()).sum();
    if events.len().max(blocks) > lifetimes::MOST_EVENTS {
        return Err(ReplayError::TooLong { device: id });
    }
    let active = device
        .segments
        .iter()
        .flat_map(|segment| segment.blocks.iter().copied())
        .filter(|block| block.state != BlockState::Inactive);
    let census = Census::of(events);
    let lifetimes = lifetimes::trace(events, &active.collect::<Vec<_>>(), &census);
    measure::measure(DeviceView { snapshot, id, device }, lifetimes, census, wanted)
}
