//! Ranks of a job, each run alone: one after the other, or some at the same time.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::job::{Job, launcher};
use super::{Run, signals};
use crate::cli::ranks::in_order;

/// A rank that runs without the others.
#[derive(Clone, Copy)]
pub(super) struct Alone<'a> {
    pub(super) job: &'a Job,
    pub(super) rank: u32,
    /// Folder of what ranks that ran before have sent.
    said: &'a Path,
}

impl Alone<'_> {
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.job.environment(self.rank, self.said)
    }
}

/// Runs the ranks of a job, and gives the exit code of the first that fails.
pub(super) fn run(run: &Run<'_>, job: &Job) -> Result<u8> {
    if let Some(word) = launcher(&run.arguments.command) {
        bail!(
            "--rank starts one rank of the job, and {word} starts its own; expected the program itself, such as: python train.py"
        );
    }
    let said = tempfile::tempdir().context("no folder for the run can be made (TMPDIR)")?;
    // The exit code of the first rank that failed, after which no other starts.
    let failed = OnceLock::new();
    let ended = in_order(
        run.arguments.job.jobs as usize,
        &vec![0; job.ranks.len()],
        |index| work(run, Alone { job, rank: job.ranks[index], said: said.path() }, &failed),
        |_, ()| {},
    );
    match failed.into_inner() {
        Some(code) => Ok(code),
        None => ended.map(|()| 0),
    }
}

/// Runs a rank, unless somebody asked the run to end.
fn work(run: &Run<'_>, alone: Alone<'_>, failed: &OnceLock<u8>) -> Result<()> {
    if signals::interrupted() {
        return Ok(());
    }
    let ended = run.process(Some(alone));
    // Ranks that wait for what this one says wait no longer. Without the file they wait for ever.
    let mark = alone.said.join(format!("{}.ended", alone.rank));
    File::create(mark).context("the end of a rank cannot be noted")?;
    match ended? {
        0 => Ok(()),
        code => bail!("rank {} failed: {}", alone.rank, failed.get_or_init(|| code)),
    }
}
