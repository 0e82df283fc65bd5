//! Makes a snapshot of the finished values, and checks what it needs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::field::Key;
use super::super::forward;
use super::super::value::{Kind as ValueKind, Value};
use super::super::{
    Action, AllocatorSettings, Annotation, Block, Device, Error, Event, FrameId, RunFacts, Segment, Snapshot, StackId,
};
use super::container::Dict;
use super::draft::Present;
use super::{Builder, Kind};
use crate::text::cut;

/// Bounds on the text of a setting: few bytes of a file can refer to one text millions of times.
const LONGEST_SETTING: usize = 1000;
const MOST_SETTING_PAIRS: usize = 100;

/// The problem of a part of the file; whoever knows more adds its place.
fn invalid(problem: impl Into<String>) -> Error {
    Error::Invalid { place: String::new(), problem: problem.into() }
}

fn repeated(what: &str) -> Error {
    invalid(format!("the same {what} object stands in the list before; the file is damaged"))
}

fn required<T>(value: Option<T>, key: Key, expected: &str) -> Result<T, Error> {
    value.ok_or_else(|| invalid(format!("the key '{}' is missing or is not {expected}", key.text())))
}

/// PyTorch itself knows at most 128 devices in a process.
const MOST_DEVICES: u32 = 1024;

fn device_number(number: u64) -> Result<u32, Error> {
    let small = u32::try_from(number).ok().filter(|&number| number < MOST_DEVICES);
    small.ok_or_else(|| invalid(format!("there is no device {number}; expected 0 to {}", MOST_DEVICES - 1)))
}

/// An event needs its action; a known one also needs a size, and an address or the value that replaces it.
fn check_event(event: &Event, present: Present) -> Result<(), Error> {
    if !present.has(Present::ACTION) {
        return Err(invalid("the key 'action' is not a string"));
    }
    // Events of an unknown kind are skipped, whatever they hold.
    if !matches!(event.action, Action::Other(_)) {
        required(present.has(Present::SIZE).then_some(()), Key::Size, UNSIGNED)?;
        let key = if event.action == Action::Oom { Key::DeviceFree } else { Key::Addr };
        let addr = present.has(Present::ADDR) || event.action == Action::Snapshot;
        required(addr.then_some(()), key, UNSIGNED)?;
    }
    Ok(())
}

const UNSIGNED: &str = "an integer from 0 to 2^64-1";

/// Segments, blocks and lists of them that were met. Python writes each once. What stands there twice would be counted
/// twice, and would cost far more than its bytes in the file.
struct Seen {
    segments: HashSet<usize>,
    lists: HashSet<Value>,
    blocks: Vec<bool>,
}

impl Builder {
    /// Makes a snapshot of the value that the pickle left.
    pub(in crate::snapshot) fn finish(mut self, root: Value) -> Result<Snapshot, Error> {
        let is_list = self.list_items(root).is_some();
        let segments = if is_list { Some(root) } else { self.entry(root, Key::Segments) };
        let traces = if is_list { None } else { self.entry(root, Key::DeviceTraces) };
        let settings = self.entry(root, Key::AllocatorSettings);
        let annotations = self.entry(root, Key::ExternalAnnotations);
        let Some(segments) = segments.or(traces.is_some().then_some(Value::OPAQUE)) else {
            return Err(Error::NotASnapshot { found: self.describe(root) });
        };
        if traces.is_none()
            && let Some(first) = self.list_items(segments).and_then(|items| items.first().copied())
            && self.record(first, Kind::Segment).is_none()
        {
            let found = format!("a list whose first item is {}", self.describe(first));
            return Err(Error::NotASnapshot { found });
        }
        self.finish_forward()?;
        let mut devices = BTreeMap::new();
        self.finish_segments(segments, &mut devices)?;
        let events = match traces {
            Some(traces) => self.finish_traces(traces, &mut devices)?,
            None => Vec::new(),
        };
        let settings = settings.map(|value| self.finish_settings(value)).unwrap_or_default();
        let keeps_annotations = annotations.is_some();
        let annotations = annotations.map(|value| self.finish_annotations(value)).unwrap_or_default();
        let overflowed = if is_list { None } else { self.entry(root, Key::TraceAllocOverflowed) };
        self.finish_overflowed(overflowed, &mut devices);
        let run = if is_list { None } else { self.entry(root, Key::Ptmem) };
        let mut run = run.and_then(|value| self.json(value)).and_then(RunFacts::of);
        let exit = if is_list { None } else { self.entry(root, Key::PtmemExit) };
        if let (Some(run), Some(status)) = (&mut run, exit.and_then(|value| self.unsigned(value))) {
            run.end_with(status);
        }
        let lacks_block_addresses = self.blocks.iter().any(|draft| draft.address.is_none());
        Ok(Snapshot {
            tables: self.tables,
            events,
            devices,
            settings,
            annotations,
            keeps_annotations,
            run,
            has_traces: traces.is_some(),
            lacks_block_addresses,
        })
    }

    /// A value in words.
    fn describe(&self, value: Value) -> String {
        match value.kind() {
            ValueKind::Opaque => "None, bytes or a set".to_owned(),
            ValueKind::Bool(_) => "a bool".to_owned(),
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
                _ => "an empty dict".to_owned(),
            },
        }
    }

    /// Adds the frames of the forward pass to the stacks of the backward pass. Anything but a traceback is skipped.
    fn finish_forward(&mut self) -> Result<(), Error> {
        // Events of one operation share their list.
        let mut known: HashMap<(StackId, Value), StackId> = HashMap::new();
        let mut read: HashMap<Value, Vec<FrameId>> = HashMap::new();
        for (kind, at, list) in std::mem::take(&mut self.forward) {
            let stack = if kind == Kind::Event { self.events[at].stack } else { self.blocks[at].stack };
            let stack = stack.unwrap_or_else(|| self.tables.intern_stack(&[]));
            let frames = read.entry(list).or_insert_with(|| self.forward_frames(list));
            let whole = match (known.get(&(stack, list)), frames) {
                (Some(whole), _) => *whole,
                (None, frames) if frames.is_empty() || !self.tables.forward(stack).is_empty() => continue,
                (None, frames) => self.tables.intern_forward(stack, frames),
            };
            known.insert((stack, list), whole);
            let slot = if kind == Kind::Event { &mut self.events[at].stack } else { &mut self.blocks[at].stack };
            *slot = Some(whole);
        }
        let room = self.check_room();
        room.map_err(|_| invalid("more distinct stacks than this version can read").within("forward_frames"))
    }

    /// The frames of a formatted traceback, innermost first.
    fn forward_frames(&mut self, list: Value) -> Vec<FrameId> {
        let items = self.list_items(list).unwrap_or_default();
        let texts: Vec<_> = items.iter().filter_map(|&item| Self::string_id(item)).collect();
        let texts: Vec<String> = texts.into_iter().map(|id| self.tables.string(id).to_owned()).collect();
        let mut entries: Vec<_> = texts.iter().filter_map(|text| forward::entry(text)).collect();
        forward::innermost_first(&mut entries);
        // Many stacks may share one list, and each gets the frames.
        entries.truncate(forward::DEEPEST);
        entries.iter().map(|entry| self.frame_of_traceback(entry)).collect()
    }

    fn finish_segments(&self, list: Value, devices: &mut BTreeMap<u32, Device>) -> Result<(), Error> {
        let handles = self.list_items(list).ok_or_else(|| invalid("missing or not a list").within("segments"))?;
        let mut seen = Seen { segments: HashSet::new(), lists: HashSet::new(), blocks: vec![false; self.blocks.len()] };
        for (i, &handle) in handles.iter().enumerate() {
            let segment = self.finish_segment(handle, &mut seen);
            let (device, segment) = segment.map_err(|error| error.within(format_args!("segments[{i}]")))?;
            devices.entry(device).or_default().segments.push(segment);
        }
        Ok(())
    }

    /// A segment, and its device.
    fn finish_segment(&self, handle: Value, seen: &mut Seen) -> Result<(u32, Segment), Error> {
        let at = self.record(handle, Kind::Segment);
        let at = at.ok_or_else(|| invalid("not a segment (a dict with the key 'total_size')"))?;
        let draft = self.segments[at];
        if !seen.segments.insert(at) {
            return Err(repeated("segment"));
        }
        let device = device_number(required(draft.device, Key::Device, UNSIGNED)?)?;
        let address = required(draft.address, Key::Address, UNSIGNED)?;
        let total_size = required(draft.total_size, Key::TotalSize, UNSIGNED)?;
        let list = required(draft.blocks, Key::Blocks, "a list")?;
        let handles = self.list_items(list).ok_or_else(|| invalid("the key 'blocks' is not a list of blocks"))?;
        if !handles.is_empty() && !seen.lists.insert(list) {
            return Err(invalid("shares its list of blocks with another segment; the file is damaged"));
        }
        let mut blocks = Vec::with_capacity(handles.len());
        let mut next_address = address;
        for (i, &handle) in handles.iter().enumerate() {
            let block = self.finish_block(handle, seen, next_address);
            let block = block.map_err(|error| error.within(format_args!("['blocks'][{i}]")))?;
            next_address = block.address.saturating_add(block.size);
            blocks.push(block);
        }
        let segment = Segment {
            address,
            total_size,
            allocated_size: draft.allocated_size,
            active_size: draft.active_size,
            small_pool: draft.small_pool.unwrap_or(false),
            stream: draft.stream,
            pool_id: draft.pool_id,
            is_expandable: draft.is_expandable,
            stack: self.known_stack(draft.stack),
            blocks,
        };
        Ok((device, segment))
    }

    fn finish_block(&self, handle: Value, seen: &mut Seen, next_address: u64) -> Result<Block, Error> {
        let at = self.record(handle, Kind::Block);
        let at = at.ok_or_else(|| invalid("not a block (a dict with the key 'state')"))?;
        if std::mem::replace(&mut seen.blocks[at], true) {
            return Err(repeated("block"));
        }
        let draft = self.blocks[at];
        let size = required(draft.size, Key::Size, UNSIGNED)?;
        let expected = "one of active_allocated, active_pending_free, active_awaiting_free, inactive";
        let state = required(draft.state, Key::State, expected)?;
        // Releases before 2.1 kept the latest occupant in `history`.
        let latest = draft.history.and_then(|history| self.list_items(history)?.first().copied());
        let occupant = latest.and_then(|latest| self.record(latest, Kind::Occupant)).map(|at| self.occupants[at]);
        let occupant = occupant.unwrap_or_default();
        let address = draft.address.unwrap_or(next_address);
        address.checked_add(size).ok_or_else(|| invalid("the block ends past the last address"))?;
        Ok(Block {
            address,
            size,
            requested_size: draft.requested_size.or(occupant.real_size),
            state,
            stack: self.known_stack(draft.stack).or(self.known_stack(occupant.stack)),
        })
    }

    /// A stack, if anything is known of it.
    fn known_stack(&self, stack: Option<StackId>) -> Option<StackId> {
        stack.filter(|&stack| self.tables.has_frames(stack))
    }

    /// The value of a key of a dictionary: the last one counts, as in Python.
    fn entry(&self, dict: Value, key: Key) -> Option<Value> {
        let pairs = self.dict_pairs(dict)?;
        pairs.iter().rev().find(|(known, _)| Self::key(*known) == Some(key)).map(|&(_, value)| value)
    }

    /// Checks the events of all devices and puts those of one device together.
    fn finish_traces(&mut self, list: Value, devices: &mut BTreeMap<u32, Device>) -> Result<Vec<Event>, Error> {
        let traces =
            self.list_items(list).map(Cow::into_owned).ok_or_else(|| invalid("not a list").within("device_traces"))?;
        let mut in_order = true;
        let mut next = 0;
        let mut seen = HashSet::new();
        for (d, &trace) in traces.iter().enumerate() {
            let handles = self.finish_trace(trace, &mut seen);
            let handles = handles.map_err(|error| error.within(format_args!("device_traces[{d}]")))?;
            if handles.is_empty() {
                continue;
            }
            let device = device_number(d as u64).map_err(|error| error.within(format_args!("device_traces[{d}]")))?;
            let mut places = handles.iter().zip(next..);
            in_order &= places.all(|(&handle, place)| self.record(handle, Kind::Event) == Some(place));
            devices.entry(device).or_default().events = next..next + handles.len();
            next += handles.len();
        }
        // Nearly always the events were read one device after the other and stay where they are.
        let mut events = std::mem::take(&mut self.events);
        if in_order {
            events.truncate(next);
            return Ok(events);
        }
        let handles = traces.iter().flat_map(|&trace| self.list_items(trace).unwrap_or_default().into_owned());
        let ordered = handles.filter_map(|handle| self.record(handle, Kind::Event)).map(|at| events[at]);
        Ok(ordered.collect())
    }

    /// Checks the events of a device.
    fn finish_trace(&self, trace: Value, seen: &mut HashSet<Value>) -> Result<Cow<'_, [Value]>, Error> {
        let handles = self.list_items(trace).ok_or_else(|| invalid("not a list of events"))?;
        if !handles.is_empty() && !seen.insert(trace) {
            return Err(invalid("is the same list as that of another device; the file is damaged"));
        }
        for (i, &handle) in handles.iter().enumerate() {
            let at = self.record(handle, Kind::Event);
            let at = at.ok_or_else(|| invalid("not an event (a dict with the key 'action')"));
            let checked = at.and_then(|at| match self.incomplete.get(&at) {
                Some(&present) => check_event(&self.events[at], present),
                None => Ok(()),
            });
            checked.map_err(|error| error.within(format_args!("[{i}]")))?;
        }
        Ok(handles)
    }

    /// Whether the ring buffer of each device ran over, as a list by ordinal.
    fn finish_overflowed(&self, list: Option<Value>, devices: &mut BTreeMap<u32, Device>) {
        let flags = list.and_then(|list| self.list_items(list)).unwrap_or_default();
        for (&id, device) in devices {
            let flag = flags.get(id as usize).and_then(|&flag| self.integer(flag));
            device.overflowed = flag.map(|flag| flag != 0);
        }
    }

    fn finish_settings(&self, value: Value) -> AllocatorSettings {
        let Some(pairs) = self.dict_pairs(value) else {
            return AllocatorSettings::default();
        };
        let mut settings = AllocatorSettings { present: true, ..AllocatorSettings::default() };
        for &(key, value) in pairs {
            let Some(key) = self.string(key) else {
                continue;
            };
            match key {
                "expandable_segments" => settings.expandable_segments = self.integer(value) == Some(1),
                // -1: unlimited.
                "max_split_size" => settings.max_split_size = self.unsigned(value),
                "roundup_power2_divisions" => {
                    for &(megabytes, divisions) in self.dict_pairs(value).unwrap_or_default() {
                        let interval = self.string(megabytes).and_then(|text| text.parse::<u64>().ok());
                        let index = interval.filter(|n| n.is_power_of_two()).map(|n| n.ilog2() as usize);
                        if let Some(slot) = index.and_then(|i| settings.roundup_power2_divisions.get_mut(i)) {
                            *slot = self.unsigned(divisions).unwrap_or(0);
                        }
                    }
                }
                _ => {}
            }
            settings.all.insert(key.to_owned(), self.setting_text(value));
        }
        settings.complete_from_text();
        settings
    }

    fn setting_text(&self, value: Value) -> String {
        match value.kind() {
            ValueKind::Bool(value) => value.to_string(),
            ValueKind::Float(at) => self.floats[at as usize].to_string(),
            ValueKind::Str(_) => cut(self.string(value).unwrap_or_default(), LONGEST_SETTING).to_owned(),
            ValueKind::Int(_) | ValueKind::Wide(_) => {
                self.integer(value).map_or_else(|| "?".to_owned(), |value| value.to_string())
            }
            ValueKind::Dict(_) => {
                let pairs = self.dict_pairs(value).unwrap_or_default();
                let texts = pairs
                    .iter()
                    .filter_map(|&(key, value)| Some(format!("{}:{}", self.string(key)?, self.integer(value)?)));
                texts.take(MOST_SETTING_PAIRS).collect::<Vec<_>>().join(",")
            }
            _ => "?".to_owned(),
        }
    }

    /// Annotations are an aid: malformed ones are skipped.
    fn finish_annotations(&self, value: Value) -> Vec<Annotation> {
        let handles = self.list_items(value).unwrap_or_default();
        let drafts = handles.iter().filter_map(|&handle| self.record(handle, Kind::Annotation));
        drafts
            .filter_map(|at| {
                let draft = self.annotations[at];
                Some(Annotation {
                    starts: draft.starts?,
                    name: draft.name?,
                    device: draft.device.and_then(|device| u32::try_from(device).ok()).unwrap_or(0),
                    time_us: draft.time_us.and_then(|time| i64::try_from(time).ok())?,
                })
            })
            .collect()
    }
}
