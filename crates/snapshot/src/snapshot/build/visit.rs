//! Takes the values of the pickle as they come.

use ptmem_base::text::cut;

use super::SnapshotBuilder;
use super::alike::EventShape;
use super::container::{self, Dict, Packed, PartialList};
use super::sources::{self, LONGEST_TEXT};
use crate::pickle::{AlikeDictionaries, Visitor};
use crate::snapshot::value::{Short, ValueHandle, ValueKind};
use crate::snapshot::{Damage, StackId};

fn pairs_of(items: &[ValueHandle]) -> impl Iterator<Item = (ValueHandle, ValueHandle)> + Clone + '_ {
    items.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value))
}

/// Tuples within tuples take a hundred times their bytes in the file.
const DEEPEST_TUPLE: u8 = 16;

/// The most keys of a record that come one by one: all of them are looked at again with each.
const MOST_KEYS_OF_RECORD: usize = 32;

impl Visitor for SnapshotBuilder {
    type Value = ValueHandle;
    type Kept = Short;
    type Run = (StackId, u32);
    type Shape = EventShape;
    type Error = Damage;

    #[inline]
    fn keep(&mut self, value: ValueHandle) -> Short {
        Short::of(value).unwrap_or_else(|| {
            self.long.push(value);
            let handle = self.handle(self.long.len() - 1, "integers in the memo", ValueKind::Long);
            Short::of(handle).unwrap_or(Short::OPAQUE)
        })
    }

    #[inline]
    fn kept(&self, kept: Short) -> ValueHandle {
        let value = ValueHandle::from(kept);
        match value.kind() {
            ValueKind::Long(index) => self.long.get(index as usize).copied().unwrap_or(value),
            _ => value,
        }
    }

    fn none(&mut self) -> ValueHandle {
        ValueHandle::OPAQUE
    }

    fn bool(&mut self, value: bool) -> ValueHandle {
        ValueHandle::new(ValueKind::Bool(value))
    }

    #[inline]
    fn int(&mut self, value: i64) -> ValueHandle {
        ValueHandle::small_int(value).unwrap_or_else(|| self.wide_int(Some(i128::from(value))))
    }

    fn wide_int(&mut self, value: Option<i128>) -> ValueHandle {
        self.wide.push(value);
        self.handle(self.wide.len() - 1, "integers of more than 60 bits", ValueKind::Wide)
    }

    fn float(&mut self, value: f64) -> ValueHandle {
        self.floats.push(value);
        self.handle(self.floats.len() - 1, "floats", ValueKind::Float)
    }

    #[inline]
    fn str(&mut self, utf8: &[u8]) -> ValueHandle {
        let id = match std::str::from_utf8(utf8) {
            Ok(text) => {
                let id = self.tables.intern_string(cut(text, LONGEST_TEXT));
                if text.len() >= sources::WHOLE {
                    self.sources.keep(id, text);
                }
                id
            }
            Err(_) => {
                let text = escape_invalid(&utf8[..utf8.len().min(LONGEST_TEXT)]);
                self.tables.intern_string(&text)
            }
        };
        self.handle(id.index(), "distinct strings", ValueKind::Str)
    }

    fn bytes(&mut self, _bytes: &[u8]) -> ValueHandle {
        ValueHandle::OPAQUE
    }

    fn tuple(&mut self, items: &[ValueHandle]) -> Result<ValueHandle, Damage> {
        let id = match self.tuple_ids.get(items) {
            Some(&id) => id,
            None => {
                let id = u32::try_from(self.tuples.len()).map_err(|_| Damage::TooMany("distinct tuples"))?;
                let inner = items.iter().filter_map(|item| match item.kind() {
                    ValueKind::Tuple(at) => self.tuple_depths.get(at as usize).copied(),
                    _ => None,
                });
                let depth = inner.max().map_or(0, |depth| depth + 1);
                if depth > DEEPEST_TUPLE {
                    return Err(Damage::Deep(DEEPEST_TUPLE));
                }
                self.tuple_depths.push(depth);
                self.tuples.push(items.into());
                self.tuple_ids.insert(items.into(), id);
                id
            }
        };
        Ok(ValueHandle::new(ValueKind::Tuple(id)))
    }

    fn list(&mut self) -> ValueHandle {
        self.lists.push(Packed::EMPTY);
        self.handle(self.lists.len() - 1, "lists", ValueKind::List)
    }

    fn dict(&mut self) -> ValueHandle {
        self.dicts.push(Packed::EMPTY);
        self.handle(self.dicts.len() - 1, "dictionaries", ValueKind::Dict)
    }

    fn set(&mut self) -> ValueHandle {
        ValueHandle::OPAQUE
    }

    fn extend(&mut self, list: ValueHandle, items: &[ValueHandle]) -> Result<(), Option<Damage>> {
        let ValueKind::List(index) = list.kind() else {
            return Err(None);
        };
        self.check_room()?;
        if items.is_empty() {
            return Ok(());
        }
        let index = index as usize;
        let new = match self.lists[index].list() {
            PartialList::Empty => match self.stack_of(items) {
                Some(stack) => PartialList::Stack(stack),
                None => {
                    let kept = items.iter().map(|&item| self.keep(item)).collect();
                    self.items.push(kept);
                    PartialList::Items(container::index(self.items.len() - 1))
                }
            },
            PartialList::Items(at) | PartialList::NoStack(at) => {
                let mut kept = std::mem::take(&mut self.items[at as usize]);
                kept.extend(items.iter().map(|&item| self.keep(item)));
                self.items[at as usize] = kept;
                return Ok(());
            }
            // More than one batch: take the stack apart once, so that many small batches stay linear.
            PartialList::Stack(stack) => {
                let frames = self.tables.stack(stack).to_vec();
                #[allow(clippy::cast_possible_truncation, reason = "ids are made from 32 bits")]
                let frames = frames.iter().map(|id| ValueHandle::new(ValueKind::Frame(id.index() as u32)));
                let all = frames.chain(items.iter().copied()).map(|item| self.keep(item)).collect();
                self.items.push(all);
                PartialList::Items(container::index(self.items.len() - 1))
            }
            PartialList::Used(_) => return Err(Some(Damage::FramesChange)),
        };
        self.lists[index] = new.into();
        Ok(())
    }

    fn update(&mut self, dict: ValueHandle, items: &[ValueHandle]) -> Result<(), Option<Damage>> {
        let ValueKind::Dict(index) = dict.kind() else {
            return Err(None);
        };
        let index = index as usize;
        self.check_room()?;
        let now = self.dicts[index].dict();
        let pairs = pairs_of(items);
        let new = match now {
            Dict::Empty => match Self::kind_of(pairs.clone()) {
                Some(kind) => self.begin(kind, pairs),
                None if items.is_empty() => return Ok(()),
                None => {
                    self.pairs.push(pairs.collect());
                    Dict::Pairs(container::index(self.pairs.len() - 1))
                }
            },
            Dict::Pairs(at) => {
                let earlier = &mut self.pairs[at as usize];
                let all = earlier.iter().copied().chain(pairs.clone());
                let kind = if earlier.len() <= MOST_KEYS_OF_RECORD { Self::kind_of(all) } else { None };
                let Some(kind) = kind else {
                    earlier.extend(pairs);
                    return Ok(());
                };
                let earlier = std::mem::take(earlier);
                self.begin(kind, earlier.into_iter().chain(pairs))
            }
            Dict::Record(kind, at) => self.fill(kind, at, pairs),
            Dict::UsedFrame(_) if items.is_empty() => return Ok(()),
            Dict::UsedFrame(_) => return Err(Some(Damage::FrameChanges)),
        };
        self.dicts[index] = new.into();
        Ok(())
    }

    fn add(&mut self, set: ValueHandle, _items: &[ValueHandle]) -> Result<(), Option<Damage>> {
        if set == ValueHandle::OPAQUE { Ok(()) } else { Err(None) }
    }

    fn remember(&mut self, list: ValueHandle) -> Option<Self::Run> {
        match list.kind() {
            ValueKind::List(index) => match self.lists[index as usize].list() {
                PartialList::Stack(stack) => Some((stack, self.frame_changes)),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn recall(&mut self, list: ValueHandle, (stack, changes): Self::Run) -> bool {
        let ValueKind::List(index) = list.kind() else {
            return false;
        };
        match self.lists.get_mut(index as usize) {
            Some(list) if list.list() == PartialList::Empty && changes == self.frame_changes => {
                *list = PartialList::Stack(stack).into();
                true
            }
            _ => false,
        }
    }

    fn shape(&self, dict: ValueHandle, items: &[ValueHandle]) -> Option<AlikeDictionaries<EventShape>> {
        self.event_shape(dict, items)
    }

    #[inline]
    fn update_alike(&mut self, dict: ValueHandle, shape: &EventShape, varying: &[ValueHandle]) -> bool {
        let ValueKind::Dict(index) = dict.kind() else { return false };
        if self.check_room().is_err() {
            return false;
        }
        let Some(event) = self.event_alike(shape, varying) else { return false };
        self.dicts[index as usize] = event.into();
        true
    }
}

/// Escapes invalid bytes as Python does (`backslashreplace`), so that distinct names stay distinct.
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
