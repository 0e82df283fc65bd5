//! Maps recorded file names to files in the checkout: snapshots are recorded elsewhere.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use ptmem::stack::Code;

/// Maps each recorded user file that exists in the checkout to its path below the root of the checkout.
pub(super) fn files<'c>(codes: impl Iterator<Item = Code<'c>>) -> BTreeMap<String, String> {
    let root = root();
    let mut files = BTreeMap::new();
    let mut last = None;
    for code in codes {
        // Ranks of one job share their frames.
        let tables = std::ptr::from_ref(code.tables());
        if last.replace(tables) == Some(tables) {
            continue;
        }
        for path in code.user_files() {
            if let Some(found) = find(&root, path) {
                files.insert(path.to_owned(), found);
            }
        }
    }
    files
}

/// The workspace of a job, else the repository around the working directory, else that directory.
pub(super) fn root() -> PathBuf {
    if let Some(workspace) = env::var_os("GITHUB_WORKSPACE").filter(|workspace| !workspace.is_empty()) {
        return PathBuf::from(workspace);
    }
    let here = env::current_dir().unwrap_or_default();
    here.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&here).to_owned()
}

/// True if the working directory lies in a repository.
pub(super) fn is_repository() -> bool {
    env::current_dir().is_ok_and(|here| here.ancestors().any(|folder| folder.join(".git").exists()))
}

/// The longest suffix of a recorded path that is a file below `root`.
fn find(root: &Path, recorded: &str) -> Option<String> {
    let root_name = root.to_string_lossy().replace('\\', "/");
    if let Some(rest) = recorded.strip_prefix(&root_name).and_then(|rest| rest.strip_prefix('/')) {
        return Some(rest.to_owned());
    }
    let recorded = recorded.trim_start_matches("../");
    let starts = recorded.match_indices('/').map(|(at, _)| at + 1);
    let mut ends = [0].into_iter().chain(starts).map(|at| &recorded[at..]);
    ends.find(|end| !end.is_empty() && !end.starts_with('/') && root.join(end).is_file()).map(str::to_owned)
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
        let recorded = format!("{}/gone.py", root.display());
        assert_eq!(find(root, &recorded).as_deref(), Some("gone.py"), "recorded here: that is its path");
    }
}
