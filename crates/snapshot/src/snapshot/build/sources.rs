//! The source files that torch-snapkit adds to a snapshot, in a dictionary by their paths. They are kept only where they are asked for.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::StringId;
use super::super::field::FieldKey;
use super::super::value::ValueHandle;
use super::SnapshotBuilder;

/// Longer texts are cut: far beyond any symbol or path, and few bytes of a file can refer to one text
/// millions of times.
pub(super) const LONGEST_TEXT: usize = 16 << 10;

/// A shorter text was not cut, whatever its last character is.
pub(super) const WHOLE: usize = LONGEST_TEXT - 3;

/// The most bytes of a file, and of all.
const LARGEST: usize = 1 << 20;
const MOST: usize = 16 << 20;

/// The long texts of a file, which may be sources.
#[derive(Default)]
pub(super) struct SourceTexts {
    are_kept: bool,
    /// By their first bytes; `None` for those of two texts.
    whole: FxHashMap<StringId, Option<Arc<str>>>,
    bytes: usize,
}

impl SourceTexts {
    pub(super) fn new(are_kept: bool) -> Self {
        Self { are_kept, ..Self::default() }
    }

    #[cold]
    pub(super) fn keep(&mut self, beginning: StringId, text: &str) {
        if !self.are_kept || text.len() > LARGEST || self.bytes + text.len() > MOST {
            return;
        }
        self.bytes += text.len();
        let kept = self.whole.entry(beginning).or_insert_with(|| Some(Arc::from(text)));
        kept.take_if(|kept| **kept != *text);
    }
}

impl SnapshotBuilder {
    /// Adds the texts of source files to the tables.
    pub(super) fn finish_sources(&mut self, root: ValueHandle) {
        let files = self.entry(root, FieldKey::SourceCode).filter(|_| self.sources.are_kept);
        let pairs = files.and_then(|files| self.dict_pairs(files)).unwrap_or_default();
        let ids: Vec<_> =
            pairs.iter().filter_map(|&(path, text)| Self::string_id(path).zip(Self::string_id(text))).collect();
        for (path, text) in ids {
            if self.tables.string(text).len() < WHOLE {
                self.tables.set_source(path, text);
            } else if let Some(Some(whole)) = self.sources.whole.get(&text) {
                self.tables.set_whole_source(path, Arc::clone(whole));
            }
        }
    }
}
