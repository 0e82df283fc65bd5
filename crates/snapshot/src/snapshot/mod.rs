//! PyTorch's model of a CUDA memory snapshot, and reading it.
//!
//! The shape of the data and the names are PyTorch's own (`torch.cuda.memory._snapshot`), of release 1.13 and later.
//! Strings, frames and stacks are interned behind small handles: a snapshot repeats the same few hundred stacks tens of
//! thousands of times.

mod build;
mod copy;
mod error;
mod field;
mod forward;
mod run;
mod run_devices;
mod settings;
mod tables;
mod value;

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

use ptmem_base::device::DeviceId;
use ptmem_base::text::cut;

pub use copy::Copier;
pub use error::{Damage, SnapshotError};
pub use run::{Ending, EndingKind, Followed, FunctionsOfFile, Guess, OwnPackage, RecordedSteps, RunFacts};
pub use run_devices::{CardFacts, CollectedBlocks, DeviceCounters, DeviceModules, OutermostCalls, StatedCounters};
pub use settings::{AllocatorSettings, ParseSettingsError};
pub use tables::{Frame, FrameId, StackId, StringId, Tables, Tags, TagsId};

use crate::input::{Input, InputFormat};
use crate::pickle;

/// The contents of a snapshot file.
#[derive(Debug)]
pub struct Snapshot {
    /// Strings, frames, stacks and tags that the rest refers to.
    pub tables: Tables,
    /// All events; every device owns a range of them.
    pub events: Vec<Event>,
    /// All devices that have segments or events, and pinned host memory where the file has it.
    pub devices: BTreeMap<DeviceId, Device>,
    /// `allocator_settings` as they were at the dump.
    pub settings: AllocatorSettings,
    /// `external_annotations`, in file order.
    pub annotations: Vec<Annotation>,
    /// True if the release keeps annotations in its snapshots, as those from 2.5 on do.
    pub keeps_annotations: bool,
    /// Facts about the run, where the recorder added some.
    pub run: Option<RunFacts>,
    /// True if the file has a `device_traces` key; releases before 2.0, and
    /// `torch.cuda.memory_snapshot()` in all of them, write segments alone.
    pub has_traces: bool,
    /// True if blocks lack an address, as before release 2.1. Release 2.0 does not record frees of blocks that are
    /// older than the recording, nor anything of a device that was not the current one when recording was switched on.
    pub lacks_block_addresses: bool,
    /// True if the list of `device_traces` is empty although there are segments, as with `include_traces=False`.
    pub leaves_out_traces: bool,
    /// Keys that were not read because no release of PyTorch up to 2.15 writes them: the first few.
    pub unread: Vec<(DictKind, StringId)>,
}

/// A part of a snapshot file whose dictionaries have keys of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum DictKind {
    /// The top level.
    #[strum(to_string = "the file")]
    File,
    /// A segment.
    #[strum(to_string = "segments")]
    Segment,
    /// A block.
    #[strum(to_string = "blocks")]
    Block,
    /// An event.
    #[strum(to_string = "events")]
    Event,
    /// A frame of a stack.
    #[strum(to_string = "frames")]
    Frame,
}

/// The part of a snapshot that belongs to one device.
#[derive(Debug, Default)]
pub struct Device {
    /// State at the dump, in file order.
    pub segments: Vec<Segment>,
    /// The recorded history: indices into [`Snapshot::events`].
    pub events: Range<usize>,
    /// True if the ring buffer dropped events; `None` where the release does not say.
    pub overflowed: Option<bool>,
}

impl Snapshot {
    /// The recorded history of a device, oldest first.
    #[must_use]
    pub fn events_of(&self, device: &Device) -> &[Event] {
        &self.events[device.events.clone()]
    }

    /// The histories that are recorded together with that of a device: GPUs are switched on together, and pinned host memory
    /// by an option of its own.
    pub fn recorded_with(&self, id: DeviceId) -> impl Iterator<Item = &[Event]> + Clone {
        let alike = self.devices.iter().filter(move |(other, _)| other.is_device() == id.is_device());
        alike.map(|(_, device)| self.events_of(device))
    }
}

/// Memory that the allocator got from the driver: one `cudaMalloc`, or one contiguous mapped range of
/// an expandable segment.
#[derive(Debug, Clone)]
pub struct Segment {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub total_size: u64,
    /// Bytes in blocks of state `active_allocated`, as PyTorch summed them, where the file says.
    pub allocated_size: Option<u64>,
    /// Bytes in active blocks, as PyTorch summed them, where the file says.
    pub active_size: Option<u64>,
    /// `segment_type`: true for the pool of blocks up to 1 MiB.
    pub small_pool: bool,
    /// `stream` that it serves, a raw pointer. `None` where the file does not say.
    pub stream: Option<i128>,
    /// `segment_pool_id`: (0, 0) is the default pool, others are private. `None` before release 2.1.
    pub pool_id: Option<(u64, u64)>,
    /// Mapped piecewise (`cuMemMap`) rather than by one `cudaMalloc`.
    pub is_expandable: bool,
    /// If requested; `None` where nothing was captured.
    pub stack: Option<StackId>,
    /// The blocks, by address and without gaps.
    pub blocks: Vec<Block>,
}

/// Bytes of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockSums {
    /// All of them.
    pub total: i128,
    /// Those held by tensors.
    pub allocated: i128,
    /// Those that are not free.
    pub active: i128,
    /// Bytes that the program asked for in them.
    pub requested: i128,
}

impl Segment {
    /// The sums over its blocks.
    #[must_use]
    pub fn sums(&self) -> BlockSums {
        let mut sums = BlockSums::default();
        for block in &self.blocks {
            let size = i128::from(block.size);
            sums.total += size;
            if block.state != BlockState::Inactive {
                sums.active += size;
                sums.requested += i128::from(block.requested_size.unwrap_or(block.size));
            }
            sums.allocated += if block.state == BlockState::ActiveAllocated { size } else { 0 };
        }
        sums
    }
}

/// A part of a segment.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// First address (derived from the sizes before it where the release did not write it).
    pub address: u64,
    /// Bytes that the block occupies.
    pub size: u64,
    /// Requested bytes. Stale on inactive blocks; `None` where no release key says it.
    pub requested_size: Option<u64>,
    /// Its use.
    pub state: BlockState,
    /// Where it was allocated; `None` where nothing was captured.
    pub stack: Option<StackId>,
}

/// The state of a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BlockState {
    /// Held by a tensor.
    ActiveAllocated,
    /// Freed by its tensor, still in use on another stream (`active_pending_free`, which the
    /// documentation calls `active_awaiting_free`).
    #[strum(to_string = "active_pending_free", serialize = "active_awaiting_free")]
    ActivePendingFree,
    /// Free.
    Inactive,
}

/// One entry of a device trace, in 32 bytes because a snapshot holds millions.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Address; for [`Action::Oom`] the free bytes of the device instead (`device_free`).
    pub addr: u64,
    /// Bytes; the meaning depends on the action.
    pub size: u64,
    /// Microseconds since the Unix epoch; [`Event::NO_TIME`] before release 2.2.
    pub time_us: i64,
    /// The captured stack; `None` where there is no `frames` key.
    pub stack: Option<StackId>,
    /// Tags, which rarely change from one event to the next.
    pub tags: TagsId,
    /// The action.
    pub action: Action,
}

impl Event {
    /// In [`Event::time_us`]: the release wrote no times.
    pub const NO_TIME: i64 = i64::MIN;

    /// One of which no key was read.
    fn empty(tags: TagsId) -> Self {
        Self { addr: 0, size: 0, time_us: Self::NO_TIME, stack: None, tags, action: Action::Snapshot }
    }

    /// The name of the action in the file, at most 64 bytes of it.
    #[must_use]
    pub fn action_name<'t>(&self, tables: &'t Tables) -> &'t str {
        match self.action {
            Action::Other => tables.tags(self.tags).action.map_or("", |name| cut(tables.string(name), 64)),
            known => known.into(),
        }
    }

    /// The time, where the release wrote one.
    #[must_use]
    pub fn time(&self) -> Option<i64> {
        (self.time_us != Self::NO_TIME).then_some(self.time_us)
    }
}

/// The action of an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    /// A block was handed out; size: bytes requested.
    Alloc,
    /// A tensor gave its block back.
    FreeRequested,
    /// The block became reusable.
    FreeCompleted,
    /// `cudaMalloc`.
    SegmentAlloc,
    /// `cudaFree`.
    SegmentFree,
    /// Part of an expandable segment was mapped.
    SegmentMap,
    /// Part of an expandable segment was unmapped, possibly of an earlier map.
    SegmentUnmap,
    /// A snapshot was taken; size: active bytes at that moment.
    Snapshot,
    /// An allocation failed; size: bytes that it would have occupied.
    Oom,
    /// Anything else; skipped. Its name is in [`Tags::action`].
    #[strum(disabled)]
    Other,
}

impl Action {
    /// The number of actions.
    pub const COUNT: usize = Self::Other as usize + 1;
}

/// An entry of `external_annotations`: a `record_function` marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// True if the range starts or ends.
    pub starts: bool,
    /// Its name.
    pub name: StringId,
    /// The current device of the thread, often not the device that it concerns.
    pub device: DeviceId,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
}

/// Reads a snapshot from the bytes of a file.
///
/// # Errors
/// If the input is not a snapshot (with the format that it appears to be), or is damaged.
pub fn read(mut input: impl Read) -> Result<Snapshot, SnapshotError> {
    let input = Input::new(&mut input).map_err(|error| pickle::PickleError { offset: 0, kind: error.into() })?;
    decode(input, false)
}

/// Reads a snapshot from an input of which the format is known, with the source files that the recorder added if `keeps_sources`.
///
/// # Errors
/// As [`read`].
pub fn decode(input: Input<'_>, keeps_sources: bool) -> Result<Snapshot, SnapshotError> {
    if input.format != InputFormat::Pickle {
        return Err(SnapshotError::NotAPickle(input.format));
    }
    let mut builder = build::SnapshotBuilder::new(keeps_sources);
    let root = pickle::read(input, &mut builder)?;
    builder.finish(root)
}
