//! Tries programs on a simulated GPU, in a copy of the working tree.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::programs::{FoundProgram, Obstacle, ProgramKind};
use crate::cli::checkout::{own_packages, paths_of};
use crate::cli::logs::{exception, is_of_program};
use crate::cli::output::print_note;

/// Seconds after which a program that is tried is ended.
const SECONDS: &str = "60";

/// The exit code of `timeout` for a command that it ended.
const TIMED_OUT: i32 = 124;

/// Maximum number of programs that are tried.
const MOST: usize = 6;

/// Looks for PyTorch without its libraries, which may only be there on a simulated GPU, and says what Python finds by the home folder.
const LOOKS: &str = "import importlib.util, site, sys
sys.exit(1) if importlib.util.find_spec('torch') is None else print(sys.executable, site.getuserbase(), sep='\\n')";

/// A Python with PyTorch, which is found in the same way from another home folder.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// Its folder: the Python on the path may be a script that asks the home folder for one.
    folder: PathBuf,
    /// The folder of the packages that were installed for the user alone.
    user: OsString,
}

impl Interpreter {
    /// The Python on the path, where programs can be tried: where GPUs can be simulated and it has PyTorch.
    pub(super) fn found() -> Option<Self> {
        let output = Command::new("python").args(["-c", LOOKS]).stdin(Stdio::null()).output().ok()?;
        let is_possible = cfg!(all(feature = "simulate", target_os = "linux")) && output.status.success();
        let text = String::from_utf8(output.stdout).ok().filter(|_| is_possible)?;
        let (program, user) = text.trim_end().split_once('\n')?;
        Some(Self { folder: Path::new(program).parent()?.to_owned(), user: user.into() })
    }

    /// Gives a program a home folder of its own, so that it changes nothing of the user's and is logged in nowhere, as in CI. What the
    /// environment names stays: `HF_HOME` is a folder that the user has chosen.
    fn at_home(&self, home: &Path, command: &mut Command) -> Result<()> {
        let temporary = home.join("tmp");
        fs::create_dir_all(&temporary)?;
        let paths = env::join_paths([self.folder.clone()].into_iter().chain(paths_of("PATH"))).context("PATH")?;
        command.env("HOME", home).env("TMPDIR", temporary).env("PYTHONUSERBASE", &self.user).env("PATH", paths);
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        Ok(())
    }
}

/// Tries programs in their order until `enough` have recorded.
pub(super) fn all(python: &Interpreter, root: &Path, programs: &mut [FoundProgram], enough: usize) -> Result<()> {
    let mut recorded = 0;
    for program in programs.iter_mut().filter(|program| program.obstacle.is_none()).take(MOST) {
        if recorded < enough {
            print_note(&format!("trying for at most {SECONDS} s: {}", program.record()));
            attempt(python, root, program)?;
            recorded += usize::from(program.recorded.is_some());
        }
    }
    Ok(())
}

/// Tries a program; one that takes no steps as a whole.
fn attempt(python: &Interpreter, root: &Path, program: &mut FoundProgram) -> Result<()> {
    let began = Instant::now();
    program.obstacle = run(python, root, program)?;
    let has_no_steps =
        matches!(&program.obstacle, Some(Obstacle::Failed(words)) if words.contains("optimizer made 0 steps"));
    if program.kind == ProgramKind::Trains && has_no_steps {
        program.kind = ProgramKind::Runs;
        program.obstacle = run(python, root, program)?;
    }
    program.recorded = program.obstacle.is_none().then(|| began.elapsed().as_secs());
    Ok(())
}

/// Runs a program, and says why it was not recorded.
fn run(python: &Interpreter, root: &Path, program: &FoundProgram) -> Result<Option<Obstacle>> {
    let copy = copy(root)?;
    let place = tempfile::tempdir()?;
    let log = place.path().join("log");
    let words = File::create(&log)?;
    let mut record = place.path().join("snapshot.pkl").into_os_string();
    record.push(if program.kind == ProgramKind::Trains { ",steps=1..3" } else { "" });
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", SECONDS]).arg(env::current_exe()?);
    command.args(["simulate", "--record"]).arg(record);
    command.args(program.ranks().iter().flat_map(|ranks| ["--world-size".to_owned(), ranks.to_string()]));
    command.args(["--", "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", &program.record()]);
    // As a gate records a working tree: modules of the repository are found without being installed.
    command.current_dir(copy.path()).envs([own_packages(copy.path())?]);
    python.at_home(&place.path().join("home"), &mut command)?;
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
    // Below an exception, programs say how to see more of it.
    let exception = exception(log).map(|(exception, _)| exception);
    let last = exception.or_else(|| lines.find(|line| is_of_program(line)));
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
