//! Makes a snapshot of the finished values, and checks the required keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use ptmem_base::device::DeviceId;
use ptmem_base::text::cut;

use super::super::field::FieldKey;
use super::super::forward;
use super::super::value::{ValueHandle, ValueKind};
use super::super::{
    AllocatorSettings, Annotation, DictKind, FrameId, RunFacts, Snapshot, SnapshotError, StackId, StringId,
};
use super::SnapshotBuilder;
use super::container::Dict;

/// Bounds on settings and their texts: few bytes of a file can refer to one text, or one dictionary, millions of times.
const MOST_SETTINGS: usize = 1000;
const LONGEST_SETTING: usize = 1000;
const MOST_SETTING_PAIRS: usize = 100;

/// The most keys of a dictionary that can be part of a snapshot. A longer one is none: each look-up steps over all keys, and few
/// bytes of a file can refer to one dictionary millions of times.
const MOST_KEYS: usize = 1000;

/// Entries of lists beyond the objects of the file that they can hold.
pub(super) const MOST_REPEATED: usize = 1 << 20;

/// The problem of a part of the file; whoever knows more adds its place.
pub(super) fn invalid(problem: impl Into<String>) -> SnapshotError {
    SnapshotError::Invalid { place: String::new(), problem: problem.into() }
}

pub(super) fn repeated(what: &str) -> SnapshotError {
    invalid(format!("the same {what} object occurs twice; the file is damaged"))
}

pub(super) fn required<T>(value: Option<T>, key: FieldKey, expected: &str) -> Result<T, SnapshotError> {
    let key: &str = key.into();
    value.ok_or_else(|| invalid(format!("the key '{key}' is missing or is not {expected}")))
}

/// Stacks with more frames get no frames of the forward pass: those of autograd's threads start empty, and stay short.
const DEEPEST_BACKWARD: usize = 512;

/// PyTorch itself knows at most 128 devices in a process.
const MOST_DEVICES: u32 = 1024;

pub(super) fn device_number(number: i128) -> Result<DeviceId, SnapshotError> {
    let device = i64::try_from(number).ok().and_then(|number| DeviceId::try_from(number).ok());
    let known = device.filter(|device| device.ordinal().is_none_or(|ordinal| ordinal < MOST_DEVICES));
    known.ok_or_else(|| invalid(format!("there is no device {number}; expected 0 to {}", MOST_DEVICES - 1)))
}

pub(super) const UNSIGNED: &str = "an integer from 0 to 2^64-1";

/// The number with which `torch.save` begins a file of several pickles, which it wrote before PyTorch 1.6 (`MAGIC_NUMBER`).
const OLD_TORCH_SAVE: i128 = 0x1950_a86a_20f9_469c_fc6c;

impl SnapshotBuilder {
    /// Makes a snapshot of the value that the pickle left.
    pub(in crate::snapshot) fn finish(mut self, root: ValueHandle) -> Result<Snapshot, SnapshotError> {
        let is_list = self.list_items(root).is_some();
        let segments = if is_list { Some(root) } else { self.entry(root, FieldKey::Segments) };
        let traces = if is_list { None } else { self.entry(root, FieldKey::DeviceTraces) };
        let settings = self.entry(root, FieldKey::AllocatorSettings);
        let annotations = self.entry(root, FieldKey::ExternalAnnotations);
        let Some(segments) = segments.or(traces.is_some().then_some(ValueHandle::OPAQUE)) else {
            return Err(SnapshotError::NotASnapshot { found: self.describe(root) });
        };
        if traces.is_none()
            && let Some(first) = self.list_items(segments).and_then(|items| items.first().copied())
            && self.entry(first, FieldKey::TotalSize).is_none()
        {
            let found = format!("a list whose first item is {}", self.describe(first));
            return Err(SnapshotError::NotASnapshot { found });
        }
        self.finish_forward()?;
        if !is_list {
            self.finish_sources(root);
        }
        self.note_unread(DictKind::File, root);
        let host_segments = self.entry(root, FieldKey::HostSegments);
        let leaves_out_traces = traces.is_some_and(|traces| self.list_len(traces) == 0) && self.list_len(segments) > 0;
        let host_traces = self.entry(root, FieldKey::HostTraces);
        let mut devices = BTreeMap::new();
        self.finish_segments(segments, FieldKey::Segments, &mut devices)?;
        if let Some(segments) = host_segments {
            self.finish_segments(segments, FieldKey::HostSegments, &mut devices)?;
        }
        let (events, times) = self.finish_traces(traces, host_traces, &mut devices)?;
        let mut settings = settings.map(|value| self.finish_settings(value)).unwrap_or_default();
        let keeps_annotations = annotations.is_some();
        let annotations = annotations.map(|value| self.finish_annotations(value)).unwrap_or_default();
        let overflowed = if is_list { None } else { self.entry(root, FieldKey::TraceAllocOverflowed) };
        self.finish_overflowed(overflowed, &mut settings, &mut devices);
        let run = if is_list { None } else { self.entry(root, FieldKey::Ptmem) };
        let mut run = run.and_then(|value| self.json(value)).and_then(RunFacts::of);
        let exit = if is_list { None } else { self.entry(root, FieldKey::PtmemExit) };
        if let (Some(run), Some(status)) = (&mut run, exit.and_then(|value| self.unsigned(value))) {
            run.end_with(status);
        }
        Ok(Snapshot {
            tables: self.tables,
            events,
            times,
            devices,
            settings,
            annotations,
            keeps_annotations,
            run,
            has_traces: traces.or(host_traces).is_some(),
            leaves_out_traces,
            lacks_block_addresses: self.lacks_block_addresses,
            unread: self.unread.0.into_iter().collect(),
        })
    }

    /// A value in words.
    fn describe(&self, value: ValueHandle) -> String {
        match value.kind() {
            ValueKind::Opaque => "None, bytes or a set".to_owned(),
            ValueKind::Bool(_) => "a bool".to_owned(),
            ValueKind::Wide(_) if self.integer(value) == Some(OLD_TORCH_SAVE) => {
                "an int, as torch.save() writes it with _use_new_zipfile_serialization=False; leave that out".to_owned()
            }
            ValueKind::Int(_) | ValueKind::Wide(_) | ValueKind::Long(_) => "an int".to_owned(),
            ValueKind::Float(_) => "a float".to_owned(),
            ValueKind::Str(_) => "a str".to_owned(),
            ValueKind::Tuple(_) => "a tuple".to_owned(),
            ValueKind::List(_) => "a list".to_owned(),
            ValueKind::Frame(_) => "a frame".to_owned(),
            ValueKind::Dict(index) => match self.dicts.get(index as usize).map(|dict| dict.dict()) {
                Some(Dict::Pairs(at)) => {
                    let pairs = &self.pairs[at as usize];
                    let keys = pairs.iter().filter_map(|(key, _)| self.string(*key)).take(6);
                    let keys: Vec<_> = keys.map(|key| format!("'{}'", cut(key, 40).escape_debug())).collect();
                    let more = if pairs.len() > keys.len() { ", …" } else { "" };
                    format!("a dict with the keys {}{more}", keys.join(", "))
                }
                Some(Dict::Record(kind, _)) => format!("a single {}", format!("{kind:?}").to_lowercase()),
                Some(Dict::UsedFrame(_)) => "a single frame".to_owned(),
                _ => "an empty dict".to_owned(),
            },
        }
    }

    /// Adds the frames of the forward pass to the stacks of events.
    fn finish_forward(&mut self) -> Result<(), SnapshotError> {
        for (at, list) in std::mem::take(&mut self.forward) {
            self.events[at].stack = self.with_forward(self.events[at].stack, list);
        }
        let room = self.check_room();
        room.map_err(|_| invalid("more distinct stacks than this version can read").within("forward_frames"))
    }

    /// A stack of the backward pass with the frames of the forward pass in a list. Anything but a traceback is skipped.
    fn with_forward(&mut self, stack: Option<StackId>, list: ValueHandle) -> Option<StackId> {
        let inner = stack.unwrap_or_else(|| self.tables.intern_stack(&[]));
        // Each list makes another stack of one that many may share.
        if self.tables.stack(inner).len() > DEEPEST_BACKWARD {
            return stack;
        }
        if let Some(whole) = self.with_forward.get(&(inner, list)) {
            return Some(*whole);
        }
        if !self.forward_frames.contains_key(&list) {
            let frames = self.frames_of_traceback(list);
            self.forward_frames.insert(list, frames);
        }
        let frames = &self.forward_frames[&list];
        if frames.is_empty() || !self.tables.forward(inner).is_empty() {
            return stack;
        }
        let whole = self.tables.intern_forward(inner, frames);
        self.with_forward.insert((inner, list), whole);
        Some(whole)
    }

    /// The frames of a formatted traceback, innermost first. A text that comes again is read once: few bytes of a file can refer to
    /// it millions of times.
    fn frames_of_traceback(&mut self, list: ValueHandle) -> Vec<FrameId> {
        let items = self.list_items(list).unwrap_or_default();
        let texts: Vec<_> = items.iter().filter_map(|&item| Self::string_id(item)).collect();
        let mut known = HashMap::new();
        let mut frames = Vec::new();
        for id in texts {
            let frame = *known.entry(id).or_insert_with(|| self.frame_of_text(id));
            frames.extend(frame);
        }
        let names = frames.iter().map(|&frame| self.tables.string(self.tables.frame(frame).name));
        let begins_innermost = forward::begins_innermost(names);
        if !begins_innermost {
            frames.reverse();
        }
        // Many stacks may share one list, and each gets the frames.
        frames.truncate(forward::DEEPEST);
        frames
    }

    /// The frame in a text of a formatted traceback.
    fn frame_of_text(&mut self, text: StringId) -> Option<FrameId> {
        let text = self.tables.string(text).to_owned();
        forward::entry(&text).map(|entry| self.frame_of_traceback(&entry))
    }

    /// The stack of a dictionary in a part of the file, if anything is known of it.
    pub(super) fn known_stack(&mut self, part: DictKind, dict: ValueHandle) -> Option<StackId> {
        let stack = self.entry(dict, FieldKey::Frames).and_then(|frames| self.use_stack(part, frames));
        let forward = self.entry(dict, FieldKey::ForwardFrames);
        let stack = forward.map_or(stack, |forward| self.with_forward(stack, forward));
        stack.filter(|&stack| self.tables.has_frames(stack))
    }

    /// The value of a key of a dictionary: the last one counts, as in Python.
    pub(super) fn entry(&self, dict: ValueHandle, key: FieldKey) -> Option<ValueHandle> {
        let key = ValueHandle::new(ValueKind::Str(key as u32));
        let pairs = self.dict_pairs(dict).filter(|pairs| pairs.len() <= MOST_KEYS)?;
        pairs.iter().rev().find(|(known, _)| *known == key).map(|&(_, value)| value)
    }

    pub(super) fn unsigned_entry(&self, dict: ValueHandle, key: FieldKey) -> Option<u64> {
        self.entry(dict, key).and_then(|value| self.unsigned(value))
    }

    pub(super) fn required_unsigned(&self, dict: ValueHandle, key: FieldKey) -> Result<u64, SnapshotError> {
        required(self.unsigned_entry(dict, key), key, UNSIGNED)
    }

    fn finish_settings(&self, value: ValueHandle) -> AllocatorSettings {
        let Some(pairs) = self.dict_pairs(value) else {
            return AllocatorSettings::default();
        };
        let mut settings = AllocatorSettings { present: true, ..AllocatorSettings::default() };
        for &(key, value) in pairs.iter().take(MOST_SETTINGS) {
            let Some(key) = self.string(key) else {
                continue;
            };
            match key {
                "expandable_segments" => settings.expandable_segments = self.integer(value) == Some(1),
                // -1: unlimited.
                "max_split_size" => settings.max_split_size = self.unsigned(value),
                "roundup_power2_divisions" => {
                    for &(megabytes, divisions) in self.setting_pairs(value) {
                        let interval = self.string(megabytes).and_then(|text| text.parse::<u64>().ok());
                        let index = interval.filter(|n| n.is_power_of_two()).map(|n| n.ilog2() as usize);
                        if let Some(slot) = index.and_then(|i| settings.roundup_power2_divisions.get_mut(i)) {
                            *slot = self.unsigned(divisions).unwrap_or(0);
                        }
                    }
                }
                _ => {}
            }
            settings.all.insert(cut(key, LONGEST_SETTING).to_owned(), self.setting_text(value));
        }
        settings.complete_from_text();
        settings
    }

    /// The first entries of a setting that is a dictionary.
    fn setting_pairs(&self, value: ValueHandle) -> &[(ValueHandle, ValueHandle)] {
        let pairs = self.dict_pairs(value).unwrap_or_default();
        &pairs[..pairs.len().min(MOST_SETTING_PAIRS)]
    }

    fn setting_text(&self, value: ValueHandle) -> String {
        match value.kind() {
            ValueKind::Bool(value) => value.to_string(),
            ValueKind::Float(at) => self.floats[at as usize].to_string(),
            ValueKind::Str(_) => cut(self.string(value).unwrap_or_default(), LONGEST_SETTING).to_owned(),
            ValueKind::Int(_) | ValueKind::Wide(_) => {
                self.integer(value).map_or_else(|| "?".to_owned(), |value| value.to_string())
            }
            ValueKind::Dict(_) => {
                let pairs = self.setting_pairs(value).iter();
                let texts = pairs.filter_map(|&(key, value)| Some((self.string(key)?, self.integer(value)?)));
                let mut texts: Vec<_> = texts.map(|(key, value)| (cut(key, LONGEST_SETTING), value)).collect();
                // Numbers in their order, whatever that of the dictionary is.
                texts.sort_by_key(|&(key, _)| (key.len(), key));
                let text = texts.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",");
                cut(&text, LONGEST_SETTING).to_owned()
            }
            _ => "?".to_owned(),
        }
    }

    /// Annotations are an aid: malformed ones are skipped, and so is one that comes again, which Python writes but once.
    fn finish_annotations(&mut self, value: ValueHandle) -> Vec<Annotation> {
        let handles = self.list_items(value).map(Cow::into_owned).unwrap_or_default();
        handles.into_iter().filter_map(|handle| self.finish_annotation(handle)).collect()
    }

    fn finish_annotation(&mut self, handle: ValueHandle) -> Option<Annotation> {
        let stage = self.string(self.entry(handle, FieldKey::Stage)?)?;
        let device = self
            .unsigned_entry(handle, FieldKey::Device)
            .and_then(|device| u32::try_from(device).ok().map(DeviceId::Ordinal));
        let annotation = Annotation {
            starts: stage == "START",
            name: Self::string_id(self.entry(handle, FieldKey::Name)?)?,
            device: device.unwrap_or_default(),
            time_us: i64::try_from(self.unsigned_entry(handle, FieldKey::TimeUs)?).ok()?,
        };
        self.met.insert(handle).then_some(annotation)
    }
}
