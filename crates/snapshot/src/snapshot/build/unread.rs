//! Keys that this version does not know and therefore does not read: a newer PyTorch may write some.

use std::collections::BTreeSet;

use super::super::field::FieldKey;
use super::super::value::ValueHandle;
use super::super::{DictKind, StringId, Tables};
use super::SnapshotBuilder;

/// Keys that PyTorch, its viewer and torch-snapkit write and that no figure needs.
const NOT_NEEDED: [&str; 10] = [
    "categories",
    "segment_version",
    "block_version",
    "internal_metadata",
    "cpp_frames",
    "fx_node_op",
    "fx_node_name",
    "fx_node_target",
    "traces",
    "shape_data",
];

/// Maximum number of names that are kept.
const MOST_NAMES: usize = 20;

/// The names of keys that were not read, and the part of the file that has them.
#[derive(Default)]
pub(super) struct Unread(pub(super) BTreeSet<(DictKind, StringId)>);

impl Unread {
    /// Interns the names that are left out on purpose right after those of [`FieldKey`].
    pub(super) fn intern_not_needed(tables: &mut Tables) {
        NOT_NEEDED.iter().for_each(|name| {
            tables.intern_string(name);
        });
    }

    /// Adds a key unless it is known.
    pub(super) fn add(&mut self, part: DictKind, key: ValueHandle) {
        let known = FieldKey::COUNT + NOT_NEEDED.len();
        if let Some(name) = SnapshotBuilder::string_id(key).filter(|name| name.index() >= known)
            && self.0.len() < MOST_NAMES
        {
            self.0.insert((part, name));
        }
    }

    /// Adds a known key whose value has an unknown form.
    pub(super) fn add_value(&mut self, part: DictKind, key: FieldKey) {
        self.0.insert((part, StringId::from_index(key as usize)));
    }
}

impl SnapshotBuilder {
    /// Notes the unknown keys of a dictionary.
    pub(super) fn note_unread(&mut self, part: DictKind, dict: ValueHandle) {
        let mut unread = std::mem::take(&mut self.unread);
        for (key, _) in self.dict_pairs(dict).unwrap_or_default() {
            unread.add(part, *key);
        }
        self.unread = unread;
    }
}
