//! Facts about a repository: its CI system, its package, the script that trains.

use std::fs;
use std::path::{Path, PathBuf};

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

/// Folders below the root that are looked into for scripts.
const DEPTH: usize = 3;

/// Entries that are looked at.
const MOST_ENTRIES: usize = 5000;

/// Scripts that are named.
const MOST_SCRIPTS: usize = 5;

impl Repository {
    /// The repository around a folder, or the folder itself where it is in none.
    pub(super) fn around(folder: &Path) -> Self {
        let root = folder.ancestors().find(|above| above.join(".git").exists()).unwrap_or(folder);
        Self { ci: ci(root), installation: installation(root), scripts: scripts(root), root: root.to_owned() }
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

/// Python files whose name says that they train, and whose text says that it is with PyTorch.
fn scripts(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![(root.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            seen += 1;
            if seen > MOST_ENTRIES {
                break;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && depth < DEPTH && !is_foreign(&name) {
                folders.push((path.clone(), depth + 1));
            } else if is_training(&name) && mentions_torch(&path) {
                let below = path.strip_prefix(root).unwrap_or(&path);
                found.push(below.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    found.truncate(MOST_SCRIPTS);
    found
}

/// Whether a folder holds other people's code, or none.
fn is_foreign(name: &str) -> bool {
    name.starts_with('.') || ["venv", "env", "node_modules", "site-packages", "build", "dist", "tests"].contains(&name)
}

fn is_training(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

fn mentions_torch(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("import torch") || text.contains("from torch"))
}
