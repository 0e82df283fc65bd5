//! Why a candidate has no recording, and what to do about it.

use std::fs;
use std::path::Path;

/// Why a candidate has no recording, by the part that is at fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The environment: no other candidate can be recorded either.
    #[error("{0}")]
    Environment(&'static str),
    /// The command: it succeeds without a recording, or is mistyped.
    #[error("{0}")]
    Command(String),
    /// The candidate: it cannot be made, or the command fails with it.
    #[error("{0}")]
    Candidate(String),
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
    /// A command that ended with this exit code, and its output.
    pub(super) fn of_command(code: i32, log: &Path) -> Self {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains(NO_PYTORCH) {
            return Self::Environment(
                "the Python of the command has no PyTorch; install it there (ptmem pip install torch), or give the \
                 command another Python",
            );
        }
        let advice = ADVICE.iter().find(|(words, _)| words.iter().any(|word| text.contains(word)));
        let advice = advice.map_or("", |(_, advice)| advice);
        let log = log.display();
        if let Some(reason) = unrecorded(&text, code) {
            return Self::Command(format!("{reason}{advice} (its output: {log})"));
        }
        let words = last_words(&text);
        let failed = format!("the command failed with exit code {code}{words}{advice} (its output: {log})");
        if advice.is_empty() { Self::Candidate(failed) } else { Self::Command(failed) }
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
