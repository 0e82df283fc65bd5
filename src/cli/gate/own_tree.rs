//! Has a base read the files of its own worktree. Where its command names the working tree by an absolute path, it would be
//! recorded with the edits that it is compared with.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::words::many;
use super::ignored::ignored_in;
use super::sides::normal;

/// The variable with the working tree, the worktree, and the file for the names of what a base reads in the former. Python's part
/// of the recorder reads it.
pub(super) const VARIABLE: &str = "PTMEM_SIMULATE_OTHER_TREE";

/// Maximum number of files that a message names.
const MOST: usize = 3;

/// A base in its worktree.
pub(super) struct OwnTree<'a> {
    /// The root of the working tree.
    working: &'a Path,
    worktree: &'a Path,
    /// What git ignores is in the working tree alone, and is read there.
    ignored: Vec<PathBuf>,
}

impl<'a> OwnTree<'a> {
    pub(super) fn new(working: &'a Path, worktree: &'a Path) -> Self {
        Self { working, worktree, ignored: ignored_in(working) }
    }

    /// A script with its paths into the working tree moved to the worktree, and how many these are.
    pub(super) fn moved(&self, script: &str) -> (String, usize) {
        let root = self.working.to_string_lossy();
        let mut moved = String::new();
        let mut copied = 0;
        let mut count = 0;
        for (start, found) in script.match_indices(&*root) {
            let end = start + found.len();
            let rest = &script[end..];
            let path = &rest[..rest.find(ends_path).unwrap_or(rest.len())];
            let is_whole = !script[..start].ends_with(is_of_path) && (path.is_empty() || path.starts_with('/'));
            if is_whole && !self.is_ignored(&normal(Path::new(path.trim_start_matches('/')))) {
                moved.push_str(&script[copied..start]);
                moved.push_str(&self.worktree.to_string_lossy());
                copied = end;
                count += 1;
            }
        }
        moved.push_str(&script[copied..]);
        (moved, count)
    }

    /// The value of the variable, for a file of the recording.
    pub(super) fn watched(&self, notes: &Path) -> String {
        format!("{}\n{}\n{}", self.working.display(), self.worktree.display(), notes.display())
    }

    /// Why a recording is not one of the base: it read files of the working tree that are other ones there. `None` if it is.
    pub(super) fn objection(&self, notes: &Path) -> Option<String> {
        let read = fs::read_to_string(notes).unwrap_or_default();
        let mut others: Vec<&Path> = read.lines().filter_map(|path| self.other_file(Path::new(path))).collect();
        others.sort_unstable();
        others.dedup();
        let more = others.len().saturating_sub(MOST);
        others.truncate(MOST);
        let named: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
        let named =
            named.join(", ") + &if more > 0 { format!(" and {}", many(more, "more file")) } else { String::new() };
        (!others.is_empty()).then(|| {
            format!(
                "it read files of the working tree that differ from those of the base ({named}): name them by relative paths"
            )
        })
    }

    /// A file of the working tree from its root, if it is not that of the base and git does not ignore it.
    fn other_file<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let below = path.strip_prefix(self.working).ok().filter(|below| !self.is_ignored(below))?;
        (fs::read(path).ok() != fs::read(self.worktree.join(below)).ok()).then_some(below)
    }

    fn is_ignored(&self, below: &Path) -> bool {
        self.ignored.iter().any(|entry| below.starts_with(entry))
    }
}

/// True for a character that a path in a script ends before.
fn ends_path(character: char) -> bool {
    character.is_whitespace() || "'\"`;:,&|()<>=$".contains(character)
}

/// True for a character before a slash that makes it no beginning of an absolute path.
fn is_of_path(character: char) -> bool {
    character.is_alphanumeric() || "/._-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_script_are_moved_unless_git_ignores_them() {
        let tree =
            OwnTree { working: Path::new("/code"), worktree: Path::new("/base"), ignored: vec![PathBuf::from("data")] };
        for (script, moved, count) in [
            ("python /code/t.py --config=/code/c.json", "python /base/t.py --config=/base/c.json", 2),
            ("cd '/code' && python t.py", "cd '/base' && python t.py", 1),
            ("python t.py /code/data/x.bin /code/data", "python t.py /code/data/x.bin /code/data", 0),
            ("python /code2/t.py /my/code/t.py", "python /code2/t.py /my/code/t.py", 0),
        ] {
            assert_eq!(tree.moved(script), (moved.to_owned(), count), "{script}");
        }
    }
}
