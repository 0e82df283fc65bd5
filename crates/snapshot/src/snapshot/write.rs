//! Writes snapshots as PyTorch does, so that its own viewer opens them.
//!
//! Every string, frame and list of frames is written once: the file is smaller than PyTorch's by far.

mod stacks;

use ptmem_base::device::DeviceId;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::field::Key;
use super::{
    Action, AllocatorSettings, Annotation, Block, BlockState, Device, Event, Segment, Snapshot, StackId, StringId, Tags,
};
use crate::pickle::{Reference, Writer};

/// The parts of a snapshot that are written.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'s> {
    /// The snapshot that they are of, with the strings, frames, stacks and tags that the rest refers to.
    pub snapshot: &'s Snapshot,
    /// All events; every device owns a range of them.
    pub events: &'s [Event],
    /// Its devices, in order.
    pub devices: &'s [(DeviceId, Device)],
    /// Annotations, in order.
    pub annotations: &'s [Annotation],
    /// True if that is all of the history.
    pub is_whole: bool,
}

/// Writes a snapshot as the bytes of a pickle.
#[must_use]
pub fn write(contents: Contents<'_>) -> Vec<u8> {
    let mut writer = SnapshotWriter::new(contents);
    if contents.snapshot.has_traces {
        writer.snapshot();
    } else {
        writer.segments(DeviceId::is_device);
    }
    writer.out.finish()
}

/// Values that were written, by the index of the copied value.
type Written = Vec<Option<Reference>>;

struct SnapshotWriter<'s> {
    contents: Contents<'s>,
    out: Writer,
    strings: Written,
    frames: Written,
    stacks: Written,
    forward: FxHashMap<StackId, Reference>,
    /// Texts of the format that are not keys.
    words: FxHashMap<&'static str, Reference>,
    empty_list: Option<Reference>,
    has_compile_context: bool,
    has_metadata: bool,
}

impl<'s> SnapshotWriter<'s> {
    fn new(contents: Contents<'s>) -> Self {
        let tables = &contents.snapshot.tables;
        Self {
            out: Writer::default(),
            strings: vec![None; tables.strings().len()],
            frames: vec![None; tables.frames().len()],
            stacks: vec![None; tables.stacks().len()],
            forward: FxHashMap::default(),
            words: FxHashMap::default(),
            empty_list: None,
            has_compile_context: tables.all_tags().any(|tags| tags.compile_context.is_some()),
            has_metadata: tables.all_tags().any(|tags| tags.user_metadata.is_some()),
            contents,
        }
    }

    fn snapshot(&mut self) {
        self.out.begin_dict();
        self.key(Key::Segments);
        self.segments(DeviceId::is_device);
        self.key(Key::DeviceTraces);
        self.traces();
        if let Some((_, host)) = self.contents.devices.iter().find(|(id, _)| !id.is_device()) {
            self.key(Key::HostSegments);
            self.segments(|id| !id.is_device());
            self.key(Key::HostTraces);
            self.list(&self.contents.events[host.events.clone()], Self::event);
        }
        let Snapshot { settings, run, .. } = self.contents.snapshot;
        if settings.present && !settings.given {
            self.key(Key::AllocatorSettings);
            self.settings();
        }
        if !self.contents.annotations.is_empty() {
            self.key(Key::ExternalAnnotations);
            self.list(self.contents.annotations, Self::annotation);
        }
        if let Some(run) = run {
            self.key(Key::Ptmem);
            self.json(&run.to_value(self.contents.is_whole));
        }
        self.out.end();
    }

    /// A value of the facts, which nest as deep as their types.
    fn json(&mut self, value: &Json) {
        match value {
            Json::Null => self.out.none(),
            Json::Bool(value) => self.out.bool(*value),
            Json::Number(number) => self.out.int(number.as_u64().unwrap_or_default()),
            Json::String(text) => self.out.str(text),
            Json::Array(items) => self.list(items, Self::json),
            Json::Object(entries) => {
                self.out.begin_dict();
                for (key, value) in entries {
                    self.out.next();
                    self.out.str(key);
                    self.json(value);
                }
                self.out.end();
            }
        }
    }

    /// A list of which each item is written in the same way.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Self, T)) {
        self.out.begin_list();
        for item in items {
            self.out.next();
            write(self, item);
        }
        self.out.end();
    }

    /// Announces an entry of a dictionary.
    fn key(&mut self, key: Key) {
        self.out.next();
        self.string(StringId::from_index(key as usize));
    }

    fn entry(&mut self, key: Key, value: impl Into<i128>) {
        self.key(key);
        self.out.int(value);
    }

    fn string(&mut self, id: StringId) {
        if let Some(reference) = self.strings[id.index()] {
            return self.out.refer(reference);
        }
        self.out.str(self.contents.snapshot.tables.string(id));
        self.strings[id.index()] = Some(self.out.remember());
    }

    fn word(&mut self, word: &'static str) {
        if let Some(&reference) = self.words.get(word) {
            return self.out.refer(reference);
        }
        self.out.str(word);
        self.words.insert(word, self.out.remember());
    }

    fn pool_id(&mut self, key: Key, pool: Option<(u64, u64)>) {
        if let Some((device, number)) = pool {
            self.key(key);
            self.out.int(device);
            self.out.int(number);
            self.out.pair();
        }
    }

    fn segments(&mut self, belongs: impl Fn(DeviceId) -> bool) {
        let devices = self.contents.devices.iter().filter(|(id, _)| belongs(*id));
        let segments = devices.flat_map(|(id, device)| device.segments.iter().map(|segment| (*id, segment)));
        self.list(segments, |writer, (id, segment)| writer.segment(id, segment));
    }

    fn segment(&mut self, device: DeviceId, segment: &Segment) {
        let sums = segment.sums();
        self.out.begin_dict();
        self.entry(Key::Device, i64::from(device));
        self.entry(Key::Address, segment.address);
        self.entry(Key::TotalSize, segment.total_size);
        self.entry(Key::AllocatedSize, sums.allocated);
        self.entry(Key::ActiveSize, sums.active);
        self.entry(Key::RequestedSize, sums.requested);
        if let Some(stream) = segment.stream {
            self.entry(Key::Stream, stream);
        }
        self.key(Key::SegmentType);
        self.word(if segment.small_pool { "small" } else { "large" });
        self.pool_id(Key::SegmentPoolId, segment.pool_id);
        if !self.contents.snapshot.lacks_block_addresses {
            self.key(Key::IsExpandable);
            self.out.bool(segment.is_expandable);
            self.key(Key::Frames);
            self.stack(segment.stack);
        }
        self.key(Key::Blocks);
        self.list(&segment.blocks, Self::block);
        self.out.end();
    }

    fn block(&mut self, block: &Block) {
        self.out.begin_dict();
        if !self.contents.snapshot.lacks_block_addresses {
            self.entry(Key::Address, block.address);
        }
        self.entry(Key::Size, block.size);
        if let Some(requested) = block.requested_size {
            self.entry(Key::RequestedSize, requested);
        }
        self.key(Key::State);
        self.word(block.state.into());
        if !self.contents.snapshot.lacks_block_addresses {
            self.key(Key::Frames);
            self.stack(block.stack);
            self.forward_frames(block.stack);
        } else if block.state != BlockState::Inactive {
            self.key(Key::History);
            self.list([block], Self::occupant);
        }
        self.out.end();
    }

    /// The occupant of a block, as release 2.0 writes it.
    fn occupant(&mut self, block: &Block) {
        self.out.begin_dict();
        self.key(Key::Addr);
        self.out.int(block.address);
        self.entry(Key::RealSize, block.requested_size.unwrap_or(block.size));
        if block.stack.is_some() {
            self.key(Key::Frames);
            self.stack(block.stack);
        }
        self.out.end();
    }

    fn traces(&mut self) {
        let Contents { devices, events, .. } = self.contents;
        let count = devices.iter().filter_map(|(id, _)| id.ordinal()).max().map_or(0, |last| last + 1);
        self.list(0..count, |writer, ordinal| {
            let device = devices.iter().find(|(id, _)| id.ordinal() == Some(ordinal));
            writer.list(device.map_or(&[][..], |(_, device)| &events[device.events.clone()]), Self::event);
        });
    }

    fn event(&mut self, event: &Event) {
        let tags = *self.contents.snapshot.tables.tags(event.tags);
        self.out.begin_dict();
        self.key(Key::Action);
        match event.action {
            Action::Other(name) => self.string(name),
            known => self.word(known.into()),
        }
        self.entry(if event.action == Action::Oom { Key::DeviceFree } else { Key::Addr }, event.addr);
        self.entry(Key::Size, event.size);
        if let Some(stream) = tags.stream {
            self.entry(Key::Stream, stream);
        }
        if let Some(time) = event.time() {
            self.entry(Key::TimeUs, time);
        }
        self.tags(&tags);
        if event.stack.is_some() {
            self.key(Key::Frames);
            self.stack(event.stack);
            self.forward_frames(event.stack);
        }
        self.out.end();
    }

    /// Tags, with what PyTorch writes where nothing is set, so that all events have the same keys.
    fn tags(&mut self, tags: &Tags) {
        if self.has_compile_context {
            self.key(Key::CompileContext);
            match tags.compile_context {
                Some(context) => self.string(context),
                None => self.word("N/A"),
            }
        }
        if self.has_metadata {
            self.key(Key::UserMetadata);
            match tags.user_metadata {
                Some(metadata) => self.string(metadata),
                None => self.word(""),
            }
        }
        self.pool_id(Key::PoolId, tags.pool_id);
    }

    fn settings(&mut self) {
        /// The one setting that is a fraction, whatever its value.
        const FRACTION: &str = "garbage_collection_threshold";
        let settings = &self.contents.snapshot.settings;
        self.out.begin_dict();
        for (key, text) in &settings.all {
            self.out.next();
            self.out.str(key);
            if key == AllocatorSettings::DIVISIONS {
                self.divisions();
            } else if let Ok(value) = text.parse::<bool>() {
                self.out.bool(value);
            } else if let Some(value) = text.parse::<i64>().ok().filter(|_| key != FRACTION) {
                self.out.int(value);
            } else if let Ok(value) = text.parse::<f64>() {
                self.out.float(value);
            } else {
                self.out.str(text);
            }
        }
        self.out.end();
    }

    fn divisions(&mut self) {
        self.out.begin_dict();
        for (power, divisions) in self.contents.snapshot.settings.roundup_power2_divisions.iter().enumerate() {
            self.out.next();
            self.out.str(&(1_u32 << power).to_string());
            self.out.int(*divisions);
        }
        self.out.end();
    }

    fn annotation(&mut self, annotation: &Annotation) {
        self.out.begin_dict();
        self.key(Key::Stage);
        self.word(if annotation.starts { "START" } else { "END" });
        self.key(Key::Name);
        self.string(annotation.name);
        self.entry(Key::Device, i64::from(annotation.device));
        self.entry(Key::TimeUs, annotation.time_us);
        self.out.end();
    }
}
