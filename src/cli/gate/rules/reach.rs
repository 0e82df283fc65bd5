//! The files of workflows and actions that the running workflow reaches by name.

use std::collections::BTreeMap;

use anyhow::Result;
use ptmem::sides::Sides;

use super::tree::{FileContent, FileTree, LinkTarget, Met, PathState};
use super::{GITHUB, follow_all};

/// The folder whose YAML files GitHub runs, by their names.
const WORKFLOWS: &str = ".github/workflows";

/// Bytes in which a name is looked for, of all names together: with more, every file counts as reached.
const MOST_SEARCHED: usize = 1 << 32;

/// A file that may be reached.
struct ReachedFile {
    /// Its name and that of its folder, of which one must stand in a text. A name that no text has as it is needs none.
    names: Option<Vec<String>>,
    /// The texts of both sides in lower case: some file systems ignore case.
    text: String,
    /// Whether it may name anything: not all of it was read.
    names_all: bool,
}

/// Watches the running workflow and every file that it reaches, at either commit; without it, all files that it could reach.
pub(super) fn watch(trees: &mut Sides<FileTree>, running: Option<&str>, met: &mut Met) -> Result<()> {
    let files = files(trees)?;
    let searched = files.values().map(|file| file.text.len()).sum::<usize>().saturating_mul(files.len());
    let start = running
        .map(|path| path.as_bytes().to_vec())
        .filter(|path| searched <= MOST_SEARCHED && files.contains_key(path));
    let reached = match start {
        Some(start) => reached(&files, start),
        None => files.into_keys().collect(),
    };
    follow_all(trees, reached, met)
}

fn reached(files: &BTreeMap<Vec<u8>, ReachedFile>, start: Vec<u8>) -> Vec<Vec<u8>> {
    let mut left: BTreeMap<&Vec<u8>, &ReachedFile> = files.iter().collect();
    let mut waiting: Vec<&ReachedFile> = left.remove(&start).into_iter().collect();
    let mut reached = vec![start];
    while let Some(file) = waiting.pop() {
        let named: Vec<&Vec<u8>> =
            left.iter().filter(|(_, other)| file.is_naming(other)).map(|(path, _)| *path).collect();
        reached.extend(named.iter().map(|path| (*path).clone()));
        waiting.extend(named.into_iter().filter_map(|path| left.remove(path)));
    }
    reached
}

impl ReachedFile {
    fn is_naming(&self, other: &Self) -> bool {
        let stands_here = |names: &Vec<String>| names.iter().any(|name| self.text.contains(&**name));
        self.names_all || other.names.as_ref().is_none_or(stands_here)
    }
}

/// The files below `.github`, and the actions elsewhere in the repository, by their names on either side.
fn files(trees: &mut Sides<FileTree>) -> Result<BTreeMap<Vec<u8>, ReachedFile>> {
    let mut files = BTreeMap::new();
    for tree in [&mut trees.before, &mut trees.after] {
        for (name, path) in of_side(tree)? {
            let new = || ReachedFile { names: names(&name), text: String::new(), names_all: false };
            let file: &mut ReachedFile = files.entry(name.clone()).or_insert_with(new);
            match tree.state(&path)? {
                PathState::File(FileContent::Whole(bytes)) => {
                    file.text.push_str(&String::from_utf8_lossy(&bytes).to_ascii_lowercase());
                }
                PathState::File(FileContent::Large { .. }) | PathState::Unreadable(_) => file.names_all = true,
                PathState::Absent | PathState::Link(_) | PathState::Submodule => {}
            }
        }
    }
    Ok(files)
}

/// Those of one side, with where they are once links are followed.
fn of_side(tree: &mut FileTree) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // Only what is reached is watched.
    let met = &mut Met::default();
    let is_action = |path: &&[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        [&b"action.yml"[..], b"action.yaml"].iter().any(|action| name.eq_ignore_ascii_case(action))
    };
    let mut files: BTreeMap<Vec<u8>, Vec<u8>> =
        tree.paths().filter(is_action).map(|path| (path.to_vec(), path.to_vec())).collect();
    if let LinkTarget::Folder(folder) = tree.follow(GITHUB.as_bytes(), met)? {
        let prefix = format!("{GITHUB}/").into_bytes();
        files.extend(tree.below(&folder, met)?.into_iter().map(|(name, path)| ([&*prefix, &*name].concat(), path)));
    }
    Ok(files)
}

/// The words that name a file in a text.
fn names(path: &[u8]) -> Option<Vec<String>> {
    let path = str::from_utf8(path).ok().filter(|path| !path.contains(char::is_control))?.to_ascii_lowercase();
    let (folder, name) = path.rsplit_once('/')?;
    let is_yaml = name.ends_with(".yml") || name.ends_with(".yaml");
    let mut names = vec![name.to_owned()];
    // GitHub calls these by their own names alone.
    if !(is_yaml && [GITHUB, WORKFLOWS].contains(&folder)) {
        names.extend(folder.rsplit('/').next().map(str::to_owned));
    }
    Some(names)
}
