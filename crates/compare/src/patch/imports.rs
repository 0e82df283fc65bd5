//! Names that an import takes from elsewhere than before.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

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

/// The imported names of a file.
pub(super) struct ImportSources<'s, 't> {
    statements: &'s Sides<Vec<Statement<'t>>>,
    /// The sources of each name before.
    before: HashMap<&'t str, Vec<String>>,
    /// The names of which an import was found that takes them from elsewhere.
    rebound: HashSet<&'t str>,
    /// Where each name occurs: most changes do not need it.
    names: OnceCell<Sides<NameLines<'t>>>,
}

impl<'s, 't> ImportSources<'s, 't> {
    pub(super) fn new(statements: &'s Sides<Vec<Statement<'t>>>) -> Self {
        let mut before: HashMap<&str, Vec<String>> = HashMap::new();
        for (name, source) in statements.before.iter().flat_map(imported) {
            before.entry(name).or_default().push(source);
        }
        Self { statements, before, rebound: HashSet::new(), names: OnceCell::new() }
    }

    /// The names that a part with nothing but added imports takes from elsewhere. Of several such parts, the first has a name.
    pub(super) fn rebound(&mut self, hunk: &Hunk) -> Vec<Rebound> {
        let added = &self.statements.after[hunk.at.after.clone()];
        if !hunk.at.before.is_empty() || !added.iter().all(Statement::is_import) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (name, after) in added.iter().flat_map(imported) {
            let Some(earlier) = self.before.get(name) else { continue };
            if !earlier.iter().any(|before| is_same(before, &after)) && self.rebound.insert(name) {
                let source = Sides { before: earlier[0].clone(), after };
                found.push(Rebound { source, uses: Sides::BOTH.map(|&side| self.uses(side, name)) });
            }
        }
        found
    }

    fn uses(&self, side: Side, name: &str) -> Vec<RangeInclusive<u32>> {
        let all = self.statements.of(side);
        let names = self.names.get_or_init(|| self.statements.map(|all| NameLines::new(all)));
        let mut starts = names.of(side).of(name).to_vec();
        starts.dedup();
        let uses = starts.iter().map(|start| &all[all.partition_point(|of| of.lines.start() < start)]);
        uses.filter(|of| !of.is_import()).map(|of| of.lines.clone()).collect()
    }
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
            // Of a module within packages, this binds the outermost one.
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
