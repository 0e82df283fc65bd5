//! Reports: one file per output format, each a function of the result alone.

pub mod json;
pub mod table;

mod sparkline;

/// How much a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The most stacks per device; 0 is all.
    pub top: usize,
    /// Stacks that hold, or changed by, fewer bytes are summed in one row.
    pub min_delta: u64,
    /// Columns of the terminal.
    pub width: usize,
    /// Memory of the device in bytes, for shares of it.
    pub device_memory: Option<u64>,
}
