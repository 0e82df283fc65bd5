//! The environment of a tool alone: `uvx` and `pipx run` make one for a single command. Its Python has no PyTorch, so it must not stand
//! before that of the user, and scripts of gates call `ptmem`, which must be found there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::checkout::paths_of;

/// Becomes this tool with its folder behind the others on the path, where it is run in such an environment. Returns elsewhere.
pub(super) fn stand_back() {
    let Some((program, path)) = other_path() else { return };
    // Where this fails, the tool goes on with the path that it has.
    let _ = Command::new(program).args(env::args_os().skip(1)).env("PATH", path).exec();
}

/// The tool and the path that it should have, if that is another one.
fn other_path() -> Option<(PathBuf, OsString)> {
    let program = fs::canonicalize(env::current_exe().ok()?).ok()?;
    let folder = program.parent()?;
    let environment = folder.parent().filter(|environment| environment.join("pyvenv.cfg").is_file())?;
    let is_own = |other: &PathBuf| fs::canonicalize(other).is_ok_and(|other| other == folder);
    let (own, mut others): (Vec<_>, Vec<_>) = paths_of("PATH").into_iter().partition(is_own);
    if !own.is_empty() && !is_of_a_tool(environment) {
        return None;
    }
    others.push(folder.to_owned());
    let path = env::join_paths(others).ok()?;
    (env::var_os("PATH")? != path).then(|| (program.clone(), path))
}

/// Whether an environment is in a cache, nobody has activated it, and it has no PyTorch.
fn is_of_a_tool(environment: &Path) -> bool {
    let is_in_cache = environment.ancestors().skip(1).any(|folder| folder.join("CACHEDIR.TAG").is_file());
    let active = env::var_os("VIRTUAL_ENV").and_then(|active| fs::canonicalize(active).ok());
    let libraries = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let has_pytorch = libraries.map(|library| library.path()).any(|path| path.join("site-packages/torch").is_dir());
    is_in_cache && active.is_none_or(|active| active != environment) && !has_pytorch
}
