//! Finds the statements of a Python file that go over several lines.

use std::ops::RangeInclusive;

/// The lines of each statement of more than one line: those within brackets, those that a backslash joins, and long
/// strings. Only the first line of a statement with a block belongs to it. A text that is no Python has some, too.
pub(super) fn over_several_lines(text: &str) -> Vec<RangeInclusive<u32>> {
    let mut scanner = Scanner { line: 1, first: 1, depth: 0, statements: Vec::new() };
    scanner.scan(text.as_bytes());
    scanner.statements
}

struct Scanner {
    line: u32,
    /// The first line of the statement.
    first: u32,
    /// Brackets that are open.
    depth: u32,
    statements: Vec<RangeInclusive<u32>>,
}

impl Scanner {
    fn scan(&mut self, text: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'\n' if self.depth > 0 => self.line += 1,
                b'\n' => self.end(),
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b'#' => at += until_line_break(&text[at + 1..]),
                b'\\' => {
                    at += 1 + usize::from(text.get(at + 1) == Some(&b'\r'));
                    self.line += u32::from(text.get(at) == Some(&b'\n'));
                }
                quote @ (b'"' | b'\'') => at += self.string(&text[at..], quote) - 1,
                _ => {}
            }
            at += 1;
        }
        self.end();
    }

    /// The length of a string, with its quotes.
    fn string(&mut self, text: &[u8], quote: u8) -> usize {
        let is_long = text.starts_with(&[quote; 3]);
        let mut at = if is_long { 3 } else { 1 };
        while let Some(&byte) = text.get(at) {
            match byte {
                b'\\' => {
                    self.line += u32::from(text.get(at + 1) == Some(&b'\n'));
                    at += 1;
                }
                b'\n' if is_long => self.line += 1,
                // It was no string: the line break belongs to whatever it is.
                b'\n' => return at,
                byte if byte == quote && !is_long => return at + 1,
                byte if byte == quote && text[at..].starts_with(&[quote; 3]) => return at + 3,
                _ => {}
            }
            at += 1;
        }
        text.len()
    }

    /// The end of a line that ends a statement.
    fn end(&mut self) {
        if self.line > self.first {
            self.statements.push(self.first..=self.line);
        }
        self.line += 1;
        self.first = self.line;
    }
}

fn until_line_break(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{Patch, Span};
    use crate::sides::Side;

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

    #[test]
    fn brackets_strings_and_backslashes_join_lines() {
        assert_eq!(over_several_lines(CODE), [2..=5, 7..=8, 9..=10]);
        assert_eq!(over_several_lines("f(\n"), [1..=2]);
        assert_eq!(over_several_lines("'a\nb)\r\nc \\\r\nd"), [3..=4]);
        assert_eq!(over_several_lines("'''"), []);
    }

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
