//! `ptmem settings`: whether other allocator settings would have helped, and what pins memory.

#[cfg(feature = "simulate")]
mod repeat;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ptmem::allocator::{self, Pinned};
use ptmem::profile::Opened;
use ptmem::replay::{self, HistoryKind, Wanted};
use ptmem::snapshot::{AllocatorSettings, Snapshot};
use ptmem::stack::{GroupBy, Grouper};
use serde::Serialize;

use super::args::{ConfigArguments, DeviceArguments, InputArguments, heading};
use super::output::Output;
use super::{config, input};

/// Value of `--python` that leaves the settings out.
pub(super) const NO_PYTHON: &str = "none";

/// A self-check that is off by a larger share of the peak gives no advice.
const TRUSTED: f64 = 0.01;

#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// The snapshot; - is standard input
    snapshot: PathBuf,
    /// Try these settings, as in PYTORCH_CUDA_ALLOC_CONF, instead of the usual ones. Repeatable
    #[arg(long, value_name = "TEXT", help_heading = heading::COMPARED)]
    settings: Vec<String>,
    /// The Python whose PyTorch repeats the requests; none tries no settings
    #[arg(long, value_name = "PROGRAM", default_value = "python3", help_heading = heading::COMPARED)]
    python: PathBuf,
    /// Look at this device [default: the one with the highest reserved peak]
    #[arg(long, value_name = "N", help_heading = heading::INPUT)]
    device: Option<u32>,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    memory: DeviceArguments,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::INPUT)]
    input: InputArguments,
    /// Output format
    #[arg(long, value_enum, default_value_t, help_heading = heading::OUTPUT)]
    format: SettingsFormat,
    /// List N segments and stacks
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = heading::OUTPUT)]
    top: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SettingsFormat {
    #[default]
    Table,
    Json,
}

/// All that is reported.
#[derive(Serialize)]
struct Study {
    #[serde(rename = "snapshot")]
    path: String,
    device: u32,
    /// As `PYTORCH_CUDA_ALLOC_CONF` would state them.
    #[serde(rename = "recorded_settings")]
    recorded: String,
    /// Whether the file states them.
    #[serde(rename = "settings_stated")]
    is_stated: bool,
    /// False if the state at the dump takes the place of the peak.
    has_history: bool,
    #[serde(flatten)]
    pinned: Pinned,
    trial: Option<Trial>,
}

/// The settings that were tried.
#[derive(Serialize)]
struct Trial {
    /// The release of PyTorch that repeated the requests.
    #[serde(rename = "pytorch")]
    release: String,
    /// The memory of the card, where it is known.
    #[serde(rename = "device_memory")]
    capacity: Option<u64>,
    /// Requests that failed in the recording.
    #[serde(rename = "failed_requests")]
    failed: usize,
    private_pools: usize,
    streams: usize,
    /// Bytes that were in use before the recording, and reserved beyond them.
    #[serde(rename = "in_use_before")]
    held_before: u64,
    #[serde(rename = "free_before")]
    cached_before: u64,
    #[serde(rename = "self_check")]
    check: SelfCheck,
    /// The row to compare with, by its index.
    #[serde(rename = "compared_with")]
    base: usize,
    #[serde(rename = "settings")]
    outcomes: Vec<Outcome>,
    /// Why settings have no outcome.
    left_out: Vec<String>,
    /// The best settings, in words.
    advice: String,
}

/// The recorded settings against the recording.
#[derive(Serialize)]
struct SelfCheck {
    recorded_peak: u64,
    #[serde(rename = "repeated_peak")]
    replayed_peak: u64,
    /// The largest difference of reserved bytes after a request.
    #[serde(rename = "largest_deviation")]
    deviation: u64,
    /// Whether that is little enough for advice.
    trusted: bool,
}

impl SelfCheck {
    fn new(recorded_peak: u64, replayed_peak: u64, deviation: u64) -> Self {
        let share = ptmem::units::approximate(deviation) / ptmem::units::approximate(recorded_peak.max(1));
        Self { recorded_peak, replayed_peak, deviation, trusted: share <= TRUSTED }
    }
}

/// What settings led to.
#[derive(Serialize)]
struct Outcome {
    settings: String,
    /// True if earlier memory was allocated in its recorded segments.
    #[serde(rename = "earlier_memory_as_recorded")]
    is_as_recorded: bool,
    #[serde(rename = "reserved_peak")]
    peak: u64,
    /// Reserved and not in use at the peak.
    #[serde(rename = "free_at_peak")]
    free: u64,
    /// Segments that came, and that went: `cudaMalloc` and `cudaFree`, or parts mapped and unmapped.
    #[serde(rename = "segments_obtained")]
    obtained: u64,
    #[serde(rename = "segments_returned")]
    returned: u64,
    /// Requests that failed in the recording and succeeded here.
    #[serde(rename = "failed_requests_avoided")]
    avoided: usize,
    /// Requests that succeeded in the recording and failed here.
    #[serde(rename = "new_failed_requests")]
    ran_out: usize,
}

pub(super) fn run(arguments: &SettingsArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let name = arguments.snapshot.display().to_string();
    for text in &arguments.settings {
        text.parse::<AllocatorSettings>().context("--settings")?;
    }
    let Opened::Snapshot(snapshot, _) = input::open(&arguments.snapshot, &arguments.input.reading(&config))? else {
        bail!("{name}: is a saved profile, which has no addresses of blocks; expected a snapshot");
    };
    let device = device(&snapshot, arguments.device).context(name.clone())?;
    let Some(of_device) = snapshot.devices.get(&device) else { bail!("{name}: there is no device {device}") };
    let replay = replay::run_with(&snapshot, device, of_device, Wanted { layout: true, ..Wanted::default() })?;
    let grouper = Grouper::new(&snapshot.tables, GroupBy::default(), &config.rules);
    let Some(pinned) = allocator::pinned(&snapshot, of_device, &replay, &grouper) else {
        bail!("{name}: the reserved peak cannot be known; 'ptmem doctor' says why, and how to record it");
    };
    let mut study = Study {
        path: name,
        device,
        recorded: text_of(&snapshot.settings),
        is_stated: snapshot.settings.present,
        has_history: replay.figures.history == HistoryKind::Recorded,
        pinned,
        trial: None,
    };
    let mut failure = None;
    if arguments.python.as_os_str() != NO_PYTHON {
        match tried(arguments, &snapshot, &study, arguments.memory.memory(&config).map(|memory| memory.bytes)) {
            Ok(trial) => study.trial = Some(Trial { advice: report::advice(&trial, study.is_stated), ..trial }),
            Err(error) => failure = Some(error.context(study.path.clone())),
        }
    }
    match arguments.format {
        SettingsFormat::Table => output.print(&report::table(&study, arguments.top))?,
        SettingsFormat::Json => output.print_with(|out| report::json(&study, out))?,
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[cfg(feature = "simulate")]
fn tried(arguments: &SettingsArguments, snapshot: &Snapshot, study: &Study, memory: Option<u64>) -> Result<Trial> {
    repeat::Repetition::new(&arguments.python, snapshot, study, memory)?.trial(&arguments.settings)
}

#[cfg(not(feature = "simulate"))]
fn tried(_: &SettingsArguments, _: &Snapshot, _: &Study, _: Option<u64>) -> Result<Trial> {
    bail!("this ptmem was built without simulated GPUs, on which settings are tried; --python none leaves them out")
}

/// The device that was asked for, or the one with the highest reserved peak.
fn device(snapshot: &Snapshot, asked: Option<u32>) -> Result<u32> {
    if let Some(device) = asked {
        return Ok(device);
    }
    let mut highest = None;
    for (&id, device) in &snapshot.devices {
        let peak = replay::run(snapshot, id, device)?.figures.reserved.peak.unwrap_or(0);
        if highest.is_none_or(|(most, _)| peak > most) {
            highest = Some((peak, id));
        }
    }
    highest.map(|(_, id)| id).context("no device has any memory; expected a snapshot of a run that used one")
}

/// The settings as `PYTORCH_CUDA_ALLOC_CONF` would state them.
fn text_of(settings: &AllocatorSettings) -> String {
    let mut text = settings.all.get("PYTORCH_CUDA_ALLOC_CONF").cloned().unwrap_or_default();
    if settings.expandable_segments && !text.contains("expandable_segments") {
        text = format!("{text}{}expandable_segments:True", if text.is_empty() { "" } else { "," });
    }
    text
}
