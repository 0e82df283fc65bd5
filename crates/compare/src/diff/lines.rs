//! The lines that a row sums, where it is named after one of several.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Sides;
use crate::profile::Held;
use crate::stack::{Label, More};

/// One of the lines of a row, with its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLine {
    /// Its label, as in the after where it exists there.
    pub label: String,
    /// Bytes and blocks on both sides.
    pub held: Sides<Held>,
}

impl RowLine {
    /// Those with the largest change first.
    pub(super) fn largest_first(mut lines: Vec<Self>) -> Vec<Self> {
        lines.sort_by_key(|line| (Reverse(line.held.delta().unsigned_abs()), Reverse(line.held.after.bytes)));
        lines
    }
}

/// The lines that a row sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowLines {
    /// Each of them, the largest change first; none where there are not several.
    pub all: Vec<RowLine>,
    /// Number of lines beside the one that names the row.
    pub more: More,
}

impl RowLines {
    /// From what each line holds.
    pub(super) fn new(by_label: BTreeMap<Label, Sides<Held>>) -> Self {
        if by_label.len() <= 1 {
            return Self::default();
        }
        let more = More::of(by_label.keys());
        let lines = by_label.into_iter().map(|(label, held)| RowLine { label: label.to_string(), held });
        Self { all: RowLine::largest_first(lines.collect()), more }
    }

    /// The labels of the lines.
    pub fn labels(&self) -> impl Iterator<Item = &String> {
        self.all.iter().map(|line| &line.label)
    }
}
