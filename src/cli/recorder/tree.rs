//! Worktrees in which commits are recorded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::super::git::{self, git};

/// A worktree of a repository.
pub(crate) struct Tree<'r> {
    root: &'r Path,
    pub(crate) path: PathBuf,
}

impl<'r> Tree<'r> {
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

/// The variable by which Python finds the packages of a checkout before those that the environment has installed from another one.
pub(crate) fn own_packages(root: &Path) -> Result<(&'static str, OsString)> {
    let paths = [root.to_owned(), root.join("src")].into_iter().chain(paths_of("PYTHONPATH"));
    Ok(("PYTHONPATH", env::join_paths(paths).context("PYTHONPATH")?))
}

/// The folders in a variable.
pub(crate) fn paths_of(variable: &str) -> Vec<PathBuf> {
    env::var_os(variable).map(|paths| env::split_paths(&paths).collect()).unwrap_or_default()
}
