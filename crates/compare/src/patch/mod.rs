//! The lines that a change of the code touches, as `git diff` tells them.

mod parse;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub use parse::ParseError;

use crate::python::statements;
use crate::sides::{Side, Sides};

/// The lines that a change of the code touches, by file and side. Files of the before go by the name they had there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    files: Sides<BTreeMap<String, Lines>>,
}

/// Lines of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Lines {
    spans: Vec<Span>,
}

/// Neighbouring lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// The first of them; where there are none, the line before them.
    first: u32,
    count: u32,
}

impl Span {
    fn has(self, line: u32) -> bool {
        (self.first..self.first.saturating_add(self.count)).contains(&line)
    }

    /// True if it changes a statement. Lines that are missing between two lines change the statement of both.
    fn changes(self, statement: &RangeInclusive<u32>) -> bool {
        if self.count == 0 {
            return statement.contains(&self.first) && self.first < *statement.end();
        }
        self.first <= *statement.end() && self.first.saturating_add(self.count) > *statement.start()
    }
}

impl Lines {
    /// True if the line is one of them.
    fn has(&self, line: u32) -> bool {
        self.spans.iter().any(|span| span.has(line))
    }
}

impl Patch {
    /// True if the change touches a line of a file.
    #[must_use]
    pub fn touches(&self, side: Side, path: &str, line: u32) -> bool {
        self.files.of(side).get(path).is_some_and(|lines| lines.has(line))
    }

    /// The files of a side that it changes.
    pub fn files(&self, side: Side) -> impl Iterator<Item = &str> {
        self.files.of(side).keys().map(String::as_str)
    }

    /// The longest end of a recorded path that is a file of this side.
    #[must_use]
    pub fn find(&self, side: Side, recorded: &str) -> Option<&str> {
        let starts = std::iter::once(0).chain(recorded.match_indices('/').map(|(at, _)| at + 1));
        let mut ends = starts.map(|at| &recorded[at..]);
        ends.find_map(|end| self.files.of(side).get_key_value(end)).map(|(path, _)| path.as_str())
    }

    /// Adds a file that is new as a whole.
    pub fn add_file(&mut self, path: &str) {
        self.touch(Side::After, path, Span { first: 1, count: u32::MAX });
    }

    /// The same with all lines of each statement that it touches, given the text of a Python file: the frame of a call
    /// over several lines names one of them, the change another.
    pub fn widen_to_statements(&mut self, side: Side, path: &str, text: &str) {
        let Some(lines) = self.files.of_mut(side).get_mut(path) else { return };
        for statement in statements(text).into_iter().filter(|lines| lines.start() < lines.end()) {
            if lines.spans.iter().any(|span| span.changes(&statement)) {
                let first = *statement.start();
                lines.spans.push(Span { first, count: statement.end() - first + 1 });
            }
        }
    }

    fn touch(&mut self, side: Side, path: &str, span: Span) {
        self.files.of_mut(side).entry(path.to_owned()).or_default().spans.push(span);
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
t = 'it\\'s (' + \\
    \"\\\\\"
z = 1
";

    /// The lines of the code that a change touches, with their statements.
    fn touched(first: u32, count: u32) -> Vec<u32> {
        let mut patch = Patch::default();
        patch.touch(Side::After, "m.py", Span { first, count });
        patch.widen_to_statements(Side::After, "m.py", CODE);
        (1..=12).filter(|&line| patch.touches(Side::After, "m.py", line)).collect()
    }

    #[test]
    fn a_change_within_a_statement_touches_all_of_it() {
        assert_eq!(touched(3, 1), [2, 3, 4, 5]);
        // Lines are missing behind line 2, within the call; behind line 5 they are between two statements.
        assert_eq!(touched(2, 0), [2, 3, 4, 5]);
        assert_eq!(touched(5, 0), [0; 0]);
        assert_eq!(touched(1, 1), [1]);
        assert_eq!(touched(6, 3), [6, 7, 8]);
    }
}
