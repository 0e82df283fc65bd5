//! Records a command once for each candidate, and keeps the recordings: a search that was interrupted goes on from them.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, Result};
use clap::Args;
use ptmem::profile::{EndingKind, Profile, ReadOptions};
use ptmem_simulate::{Card, Steps};
#[cfg(unix)]
use rustix::fs::FlockOperation;

use super::super::args::heading;
#[cfg(unix)]
use super::super::output;
use super::super::pip::printed;
use super::super::{checkout, input};
use super::failure::Failure;

/// How candidates are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::SEARCHED)]
pub(in super::super) struct RecordArguments {
    /// Simulated card on which the command runs, such as h100
    #[arg(long, value_name = "NAME", default_value = "a100", value_parser = card)]
    pub(super) gpu: String,
    /// Steps of the optimizer to run and record, as N or A..B; 'all' runs the command to its end; 'none' runs it on the
    /// real card, and expects it to write its snapshot to the file that PTMEM_SNAPSHOT names
    #[arg(long, value_name = "STEPS", default_value = "1..3", value_parser = steps)]
    pub(super) steps: String,
    /// Number of ranks of the job; the command runs as rank 0, as with --world-size of 'ptmem simulate'
    #[arg(long, value_name = "N")]
    pub(super) world_size: Option<u32>,
    /// The command to record, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(in super::super) command: Vec<OsString>,
}

/// Checks the name of a card.
fn card(text: &str) -> Result<String, String> {
    let card = Card::named(text).map_err(|error| format!("{error}; 'ptmem simulate --gpu list' prints all"));
    card.map(|_| text.to_owned())
}

/// Checks which steps to record.
fn steps(text: &str) -> Result<String, String> {
    match text.parse::<Steps>() {
        Err(_) if !["all", "none"].contains(&text) => {
            Err("expected one step or A..B, counted from 1, such as 3 or 1..3, or 'all' or 'none'".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

/// The recording of a candidate.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) path: PathBuf,
    /// Whether the command ran to its end, not until memory ran out.
    pub(super) is_whole: bool,
}

/// The recording, or the reason why there is none; an error where nothing at all can be recorded.
pub(super) type Attempt = Result<Result<Recorded, Failure>>;

/// A command in a folder, with variables of its own.
pub(super) struct Job<'a> {
    pub(super) command: &'a [OsString],
    pub(super) folder: &'a Path,
    pub(super) variables: &'a [(&'static str, OsString)],
    /// Memory of the simulated card, where it is not that of the card.
    pub(super) memory: Option<u64>,
}

/// Beginnings of the names of variables on which a run may depend.
const RELEVANT: [&str; 8] = ["CUDA", "NCCL", "PYTORCH", "TORCH", "PYTHON", "PATH", "VIRTUAL_ENV", "CONDA"];

/// The folder with the recordings of one search.
pub(super) struct Recorder<'a> {
    arguments: &'a RecordArguments,
    folder: PathBuf,
    /// Keeps other searches of the same command out of the folder.
    _lock: fs::File,
}

impl<'a> Recorder<'a> {
    /// The recordings of the same command, card, environment and files: those of the candidates have names of their own.
    pub(super) fn new(arguments: &'a RecordArguments, of: &impl std::hash::Hash, files: &[PathBuf]) -> Result<Self> {
        let RecordArguments { gpu, steps, world_size, command } = arguments;
        let mut key = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), gpu, steps, world_size, command, env::current_dir()?).hash(&mut key);
        of.hash(&mut key);
        let mut variables: Vec<_> = env::vars_os().collect();
        variables.retain(|(name, _)| RELEVANT.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)));
        variables.sort();
        variables.hash(&mut key);
        packages(&python_of(command)).hash(&mut key);
        for file in files.iter().cloned().chain(command.iter().map(PathBuf::from)) {
            if let Some(facts) = fs::metadata(&file).ok().filter(fs::Metadata::is_file) {
                (&file, facts.len(), facts.modified().ok()).hash(&mut key);
            }
        }
        let cache = env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let cache = cache.context("no place to keep recordings; set XDG_CACHE_HOME to a folder")?;
        let folder = std::path::absolute(cache)?.join("ptmem").join("search").join(format!("{:016x}", key.finish()));
        fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot be made; set XDG_CACHE_HOME to a folder that can be written", folder.display())
        })?;
        let lock = lock(&folder)?;
        Ok(Self { arguments, folder, _lock: lock })
    }

    /// A place beside the recordings.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The kept run of a candidate.
    pub(super) fn kept(&self, name: &str) -> Option<Recorded> {
        let folder = self.folder.join(name);
        let code = fs::read_to_string(folder.join("exit")).ok()?.parse().ok()?;
        usable(&folder, code)
    }

    /// Runs and records a candidate.
    pub(super) fn record(&self, name: &str, job: &Job<'_>) -> Attempt {
        let folder = self.folder.join(name);
        // Leftovers of an interrupted run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        let log = folder.join("log");
        let words = fs::File::create(&log).with_context(|| format!("{}: cannot be written", log.display()))?;
        let mut command = self.command(&folder.join(SNAPSHOT), job)?;
        command.current_dir(job.folder).envs(job.variables.iter().map(|(name, value)| (name, value)));
        command.env("PTMEM_SNAPSHOT", folder.join(SNAPSHOT));
        command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
        let program = command.get_program().to_string_lossy().into_owned();
        let status = command.status().with_context(|| format!("{program}: cannot be started"))?;
        let code = status.code().unwrap_or(SIGNALS);
        if let Some(recorded) = usable(&folder, code) {
            fs::write(folder.join("exit"), code.to_string())?;
            return Ok(Ok(recorded));
        }
        Ok(Err(Failure::of_command(code, &log)))
    }

    fn command(&self, snapshot: &Path, job: &Job<'_>) -> Result<Command> {
        let RecordArguments { gpu, steps, world_size, .. } = self.arguments;
        let words = job.command;
        if steps == "none" {
            let mut command = Command::new(words.first().map_or(OsStr::new(""), |word| word));
            command.args(words.iter().skip(1));
            return Ok(command);
        }
        let mut command = Command::new(env::current_exe().context("ptmem itself cannot be found")?);
        let mut record = snapshot.as_os_str().to_owned();
        if steps != "all" {
            record.push(format!(",steps={steps}"));
        }
        command.args(["simulate", "--gpu", gpu, "--record"]).arg(record);
        command.args(world_size.iter().flat_map(|size| ["--world-size".to_owned(), size.to_string()]));
        command.args(job.memory.iter().flat_map(|bytes| ["--memory".to_owned(), format!("{bytes}B")]));
        command.arg("--").args(words);
        Ok(command)
    }
}

/// Locks a folder until the file is closed, after other searches in it have ended: each of them removes what the others make.
fn lock(folder: &Path) -> Result<fs::File> {
    let path = folder.join("lock");
    let file = fs::File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    #[cfg(unix)]
    if let Err(rustix::io::Errno::WOULDBLOCK) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        output::print_note(&format!("waiting for another search that records in {}", folder.display()));
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("{}: cannot be locked", path.display()))?;
    }
    Ok(file)
}

/// Name of a recording. Ranks add theirs.
const SNAPSHOT: &str = "snapshot.pkl";

/// Exit codes of commands that a signal ended begin here.
const SIGNALS: i32 = 128;

/// The recording in a folder, where the run says something about memory.
fn usable(folder: &Path, code: i32) -> Option<Recorded> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|ending| ending == "pkl")).collect();
    let path = match &files[..] {
        [] => return None,
        [only] => only.clone(),
        _ => folder.to_owned(),
    };
    let is_usable = code == 0 || (code < SIGNALS && files.iter().any(|file| ran_out_of_memory(file)));
    is_usable.then_some(Recorded { path, is_whole: code == 0 })
}

/// Whether the program of a recording ended for want of memory. One without facts did if a request failed.
fn ran_out_of_memory(path: &Path) -> bool {
    let Ok(profile) = input::profile(path, &ReadOptions::default()) else { return false };
    let Profile { run, devices, .. } = &profile;
    match run.as_ref().and_then(|run| run.ending.as_ref()) {
        Some(ending) => ending.kind == EndingKind::Oom,
        None => devices.iter().any(|device| !device.figures.ooms.is_empty()),
    }
}

/// The Python of a command: its first word, or the one on the path.
pub(super) fn python_of(command: &[OsString]) -> OsString {
    let first = command
        .first()
        .filter(|word| Path::new(word).file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    first.cloned().unwrap_or_else(|| "python3".into())
}

/// Names and versions of the packages of a Python; empty if that Python does not exist.
fn packages(python: &OsStr) -> Vec<String> {
    let script = "import sys; print('\\n'.join(filter(None, sys.path)))";
    let folders = printed(python, &["-c", script]).unwrap_or_default();
    let entries = folders.lines().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".dist-info")).collect();
    names.sort();
    names
}

/// The Python files of the working directory, which a command may import.
pub(super) fn own_files() -> Vec<PathBuf> {
    let here = env::current_dir().unwrap_or_default();
    checkout::list(&here).into_iter().map(|file| here.join(file)).collect()
}
