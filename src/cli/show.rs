//! `ptmem show`: the figures and stacks of a snapshot, or of the ranks of a job.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::pattern::Pattern;
use ptmem::profile::{self, Every};

use super::args::{ConfigArguments, DeviceArguments, StackArguments, TreeArguments, ViewArguments, heading};
use super::output::Output;
use super::place::StartFolder;
use super::report::report_options;
use super::{config, modes, ranks};

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    snapshot: PathBuf,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    stacks: StackArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    phases: ShowPhases,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    device: DeviceArguments,
    #[command(flatten)]
    tree: TreeArguments,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    view: ViewArguments,
}

/// Phases and equal parts of one history.
#[derive(Debug, Args)]
pub(crate) struct ShowPhases {
    /// List the phases of the history: annotations (record_function), metadata and compile contexts
    #[arg(long)]
    pub(crate) phases: bool,
    /// Show the peak of every part of the history of this length: 10steps, 1000events, 500ms, 1s
    #[arg(long, value_name = "LENGTH", value_parser = Every::from_str)]
    every: Option<Every>,
    /// With --every Nsteps: begin a step at every annotation, metadata or compile context whose name matches; part of
    /// the name, or a glob [default: the steps of 'ptmem leak']
    #[arg(long, value_name = "PATTERN", requires = "every", value_parser = Pattern::search_code)]
    step: Option<Pattern>,
}

impl ShowPhases {
    /// The parts that the history is to be divided into.
    pub(crate) fn every(&self) -> Result<Option<Every>> {
        match (self.every.clone(), self.step.clone()) {
            (Some(Every::Steps(length, _)), step) => Ok(Some(Every::Steps(length, step))),
            (every, None) => Ok(every),
            (_, Some(_)) => {
                bail!("--step requires --every with a number of steps, such as --every 1step")
            }
        }
    }
}

impl ShowArguments {
    /// Refuses options about stacks where the call tree takes their place in all requested formats.
    fn require_used(&self) -> Result<()> {
        if self.tree.options().is_none() || self.view.lists_stacks_beside_tree() {
            return Ok(());
        }
        let options = [("--group-by", self.stacks.grouping.is_of_rows()), ("--source", self.view.source)];
        modes::refuse_given(&options, "the call tree takes the place of the stacks")
    }
}

pub(super) fn run(arguments: ShowArguments, output: &Output) -> Result<ExitCode> {
    arguments.require_used()?;
    let config = config::load(&arguments.config)?;
    let found = ranks::find(&arguments.snapshot)?;
    ranks::check_exports(&arguments.view, &arguments.snapshot, found.as_deref())?;
    let of_profile = arguments.stacks.options_of_one(&config, &arguments.view, found.is_some())?;
    let of_profile = profile::ReadOptions { every: arguments.phases.every()?, ..of_profile };
    let mut options = report_options(&arguments.view, output);
    options.phases = arguments.phases.phases;
    options.skip_first = config.skip_first;
    options.device_memory = arguments.device.memory(&config);
    options.tree = arguments.tree.options();
    let mut readings = ranks::readings(&arguments.snapshot, found.as_deref(), None, &arguments.view, &of_profile)?;
    if let Some(only) = readings.only_mut() {
        only.profile.note_lack_of_modules();
    }
    arguments.view.write(&StartFolder::here(), &readings, &mut options, output)?;
    Ok(ExitCode::SUCCESS)
}
