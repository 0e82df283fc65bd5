//! The contents of a snapshot file.

use std::collections::BTreeMap;
use std::ops::Range;

use ptmem_base::device::DeviceId;

use super::event::Event;
use super::run::RunFacts;
use super::segment::Segment;
use super::settings::AllocatorSettings;
use super::tables::{StringId, Tables};
use super::times::EventTimes;

/// The contents of a snapshot file.
#[derive(Debug)]
pub struct Snapshot {
    /// Strings, frames, stacks and tags that the rest refers to.
    pub tables: Tables,
    /// All events; every device owns a range of them.
    pub events: Vec<Event>,
    /// Their times, which releases before 2.2 do not write.
    pub times: EventTimes,
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

    /// The times of the history of a device, in microseconds since the Unix epoch.
    pub fn times_of(&self, device: &Device) -> impl Iterator<Item = Option<i64>> + Clone {
        self.times.range(device.events.clone())
    }

    /// The zero of the clock of all devices: the earliest first time of any. One time means one moment on all of them.
    #[must_use]
    pub fn first_time(&self) -> Option<i64> {
        self.devices.values().filter_map(|device| self.times_of(device).flatten().next()).min()
    }

    /// The time of an event in the history of a device, by its index there.
    #[must_use]
    pub fn time_of(&self, device: &Device, index: usize) -> Option<i64> {
        let at = device.events.clone().nth(index)?;
        self.times.range(at..at + 1).next().flatten()
    }

    /// The histories that are recorded together with that of a device: GPUs are switched on together, and pinned host memory
    /// by an option of its own.
    pub fn recorded_with(&self, id: DeviceId) -> impl Iterator<Item = &[Event]> + Clone {
        let alike = self.devices.iter().filter(move |(other, _)| other.is_device() == id.is_device());
        alike.map(|(_, device)| self.events_of(device))
    }
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
