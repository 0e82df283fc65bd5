//! Where the keys of an event stand among its items: one event is like the next.

use super::super::field::Key;
use super::super::value::Value;
use super::Builder;

/// The keys of an event in their order, and where each that counts stands.
#[derive(Default)]
pub(super) struct EventShape {
    keys: Vec<Value>,
    action: usize,
    addr: usize,
    size: usize,
    time_us: usize,
    frames: usize,
    tags: [usize; 4],
}

/// The values of an event by their keys; [`Value::ABSENT`] where it has none.
pub(super) struct EventValues {
    pub(super) action: Value,
    pub(super) addr: Value,
    pub(super) size: Value,
    pub(super) time_us: Value,
    pub(super) frames: Value,
    /// Stream, compile context, metadata, pool.
    pub(super) tags: [Value; 4],
}

const NOWHERE: usize = usize::MAX;
/// No release writes more.
const MOST_KEYS: usize = 32;

impl EventShape {
    /// The shape of an event with these items. One with keys that are there twice, or that few events have, fits no
    /// event.
    pub(super) fn of(items: &[Value]) -> Self {
        if items.len() > 2 * MOST_KEYS {
            return Self::default();
        }
        let keys: Vec<Value> = items.iter().step_by(2).copied().collect();
        let known: Vec<_> = keys.iter().map(|&key| Builder::key(key)).collect();
        let odd = |key: &Option<Key>| {
            let twice = || known.iter().filter(|other| *other == key).count() > 1;
            matches!(key, Some(Key::DeviceFree | Key::ForwardFrames)) || key.is_some() && twice()
        };
        if known.iter().any(odd) {
            return Self::default();
        }
        let at = |key| known.iter().position(|other| *other == Some(key)).unwrap_or(NOWHERE);
        Self {
            action: at(Key::Action),
            addr: at(Key::Addr),
            size: at(Key::Size),
            time_us: at(Key::TimeUs),
            frames: at(Key::Frames),
            tags: [Key::Stream, Key::CompileContext, Key::UserMetadata, Key::PoolId].map(at),
            keys,
        }
    }

    /// The values of an event, if it is of this shape.
    #[inline]
    pub(super) fn values(&self, items: &[Value]) -> Option<EventValues> {
        let (pairs, _) = items.as_chunks::<2>();
        let same = || self.keys.iter().zip(pairs).all(|(known, [key, _])| known == key);
        if self.keys.is_empty() || self.keys.len() != pairs.len() || !same() {
            return None;
        }
        let value = |at: usize| pairs.get(at).map_or(Value::ABSENT, |&[_, value]| value);
        Some(EventValues {
            action: value(self.action),
            addr: value(self.addr),
            size: value(self.size),
            time_us: value(self.time_us),
            frames: value(self.frames),
            tags: self.tags.map(value),
        })
    }
}
