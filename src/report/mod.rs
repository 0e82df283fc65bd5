//! Reports: one file per output format, each a function of the result alone.

pub mod json;
pub mod table;

mod explain;
mod sparkline;

use crate::diff::Listing;

/// How much a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The most stacks per device; 0 is all.
    pub top: usize,
    /// Stacks that hold, or changed by, fewer bytes are summed in one row.
    pub min_delta: u64,
    /// Also list stacks that did not change.
    pub unchanged: bool,
    /// Show how the two stacks of a row differ.
    pub explain: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Memory of the device in bytes, for shares of it.
    pub device_memory: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { top: 10, min_delta: 0, unchanged: false, explain: false, width: 100, device_memory: None }
    }
}

impl Options {
    /// Which rows of a comparison to show.
    fn listing(&self) -> Listing {
        Listing { top: self.top, min_delta: self.min_delta, unchanged: self.unchanged }
    }
}
