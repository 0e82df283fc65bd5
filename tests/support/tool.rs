//! Runs the tool as its users do, on the 15th of January 2027.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program: the build beside the tests, or another one that `PTMEM_TEST_PROGRAM` names, such as a release build.
pub fn program() -> PathBuf {
    let named = std::env::var_os("PTMEM_TEST_PROGRAM").filter(|path| !path.is_empty());
    named.map_or_else(|| env!("CARGO_BIN_EXE_ptmem").into(), PathBuf::from)
}

/// Runs it in a folder.
pub fn ptmem(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.current_dir(folder).env_clear().env("PTMEM_TODAY", "2027-01-15");
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

/// The exit code and the line of the verdict.
pub fn verdict(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), verdict_line(&text(&output.stdout)))
}

/// The same in one text, for `assert_reads!`.
pub fn judged((code, line): (i32, String)) -> String {
    format!("{code}: {line}")
}

/// The line of the verdict on everything, which is the last one.
pub fn verdict_line(report: &str) -> String {
    let words = ["PASS ", "FAIL ", "INCONCLUSIVE "];
    let last = report.lines().rfind(|line| words.iter().any(|word| line.starts_with(word)));
    last.unwrap_or_default().to_owned()
}

/// The entries that a report proposes to add to ptmem.toml.
pub fn proposed(report: &str) -> String {
    let (_, rest) = report.split_once("add to ptmem.toml (bytes beyond the limit):\n").unwrap();
    rest.lines().take_while(|line| line.starts_with("  ")).map(|line| format!("{line}\n")).collect()
}

/// The line above that of the verdict, which explains it further.
pub fn explanation(report: &str) -> String {
    let line = verdict_line(report);
    let above = report.lines().take_while(|other| *other != line).last();
    above.unwrap_or_default().to_owned()
}

/// A word on standard error, also of a test that passes: `eprintln` would be kept back. `.ci/checks` counts them.
pub fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
    if let Some(path) = std::env::var_os("PTMEM_TEST_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{message}"));
    }
}

/// What `.ci/torch` and `.ci/browser` lay out, by the variable that names it.
fn laid_out(variable: &str, script: &str) -> PathBuf {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty());
    PathBuf::from(path.unwrap_or_else(|| panic!("{variable} is not set: {script} prints what belongs in it")))
}

/// A Python with PyTorch.
pub fn python() -> PathBuf {
    laid_out("PTMEM_TEST_PYTHON", ".ci/torch")
}

/// What drives a browser.
pub fn browser() -> PathBuf {
    laid_out("PTMEM_TEST_BROWSER", ".ci/browser")
}
