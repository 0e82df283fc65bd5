//! Caches of `torch.compile`, of which each recorded run has its own, whatever the environment says.
//!
//! A run that compiles also measures which kernels are fast, and takes memory for that. One that finds them compiled does
//! not, so its figures are not comparable. Nor may timings of a simulated GPU stay in the caches of real ones.

use std::env;
use std::ffi::OsString;
use std::path::Path;

/// Folders of caches, with the variables that name them. Code in the first is named `<inductor>` in stacks.
const FOLDERS: [(&str, &str); 2] =
    [("TORCHINDUCTOR_CACHE_DIR", "torchinductor_simulated"), ("TRITON_CACHE_DIR", "triton")];

/// Caches of other machines.
const REMOTE: [&str; 5] = [
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE",
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE",
    "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO",
];

/// The variable by which Triton keeps kernels elsewhere, and its own way of keeping them in files.
const KEEPER: (&str, &str) = ("TRITON_CACHE_MANAGER", "triton.runtime.cache:FileCacheManager");

/// Variables by which a run whose own folder this is begins with empty caches.
pub fn empty_caches(folder: &Path) -> impl Iterator<Item = (&'static str, OsString)> {
    let folders = FOLDERS.map(|(variable, name)| (variable, folder.join(name).into()));
    let remote = REMOTE.map(|variable| (variable, "0".into()));
    let (keeper, own) = KEEPER;
    let kept = env::var_os(keeper).map(|_| (keeper, own.into()));
    folders.into_iter().chain(remote).chain(kept)
}

/// True if a run filled the caches in its folder: processes that compile may outlive it.
pub(super) fn has_compiled(folder: &Path) -> bool {
    FOLDERS.iter().any(|(_, name)| folder.join(name).exists())
}
