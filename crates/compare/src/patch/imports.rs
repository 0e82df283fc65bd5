//! Names that an import takes from elsewhere than before.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use ptmem_base::python::Functions;
use ptmem_base::sides::{Side, Sides};

use super::hunks::Hunk;
use super::tokens::{NameLines, Statement};

/// A name that an added import takes from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rebound {
    /// The module and the name within it, with dots between them; a relative import begins with dots.
    source: Sides<String>,
    /// The lines of the statements that use it.
    pub(super) uses: Sides<Vec<RangeInclusive<u32>>>,
}

/// A name that a function or class imports, or a file, whose name is empty here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ImportedName<'s> {
    name: &'s str,
    scope: &'s str,
}

/// The imported names of a file.
pub(super) struct ImportSources<'s, 't> {
    statements: &'s Sides<Vec<Statement<'t>>>,
    functions: &'s Sides<Functions>,
    /// The lines of each function and class.
    named: &'s Sides<HashMap<&'s str, RangeInclusive<u32>>>,
    sources: Sides<HashMap<ImportedName<'s>, BTreeSet<String>>>,
    /// The names of which an import was found that takes them from elsewhere.
    rebound: HashSet<ImportedName<'s>>,
    /// Where each name occurs: most changes do not need it.
    names: OnceCell<Sides<NameLines<'t>>>,
}

impl<'s, 't> ImportSources<'s, 't> {
    pub(super) fn new(
        statements: &'s Sides<Vec<Statement<'t>>>,
        functions: &'s Sides<Functions>,
        named: &'s Sides<HashMap<&'s str, RangeInclusive<u32>>>,
    ) -> Self {
        let sources = Sides::BOTH.map(|&side| sources(statements.of(side), functions.of(side)));
        Self { statements, functions, named, sources, rebound: HashSet::new(), names: OnceCell::new() }
    }

    /// The names that a part with nothing but added imports takes from elsewhere. If several parts do so, only the first has
    /// the name.
    pub(super) fn rebound(&mut self, hunk: &Hunk) -> Vec<Rebound> {
        let Self { statements, functions, .. } = *self;
        let added = &statements.after[hunk.at.after.clone()];
        if !hunk.at.before.is_empty() || !added.iter().all(Statement::is_import) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for statement in added {
            let around: Vec<_> = scopes(&functions.after, *statement.lines.start()).collect();
            for (name, source) in imported(statement) {
                found.extend(self.rebound_name(name, source, &around));
            }
        }
        found
    }

    /// A name with its new source, given the functions and classes around the import.
    fn rebound_name(
        &mut self,
        name: &'s str,
        after: String,
        around: &[(&'s str, RangeInclusive<u32>)],
    ) -> Option<Rebound> {
        let (scope, lines) = &around[0];
        let own = ImportedName { name, scope };
        if self.rebound.contains(&own) {
            return None;
        }
        // Without an import of its own, a function had the name from around it.
        let mut outward = around.iter().map(|(scope, _)| ImportedName { name, scope });
        let earlier = outward.find_map(|outer| self.sources.before.get(&outer))?;
        if earlier.contains(&after) || earlier.iter().any(|before| is_same(before, &after)) {
            return None;
        }
        let source = Sides { before: earlier.first()?.clone(), after };
        let of_file = scope.is_empty().then_some(lines);
        let lines = Sides { before: of_file.or_else(|| self.named.before.get(scope)), after: Some(lines) };
        let uses = Sides::BOTH.map(|&side| lines.of(side).map(|lines| self.uses(side, own, lines)).unwrap_or_default());
        self.rebound.insert(own);
        Some(Rebound { source, uses })
    }

    /// The statements of a side that use an imported name, within the lines of the function, class or file that imports it.
    fn uses(&self, side: Side, own: ImportedName<'_>, lines: &RangeInclusive<u32>) -> Vec<RangeInclusive<u32>> {
        let all = self.statements.of(side);
        let names = self.names.get_or_init(|| self.statements.map(|all| NameLines::new(all)));
        let starts = names.of(side).of(own.name);
        let from = starts.partition_point(|start| start < lines.start());
        let mut starts: Vec<u32> = starts[from..].iter().copied().take_while(|start| start <= lines.end()).collect();
        starts.dedup();
        let uses = starts.iter().map(|start| &all[all.partition_point(|of| of.lines.start() < start)]);
        let uses =
            uses.filter(|of| !of.is_import() && of.uses(own.name) && self.is_bound(side, own, *of.lines.start()));
        uses.map(|of| of.lines.clone()).collect()
    }

    /// True if a line has an imported name from there, and not from an import of a function within.
    fn is_bound(&self, side: Side, own: ImportedName<'_>, line: u32) -> bool {
        let around = scopes(self.functions.of(side), line).map(|(scope, _)| ImportedName { scope, ..own });
        let mut inner = around.take_while(|inner| *inner != own);
        !inner.any(|inner| self.sources.of(side).contains_key(&inner))
    }
}

/// The functions and classes around a line with their lines, the innermost first, and last the file.
fn scopes(functions: &Functions, line: u32) -> impl Iterator<Item = (&str, RangeInclusive<u32>)> {
    functions.all_around(line).chain([("", 1..=u32::MAX)])
}

/// The sources of each name that some statements import.
fn sources<'s>(
    statements: &'s [Statement<'_>],
    functions: &'s Functions,
) -> HashMap<ImportedName<'s>, BTreeSet<String>> {
    let mut sources: HashMap<ImportedName<'_>, BTreeSet<String>> = HashMap::new();
    for statement in statements.iter().filter(|of| of.is_import()) {
        let scope = functions.around(*statement.lines.start()).map(|(scope, _)| scope).unwrap_or_default();
        for (name, source) in imported(statement) {
            sources.entry(ImportedName { name, scope }).or_default().insert(source);
        }
    }
    sources
}

/// The names that a statement imports, with their sources.
fn imported<'t>(statement: &Statement<'t>) -> Vec<(&'t str, String)> {
    let end = statement.tokens.iter().position(|token| *token == "import");
    let Some(end) = end.filter(|_| statement.is_import()) else { return Vec::new() };
    let mut module = statement.tokens[1.min(end)..end].concat();
    if !module.is_empty() && !module.ends_with('.') {
        module.push('.');
    }
    let items = statement.tokens[end + 1..].split(|token| matches!(*token, "," | "(" | ")"));
    let mut names = Vec::new();
    for item in items.filter(|item| !item.is_empty()) {
        names.push(match item.iter().position(|token| *token == "as") {
            Some(at) => (item[item.len() - 1], format!("{module}{}", item[..at].concat())),
            // An import of a module within packages binds the outermost one.
            None => (item[0], format!("{module}{}", item[0])),
        });
    }
    names
}

/// True for two spellings of one source: a relative one has only its end.
fn is_same(one: &str, other: &str) -> bool {
    one == other || is_end(one, other) || is_end(other, one)
}

/// True if a relative source is the end of another one.
fn is_end(relative: &str, whole: &str) -> bool {
    let own = relative.trim_start_matches('.');
    let rest = whole.trim_start_matches('.').strip_suffix(own);
    own != relative && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Modules and their contents that are elsewhere now, by the ends of their names before and after.
#[derive(Default)]
pub(super) struct MovedCode(HashSet<(String, String)>);

impl MovedCode {
    /// Adds a module, or a function or class of one, by the paths of its files.
    pub(super) fn add(&mut self, paths: Sides<&str>, name: Option<&str>) {
        let Sides { before, after } = paths.map(|path| {
            let module = path.trim_end_matches(".py").trim_end_matches("/__init__");
            let module = module.rsplit('/').next().unwrap_or(module);
            name.map_or_else(|| module.to_owned(), |name| format!("{module}.{name}"))
        });
        self.0.insert((before, after));
    }

    /// True if a name has another source because its code is elsewhere now.
    pub(super) fn explain(&self, rebound: &Rebound) -> bool {
        let parts = rebound.source.map(|source| source.rsplitn(3, '.').collect::<Vec<_>>());
        match (&parts.before[..], &parts.after[..]) {
            ([old, old_module, ..], [new, new_module, ..]) => {
                old == new && self.has(old_module, new_module)
                    || self.has(&format!("{old_module}.{old}"), &format!("{new_module}.{new}"))
                    || self.has(old, new)
            }
            ([old, ..], [new, ..]) => self.has(old, new),
            _ => false,
        }
    }

    fn has(&self, before: &str, after: &str) -> bool {
        self.0.contains(&(before.to_owned(), after.to_owned()))
    }
}
