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
use ptmem::report::{RenderOptions, Report};
use ptmem_base::json_writer;

use crate::cli::args::StudyArguments;
use crate::cli::output::Output;
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
    mut_arg("device_memory", |memory| memory.visible_alias("memory").help(
        "Memory of the card, such as 20GiB, where that is not the memory of --gpu"
    )),
    override_usage = "ptmem fit [OPTIONS] <NAME=FROM..TO[/STEP]>... -- <COMMAND>..."
)]
pub(crate) struct FitArguments {
    /// The numbers to search, such as batch=1..4096, or seq=128..8192/128 in steps of 128
    #[arg(required = true, value_name = "NUMBERS")]
    numbers: Vec<String>,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten, next_help_heading = "What is searched")]
    study: StudyArguments,
}

pub(super) fn run(arguments: &FitArguments, output: &Output) -> Result<ExitCode> {
    let (reading, memory) = arguments.study.reading([].into_iter())?;
    let searches = Fitting { record: &arguments.record, reading: &reading, memory }.all(&arguments.numbers)?;
    arguments.study.view.write(&Searches(searches), output)?;
    Ok(ExitCode::SUCCESS)
}

/// The search for each number.
#[derive(Debug)]
struct Searches(Vec<NumberSearch>);

impl Report for Searches {
    fn model(&self, options: &RenderOptions) -> View {
        view::view(&self.0, options)
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json_writer::write(&json::FitReport(&self.0, options), out)
    }
}
