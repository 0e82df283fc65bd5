//! The edits of a change of the code: statements and lines that it adds, removes or replaces, and that can matter.

use std::collections::{HashMap, HashSet};
use std::ops::{Range, RangeInclusive};

use ptmem_base::difference::difference;
use ptmem_base::python::Functions;
use ptmem_base::sides::{Side, Sides};
use similar::{DiffOp, DiffTag};

use super::CodeLine;

use super::hunks::{Hunk, hunks, keys, moves};
use super::imports::{ImportSources, MovedCode, Rebound};
use super::tokens::{Statement, of_text};

/// What an edit is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum EditKind {
    /// Python code.
    Code,
    /// A statement that only writes to a log: it counts for what its own line allocates.
    Log,
    /// A line of a configuration or data file, or a file or submodule as a whole.
    #[default]
    Configuration,
    /// A package whose version differs between both recordings: its name, and the versions.
    Dependency(String, Sides<String>),
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// Its kind.
    pub kind: EditKind,
    /// The file on each side.
    pub path: Sides<Option<String>>,
    /// The line that stands for it, and its text, on each side.
    pub line: Sides<Option<(u32, String)>>,
    /// The line of the after that is there, or follows.
    pub near: Option<u32>,
    /// The function or class around that line.
    pub scope: Option<String>,
    /// The statements whose code it changes: its own, those of a block whose head comes or goes, and those that use a name which
    /// is imported from elsewhere now.
    pub statements: Sides<Vec<EditedStatement>>,
    /// The lines of the function or class around the first line that stood for it.
    pub body: Sides<Option<RangeInclusive<u32>>>,
    /// The code of a function, class or import that only comes or goes.
    pub(crate) moves: Option<String>,
    /// The names that it takes from elsewhere, if it is an import.
    pub(crate) rebound: Vec<Rebound>,
}

/// A statement that an edit changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedStatement {
    /// Its lines, or those of a function whose decorator comes or goes.
    pub lines: RangeInclusive<u32>,
    /// The first line that the other side lacks, and its text; `None` where only the block around it changes.
    pub line: Option<(u32, String)>,
    /// The function or class around that line.
    pub scope: Option<String>,
}

impl EditedStatement {
    /// One whose own text does not change.
    fn of_block(lines: RangeInclusive<u32>) -> Self {
        Self { lines, line: None, scope: None }
    }
}

impl Edit {
    /// The text of its file after the change, but without it. `None` where lines that differ belong to other edits, too.
    pub fn undone(&self, texts: Sides<&str>) -> Option<String> {
        if self.whole_file().is_some() {
            return Some(texts.before.to_owned());
        }
        let Sides { before, after } = texts.map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
        let line = self.line.map(|line| line.as_ref().map(|(line, _)| *line as usize - 1));
        let is_own = |op: &&DiffOp| {
            let has = |line: Option<usize>, range: Range<usize>| line.is_some_and(|line| range.contains(&line));
            op.tag() != DiffTag::Equal && (has(line.before, op.old_range()) || has(line.after, op.new_range()))
        };
        let ops = difference(Sides { before: &before, after: &after });
        let own: Vec<&DiffOp> = ops.iter().filter(is_own).collect();
        let mut lines = after.clone();
        for op in own.iter().rev() {
            lines.splice(op.new_range(), before[op.old_range()].iter().copied());
        }
        let text = lines.concat();
        let of_texts = if self.kind == EditKind::Configuration { of_configuration } else { of_code };
        let left = of_texts(Sides { before: Some(""), after: Some("") }, Sides { before: &text, after: texts.after });
        (left.len() == 1).then_some(text)
    }
}

/// Maximum number of edits of a file that are told apart. Each takes some hundred bytes, where one of a file takes two.
pub const MOST_EDITS: usize = 50_000;

/// The longest text of a line, in characters.
const LONGEST_TEXT: usize = 160;

/// Maximum number of lines of configuration that are read.
const MOST_LINES: usize = 20_000;

/// A text without its byte order mark, which some editors write.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The edits of a Python file, given its texts.
pub(crate) fn of_code(paths: Sides<Option<&str>>, texts: Sides<&str>) -> Vec<Edit> {
    let texts = texts.map(|text| without_mark(text));
    let statements = texts.map(|text| of_text(text));
    let functions = texts.map(|text| Functions::new(text));
    let keys = keys(&statements, &functions);
    let changes = difference(keys.map(Vec::as_slice));
    let lines = texts.map(|text| text.lines().collect::<Vec<_>>());
    let trimmed = lines.map(|lines| lines.iter().map(|line| line.trim()).collect::<HashSet<_>>());
    let lines = lines.zip(Sides { before: trimmed.after, after: trimmed.before });
    let named = functions.map(Functions::by_name);
    let hunks = hunks(&changes, &statements);
    if hunks.len() > MOST_EDITS {
        return vec![Edit::of_whole(paths)];
    }
    let mut imports = ImportSources::new(&statements, &functions, &named);
    let edits = hunks.into_iter().map(|hunk| {
        let rebound = imports.rebound(&hunk);
        let moves = moves(&hunk, &keys, &statements).filter(|_| rebound.is_empty());
        let mut edit = Edit { moves, rebound, ..edit(&hunk, paths, &statements, &functions, &named, &lines) };
        if edit.is_of_gradients() {
            // A block whose head is another one keeps its indentation.
            let blocks = Sides::BOTH.map(|&side| hunk.block(side, &statements));
            for (side, block) in blocks.each() {
                edit.statements.of_mut(side).extend(block.iter().map(|of| EditedStatement::of_block(of.lines.clone())));
            }
        }
        edit
    });
    edits.collect()
}

fn edit(
    hunk: &Hunk,
    paths: Sides<Option<&str>>,
    statements: &Sides<Vec<Statement<'_>>>,
    functions: &Sides<Functions>,
    named: &Sides<HashMap<&str, RangeInclusive<u32>>>,
    lines: &Sides<(Vec<&str>, HashSet<&str>)>,
) -> Edit {
    let own = hunk.at.clone().zip(Sides { before: &statements.before, after: &statements.after });
    let own = own.map(|(range, all)| &all[range.clone()]);
    // A line that can matter stands for them all, before all of the after.
    let is_log = own.before.iter().chain(own.after).all(Statement::is_log);
    let is_alone = own.before.is_empty() || own.after.is_empty();
    let telling = own.map(|all| {
        // A function that comes or goes stands for its decorators.
        let decorators = all.iter().take_while(|of| is_alone && of.is_decorator()).count();
        let rest = all.get(decorators..).filter(|rest| !rest.is_empty()).unwrap_or(all);
        rest.iter().find(|of| is_log || !of.is_log() && !of.is_import()).or(rest.first())
    });
    let line = Sides::BOTH.map(|&side| Some(shown((*telling.of(side))?, lines.of(side))));
    let around = Sides::BOTH.map(|&side| functions.of(side).around(*(*telling.of(side))?.lines.start()));
    let scope = around.after.as_ref().or(around.before.as_ref()).map(|(name, _)| (*name).to_owned());
    let body = Sides::BOTH.map(|&side| {
        let known = around.of(side).as_ref().map(|(_, lines)| lines.clone());
        let by_name = || named.of(side).get(scope.as_deref()?).cloned();
        let renamed = || {
            let beside = beside(own.of(side.other()), hunk.at.of(side).start)?;
            functions.of(side).around(*statements.of(side).get(beside)?.lines.start()).map(|(_, lines)| lines)
        };
        let is_within = scope.is_some() && own.of(side).is_empty();
        known.or_else(by_name).or_else(|| is_within.then(renamed).flatten())
    });
    let is_decorator = own.before.iter().chain(own.after).any(Statement::is_decorator);
    let edited = Sides::BOTH.map(|&side| {
        let range = hunk.at.of(side);
        let with_block = &statements.of(side)[range.start..range.end + hunk.follow];
        let own = with_block.iter().enumerate().map(|(at, of)| {
            if at >= range.len() {
                return EditedStatement::of_block(of.lines.clone());
            }
            let scope = functions.of(side).around(*of.lines.start()).map(|(name, _)| name.to_owned());
            EditedStatement { lines: of.lines.clone(), line: Some(shown(of, lines.of(side))), scope }
        });
        // A decorator runs around the whole function.
        let around = body.of(side).clone().filter(|_| is_decorator).map(EditedStatement::of_block);
        own.chain(around).collect()
    });
    let near = statements.after.get(hunk.at.after.start).or(statements.after.last());
    let near = telling.after.or(near).map(|of| *of.lines.start());
    let kind = if is_log { EditKind::Log } else { EditKind::Code };
    let path = paths.map(|path| path.map(str::to_owned));
    Edit { kind, path, line, near, scope, statements: edited, body, ..Edit::default() }
}

/// The statement next to the place of statements that only the other side has. It is of the same function, if they are in one.
fn beside(others: &[Statement<'_>], place: usize) -> Option<usize> {
    if others.iter().all(Statement::is_decorator) {
        return Some(place);
    }
    place.checked_sub(1).filter(|_| !others.iter().any(Statement::is_definition))
}

/// The first line of a statement that the other side does not have, and its text, given the lines of both sides.
fn shown(statement: &Statement<'_>, (lines, others): &(Vec<&str>, HashSet<&str>)) -> (u32, String) {
    let own = || statement.lines.clone().filter_map(|line| Some((line, lines.get(line as usize - 1)?.trim())));
    let is_new = |text: &str| !text.is_empty() && !others.contains(text);
    let (line, text) =
        own().find(|(_, text)| is_new(text)).or_else(|| own().next()).unwrap_or((*statement.lines.start(), ""));
    (line, text.chars().take(LONGEST_TEXT).collect())
}

/// The edits of a file of another kind, line by line.
pub(crate) fn of_configuration(paths: Sides<Option<&str>>, texts: Sides<&str>) -> Vec<Edit> {
    let lines = texts.map(|text| {
        without_mark(text)
            .lines()
            .take(MOST_LINES)
            .map(without_comment)
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
            .collect::<Vec<_>>()
    });
    let keys = lines.map(|lines| lines.iter().map(|(_, line)| *line).collect::<Vec<_>>());
    let mut edits = Vec::new();
    for change in difference(keys.map(Vec::as_slice)) {
        if matches!(change, DiffOp::Equal { .. }) {
            continue;
        }
        let ranges = Sides { before: change.old_range(), after: change.new_range() };
        for at in 0..ranges.before.len().max(ranges.after.len()) {
            let line: Sides<Option<(u32, String)>> = Sides::BOTH.map(|&side| {
                let (line, text) = lines.of(side)[ranges.of(side).clone()].get(at)?;
                Some((u32::try_from(line + 1).unwrap_or(u32::MAX), text.chars().take(LONGEST_TEXT).collect()))
            });
            edits.push(Edit {
                kind: EditKind::Configuration,
                near: line.after.as_ref().or(line.before.as_ref()).map(|(line, _)| *line),
                path: paths.map(|path| path.map(str::to_owned)),
                line,
                ..Edit::default()
            });
        }
    }
    edits
}

fn without_comment(line: &str) -> &str {
    let end = if line.starts_with('#') { 0 } else { line.find(" #").unwrap_or(line.len()) };
    line[..end].trim()
}

impl EditKind {
    /// Its name in machine-readable output.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

impl Edit {
    /// The code that it moves, and whether it comes from there.
    pub(super) fn moved(&self) -> Option<(&str, bool)> {
        Some((self.moves.as_deref()?, self.line.before.is_some()))
    }

    /// True for nothing but imports.
    pub(crate) fn is_import(&self) -> bool {
        let mut texts = [&self.line.before, &self.line.after].into_iter().flatten();
        self.kind == EditKind::Code && texts.all(|(_, text)| text.starts_with("import ") || text.starts_with("from "))
    }

    /// Makes the statements its own that use a name which it imports from elsewhere, unless the code is what moved there.
    pub(super) fn rebind(&mut self, moves: &MovedCode) {
        self.rebound.retain(|rebound| !moves.explain(rebound));
        for side in Side::BOTH {
            let uses = self.rebound.iter().flat_map(|rebound| rebound.uses.of(side));
            self.statements.of_mut(side).extend(uses.cloned().map(EditedStatement::of_block));
        }
    }

    /// True if a statement of the after stands for it, or none could.
    pub(crate) fn is_shown_by(&self, statement: usize) -> bool {
        let line = self.statements.after[statement].line.as_ref();
        line.is_none_or(|line| self.line.after.as_ref() == Some(line))
    }

    /// Lets a statement of the after stand for it.
    pub(crate) fn stand(&mut self, statement: usize) {
        let EditedStatement { line, scope, .. } = &self.statements.after[statement];
        self.line.after.clone_from(line);
        self.scope.clone_from(scope);
        self.near = self.line.after.as_ref().map(|(line, _)| *line);
    }

    /// The package, and its versions.
    pub fn package(&self) -> Option<(&str, &Sides<String>)> {
        match &self.kind {
            EditKind::Dependency(name, versions) => Some((name, versions)),
            EditKind::Code | EditKind::Log | EditKind::Configuration => None,
        }
    }

    /// A file or submodule as a whole.
    pub(super) fn of_whole(paths: Sides<Option<&str>>) -> Self {
        Self { path: paths.map(|path| path.map(str::to_owned)), ..Self::default() }
    }

    /// The file or submodule that it is as a whole, as its lines are not read.
    pub fn whole_file(&self) -> Option<&str> {
        let path = self.path.after.as_deref().or(self.path.before.as_deref());
        path.filter(|_| self.shown().is_none() && self.package().is_none())
    }

    /// The line of the checkout to point at.
    pub fn code_line(&self) -> Option<CodeLine> {
        Some(CodeLine { path: self.path.after.clone()?, line: self.near? })
    }

    /// The sign, file, line and text for a reader: those of the added line, otherwise of the removed one.
    pub fn shown(&self) -> Option<(char, &str, u32, &str)> {
        for (sign, side) in [('+', Side::After), ('-', Side::Before)] {
            if let (Some((line, text)), Some(path)) = (self.line.of(side), self.path.of(side)) {
                return Some((sign, path, *line, text));
            }
        }
        None
    }

    /// The numbers that it replaces, where it replaces one by another and nothing else.
    pub fn numbers(&self) -> Option<Sides<f64>> {
        let (Some((_, old)), Some((_, new))) = (&self.line.before, &self.line.after) else { return None };
        let common = old.bytes().zip(new.bytes()).take_while(|(one, other)| one == other).count();
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
        let head = old.get(..common)?.trim_end_matches(is_of_number);
        let start = head.len();
        let [old, new] = [&old[start..], &new[start..]];
        let [old_rest, new_rest] = [old, new].map(|text| text.trim_start_matches(is_of_number));
        let number = |text: &str, rest: &str| text[..text.len() - rest.len()].replace('_', "").parse::<f64>().ok();
        let numbers = Sides { before: number(old, old_rest)?, after: number(new, new_rest)? };
        // Within a word it is a width, as in `float16`; a small one numbers names, as in `conv1`, and `1e-4` is another one.
        let is_in_word = head.ends_with(char::is_alphanumeric);
        let least = if is_in_word { 8.0 } else { f64::MIN_POSITIVE };
        let is_amount = !head.ends_with('-') && numbers.before >= least && numbers.after >= least;
        (old_rest == new_rest && is_amount).then_some(numbers)
    }
}
