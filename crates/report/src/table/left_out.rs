//! What a table leaves out, in words.

use crate::text::count;

/// Numbers of things that are left out of a group.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) metrics: u64,
    /// Remarks on rows, each on the way in which a stack changed.
    pub(super) manners: u64,
    pub(super) notes: u64,
    /// Warnings of which the end is missing.
    pub(super) cut: u64,
}

impl LeftOut {
    /// All of it in words; nothing where nothing is left out.
    pub(super) fn words(&self) -> String {
        let Self { metrics, manners, notes, cut } = *self;
        let metrics = (metrics > 0).then(|| count(metrics, "metric", "metrics"));
        let manners = (manners > 0).then(|| format!("how {} changed", count(manners, "stack", "stacks")));
        let notes = (notes > 0).then(|| count(notes, "note", "notes"));
        let cut = (cut > 0).then(|| format!("the rest of {}", count(cut, "warning", "warnings")));
        metrics.into_iter().chain(manners).chain(notes).chain(cut).collect::<Vec<_>>().join(", ")
    }
}
