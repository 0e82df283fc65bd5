//! The positions of the keys among the items of an event: successive events have the same layout.

use super::super::field::Key;
use super::super::value::Value;
use super::Builder;

/// The keys of an event that count: the required ones, then those that may be missing, the tags last.
const KEYS: [Key; 9] = [
    Key::Action,
    Key::Addr,
    Key::Size,
    Key::TimeUs,
    Key::Frames,
    Key::Stream,
    Key::CompileContext,
    Key::UserMetadata,
    Key::PoolId,
];

/// The keys of an event in their order, and the position of each of [`KEYS`] stands.
#[derive(Default)]
pub(super) struct EventShape {
    keys: Vec<Value>,
    places: [usize; KEYS.len()],
}

const NOWHERE: usize = usize::MAX;
/// No release writes more.
const MOST_KEYS: usize = 32;

impl EventShape {
    /// The shape of an event with these items. One with keys that are there twice, or that few events have, fits no
    /// event.
    pub(super) fn of(items: &[Value]) -> Self {
        let keys: Vec<Value> = items.iter().step_by(2).take(MOST_KEYS + 1).copied().collect();
        let known: Vec<Option<Key>> = keys.iter().map(|&key| Builder::key(key)).collect();
        let is_unusual = known.iter().enumerate().any(|(at, key)| match key {
            Some(Key::DeviceFree | Key::ForwardFrames) => true,
            key => key.is_some() && known[..at].contains(key),
        });
        if is_unusual || keys.len() > MOST_KEYS {
            return Self::default();
        }
        let places = KEYS.map(|key| known.iter().position(|known| *known == Some(key)).unwrap_or(NOWHERE));
        Self { keys, places }
    }

    /// The values of [`KEYS`] of an event, if it is of this shape; [`Value::ABSENT`] where it has none.
    #[inline]
    pub(super) fn values(&self, items: &[Value]) -> Option<[Value; KEYS.len()]> {
        let pairs = items.as_chunks::<2>().0;
        // True if the keys are the same in the same order.
        let has_keys =
            self.keys.len() == pairs.len() && self.keys.iter().zip(pairs).all(|(known, [key, _])| known == key);
        if self.keys.is_empty() || !has_keys {
            return None;
        }
        // Not by `map`, which takes longer than all else here.
        let [action, addr, size, time_us, frames, stream, context, metadata, pool] = self.places;
        Some([
            value_at(pairs, action),
            value_at(pairs, addr),
            value_at(pairs, size),
            value_at(pairs, time_us),
            value_at(pairs, frames),
            value_at(pairs, stream),
            value_at(pairs, context),
            value_at(pairs, metadata),
            value_at(pairs, pool),
        ])
    }
}

#[inline]
fn value_at(pairs: &[[Value; 2]], at: usize) -> Value {
    pairs.get(at).map_or(Value::ABSENT, |&[_, value]| value)
}
