//! `ptmem show`: the figures and stacks of a snapshot, or of the ranks of a job.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ptmem::profile;
use ptmem::report::{Format, Subject};

use super::args::{ConfigArguments, DeviceArguments, Stacks, TreeArguments, View, heading};
use super::input::{self, require_moment};
use super::output::Output;
use super::phases::ShowPhases;
use super::report::report_options;
use super::{config, ranks};

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    snapshot: PathBuf,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    stacks: Stacks,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    phases: ShowPhases,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    device: DeviceArguments,
    #[command(flatten)]
    tree: TreeArguments,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    view: View,
}

pub(super) fn run(arguments: ShowArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let found = ranks::find(&arguments.snapshot)?;
    ranks::check_exports(&arguments.view, &arguments.snapshot, found.as_deref())?;
    arguments.stacks.require_one_sided()?;
    let every = arguments.phases.every()?;
    let of_profile = profile::Options {
        every,
        layout: found.is_none() && arguments.view.formats().any(Format::has_pictures),
        ..arguments.stacks.profile_options(&config, &arguments.view)
    };
    let mut options = report_options(&arguments.view, output);
    options.phases = arguments.phases.phases;
    options.skip_first = arguments.phases.skip_first;
    options.device_memory = arguments.device.memory(&config);
    options.tree = arguments.tree.options();
    if let Some(found) = &found {
        let readings = ranks::readings(&arguments.snapshot, found, None, &arguments.view, &of_profile)?;
        arguments.view.write(Subject::Ranks(&readings), &mut options, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut profile = input::profile(&arguments.snapshot, &of_profile)?;
    profile.note_lack_of_modules();
    require_moment(&profile)?;
    arguments.view.write(Subject::Profile(&profile, None), &mut options, output)?;
    Ok(ExitCode::SUCCESS)
}
