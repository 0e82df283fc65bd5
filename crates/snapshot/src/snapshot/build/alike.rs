//! Events that differ from an earlier one in where, how large, when and by whom alone: nearly all of them.

use super::super::field::{FieldKey, RecordKind};
use super::super::value::{ValueHandle, ValueKind};
use super::super::{DictKind, Event};
use super::SnapshotBuilder;
use super::container::{self, Dict};
use crate::pickle::AlikeDictionaries;

/// Where each value is among those that differ from one event to the next.
#[derive(Debug)]
pub(in crate::snapshot) struct EventShape {
    addr: usize,
    size: usize,
    time_us: Option<usize>,
    frames: Option<usize>,
    /// The others.
    event: Event,
}

/// True for what differs from one event to the next.
fn varies(key: FieldKey) -> bool {
    matches!(key, FieldKey::Addr | FieldKey::Size | FieldKey::TimeUs | FieldKey::Frames)
}

impl SnapshotBuilder {
    /// The shape of the event that `dict` became just now. One that lacks keys, or has keys that few events have, has none.
    pub(super) fn event_shape(
        &self,
        dict: ValueHandle,
        items: &[ValueHandle],
    ) -> Option<AlikeDictionaries<EventShape>> {
        let at = self.record(dict, RecordKind::Event)? as usize;
        let event = *self.events.get(at)?;
        if self.incomplete.contains_key(&at) {
            return None;
        }
        let keys: Vec<Option<FieldKey>> = items.iter().step_by(2).map(|&key| Self::key(key)).collect();
        let is_unusual =
            keys.iter().zip(items.as_chunks::<2>().0).enumerate().any(|(i, (key, &[_, value]))| match key {
                Some(FieldKey::DeviceFree | FieldKey::ForwardFrames) => true,
                // A container may hold something else when it comes again.
                key if *key != Some(FieldKey::Frames)
                    && matches!(value.kind(), ValueKind::List(_) | ValueKind::Dict(_)) =>
                {
                    true
                }
                key => key.is_some() && keys[..i].contains(key),
            });
        if is_unusual {
            return None;
        }
        let varying: Vec<(usize, FieldKey)> =
            (0..).zip(keys).filter_map(|(at, key)| Some((at, key.filter(|&key| varies(key))?))).collect();
        let place = |key| varying.iter().position(|&(_, one)| one == key);
        let shape = EventShape {
            addr: place(FieldKey::Addr)?,
            size: place(FieldKey::Size)?,
            time_us: place(FieldKey::TimeUs),
            frames: place(FieldKey::Frames),
            event: Event { stack: None, ..event },
        };
        Some(AlikeDictionaries { shape, varying: varying.into_iter().map(|(pair, _)| 2 * pair + 1).collect() })
    }

    /// Another event of a shape, or `None` where it is not well-formed.
    #[inline]
    pub(super) fn event_alike(&mut self, shape: &EventShape, varying: &[ValueHandle]) -> Option<Dict> {
        let mut event = shape.event;
        event.addr = self.unsigned(varying[shape.addr])?;
        event.size = self.unsigned(varying[shape.size])?;
        if let Some(at) = shape.frames {
            event.stack = self.use_stack(DictKind::Event, varying[at]);
        }
        let time = shape.time_us.and_then(|at| self.time(varying[at]));
        self.events.push(event);
        self.times.push(time);
        Some(Dict::Record(RecordKind::Event, container::index(self.events.len() - 1)))
    }
}
