//! Records a command once for each candidate, and keeps the recordings. `gate`, `bisect`, `fit` and `settings` share it: a candidate is a
//! command in a folder, with variables and a method.

mod detail;
pub(crate) mod environment;
mod failure;
mod key;
pub(crate) mod process;
mod progress;
pub(crate) mod tree;
mod variables;

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs};

use anyhow::{Context as _, Result};
use clap::Args;
use ptmem::config::Recording;
use ptmem::profile::{DeviceProfile, EndingKind, Profile, ReadOptions};
use ptmem_simulate::{Card, Compute, StepRange, empty_caches, offline_trackers};
#[cfg(unix)]
use rustix::fs::FlockOperation;

use super::args::heading;
use super::{input, modes, output};
pub(crate) use detail::Detail;
pub(crate) use failure::{Failure, read_log, tail};
use key::{cache_home, hash_files};
pub(crate) use key::{hash_environment, own_files, python_of};
use process::Ended;
pub(crate) use progress::InProgress;

/// How candidates are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::SEARCHED)]
pub(crate) struct RecordArguments {
    #[command(flatten)]
    pub(crate) method: Method,
    /// Record again, although recordings of an earlier search are kept
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// The command to record, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The card, the steps and the ranks of a recording.
#[derive(Debug, Clone, Hash, Args)]
pub(crate) struct Method {
    /// Simulated card on which the command runs, such as h100 [default: a100]
    #[arg(long, value_name = "NAME", value_parser = card)]
    pub(crate) gpu: Option<String>,
    /// Steps of the optimizer to run and record, as N or A..B; 'all' runs the command to its end; 'none' runs it on the
    /// real card, and expects it to write its snapshot to the file that PTMEM_SNAPSHOT names
    #[arg(long, value_name = "STEPS", default_value = Recording::DEFAULT_STEPS, value_parser = steps)]
    pub(crate) steps: String,
    /// Memory that may hold values, as with --compute of 'ptmem simulate'; all for programs that decide by values
    #[arg(long, value_name = "LIMIT", value_parser = compute)]
    pub(crate) compute: Option<String>,
    /// Number of ranks of the job; the command runs as rank 0, as with --world-size of 'ptmem simulate'
    #[arg(long, value_name = "N")]
    pub(crate) world_size: Option<u32>,
}

impl Method {
    /// The name of the simulated card.
    pub(crate) fn gpu(&self) -> &str {
        self.gpu.as_deref().unwrap_or(Recording::DEFAULT_GPU)
    }

    /// Whether searches run the command on a simulated card.
    pub(crate) fn is_simulated(&self) -> bool {
        self.steps != Recording::OWN_SNAPSHOT
    }

    /// Refuses options of a simulated card where none is simulated.
    pub(crate) fn require_used(&self) -> Result<()> {
        let Self { gpu, steps: _, compute, world_size } = self;
        if self.is_simulated() {
            return Ok(());
        }
        let options =
            [("--gpu", gpu.is_some()), ("--compute", compute.is_some()), ("--world-size", world_size.is_some())];
        modes::refuse_given(&options, "--steps none runs the command on the real card")
    }

    /// What to do about a candidate that fails: this, or what else its command may lack.
    pub(crate) fn advice(&self, other: &str) -> String {
        let first = if self.is_simulated() { "make it run with 'ptmem simulate', or " } else { "" };
        format!("; {first}{other}")
    }
}

/// Checks the name of a card.
pub(crate) fn card(text: &str) -> Result<String, String> {
    let card = Card::named(text).map_err(|error| format!("{error}; 'ptmem simulate --gpu list' prints all"));
    card.map(|_| text.to_owned())
}

/// Checks how much is computed.
pub(crate) fn compute(text: &str) -> Result<String, String> {
    text.parse::<Compute>().map(|_| text.to_owned())
}

/// Checks which steps to record.
pub(crate) fn steps(text: &str) -> Result<String, String> {
    match text.parse::<StepRange>() {
        Err(_) if !["all", Recording::OWN_SNAPSHOT].contains(&text) => {
            Err("expected one step or A..B, counted from 1, such as 3 or 1..3, or 'all' or 'none'".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

/// A command, and how it is recorded.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) method: &'a Method,
    pub(crate) detail: Detail,
}

/// A program in a folder.
pub(crate) struct Candidate<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) folder: &'a Path,
    pub(crate) variables: &'a [(&'static str, OsString)],
    /// Whether the card is simulated, also where the command writes its snapshot itself.
    pub(crate) is_simulated: bool,
    /// Variables that the program does not get.
    pub(crate) hidden: &'a [&'static str],
    /// Memory of the simulated card, where it is not that of the card.
    pub(crate) memory: Option<u64>,
    /// The order in which the simulated card gives out addresses, where it matters.
    pub(crate) addresses: Option<&'static str>,
    /// Whether only counters are recorded.
    pub(crate) counters: bool,
}

impl<'a> Candidate<'a> {
    /// A command that a search records.
    pub(crate) fn new(program: Program<'a>, folder: &'a Path, variables: &'a [(&'static str, OsString)]) -> Self {
        let is_simulated = program.method.is_simulated();
        let hidden = &[];
        Self { program, folder, variables, is_simulated, hidden, memory: None, addresses: None, counters: false }
    }

    /// Whether the command writes the snapshot itself.
    fn writes_snapshot(&self) -> bool {
        !self.is_simulated || !self.program.method.is_simulated()
    }

    fn command(&self, snapshot: &Path) -> Result<Command> {
        let mut command = if self.is_simulated { self.simulated(snapshot)? } else { self.bare() };
        command.current_dir(self.folder).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("PTMEM_SNAPSHOT", snapshot);
        for name in self.hidden {
            command.env_remove(name);
        }
        Ok(command)
    }

    fn bare(&self) -> Command {
        let mut command = Command::new(self.program.command.first().map_or(OsStr::new(""), |word| word));
        command.args(self.program.command.iter().skip(1));
        command
    }

    fn simulated(&self, snapshot: &Path) -> Result<Command> {
        let mut command = Command::new(env::current_exe().context("ptmem itself cannot be found")?);
        let Method { gpu: _, steps, compute, world_size } = self.program.method;
        command.args(["simulate", "--gpu", self.program.method.gpu()]);
        command.args(compute.iter().flat_map(|limit| ["--compute", limit]));
        if !self.writes_snapshot() {
            let mut record = snapshot.as_os_str().to_owned();
            if steps != "all" {
                record.push(format!(",steps={steps}"));
            }
            command.arg("--record").arg(record).args(self.program.detail.option());
        }
        command.args(world_size.iter().flat_map(|size| ["--world-size".to_owned(), size.to_string()]));
        command.args(self.memory.iter().flat_map(|bytes| ["--memory".to_owned(), format!("{bytes}B")]));
        command.args(self.addresses.iter().flat_map(|order| ["--addresses", order]));
        command.arg("--").args(self.program.command);
        Ok(command)
    }
}

/// The recording of a candidate.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    /// The file with the output of the command.
    pub(crate) log: PathBuf,
    /// Whether the command ran to its end, not until memory ran out.
    pub(crate) is_whole: bool,
}

/// The recording, or the reason why there is none.
pub(crate) type Made = std::result::Result<Recorded, Failure>;

/// A recording or its failure; an error where nothing at all can be recorded.
pub(crate) type Attempt = Result<Made>;

/// A folder with recordings.
pub(crate) struct Recorder {
    folder: PathBuf,
    /// Folders of earlier searches; empty once the note on their use is printed.
    earlier: Mutex<Vec<PathBuf>>,
    /// Keeps other runs out of the folder.
    _lock: fs::File,
}

impl Recorder {
    /// The folder of a kind of recordings, with the digest that distinguishes it from others of the kind.
    pub(crate) fn open(kind: &str, digest: u64) -> Result<Self> {
        let folder = cache_home()?.join("ptmem").join(kind).join(format!("{digest:016x}"));
        fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot be made; set XDG_CACHE_HOME to a folder that can be written", folder.display())
        })?;
        let lock = lock(&folder)?;
        Ok(Self { folder, earlier: Mutex::default(), _lock: lock })
    }

    /// A folder of recordings that nobody keeps.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        Ok(Self { folder: folder.to_owned(), earlier: Mutex::default(), _lock: lock(folder)? })
    }

    /// The recordings of one command in one environment: those of the candidates have names of their own.
    pub(crate) fn of_command(
        arguments: &RecordArguments,
        detail: Detail,
        of: &impl Hash,
        files: &[PathBuf],
    ) -> Result<Self> {
        let mut key = DefaultHasher::new();
        (&arguments.method, &arguments.command, detail, env::current_dir()?).hash(&mut key);
        of.hash(&mut key);
        hash_environment(&python_of(&arguments.command), &mut key);
        hash_files(files.iter().cloned().chain(arguments.command.iter().map(PathBuf::from)), &mut key);
        Ok(Self::open("search", key.finish())?.of_earlier_searches(arguments.no_cache))
    }

    /// Removes what earlier searches recorded, or notes it.
    fn of_earlier_searches(mut self, is_unwanted: bool) -> Self {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let kept: Vec<PathBuf> = folders.filter(|folder| folder.join(EXIT).exists()).collect();
        if is_unwanted {
            for folder in kept {
                let _ = fs::remove_dir_all(folder);
            }
        } else {
            self.earlier = Mutex::new(kept);
        }
        self
    }

    /// Says once that a recording is of an earlier search.
    fn tell_of_earlier(&self, folder: &PathBuf) {
        let Ok(mut earlier) = self.earlier.lock() else { return };
        if earlier.contains(folder) {
            output::print_note("recordings of an earlier search are kept; --no-cache makes them anew");
            earlier.clear();
        }
    }

    /// A place beside the recordings.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The kept run of a candidate.
    pub(crate) fn kept(&self, name: &str) -> Option<Recorded> {
        let folder = self.place(name);
        let code = fs::read_to_string(folder.join(EXIT)).ok()?.parse().ok()?;
        let recorded = usable(&folder, code)?;
        self.tell_of_earlier(&folder);
        Some(recorded)
    }

    /// Makes the folder of a candidate anew: it may hold leftovers of an interrupted run.
    pub(crate) fn begin(&self, name: &str) -> Result<PathBuf> {
        let folder = self.place(name);
        let _ = fs::remove_dir_all(&folder);
        let snapshots = folder.join(SNAPSHOTS);
        fs::create_dir_all(&snapshots).with_context(|| format!("{}: cannot be made", snapshots.display()))?;
        Ok(folder)
    }

    /// Runs and records a candidate, and shows how far it is.
    pub(crate) fn record(&self, name: &str, candidate: &Candidate<'_>, part: &InProgress) -> Attempt {
        let folder = self.begin(name)?;
        self.record_in(&folder, candidate, part)
    }

    /// The same in a folder that [`Recorder::begin`] made.
    pub(crate) fn record_in(&self, folder: &Path, candidate: &Candidate<'_>, part: &InProgress) -> Attempt {
        let log = folder.join(LOG);
        let name = if candidate.counters { "snapshot.json" } else { "snapshot.pkl" };
        let mut command = candidate.command(&folder.join(SNAPSHOTS).join(name))?;
        let steps = folder.join("steps");
        command.env(STEPS_VARIABLE, &steps);
        let doing = part.doing("recording", Some(steps));
        let compiled = folder.join("compiled");
        if !candidate.is_simulated {
            command.envs(empty_caches(&compiled)).envs(offline_trackers());
        }
        let Ended { code, memory } = process::run(&mut command, &log, &doing)?;
        drop(doing);
        let _ = fs::remove_dir_all(compiled);
        if let Some(recorded) = usable(folder, code) {
            let _ = fs::write(folder.join(MEMORY), memory.to_string());
            fs::write(folder.join(EXIT), code.to_string())?;
            return Ok(Ok(recorded));
        }
        Ok(Err(Failure::of_command(code, &log)))
    }

    /// The most memory that the processes of a kept run took together, as far as it is known.
    pub(crate) fn memory(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.place(name).join(MEMORY)).ok()?.parse().ok().filter(|bytes| *bytes > 0)
    }
}

/// The variable that names the file into which a program writes the number of steps it made.
const STEPS_VARIABLE: &str = "PTMEM_SIMULATE_STEPS";

/// Files in the folder of a candidate: its exit code, once it is whole, the memory it took, its output, and the folder of its
/// snapshots.
const EXIT: &str = "exit";
const MEMORY: &str = "memory";
const LOG: &str = "log";
const SNAPSHOTS: &str = "snapshots";

/// Locks a folder until the file is closed, after other runs in it have ended: each of them removes what the others make.
fn lock(folder: &Path) -> Result<fs::File> {
    let path = folder.join("lock");
    let file = fs::File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    #[cfg(unix)]
    if let Err(rustix::io::Errno::WOULDBLOCK) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        output::print_note(&format!("waiting for another ptmem that records in {}", folder.display()));
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("{}: cannot be locked", path.display()))?;
    }
    Ok(file)
}

/// Exit codes of commands that a signal ended begin here.
const SIGNALS: i32 = 128;

/// The recording in the folder of a candidate, where the run says something about memory.
fn usable(folder: &Path, code: i32) -> Option<Recorded> {
    let log = folder.join(LOG);
    let folder = folder.join(SNAPSHOTS);
    let files: Vec<PathBuf> = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let path = match &files[..] {
        [] => return None,
        [only] => only.clone(),
        _ => folder,
    };
    let is_usable = code == 0 || (code < SIGNALS && files.iter().any(|file| ran_out_of_memory(file)));
    is_usable.then_some(Recorded { path, log, is_whole: code == 0 })
}

/// Whether the program of a recording ended for want of memory. One without facts did if a request failed.
fn ran_out_of_memory(path: &Path) -> bool {
    let Ok(profile) = input::profile(path, &ReadOptions::default()) else { return false };
    let Profile { run, devices, .. } = &profile;
    match run.as_ref().and_then(|run| run.ending.as_ref()) {
        Some(ending) => ending.kind == EndingKind::Oom,
        None => devices.iter().any(DeviceProfile::ran_out_of_memory),
    }
}
