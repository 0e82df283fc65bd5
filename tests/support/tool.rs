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
