//! Runs the program git, without what a repository could make it do.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// Whether git may fetch what a partial clone lacks. The repository names the remote, which can be a program.
static MAY_FETCH: AtomicBool = AtomicBool::new(false);

/// Lets git fetch, for commands that run programs of the checkout anyway.
pub(crate) fn allow_fetching() {
    MAY_FETCH.store(true, Ordering::Relaxed);
}

/// The program git, in a folder.
pub(crate) fn git(folder: Option<&Path>) -> Command {
    let mut command = Command::new("git");
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    command.arg("--no-pager");
    // Programs that the repository asks for are not started.
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    // The user's configuration may ask for signatures or quoted paths.
    command.args(["-c", "log.showSignature=false", "-c", "core.quotePath=false"]);
    let is_asked_for = env::var("GIT_NO_LAZY_FETCH").is_ok_and(|value| value == "0");
    if !MAY_FETCH.load(Ordering::Relaxed) && !is_asked_for {
        // Git before 2.45 knows only the second: no protocol has this name.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    }
    if let Some(folder) = folder {
        command.arg("-C").arg(folder);
    }
    command.stdin(Stdio::null());
    command
}

/// The output of git with arguments of which the first is its command; where it fails, its words are the error.
pub(crate) fn output(git: &mut Command, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = git.args(arguments).output().context("the program git cannot be run")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        // Warnings may stand before it.
        let error = error.split_once("fatal: ").map_or(&*error, |(_, fatal)| fatal);
        bail!("git {}: {error}", arguments.first().unwrap_or(&""));
    }
    Ok(output.stdout)
}

/// The same as a text without the line break at the end.
pub(crate) fn text(git: &mut Command, arguments: &[&str]) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(git, arguments)?).trim_end_matches(['\n', '\r']).to_owned())
}

/// The hash of the commit that a name stands for.
pub(crate) fn commit(git: &mut Command, name: &str) -> Option<String> {
    // A search (`:/text`) takes the rest for its text, and finds only commits.
    let wanted = if name.starts_with(":/") { name.to_owned() } else { format!("{name}^{{commit}}") };
    text(git, &["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]).ok()
}

/// Whether a name that stands for no commit is a range of commits. A search for a message with two dots stands for a commit.
pub(crate) fn is_range(name: &str) -> bool {
    name.contains("..")
}
