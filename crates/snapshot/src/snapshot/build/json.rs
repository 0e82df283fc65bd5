//! Values of a pickle as JSON, within bounds: the facts about the run that a recorder added.

use ptmem_base::text::cut;
use serde_json::{Map, Value as Json};

use super::SnapshotBuilder;
use crate::snapshot::value::{ValueHandle, ValueKind};

/// Bounds on a value: few bytes of a file can refer to one list or text millions of times.
const DEEPEST: usize = 8;
const MOST_VALUES: usize = 500_000;
const MOST_TEXT: usize = 16 << 20;
const MOST_SHORT_VALUES: usize = 100;
const MOST_SHORT_TEXT: usize = 1000;
/// Longer texts are cut.
const LONGEST_TEXT: usize = 500;

/// The bounds that remain while the facts are read.
struct RemainingBounds {
    values: usize,
    text: usize,
    /// True for a value of an event; the facts about the run have no numbers but unsigned ones.
    is_short: bool,
}

impl SnapshotBuilder {
    /// A value as JSON; `None` where it is larger than any recorder writes.
    pub(super) fn json(&self, value: ValueHandle) -> Option<Json> {
        self.json_within(value, DEEPEST, &mut RemainingBounds { values: MOST_VALUES, text: MOST_TEXT, is_short: false })
    }

    /// The same for a value that an event carries, of which a file can have millions.
    pub(super) fn short_json(&self, value: ValueHandle) -> Option<Json> {
        self.json_within(
            value,
            DEEPEST,
            &mut RemainingBounds { values: MOST_SHORT_VALUES, text: MOST_SHORT_TEXT, is_short: true },
        )
    }

    fn json_within(&self, value: ValueHandle, depth: usize, left: &mut RemainingBounds) -> Option<Json> {
        left.values = left.values.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        // Without a copy, which would be made again wherever a list is referred to.
        if let Some(items) = self.items(value) {
            let items = self.each(items).map(|item| self.json_within(item, depth, left));
            return items.collect::<Option<_>>().map(Json::Array);
        }
        if let Some(pairs) = self.dict_pairs(value) {
            let mut map = Map::new();
            for &(key, value) in pairs {
                let key = self.text_within(key, left)?;
                map.insert(key, self.json_within(value, depth, left)?);
            }
            return Some(Json::Object(map));
        }
        Some(match value.kind() {
            ValueKind::Bool(value) => value.into(),
            ValueKind::Str(_) => self.text_within(value, left)?.into(),
            ValueKind::Float(at) if left.is_short => self.floats[at as usize].into(),
            _ => match self.integer(value).and_then(|value| i64::try_from(value).ok()) {
                Some(value) if left.is_short => value.into(),
                _ => self.unsigned(value).map_or(Json::Null, Json::from),
            },
        })
    }

    fn text_within(&self, value: ValueHandle, left: &mut RemainingBounds) -> Option<String> {
        let text = cut(self.string(value)?, LONGEST_TEXT);
        left.text = left.text.checked_sub(text.len())?;
        Some(text.to_owned())
    }
}
