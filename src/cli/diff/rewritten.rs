//! Stored befores that the change itself rewrote or removed, compared with those of its base.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use anyhow::Result;
use ptmem::config::Config;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::pattern;
use ptmem::verdict::Comparison;
use tempfile::TempDir;

use super::super::args::DiffArguments;
use super::super::git::Base;
use super::super::ranks;
use super::compare::compare_all;
use super::pairs::Pair;
use super::update::higher_figures;

/// A pair whose before is that of the base.
pub(super) struct OfBase {
    pub(super) pair: Pair,
    /// Figures that are higher in the before of the change.
    higher: Vec<String>,
    /// Holds the files.
    _folder: TempDir,
}

impl OfBase {
    /// `None` unless the change rewrote the before without a reason, or removed it.
    pub(super) fn find(base: &Base, pair: &Pair, arguments: &DiffArguments, config: &Config) -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let mut of_base = pair.clone();
        let mut is_rewritten = false;
        for (number, path) in befores(&mut of_base).enumerate() {
            if let Some(bytes) = bytes_at(base, path)? {
                *path = folder.path().join(number.to_string());
                fs::write(&path, bytes)?;
                is_rewritten = true;
            }
        }
        if !is_rewritten {
            return Ok(None);
        }
        let mut higher = Vec::new();
        // One that the change removed has no figures to compare.
        if pair.before.exists() || pair.found.is_some() {
            let gate = compare_all(slice::from_ref(&of_base.to(pair)), &arguments.request(config))?;
            let unexplained: Vec<_> = gate.leaves().filter(|comparison| lacks_reason(comparison)).collect();
            let paths: BTreeSet<PathBuf> = unexplained
                .iter()
                .map(|comparison| PathBuf::from(&comparison.diff.profiles.before.source.path))
                .collect();
            if paths.is_empty() {
                return Ok(None);
            }
            let mut own = pair.clone();
            for (path, own) in befores(&mut of_base).zip(befores(&mut own)) {
                if !paths.contains(path) {
                    path.clone_from(own);
                }
            }
            higher = unexplained.into_iter().flat_map(named_figures).collect();
        }
        Ok(Some(Self { pair: of_base, higher, _folder: folder }))
    }

    /// The remark on figures that rise.
    pub(super) fn raise(&self, pair: &Pair) -> Option<Diagnostic> {
        let path = pair.before.display();
        let message = format!("this change raises figures of {path} without a reason: {}", self.higher.join(", "));
        (!self.higher.is_empty()).then(|| Diagnostic::new(Code::BeforeRaised, None, message))
    }
}

/// The files of the before: one, or those of ranks.
fn befores(pair: &mut Pair) -> Box<dyn Iterator<Item = &mut PathBuf> + '_> {
    match &mut pair.found {
        Some(sides) => Box::new(sides.before.iter_mut().map(|found| &mut found.path)),
        None => Box::new(std::iter::once(&mut pair.before)),
    }
}

/// The bytes at the base of a file that the change edits, renames or removes, or that a link of the change leads to.
fn bytes_at(base: &Base, path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(below) = base.path_below_root(path) else { return Ok(None) };
    let resolved = fs::canonicalize(path).ok().and_then(|path| base.path_below_root(&path));
    let former = match base.former_path(&below)? {
        None if resolved.as_ref() != Some(&below) => Some(below),
        former => former,
    };
    let bytes = former.map(|path| base.read(&path)).transpose()?.flatten();
    Ok(bytes.filter(|bytes| fs::read(path).ok().as_ref() != Some(bytes)))
}

/// The remark on files of a stored before that the change removes.
pub(super) fn removed(base: &Base, pair: &Pair) -> Result<Option<Diagnostic>> {
    let Some(before) = base.path_below_root(&pair.before) else { return Ok(None) };
    let glob = pattern::glob(&before, true).ok().map(|glob| glob.compile_matcher());
    let has = |path: &str| {
        let is_below = path.strip_prefix(&*before).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        ranks::stem(path).is_some() && (is_below || glob.as_ref().is_some_and(|glob| glob.is_match(path)))
    };
    let gone = base.gone()?.filter(|(before, after)| has(before) && !after.is_some_and(has));
    let gone: Vec<&str> = gone.map(|(before, _)| before).collect();
    let message = format!("this change removes files of {}: {}", pair.before.display(), gone.join(", "));
    Ok((!gone.is_empty()).then(|| Diagnostic::new(Code::BeforeRaised, None, message)))
}

/// Whether the file of the change is another one than that of the base, and says no more of why its figures rise.
fn lacks_reason(comparison: &Comparison) -> bool {
    let sides = &comparison.diff.profiles;
    sides.before.source.path != sides.after.source.path && sides.after.raises.len() <= sides.before.raises.len()
}

/// The figures that are higher, with the name of the comparison where it has one.
fn named_figures(comparison: &Comparison) -> Vec<String> {
    let name = comparison.name.as_ref().filter(|_| comparison.member.is_some());
    let figures = higher_figures(comparison).into_iter();
    figures.map(|words| name.map_or_else(|| words.clone(), |name| format!("{name}: {words}"))).collect()
}
