//! Guesses from the text of an edit how it can affect memory.

use std::ops::RangeInclusive;

use ptmem_base::pattern::Pattern;
use ptmem_base::sides::{Side, Sides};

use crate::patch::{Edit, EditKind};

/// What switches gradients off.
const GRADIENTS_OFF: [&str; 3] = ["no_grad", "inference_mode", "set_grad_enabled"];

impl Edit {
    /// True if it can change what a program holds without a frame of its own: not a log line, or an import unless it takes
    /// a name from elsewhere.
    pub fn can_matter(&self) -> bool {
        self.kind != EditKind::Log && (!self.is_import() || !self.rebound.is_empty())
    }

    /// The file of the after and the lines of the function or class around it there.
    pub(super) fn body_now(&self) -> (Option<&str>, Option<&RangeInclusive<u32>>) {
        (self.path.after.as_deref(), self.body.after.as_ref())
    }

    /// True if its file has tests by its name.
    pub(super) fn is_of_tests(&self) -> bool {
        let path = self.path.after.as_ref().or(self.path.before.as_ref()).map(String::as_str).unwrap_or_default();
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        name.starts_with("test_")
            || name.ends_with("_test.py")
            || parts.any(|folder| matches!(folder, "tests" | "test"))
    }

    /// True if its text is not known: it is a package, or a file as a whole.
    pub(super) fn is_unread(&self) -> bool {
        self.package().is_some() || self.whole_file().is_some()
    }

    /// True if its text puts something somewhere, or no longer removes it or its graph.
    pub(super) fn may_keep(&self) -> bool {
        let texts_may = Side::BOTH.into_iter().any(|side| self.text_may_keep(side));
        self.kind == EditKind::Code
            && (texts_may || self.is_of_gradients() || self.has_only(Side::Before, &[".detach()"]))
    }

    /// True if its text on one side puts something somewhere or removes it.
    fn text_may_keep(&self, side: Side) -> bool {
        const WORDS: [&str; 16] = [
            "append",
            ".add(",
            "extend",
            "setdefault",
            "insert",
            "update",
            "return",
            "del ",
            "clear",
            "pop",
            "retain",
            "lambda",
            "cache",
            "register",
            "self.",
            "+=",
        ];
        const EMPTY: [&str; 6] = ["{}", "[]", "dict()", "list()", "set()", "deque()"];
        let Some((_, text)) = self.line.of(side) else { return false };
        let code = code_of(text);
        let (target, value) = code.split_once(" = ").unwrap_or_default();
        // A new empty container holds nothing yet; one that is gone emptied what was there.
        let is_empty = side == Side::After && EMPTY.contains(&value);
        // Brackets after a colon are those of a type.
        let is_item = target.ends_with(']') && !target.contains(": ");
        let appended = code.split_once(".append(").and_then(|(_, value)| value.strip_suffix(')'));
        let given = ["+= ", " = ", "return "].into_iter().find_map(|sign| code.split_once(sign));
        let given = given.map(|(_, value)| value).or(appended);
        let is_constant = given.is_some_and(|value| is_number(value) || is_text(value));
        !is_empty && !is_constant && (is_item || WORDS.iter().any(|word| code.contains(word)))
    }

    /// How many times as large or as small the number is that it replaces, at least 1.
    pub(super) fn times(&self) -> Option<f64> {
        let is_told = matches!(self.kind, EditKind::Code | EditKind::Configuration);
        let Sides { before, after } = self.numbers().filter(|_| is_told)?;
        Some(if after > before { after / before } else { before / after })
    }

    /// True if it only gives variables a number of Python that replaces none.
    pub fn sets_number(&self) -> bool {
        let own = Side::BOTH.into_iter().flat_map(|side| self.statements.of(side));
        let mut texts = own.filter_map(|edited| edited.line.as_ref()).map(|(_, text)| &**text).peekable();
        self.kind == EditKind::Code && self.numbers().is_none() && texts.peek().is_some() && texts.all(sets_number)
    }

    /// True if it only assigns constants, checks something, raises an exception, or replaces a tensor by a view of itself: such
    /// statements hold no memory themselves, though they may make other code hold more.
    pub(super) fn holds_nothing(&self) -> bool {
        self.are_all(|text| is_constant_assigned(text) || is_check(text) || is_view(text))
    }

    /// True if it only changes views of a tensor in place of it.
    pub(super) fn is_view(&self) -> bool {
        self.are_all(is_view)
    }

    /// True if its statements are all of one kind.
    fn are_all(&self, is_it: impl Fn(&str) -> bool) -> bool {
        let own = Side::BOTH.into_iter().flat_map(|side| self.statements.of(side));
        let mut all = own.map(|edited| edited.line.as_ref().map(|(_, text)| code_of(text))).peekable();
        self.kind == EditKind::Code && all.peek().is_some() && all.all(|text| text.is_some_and(&is_it))
    }

    /// True if its new number is the larger one.
    pub(super) fn raises_number(&self) -> bool {
        self.numbers().is_some_and(|numbers| numbers.after > numbers.before)
    }

    /// Its name in an agreement: its package or file, or its line.
    pub fn name(&self) -> Option<&str> {
        let package = self.package().map(|(name, _)| name);
        package.or(self.whole_file()).or_else(|| self.shown().map(|(_, _, _, text)| text))
    }

    /// True if a pattern names it: its line, its place, its function or its package.
    pub fn is_named(&self, pattern: &Pattern) -> bool {
        let statements = Side::BOTH.into_iter().flat_map(|side| self.statements.of(side));
        let scopes = statements.clone().filter_map(|edited| edited.scope.clone());
        let lines = statements.filter_map(|edited| edited.line.as_ref());
        let texts = [&self.line.before, &self.line.after].into_iter().flatten().chain(lines);
        let texts = texts.map(|(_, text)| text.clone());
        let others = [Some(self.place()), self.package().map(|(name, _)| name.to_owned())];
        texts.chain(scopes).chain(others.into_iter().flatten()).any(|name| pattern.matches(&name))
    }

    /// True if it removes what switches gradients off.
    pub(crate) fn is_of_gradients(&self) -> bool {
        self.has_only(Side::Before, &GRADIENTS_OFF)
    }

    /// True if it switches gradients off, where the before may do so around it.
    pub(super) fn adds_no_grad(&self) -> bool {
        self.has_only(Side::After, &GRADIENTS_OFF)
    }

    /// True if its text has one of some words on one side alone.
    fn has_only(&self, side: Side, words: &[&str]) -> bool {
        let texts = self.line.map(|line| line.as_ref().map_or("", |(_, text)| text));
        let has = |text: &str| words.iter().any(|word| text.contains(word));
        has(texts.of(side)) && !has(texts.of(side.other()))
    }
}

/// True for a statement that gives a variable a number: a literal, or the result of a function that returns one.
fn sets_number(statement: &str) -> bool {
    let code = code_of(statement);
    let Some((target, value)) = [" = ", " += ", " -= "].into_iter().find_map(|sign| code.split_once(sign)) else {
        return false;
    };
    !target.contains(['(', '[', ',']) && is_number(value)
}

/// A line without a comment at its end.
fn code_of(line: &str) -> &str {
    line.split(" #").next().unwrap_or_default().trim_end()
}

/// True for a statement that gives a variable or attribute a number, a text or a truth value.
fn is_constant_assigned(code: &str) -> bool {
    let Some((target, value)) = code.split_once(" = ") else { return false };
    !target.contains(['(', '[', ',']) && (is_number(value) || matches!(value, "True" | "False") || is_text(value))
}

/// True for a text in quotes and nothing else.
fn is_text(value: &str) -> bool {
    ['"', '\''].into_iter().any(|quote| {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        inner.is_some_and(|inner| !inner.contains([quote, '\\']))
    })
}

/// True for a statement that can only end the program.
fn is_check(code: &str) -> bool {
    code.starts_with("assert ") || code.starts_with("raise ")
}

/// True for a statement that gives a variable another view of its own tensor.
fn is_view(code: &str) -> bool {
    const VIEWS: [&str; 6] = ["view", "reshape", "transpose", "permute", "squeeze", "unsqueeze"];
    let Some((target, value)) = code.split_once(" = ") else { return false };
    let call = value.strip_prefix(target).and_then(|rest| rest.strip_prefix('.')?.split_once('('));
    call.is_some_and(|(name, arguments)| VIEWS.contains(&name) && closes_at_end(arguments))
}

/// True for the arguments of a call up to the bracket that ends it, with nothing behind.
fn closes_at_end(arguments: &str) -> bool {
    let mut depth = 1;
    let closed = arguments.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    closed.is_some_and(|(at, _)| at + 1 == arguments.len())
}

/// True for a number of Python: a literal, or the result of a function that returns one.
fn is_number(value: &str) -> bool {
    let is_literal = value.replace('_', "").parse::<f64>().is_ok();
    let is_call = ["float(", "int(", "len("].into_iter().any(|name| is_one_call(value, name));
    let is_item = value.strip_suffix(".item()").is_some_and(|tensor| !tensor.contains([' ', ',', '(']));
    is_literal || is_call || is_item
}

/// True for a call of a function and nothing else.
fn is_one_call(code: &str, name: &str) -> bool {
    let arguments = code.strip_prefix(name).and_then(|rest| rest.strip_suffix(')'));
    arguments.is_some_and(|arguments| !arguments.contains(['(', ')']))
}

/// True if blocks that grew by these ratios all grew by how many times as large a number is, or by its square.
pub(super) fn explains(times: f64, ratios: &[f64]) -> bool {
    // Measured by the growth: a seed or a year that hardly changes is not near every small growth.
    let is_near = |ratio: f64, times: f64| (times - ratio).abs() < 0.03 * (ratio - 1.0);
    !ratios.is_empty() && ratios.iter().all(|&ratio| is_near(ratio, times) || is_near(ratio, times * times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::EditedStatement;

    #[test]
    fn a_number_explains_blocks_that_grew_as_it_did() {
        for (old, new, ratios, is_explained) in [
            ("batch: 16", "batch: 32", &[2.0][..], true),
            ("batch: 16", "batch: 32", &[4.0, 2.0], true),
            ("batch: 16", "batch: 32", &[3.0, 2.0], false),
            ("batch: 16", "batch: 32", &[1.0], false),
            ("batch: 16", "batch: 32", &[0.5], false),
            ("batch: 16", "batch: 32", &[], false),
            ("tokens: 50257", "tokens: 50304", &[50_304.0 / 50_257.0], true),
            // Neither explains growth of a percent.
            ("year: 2025", "year: 2026", &[1.01], false),
            ("rate: 16", "rate: 16.0", &[1.01], false),
        ] {
            let line = Sides { before: old, after: new }.map(|text: &&str| Some((1, (*text).to_owned())));
            let edit = Edit { line, kind: EditKind::Configuration, ..Edit::default() };
            assert_eq!(
                edit.times().is_some_and(|times| explains(times, ratios)),
                is_explained,
                "{old} | {new} | {ratios:?}"
            );
        }
    }

    #[test]
    fn a_number_of_python_is_a_literal_or_the_result_of_a_function_that_returns_one() {
        for (statement, is_number) in [
            ("self.best = float(\"inf\")", true),
            ("count: int = 1_000", true),
            ("n += len(xs)  # of them", true),
            ("n = len(f(xs))", false),
            ("x = float(a) * f(b)", false),
            ("config.use_cache = True", false),
            ("sizes[0] = 3", false),
            ("if n == 3:", false),
            ("total += loss", false),
        ] {
            assert_eq!(sets_number(statement), is_number, "{statement}");
        }
    }

    #[test]
    fn constants_assertions_and_views_hold_nothing() {
        for (statement, holds_nothing, is_view) in [
            ("name = \"gate\"", true, false),
            ("self.eps = 1e-6  # as before", true, false),
            ("is_causal: bool = True", true, false),
            ("assert h.dim() == 2", true, false),
            ("raise ValueError(h)", true, false),
            ("x = x.view(x.size(0), 1280)", true, true),
            ("x = x.view(8).float()", false, false),
            ("y = x.view(8)", false, false),
            ("x = x.expand(8)", false, false),
            // It frees, or no longer does.
            ("h = None", false, false),
            ("name = \"a\" + str(h) + \"b\"", false, false),
            ("name = f\"{f(h)}\"", false, false),
            ("h = layer(x)", false, false),
        ] {
            let line = Some((1, statement.to_owned()));
            let edited = vec![EditedStatement { lines: 1..=1, line, scope: None }];
            let statements = Sides { before: Vec::new(), after: edited };
            let edit = Edit { kind: EditKind::Code, statements, ..Edit::default() };
            assert_eq!((edit.holds_nothing(), edit.is_view()), (holds_nothing, is_view), "{statement}");
        }
    }

    #[test]
    fn an_edit_keeps_what_it_puts_somewhere_or_no_longer_removes() {
        for (old, new, keeps) in [
            (None, Some("seen[0] = h"), true),
            (None, Some("total += loss"), true),
            (None, Some("self.step += 1"), false),
            (None, Some("losses.append(loss)"), true),
            (None, Some("losses.append((loss.item(), loss))"), true),
            (None, Some("losses.append(loss.item())"), false),
            (None, Some("total += out[0].item()"), false),
            (Some("return loss.item()"), Some("return loss"), true),
            // Without it, a graph is.
            (Some("h = h.detach()"), None, true),
            (None, Some("h = h.detach()"), false),
            (Some("h.clear()"), None, true),
            (None, Some("self.seen = []  # append here"), false),
            // It emptied the list in each step.
            (Some("self.seen = []"), None, true),
            // The brackets are those of a type.
            (None, Some("h: list[Tensor] = layer(x)"), false),
            (None, Some("h = layer(x)"), false),
        ] {
            let line = Sides { before: old, after: new }.map(|text: &Option<&str>| Some((1, (*text)?.to_owned())));
            let edit = Edit { line, kind: EditKind::Code, ..Edit::default() };
            assert_eq!(edit.may_keep(), keeps, "{old:?} | {new:?}");
        }
    }
}
