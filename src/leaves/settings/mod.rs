//! `ptmem settings`: whether other allocator settings would have helped, and what pins memory.

mod allocator;
#[cfg(test)]
mod tests;
mod view;

#[cfg(feature = "simulate")]
mod repeat;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(not(feature = "simulate"))]
use allocator::Trial;
use anyhow::{Context, Result, bail};
use clap::Args;
use ptmem::device::DeviceId;
use ptmem::diagnostic::Code;
use ptmem::profile::Opened;
use ptmem::replay::{self, HistoryKind, WantedResults};
use ptmem::report::json::Tool;
use ptmem::report::view::View;
use ptmem::report::{RenderOptions, Report};
use ptmem::snapshot::AllocatorSettings;
#[cfg(not(feature = "simulate"))]
use ptmem::snapshot::Event;
use ptmem::stack::{GroupBy, Grouper};
use ptmem_base::json_writer;
use serde::Serialize;

use crate::cli::args::{ConfigArguments, DeviceArguments, StudyView, heading};
use crate::cli::output::{self, Output};
use crate::cli::{config, input, modes};
use allocator::{RequestHistory, SettingsStudy};
#[cfg(feature = "simulate")]
use repeat::tried;

/// Value of `--python` that leaves the settings out.
const NO_PYTHON: &str = "none";

/// Show which allocator settings would have reserved less, and which blocks pin memory
///
/// Repeats the recorded requests on the allocator of the PyTorch in this environment, on a simulated card: first with the
/// recorded settings, to check that they lead to the recorded memory, then with others. Also lists the segments
/// that are mostly free at the reserved peak, and the stacks of the blocks that keep them; this needs no PyTorch.
#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// The snapshot; - is standard input
    snapshot: PathBuf,
    /// Try these settings, as in PYTORCH_CUDA_ALLOC_CONF, instead of the usual ones. Repeatable
    #[arg(long, value_name = "TEXT", help_heading = heading::COMPARED)]
    settings: Vec<String>,
    /// Do not try this setting, such as expandable_segments, which an environment may forbid. Repeatable
    #[arg(long, value_name = "NAME", value_parser = forbidden, conflicts_with = "settings", help_heading = heading::COMPARED)]
    without: Vec<String>,
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
    arguments.require_used()?;
    let config = config::load(&arguments.config)?;
    let name = arguments.snapshot.display().to_string();
    for text in &arguments.settings {
        text.parse::<AllocatorSettings>().context("--settings")?;
    }
    output::check_exports(&arguments.view.export, [&*arguments.snapshot].into_iter().chain(arguments.config.file()))?;
    let reading = config.reading();
    let (snapshot, source) = match input::open(&arguments.snapshot, &reading)? {
        Opened::Snapshot(snapshot, source) => (snapshot, source),
        Opened::Profile(profile) => {
            let what = if profile.is_numbers() { "has only figures, and" } else { "is a saved profile, which has" };
            bail!("{name}: {what} no addresses of blocks; expected a snapshot");
        }
    };
    let mut of_devices = Vec::new();
    for (&id, device) in snapshot.devices.iter().filter(|(id, _)| id.is_device()) {
        if arguments.device.is_none_or(|asked| id == DeviceId::Ordinal(asked)) {
            let replay =
                replay::run_with(&snapshot, id, device, WantedResults { layout: true, ..WantedResults::default() })?;
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
    let mut study = SettingsStudy {
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
        let recording = RequestHistory::new(&snapshot, of_device, &replay).context(name);
        match recording.and_then(|of| tried(arguments, of, snapshot.events_of(of_device), &study, memory)) {
            Ok(mut trial) => {
                trial.advice = allocator::advice(&study, &trial);
                study.trial = Some(trial);
            }
            Err(error) => failure = Some(error),
        }
    }
    arguments.view.write(&study, output)?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[cfg(not(feature = "simulate"))]
fn tried(_: &SettingsArguments, _: RequestHistory, _: &[Event], _: &SettingsStudy, _: Option<u64>) -> Result<Trial> {
    bail!("this ptmem was built without simulated GPUs, on which settings are tried; --python none leaves them out")
}

/// Checks the name of a setting that is not to be tried.
#[cfg(feature = "simulate")]
fn forbidden(name: &str) -> Result<String, String> {
    let names = repeat::names();
    let listed: Vec<&str> = names.iter().copied().collect();
    names
        .contains(name)
        .then(|| name.to_owned())
        .ok_or_else(|| format!("expected one of those that are tried: {}", listed.join(", ")))
}

#[cfg(not(feature = "simulate"))]
fn forbidden(name: &str) -> Result<String, String> {
    Ok(name.to_owned())
}

/// The settings as `PYTORCH_CUDA_ALLOC_CONF` would state them.
fn text_of(settings: &AllocatorSettings) -> String {
    let mut text = settings.all.get("PYTORCH_CUDA_ALLOC_CONF").cloned().unwrap_or_default();
    if settings.expandable_segments && !text.contains("expandable_segments") {
        text = format!("{text}{}expandable_segments:True", if text.is_empty() { "" } else { "," });
    }
    text
}

impl SettingsArguments {
    /// Refuses options that are unused where no settings are tried.
    fn require_used(&self) -> Result<()> {
        if self.python.as_os_str() != NO_PYTHON {
            return Ok(());
        }
        let options = [
            ("--settings", !self.settings.is_empty()),
            ("--without", !self.without.is_empty()),
            ("--device-memory", self.memory.is_given()),
        ];
        modes::refuse_given(&options, "no settings are tried")
    }
}

/// The JSON report.
#[derive(Serialize)]
struct SettingsReport<'a> {
    schema: &'static str,
    tool: Tool,
    #[serde(flatten)]
    study: &'a SettingsStudy,
}

impl Report for SettingsStudy {
    fn model(&self, options: &RenderOptions) -> View {
        view::view(self, options)
    }

    fn json(&self, _: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json_writer::write(&SettingsReport { schema: "ptmem.settings/1", tool: Tool(), study: self }, out)
    }
}
