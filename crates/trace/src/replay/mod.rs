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
mod device;
mod diagnose;
mod facts;
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

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{BlockState, Device, Snapshot};

pub use crate::trace::{Origin, Position};
pub use allocation::Allocation;
pub use facts::{Replay, ReplayError, WantedResults};
pub use figures::{Checks, Counter, Figures, Fragmentation, HistoryKind, Oom, Recovered, StatedBytes};
pub use layout::{Layout, SegmentPart};
pub use left_out::Benchmarks;
pub use private_pools::PrivatePool;
pub(crate) use private_pools::merged as merged_pools;
pub use segment_map::Home;
pub use state::state_at;
pub use timeline::Timeline;

use census::Census;
use device::DeviceView;

/// Number of events that are older than one before them.
fn backwards(snapshot: &Snapshot, device: &Device) -> u64 {
    let mut backwards = 0;
    let mut latest = i64::MIN;
    if snapshot.times.may_go_back() {
        for time in snapshot.times_of(device).flatten() {
            backwards += u64::from(time < latest);
            latest = latest.max(time);
        }
    }
    backwards
}

/// Replays the history of a device.
///
/// # Errors
/// Where a sum leaves 64 bits, or the history is too long.
pub fn run(snapshot: &Snapshot, id: DeviceId, device: &Device) -> Result<Replay, ReplayError> {
    run_with(snapshot, id, device, WantedResults::default())
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
    let census = Census::of(events, backwards(snapshot, device));
    let lifetimes = lifetimes::trace(events, &active.collect::<Vec<_>>(), &census);
    measure::measure(DeviceView { snapshot, id, device }, lifetimes, census, wanted)
}
