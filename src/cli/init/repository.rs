//! Facts about a repository: its CI system, its package, the script that trains.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::checkout;

/// The system that runs the workflows of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ci {
    /// GitHub Actions, also where nothing says otherwise.
    Github,
    /// GitLab.
    Gitlab,
}

/// The way to install a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installation {
    /// As a package whose dependencies uv.lock pins.
    Locked,
    /// As a package, by `pip install .`.
    Package,
    /// By a file of requirements.
    Requirements(String),
    /// Not known.
    Unknown,
}

/// A repository.
#[derive(Debug)]
pub(super) struct Repository {
    /// Its root.
    pub(super) root: PathBuf,
    pub(super) ci: Ci,
    pub(super) installation: Installation,
    /// Scripts that look as if they train, by their path from the root.
    pub(super) scripts: Vec<String>,
}

/// Scripts that are named.
const MOST_SCRIPTS: usize = 5;

impl Repository {
    /// The repository around a folder, or the folder itself where it is in none.
    pub(super) fn around(folder: &Path) -> Self {
        let root = checkout::around(folder).unwrap_or_else(|| folder.to_owned());
        Self { ci: ci(&root), installation: installation(&root), scripts: scripts(&root), root }
    }
}

fn ci(root: &Path) -> Ci {
    if root.join(".github").is_dir() {
        return Ci::Github;
    }
    let remotes = fs::read_to_string(root.join(".git/config")).unwrap_or_default();
    let is_gitlab = remotes.lines().any(|line| line.trim().starts_with("url") && line.contains("gitlab"));
    if is_gitlab || root.join(".gitlab-ci.yml").is_file() { Ci::Gitlab } else { Ci::Github }
}

fn installation(root: &Path) -> Installation {
    if root.join("uv.lock").is_file() && root.join("pyproject.toml").is_file() {
        return Installation::Locked;
    }
    if ["pyproject.toml", "setup.py"].iter().any(|name| root.join(name).is_file()) {
        return Installation::Package;
    }
    let file = ["requirements.txt", "requirements/base.txt"].into_iter().find(|name| root.join(name).is_file());
    file.map_or(Installation::Unknown, |file| Installation::Requirements(file.to_owned()))
}

/// Python files whose name says that they train, and whose text says that it is with PyTorch, those at the top first.
fn scripts(root: &Path) -> Vec<String> {
    let files = checkout::list(root).into_iter();
    let scripts = files.filter(|path| path.rsplit('/').next().is_some_and(is_training) && !path.contains("tests/"));
    scripts.filter(|path| mentions_torch(&root.join(path))).take(MOST_SCRIPTS).collect()
}

fn is_training(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

fn mentions_torch(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("import torch") || text.contains("from torch"))
}
