//! `ptmem fit`: the largest number that fits on a card.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ptmem::report::{self, Subject};

use super::args::{ConfigArguments, DeviceArguments, Grouping, StudyView, heading};
use super::config;
use super::output::{self, Output};
use super::recorder::RecordArguments;
use super::search::fitting::Fitting;

#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// The numbers to search, such as batch=1..4096, or seq=128..8192/128 in steps of 128
    #[arg(required = true, value_name = "NUMBERS")]
    numbers: Vec<String>,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten, next_help_heading = heading::SCALED)]
    device: DeviceArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    grouping: Grouping,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    view: StudyView,
}

pub(super) fn run(arguments: &FitArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let reading = arguments.grouping.reading(&config, &arguments.view.input);
    output::check_exports(&arguments.view.export, [].into_iter())?;
    let memory = arguments.device.memory(&config);
    let searches = Fitting { record: &arguments.record, reading: &reading, memory }.all(&arguments.numbers)?;
    arguments.view.write(Subject::Study(report::Study::Fit(&searches)), output)?;
    Ok(ExitCode::SUCCESS)
}
