//! `ptmem check`: gates one snapshot, or those of the ranks of a job, by absolute limits.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::config::Config;
use ptmem::verdict::{Limits, Maximum};

use super::args::{Capacity, ConfigArguments, StackArguments, Trust, ViewArguments, heading};
use super::exit::exit_code;
use super::output::Output;
use super::place::StartFolder;
use super::report::report_options;
use super::{config, ranks};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    #[arg(
        long,
        value_name = "[METRIC=]SIZE",
        allow_hyphen_values = true,
        help_heading = heading::LIMITS,
        help = format!(
            "Fail when METRIC (default: peak) exceeds SIZE. Repeatable; at least one, here or in ptmem.toml. Metrics: {}",
            Maximum::accepted()
        )
    )]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: StackArguments,
    #[command(flatten)]
    pub(crate) view: ViewArguments,
}

impl CheckArguments {
    /// The limits of the command line and of a configuration: there is no before, so there is no growth.
    fn limits(&self, config: &Config) -> Limits {
        let strict = self.trust.strict.then_some(true);
        let limits = Limits { maximum: self.max.clone(), strict, ..Limits::default() };
        Limits { growth: Vec::new(), ..self.capacity.limits(limits).over(&config.limits) }
    }
}

/// Reads, judges and reports.
pub(super) fn run(arguments: &CheckArguments, output: &Output) -> Result<ExitCode> {
    let CheckArguments { snapshot, trust, stacks, view, .. } = arguments;
    let config = config::load(&arguments.config)?;
    let found = ranks::find(snapshot)?;
    ranks::check_exports(view, snapshot, found.as_deref())?;
    let limits = arguments.limits(&config);
    let thresholds = limits.thresholds()?;
    if !thresholds.limits_anything() {
        bail!("nothing to check: give a limit, such as --max reserved=75GiB, here or as [max] in ptmem.toml");
    }
    let options = stacks.options_of_one(&config, view, found.is_some())?;
    let checked = ranks::readings(snapshot, found.as_deref(), Some(&thresholds), view, &options)?;
    let mut options = report_options(view, output);
    options.device_memory = limits.memory();
    view.write(&StartFolder::here(), &checked, &mut options, output)?;
    Ok(exit_code(checked.verdict(), trust.exit_zero))
}
