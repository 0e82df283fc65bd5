//! Files of the checkout: their names, and what git writes otherwise than it keeps it.

use std::path::{Path, PathBuf};

use crate::cli::place::path_of;

/// The text without the carriage returns that git may write at the ends of lines.
pub(super) fn without_returns(bytes: &[u8]) -> Vec<u8> {
    let is_kept = |at: &usize| bytes[*at] != b'\r' || bytes.get(at + 1) != Some(&b'\n');
    (0..bytes.len()).filter(is_kept).map(|at| bytes[at]).collect()
}

/// Whether an object is what Git LFS keeps of a file of this size.
pub(super) fn is_pointer(bytes: &[u8], size: u64) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.starts_with("version https://git-lfs.github.com/spec/")
        && text.lines().any(|line| line == format!("size {size}"))
}

/// The path of a file of the checkout.
pub(super) fn on_disk(root: &Path, path: &[u8]) -> Option<PathBuf> {
    path_of(path).map(|path| root.join(path))
}

#[cfg(unix)]
pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(not(unix))]
pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    path.to_string_lossy().replace('\\', "/").into_bytes()
}
