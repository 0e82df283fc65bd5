//! Exit codes.

use std::ffi::OsString;
use std::process::ExitCode;

use ptmem::verdict::Verdict;

use super::git;

/// Exit code of everything that kept the tool from an answer: usage, unreadable or invalid input. The
/// others belong to the verdict: [`ptmem::verdict::Verdict::exit_code`].
pub(super) const COULD_NOT_RUN: u8 = 2;

/// Exit code that ends `git bisect run`.
pub(crate) const ABORT_BISECTION: u8 = 128;

/// The exit code of a command line without an answer. While git bisects, that is none for the commit.
pub(super) fn could_not_run(words: &[OsString]) -> ExitCode {
    // Global options may come before the command, and the words after -- are another program's.
    let is_bisect = words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "bisect");
    ExitCode::from(if is_bisect && git::is_bisecting() { ABORT_BISECTION } else { COULD_NOT_RUN })
}

/// The exit code of a verdict.
pub(crate) fn exit_code(verdict: Verdict, exit_zero: bool) -> ExitCode {
    ExitCode::from(if exit_zero { 0 } else { verdict.exit_code() })
}
