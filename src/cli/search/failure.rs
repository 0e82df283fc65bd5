//! Why a candidate has no recording, and what to do about it.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

/// Why a candidate has no recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The part at fault.
    pub(super) cause: Cause,
    reason: String,
}

/// The part that is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The environment: no other candidate can be recorded either.
    Environment,
    /// The command succeeds without a recording.
    Unrecorded,
    /// The candidate: it cannot be made, or the command fails with it.
    Candidate,
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)
    }
}

/// The error of Python without PyTorch.
const NO_PYTORCH: &str = "No module named 'torch'";

/// How 'ptmem simulate' begins to say why a command that succeeded has no recording.
const UNRECORDED: [&str; 2] = [": not recorded: ", ": not recorded as requested: "];

/// Words of commands that fail, and what to do about it.
const ADVICE: [(&[&str], &str); 3] = [
    (&["the optimizer made 0 steps"], "; --steps all records a program without an optimizer"),
    (&["unrecognized arguments", "no such option", "No such option"], "; give it an option that it has"),
    (&[": command not found"], "; give a program that is there"),
];

impl Failure {
    /// A candidate that cannot be made.
    pub(super) fn of_candidate(reason: String) -> Self {
        Self { cause: Cause::Candidate, reason }
    }

    /// A command that ended with this exit code, and its output.
    pub(super) fn of_command(code: i32, log: &Path) -> Self {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains(NO_PYTORCH) {
            let reason = "the Python of the command has no PyTorch; install it there (ptmem pip install torch), or give the \
                          command another Python";
            return Self { cause: Cause::Environment, reason: reason.to_owned() };
        }
        let advice = ADVICE.iter().find(|(words, _)| words.iter().any(|word| text.contains(word)));
        let log = log.display();
        if let Some(reason) = unrecorded(&text, code) {
            let advice = advice.map_or("", |(_, advice)| advice);
            return Self { cause: Cause::Unrecorded, reason: format!("{reason}{advice} (its output: {log})") };
        }
        let advice = advice.map_or("; make it run with ptmem simulate first", |(_, advice)| advice);
        let words = last_words(&text);
        Self {
            cause: Cause::Candidate,
            reason: format!("the command failed with exit code {code}{words}{advice} (its output: {log})"),
        }
    }
}

/// Why a command that succeeded has no recording.
fn unrecorded(text: &str, code: i32) -> Option<&str> {
    if code == 0 {
        return Some("the command wrote no snapshot to the file that PTMEM_SNAPSHOT names");
    }
    let mut lines = text.lines().rev().filter(|line| line.starts_with("error: "));
    lines.find_map(|line| UNRECORDED.iter().find_map(|words| Some(line.split_once(words)?.1)))
}

/// The last lines of a command that failed.
fn last_words(text: &str) -> String {
    let lines = text.lines().rev().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("ptmem simulate: nothing"));
    let mut lines: Vec<&str> = lines.take(2).collect();
    lines.reverse();
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join(" / ")) }
}
