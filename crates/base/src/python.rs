//! The statements of a Python file, and the functions and classes that contain them. Also accepts text that is not
//! valid Python.

use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Columns of a tab.
pub const TAB: usize = 8;

/// The lines of each statement: several are those within brackets, those that a backslash joins, and long strings. Only the
/// head of a statement with a block belongs to it. Blank lines and comments count as statements of one line.
pub fn statements(text: &str) -> Vec<RangeInclusive<u32>> {
    let mut scanner = Scanner { line: 1, first: 1, depth: 0, statements: Vec::new() };
    scanner.scan(text.as_bytes());
    scanner.statements
}

/// The functions and classes of a file.
#[derive(Debug, Default)]
pub struct Functions {
    /// In the order in which they begin, so that an inner one follows the outer one.
    all: Vec<Function>,
}

/// A function or a class.
#[derive(Debug)]
struct Function {
    /// Its name within those around it, as `__qualname__` has it.
    name: String,
    /// The text between its name and the name of a function within it.
    separator: &'static str,
    /// The one around it.
    outer: Option<usize>,
    indent: usize,
    /// Its lines, including decorators.
    lines: RangeInclusive<u32>,
    /// The last line of its head.
    head: u32,
}

/// Python refuses deeper blocks.
const DEEPEST: usize = 100;

/// The longest qualified name in bytes within which functions are looked for: each has all names around it.
const LONGEST_NAME: usize = 1024;

impl Functions {
    /// Those of a text, by their indentation.
    pub fn new(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut all: Vec<Function> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut decorator = None;
        for (first, last) in statements(text).into_iter().map(RangeInclusive::into_inner) {
            let Some(line) = lines.get(first as usize - 1).filter(|line| is_code(line)) else { continue };
            let indent = indent(line);
            open.retain(|&outer| all[outer].indent < indent);
            for &outer in &open {
                all[outer].lines = *all[outer].lines.start()..=last;
            }
            let line = line.trim_start();
            if line.starts_with('@') {
                decorator = decorator.or(Some(first));
                continue;
            }
            let first = decorator.take().unwrap_or(first);
            let outer = open.last().copied();
            let is_known = outer.is_none_or(|outer| open.len() < DEEPEST && all[outer].name.len() <= LONGEST_NAME);
            if let Some((own, separator)) = defined(line).filter(|_| is_known) {
                let name = outer.map_or_else(|| own.to_owned(), |outer| all[outer].within(own));
                open.push(all.len());
                all.push(Function { name, separator, outer, indent, lines: first..=last, head: last });
            }
        }
        Self { all }
    }

    /// The innermost function or class with a line, decorators included: its qualified name, and its lines.
    pub fn around(&self, line: u32) -> Option<(&str, RangeInclusive<u32>)> {
        self.all_around(line).next()
    }

    /// The functions and classes with a line, the innermost first.
    pub fn all_around(&self, line: u32) -> impl Iterator<Item = (&str, RangeInclusive<u32>)> {
        let last = self.all.partition_point(|function| *function.lines.start() <= line).checked_sub(1);
        let outward = std::iter::successors(last, |&index| self.all[index].outer).map(|index| &self.all[index]);
        let around = outward.filter(move |function| function.lines.contains(&line));
        around.map(|function| (&*function.name, function.lines.clone()))
    }

    /// The lines of the first function or class of each qualified name.
    pub fn by_name(&self) -> HashMap<&str, RangeInclusive<u32>> {
        // Of two with one name, the first stays.
        self.all.iter().rev().map(|function| (&*function.name, function.lines.clone())).collect()
    }

    /// The qualified name of the function, class or module that runs a line, by its own name; `None` where another one runs
    /// it. A lambda or a comprehension may lie anywhere. The head of a function, with its decorators, is run by what
    /// lies around it, too.
    pub fn name(&self, function: &str, line: u32) -> Option<String> {
        let own = function.rsplit('.').next().unwrap_or(function);
        let mut next = self.all.partition_point(|function| *function.lines.start() <= line).checked_sub(1);
        while let Some(index) = next {
            let around = &self.all[index];
            next = around.outer;
            if !around.lines.contains(&line) {
                continue;
            }
            if own.starts_with('<') && own != "<module>" {
                return Some(around.within(own));
            }
            if around.name.rsplit('.').next() == Some(own) {
                return Some(around.name.clone());
            }
            if line > around.head {
                return None;
            }
        }
        own.starts_with('<').then(|| own.to_owned())
    }
}

impl Function {
    /// The qualified name of its contents.
    fn within(&self, own: &str) -> String {
        format!("{}{}{own}", self.name, self.separator)
    }
}

/// True for lines that Python can be at.
pub fn is_code(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// The columns in front of the text, with tabs as Python counts them.
pub fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blanks.fold(0, |columns, blank| if blank == '\t' { columns / TAB * TAB + TAB } else { columns + 1 })
}

/// The name defined by a line that is the head of a function or class, and the separator between that name and nested
/// names.
fn defined(line: &str) -> Option<(&str, &'static str)> {
    let line = line.strip_prefix("async ").unwrap_or(line).trim_start();
    let (rest, separator) = match line.strip_prefix("def ") {
        Some(rest) => (rest, ".<locals>."),
        None => (line.strip_prefix("class ")?, "."),
    };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some((&rest[..end], separator))
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
                b'#' => at += text[at + 1..].iter().take_while(|&&byte| byte != b'\n').count(),
                b'\\' => {
                    at += 1 + usize::from(text.get(at + 1) == Some(&b'\r'));
                    self.line += u32::from(text.get(at) == Some(&b'\n'));
                }
                quote @ (b'"' | b'\'') => {
                    let string = &text[at..at + string_length(&text[at..], quote)];
                    self.line += string.iter().map(|&byte| u32::from(byte == b'\n')).sum::<u32>();
                    at += string.len() - 1;
                }
                _ => {}
            }
            at += 1;
        }
        self.end();
    }

    /// The end of a line that ends a statement.
    fn end(&mut self) {
        self.statements.push(self.first..=self.line);
        self.line += 1;
        self.first = self.line;
    }
}

/// The length of the string that a text begins with, with its quotes. One that does not end on its line is not a string and
/// reaches to the line break, which ends the statement that contains it.
pub fn string_length(text: &[u8], quote: u8) -> usize {
    let is_long = text.starts_with(&[quote; 3]);
    let mut at = if is_long { 3 } else { 1 };
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' if !is_long => return at,
            _ if byte == quote && !is_long => return at + 1,
            _ if byte == quote && text[at..].starts_with(&[quote; 3]) => return at + 3,
            _ => {}
        }
        at += 1;
    }
    text.len()
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

    #[test]
    fn brackets_strings_and_backslashes_join_lines() {
        assert_eq!(statements(CODE), [1..=1, 2..=5, 6..=6, 7..=8, 9..=10, 11..=11, 12..=12]);
        assert_eq!(statements("f(\n"), [1..=2]);
        assert_eq!(statements("'a\nb)\r\nc \\\r\nd"), [1..=1, 2..=2, 3..=4]);
        assert_eq!(statements("'''"), [1..=1]);
    }

    const NESTED: &str = "\
import torch
class Attention(nn.Module):
    table = torch.ones(
3)

    @decorate(
        1)
    # Why it is decorated.
    @torch.no_grad()
    async  def forward(self, x=lambda:
            0):
        '''
def forward(): not here
        '''
        def inner(): return x
        y = [
inner() for _ in x
        ]

# A comment.
\tif y:
\t\tclass Local:
\t\t\tdef forward(self):
\t\t\t\treturn x
        return y \\
+ 1
class Mlp: forward = lambda x: x
def forward[T](x: T):
  return x
x = forward(1)
";

    #[test]
    fn functions_go_by_the_classes_and_functions_around_them() {
        let functions = Functions::new(NESTED);
        for (line, own, expected) in [
            (1, "<module>", "<module>"),
            (3, "Attention", "Attention"),
            (4, "Attention", "Attention"),
            (6, "forward", "Attention.forward"),
            (6, "Attention", "Attention"),
            (9, "forward", "Attention.forward"),
            (10, "<lambda>", "Attention.forward.<locals>.<lambda>"),
            (15, "inner", "Attention.forward.<locals>.inner"),
            (15, "forward", "Attention.forward"),
            (17, "<listcomp>", "Attention.forward.<locals>.<listcomp>"),
            (17, "forward", "Attention.forward"),
            (24, "forward", "Attention.forward.<locals>.Local.forward"),
            (26, "forward", "Attention.forward"),
            (27, "<lambda>", "Mlp.<lambda>"),
            (29, "forward", "forward"),
            (30, "<module>", "<module>"),
            (30, "<genexpr>", "<genexpr>"),
        ] {
            assert_eq!(functions.name(own, line).as_deref(), Some(expected), "{own}:{line}");
        }
        for (line, own) in [
            (1, "forward"),
            (12, "Attention"),
            (15, "<module>"),
            (24, "Local"),
            (29, "<module>"),
            (30, "forward"),
            (99, "f"),
        ] {
            assert_eq!(functions.name(own, line), None, "{own}:{line}");
        }
        assert_eq!(Functions::new("").name("<module>", 1).as_deref(), Some("<module>"));
    }

    /// Names within names within names would take the square of a file.
    #[test]
    fn long_names_hold_no_functions() {
        let head = (0..90).map(|depth| format!("{}def {}():\n", " ".repeat(depth), "f".repeat(900)));
        let inner = (0..1000).map(|_| format!("{}def f(): pass\n", " ".repeat(90)));
        let functions = Functions::new(&head.chain(inner).collect::<String>());
        assert!(functions.all.iter().map(|function| function.name.len()).sum::<usize>() < 10_000);
        assert_eq!(functions.around(1090).map(|(name, _)| name.len()), Some(900 + 10 + 900));
    }
}
