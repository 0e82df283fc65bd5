//! A change of the code: its files and edits.

mod edits;
mod hunks;
mod imports;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use ptmem_base::sides::{Side, Sides};
use ptmem_base::text::ends_of_path;

#[cfg(test)]
pub(crate) use edits::EditedStatement;
pub use edits::{Edit, EditKind, MOST_EDITS};
use edits::{of_code, of_configuration};
use imports::MovedCode;

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
    /// Those with another name before.
    renamed: Vec<Sides<String>>,
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
        let both = paths.map(|path| path.map(str::to_owned)).both();
        self.renamed.extend(both.filter(|paths| paths.before != paths.after));
    }

    /// Drops the edits that only move text within or between files, and leaves imports from there without effect. Once for all
    /// files: a change may have thousands.
    pub fn leave_out_moved(&mut self) {
        let pairs = moved(&self.edits);
        let mut moves = MovedCode::default();
        self.renamed.iter().for_each(|paths| moves.add(paths.map(String::as_str), None));
        for pair in &pairs {
            let [before, after] = [pair.before, pair.after].map(|index| &self.edits[index]);
            let name = after.scope.as_deref().filter(|_| !after.is_import());
            if let (Some(from), Some(to), Some(_)) = (&before.path.before, &after.path.after, name) {
                moves.add(Sides { before: from, after: to }, name);
            }
        }
        let are_moved: HashSet<usize> = pairs.iter().flat_map(|pair| [pair.before, pair.after]).collect();
        let all = std::mem::take(&mut self.edits).into_iter().enumerate();
        self.edits.extend(all.filter(|(at, _)| !are_moved.contains(at)).map(|(_, edit)| edit));
        self.edits.iter_mut().for_each(|edit| edit.rebind(&moves));
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
    pub fn path<'a>(&'a self, side: Side, recorded: &str, checkout: &'a BTreeMap<String, String>) -> Option<&'a str> {
        match (checkout.get(recorded), side) {
            (Some(path), _) => Some(path),
            (None, Side::Before) => self.find(side, recorded),
            (None, Side::After) => None,
        }
    }

    /// The longest end of a recorded path that is a file of this side.
    pub fn find(&self, side: Side, recorded: &str) -> Option<&str> {
        ends_of_path(recorded).find_map(|end| self.files.of(side).get(end)).map(String::as_str)
    }
}

/// The edits that move the same code, in pairs: one takes it from where the other does not have it.
fn moved(edits: &[Edit]) -> Vec<Sides<usize>> {
    let mut pairs = Vec::new();
    let mut open: HashMap<(&str, bool), VecDeque<usize>> = HashMap::new();
    for (index, edit) in edits.iter().enumerate() {
        let Some((code, is_old)) = edit.moved() else { continue };
        match open.get_mut(&(code, !is_old)).and_then(VecDeque::pop_front) {
            Some(other) if is_old => pairs.push(Sides { before: index, after: other }),
            Some(other) => pairs.push(Sides { before: other, after: index }),
            None => open.entry((code, is_old)).or_default().push_back(index),
        }
    }
    pairs
}
