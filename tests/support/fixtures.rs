//! The fixtures of the repository, those in folders included.

#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Every snapshot, by path.
pub fn snapshots() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "pkl") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 50, "{found:?}");
    found
}
