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
use ptmem::budget::DeviceMemory;
use ptmem::report::view::View;
use ptmem::report::{RenderOptions, Report};
use ptmem::verdict::Limits;
use ptmem_base::json_writer;
use ptmem_simulate::Card;

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
    let FitArguments { numbers, record, study } = arguments;
    record.method.require_used()?;
    let (reading, config) = study.reading([].into_iter())?;
    let card = Card::named(record.method.gpu()).ok().filter(|_| record.method.is_simulated());
    let memory = memory(study.device.device_memory, record.method.gpu.is_some(), card, &config.limits);
    let allow_oom = config.limits.allow_oom.unwrap_or_default();
    let searches = Fitting { record, reading: &reading, card, memory, allow_oom }.all(numbers)?;
    arguments.study.view.write(&Searches(searches), output)?;
    Ok(ExitCode::SUCCESS)
}

/// The memory of the card: as the command line gives it, otherwise that of the card that it names; only without either as `ptmem.toml`
/// gives it.
fn memory(given: Option<u64>, is_named: bool, card: Option<Card>, config: &Limits) -> Option<DeviceMemory> {
    let of_card = card.map(|card| card.memory);
    let bytes = given.or(of_card.filter(|_| is_named)).or(config.device_memory).or(of_card)?;
    Some(DeviceMemory { bytes, overhead: config.device_overhead })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_decides_on_the_memory_and_the_configuration_on_the_overhead() {
        const GIB: u64 = 1 << 30;
        let config = Limits { device_memory: Some(80 * GIB), device_overhead: Some(2 * GIB), ..Limits::default() };
        let card = Card::named("t4").ok();
        let of_card = card.map(|card| card.memory);
        for (given, is_named, card, bytes) in [
            (Some(20 * GIB), true, card, Some(20 * GIB)),
            (None, true, card, of_card),
            (None, false, card, Some(80 * GIB)),
            (None, false, None, Some(80 * GIB)),
        ] {
            let expected = bytes.map(|bytes| DeviceMemory { bytes, overhead: Some(2 * GIB) });
            assert_eq!(memory(given, is_named, card, &config), expected);
        }
        assert_eq!(memory(None, false, card, &Limits::default()).map(|memory| memory.bytes), of_card);
    }
}
