//! The lines that a change of the code touches.

mod edits;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ptmem_base::python::statements;
use ptmem_base::sides::{Side, Sides};
use ptmem_trace::stack::differences;
use similar::DiffOp;

pub use edits::{Edit, EditKind};
use edits::{of_code, of_configuration};

/// A line of the code, by its path from the root of the checkout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct CodeLine {
    /// The path.
    pub path: String,
    /// The line, counted from 1.
    pub line: u32,
}

/// The lines that a change of the code touches, by file and side. Files of the before go by the name they had there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    files: Sides<BTreeMap<String, BTreeSet<u32>>>,
    /// Its edits; comments, formatting and renames are not among them.
    pub edits: Vec<Edit>,
}

impl Patch {
    /// Adds a Python file by its texts on both sides; a side that lacks it has no path, and an empty text. A statement that
    /// changed counts with all of its lines: the frame of a call over several lines names one of them, the change another.
    pub fn add(&mut self, paths: Sides<Option<&str>>, texts: Sides<&str>) {
        self.edits.extend(of_code(paths, texts));
        let lines = texts.map(|text| text.lines().collect::<Vec<_>>());
        let mut changes = differences(&lines.before, &lines.after);
        changes.retain(|change| !matches!(change, DiffOp::Equal { .. }));
        for (side, path) in paths.each() {
            let Some(path) = *path else { continue };
            // Counted from 0. An empty range is between two lines, and changes the statements of both.
            let ranges: Vec<Range<usize>> = changes
                .iter()
                .map(|change| match side {
                    Side::Before => change.old_range(),
                    Side::After => change.new_range(),
                })
                .collect();
            let touched = self.files.of_mut(side).entry(path.to_owned()).or_default();
            for statement in statements(texts.of(side)) {
                let next = ranges.partition_point(|range| range.end < *statement.start() as usize);
                if ranges.get(next).is_some_and(|range| range.start < *statement.end() as usize) {
                    touched.extend(statement);
                }
            }
        }
    }

    /// Adds a file that is not Python.
    pub fn add_configuration(&mut self, paths: Sides<Option<&str>>, texts: Sides<&str>) {
        self.edits.extend(of_configuration(paths, texts));
    }

    /// True if the change touches a line of a file.
    #[must_use]
    pub fn touches(&self, side: Side, path: &str, line: u32) -> bool {
        self.files.of(side).get(path).is_some_and(|lines| lines.contains(&line))
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
        ends.find_map(|end| self.files.of(side).get_key_value(end)).map(|(path, _)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
x = f(1)  # (
y = nn.Linear(
    a,
    [b, ')'],
)
def g(self): pass
s = '''(
'''
z = 1
";

    const NONE: [u32; 0] = [];

    /// The lines of the code, and of the code with a change, that the change touches.
    fn touched(old: &str, new: &str) -> [Vec<u32>; 2] {
        let mut patch = Patch::default();
        let after = CODE.replace(old, new);
        patch.add(Sides { before: Some("old.py"), after: Some("net/m.py") }, Sides { before: CODE, after: &after });
        assert_eq!(patch.find(Side::Before, "/elsewhere/repo/old.py"), Some("old.py"));
        [(Side::Before, "old.py"), (Side::After, "net/m.py")]
            .map(|(side, path)| (0..=12).filter(|&line| patch.touches(side, path, line)).collect())
    }

    #[test]
    fn a_change_within_a_statement_touches_all_of_it() {
        assert_eq!(touched("    a,\n", "    c,\n"), [[2, 3, 4, 5], [2, 3, 4, 5]]);
        assert_eq!(touched("    a,\n", "    a,\n    c,\n"), [vec![2, 3, 4, 5], vec![2, 3, 4, 5, 6]]);
        assert_eq!(touched("    a,\n", ""), [vec![2, 3, 4, 5], vec![2, 3, 4]]);
        assert_eq!(touched("f(1)", "f(2)"), [[1], [1]]);
        assert_eq!(touched("s = '''(", "t = '''("), [[7, 8], [7, 8]]);
        // Between two statements it touches neither.
        assert_eq!(touched("def g", "h(1)\ndef g"), [NONE.to_vec(), vec![6]]);
        // Different line endings are not a change.
        assert_eq!(touched("\n", "\r\n"), [NONE, NONE]);
    }

    #[test]
    fn a_file_of_one_side_is_touched_as_a_whole() {
        let mut patch = Patch::default();
        patch.add(Sides { before: None, after: Some("m.py") }, Sides { before: "", after: CODE });
        patch.add(Sides { before: Some("gone.py"), after: None }, Sides { before: CODE, after: "" });
        for (side, path) in [(Side::After, "m.py"), (Side::Before, "gone.py")] {
            assert!((1..=9).all(|line| patch.touches(side, path, line)), "{path}");
            assert_eq!(patch.find(side.other(), path), None);
        }
    }
}
