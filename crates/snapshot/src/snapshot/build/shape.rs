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
        let known = KnownKeys(keys.iter().map(|&key| Builder::key(key)).collect());
        if known.are_unusual() {
            return Self::default();
        }
        Self {
            action: known.place(Key::Action),
            addr: known.place(Key::Addr),
            size: known.place(Key::Size),
            time_us: known.place(Key::TimeUs),
            frames: known.place(Key::Frames),
            tags: [Key::Stream, Key::CompileContext, Key::UserMetadata, Key::PoolId].map(|key| known.place(key)),
            keys,
        }
    }

    /// The values of an event, if it is of this shape.
    #[inline]
    pub(super) fn values(&self, items: &[Value]) -> Option<EventValues> {
        let pairs = items.as_chunks::<2>().0;
        if self.keys.is_empty() || !self.has_keys_of(pairs) {
            return None;
        }
        // Not by `map`, which takes longer than all else here.
        let [stream, context, metadata, pool] = self.tags;
        Some(EventValues {
            action: value_at(pairs, self.action),
            addr: value_at(pairs, self.addr),
            size: value_at(pairs, self.size),
            time_us: value_at(pairs, self.time_us),
            frames: value_at(pairs, self.frames),
            tags: [value_at(pairs, stream), value_at(pairs, context), value_at(pairs, metadata), value_at(pairs, pool)],
        })
    }

    /// True if the keys are the same in the same order.
    #[inline]
    fn has_keys_of(&self, pairs: &[[Value; 2]]) -> bool {
        self.keys.len() == pairs.len() && self.keys.iter().zip(pairs).all(|(known, [key, _])| known == key)
    }
}

#[inline]
fn value_at(pairs: &[[Value; 2]], at: usize) -> Value {
    pairs.get(at).map_or(Value::ABSENT, |&[_, value]| value)
}

/// The keys of an event in their order; `None` for those that no release has.
struct KnownKeys(Vec<Option<Key>>);

impl KnownKeys {
    /// True if a key is there twice, or is one that few events have.
    fn are_unusual(&self) -> bool {
        self.0.iter().flatten().any(|&key| {
            matches!(key, Key::DeviceFree | Key::ForwardFrames)
                || self.0.iter().filter(|other| **other == Some(key)).count() > 1
        })
    }

    fn place(&self, key: Key) -> usize {
        self.0.iter().position(|other| *other == Some(key)).unwrap_or(NOWHERE)
    }
}
