//! `ptmem fit`: the largest number that fits on a card.

mod fitting;
mod json;
mod numbers;
mod runs;
mod view;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ptmem::report::view::View;
use ptmem::report::{RenderOptions, Study, Subject};
use ptmem_base::json_writer;

use crate::cli::args::{ConfigArguments, DeviceArguments, Grouping, StudyView, heading};
use crate::cli::config;
use crate::cli::output::{self, Output};
use crate::cli::recorder::RecordArguments;
use fitting::Fitting;
use runs::NumberSearch;

/// Find the largest batch size, or another number, that fits on a card
///
/// Runs the command on a simulated card with different numbers until it knows the largest that fits; of several
/// names, searches each with the others at their first number.
#[derive(Debug, Args)]
#[command(
    mut_arg("command", |command| command.required(true)),
    override_usage = "ptmem fit [OPTIONS] <NAME=FROM..TO[/STEP]>... -- <COMMAND>..."
)]
pub(crate) struct FitArguments {
    /// The numbers to search, such as batch=1..4096, or seq=128..8192/128 in steps of 128
    #[arg(required = true, value_name = "NUMBERS")]
    numbers: Vec<String>,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten, next_help_heading = "What is searched")]
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
    let reading = arguments.grouping.reading(&config);
    output::check_exports(&arguments.view.export, [].into_iter())?;
    let memory = arguments.device.memory(&config);
    let searches = Fitting { record: &arguments.record, reading: &reading, memory }.all(&arguments.numbers)?;
    arguments.view.write(Subject::Study(&Searches(searches)), output)?;
    Ok(ExitCode::SUCCESS)
}

/// The search for each number.
#[derive(Debug)]
struct Searches(Vec<NumberSearch>);

impl Study for Searches {
    fn view(&self, options: &RenderOptions) -> View {
        view::view(&self.0, options)
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json_writer::write(&json::FitReport(&self.0, options), out)
    }
}
