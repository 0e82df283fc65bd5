//! Why a candidate has no recording, and what to do about it.

use std::fs;
use std::path::Path;

use ptmem::report::printable;

use crate::cli::logs::{exception, is_of_program};

/// Why a candidate has no recording, by the part that is at fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The environment: no other candidate can be recorded either.
    #[error("{0}")]
    Environment(&'static str),
    /// The command: it succeeds without a recording, or is mistyped.
    #[error("{0}")]
    Command(String),
    /// The candidate: it cannot be made, or the command fails with it.
    #[error("{0}")]
    Candidate(String),
    /// Neither: the command was stopped, or the network or the disk failed.
    #[error("{0}")]
    Elsewhere(String),
    /// The same: the system killed the command, as it does where memory runs out.
    #[error("{0}")]
    Killed(String),
}

/// The error of Python without PyTorch.
const NO_PYTORCH: &str = "No module named 'torch'";

/// The error of Python without another module.
const NO_MODULE: &str = "ModuleNotFoundError: No module named '";

/// How 'ptmem simulate' begins to say why a command that succeeded has no recording.
const UNRECORDED: [&str; 2] = [": not recorded: ", ": not recorded as requested: "];

/// Words of commands that fail, and what to do about it.
const ADVICE: [(&[&str], &str); 3] = [
    (&["the optimizer made 0 steps"], "; --steps all also records a process without an optimizer"),
    (&["unrecognized arguments", "no such option", "No such option"], "; give it an option that it has"),
    (&[": command not found"], "; give a program that is there"),
];

/// Words of what another run may not meet: the network and the disk.
const ELSEWHERE: [&str; 16] = [
    "no space left on device",
    "disk quota exceeded",
    "temporary failure in name resolution",
    "could not resolve host",
    "name or service not known",
    "network is unreachable",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection aborted",
    "read timed out",
    "operation timed out",
    "max retries exceeded",
    "too many requests",
    "http error 5",
    "http error 429",
];

/// The exit code of a command that was killed.
const KILLED: i32 = super::SIGNALS + 9;

/// The exit code of `timeout` for a command that it stopped.
const TIMED_OUT: i32 = 124;

impl Failure {
    /// A command that ended with this exit code, and its output.
    pub(crate) fn of_command(code: i32, log: &Path) -> Self {
        let text = read_log(log);
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
        let missing = missing_module(&text);
        let failed = format!("the command failed with exit code {code}{words}{advice}{missing} (its output: {log})");
        match advice.is_empty() {
            _ if is_elsewhere(code, &text) => Self::elsewhere(code, failed),
            true => Self::Candidate(failed),
            false => Self::Command(failed),
        }
    }

    /// An installation that ended with this exit code, and its output.
    pub(crate) fn of_install(code: i32, log: &Path) -> Self {
        let text = read_log(log);
        let failed = format!(
            "install: the command failed with exit code {code}{} (its output: {})",
            last_words(&text),
            log.display()
        );
        if is_elsewhere(code, &text) { Self::elsewhere(code, failed) } else { Self::Candidate(failed) }
    }

    fn elsewhere(code: i32, failed: String) -> Self {
        if code == KILLED { Self::Killed(failed) } else { Self::Elsewhere(failed) }
    }

    /// The same with more that is known of its reason.
    pub(crate) fn with(self, more: &str) -> Self {
        match self {
            Self::Environment(words) => Self::Environment(words),
            Self::Command(words) => Self::Command(words + more),
            Self::Candidate(words) => Self::Candidate(words + more),
            Self::Elsewhere(words) => Self::Elsewhere(words + more),
            Self::Killed(words) => Self::Killed(words + more),
        }
    }
}

/// The output of a command.
pub(crate) fn read_log(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

/// Whether another run of the same command may succeed.
fn is_elsewhere(code: i32, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    code >= super::SIGNALS || code == TIMED_OUT || ELSEWHERE.iter().any(|words| text.contains(words))
}

/// What to do about a module that is not installed.
fn missing_module(text: &str) -> String {
    let module = text.lines().rev().find_map(|line| line.trim().strip_prefix(NO_MODULE)?.split(['\'', '.']).next());
    match module {
        // Packages of before 2026 need it and do not say so: an environment had it.
        Some("pkg_resources") => "; setuptools has it before 81: ptmem pip install 'setuptools<81'".to_owned(),
        Some(name) => format!("; install it (a package may be called otherwise): ptmem pip install {name}"),
        None => String::new(),
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

/// The last words of a command that failed, behind those of an exception: its message may have many lines.
fn last_words(text: &str) -> String {
    let words: Vec<&str> = match exception(text) {
        Some((exception, last)) => [exception].into_iter().chain(last).collect(),
        None => {
            let mut last: Vec<&str> =
                text.lines().rev().filter(|line| is_of_program(line)).take(2).map(str::trim).collect();
            last.reverse();
            last
        }
    };
    if words.is_empty() { String::new() } else { format!(": {}", words.join(" / ")) }
}

/// The last words of a log, behind a colon.
pub(crate) fn last_lines(log: &Path) -> String {
    last_words(&read_log(log))
}

/// The end of the output of a command that failed, a line each, for people.
pub(crate) fn tail(log: &Path, most: usize) -> Vec<String> {
    let text = read_log(log);
    let mut lines: Vec<String> =
        text.lines().rev().filter(|line| is_of_program(line)).take(most).map(printable_line).collect();
    lines.reverse();
    lines
}

fn printable_line(line: &str) -> String {
    printable(&anstream::adapter::strip_str(line).to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_missing_is_named_with_what_installs_it() {
        for (name, package) in [("einops.layers", "einops"), ("pkg_resources", "'setuptools<81'")] {
            let told = missing_module(&format!("Traceback\nModuleNotFoundError: No module named '{name}'\n"));
            assert!(told.ends_with(&format!(": ptmem pip install {package}")), "{told}");
        }
        assert_eq!(missing_module("KeyError: 'x'\n"), "");
    }

    fn ranked(rank: u32, text: &str) -> String {
        text.lines().map(|line| format!("[rank{rank}]: {line}\n")).collect()
    }

    #[test]
    fn the_last_words_name_the_exception() {
        let traceback = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    f()\n";
        let [first, second] = [(1, "KeyError: 'x'"), (0, "OSError: peer")]
            .map(|(rank, exception)| ranked(rank, &format!("{traceback}{exception}")));
        let torchrun = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\nFailures:\n[1]:\n  \
                        rank: 0 (local_rank: 0)\nRoot Cause (first observed failure):\n[0]:\n";
        let own = "ptmem simulate: recorded x.pkl\nptmem simulate: ran on 1 simulated GPU\n";
        for (text, expected) in [
            ("loading\nno data\n".to_owned(), ": loading / no data"),
            (format!("loading\n{traceback}KeyError: 'x'\n{own}"), ": KeyError: 'x'"),
            // A message of several lines ends with what to set, not with what went wrong.
            (format!("{traceback}exc.RuntimeError: f\n  Hint: g\n\nSet X=1\n{own}"), ": exc.RuntimeError: f / Set X=1"),
            (format!("{traceback}KeyError: 'x'\n\nDuring it\n\n{traceback}OSError: y\n"), ": OSError: y"),
            // Once torch.distributed is initialised, it begins each line with the rank.
            (format!("{first}[rank1]:[W1130 12:00:00.1 c.cpp:1] Warning: w\n"), ": KeyError: 'x'"),
            (format!("ERROR:root:{traceback}KeyError: 'x'\n"), ": KeyError: 'x'"),
            // torchrun has one of its own.
            (format!("{first}{second}{traceback}{torchrun}  rank      : 1 (local_rank: 1)\n"), ": KeyError: 'x'"),
            (format!("{first}{second}{traceback}{torchrun}  rank      : 7 (local_rank: 1)\n"), ": OSError: peer"),
            (
                format!("{traceback}KeyError: 'x'\n{traceback}{torchrun}  rank      : 0 (local_rank: 0)\n"),
                ": KeyError: 'x'",
            ),
            (
                format!(
                    "{first}{traceback}{torchrun}  rank: 1 (local_rank: 1)\n  traceback : Signal 9 (SIGKILL) received by PID 7\n"
                ),
                ": Signal 9 (SIGKILL) received by PID 7",
            ),
            // With the decorator `record`, it has the report of the process.
            (
                format!(
                    "{second}{traceback}{torchrun}  rank: 1 (local_rank: 1)\n  traceback : Traceback (most recent call last):\n    \
                     File \"t.py\", line 5, in main\n      f()\n  OSError: y\n  \n  During it\n  \n  Traceback (most recent call last):\n    \
                     File \"t.py\", line 7, in main\n      g()\n  KeyError: 'x'\n  \n====\n"
                ),
                ": KeyError: 'x'",
            ),
            (
                format!("{first}{traceback}torch.distributed.elastic.x.ConnectionError: y\n"),
                ": torch.distributed.elastic.x.ConnectionError: y",
            ),
            (own.to_owned(), ""),
        ] {
            assert_eq!(last_words(&text), expected, "{text}");
        }
    }
}
