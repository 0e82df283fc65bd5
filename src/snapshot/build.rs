//! Builds a snapshot while its pickle is read.
//!
//! A dictionary becomes a compact record as soon as the key that gives away its kind arrives, and a
//! list of frames becomes an interned stack as soon as it has its items, so that nothing is kept twice
//! and the tree of values never exists. Lists are resolved by identity, because the format memoises a
//! list before its items arrive.

use std::collections::{BTreeMap, HashMap};

use super::field::Key;
use super::forward;
use super::value::{Kind as ValueKind, Value};
use super::{
    Action, AllocatorSettings, Annotation, Block, BlockState, Damage, Device, Error, Event, Frame, FrameId, Present,
    Segment, Snapshot, StackId, StringId, Tables, Tags, TagsId,
};
use crate::pickle::{Integer, Visitor};
use crate::text::cut;

/// The kinds of dictionaries that become records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Frame,
    Event,
    Block,
    Segment,
    /// An entry of a block's `history`, before release 2.1.
    Occupant,
    Annotation,
}

/// A dictionary so far.
#[derive(Clone, Copy, Debug)]
enum Dict {
    Empty,
    /// Of no known kind (yet): an index into `pairs`.
    Pairs(u32),
    Frame(FrameId),
    Record(Kind, u32),
}

/// A list so far.
#[derive(Clone, Copy, Debug)]
enum List {
    Empty,
    /// Frames that came at once and that nothing refers to yet.
    Stack(StackId),
    /// Frames that something refers to: must not change any more.
    Used(StackId),
    /// An index into `items`.
    Items(u32),
    /// The same, known to be no stack.
    NoStack(u32),
}

/// A [`Block`] of which keys may be missing.
#[derive(Clone, Copy, Default)]
struct BlockDraft {
    address: Option<u64>,
    size: Option<u64>,
    requested_size: Option<u64>,
    state: Option<BlockState>,
    stack: Option<StackId>,
    history: Option<Value>,
}

/// A [`Segment`] of which keys may be missing.
#[derive(Clone, Copy, Default)]
struct SegmentDraft {
    device: Option<u64>,
    address: Option<u64>,
    total_size: Option<u64>,
    allocated_size: Option<u64>,
    active_size: Option<u64>,
    small_pool: Option<bool>,
    stream: Option<i128>,
    pool_id: Option<(u64, u64)>,
    is_expandable: bool,
    blocks: Option<Value>,
}

#[derive(Clone, Copy, Default)]
struct Occupant {
    real_size: Option<u64>,
    stack: Option<StackId>,
}

#[derive(Clone, Copy, Default)]
struct AnnotationDraft {
    starts: Option<bool>,
    name: Option<StringId>,
    device: Option<u64>,
    time_us: Option<u64>,
}

/// Strings up to this length are looked for in [`Builder::latest_strings`] first.
const SHORT: usize = 16;

/// The visitor that builds a [`Snapshot`].
pub(super) struct Builder {
    tables: Tables,
    actions: Vec<(StringId, Action)>,
    wide: Vec<Integer>,
    floats: Vec<f64>,
    dicts: Vec<Dict>,
    pairs: Vec<Vec<(Value, Value)>>,
    lists: Vec<List>,
    items: Vec<Vec<Value>>,
    tuples: Vec<Box<[Value]>>,
    tuple_ids: HashMap<Box<[Value]>, u32>,
    last_tuple: Option<u32>,
    events: Vec<Event>,
    blocks: Vec<BlockDraft>,
    segments: Vec<SegmentDraft>,
    occupants: Vec<Occupant>,
    annotations: Vec<AnnotationDraft>,
    /// The `forward_frames` of events and blocks, by their position: few have any.
    forward: Vec<(Kind, usize, Value)>,
    /// The latest short string of each length: every event brings strings such as `"N/A"` of its own.
    latest_strings: [Option<([u8; SHORT], Value)>; SHORT + 1],
    no_tags: TagsId,
    last_tags: (Tags, TagsId),
    /// Counts changes to frames after their first use; a remembered run is valid within one count.
    frame_changes: u32,
    scratch: Vec<FrameId>,
    /// The first thing that went wrong where the visitor cannot say so at once.
    full: Option<&'static str>,
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut tables = Tables::default();
        Key::intern_all(&mut tables);
        let actions = Action::KNOWN.iter().map(|&(name, action)| (tables.intern_string(name), action)).collect();
        let no_tags = tables.intern_tags(Tags::default());
        Self {
            tables,
            actions,
            wide: Vec::new(),
            floats: Vec::new(),
            dicts: Vec::new(),
            pairs: Vec::new(),
            lists: Vec::new(),
            items: Vec::new(),
            tuples: Vec::new(),
            tuple_ids: HashMap::new(),
            last_tuple: None,
            events: Vec::new(),
            blocks: Vec::new(),
            segments: Vec::new(),
            occupants: Vec::new(),
            annotations: Vec::new(),
            forward: Vec::new(),
            latest_strings: [None; SHORT + 1],
            no_tags,
            last_tags: (Tags::default(), no_tags),
            frame_changes: 0,
            scratch: Vec::new(),
            full: None,
        }
    }

    /// The handle of the entry at `index` of a table that is called `what`. Past 2^32 entries the handle is
    /// wrong, and the next operation that can fail says so.
    #[inline]
    fn handle(&mut self, index: usize, what: &'static str, kind: fn(u32) -> ValueKind) -> Value {
        let index = u32::try_from(index).unwrap_or_else(|_| {
            self.full.get_or_insert(what);
            u32::MAX
        });
        Value::new(kind(index))
    }

    fn check_room(&self) -> Result<(), Option<Damage>> {
        if let Some(what) = self.full {
            return Err(Some(Damage::TooMany(what)));
        }
        if self.tables.largest() >= u32::MAX as usize - 1 {
            return Err(Some(Damage::TooMany("distinct strings or stacks")));
        }
        Ok(())
    }

    #[inline]
    fn integer(&self, value: Value) -> Option<i128> {
        match value.kind() {
            ValueKind::Int(value) => Some(i128::from(value)),
            ValueKind::Wide(index) => match self.wide.get(index as usize)? {
                Integer::Fits(value) => Some(*value),
                Integer::Beyond => None,
            },
            ValueKind::Bool(value) => Some(i128::from(value)),
            _ => None,
        }
    }

    #[inline]
    fn unsigned(&self, value: Value) -> Option<u64> {
        match value.kind() {
            ValueKind::Int(value) => u64::try_from(value).ok(),
            _ => self.integer(value).and_then(|value| u64::try_from(value).ok()),
        }
    }

    #[inline]
    fn string_id(value: Value) -> Option<StringId> {
        match value.kind() {
            ValueKind::Str(index) => Some(StringId::from_index(index as usize)),
            _ => None,
        }
    }

    fn string(&self, value: Value) -> Option<&str> {
        Self::string_id(value).map(|id| self.tables.string(id))
    }

    fn key(value: Value) -> Option<Key> {
        Self::string_id(value).and_then(Key::of)
    }

    /// The frame that a list item stands for.
    #[inline]
    fn frame(&self, item: Value) -> Option<FrameId> {
        match item.kind() {
            ValueKind::Dict(index) => match self.dicts.get(index as usize) {
                Some(Dict::Frame(id)) => Some(*id),
                _ => None,
            },
            ValueKind::Frame(index) => Some(FrameId::from_index(index as usize)),
            _ => None,
        }
    }

    /// The stack that these items are, or `None` where one of them is no frame.
    fn stack_of(&mut self, items: &[Value]) -> Option<StackId> {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        let whole = items.iter().all(|&item| {
            self.frame(item).is_some_and(|frame| {
                frames.push(frame);
                true
            })
        });
        let stack = whole.then(|| self.tables.intern_stack(&frames));
        self.scratch = frames;
        stack
    }

    /// The stack in a `frames` value; from here on the list must not change.
    fn use_stack(&mut self, value: Value) -> Option<StackId> {
        let ValueKind::List(index) = value.kind() else {
            return None;
        };
        let index = index as usize;
        let stack = match *self.lists.get(index)? {
            List::Empty => self.tables.intern_stack(&[]),
            List::Used(stack) => return Some(stack),
            List::NoStack(_) => return None,
            List::Stack(stack) => stack,
            List::Items(at) => {
                let items = std::mem::take(&mut self.items[at as usize]);
                let stack = self.stack_of(&items);
                self.items[at as usize] = items;
                let Some(stack) = stack else {
                    self.lists[index] = List::NoStack(at);
                    return None;
                };
                stack
            }
        };
        self.lists[index] = List::Used(stack);
        Some(stack)
    }

    fn list_items(&self, value: Value) -> Option<&[Value]> {
        match value.kind() {
            ValueKind::List(index) => match *self.lists.get(index as usize)? {
                List::Items(at) | List::NoStack(at) => Some(&self.items[at as usize]),
                List::Empty => Some(&[]),
                // An empty list has no type of its own.
                List::Stack(stack) | List::Used(stack) => self.tables.stack(stack).is_empty().then_some(&[]),
            },
            ValueKind::Tuple(index) => self.tuples.get(index as usize).map(|items| &**items),
            _ => None,
        }
    }

    /// The two numbers that name a pool.
    fn pool_id(&self, value: Value) -> Option<(u64, u64)> {
        match self.list_items(value) {
            Some(&[a, b]) => self.unsigned(a).zip(self.unsigned(b)),
            _ => None,
        }
    }

    fn dict_pairs(&self, value: Value) -> Option<&[(Value, Value)]> {
        match value.kind() {
            ValueKind::Dict(index) => match *self.dicts.get(index as usize)? {
                Dict::Pairs(at) => Some(&self.pairs[at as usize]),
                Dict::Empty => Some(&[]),
                Dict::Frame(_) | Dict::Record(..) => None,
            },
            _ => None,
        }
    }

    fn record(&self, value: Value, kind: Kind) -> Option<usize> {
        match value.kind() {
            ValueKind::Dict(index) => match self.dicts.get(index as usize) {
                Some(&Dict::Record(of, at)) if of == kind => Some(at as usize),
                _ => None,
            },
            _ => None,
        }
    }

    /// A dictionary of a kind just recognised.
    fn new_record(&mut self, kind: Kind) -> Result<Dict, Option<Damage>> {
        let count = match kind {
            Kind::Frame => {
                let empty = self.tables.intern_string("");
                return Ok(Dict::Frame(self.tables.intern_frame(Frame {
                    name: empty,
                    filename: empty,
                    line: 0,
                    original: None,
                })));
            }
            Kind::Event => {
                self.events.push(Event {
                    addr: 0,
                    size: 0,
                    time_us: Event::NO_TIME,
                    stack: None,
                    tags: self.no_tags,
                    action: Action::Snapshot,
                    present: Present::default(),
                });
                self.events.len()
            }
            Kind::Block => {
                self.blocks.push(BlockDraft::default());
                self.blocks.len()
            }
            Kind::Segment => {
                self.segments.push(SegmentDraft::default());
                self.segments.len()
            }
            Kind::Occupant => {
                self.occupants.push(Occupant::default());
                self.occupants.len()
            }
            Kind::Annotation => {
                self.annotations.push(AnnotationDraft::default());
                self.annotations.len()
            }
        };
        let at = u32::try_from(count - 1).map_err(|_| Some(Damage::TooMany("dictionaries of one kind")))?;
        Ok(Dict::Record(kind, at))
    }

    fn fill(&mut self, dict: Dict, pairs: impl Iterator<Item = (Value, Value)>) -> Dict {
        match dict {
            Dict::Frame(id) => return Dict::Frame(self.fill_frame(id, pairs)),
            Dict::Record(Kind::Event, at) => self.fill_event(at as usize, pairs),
            Dict::Record(Kind::Block, at) => self.fill_block(at as usize, pairs),
            Dict::Record(Kind::Segment, at) => self.fill_segment(at as usize, pairs),
            Dict::Record(Kind::Occupant, at) => self.fill_occupant(at as usize, pairs),
            Dict::Record(Kind::Annotation, at) => self.fill_annotation(at as usize, pairs),
            Dict::Record(Kind::Frame, _) | Dict::Empty | Dict::Pairs(_) => {}
        }
        dict
    }

    fn fill_frame(&mut self, id: FrameId, pairs: impl Iterator<Item = (Value, Value)>) -> FrameId {
        let mut frame = *self.tables.frame(id);
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::Name) => frame.name = Self::string_id(value).unwrap_or(frame.name),
                Some(Key::Filename) => frame.filename = Self::string_id(value).unwrap_or(frame.filename),
                // Wider than 128 bits is as unknown as the -1 that PyTorch writes.
                Some(Key::Line) => frame.line = self.integer(value).unwrap_or(-1),
                Some(Key::FxOriginalTrace) => frame.original = self.original(value),
                _ => {}
            }
        }
        self.tables.intern_frame(frame)
    }

    /// The innermost frame of the traceback that generated code keeps of what it was generated from.
    fn original(&mut self, trace: Value) -> Option<FrameId> {
        let text = self.string(trace)?.to_owned();
        let entry = text.lines().rev().find_map(forward::entry)?;
        let (name, filename) = (self.tables.intern_string(entry.name), self.tables.intern_string(entry.file));
        Some(self.tables.intern_frame(Frame { name, filename, line: entry.line.into(), original: None }))
    }

    fn fill_event(&mut self, at: usize, pairs: impl Iterator<Item = (Value, Value)>) {
        let mut event = self.events[at];
        let mut tags = if event.tags == self.last_tags.1 { self.last_tags.0 } else { *self.tables.tags(event.tags) };
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::Action) => {
                    if let Some(id) = Self::string_id(value) {
                        let known = self.actions.iter().find(|(name, _)| *name == id);
                        event.action = known.map_or(Action::Other(id), |&(_, action)| action);
                        event.present.set(Present::ACTION);
                    }
                }
                Some(Key::Addr | Key::DeviceFree) => {
                    if let Some(addr) = self.unsigned(value) {
                        event.addr = addr;
                        event.present.set(Present::ADDR);
                    }
                }
                Some(Key::Size) => {
                    if let Some(size) = self.unsigned(value) {
                        event.size = size;
                        event.present.set(Present::SIZE);
                    }
                }
                Some(Key::TimeUs) => {
                    let time = self.integer(value).and_then(|time| i64::try_from(time).ok());
                    event.time_us = time.unwrap_or(Event::NO_TIME);
                }
                Some(Key::Frames) => event.stack = self.use_stack(value),
                Some(Key::ForwardFrames) => self.forward.push((Kind::Event, at, value)),
                Some(Key::Stream) => tags.stream = self.integer(value),
                Some(Key::CompileContext) => tags.compile_context = Self::string_id(value),
                Some(Key::UserMetadata) => tags.user_metadata = Self::string_id(value),
                Some(Key::PoolId) => tags.pool_id = self.pool_id(value),
                _ => {}
            }
        }
        if tags != self.last_tags.0 {
            self.last_tags = (tags, self.tables.intern_tags(tags));
        }
        event.tags = self.last_tags.1;
        self.events[at] = event;
    }

    fn fill_block(&mut self, at: usize, pairs: impl Iterator<Item = (Value, Value)>) {
        let mut block = self.blocks[at];
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::Address) => block.address = self.unsigned(value),
                Some(Key::Size) => block.size = self.unsigned(value),
                Some(Key::RequestedSize) => block.requested_size = self.unsigned(value),
                Some(Key::State) => {
                    block.state = match self.string(value) {
                        Some("active_allocated") => Some(BlockState::ActiveAllocated),
                        Some("active_pending_free" | "active_awaiting_free") => Some(BlockState::ActivePendingFree),
                        Some("inactive") => Some(BlockState::Inactive),
                        _ => None,
                    };
                }
                Some(Key::Frames) => block.stack = self.use_stack(value),
                Some(Key::ForwardFrames) => self.forward.push((Kind::Block, at, value)),
                Some(Key::History) => block.history = Some(value),
                _ => {}
            }
        }
        self.blocks[at] = block;
    }

    fn fill_segment(&mut self, at: usize, pairs: impl Iterator<Item = (Value, Value)>) {
        let mut segment = self.segments[at];
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::Device) => segment.device = self.unsigned(value),
                Some(Key::Address) => segment.address = self.unsigned(value),
                Some(Key::TotalSize) => segment.total_size = self.unsigned(value),
                Some(Key::AllocatedSize) => segment.allocated_size = self.unsigned(value),
                Some(Key::ActiveSize) => segment.active_size = self.unsigned(value),
                Some(Key::SegmentType) => segment.small_pool = self.string(value).map(|text| text == "small"),
                Some(Key::Stream) => segment.stream = self.integer(value),
                Some(Key::SegmentPoolId) => segment.pool_id = self.pool_id(value),
                Some(Key::IsExpandable) => segment.is_expandable = self.integer(value) == Some(1),
                Some(Key::Blocks) => segment.blocks = Some(value),
                _ => {}
            }
        }
        self.segments[at] = segment;
    }

    fn fill_occupant(&mut self, at: usize, pairs: impl Iterator<Item = (Value, Value)>) {
        let mut occupant = self.occupants[at];
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::RealSize) => occupant.real_size = self.unsigned(value),
                Some(Key::Frames) => occupant.stack = self.use_stack(value),
                _ => {}
            }
        }
        self.occupants[at] = occupant;
    }

    fn fill_annotation(&mut self, at: usize, pairs: impl Iterator<Item = (Value, Value)>) {
        let mut annotation = self.annotations[at];
        for (key, value) in pairs {
            match Self::key(key) {
                Some(Key::Stage) => annotation.starts = self.string(value).map(|text| text == "START"),
                Some(Key::Name) => annotation.name = Self::string_id(value),
                Some(Key::Device) => annotation.device = self.unsigned(value),
                Some(Key::TimeUs) => annotation.time_us = self.unsigned(value),
                _ => {}
            }
        }
        self.annotations[at] = annotation;
    }
}

fn pairs_of(items: &[Value]) -> impl Iterator<Item = (Value, Value)> + Clone + '_ {
    items.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value))
}

impl Visitor for Builder {
    type Value = Value;
    type Run = (StackId, u32);
    type Error = Damage;

    fn none(&mut self) -> Value {
        Value::OPAQUE
    }

    fn bool(&mut self, value: bool) -> Value {
        Value::new(ValueKind::Bool(value))
    }

    #[inline]
    fn int(&mut self, value: i64) -> Value {
        Value::small_int(value).unwrap_or_else(|| self.wide_int(Integer::Fits(i128::from(value))))
    }

    fn wide_int(&mut self, value: Integer) -> Value {
        self.wide.push(value);
        self.handle(self.wide.len() - 1, "integers of more than 60 bits", ValueKind::Wide)
    }

    fn float(&mut self, value: f64) -> Value {
        self.floats.push(value);
        self.handle(self.floats.len() - 1, "floats", ValueKind::Float)
    }

    #[inline]
    fn str(&mut self, utf8: &[u8]) -> Value {
        if let Some(Some((bytes, value))) = self.latest_strings.get(utf8.len())
            && bytes[..utf8.len()] == *utf8
        {
            return *value;
        }
        let id = match std::str::from_utf8(utf8) {
            Ok(text) => self.tables.intern_string(cut(text, LONGEST_TEXT)),
            Err(_) => {
                let text = escape_invalid(&utf8[..utf8.len().min(LONGEST_TEXT)]);
                self.tables.intern_string(&text)
            }
        };
        let value = self.handle(id.index(), "distinct strings", ValueKind::Str);
        if let Some(latest) = self.latest_strings.get_mut(utf8.len()) {
            let mut bytes = [0; SHORT];
            bytes[..utf8.len()].copy_from_slice(utf8);
            *latest = Some((bytes, value));
        }
        value
    }

    fn bytes(&mut self, _bytes: &[u8]) -> Value {
        Value::OPAQUE
    }

    fn tuple(&mut self, items: &[Value]) -> Result<Value, Damage> {
        // From release 2.12 on every event has a tuple of its own, nearly always the same two numbers.
        if let Some(last) = self.last_tuple
            && *self.tuples[last as usize] == *items
        {
            return Ok(Value::new(ValueKind::Tuple(last)));
        }
        let id = match self.tuple_ids.get(items) {
            Some(&id) => id,
            None => {
                let id = u32::try_from(self.tuples.len()).map_err(|_| Damage::TooMany("distinct tuples"))?;
                self.tuples.push(items.into());
                self.tuple_ids.insert(items.into(), id);
                id
            }
        };
        self.last_tuple = Some(id);
        Ok(Value::new(ValueKind::Tuple(id)))
    }

    fn list(&mut self) -> Value {
        self.lists.push(List::Empty);
        self.handle(self.lists.len() - 1, "lists", ValueKind::List)
    }

    fn dict(&mut self) -> Value {
        self.dicts.push(Dict::Empty);
        self.handle(self.dicts.len() - 1, "dictionaries", ValueKind::Dict)
    }

    fn set(&mut self) -> Value {
        Value::OPAQUE
    }

    fn extend(&mut self, list: Value, items: &[Value]) -> Result<(), Option<Damage>> {
        let ValueKind::List(index) = list.kind() else {
            return Err(None);
        };
        self.check_room()?;
        if items.is_empty() {
            return Ok(());
        }
        let index = index as usize;
        let new = match self.lists[index] {
            List::Empty => match self.stack_of(items) {
                Some(stack) => List::Stack(stack),
                None => {
                    self.items.push(items.to_vec());
                    List::Items(u32::try_from(self.items.len() - 1).map_err(|_| Some(Damage::TooMany("lists")))?)
                }
            },
            List::Items(at) | List::NoStack(at) => {
                self.items[at as usize].extend_from_slice(items);
                return Ok(());
            }
            // More than one batch: take the stack apart once, so that many small batches stay linear.
            List::Stack(stack) => {
                let frames = self.tables.stack(stack);
                let mut all: Vec<_> = Vec::with_capacity(frames.len() + items.len());
                #[allow(clippy::cast_possible_truncation, reason = "ids are made from 32 bits")]
                all.extend(frames.iter().map(|id| Value::new(ValueKind::Frame(id.index() as u32))));
                all.extend_from_slice(items);
                self.items.push(all);
                List::Items(u32::try_from(self.items.len() - 1).map_err(|_| Some(Damage::TooMany("lists")))?)
            }
            List::Used(_) => return Err(Some(Damage::FramesChange)),
        };
        self.lists[index] = new;
        Ok(())
    }

    fn update(&mut self, dict: Value, items: &[Value]) -> Result<(), Option<Damage>> {
        let ValueKind::Dict(index) = dict.kind() else {
            return Err(None);
        };
        self.check_room()?;
        let index = index as usize;
        let pairs = pairs_of(items);
        let kind = || pairs.clone().find_map(|(key, _)| Self::key(key)?.kind());
        let new = match self.dicts[index] {
            Dict::Empty => match kind() {
                Some(kind) => {
                    let dict = self.new_record(kind)?;
                    self.fill(dict, pairs)
                }
                None if items.is_empty() => return Ok(()),
                None => {
                    self.pairs.push(pairs.collect());
                    let at = u32::try_from(self.pairs.len() - 1);
                    Dict::Pairs(at.map_err(|_| Some(Damage::TooMany("dictionaries")))?)
                }
            },
            Dict::Pairs(at) => match kind() {
                Some(kind) => {
                    let earlier = std::mem::take(&mut self.pairs[at as usize]);
                    let dict = self.new_record(kind)?;
                    self.fill(dict, earlier.into_iter().chain(pairs))
                }
                None => {
                    self.pairs[at as usize].extend(pairs);
                    return Ok(());
                }
            },
            known => {
                if matches!(known, Dict::Frame(_)) {
                    self.frame_changes += 1;
                }
                self.fill(known, pairs)
            }
        };
        self.dicts[index] = new;
        Ok(())
    }

    fn add(&mut self, set: Value, _items: &[Value]) -> Result<(), Option<Damage>> {
        if set == Value::OPAQUE { Ok(()) } else { Err(None) }
    }

    fn remember(&mut self, list: Value) -> Option<Self::Run> {
        match list.kind() {
            ValueKind::List(index) => match self.lists[index as usize] {
                List::Stack(stack) => Some((stack, self.frame_changes)),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn recall(&mut self, list: Value, (stack, changes): Self::Run) -> bool {
        let ValueKind::List(index) = list.kind() else {
            return false;
        };
        match self.lists.get_mut(index as usize) {
            Some(list @ List::Empty) if changes == self.frame_changes => {
                *list = List::Stack(stack);
                true
            }
            _ => false,
        }
    }
}

/// Longer texts are cut: far beyond any symbol or path, and few bytes of a file can refer to one text
/// millions of times.
const LONGEST_TEXT: usize = 16 << 10;

/// Bounds on the text of a setting, for the same reason.
const LONGEST_SETTING: usize = 1000;
const MOST_SETTING_PAIRS: usize = 100;

/// Python's own way to write what is no character (`backslashreplace`): distinct names stay distinct.
fn escape_invalid(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

// From here on: the finished values become a snapshot.

fn invalid(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Invalid { place: place.into(), problem: problem.into() }
}

fn required<T>(value: Option<T>, key: Key, expected: &str, place: impl FnOnce() -> String) -> Result<T, Error> {
    value.ok_or_else(|| invalid(place(), format!("the key '{}' is missing or is not {expected}", key.text())))
}

/// PyTorch itself knows at most 128 devices in a process.
const MOST_DEVICES: u32 = 1024;

fn device_number(number: u64, place: impl FnOnce() -> String) -> Result<u32, Error> {
    let small = u32::try_from(number).ok().filter(|&number| number < MOST_DEVICES);
    small.ok_or_else(|| invalid(place(), format!("there is no device {number}; expected 0 to {}", MOST_DEVICES - 1)))
}

const UNSIGNED: &str = "an integer from 0 to 2^64-1";

impl Builder {
    /// Makes a snapshot of the value that the pickle left.
    pub(super) fn finish(mut self, root: Value) -> Result<Snapshot, Error> {
        let entry = |key| {
            let pairs = self.dict_pairs(root)?;
            // The last one counts, as in Python.
            pairs.iter().rev().find(|(k, _)| Self::key(*k) == Some(key)).map(|&(_, value)| value)
        };
        let (segments, traces) = match self.list_items(root) {
            Some(_) => (Some(root), None),
            None => (entry(Key::Segments), entry(Key::DeviceTraces)),
        };
        let settings = entry(Key::AllocatorSettings);
        let annotations = entry(Key::ExternalAnnotations);
        let Some(segments) = segments.or(traces.is_some().then_some(Value::OPAQUE)) else {
            return Err(Error::NotASnapshot { found: self.describe(root) });
        };
        if traces.is_none()
            && let Some(first) = self.list_items(segments).and_then(<[_]>::first)
            && self.record(*first, Kind::Segment).is_none()
        {
            let found = format!("a list whose first item is {}", self.describe(*first));
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
        let annotations = annotations.map(|value| self.finish_annotations(value)).unwrap_or_default();
        Ok(Snapshot { tables: self.tables, events, devices, settings, annotations, has_traces: traces.is_some() })
    }

    /// A value in words.
    fn describe(&self, value: Value) -> String {
        match value.kind() {
            ValueKind::Opaque => "None, bytes or a set".to_owned(),
            ValueKind::Bool(_) => "a bool".to_owned(),
            ValueKind::Int(_) | ValueKind::Wide(_) => "an int".to_owned(),
            ValueKind::Float(_) => "a float".to_owned(),
            ValueKind::Str(_) => "a str".to_owned(),
            ValueKind::Tuple(_) => "a tuple".to_owned(),
            ValueKind::List(_) => "a list".to_owned(),
            ValueKind::Frame(_) => "a frame".to_owned(),
            ValueKind::Dict(index) => match self.dicts.get(index as usize) {
                Some(Dict::Pairs(at)) => {
                    let keys = self.pairs[*at as usize].iter().filter_map(|(key, _)| self.string(*key));
                    let mut shown: Vec<_> =
                        keys.take(6).map(|key| format!("'{}'", cut(key, 40).escape_debug())).collect();
                    if self.pairs[*at as usize].len() > shown.len() {
                        shown.push("…".to_owned());
                    }
                    format!("a dict with the keys {}", shown.join(", "))
                }
                Some(Dict::Frame(_)) => "a single frame".to_owned(),
                Some(Dict::Record(kind, _)) => {
                    format!("a single {}", format!("{kind:?}").to_lowercase())
                }
                _ => "an empty dict".to_owned(),
            },
        }
    }

    /// Adds the frames of the forward pass to the stacks of the backward pass. What is no traceback is left out.
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
        self.check_room().map_err(|_| invalid("forward_frames", "more distinct stacks than this version can read"))
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
        let frame = |entry: &forward::Entry<'_>| {
            let (name, filename) = (self.tables.intern_string(entry.name), self.tables.intern_string(entry.file));
            self.tables.intern_frame(Frame { name, filename, line: entry.line.into(), original: None })
        };
        entries.iter().map(frame).collect()
    }

    fn finish_segments(&mut self, list: Value, devices: &mut BTreeMap<u32, Device>) -> Result<(), Error> {
        let Some(handles) = self.list_items(list) else {
            return Err(invalid("segments", "missing or not a list"));
        };
        let handles = handles.to_vec();
        let mut seen_blocks = std::collections::HashSet::new();
        let mut seen_segments = std::collections::HashSet::new();
        for (i, &handle) in handles.iter().enumerate() {
            let place = || format!("segments[{i}]");
            let at = self.record(handle, Kind::Segment);
            let at = at.ok_or_else(|| invalid(place(), "not a segment (a dict with the key 'total_size')"))?;
            let draft = self.segments[at];
            // Python writes every segment once. A segment that stands there twice would be counted
            // twice, and a list shared by many would cost far more than its bytes in the file.
            if !seen_segments.insert(at) {
                return Err(invalid(place(), "the same segment object stands in the list before; the file is damaged"));
            }
            let device = required(draft.device, Key::Device, UNSIGNED, place)?;
            let device = device_number(device, place)?;
            let address = required(draft.address, Key::Address, UNSIGNED, place)?;
            let total_size = required(draft.total_size, Key::TotalSize, UNSIGNED, place)?;
            let list = required(draft.blocks, Key::Blocks, "a list", place)?;
            let blocks = self.list_items(list);
            let blocks = blocks.ok_or_else(|| invalid(place(), "the key 'blocks' is not a list of blocks"))?;
            if !blocks.is_empty() && !seen_blocks.insert(list) {
                return Err(invalid(place(), "shares its list of blocks with another segment; the file is damaged"));
            }
            let blocks = self.finish_blocks(blocks, address, &place)?;
            devices.entry(device).or_default().segments.push(Segment {
                address,
                total_size,
                allocated_size: draft.allocated_size,
                active_size: draft.active_size,
                small_pool: draft.small_pool.unwrap_or(false),
                stream: draft.stream,
                pool_id: draft.pool_id,
                is_expandable: draft.is_expandable,
                blocks,
            });
        }
        Ok(())
    }

    fn finish_blocks(
        &self,
        handles: &[Value],
        mut next_address: u64,
        segment: &dyn Fn() -> String,
    ) -> Result<Vec<Block>, Error> {
        let mut blocks = Vec::with_capacity(handles.len());
        for (i, &handle) in handles.iter().enumerate() {
            let place = || format!("{}['blocks'][{i}]", segment());
            let at = self.record(handle, Kind::Block);
            let at = at.ok_or_else(|| invalid(place(), "not a block (a dict with the key 'state')"))?;
            let draft = self.blocks[at];
            let size = required(draft.size, Key::Size, UNSIGNED, place)?;
            let expected = "one of active_allocated, active_pending_free, active_awaiting_free, inactive";
            let state = required(draft.state, Key::State, expected, place)?;
            // Releases before 2.1 kept the latest occupant in `history`.
            let occupant = draft
                .history
                .and_then(|history| self.list_items(history)?.first().copied())
                .and_then(|first| self.record(first, Kind::Occupant))
                .map(|at| self.occupants[at])
                .unwrap_or_default();
            let address = draft.address.unwrap_or(next_address);
            let end = address.checked_add(size);
            next_address = end.ok_or_else(|| invalid(place(), "the block ends past the last address"))?;
            let no_frames = |stack: &StackId| self.tables.has_frames(*stack);
            blocks.push(Block {
                address,
                size,
                requested_size: draft.requested_size.or(occupant.real_size),
                state,
                stack: draft.stack.filter(no_frames).or(occupant.stack.filter(no_frames)),
            });
        }
        Ok(blocks)
    }

    /// Checks the events of all devices and puts those of one device together.
    fn finish_traces(&mut self, list: Value, devices: &mut BTreeMap<u32, Device>) -> Result<Vec<Event>, Error> {
        let traces = self.list_items(list).ok_or_else(|| invalid("device_traces", "not a list"))?.to_vec();
        let mut ordered = Vec::new();
        let mut order_holds = true;
        let mut next = 0;
        let mut seen = std::collections::HashSet::new();
        for (d, &trace) in traces.iter().enumerate() {
            let place = || format!("device_traces[{d}]");
            let handles = self.list_items(trace).ok_or_else(|| invalid(place(), "not a list of events"))?;
            if handles.is_empty() {
                continue;
            }
            if !seen.insert(trace) {
                return Err(invalid(place(), "is the same list as that of another device; the file is damaged"));
            }
            let device = device_number(d as u64, place)?;
            let mut first = None;
            for (i, &handle) in handles.iter().enumerate() {
                let place = || format!("device_traces[{d}][{i}]");
                let at = self.record(handle, Kind::Event);
                let at = at.ok_or_else(|| invalid(place(), "not an event (a dict with the key 'action')"))?;
                let event = &self.events[at];
                if !event.present.has(Present::ACTION) {
                    return Err(invalid(place(), "the key 'action' is not a string"));
                }
                // Events of an unknown kind are skipped, whatever they hold.
                if !matches!(event.action, Action::Other(_)) {
                    let size = event.present.has(Present::SIZE).then_some(());
                    required(size, Key::Size, UNSIGNED, place)?;
                    let key = if event.action == Action::Oom { Key::DeviceFree } else { Key::Addr };
                    let addr = event.present.has(Present::ADDR) || event.action == Action::Snapshot;
                    required(addr.then_some(()), key, UNSIGNED, place)?;
                }
                let first = *first.get_or_insert(at);
                order_holds &= at == first + i;
                ordered.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            devices.entry(device).or_default().events = next..next + handles.len();
            next += handles.len();
        }
        // Nearly always the events of one device were read one after the other and stay where they are.
        let events = std::mem::take(&mut self.events);
        if order_holds && ordered.iter().enumerate().all(|(i, &at)| i == at as usize) {
            let mut events = events;
            events.truncate(next);
            return Ok(events);
        }
        Ok(ordered.iter().map(|&at| events[at as usize]).collect())
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

    /// Annotations are an aid: what is malformed is left out.
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
