//! Ranks of a job, each run alone: one after the other, or some at the same time.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use super::job::{Job, launcher};
use super::{Run, signals};

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

/// The ranks that wait, and how the run goes.
struct Queue {
    waiting: std::vec::IntoIter<u32>,
    /// Exit code of the first rank that failed, after which no other starts.
    failed: Option<u8>,
    error: Option<anyhow::Error>,
}

/// Runs the ranks of a job, and gives the exit code of the first that fails.
pub(super) fn run(run: &Run<'_>, job: &Job) -> Result<u8> {
    if let Some(word) = launcher(&run.arguments.command) {
        bail!(
            "--rank starts one rank of the job, and {word} starts its own; expected the program itself, such as: python train.py"
        );
    }
    let said = tempfile::tempdir().context("no folder for the run can be made (TMPDIR)")?;
    let queue = Mutex::new(Queue { waiting: job.ranks.clone().into_iter(), failed: None, error: None });
    thread::scope(|scope| {
        for _ in job.ranks.iter().take(run.arguments.job.jobs as usize) {
            scope.spawn(|| work(run, job, said.path(), &queue));
        }
    });
    let queue = queue.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    match queue.error {
        Some(error) => Err(error),
        None => Ok(queue.failed.unwrap_or(0)),
    }
}

/// Runs ranks until none waits.
fn work(run: &Run<'_>, job: &Job, said: &Path, queue: &Mutex<Queue>) {
    while let Some(rank) = next(queue) {
        let ended = run.process(Some(Alone { job, rank, said }));
        // Ranks that wait for what this one says wait no longer. Without the file they wait for ever.
        let marked = File::create(said.join(format!("{rank}.ended"))).context("the end of a rank cannot be noted");
        let Ok(mut queue) = queue.lock() else { return };
        match ended.and_then(|code| marked.map(|_| code)) {
            Ok(0) => {}
            Ok(code) => {
                queue.failed.get_or_insert(code);
            }
            Err(error) => {
                queue.error.get_or_insert(error);
            }
        }
    }
}

fn next(queue: &Mutex<Queue>) -> Option<u32> {
    let mut queue = queue.lock().ok()?;
    if queue.failed.is_some() || queue.error.is_some() || signals::interrupted() {
        return None;
    }
    queue.waiting.next()
}
