//! Runs the tool as its users do, on the 15th of January 2027.

#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use std::path::Path;
use std::process::{Command, Output};

/// Runs it in a folder.
pub fn ptmem(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder).env_clear().env("COLUMNS", "160").env("PTMEM_TODAY", "2027-01-15");
    command.args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs git in a folder, without settings of the user, and gives what it prints.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Makes a folder a repository, with a commit of these files.
pub fn commit(folder: &Path, files: &[&str]) {
    git(folder, &["init", "--quiet", "--initial-branch", "main"]);
    git(folder, &[&["add", "--force", "--"], files].concat());
    git(folder, &["commit", "--quiet", "--message", "the code"]);
}

/// The exit code and the last line of the report.
pub fn verdict(output: &Output) -> (i32, String) {
    let line = text(&output.stdout).trim_end().lines().last().unwrap_or_default().to_owned();
    (output.status.code().unwrap(), line)
}

/// A word on standard error, such as that a test was skipped.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn say(message: &str) {
    eprintln!("{message}");
}
