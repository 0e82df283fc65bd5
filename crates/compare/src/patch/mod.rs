//! A change of the code: its files and edits.

mod edits;
mod hunks;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use ptmem_base::sides::{Side, Sides};

pub use edits::{Edit, EditKind, MOST_EDITS};
use edits::{of_code, of_configuration};

/// A line of the code, by its path from the root of the checkout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct CodeLine {
    /// The path.
    pub path: String,
    /// The line, counted from 1.
    pub line: u32,
}

/// A change of the code. Files of the before go by the name they had there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Number of changed files that were not read, because the change is large.
    pub unread: usize,
    /// The Python files that differ.
    files: Sides<BTreeSet<String>>,
    /// Its edits; comments, formatting and renames are not among them.
    pub edits: Vec<Edit>,
}

impl Patch {
    /// Adds a Python file by its texts on both sides; a side that lacks it has no path, and an empty text. Call
    /// [`Self::leave_out_moved`] after the last one.
    pub fn add(&mut self, paths: Sides<Option<&str>>, texts: Sides<&str>) {
        self.edits.extend(of_code(paths, texts));
        for (side, path) in paths.each() {
            self.files.of_mut(side).extend(path.map(str::to_owned));
        }
    }

    /// Drops the edits that only move text within or between files. Once for all files: a change may have thousands.
    pub fn leave_out_moved(&mut self) {
        let mut is_moved = moved(&self.edits).into_iter();
        self.edits.retain(|_| is_moved.next() != Some(true));
    }

    /// Adds a file that is not Python.
    pub fn add_configuration(&mut self, paths: Sides<Option<&str>>, texts: Sides<&str>) {
        self.edits.extend(of_configuration(paths, texts));
    }

    /// Adds a file whose lines are not read, or a submodule.
    pub fn add_file(&mut self, paths: Sides<Option<&str>>) {
        self.edits.push(Edit::of_whole(paths));
    }

    /// The path of a recorded file from the root of the checkout, given those that the checkout has. A file of the before may
    /// have another name there, or be gone.
    #[must_use]
    pub fn path<'a>(&'a self, side: Side, recorded: &str, checkout: &'a BTreeMap<String, String>) -> Option<&'a str> {
        match (checkout.get(recorded), side) {
            (Some(path), _) => Some(path),
            (None, Side::Before) => self.find(side, recorded),
            (None, Side::After) => None,
        }
    }

    /// The longest end of a recorded path that is a file of this side.
    #[must_use]
    pub fn find(&self, side: Side, recorded: &str) -> Option<&str> {
        let starts = std::iter::once(0).chain(recorded.match_indices('/').map(|(at, _)| at + 1));
        let mut ends = starts.map(|at| &recorded[at..]);
        ends.find_map(|end| self.files.of(side).get(end)).map(String::as_str)
    }
}

/// For each edit, whether it is one of two that move the same code: one takes it from where the other does not have it.
fn moved(edits: &[Edit]) -> Vec<bool> {
    let mut are_moved = vec![false; edits.len()];
    let mut open: HashMap<(&str, bool), VecDeque<usize>> = HashMap::new();
    for (index, edit) in edits.iter().enumerate() {
        let Some((code, is_old)) = edit.moved() else { continue };
        match open.get_mut(&(code, !is_old)).and_then(VecDeque::pop_front) {
            Some(other) => [index, other].into_iter().for_each(|one| are_moved[one] = true),
            None => open.entry((code, is_old)).or_default().push_back(index),
        }
    }
    are_moved
}
