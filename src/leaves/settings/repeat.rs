//! Repeats the requests of a recording on the allocator of a real PyTorch, on a simulated card, once for each setting.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::config::Recording as Recorded;
use ptmem::profile::Opened;
use ptmem::replay::{self, WantedResults};
use ptmem::snapshot::{Action, Event};
use ptmem::stack::{GroupBy, Grouper, Rules};
use ptmem_simulate::Card;

use super::SettingsArguments;
use super::allocator::{self, Earlier, RequestHistory, SelfCheck, SettingsOutcome, SettingsStudy, Trial, curve};
use crate::cli::input;
use crate::cli::recorder::{Candidate, Detail, InProgress, Method, Program, Recorder, read_log, tail};

const PROGRAM: &str = include_str!("repeat.py");

/// Memory for PyTorch on a simulated card whose memory is not known: about as much as one can have.
const UNLIMITED: u64 = 510 << 30;

/// Settings to try one by one.
const SINGLE: [&str; 8] = [
    "expandable_segments:True",
    "max_split_size_mb:20",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
];

/// Has an effect only where the memory of the card is known.
const COLLECT: &str = "garbage_collection_threshold:0.8";

/// The names of the settings that are tried.
pub(super) fn names() -> BTreeSet<&'static str> {
    SINGLE.iter().chain([&COLLECT]).map(|text| name_of(text)).collect()
}

/// The name in a setting.
fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

/// How many of the best settings are tried in pairs.
const BEST: usize = 3;

/// Variables that would change what the requests lead to.
const HIDDEN: [&str; 3] = ["PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES"];

/// A recording to repeat.
struct Repetition<'a> {
    python: &'a Path,
    recording: RequestHistory,
    /// The memory of the card, where it is known.
    capacity: Option<u64>,
    /// Reserved bytes after each request of the recording, and whether it succeeded.
    recorded: Vec<(u64, bool)>,
    recorder: Recorder,
    folder: tempfile::TempDir,
}

/// What a recording does not state of the way in which its requests were met.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// The order in which the card gives out addresses, as `ptmem simulate --addresses` names it.
    addresses: &'static str,
    /// True if private pools never split a segment.
    no_split: bool,
}

/// Settings to repeat the requests with.
struct RepeatedSettings<'s> {
    settings: &'s str,
    earlier: Earlier,
}

/// The usual manner, and those that are tried until one follows the recording to the byte.
const MANNERS: [Manner; 4] = [
    Manner { addresses: "up", no_split: false },
    Manner { addresses: "down", no_split: false },
    Manner { addresses: "up", no_split: true },
    Manner { addresses: "down", no_split: true },
];

/// An outcome, the manner that led to it, the largest difference of its reserved bytes from the recording, and the release of
/// PyTorch.
struct RepeatedOutcome {
    manner: Manner,
    outcome: SettingsOutcome,
    deviation: u64,
    release: String,
}

/// Tries the recorded settings, and if they lead to the recorded memory, others.
pub(super) fn tried(
    arguments: &SettingsArguments,
    recording: RequestHistory,
    events: &[Event],
    study: &SettingsStudy,
    memory: Option<u64>,
) -> Result<Trial> {
    let folder = tempfile::tempdir().context("no folder for the requests can be made (TMPDIR)")?;
    fs::write(folder.path().join("repeat.py"), PROGRAM)?;
    let recorded = curve(events, recording.reserved_before);
    let capacity = recording.capacity.or(memory).filter(|&bytes| bytes < UNLIMITED);
    let recorder = Recorder::in_folder(folder.path())?;
    let repetition = Repetition { python: &arguments.python, recording, capacity, recorded, recorder, folder };
    let Repetition { recording, recorded, .. } = &repetition;
    let mut left_out = Vec::new();
    let RepeatedOutcome { manner, outcome, deviation, release } =
        repetition.closest(&study.recorded_settings, &mut left_out)?;
    let mut trial = Trial {
        pytorch: release,
        device_memory: capacity,
        failed_requests: recorded.iter().filter(|(_, fits)| !fits).count(),
        private_pools: recording.private_pools,
        streams: recording.streams,
        in_use_before: recording.held_before,
        free_before: recording.reserved_before.saturating_sub(recording.held_before),
        self_check: SelfCheck::new(study.pinned.reserved_peak, outcome.reserved_peak, deviation),
        compared_with: 0,
        settings: vec![outcome],
        left_out,
        advice: String::new(),
    };
    let own = &arguments.settings;
    let usual = [""].into_iter().chain(SINGLE).chain(capacity.map(|_| COLLECT)).map(str::to_owned);
    let mut singles = if own.is_empty() { usual.collect() } else { own.clone() };
    singles
        .retain(|text| *text != study.recorded_settings && !arguments.without.iter().any(|name| name_of(text) == name));
    trial.left_out.extend(arguments.without.iter().map(|name| format!("{name}, as --without asks")));
    if singles.is_empty() || !trial.self_check.trusted {
        return Ok(trial);
    }
    if recording.reserved_before > 0 {
        singles.insert(0, study.recorded_settings.clone());
        trial.compared_with = 1;
    }
    repetition.add(&mut trial, &singles, manner)?;
    // Nothing to compare other settings with.
    if trial.base().is_none_or(|base| base.settings != study.recorded_settings) {
        trial.settings.truncate(1);
        trial.compared_with = 0;
        return Ok(trial);
    }
    if trial.settings.len() <= trial.compared_with + 1 {
        bail!("{}", trial.left_out.join("; "));
    }
    if own.is_empty() {
        let pairs = pairs(&trial);
        repetition.add(&mut trial, &pairs, manner)?;
    }
    Ok(trial)
}

impl Repetition<'_> {
    /// Adds what settings lead to. Those that this release of PyTorch refuses are left out.
    fn add(&self, trial: &mut Trial, settings: &[String], manner: Manner) -> Result<()> {
        let jobs: Vec<_> =
            settings.iter().map(|settings| RepeatedSettings { settings, earlier: Earlier::Packed }).collect();
        for repeated in self.repeat(&jobs, manner)? {
            match repeated {
                Ok(repeated) => trial.settings.push(repeated.outcome),
                Err(error) => trial.left_out.push(error.to_string()),
            }
        }
        Ok(())
    }

    /// What the recorded settings lead to, in the manner that follows the recording most closely.
    fn closest(&self, settings: &str, left_out: &mut Vec<String>) -> Result<RepeatedOutcome> {
        let mut closest = self.as_recorded(settings, MANNERS[0])??;
        let others = MANNERS[1..].iter().filter(|manner| !manner.no_split || self.recording.may_have_unsplit_pools);
        for &manner in others {
            if closest.deviation == 0 {
                break;
            }
            match self.as_recorded(settings, manner)? {
                Ok(other) if other.deviation < closest.deviation => closest = other,
                Ok(_) => {}
                Err(error) => {
                    let tried = if manner.no_split { "pools that never split" } else { "addresses downwards" };
                    left_out.push(format!("with {tried}, {error}"));
                    break;
                }
            }
        }
        Ok(closest)
    }

    fn as_recorded(&self, settings: &str, manner: Manner) -> Result<Result<RepeatedOutcome>> {
        let repeated = self.repeat(&[RepeatedSettings { settings, earlier: Earlier::AsRecorded }], manner)?;
        Ok(repeated.into_iter().next().unwrap_or_else(|| Err(unusable(self.python, "did not record the requests"))))
    }

    /// Repeats the requests, in one process that imports PyTorch: each job is a child of it.
    fn repeat(&self, jobs: &[RepeatedSettings<'_>], manner: Manner) -> Result<Vec<Result<RepeatedOutcome>>> {
        let lines = jobs.iter().enumerate().map(|(number, job)| self.prepare(number, job, manner));
        let list = self.folder.path().join("jobs");
        fs::write(&list, lines.collect::<Result<Vec<_>>>()?.concat())?;
        let method = Method { gpu: None, steps: Recorded::OWN_SNAPSHOT.to_owned(), compute: None, world_size: None };
        let command: [OsString; 3] = [self.python.into(), self.folder.path().join("repeat.py").into(), list.into()];
        let limit = self.capacity.unwrap_or(UNLIMITED);
        let candidate = Candidate {
            is_simulated: true,
            hidden: &HIDDEN,
            memory: Some(limit + Card::named(Card::DEFAULT).map_or(0, |card| card.context())),
            addresses: Some(manner.addresses),
            ..Candidate::new(
                Program { command: &command, method: &method, detail: Detail::Stacks },
                self.folder.path(),
                &[],
            )
        };
        let part = match jobs {
            [job] => InProgress::new(shown(job.settings)),
            _ => InProgress::new(format!("{} settings", jobs.len())),
        };
        let recorded = self.recorder.record(RUNS, &candidate, &part)?;
        let log = self.recorder.place(RUNS).join("log");
        // Of one repetition it is the file, not the folder.
        let snapshots = recorded.ok().map(|recorded| folder_of(recorded.path));
        let release = tail(&log, 1).pop().unwrap_or_default();
        let outcomes = jobs.iter().enumerate().map(|(number, job)| {
            let snapshot = snapshots.as_ref().map(|folder| folder.join(format!("{number}.pkl")));
            match snapshot.filter(|snapshot| snapshot.exists()) {
                Some(snapshot) => self.read(&snapshot, job, manner, &release),
                None => Err(self.failure(job.settings, &self.errors(number, &log))),
            }
        });
        Ok(outcomes.collect())
    }

    /// Writes the requests of a job, and gives the line about it that the program reads.
    fn prepare(&self, number: usize, job: &RepeatedSettings<'_>, manner: Manner) -> Result<String> {
        let RepeatedSettings { settings, earlier } = job;
        let name = self.folder.path().join(number.to_string());
        let list = self.recording.requests(*earlier, manner.addresses == "down");
        let lines: Vec<String> = list.iter().map(|request| format!("{request}\n")).collect();
        fs::write(name.with_extension("txt"), lines.concat())?;
        let _ = fs::remove_file(name.with_extension("log"));
        let earlier = if *earlier == Earlier::Packed { "packed" } else { "recorded" };
        let split = if manner.no_split { "no_split" } else { "split" };
        // A share of the card, without which PyTorch ignores the threshold at which it collects.
        let limit = self.capacity.filter(|_| settings.contains("garbage_collection_threshold"));
        let limit = limit.map(|limit| (limit + 1).to_string()).unwrap_or_default();
        // The memory of the card is that share already.
        let parts = settings.split(',').filter(|part| !part.trim().starts_with("per_process_memory_fraction"));
        let settings = parts.collect::<Vec<_>>().join(",");
        Ok(format!("{}\t{earlier}\t{split}\t{limit}\t{settings}\n", name.display()))
    }

    /// What a job printed, or the program where it did not begin that job.
    fn errors(&self, number: usize, log: &Path) -> String {
        let own = read_log(&self.folder.path().join(format!("{number}.log")));
        if own.trim().is_empty() { read_log(log) } else { own }
    }

    /// Why settings could not be tried, and what to do.
    fn failure(&self, settings: &str, errors: &str) -> anyhow::Error {
        let python = self.python.display();
        if errors.contains(": command not found") {
            return unusable(self.python, "is not a program");
        }
        if let Some(reason) = errors.lines().find_map(|line| line.strip_prefix("unusable: ")) {
            return unusable(self.python, reason);
        }
        let mut words = errors.lines().rev().filter(|line| !line.trim().is_empty());
        let Some(reason) = words.find(|line| !line.starts_with("ptmem simulate:")) else {
            return unusable(self.python, "did not record the requests");
        };
        anyhow!("the requests could not be repeated with {} by {python}: {reason}", shown(settings))
    }

    fn read(&self, dump: &Path, job: &RepeatedSettings<'_>, manner: Manner, release: &str) -> Result<RepeatedOutcome> {
        let Opened::Snapshot(snapshot, _) = input::open(dump, &ptmem::profile::ReadOptions::default())? else {
            bail!("{}: is not a snapshot", dump.display());
        };
        let Some((&id, device)) = snapshot.devices.first_key_value() else {
            bail!("PyTorch recorded nothing when the requests were repeated; its release may lack the memory history");
        };
        let replay =
            replay::run_with(&snapshot, id, device, WantedResults { layout: true, ..WantedResults::default() })?;
        let grouper = Grouper::new(&snapshot.tables, GroupBy::default(), &Rules::default());
        let at_peak = allocator::pinned(&snapshot, device, &replay, &grouper);
        let at_peak = at_peak.context("reserved bytes of the repeated requests are not known")?;
        let events = snapshot.events_of(device);
        let curve = curve(events, replay.figures.reserved.baseline.unwrap_or(0));
        if curve.len() != self.recorded.len() {
            bail!("{} of {} requests were repeated: this is a defect of ptmem", curve.len(), self.recorded.len());
        }
        let deviations = curve.iter().zip(&self.recorded).map(|((here, _), (there, _))| here.abs_diff(*there));
        let count = |kinds: [Action; 2]| events.iter().filter(|event| kinds.contains(&event.action)).count() as u64;
        let pairs = self.recorded.iter().zip(&curve);
        let outcome = SettingsOutcome {
            settings: job.settings.to_owned(),
            earlier_memory_as_recorded: job.earlier != Earlier::Packed,
            reserved_peak: at_peak.reserved_peak,
            free_at_peak: at_peak.reserved_peak.saturating_sub(at_peak.active_then),
            segments_obtained: count([Action::SegmentAlloc, Action::SegmentMap]),
            segments_returned: count([Action::SegmentFree, Action::SegmentUnmap]),
            failed_requests_avoided: pairs.clone().filter(|((_, there), (_, here))| !there && *here).count(),
            new_failed_requests: pairs.filter(|((_, there), (_, here))| *there && !here).count(),
        };
        Ok(RepeatedOutcome { manner, outcome, deviation: deviations.max().unwrap_or(0), release: release.to_owned() })
    }
}

/// The folder of the recordings of repetitions, of which each is the only one at its time.
const RUNS: &str = "runs";

/// The folder of a recording, or that it is.
fn folder_of(path: PathBuf) -> PathBuf {
    if path.is_dir() { path } else { path.parent().map(Path::to_owned).unwrap_or_default() }
}

/// Settings in words.
fn shown(settings: &str) -> &str {
    if settings.is_empty() { "the default settings" } else { settings }
}

/// Why a Python cannot repeat requests, and what to do.
fn unusable(python: &Path, reason: &str) -> anyhow::Error {
    anyhow!(
        "no settings were tried, because {} {reason}; run this in the environment of the recorded program, or name its Python with \
         --python ('--python none' tries no settings)",
        python.display()
    )
}

/// Pairs of the best settings of different names.
fn pairs(trial: &Trial) -> Vec<String> {
    let mut best: Vec<&SettingsOutcome> = trial.fitting().filter(|outcome| !outcome.settings.is_empty()).collect();
    best.sort_by_key(|outcome| outcome.reserved_peak);
    let mut names = BTreeSet::new();
    best.retain(|outcome| names.insert(name_of(&outcome.settings)));
    best.truncate(BEST);
    let settings = best.iter().map(|outcome| &outcome.settings).enumerate();
    let pairs =
        settings.flat_map(|(at, one)| best[at + 1..].iter().map(move |other| format!("{one},{}", other.settings)));
    pairs.collect()
}
