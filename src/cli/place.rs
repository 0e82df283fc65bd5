//! The folder in which a command works. Another commit is judged in its worktree, without a change of the working directory: that
//! would move the paths of the command line.

use std::env;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::git::git;

/// A folder from which files, the configuration and the repository are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartFolder {
    /// Empty for the working directory.
    folder: PathBuf,
}

impl StartFolder {
    /// The working directory.
    pub(crate) fn here() -> Self {
        Self::default()
    }

    /// A folder of another checkout.
    #[cfg(feature = "simulate")]
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.folder.as_os_str().is_empty()
    }

    /// The path of a file whose name begins in this folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// The whole path of the folder; `None` if the working directory is gone.
    pub(crate) fn whole(&self) -> Option<PathBuf> {
        Some(env::current_dir().ok()?.join(&self.folder))
    }

    /// The program git in this folder.
    pub(crate) fn git(&self) -> Command {
        git((!self.is_here()).then_some(&*self.folder))
    }
}

/// A path without parts that lead upwards.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => normal.push(part),
        }
    }
    normal
}

/// The path of these bytes.
#[cfg(unix)]
pub(crate) fn path_of(bytes: &[u8]) -> Option<&Path> {
    Some(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)))
}

/// The path of these bytes; `None` for what is not UTF-8.
#[cfg(not(unix))]
pub(crate) fn path_of(bytes: &[u8]) -> Option<&Path> {
    str::from_utf8(bytes).ok().map(Path::new)
}
