//! Exit codes.

use std::process::ExitCode;

use ptmem::verdict::Verdict;

/// Exit code of everything that kept the tool from an answer: usage, unreadable or invalid input. The
/// others belong to the verdict: [`ptmem::verdict::Verdict::exit_code`].
pub(super) const COULD_NOT_RUN: u8 = 2;

/// The exit code of a verdict.
pub(crate) fn exit_code(verdict: Verdict, exit_zero: bool) -> ExitCode {
    ExitCode::from(if exit_zero { 0 } else { verdict.exit_code() })
}
