//! The tool in an environment of its own, as `uvx` and `pipx run` make it for one command.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::tool::{program, text};

/// A cache with an environment that has the tool.
fn cache() -> (TempDir, PathBuf) {
    let cache = tempfile::tempdir().unwrap();
    let environment = fs::canonicalize(cache.path()).unwrap().join("environment");
    fs::create_dir_all(environment.join("bin")).unwrap();
    fs::create_dir_all(environment.join("lib/python3.12/site-packages")).unwrap();
    fs::write(environment.join("pyvenv.cfg"), "").unwrap();
    fs::write(cache.path().join("CACHEDIR.TAG"), "").unwrap();
    // By a process of its own: a program that another thread starts meanwhile would inherit the open file, which could not run then.
    let copied = Command::new("cp").arg(program()).arg(environment.join("bin/ptmem")).status().unwrap();
    assert!(copied.success());
    (cache, environment)
}

/// The folders of the path that a recorded command has, and those that it should have: `first` before those of the system.
fn paths(environment: &Path, first: &[PathBuf], active: Option<&Path>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let system: Vec<PathBuf> = ["/usr/bin", "/bin"].map(PathBuf::from).into();
    let path: OsString = env::join_paths(first.iter().chain(&system)).unwrap();
    let mut command = Command::new(environment.join("bin/ptmem"));
    command.args(["simulate", "--", "sh", "-c", "echo \"$PATH\""]).env("PATH", path).env_remove("VIRTUAL_ENV");
    let output = command.envs(active.map(|active| ("VIRTUAL_ENV", active))).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (env::split_paths(text(&output.stdout).trim_end()).collect(), system)
}

#[test]
fn its_python_does_not_hide_that_of_the_user_and_scripts_find_the_tool() {
    let (_cache, environment) = cache();
    let bin = environment.join("bin");
    for first in [&[bin.clone()][..], &[]] {
        let (found, system) = paths(&environment, first, None);
        assert_eq!(found, [system, vec![bin.clone()]].concat());
    }
}

#[test]
fn an_environment_of_the_user_stays_first() {
    let (cache, environment) = cache();
    let first = [environment.join("bin")];
    let stays = |active: Option<&Path>| {
        let (found, system) = paths(&environment, &first, active);
        assert_eq!(found, [&first[..], &system].concat());
    };
    // Somebody has activated it.
    stays(Some(&environment));
    // It has what is recorded.
    let torch = environment.join("lib/python3.12/site-packages/torch");
    fs::create_dir(&torch).unwrap();
    stays(None);
    fs::remove_dir(&torch).unwrap();
    // It is in no cache.
    fs::remove_file(cache.path().join("CACHEDIR.TAG")).unwrap();
    stays(None);
}
