//! `ptmem profile`: writes the compact profile of a snapshot.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::device::DeviceId;
use ptmem::profile::{self, InputKind, saved};
use ptmem::units::Size;

use super::args::{ConfigArguments, heading};
use super::input;
use super::{config, output};

#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// The snapshot, or a profile to rewrite; - is standard input
    snapshot: PathBuf,
    #[command(flatten)]
    config: ConfigArguments,
    /// Keep only this device, by its number in the snapshot [default: all]
    #[arg(long, value_name = "N", help_heading = heading::KEPT)]
    device: Option<DeviceId>,
    /// The file to write, such as baseline.ptmem.json; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = heading::OUTPUT)]
    output: PathBuf,
}

pub(super) fn run(arguments: ProfileArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let options = profile::ReadOptions { rules: config.rules.clone(), device: arguments.device, ..config.reading() };
    output::require_folder(&arguments.output)?;
    let profile = input::profile(&arguments.snapshot, &options)?;
    if profile.source.kind != InputKind::Profile && output::is_same_file(&arguments.snapshot, &arguments.output) {
        bail!("{}: is the snapshot itself; expected another file to write to", arguments.output.display());
    }
    if arguments.output.as_os_str() == "-" {
        let text = saved::text_of(&profile, &profile.raises).map_err(profile::ProfileError::from)?;
        output.write(&arguments.output, |out| out.write_all(text.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let bytes = saved::bytes_of(&profile, &profile.raises).map_err(profile::ProfileError::from)?;
    output.write(&arguments.output, |out| out.write_all(&bytes))?;
    let [written, read] = [bytes.len() as u64, profile.source.bytes].map(Size);
    let packed =
        if bytes.starts_with(b"{") { "" } else { ", compressed: as text it would be larger than the snapshot" };
    output::print_note(&format!("{}: wrote {written}, from {read}{packed}", arguments.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes the profile of a snapshot to a file.
#[cfg(feature = "simulate")]
pub(super) fn save(snapshot: &std::path::Path, file: &std::path::Path, config: &ptmem::config::Config) -> Result<()> {
    let options = profile::ReadOptions { rules: config.rules.clone(), ..config.reading() };
    let profile = input::profile(snapshot, &options)?;
    output::write_file(file, &saved::bytes_of(&profile, &profile.raises).map_err(profile::ProfileError::from)?)
}
