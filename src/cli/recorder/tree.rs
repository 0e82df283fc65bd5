//! Worktrees in which commits are recorded.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::git::{self, git};

/// A worktree of a repository.
pub(crate) struct Worktree<'r> {
    root: &'r Path,
    pub(crate) path: PathBuf,
}

impl<'r> Worktree<'r> {
    /// The place of one, which need not be there yet.
    pub(crate) fn at(root: &'r Path, path: PathBuf) -> Self {
        Self { root, path }
    }

    /// Checks a commit out, with nothing beside its files.
    pub(crate) fn check_out(&self, commit: &str) -> Result<()> {
        let is_there = git::text(&mut git(Some(&self.path)), &["rev-parse", "--show-toplevel"])
            .is_ok_and(|top| fs::canonicalize(top).ok() == fs::canonicalize(&self.path).ok());
        if is_there {
            git::output(&mut git(Some(&self.path)), &["checkout", "--quiet", "--force", "--detach", commit])?;
            // Files of the run before, such as compiled Python.
            git::output(&mut git(Some(&self.path)), &["clean", "--quiet", "-ffdx"])?;
            return Ok(());
        }
        let _ = fs::remove_dir_all(&self.path);
        // What is left of one whose folder is gone.
        let _ = git::output(&mut git(Some(self.root)), &["worktree", "prune"]);
        let name = self.path.to_string_lossy();
        git::output(&mut git(Some(self.root)), &["worktree", "add", "--quiet", "--force", "--detach", &name, commit])?;
        Ok(())
    }

    /// Removes it; failing to do so is not worth an error.
    pub(crate) fn remove(&self) {
        let _ =
            git::output(&mut git(Some(self.root)), &["worktree", "remove", "--force", &self.path.to_string_lossy()]);
    }
}
