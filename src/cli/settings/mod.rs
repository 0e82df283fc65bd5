//! `ptmem settings`: whether other allocator settings would have helped, and what pins memory.

#[cfg(feature = "simulate")]
mod repeat;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
#[cfg(not(feature = "simulate"))]
use ptmem::allocator::Trial;
use ptmem::allocator::{self, Recording, Study};
use ptmem::device::DeviceId;
use ptmem::diagnostic::Code;
use ptmem::profile::Opened;
use ptmem::replay::{self, HistoryKind, Wanted};
use ptmem::report::{self, Subject};
use ptmem::snapshot::AllocatorSettings;
#[cfg(not(feature = "simulate"))]
use ptmem::snapshot::Event;
use ptmem::stack::{GroupBy, Grouper};

use super::args::{ConfigArguments, DeviceArguments, StudyView, heading};
use super::output::{self, Output};
use super::{config, input};
#[cfg(feature = "simulate")]
use repeat::tried;

/// Value of `--python` that leaves the settings out.
pub(super) const NO_PYTHON: &str = "none";

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
    #[command(flatten)]
    view: StudyView,
}

pub(super) fn run(arguments: &SettingsArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let name = arguments.snapshot.display().to_string();
    for text in &arguments.settings {
        text.parse::<AllocatorSettings>().context("--settings")?;
    }
    output::check_exports(&arguments.view.export, [&*arguments.snapshot].into_iter().chain(arguments.config.file()))?;
    let reading = arguments.view.input.reading(&config);
    let Opened::Snapshot(snapshot, source) = input::open(&arguments.snapshot, &reading)? else {
        bail!("{name}: is a saved profile, which has no addresses of blocks; expected a snapshot");
    };
    let mut of_devices = Vec::new();
    for (&id, device) in snapshot.devices.iter().filter(|(id, _)| id.is_device()) {
        if arguments.device.is_none_or(|asked| id == DeviceId::Ordinal(asked)) {
            let replay = replay::run_with(&snapshot, id, device, Wanted { layout: true, ..Wanted::default() })?;
            of_devices.push((id, device, replay));
        }
    }
    // The first of those with the highest peak.
    let highest = of_devices.into_iter().rev().max_by_key(|(_, _, replay)| replay.figures.reserved.peak);
    let (device, of_device, replay) = highest.with_context(|| match arguments.device {
        Some(asked) => format!("{name}: there is no {}", DeviceId::Ordinal(asked)),
        None => format!("{name}: no device has any memory; expected a snapshot of a run that used one"),
    })?;
    let grouper = Grouper::new(&snapshot.tables, GroupBy::default(), &config.rules);
    let Some(pinned) = allocator::pinned(&snapshot, of_device, &replay, &grouper) else {
        let reason = allocator::missing(&replay).map(|message| format!(": {message}")).unwrap_or_default();
        bail!("{name}: the reserved peak cannot be known{reason}; 'ptmem doctor' says how to record it");
    };
    let mut study = Study {
        snapshot: name.clone(),
        bytes: source.bytes,
        device,
        recorded_settings: text_of(&snapshot.settings),
        settings_stated: snapshot.settings.present,
        settings_changed: replay.diagnostics.iter().any(|found| found.code == Code::SettingsChanged),
        has_history: replay.figures.history == HistoryKind::Recorded,
        pinned,
        trial: None,
    };
    let mut failure = None;
    if arguments.python.as_os_str() != NO_PYTHON {
        let memory = arguments.memory.memory(&config).map(|memory| memory.bytes);
        let recording = Recording::new(&snapshot, of_device, &replay).context(name);
        match recording.and_then(|of| tried(arguments, of, snapshot.events_of(of_device), &study, memory)) {
            Ok(mut trial) => {
                trial.advice = allocator::advice(&study, &trial);
                study.trial = Some(trial);
            }
            Err(error) => failure = Some(error),
        }
    }
    arguments.view.write(Subject::Study(report::Study::Settings(&study)), output)?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[cfg(not(feature = "simulate"))]
fn tried(_: &SettingsArguments, _: Recording, _: &[Event], _: &Study, _: Option<u64>) -> Result<Trial> {
    bail!("this ptmem was built without simulated GPUs, on which settings are tried; --python none leaves them out")
}

/// The settings as `PYTORCH_CUDA_ALLOC_CONF` would state them.
fn text_of(settings: &AllocatorSettings) -> String {
    let mut text = settings.all.get("PYTORCH_CUDA_ALLOC_CONF").cloned().unwrap_or_default();
    if settings.expandable_segments && !text.contains("expandable_segments") {
        text = format!("{text}{}expandable_segments:True", if text.is_empty() { "" } else { "," });
    }
    text
}
