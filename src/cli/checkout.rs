//! Maps recorded file names to files in the checkout: snapshots are recorded elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result};
use ptmem::stack::{Checkout, SnapshotCode};
use ptmem_base::text::ends_of_path;

use super::place::StartFolder;

/// The largest source file that is read.
pub(super) const LARGEST: u64 = 1 << 20;

/// Maps each recorded user file that exists in the checkout to its path below the root of the checkout.
pub(super) fn files<'c>(
    place: &StartFolder,
    codes: impl Iterator<Item = SnapshotCode<'c>>,
) -> BTreeMap<String, String> {
    let root = root(place);
    let mut files = BTreeMap::new();
    let mut last = None;
    for code in codes {
        // Ranks of one job share their frames.
        let tables = std::ptr::from_ref(code.tables());
        if last.replace(tables) == Some(tables) {
            continue;
        }
        for (shown, recorded) in code.shown_user_files() {
            let found = if is_file(&root, shown) { Some(shown.to_owned()) } else { find(&root, recorded) };
            files.extend(found.map(|found| (recorded.to_owned(), found)));
        }
    }
    files
}

/// The checkout that labels are relative to: the repository around the place, otherwise the workspace of a job, otherwise the folder
/// of the configuration; `None` without any of them.
pub(crate) fn current(place: &StartFolder, config: Option<PathBuf>) -> Checkout {
    let folder = repository(place).or_else(|| workspace(place)).or(config);
    let Some(root) = folder.and_then(|folder| fs::canonicalize(folder).ok()) else { return Checkout::default() };
    let name = root.to_string_lossy().into_owned();
    Checkout::new(&name, move || list(&root))
}

/// Folders of a checkout that are looked into; a larger one is known in part.
const MOST_FOLDERS: usize = 10_000;

/// Folders with caches and packages, and those with what is built.
const INSTALLED: [&str; 4] = ["node_modules", "__pycache__", "site-packages", "dist-packages"];
const BUILT: [&str; 3] = ["target", "build", "dist"];

/// The Python files and notebooks below a folder, by their paths from there, those at the top first.
pub(crate) fn list(root: &Path) -> Vec<String> {
    files_below(root, is_of_code, |name| name.ends_with(".py") || name.ends_with(".ipynb"))
}

/// The files of any kind below a folder, but for those of caches, environments and git.
pub(crate) fn all_files(root: &Path) -> Vec<String> {
    files_below(root, is_of_user, |_| true)
}

fn files_below(root: &Path, is_entered: fn(&str, &Path) -> bool, is_wanted: fn(&str) -> bool) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([(root.to_owned(), String::new())]);
    let mut looked_into = 0;
    while let Some((folder, prefix)) = folders.pop_front().filter(|_| looked_into < MOST_FOLDERS) {
        looked_into += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && is_entered(&name, &entry.path()) {
                folders.push_back((entry.path(), format!("{prefix}{name}/")));
            } else if !kind.is_dir() && is_wanted(&name) {
                files.push(format!("{prefix}{name}"));
            }
        }
    }
    files
}

/// True if a folder may hold code of the checkout: it is neither hidden nor a virtual environment.
fn is_of_code(name: &str, folder: &Path) -> bool {
    !name.starts_with('.') && !BUILT.contains(&name) && is_of_user(name, folder)
}

/// True if a folder may hold files of the user: it is neither a cache nor an environment, nor that of git.
fn is_of_user(name: &str, folder: &Path) -> bool {
    let is_marked = ["pyvenv.cfg", "CACHEDIR.TAG"].iter().any(|mark| folder.join(mark).exists());
    !is_marked && !INSTALLED.contains(&name) && ![".cache", ".git"].contains(&name)
}

/// The repository around a place, otherwise the workspace of a job, otherwise the folder of the place.
pub(super) fn root(place: &StartFolder) -> PathBuf {
    repository(place).or_else(|| workspace(place)).unwrap_or_else(|| place.whole().unwrap_or_default())
}

/// The workspace of a job of GitHub Actions, which another checkout is no part of.
fn workspace(place: &StartFolder) -> Option<PathBuf> {
    let workspace = env::var_os("GITHUB_WORKSPACE").filter(|workspace| !workspace.is_empty());
    workspace.filter(|_| place.is_here()).map(PathBuf::from)
}

/// The repository around a place.
pub(crate) fn repository(place: &StartFolder) -> Option<PathBuf> {
    around(&place.whole()?)
}

/// The repository around a folder.
pub(crate) fn around(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned)
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

/// The longest suffix of a recorded path that is a file below `root`.
fn find(root: &Path, recorded: &str) -> Option<String> {
    let root_name = root.to_string_lossy().replace('\\', "/");
    if let Some(rest) = recorded.strip_prefix(&root_name).and_then(|rest| rest.strip_prefix('/')) {
        return stays_inside(rest).then(|| rest.to_owned());
    }
    let recorded = recorded.trim_start_matches("../");
    ends_of_path(recorded).find(|end| is_file(root, end)).map(str::to_owned)
}

/// True for a file below the root. Nobody learns from a report which files `.git` has.
fn is_file(root: &Path, path: &str) -> bool {
    !path.is_empty() && stays_inside(path) && root.join(path).is_file()
}

/// True if a file has the folder and the name of a tracked one below another folder: programs keep copies of their sources beside
/// their results.
pub(super) fn is_copy(path: &str, tracked: &BTreeSet<&str>) -> bool {
    let mut ends = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    ends.any(|end| end.contains('/') && tracked.contains(end))
}

/// A part of a path that stays in the checkout and out of `.git`.
pub(super) fn part(component: Component<'_>) -> Option<&str> {
    match component {
        Component::Normal(name) => name.to_str().filter(|name| !name.eq_ignore_ascii_case(".git")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    }
}

/// True for a path that stays in the checkout and out of `.git`.
pub(super) fn stays_inside(path: &str) -> bool {
    Path::new(path).components().all(|component| part(component).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_suffix_that_exists_counts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(find(root, "/elsewhere/repo/src/main.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(find(root, "src/main.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(find(root, "/elsewhere/nothing.rs"), None);
        assert_eq!(find(root, &format!("{}src/main.rs", "/a".repeat(1000) + "/")).as_deref(), Some("src/main.rs"));
        let recorded = format!("{}/gone.py", root.display());
        assert_eq!(find(root, &recorded).as_deref(), Some("gone.py"), "recorded here: that is its path");
    }

    #[test]
    fn copies_of_sources_are_no_edits() {
        let tracked = ["src/a/x.py", "y.py"].into();
        assert!(is_copy("logs/1/src/a/x.py", &tracked));
        assert!(!is_copy("src/a/z.py", &tracked) && !is_copy("new/y.py", &tracked));
    }

    #[test]
    fn no_path_leads_into_the_folder_of_the_repository() {
        for path in [".git/config", "a/.GIT/b.py", "../a.py", "a/../.git/config", "/a.py"] {
            assert!(!stays_inside(path), "{path}");
        }
        assert!(stays_inside("a/.github/b.py"));
    }
}
