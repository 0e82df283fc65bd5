//! Builds a snapshot while its pickle is read.
//!
//! A dictionary becomes a compact record as soon as the key that gives away its kind arrives, and a
//! list of frames becomes an interned stack as soon as it has its items, so that nothing is kept twice
//! and the tree of values never exists. Lists are resolved by identity, because the format memoises a
//! list before its items arrive.

mod container;
mod draft;
mod fill;
mod finish;
mod shape;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use self::container::{Dict, List, MOST, Packed};
use self::draft::{AnnotationDraft, BlockDraft, Occupant, Present, SegmentDraft};
use self::shape::EventShape;
use super::field::Key;
use super::value::{Kind as ValueKind, Short, Value};
use super::{Action, Damage, Event, FrameId, StackId, StringId, Tables, Tags, TagsId};
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

/// Strings up to this length are looked for in [`Builder::latest_strings`] first.
const SHORT: usize = 16;

/// The visitor that builds a [`Snapshot`].
pub(super) struct Builder {
    tables: Tables,
    actions: Vec<(StringId, Action)>,
    wide: Vec<Integer>,
    floats: Vec<f64>,
    /// Values that a [`Short`] has no room for.
    long: Vec<Value>,
    dicts: Vec<Packed>,
    pairs: Vec<Vec<(Value, Value)>>,
    lists: Vec<Packed>,
    items: Vec<Vec<Value>>,
    tuples: Vec<Box<[Value]>>,
    tuple_ids: HashMap<Box<[Value]>, u32>,
    last_tuple: Option<u32>,
    events: Vec<Event>,
    /// The keys of the events that lack some.
    incomplete: FxHashMap<usize, Present>,
    blocks: Vec<BlockDraft>,
    segments: Vec<SegmentDraft>,
    occupants: Vec<Occupant>,
    annotations: Vec<AnnotationDraft>,
    /// The `forward_frames` of events and blocks, by their position: few have any.
    forward: Vec<(Kind, usize, Value)>,
    /// The latest short string of each length: every event brings strings such as `"N/A"` of its own.
    latest_strings: [Option<([u8; SHORT], Value)>; SHORT + 1],
    /// Where the keys of the latest event stand.
    shape: EventShape,
    no_tags: TagsId,
    /// The tags of the latest event, as they stand in the file: the next one's are nearly always the same.
    latest_tags: ([Value; 4], TagsId),
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
            long: Vec::new(),
            dicts: Vec::new(),
            pairs: Vec::new(),
            lists: Vec::new(),
            items: Vec::new(),
            tuples: Vec::new(),
            tuple_ids: HashMap::new(),
            last_tuple: None,
            events: Vec::new(),
            incomplete: FxHashMap::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            occupants: Vec::new(),
            annotations: Vec::new(),
            forward: Vec::new(),
            latest_strings: [None; SHORT + 1],
            shape: EventShape::default(),
            no_tags,
            latest_tags: ([Value::ABSENT; 4], no_tags),
            frame_changes: 0,
            scratch: Vec::new(),
            full: None,
        }
    }

    /// The handle of the entry at `index` of a table that is called `what`. Past [`MOST`] entries the handle is
    /// wrong, and the next operation that can fail says so.
    #[inline]
    fn handle(&mut self, index: usize, what: &'static str, kind: fn(u32) -> ValueKind) -> Value {
        let index = u32::try_from(index).ok().filter(|&index| index < MOST).unwrap_or_else(|| {
            self.full.get_or_insert(what);
            MOST
        });
        Value::new(kind(index))
    }

    fn check_room(&self) -> Result<(), Option<Damage>> {
        if let Some(what) = self.full {
            return Err(Some(Damage::TooMany(what)));
        }
        if self.tables.largest() >= MOST as usize {
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

    /// The kind of a dictionary, where one of its keys tells.
    fn kind_of(mut pairs: impl Iterator<Item = (Value, Value)>) -> Option<Kind> {
        pairs.find_map(|(key, _)| Self::key(key)?.kind())
    }

    /// The frame that a list item stands for.
    #[inline]
    fn frame(&self, item: Value) -> Option<FrameId> {
        match item.kind() {
            ValueKind::Dict(_) => self.record(item, Kind::Frame).map(FrameId::from_index),
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
        let stack = match self.lists.get(index)?.list() {
            List::Empty => self.tables.intern_stack(&[]),
            List::Used(stack) => return Some(stack),
            List::NoStack(_) => return None,
            List::Stack(stack) => stack,
            List::Items(at) => {
                let items = std::mem::take(&mut self.items[at as usize]);
                let stack = self.stack_of(&items);
                self.items[at as usize] = items;
                let Some(stack) = stack else {
                    self.lists[index] = List::NoStack(at).into();
                    return None;
                };
                stack
            }
        };
        self.lists[index] = List::Used(stack).into();
        Some(stack)
    }

    fn list_items(&self, value: Value) -> Option<&[Value]> {
        match value.kind() {
            ValueKind::List(index) => match self.lists.get(index as usize)?.list() {
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
            ValueKind::Dict(index) => match self.dicts.get(index as usize)?.dict() {
                Dict::Pairs(at) => Some(&self.pairs[at as usize]),
                Dict::Empty => Some(&[]),
                Dict::Record(..) => None,
            },
            _ => None,
        }
    }

    fn record(&self, value: Value, kind: Kind) -> Option<usize> {
        match value.kind() {
            ValueKind::Dict(index) => match self.dicts.get(index as usize)?.dict() {
                Dict::Record(of, at) if of == kind => Some(at as usize),
                _ => None,
            },
            _ => None,
        }
    }
}

fn pairs_of(items: &[Value]) -> impl Iterator<Item = (Value, Value)> + Clone + '_ {
    items.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value))
}

impl Visitor for Builder {
    type Value = Value;
    type Kept = Short;
    type Run = (StackId, u32);
    type Error = Damage;

    #[inline]
    fn keep(&mut self, value: Value) -> Short {
        Short::of(value).unwrap_or_else(|| {
            self.long.push(value);
            let handle = self.handle(self.long.len() - 1, "integers in the memo", ValueKind::Long);
            Short::of(handle).unwrap_or(Short::OPAQUE)
        })
    }

    #[inline]
    fn kept(&self, kept: Short) -> Value {
        let value = Value::from(kept);
        match value.kind() {
            ValueKind::Long(index) => self.long.get(index as usize).copied().unwrap_or(value),
            _ => value,
        }
    }

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
        self.lists.push(Packed::EMPTY);
        self.handle(self.lists.len() - 1, "lists", ValueKind::List)
    }

    fn dict(&mut self) -> Value {
        self.dicts.push(Packed::EMPTY);
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
        let new = match self.lists[index].list() {
            List::Empty => match self.stack_of(items) {
                Some(stack) => List::Stack(stack),
                None => {
                    self.items.push(items.to_vec());
                    List::Items(container::index(self.items.len() - 1))
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
                List::Items(container::index(self.items.len() - 1))
            }
            List::Used(_) => return Err(Some(Damage::FramesChange)),
        };
        self.lists[index] = new.into();
        Ok(())
    }

    fn update(&mut self, dict: Value, items: &[Value]) -> Result<(), Option<Damage>> {
        let ValueKind::Dict(index) = dict.kind() else {
            return Err(None);
        };
        let index = index as usize;
        self.check_room()?;
        let now = self.dicts[index].dict();
        if now == Dict::Empty
            && let Some(event) = self.event_like_the_latest(items)
        {
            self.dicts[index] = event.into();
            return Ok(());
        }
        let pairs = pairs_of(items);
        let new = match now {
            Dict::Empty => match Self::kind_of(pairs.clone()) {
                Some(kind) => {
                    if kind == Kind::Event {
                        self.shape = EventShape::of(items);
                    }
                    self.begin(kind, pairs)
                }
                None if items.is_empty() => return Ok(()),
                None => {
                    self.pairs.push(pairs.collect());
                    Dict::Pairs(container::index(self.pairs.len() - 1))
                }
            },
            Dict::Pairs(at) => match Self::kind_of(pairs.clone()) {
                Some(kind) => {
                    let earlier = std::mem::take(&mut self.pairs[at as usize]);
                    self.begin(kind, earlier.into_iter().chain(pairs))
                }
                None => {
                    self.pairs[at as usize].extend(pairs);
                    return Ok(());
                }
            },
            Dict::Record(kind, at) => self.fill(kind, at, pairs),
        };
        self.dicts[index] = new.into();
        Ok(())
    }

    fn add(&mut self, set: Value, _items: &[Value]) -> Result<(), Option<Damage>> {
        if set == Value::OPAQUE { Ok(()) } else { Err(None) }
    }

    fn remember(&mut self, list: Value) -> Option<Self::Run> {
        match list.kind() {
            ValueKind::List(index) => match self.lists[index as usize].list() {
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
            Some(list) if list.list() == List::Empty && changes == self.frame_changes => {
                *list = List::Stack(stack).into();
                true
            }
            _ => false,
        }
    }
}

/// Longer texts are cut: far beyond any symbol or path, and few bytes of a file can refer to one text
/// millions of times.
const LONGEST_TEXT: usize = 16 << 10;

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
