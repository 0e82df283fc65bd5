//! `git bisect run ptmem bisect SNAPSHOT`: records and judges the checkout alone. Git reads each exit code below 125 but 0 as that of a
//! bad commit, so no error has one.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, anyhow};
use ptmem::verdict::Verdict;

use super::arguments::BisectArguments;
use super::judging::{Judging, check_good_for_git, refused};
use crate::cli::exit::ABORT_BISECTION;
use crate::cli::output::{self, Output};
use crate::cli::recorder::process::Interrupted;
use crate::cli::recorder::{Candidate, Failure, InProgress, Program, Recorder};

/// Exit code by which `git bisect run` skips a commit.
const SKIP: u8 = 125;

/// Why the checkout has no verdict.
enum Unjudged {
    /// That is the fault of this commit.
    ThisCommit(Error),
    /// No commit can have one.
    AnyCommit(Error),
}

impl From<Error> for Unjudged {
    fn from(error: Error) -> Self {
        let is_of_any = error.is::<Interrupted>() || matches!(error.downcast_ref(), Some(Failure::Environment(_)));
        if is_of_any { Self::AnyCommit(error) } else { Self::ThisCommit(error) }
    }
}

/// Records the checkout, reports how it differs from a recording, and gives the exit code for git.
pub(super) fn run(good: &Path, arguments: &BisectArguments, output: &Output) -> ExitCode {
    let (error, code) = match judge(good, arguments, output) {
        Ok(Verdict::Inconclusive) => return ExitCode::from(SKIP),
        Ok(verdict) => return ExitCode::from(verdict.exit_code()),
        Err(Unjudged::ThisCommit(error)) => (error, SKIP),
        Err(Unjudged::AnyCommit(error)) => (error, ABORT_BISECTION),
    };
    output::print_error(&format!("{error:#}"));
    ExitCode::from(code)
}

fn judge(good: &Path, arguments: &BisectArguments, output: &Output) -> Result<Verdict, Unjudged> {
    if arguments.trust.exit_zero {
        let error = anyhow!("--exit-zero would call each commit good; leave it out where a snapshot is compared");
        return Err(Unjudged::AnyCommit(error));
    }
    let judging = Judging::here(arguments)?;
    let itself = judging.compare(good, good).map_err(Unjudged::AnyCommit)?;
    check_good_for_git(&itself, &arguments.range).map_err(Unjudged::AnyCommit)?;
    let record = &arguments.record;
    let recorder = Recorder::of_command(record, &"checkout", &[])?;
    let here = env::current_dir().map_err(Error::from)?;
    let program = Program { command: &record.command, method: &record.method };
    let recorded = recorder.record("checkout", &Candidate::new(program, &here, &[]), &InProgress::new("checkout"))?;
    let recorded = recorded.map_err(|failure| refused(failure, "the checkout", ""))?;
    let gate = judging.compare(good, &recorded.path)?;
    judging.write(&gate, output)?;
    Ok(gate.verdict())
}
