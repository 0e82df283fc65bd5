//! Runs ranks of a job, each without the others, one after the other or some at the same time.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::folder::Environment;
use crate::ranks::{PartialJob, file_of_rank};
use crate::run::CommandRun;
use crate::signals;

/// Most ranks that a command starts on one machine.
const MOST_STARTED: u32 = 1 << 10;
/// A rank that runs without the others.
#[derive(Clone, Copy)]
pub(super) struct SoloRank<'a> {
    pub(super) job: &'a PartialJob,
    pub(super) rank: u32,
    /// Folder of what ranks that ran before have sent.
    said: &'a Path,
}

impl SoloRank<'_> {
    /// The variables that torchrun would set for this rank, and those that the hook in Python needs.
    pub(super) fn environment(&self) -> Environment {
        let Self { job, rank, .. } = *self;
        let before: Vec<String> = job.ranks.iter().filter(|other| **other < rank).map(u32::to_string).collect();
        let numbers = [
            ("RANK", rank),
            ("WORLD_SIZE", job.world_size),
            ("LOCAL_RANK", rank % job.per_node),
            ("LOCAL_WORLD_SIZE", job.per_node),
            ("GROUP_RANK", rank / job.per_node),
            ("GROUP_WORLD_SIZE", job.world_size.div_ceil(job.per_node)),
            ("ROLE_RANK", rank),
            ("ROLE_WORLD_SIZE", job.world_size),
            ("MASTER_PORT", 29_500),
            ("TORCHELASTIC_RESTART_COUNT", 0),
            ("TORCHELASTIC_MAX_RESTARTS", 0),
        ];
        let mut environment: Environment =
            numbers.iter().map(|(name, number)| (*name, OsString::from(number.to_string()))).collect();
        environment.extend([
            ("ROLE_NAME", "default".into()),
            ("MASTER_ADDR", "localhost".into()),
            ("TORCHELASTIC_RUN_ID", "ptmem".into()),
            ("PTMEM_SIMULATE_ALONE", "1".into()),
            ("PTMEM_SIMULATE_PEER_VALUES", job.peer_values.join("\n").into()),
            ("PTMEM_SIMULATE_RANKS_BEFORE", before.join(",").into()),
        ]);
        // torchrun does so where a node has several ranks: their threads would wait for each other in busy loops.
        if job.per_node > 1 && env::var_os("OMP_NUM_THREADS").is_none() {
            environment.push(("OMP_NUM_THREADS", "1".into()));
        }
        if job.ranks.len() > 1 {
            environment.push(("PTMEM_SIMULATE_SAID", self.said.into()));
        }
        environment
    }
}

/// Removes what an earlier run recorded to a path, also of ranks that the command started: if this run writes nothing,
/// nothing must be taken for its recording. Of a job these are the ranks to run: others may have run on their own before.
pub(super) fn remove_earlier(path: &Path, job: Option<&PartialJob>) -> Result<()> {
    let files: Vec<PathBuf> = match job {
        Some(job) => job.ranks.iter().map(|rank| job.file_of(*rank, path)).collect(),
        None => (0..MOST_STARTED).map(|rank| file_of_rank(rank, path)).chain([path.to_owned()]).collect(),
    };
    for file in files.iter().filter(|file| file.is_file()) {
        fs::remove_file(file)
            .with_context(|| format!("{}: cannot be removed before it is recorded again", file.display()))?;
    }
    Ok(())
}

/// Runs the ranks of a job, and gives the exit code of the first that fails.
pub(super) fn run(run: &CommandRun<'_>, job: &PartialJob) -> Result<u8> {
    if let Some(word) = launcher(&run.arguments.command) {
        bail!(
            "--rank starts one rank of the job, and {word} starts its own; expected the program itself, such as: python train.py"
        );
    }
    let said = tempfile::tempdir().context("no folder for the run can be made (TMPDIR)")?;
    let waiting = Mutex::new(job.ranks.iter());
    // The end of the first rank that failed, after which no other starts.
    let failed = OnceLock::new();
    thread::scope(|scope| {
        for _ in 0..job.ranks.len().min(run.arguments.job.jobs as usize) {
            scope.spawn(|| {
                while let Some(rank) = next(&waiting).filter(|_| failed.get().is_none() && !signals::interrupted()) {
                    let ended = work(run, SoloRank { job, rank, said: said.path() });
                    if !matches!(ended, Ok(0)) {
                        // Another one may have failed before.
                        let _ = failed.set(ended);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or(Ok(0))
}

/// The next rank to run.
fn next(waiting: &Mutex<slice::Iter<'_, u32>>) -> Option<u32> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).next().copied()
}

/// Runs a rank, and gives its exit code.
fn work(run: &CommandRun<'_>, alone: SoloRank<'_>) -> Result<u8> {
    let ended = run.process(Some(alone));
    // Ranks that wait for what this one says wait no longer. Without the file they wait for ever.
    let mark = alone.said.join(format!("{}.ended", alone.rank));
    File::create(mark).context("the end of a rank cannot be noted")?;
    ended
}

/// A word of a command that starts several ranks itself, where there is one.
fn launcher(command: &[OsString]) -> Option<&str> {
    let words = command.iter().filter_map(|word| word.to_str());
    words.take_while(|word| !word.ends_with(".py")).find(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        ["torchrun", "mpirun", "srun", "torch.distributed.run", "torch.distributed.launch"].contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_lies_on_a_node() {
        let job = PartialJob { world_size: 20, ranks: vec![17], per_node: 8, peer_values: Vec::new() };
        let environment = SoloRank { job: &job, rank: 17, said: Path::new("said") }.environment();
        let value = |name: &str| environment.iter().find(|pair| pair.0 == name).unwrap().1.to_str().unwrap();
        assert_eq!([value("RANK"), value("LOCAL_RANK"), value("GROUP_RANK")], ["17", "1", "2"]);
        assert_eq!([value("WORLD_SIZE"), value("GROUP_WORLD_SIZE")], ["20", "3"]);
        let limits_threads = environment.iter().any(|pair| *pair == ("OMP_NUM_THREADS", "1".into()));
        assert!(limits_threads != env::var_os("OMP_NUM_THREADS").is_some());
    }

    #[test]
    fn recordings_of_earlier_ranks_are_removed() {
        let place = tempfile::tempdir().unwrap();
        for name in ["out.pkl.gz", "out_rank0.pkl.gz", "out_rank12.pkl.gz", "out_rank.pkl.gz", "out_rank1.pkl", "7.pkl"]
        {
            fs::write(place.path().join(name), "").unwrap();
        }
        remove_earlier(&place.path().join("out.pkl.gz"), None).unwrap();
        remove_earlier(&place.path().join("{rank}.pkl"), None).unwrap();
        let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["out_rank.pkl.gz", "out_rank1.pkl"]);
    }

    #[test]
    fn commands_that_start_ranks_are_recognized() {
        let launcher = |words: &[&str]| launcher(&words.iter().map(OsString::from).collect::<Vec<_>>()).is_some();
        assert!(launcher(&["/usr/bin/torchrun", "x.py"]));
        assert!(launcher(&["python", "-m", "torch.distributed.run", "x.py"]));
        assert!(!launcher(&["python", "x.py", "torchrun"]));
    }
}
