//! Builds a snapshot while its pickle is read.
//!
//! A dictionary becomes a compact record as soon as the key that gives away its kind arrives, and a
//! list of frames becomes an interned stack as soon as it has its items, so that nothing is kept twice
//! and the tree of values never exists. Lists are resolved by identity, because the format memoises a
//! list before its items arrive.

mod alike;
mod container;
mod fill;
mod finish;
mod json;
#[cfg(test)]
mod main_format;
mod segments;
mod sources;
mod traces;
mod unread;
mod visit;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};
use strum::IntoEnumIterator;

use self::container::{Dict, MOST, Packed, PartialList, Present};
use self::sources::SourceTexts;
use self::unread::Unread;
use super::field::{FieldKey, RecordKind};
use super::value::{Short, ValueHandle, ValueKind};
use super::{Action, Damage, DictKind, Event, EventTimes, FrameId, StackId, StringId, Tables, Tags, TagsId};
use crate::pickle::Visitor;

/// Lists and dictionaries that are neither stacks nor records: a few, and one of blocks for each segment.
const MOST_PARTS: usize = 1 << 21;

/// The items of a list or of a tuple: one of the two is empty.
#[derive(Clone, Copy, Default)]
struct Items<'b> {
    kept: &'b [Short],
    whole: &'b [ValueHandle],
}

/// The visitor that builds a [`Snapshot`].
#[derive(Default)]
pub(super) struct SnapshotBuilder {
    tables: Tables,
    actions: Vec<(StringId, Action)>,
    wide: Vec<Option<i128>>,
    floats: Vec<f64>,
    /// Values that a [`Short`] has no room for.
    long: Vec<ValueHandle>,
    dicts: Vec<Packed>,
    pairs: Vec<Vec<(ValueHandle, ValueHandle)>>,
    lists: Vec<Packed>,
    /// The items of lists, in four bytes each: the longest has all events.
    items: Vec<Vec<Short>>,
    tuples: Vec<Box<[ValueHandle]>>,
    /// Maximum nesting depth of tuples.
    tuple_depths: Vec<u8>,
    tuple_ids: HashMap<Box<[ValueHandle]>, u32>,
    events: Vec<Event>,
    times: EventTimes,
    /// Times that were stated after others had followed, by the position of their events.
    late_times: BTreeMap<usize, Option<i64>>,
    /// The keys of the events that lack some.
    incomplete: FxHashMap<usize, Present>,
    /// The `forward_frames` of events, by their position: few have any.
    forward: Vec<(usize, ValueHandle)>,
    /// Frames of the forward pass, innermost first, by their list: events of one operation share it.
    forward_frames: HashMap<ValueHandle, Vec<FrameId>>,
    /// Stacks with the frames of a list.
    with_forward: HashMap<(StackId, ValueHandle), StackId>,
    /// The innermost frames of tracebacks of generated code, by their texts: the frames of a graph share few.
    originals: FxHashMap<StringId, Option<FrameId>>,
    /// Segments, blocks, annotations, and lists of segments, blocks or events that occurred. Python writes each once. A repeated one would be
    /// counted twice, and cost far more than its bytes in the file.
    met: FxHashSet<ValueHandle>,
    lacks_block_addresses: bool,
    /// The tags of the latest event, unparsed: those of the next event are nearly always equal.
    latest_tags: Option<([ValueHandle; 5], TagsId)>,
    /// Counts changes to frames after their first use; a remembered run is valid within one count.
    frame_changes: u32,
    scratch: Vec<FrameId>,
    unread: Unread,
    sources: SourceTexts,
    /// The first table that is full; the next operation that can fail reports it.
    full: Option<&'static str>,
}

impl SnapshotBuilder {
    pub(super) fn new(keeps_sources: bool) -> Self {
        let mut builder = Self { sources: SourceTexts::new(keeps_sources), ..Self::default() };
        let tables = &mut builder.tables;
        FieldKey::intern_all(tables);
        Unread::intern_not_needed(tables);
        tables.intern_tags(Tags::default());
        builder.actions = Action::iter().map(|action| (tables.intern_string(action.into()), action)).collect();
        builder
    }

    /// The tags that nothing was set for.
    fn no_tags() -> TagsId {
        TagsId::from_index(0)
    }

    /// The handle of the entry at `index` of a table that is called `what`. Past [`MOST`] entries the handle is wrong,
    /// and the next operation that can fail reports it.
    #[inline]
    fn handle(&mut self, index: usize, what: &'static str, kind: fn(u32) -> ValueKind) -> ValueHandle {
        let index = u32::try_from(index).ok().filter(|&index| index < MOST).unwrap_or_else(|| {
            self.full.get_or_insert(what);
            MOST
        });
        ValueHandle::new(kind(index))
    }

    fn check_room(&self) -> Result<(), Option<Damage>> {
        if let Some(what) = self.full {
            return Err(Some(Damage::TooMany(what)));
        }
        if self.items.len() + self.pairs.len() > MOST_PARTS {
            return Err(Some(Damage::Parts));
        }
        if self.tables.largest() >= MOST as usize {
            return Err(Some(Damage::TooMany("distinct strings or stacks")));
        }
        if self.tables.all_tags().len() >= TagsId::MOST {
            return Err(Some(Damage::TooMany("distinct tags")));
        }
        Ok(())
    }

    #[inline]
    fn integer(&self, value: ValueHandle) -> Option<i128> {
        match value.kind() {
            ValueKind::Int(value) => Some(i128::from(value)),
            ValueKind::Wide(index) => *self.wide.get(index as usize)?,
            ValueKind::Bool(value) => Some(i128::from(value)),
            _ => None,
        }
    }

    #[inline]
    fn unsigned(&self, value: ValueHandle) -> Option<u64> {
        match value.kind() {
            ValueKind::Int(value) => u64::try_from(value).ok(),
            _ => self.integer(value).and_then(|value| u64::try_from(value).ok()),
        }
    }

    #[inline]
    fn string_id(value: ValueHandle) -> Option<StringId> {
        match value.kind() {
            ValueKind::Str(index) => Some(StringId::from_index(index as usize)),
            _ => None,
        }
    }

    fn string(&self, value: ValueHandle) -> Option<&str> {
        Self::string_id(value).map(|id| self.tables.string(id))
    }

    fn key(value: ValueHandle) -> Option<FieldKey> {
        Self::string_id(value).and_then(FieldKey::of)
    }

    /// The kind of a dictionary, if its keys identify it.
    fn kind_of(pairs: impl Iterator<Item = (ValueHandle, ValueHandle)> + Clone) -> Option<RecordKind> {
        let keys = pairs.filter_map(|(key, _)| Self::key(key));
        let kind = keys.clone().find_map(FieldKey::kind)?;
        let is_record = keys.clone().any(|key| key.confirms(kind)) && !keys.clone().any(FieldKey::is_of_top_level);
        is_record.then_some(kind)
    }

    /// The frame that a list item refers to.
    #[inline]
    fn frame(&self, item: ValueHandle) -> Option<FrameId> {
        match item.kind() {
            ValueKind::Dict(_) => self.record(item, RecordKind::Frame).map(|at| FrameId::from_index(at as usize)),
            ValueKind::Frame(index) => Some(FrameId::from_index(index as usize)),
            _ => None,
        }
    }

    /// The stack that these items form, or `None` if one of them is not a frame.
    fn stack_of(&mut self, items: &[ValueHandle]) -> Option<StackId> {
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
        if whole {
            items.iter().for_each(|&item| self.use_frame(item));
        }
        stack
    }

    /// Notes that a frame belongs to a stack: from here on its dictionary must not change.
    fn use_frame(&mut self, item: ValueHandle) {
        if let ValueKind::Dict(index) = item.kind()
            && let Some(dict) = self.dicts.get_mut(index as usize)
            && let Dict::Record(RecordKind::Frame, at) = dict.dict()
        {
            *dict = Dict::UsedFrame(at).into();
        }
    }

    /// The stack in a `frames` value of a part of the file; from here on the list must not change.
    #[inline]
    fn use_stack(&mut self, part: DictKind, value: ValueHandle) -> Option<StackId> {
        let stack = self.listed_stack(value);
        if stack.is_none() && value != ValueHandle::OPAQUE {
            self.unread.add_value(part, FieldKey::Frames);
        }
        stack
    }

    /// The stack in a list, unless something in it is no frame.
    fn listed_stack(&mut self, value: ValueHandle) -> Option<StackId> {
        let ValueKind::List(index) = value.kind() else {
            return None;
        };
        let index = index as usize;
        let stack = match self.lists.get(index)?.list() {
            PartialList::Empty => self.tables.intern_stack(&[]),
            PartialList::Used(stack) => return Some(stack),
            PartialList::NoStack(_) => return None,
            PartialList::Stack(stack) => stack,
            PartialList::Items(at) => {
                let items: Vec<ValueHandle> = self.items[at as usize].iter().map(|&item| self.kept(item)).collect();
                let Some(stack) = self.stack_of(&items) else {
                    self.lists[index] = PartialList::NoStack(at).into();
                    return None;
                };
                stack
            }
        };
        self.lists[index] = PartialList::Used(stack).into();
        Some(stack)
    }

    /// The items of a list that is not a stack, or of a tuple.
    fn items(&self, value: ValueHandle) -> Option<Items<'_>> {
        match value.kind() {
            ValueKind::List(index) => match self.lists.get(index as usize)?.list() {
                PartialList::Items(at) | PartialList::NoStack(at) => {
                    Some(Items { kept: &self.items[at as usize], whole: &[] })
                }
                PartialList::Empty => Some(Items::default()),
                // An empty list has no type of its own.
                PartialList::Stack(stack) | PartialList::Used(stack) => {
                    self.tables.stack(stack).is_empty().then(Items::default)
                }
            },
            ValueKind::Tuple(index) => self.tuples.get(index as usize).map(|whole| Items { kept: &[], whole }),
            _ => None,
        }
    }

    /// The items one after the other, without a copy of all.
    fn each(&self, items: Items<'_>) -> impl Iterator<Item = ValueHandle> {
        items.kept.iter().map(|&item| self.kept(item)).chain(items.whole.iter().copied())
    }

    fn list_items(&self, value: ValueHandle) -> Option<Cow<'_, [ValueHandle]>> {
        let items = self.items(value)?;
        Some(if items.kept.is_empty() { Cow::Borrowed(items.whole) } else { self.each(items).collect() })
    }

    fn first_item(&self, value: ValueHandle) -> Option<ValueHandle> {
        self.each(self.items(value)?).next()
    }

    fn list_len(&self, value: ValueHandle) -> usize {
        self.items(value).map_or(0, |items| items.kept.len() + items.whole.len())
    }

    /// The two numbers that name a pool.
    fn pool_id(&self, value: ValueHandle) -> Option<(u64, u64)> {
        let mut items = self.each(self.items(value).filter(|_| self.list_len(value) == 2)?);
        self.unsigned(items.next()?).zip(self.unsigned(items.next()?))
    }

    fn dict_pairs(&self, value: ValueHandle) -> Option<&[(ValueHandle, ValueHandle)]> {
        match value.kind() {
            ValueKind::Dict(index) => match self.dicts.get(index as usize)?.dict() {
                Dict::Pairs(at) => Some(&self.pairs[at as usize]),
                Dict::Empty => Some(&[]),
                Dict::Record(..) | Dict::UsedFrame(_) => None,
            },
            _ => None,
        }
    }

    fn record(&self, value: ValueHandle, kind: RecordKind) -> Option<u32> {
        match value.kind() {
            ValueKind::Dict(index) => match self.dicts.get(index as usize)?.dict() {
                Dict::Record(of, at) if of == kind => Some(at),
                Dict::UsedFrame(at) if kind == RecordKind::Frame => Some(at),
                _ => None,
            },
            _ => None,
        }
    }
}
