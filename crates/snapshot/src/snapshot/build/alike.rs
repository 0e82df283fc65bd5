//! Events that differ from an earlier one in where, how large, when and by whom alone: nearly all of them.

use super::super::Event;
use super::super::field::Key;
use super::super::value::{Value, ValueKind};
use super::container::{self, Dict};
use super::{Builder, RecordKind};
use crate::pickle::Alike;

/// Where the values are among the items of an event that differ from one event to the next.
#[derive(Debug)]
pub(in crate::snapshot) struct EventShape {
    addr: usize,
    size: usize,
    time_us: Option<usize>,
    frames: Option<usize>,
    /// The others.
    event: Event,
}

impl Builder {
    /// The shape of the event that `dict` became just now. One that lacks keys, or has keys that few events have, has none.
    pub(super) fn event_shape(&self, dict: Value, items: &[Value]) -> Option<Alike<EventShape>> {
        let at = self.record(dict, RecordKind::Event)? as usize;
        let event = *self.events.get(at)?;
        if self.incomplete.contains_key(&at) {
            return None;
        }
        let keys: Vec<Option<Key>> = items.iter().step_by(2).map(|&key| Self::key(key)).collect();
        let is_unusual =
            keys.iter().zip(items.as_chunks::<2>().0).enumerate().any(|(i, (key, &[_, value]))| match key {
                Some(Key::DeviceFree | Key::ForwardFrames) => true,
                // A container may hold something else when it comes again.
                key if *key != Some(Key::Frames) && matches!(value.kind(), ValueKind::List(_) | ValueKind::Dict(_)) => {
                    true
                }
                key => key.is_some() && keys[..i].contains(key),
            });
        if is_unusual {
            return None;
        }
        let place = |key| keys.iter().position(|one| *one == Some(key)).map(|place| 2 * place + 1);
        let shape = EventShape {
            addr: place(Key::Addr)?,
            size: place(Key::Size)?,
            time_us: place(Key::TimeUs),
            frames: place(Key::Frames),
            event: Event { stack: None, time_us: Event::NO_TIME, ..event },
        };
        let mut varying: Vec<usize> =
            [Some(shape.addr), Some(shape.size), shape.time_us, shape.frames].into_iter().flatten().collect();
        varying.sort_unstable();
        Some(Alike { shape, varying })
    }

    /// Another event of a shape, or `None` where it is not well-formed.
    #[inline]
    pub(super) fn event_alike(&mut self, shape: &EventShape, items: &[Value]) -> Option<Dict> {
        let mut event = shape.event;
        event.addr = self.unsigned(items[shape.addr])?;
        event.size = self.unsigned(items[shape.size])?;
        if let Some(at) = shape.time_us {
            event.time_us = self.time(items[at]);
        }
        if let Some(at) = shape.frames {
            event.stack = self.use_stack(items[at]);
        }
        self.events.push(event);
        Some(Dict::Record(RecordKind::Event, container::index(self.events.len() - 1)))
    }
}
