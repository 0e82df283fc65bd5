//! Commits and releases, which can be recorded.

use std::ffi::OsString;

use anyhow::Result;
use ptmem::patch::Edit;

use super::recorder::{Recorded, Recorder};
use super::{Asked, Candidates};

/// A set whose members can be recorded.
pub(super) trait Recordable: Candidates {
    /// The good and the bad end.
    fn ends(&self) -> [Self::One; 2];
    /// The name of one as that of a folder.
    fn folder(one: &Self::One) -> &str;
    /// Runs and records one of them.
    fn record(&self, one: &Self::One, recorder: &Recorder<'_>, command: &[OsString]) -> Result<Recorded>;
    /// The first bad one, as far as it is known.
    fn found(&self, asked: &Asked<Self::One>) -> Result<Found<Self::One>>;

    /// Makes the code of the answer that of the working directory, and gives the name of the code before it, where it has one.
    fn show(&self, _: &Found<Self::One>, _: &Recorder<'_>) -> Result<Option<String>> {
        Ok(None)
    }

    /// Records the answer, shown before, without one of its edits; `None` where that edit cannot be taken back alone.
    fn without(&self, _: &Found<Self::One>, _: &Edit, _: &Recorder<'_>, _: &[OsString]) -> Result<Option<Recorded>> {
        Ok(None)
    }
}

/// The answer of a search.
pub(super) struct Found<C> {
    pub(super) bad: C,
    /// The one before it, or the last good one if others are between them.
    pub(super) before: C,
    /// Those between them of which nothing is known.
    pub(super) unknown: Vec<C>,
}
