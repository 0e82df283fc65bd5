//! `git bisect run ptmem bisect SNAPSHOT`: records and judges the checkout alone. Git reads each exit code below 125 but 0 as that of a
//! bad commit, so no error has one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Error, anyhow};
use ptmem::verdict::Verdict;

use super::arguments::BisectArguments;
use super::judging::{Judging, check_good_for_git, refused};
use crate::cli::args::ConfigArguments;
use crate::cli::checkout;
use crate::cli::config::PLACES;
use crate::cli::exit::ABORT_BISECTION;
use crate::cli::git::{self, git};
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
    arguments.record.method.require_used().map_err(Unjudged::AnyCommit)?;
    let judging = Judging::here(arguments).map_err(|error| by_rules(error, arguments))?;
    let itself = judging.compare(good, good).map_err(Unjudged::AnyCommit)?;
    if let Err(error) = check_good_for_git(&itself, &arguments.range) {
        let by_options = judging.without_config().compare(good, good).map_err(Unjudged::AnyCommit)?;
        let is_of_any = by_options.verdict() == Verdict::Regression;
        return Err(if is_of_any { Unjudged::AnyCommit(error) } else { by_rules(error, arguments) });
    }
    let record = &arguments.record;
    let detail = judging.detail();
    let recorder = Recorder::of_command(record, detail, &"checkout", &[])?;
    let here = env::current_dir().map_err(Error::from)?;
    let program = Program { command: &record.command, method: &record.method, detail };
    let recorded = recorder.record("checkout", &Candidate::new(program, &here, &[]), &InProgress::new("checkout"))?;
    let recorded = recorded.map_err(|failure| refused(failure, "the checkout", ""))?;
    let gate = judging.compare(good, &recorded.path)?;
    judging.write(&gate, output)?;
    Ok(gate.verdict())
}

/// Whose fault an error in the configuration or the limits is: of the commit, where commits have a configuration of their own.
fn by_rules(error: Error, arguments: &BisectArguments) -> Unjudged {
    if is_of_commits(&arguments.config) { Unjudged::ThisCommit(error) } else { Unjudged::AnyCommit(error) }
}

/// Whether any commit has the configuration, or one of the places where it would be.
fn is_of_commits(config: &ConfigArguments) -> bool {
    let here = env::current_dir().unwrap_or_default();
    let Some(root) = checkout::around(&here) else { return false };
    let places: Vec<PathBuf> = match config.file() {
        Some(file) => vec![here.join(file)],
        None if config.is_none() => Vec::new(),
        None => {
            let folders = here.ancestors().take_while(|folder| folder.starts_with(&root));
            folders.flat_map(|folder| PLACES.map(|place| folder.join(place))).collect()
        }
    };
    let mut log = git(Some(&root));
    log.args(["log", "--all", "--max-count=1", "--format=%H", "--"]).args(&places);
    // Git refuses a path outside of the repository, which no commit has.
    !places.is_empty() && git::text(&mut log, &[]).is_ok_and(|commit| !commit.is_empty())
}
