//! What a verdict is computed by, and the change edits: the workflow that runs with the files below `.github` that it reaches by
//! name, every `ptmem.toml`, and every file that an option or a gate names. It is shown as a diff. Bytes are compared: nothing asks what an edit
//! means.

mod disk;
mod lines;
mod reach;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use ptmem::pattern;
use ptmem::sides::Sides;
use ptmem_base::text::printable;

use lines::DiffLines;
use tree::{FileContent, FileTree, LinkTarget, Met, PathState};

/// The folder of workflows and of what they use.
const GITHUB: &str = ".github";

/// The name of the configuration. Some file systems ignore case.
const CONFIGURATION: &str = "ptmem.toml";

/// A change in the working tree, and what its gates name. Recorded code can write to that tree: ask before it runs.
pub(super) struct RuleChange<'c> {
    /// The root of the checkout.
    pub(super) root: &'c Path,
    /// The commit that the change begins at.
    pub(super) base: &'c str,
    /// The working directory, from the root.
    pub(super) folder: &'c str,
    /// The path of the workflow that runs; none where it is not known.
    pub(super) workflow: Option<&'c str>,
    /// Files, folders and globs that gates of either side name as the before, also with the name of a case behind `#`, and the file
    /// that `--config` names, from the root.
    pub(super) named: &'c [String],
}

/// What a change does to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileEdit {
    Changed,
    Added,
    Removed,
    /// The same bytes have another name, which was this one.
    Renamed(String),
    /// One side cannot be read; says why.
    Unreadable(String),
}

/// A file by which the verdict is computed, and which the change edits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditedFile {
    /// Its path from the root, as it may be printed.
    pub(super) path: String,
    pub(super) edit: FileEdit,
    /// The first lines of the unified diff, as they may be printed. One of them may end a block of code that is begun by too few
    /// backticks.
    pub(super) diff: Vec<String>,
    /// Lines that are left out.
    pub(super) more: usize,
}

/// The files that the change edits, sorted by their paths.
pub(super) fn edited(change: &RuleChange<'_>) -> Result<Vec<EditedFile>> {
    let before = FileTree::of_commit(change.root, change.base)?;
    let after = FileTree::of_checkout(change.root, &others(change.folder))?;
    let mut trees = Sides { before, after };
    let mut met = Met::default();
    watch_configurations(&trees, change.folder, &mut met);
    for named in change.named {
        for name in names(named) {
            watch_named(&mut trees.before, name, &mut met)?;
            watch_named(&mut trees.after, name, &mut met)?;
        }
    }
    reach::watch(&mut trees, change.workflow, &mut met)?;
    follow_all(&mut trees, met.paths.clone(), &mut met)?;
    differing(&mut trees, met)
}

/// The folders from the working directory up to the root, each with a slash at its end, the root without a name.
fn folders(folder: &str) -> Vec<String> {
    let folder = folder.trim_matches('/');
    let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    let above = ends.filter(|end| *end > 0).map(|end| format!("{}/", &folder[..end]));
    above.chain([String::new()]).collect()
}

/// Where files count that git does not track.
fn others(folder: &str) -> Vec<String> {
    let in_folder = |above: String| [format!("{above}{CONFIGURATION}"), format!("{above}{GITHUB}/{CONFIGURATION}")];
    folders(folder).into_iter().flat_map(in_folder).chain([GITHUB.to_owned()]).collect()
}

/// Every configuration between the working directory and the root.
fn watch_configurations(trees: &Sides<FileTree>, folder: &str, met: &mut Met) {
    let wanted: BTreeSet<String> = others(folder).into_iter().map(|path| path.to_ascii_lowercase()).collect();
    for (_, tree) in trees.each() {
        let paths = tree.paths().filter(|path| {
            let is_named = path.len() >= CONFIGURATION.len()
                && path[path.len() - CONFIGURATION.len()..].eq_ignore_ascii_case(CONFIGURATION.as_bytes());
            is_named && wanted.contains(&*String::from_utf8_lossy(path).to_ascii_lowercase())
        });
        met.paths.extend(paths.map(<[u8]>::to_vec));
    }
    // Also behind folders that are links.
    met.paths.extend(wanted.into_iter().map(String::into_bytes));
}

/// The names that a file may have: `#` can be part of one, or begin the name of a case.
fn names(before: &str) -> impl Iterator<Item = &str> {
    before
        .match_indices('#')
        .map(|(at, _)| at)
        .chain([before.len()])
        .map(|end| &before[..end])
        .filter(|name| !name.is_empty())
}

/// Watches the files that a name stands for: one, all below a folder, or those that a glob matches.
fn watch_named(tree: &mut FileTree, name: &str, met: &mut Met) -> Result<()> {
    match tree.follow(name.as_bytes(), met)? {
        LinkTarget::File(path) => drop(met.paths.insert(path)),
        LinkTarget::Folder(folder) => {
            let below = tree.below(&folder, met)?;
            met.paths.extend(below.into_values());
        }
        LinkTarget::Nowhere => return watch_glob(tree, name, met),
    }
    Ok(())
}

fn watch_glob(tree: &mut FileTree, name: &str, met: &mut Met) -> Result<()> {
    let Some(wildcard) = name.find(['*', '?', '[', '{']) else { return Ok(()) };
    let (folder, rest) = name.split_at(name[..wildcard].rfind('/').map_or(0, |at| at + 1));
    let LinkTarget::Folder(folder) = tree.follow(folder.as_bytes(), met)? else { return Ok(()) };
    // The gate refuses what is no glob.
    let Ok(glob) = pattern::glob(rest, true) else { return Ok(()) };
    let glob = glob.compile_matcher();
    // A folder that it matches stands for its files.
    let matches =
        |path: &str| path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]).any(|part| glob.is_match(part));
    let below = tree.below(&folder, met)?;
    met.paths
        .extend(below.into_iter().filter(|(name, _)| matches(&String::from_utf8_lossy(name))).map(|(_, path)| path));
    Ok(())
}

/// Adds what paths lead to through links, on both sides.
fn follow_all(trees: &mut Sides<FileTree>, paths: impl IntoIterator<Item = Vec<u8>>, met: &mut Met) -> Result<()> {
    for path in paths {
        for tree in [&mut trees.before, &mut trees.after] {
            if let LinkTarget::File(end) = tree.follow(&path, met)? {
                met.paths.insert(end);
            }
        }
    }
    Ok(())
}

fn differing(trees: &mut Sides<FileTree>, met: Met) -> Result<Vec<EditedFile>> {
    let mut edited = Vec::new();
    for path in &met.paths {
        let states = Sides { before: trees.before.state(path)?, after: trees.after.state(path)? };
        if states.before != states.after {
            edited.push(Difference { path: printable(&String::from_utf8_lossy(path)), states });
        }
    }
    let mut edited = joined(edited);
    edited.extend(met.unreadable.into_iter().map(|(path, why)| EditedFile {
        path: printable(&String::from_utf8_lossy(&path)),
        edit: FileEdit::Unreadable(why.to_owned()),
        diff: Vec::new(),
        more: 0,
    }));
    edited.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(edited)
}

/// A path at which the sides differ.
struct Difference {
    path: String,
    states: Sides<PathState>,
}

impl Difference {
    fn shown(&self) -> EditedFile {
        let DiffLines { lines, more } = DiffLines::between(&self.states.map(PathState::text));
        let edit = match (&self.states.before, &self.states.after) {
            (PathState::Absent, _) => FileEdit::Added,
            (_, PathState::Absent) => FileEdit::Removed,
            (_, PathState::Unreadable(why)) | (PathState::Unreadable(why), _) => {
                FileEdit::Unreadable((*why).to_owned())
            }
            (
                PathState::File(_) | PathState::Link(_) | PathState::Submodule,
                PathState::File(_) | PathState::Link(_) | PathState::Submodule,
            ) => FileEdit::Changed,
        };
        EditedFile { path: self.path.clone(), edit, diff: lines, more }
    }
}

/// The edits, where files that are removed and added with the same bytes are one that is renamed.
fn joined(differences: Vec<Difference>) -> Vec<EditedFile> {
    let mut shown: Vec<EditedFile> = differences.iter().map(Difference::shown).collect();
    let mut gone = BTreeSet::new();
    for (at, after) in differences.iter().enumerate() {
        let PathState::File(FileContent::Whole(bytes)) = &after.states.after else { continue };
        let is_former = |(at, before): &(usize, &Difference)| {
            shown[*at].edit == FileEdit::Removed
                && !gone.contains(at)
                && matches!(&before.states.before, PathState::File(FileContent::Whole(of)) if of == bytes)
        };
        if shown[at].edit == FileEdit::Added
            && let Some((former, before)) = differences.iter().enumerate().find(is_former)
        {
            gone.insert(former);
            shown[at] = EditedFile {
                path: after.path.clone(),
                edit: FileEdit::Renamed(before.path.clone()),
                diff: Vec::new(),
                more: 0,
            };
        }
    }
    shown.into_iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, edited)| edited).collect()
}
