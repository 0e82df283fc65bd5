//! Tries programs on a simulated GPU, in a copy of the working tree.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::programs::{FoundProgram, Obstacle, ProgramKind};
use crate::cli::checkout::own_packages;
use crate::cli::output::print_note;

/// Seconds after which a program that is tried is ended.
const SECONDS: &str = "60";

/// The exit code of `timeout` for a command that it ended.
const TIMED_OUT: i32 = 124;

/// Maximum number of programs that are tried.
const MOST: usize = 6;

/// Looks for PyTorch without its libraries, which may only be there on a simulated GPU.
const HAS_PYTORCH: &str = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";

/// Whether programs can be tried: where GPUs can be simulated and the Python on the path has PyTorch.
pub(super) fn is_possible() -> bool {
    let mut python = Command::new("python");
    let output = python.args(["-c", HAS_PYTORCH]).stdin(Stdio::null()).output();
    cfg!(all(feature = "simulate", target_os = "linux")) && output.is_ok_and(|output| output.status.success())
}

/// Tries programs in their order until `enough` have recorded.
pub(super) fn all(root: &Path, programs: &mut [FoundProgram], enough: usize) -> Result<()> {
    let mut recorded = 0;
    for program in programs.iter_mut().filter(|program| program.obstacle.is_none()).take(MOST) {
        if recorded < enough {
            print_note(&format!("trying for at most {SECONDS} s: {}", program.record()));
            attempt(root, program)?;
            recorded += usize::from(program.recorded.is_some());
        }
    }
    Ok(())
}

/// Tries a program; one that takes no steps as a whole.
fn attempt(root: &Path, program: &mut FoundProgram) -> Result<()> {
    let began = Instant::now();
    program.obstacle = run(root, program)?;
    let has_no_steps =
        matches!(&program.obstacle, Some(Obstacle::Failed(words)) if words.contains("optimizer made 0 steps"));
    if program.kind == ProgramKind::Trains && has_no_steps {
        program.kind = ProgramKind::Runs;
        program.obstacle = run(root, program)?;
    }
    program.recorded = program.obstacle.is_none().then(|| began.elapsed().as_secs());
    Ok(())
}

/// Runs a program, and says why it was not recorded.
fn run(root: &Path, program: &FoundProgram) -> Result<Option<Obstacle>> {
    let copy = copy(root)?;
    let place = tempfile::tempdir()?;
    let log = place.path().join("log");
    let words = File::create(&log)?;
    let mut record = place.path().join("snapshot.pkl").into_os_string();
    record.push(if program.kind == ProgramKind::Trains { ",steps=1..3" } else { "" });
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", SECONDS]).arg(std::env::current_exe()?);
    command.args(["simulate", "--record"]).arg(record);
    command.args(program.ranks().iter().flat_map(|ranks| ["--world-size".to_owned(), ranks.to_string()]));
    command.args(["--", "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", &program.record()]);
    // As a gate records a working tree: modules of the repository are found without being installed.
    command.current_dir(copy.path()).envs([own_packages(copy.path())?]);
    command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
    let status = command.status().context("timeout: cannot be started")?;
    let log = fs::read(&log)?;
    Ok(match status.code() {
        Some(0) => None,
        Some(TIMED_OUT) => Some(Obstacle::Unfinished(SECONDS)),
        _ => Some(reason(&String::from_utf8_lossy(&log))),
    })
}

/// What the output of a program that failed says.
fn reason(log: &str) -> Obstacle {
    let mut lines = log.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let missing =
        lines.clone().find_map(|line| line.strip_prefix("ModuleNotFoundError: No module named ")?.split('\'').nth(1));
    if let Some(module) = missing {
        return Obstacle::Untried(module.to_owned());
    }
    // The tool says what it lacks, otherwise the program.
    let own = lines.clone().find_map(|line| line.strip_prefix("error: ")?.split_once(": ").map(|(_, words)| words));
    let last = lines.find(|line| !line.starts_with("ptmem simulate:"));
    Obstacle::Failed(own.or(last).unwrap_or("it printed nothing").to_owned())
}

/// A copy of the files that git tracks or does not ignore.
fn copy(root: &Path) -> Result<TempDir> {
    let copy = tempfile::tempdir()?;
    let script = "git ls-files -z --cached --others --exclude-standard | \
                  tar --create --null --files-from - --ignore-failed-read | tar --extract --directory \"$0\"";
    let mut command = Command::new("bash");
    let output = command.args(["-c", script]).arg(copy.path()).current_dir(root).output();
    output.context("bash: cannot be started")?;
    Ok(copy)
}
