//! Runs a command on simulated GPUs, and says what happened.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use ptmem_base::units::Size;
use ptmem_snapshot::pickle::another_entry;

use crate::arguments::{Gpu, RecordedSnapshot, RecordedStacks, SimulateArguments};
use crate::embedded::LIBRARY;
use crate::folder::{Environment, TemporaryFolder};
use crate::job::{self, SoloRank};
use crate::ledger::{CountedFact, Ledger};
use crate::output::{WriteFile, eprint_line};
use crate::report::{EndedRun, LoneRank, write_json};
use crate::settings::Settings;
use crate::signals;
use crate::summary::summary;

/// Runs a command to its end, once or as each of the ranks, and gives its exit code.
///
/// # Errors
/// If no GPU can be simulated here, the command cannot be started, or the requested part was not recorded.
pub fn run(arguments: &SimulateArguments, write: WriteFile<'_>) -> Result<u8> {
    let Gpu::Card(card) = arguments.gpu else { return Ok(0) };
    if LIBRARY.is_empty() {
        bail!("a GPU can be simulated only on Linux, on x86-64 or aarch64; run this there, or in a container");
    }
    if arguments.command.is_empty() {
        bail!("no command to run; expected one after --, such as: ptmem simulate -- python train.py");
    }
    let job = arguments.job.job(arguments.gpus).map_err(|wrong| anyhow!("--rank: {wrong}"))?;
    let settings = arguments.settings(card, job.as_ref());
    if settings.memory <= card.context() {
        let [memory, context] = [settings.memory, card.context()].map(Size);
        bail!("--memory: {memory} is no more than the {context} that the CUDA context takes of this card; give more");
    }
    if let Some(record) = &arguments.record {
        arguments.require_used(record)?;
        job::remove_earlier(&record.path, job.as_ref())?;
    }
    let run = CommandRun { arguments, settings: &settings, write };
    match &job {
        None => run.process(None),
        Some(job) => job::run(&run, job),
    }
}

/// A command to run, and how.
pub(super) struct CommandRun<'a> {
    pub(super) arguments: &'a SimulateArguments,
    settings: &'a Settings,
    write: WriteFile<'a>,
}

impl CommandRun<'_> {
    /// Runs the command once, as a rank of a job or as it is, reports the run, and returns its exit code.
    pub(super) fn process(&self, alone: Option<SoloRank<'_>>) -> Result<u8> {
        let folder = TemporaryFolder::make()?;
        let mut record = self.arguments.record.clone();
        if let (Some(record), Some(alone)) = (&mut record, alone) {
            record.path = alone.job.file_of(alone.rank, &record.path);
        }
        let mut environment = folder.environment(self.settings, record.as_ref())?;
        if self.arguments.stacks == RecordedStacks::Python {
            environment.push(("PTMEM_SIMULATE_STACKS", "python".into()));
        }
        if self.arguments.modules || self.arguments.shapes {
            let watched = if self.arguments.shapes { "shapes" } else { "modules" };
            environment.push(("PTMEM_SIMULATE_WATCH", watched.into()));
        }
        environment.extend(alone.iter().flat_map(SoloRank::environment));
        let exit_code = match end_of(&self.arguments.command, &environment)? {
            Ok(code) => code,
            Err(not_started) => return Ok(not_started),
        };
        folder.wait_for_recordings();
        let outcome = EndedRun {
            settings: self.settings,
            rank: alone.map(|alone| LoneRank { number: alone.rank, world_size: alone.job.world_size }),
            command: self.arguments.command.iter().map(|word| word.display().to_string()).collect(),
            exit_code,
            ledger: Ledger::read(&folder.ledger()),
            recorded: folder.recorded(),
            steps: record.as_ref().and_then(|record| record.steps),
            was_stopped: folder.was_stopped(),
            problems: folder.problems(),
            peer_values: folder.peer_values(),
            followed: folder.followed(),
        };
        eprint_line(&summary(&outcome));
        if let Some(path) = &self.arguments.report {
            let path = alone.map_or(path.clone(), |alone| alone.job.file_of(alone.rank, path));
            let mut report = Vec::new();
            write_json(&outcome, &mut report)?;
            (self.write)(&path, &report)?;
        }
        if exit_code == 0 {
            require_hook(&outcome.ledger)?;
        }
        if let Some(record) = record {
            // Steps that were recorded are whole, whatever comes after them.
            if record.steps.is_none() {
                add_statuses(&folder, &outcome)?;
            }
            if exit_code == 0 {
                require_recording(&record, &outcome)?;
            }
        }
        Ok(exit_code)
    }
}

/// Exit codes of shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs a command to its end, and gives its exit code: 128 and the signal's number where a signal ended it. If it cannot be
/// started, says so, and gives the exit code of a shell for that as the error.
fn end_of(command: &[OsString], environment: &Environment) -> Result<Result<u8, u8>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Err(NOT_FOUND)) };
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let name = program.to_string_lossy();
    match signals::start(&mut child) {
        Ok(running) => {
            let status = running.wait().with_context(|| format!("{name}: cannot be waited for"))?;
            Ok(Ok(signals::code(status)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprint_line(&format!("{name}: command not found"));
            Ok(Err(NOT_FOUND))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            eprint_line(&format!("{name}: cannot be executed: {error}"));
            Ok(Err(NOT_EXECUTABLE))
        }
        Err(error) => Err(anyhow!("{name}: cannot be started: {error}")),
    }
}

/// Fails a run in which a Python used a GPU without the hook: its snapshots have no facts, so a comparison cannot know
/// whose code it measured, and no value was computed.
fn require_hook(ledger: &Ledger) -> Result<()> {
    let without @ 1.. = ledger.fact(CountedFact::ProcessesWithoutHook) else { return Ok(()) };
    let used = ledger.fact(CountedFact::AllocatingProcesses);
    bail!(
        "{without} of {used} processes that used the GPU are Python processes that did not run ptmem's sitecustomize: \
         start it without -I, -E and -S, and import torch in no .pth file"
    )
}

/// Fails a run whose recording is not as requested, although the command succeeded.
fn require_recording(record: &RecordedSnapshot, outcome: &EndedRun<'_>) -> Result<()> {
    let path = record.path.display();
    if !outcome.problems.is_empty() {
        bail!("{path}: not recorded as requested: {}", outcome.problems.join("; "));
    }
    if outcome.recorded.is_empty() {
        bail!(
            "{path}: not recorded: the command never used a CUDA device from Python; if it trains on the CPU by default, give it \
             the argument that selects the GPU"
        );
    }
    Ok(())
}

/// Adds to each recording the exit status of the process that wrote it, if that failed, or of the command. A command can succeed
/// although a process that it started failed.
fn add_statuses(folder: &TemporaryFolder, outcome: &EndedRun<'_>) -> Result<()> {
    for path in &outcome.recorded {
        let statuses = [folder.status_of(path).unwrap_or_default(), outcome.exit_code];
        if let Some(status) = statuses.into_iter().find(|status| *status != 0) {
            add_exit(path, status).with_context(|| format!("{path}: the exit status cannot be added"))?;
        }
    }
    Ok(())
}

/// Bytes after the last entry of a file of counters: a line with the closing brace.
const END_OF_COUNTERS: i64 = "\n}\n".len() as i64;

/// Adds an exit status to a recording: Python writes it before it ends, and does not know its exit status at that
/// point.
fn add_exit(path: &str, status: u8) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    if path.ends_with(".json") {
        file.seek(SeekFrom::End(-END_OF_COUNTERS))?;
        return file.write_all(format!(",\n \"ptmem_exit\": {status}\n}}\n").as_bytes());
    }
    file.seek(SeekFrom::End(-1))?;
    file.write_all(&another_entry("ptmem_exit", status))
}
