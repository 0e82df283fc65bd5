//! Files that git ignores, such as data: the working tree has them, a worktree of the base does not.

use std::path::{Path, PathBuf};

use super::super::git::{self, git};
use super::super::place::normal;

/// Maximum number of paths that a message names.
const MOST: usize = 3;

/// A worktree in which a command failed, for want of files that only the working tree has.
pub(super) struct Lacking<'a> {
    /// The root of the working tree.
    pub(super) root: &'a Path,
    pub(super) worktree: &'a Path,
    /// The folder in which the command ran, from the root.
    pub(super) below: &'a Path,
}

impl Lacking<'_> {
    /// Names the ignored files that the output of the command names, and says what to do; empty where there are none.
    pub(super) fn advice(&self, output: &str) -> String {
        let ignored = ignored_in(self.root);
        let mut named: Vec<String> = Vec::new();
        for path in output.split_whitespace().filter_map(path_in).filter_map(|path| self.below_root(path)) {
            let name = path.to_string_lossy().into_owned();
            let is_ignored = ignored.iter().any(|entry| path.starts_with(entry)) && self.root.join(&path).exists();
            if is_ignored && !named.contains(&name) && named.len() < MOST {
                named.push(name);
            }
        }
        if named.is_empty() {
            return String::new();
        }
        format!(
            "; its output names {}, which git ignores, so that only the working tree has it: let 'install' or 'record' fetch it, or \
             give its absolute path",
            named.join(", ")
        )
    }

    /// A path that the command named, from the root; `None` outside of the worktree.
    fn below_root(&self, path: &str) -> Option<PathBuf> {
        match Path::new(path) {
            path if path.is_absolute() => path.strip_prefix(self.worktree).ok().map(normal),
            path => Some(normal(&self.below.join(path))),
        }
    }
}

/// The files and whole folders of a working tree that git ignores, from the root.
pub(super) fn ignored_in(root: &Path) -> Vec<PathBuf> {
    let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let listed = git::output(&mut git(Some(root)), &list).unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(String::from_utf8_lossy(name).trim_end_matches('/'))).collect()
}

/// The path that a word of a message is: one in quotes, or with a folder.
fn path_in(word: &str) -> Option<&str> {
    let word =
        word.trim_start_matches(['(', '[', '{', '<']).trim_end_matches([')', ']', '}', '>', ',', ';', ':', '.', '!']);
    let value = word.rsplit('=').next()?;
    let path = value.trim_matches(['\'', '"', '`']);
    (path.contains('/') || path.len() < value.len()).then_some(path).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_messages_are_paths_where_they_look_like_some() {
        for (word, path) in [
            ("'./data/x.bin'", Some("./data/x.bin")),
            ("[data/x]:", Some("data/x")),
            ("root=\"data\",", Some("data")),
            ("data", None),
            ("''", None),
            ("data.", None),
        ] {
            assert_eq!(path_in(word), path, "{word}");
        }
    }
}
