//! What a kept recording depends on: it answers only where all of this is the same.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::super::checkout;
use super::super::git::{self, git};
use super::super::pip::printed;
use super::variables::is_relevant;

/// Adds what a recording depends on beside its code: this program, the packages of a Python, and variables.
pub(crate) fn hash_environment(python: &OsStr, key: &mut DefaultHasher) {
    // The version, and the files that a recording runs: before a release, they change without it.
    (env!("CARGO_PKG_VERSION"), ptmem_simulate::LIBRARY, ptmem_simulate::PYTHON).hash(key);
    let mut variables: Vec<_> = env::vars_os().filter(|(name, _)| is_relevant(&name.to_string_lossy())).collect();
    variables.sort();
    variables.hash(key);
    packages(python).hash(key);
}

/// Adds the sizes and times of files.
pub(super) fn hash_files(files: impl Iterator<Item = PathBuf>, key: &mut DefaultHasher) {
    for file in files {
        if let Some(facts) = fs::metadata(&file).ok().filter(fs::Metadata::is_file) {
            (&file, facts.len(), facts.modified().ok()).hash(key);
        }
    }
}

/// The Python of a command: its first word, or the one on the path.
pub(crate) fn python_of(command: &[OsString]) -> OsString {
    let first = command
        .first()
        .filter(|word| Path::new(word).file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    first.cloned().unwrap_or_else(|| "python3".into())
}

/// Names and versions of the packages of a Python; empty if that Python does not exist.
fn packages(python: &OsStr) -> Vec<String> {
    let script = "import sys; print('\\n'.join(filter(None, sys.path)))";
    let folders = printed(python, &["-c", script]).unwrap_or_default();
    let entries = folders.lines().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".dist-info")).collect();
    names.sort();
    names
}

/// The files that a command in the working directory may read: those of the repository that git does not ignore, or those of the
/// directory where it is in no repository, or ignored. Neither includes caches.
pub(crate) fn own_files() -> Vec<PathBuf> {
    let here = env::current_dir().unwrap_or_default();
    let mut files = checkout::around(&here).map(|root| unignored(&root)).unwrap_or_default();
    if !files.iter().any(|file| file.starts_with(&here)) {
        files = all_files(&here);
    }
    if let Some(cache) = cache_home().ok().and_then(|cache| fs::canonicalize(cache).ok()) {
        files.retain(|file| !file.starts_with(&cache));
    }
    files.sort();
    files
}

/// The folder of the caches of all programs.
pub(super) fn cache_home() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let cache = cache.context("no place to keep recordings; set XDG_CACHE_HOME to a folder")?;
    Ok(std::path::absolute(cache)?)
}

/// The tracked and untracked files of a repository. Of a submodule or another repository inside, git lists only the folder.
fn unignored(root: &Path) -> Vec<PathBuf> {
    let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = git::output(&mut git(Some(root)), &words).unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| root.join(String::from_utf8_lossy(name).as_ref()));
    let files = paths.flat_map(|path| match path.is_dir() && !path.is_symlink() {
        true if path.join(".git").exists() => unignored(&path),
        true => all_files(&path),
        false => vec![path],
    });
    files.collect()
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    checkout::all_files(folder).iter().map(|file| folder.join(file)).collect()
}
