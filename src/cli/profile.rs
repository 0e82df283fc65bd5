//! `ptmem profile`: writes the compact profile of a snapshot.

use std::process::ExitCode;

use anyhow::{Result, bail};
use ptmem::profile::{self, Kind, saved};

use super::args::{self, ProfileArguments};
use super::input;
use super::{config, output};

pub(super) fn run(arguments: ProfileArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let rules = args::rules(&config, &arguments.strip_prefix);
    let options = profile::Options { rules, device: arguments.device, ..arguments.input.reading(&config) };
    output::require_folder(&arguments.output)?;
    let profile = input::profile(&arguments.snapshot, &options)?;
    if profile.source.kind != Kind::Profile && output::is_same_file(&arguments.snapshot, &arguments.output) {
        bail!("{}: is the snapshot itself; expected another file to write to", arguments.output.display());
    }
    let saved::Written { text, notes } = saved::write(&profile, &profile.raises)?;
    notes.iter().for_each(|note| output::print_note(&note.message));
    output.write(&arguments.output, |out| out.write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}
