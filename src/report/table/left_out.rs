//! What a table leaves out, in words.

use crate::text::count;

/// Numbers of things that are left out of a group.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) metrics: u64,
    pub(super) notes: u64,
    /// Warnings of which the end is missing.
    pub(super) cut: u64,
}

impl LeftOut {
    /// All of it in words; nothing where nothing is left out.
    pub(super) fn words(&self) -> String {
        let Self { metrics, notes, cut } = *self;
        let metrics = (metrics > 0).then(|| count(metrics, "metric", "metrics"));
        let notes = (notes > 0).then(|| count(notes, "note", "notes"));
        let cut = (cut > 0).then(|| format!("the rest of {}", count(cut, "warning", "warnings")));
        metrics.into_iter().chain(notes).chain(cut).collect::<Vec<_>>().join(", ")
    }
}
