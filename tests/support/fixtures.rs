//! The fixtures of the repository, those in folders included.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::fs::File;
use std::path::{Path, PathBuf};

use ptmem::profile::{self, Opened, ReadOptions};
use ptmem::snapshot::Snapshot;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Every snapshot of the simulated allocator, by path.
pub fn snapshots() -> Vec<PathBuf> {
    let found = files("", ".pkl");
    assert!(found.len() >= 50, "{found:?}");
    found
}

/// Every recording of PyTorch itself, by path.
pub fn recorded() -> Vec<PathBuf> {
    let found = files("recorded", ".pkl.zst");
    assert!(found.len() >= 40, "{found:?}");
    found
}

/// Every third of these, and all every night: for what holds of any input.
pub fn some<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    all.into_iter().step_by(if std::env::var_os("PTMEM_TEST_ALL").is_some() { 1 } else { 3 })
}

/// Reads a snapshot, also a compressed one.
pub fn open(path: &Path) -> Snapshot {
    match profile::open(File::open(path).unwrap(), "snapshot", ReadOptions::default()) {
        Ok(Opened::Snapshot(snapshot, _)) => *snapshot,
        Ok(Opened::Profile(_)) => panic!("{} is a profile", path.display()),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Both sides of each change of code that was recorded, by path.
pub fn changes() -> Vec<[PathBuf; 2]> {
    let sides = |side: &str| {
        let files = files("recorded/changes", ".pkl.zst").into_iter();
        files.filter(|path| path.to_str().unwrap().contains(side)).collect::<Vec<_>>()
    };
    let (before, after) = (sides("-before-"), sides("-after-"));
    assert!(before.len() >= 9 && before.len() == after.len());
    before.into_iter().zip(after).map(<[PathBuf; 2]>::from).collect()
}

/// The files below a folder of the fixtures whose names end in a way.
fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder().join(below)];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
