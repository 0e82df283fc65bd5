//! Reports: one file per output format, each a function of the result alone.

pub mod json;
pub mod table;

mod explain;
mod sparkline;
mod tree;

use crate::diff::Listing;
use crate::tree as call_tree;

/// How much a report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The most stacks per device; 0 is all.
    pub top: usize,
    /// Stacks that hold, or changed by, fewer bytes are summed in one row.
    pub min_delta: u64,
    /// Also list stacks that did not change.
    pub unchanged: bool,
    /// Show how the two stacks of a row differ.
    pub explain: bool,
    /// Show the call tree in place of the list of stacks.
    pub tree: Option<call_tree::Options>,
    /// Columns of the terminal.
    pub width: usize,
    /// Memory of the device in bytes, for shares of it.
    pub device_memory: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { top: 10, min_delta: 0, unchanged: false, explain: false, tree: None, width: 100, device_memory: None }
    }
}

impl Options {
    /// Which rows of a comparison to show.
    fn listing(&self) -> Listing {
        Listing { top: self.top, min_delta: self.min_delta, unchanged: self.unchanged }
    }
}
