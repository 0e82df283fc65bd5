//! The statements of a Python file as tokens: comments, docstrings and formatting do not count.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use ptmem_base::python::{Functions, indent, statements, string_length};
use ptmem_base::sides::{Side, Sides};

/// A statement that runs.
#[derive(Debug, Clone)]
pub(super) struct Statement<'t> {
    /// Its lines, counted from 1.
    pub(super) lines: RangeInclusive<u32>,
    pub(super) indent: usize,
    pub(super) tokens: Vec<&'t str>,
}

/// The statements of a text, without comments and docstrings.
pub(super) fn of_text(text: &str) -> Vec<Statement<'_>> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut starts = vec![0];
    starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let mut found = Vec::new();
    for range in statements(text) {
        let (first, last) = (*range.start() as usize, *range.end() as usize);
        let from = starts.get(first - 1).copied().unwrap_or(text.len());
        let to = starts.get(last).copied().unwrap_or(text.len());
        let tokens = tokens(&text[from..to]);
        let is_docstring = tokens.first().is_some_and(|first| is_quote(first)) && tokens.len() == 2;
        if !tokens.is_empty() && !is_docstring {
            found.push(Statement { lines: range, indent: indent(lines[first - 1]), tokens });
        }
    }
    found
}

fn is_quote(token: &str) -> bool {
    token == "\"" || token == "'"
}

/// True for letters, digits and the like, of any language.
fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// True for a token of such letters.
fn begins_word(token: &str) -> bool {
    token.bytes().next().is_some_and(is_word)
}

/// The tokens of a statement. A string is two tokens: its quotes, equal for both kinds unless the text has one, and its text.
fn tokens(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    // For each open bracket, whether a comma at its end only formats.
    let mut open: Vec<bool> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let from = at;
        at += 1;
        match byte {
            b'#' => at += bytes[at..].iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len() - at),
            b'\\' => {}
            _ if byte.is_ascii_whitespace() => {}
            b'"' | b'\'' => {
                at = from + string_length(&bytes[from..], byte);
                let long = if bytes[from..].starts_with(&[byte; 3]) && at >= from + 6 { 3 } else { 1 };
                let start = (from + long).min(at);
                // One that does not end has no quote at its end.
                let end = if bytes[start..at].ends_with(&[byte; 3][..long]) { at - long } else { at };
                let inner = &text[start..end];
                let is_plain = !inner.contains(['\\', '\'', '"']);
                tokens.push(if byte == b'\'' && !is_plain { "'" } else { "\"" });
                tokens.push(inner);
            }
            b'(' | b'[' | b'{' => {
                let calls = tokens.last().is_some_and(|last: &&str| begins_word(last) || *last == ")");
                open.push(calls || byte != b'(');
                tokens.push(&text[from..at]);
            }
            b')' | b']' | b'}' => {
                let formats = open.pop().unwrap_or(false);
                if formats && tokens.last() == Some(&",") {
                    tokens.pop();
                }
                tokens.push(&text[from..at]);
            }
            b',' => {
                tokens.push(&text[from..at]);
                // A tuple of more than one.
                if let Some(formats) = open.last_mut().filter(|_| !ends_bracket(&bytes[at..])) {
                    *formats = true;
                }
            }
            _ if is_word(byte) => {
                at += bytes[at..].iter().position(|&byte| !is_word(byte)).unwrap_or(bytes.len() - at);
                tokens.push(&text[from..at]);
            }
            _ => tokens.push(&text[from..at]),
        }
    }
    tokens
}

/// True if nothing but a closing bracket follows.
fn ends_bracket(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| matches!(byte, b')' | b']' | b'}' | b'#'))
}

/// Tokens that say alone what a statement is.
const KEYWORDS: [&str; 17] = [
    "@", "assert", "async", "class", "def", "del", "elif", "except", "for", "from", "if", "import", "raise", "return",
    "while", "with", "yield",
];

impl Statement<'_> {
    /// The tokens as one text, with old names for new ones.
    pub(super) fn text(&self, renamed: Option<&Renames<'_>>) -> String {
        let mut text = String::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let renamed = renamed.filter(|_| self.is_word_of_code(at));
            let old = renamed.and_then(|renamed| renamed.old(token, *self.lines.start()));
            text.push_str(old.unwrap_or(token));
            text.push('\u{1f}');
        }
        text
    }

    /// The tokens with one name for all.
    pub(super) fn shape(&self) -> Vec<&str> {
        let tokens = self.tokens.iter().enumerate();
        tokens.map(|(at, &token)| if is_name(token) && self.is_word_of_code(at) { "_" } else { token }).collect()
    }

    /// The tokens that it begins with: a keyword, or what it assigns to or calls.
    pub(super) fn beginning(&self) -> &[&str] {
        let is_keyword = KEYWORDS.contains(&self.tokens[0]);
        let end = self.tokens.iter().position(|token| matches!(*token, "=" | "(")).unwrap_or(self.tokens.len());
        &self.tokens[..if is_keyword { 1 } else { end }]
    }

    /// True if it uses a name: not as an attribute, a keyword argument or a target, or within a string.
    pub(super) fn uses(&self, name: &str) -> bool {
        let tokens = &self.tokens;
        let is_given = |at: usize| tokens.get(at + 1) == Some(&"=") && tokens.get(at + 2) != Some(&"=");
        let is_use = |at: usize| tokens[at] == name && self.is_word_of_code(at) && !is_given(at);
        is_name(name) && (0..tokens.len()).any(is_use)
    }

    fn is_attribute(&self, at: usize) -> bool {
        at > 0 && self.tokens[at - 1] == "."
    }

    /// False for an attribute, and for the text of a string.
    fn is_word_of_code(&self, at: usize) -> bool {
        at == 0 || !self.is_attribute(at) && !is_quote(self.tokens[at - 1])
    }

    /// True if it only writes to a log or a terminal.
    pub(super) fn is_log(&self) -> bool {
        // A list may be called `log`, too.
        let is_call_of_log = matches!(
            self.tokens[..],
            ["print", "(", ..]
                | [
                    "log" | "logger" | "logging" | "warnings" | "_logger" | "LOGGER",
                    ".",
                    "debug" | "info" | "warn" | "warning" | "error" | "exception" | "critical" | "fatal" | "log",
                    "(",
                    ..
                ]
        );
        is_call_of_log && self.tokens.last() == Some(&")")
    }

    /// True for what a function or class begins with, and for imports: their order does not matter.
    pub(super) fn may_move(&self) -> bool {
        self.is_definition() || self.is_import()
    }

    /// True if a function, method or class begins with it.
    pub(super) fn is_definition(&self) -> bool {
        matches!(self.tokens[..], ["def" | "class" | "@", ..] | ["async", "def", ..])
    }

    pub(super) fn is_decorator(&self) -> bool {
        self.tokens[0] == "@"
    }

    pub(super) fn is_import(&self) -> bool {
        matches!(self.tokens.first(), Some(&("import" | "from")))
    }

    /// True for the head of a block.
    pub(super) fn is_head(&self) -> bool {
        self.tokens.last() == Some(&":")
    }

    /// The names that it binds as a local variable, a function or a class, by their places among the tokens.
    fn bound(&self) -> Vec<usize> {
        let tokens = &self.tokens;
        let is_name = |at: &usize| begins_word(tokens[*at]) && tokens.get(at + 1) != Some(&".");
        if matches!(tokens[0], "def" | "class") {
            return vec![1].into_iter().filter(|&at| at < tokens.len()).collect();
        }
        let mut bound: Vec<usize> = (1..tokens.len()).filter(|&at| tokens[at - 1] == "as").collect();
        if tokens[0] == "for" {
            let end = tokens.iter().position(|token| *token == "in").unwrap_or(1);
            bound.extend((1..end).filter(is_name));
        }
        let targets = tokens.iter().take_while(|token| begins_word(token) || **token == ",");
        let end = targets.count();
        if tokens.get(end) == Some(&"=") && tokens.get(end + 1) != Some(&"=") {
            bound.extend((0..end).filter(is_name));
        }
        bound
    }
}

/// True for a name; a keyword that may be an operand or operator is not a name.
fn is_name(token: &str) -> bool {
    let first = token.as_bytes().first().copied().unwrap_or(b'0');
    is_word(first)
        && !first.is_ascii_digit()
        && !matches!(token, "True" | "False" | "None" | "not" | "and" | "or" | "is" | "in")
}

/// The names of the after that only rename what the before binds, with the old ones by the lines of the after in which they do.
pub(super) struct Renames<'t> {
    old: HashMap<&'t str, HashMap<RangeInclusive<u32>, &'t str>>,
    functions: &'t Functions,
}

impl<'t> Renames<'t> {
    /// The old name of a new one in a line.
    fn old(&self, new: &str, line: u32) -> Option<&'t str> {
        let old = self.old.get(new)?;
        around(self.functions, line).find_map(|lines| old.get(&lines).copied())
    }
}

/// The lines of the functions and classes around a line, the innermost first, and last those of the file.
fn around(functions: &Functions, line: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
    functions.all_around(line).map(|(_, lines)| lines).chain([1..=u32::MAX])
}

/// A statement of the before, and that of the after in its place.
pub(super) type StatementPair<'s, 't> = Sides<&'s Statement<'t>>;

/// A new name of what the before binds by an old one.
#[derive(PartialEq, Eq, Hash)]
struct Rename<'t> {
    old: &'t str,
    new: &'t str,
    /// The lines of the after within which the name is bound.
    lines: RangeInclusive<u32>,
}

/// The names that are only renamed: within what binds them, the old one no longer occurs, and the new one did not.
pub(super) fn renamed<'t>(
    pairs: &[StatementPair<'_, 't>],
    all: &Sides<Vec<Statement<'t>>>,
    functions: &'t Sides<Functions>,
) -> Renames<'t> {
    let names = Sides { before: NameLines::new(&all.before), after: NameLines::new(&all.after) };
    let mut found = HashSet::new();
    for Sides { before, after } in pairs.iter().filter(|pair| pair.before.tokens.len() == pair.after.tokens.len()) {
        let bound = after.bound();
        for at in before.bound().into_iter().filter(|at| bound.contains(at)) {
            let (old, new) = (before.tokens[at], after.tokens[at]);
            if old == new || !is_name(old) || !is_name(new) {
                continue;
            }
            // A function or class is bound by what lies around it.
            let outward = usize::from(matches!(before.tokens[0], "def" | "class"));
            let lines = Sides { before, after }.zip(functions.map(|of| of)).map(|(statement, functions)| {
                around(functions, *statement.lines.start()).nth(outward).unwrap_or(1..=u32::MAX)
            });
            if !names.before.has(new, &lines.before) && !names.after.has(old, &lines.after) {
                found.insert(Rename { old, new, lines: lines.after });
            }
        }
    }
    Renames { old: one_to_one(found), functions: &functions.after }
}

/// The old name of each new one, by the lines within which it is bound. A variable that becomes two may hold two values where
/// it held one; two that become one, the other way round.
fn one_to_one<'t>(all: HashSet<Rename<'t>>) -> HashMap<&'t str, HashMap<RangeInclusive<u32>, &'t str>> {
    let mut uses: HashMap<(Side, &str, RangeInclusive<u32>), usize> = HashMap::new();
    for Rename { old, new, lines } in &all {
        *uses.entry((Side::Before, old, lines.clone())).or_default() += 1;
        *uses.entry((Side::After, new, lines.clone())).or_default() += 1;
    }
    let mut renames: HashMap<&str, HashMap<RangeInclusive<u32>, &str>> = HashMap::new();
    for Rename { old, new, lines } in all {
        if uses[&(Side::Before, old, lines.clone())] == 1 && uses[&(Side::After, new, lines.clone())] == 1 {
            renames.entry(new).or_default().insert(lines, old);
        }
    }
    renames
}

/// The lines of the statements in which each name occurs that is not an attribute.
pub(super) struct NameLines<'t>(HashMap<&'t str, Vec<u32>>);

impl<'t> NameLines<'t> {
    pub(super) fn new(statements: &[Statement<'t>]) -> Self {
        let mut names: HashMap<&str, Vec<u32>> = HashMap::new();
        for statement in statements {
            for (at, &token) in statement.tokens.iter().enumerate() {
                if !statement.is_attribute(at) {
                    names.entry(token).or_default().push(*statement.lines.start());
                }
            }
        }
        Self(names)
    }

    /// The first lines of the statements with a name.
    pub(super) fn of(&self, name: &str) -> &[u32] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// True if a name occurs in some lines.
    fn has(&self, name: &str, lines: &RangeInclusive<u32>) -> bool {
        let all = self.of(name);
        all.get(all.partition_point(|line| line < lines.start())).is_some_and(|line| line <= lines.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_python_have_tokens() {
        for (text, expected) in [
            ("x = 'é\n", &["x", "=", "\"", "é"][..]),
            ("'\\é", &["'", "\\é"]),
            ("\"\"\"éé", &["\"", "éé"]),
            ("f('''é''')", &["f", "(", "\"", "é", ")"]),
            ("''[text]", &["\"", "", "[", "text", "]"]),
            ("''", &["\"", ""]),
            ("'", &["\"", ""]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn formatting_comments_and_quotes_do_not_count() {
        for (one, other) in [
            ("x = f(a, b)  # why\n", "x = f(\n    a,\n    b,\n)\n"),
            ("f('a')\n", "f(\"a\")\n"),
            ("x = [1, 2]\n", "x = [1, 2,]\n"),
            ("x = 1 + \\\n    2\n", "x = 1 + 2\n"),
        ] {
            assert_eq!(of_text(one)[0].tokens, of_text(other)[0].tokens, "{one}");
        }
        for (one, other) in [("x = (1,)\n", "x = (1)\n"), ("x = 'a'\n", "x = 'b'\n"), ("f(a)\n", "f(a.b)\n")] {
            assert_ne!(of_text(one)[0].tokens, of_text(other)[0].tokens, "{one}");
        }
        assert_eq!(of_text("def f():\n    '''Of it.'''\n    # why\n\n    return 1\n").len(), 2);
        assert!(of_text("print('done', 1)\n")[0].is_log() && of_text("logger.info('x')\n")[0].is_log());
        for other in ["x = print('done')\n", "keep.append(x)\n", "log.append(x)\n"] {
            assert!(!of_text(other)[0].is_log(), "{other}");
        }
    }
}
