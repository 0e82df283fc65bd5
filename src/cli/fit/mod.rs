//! `ptmem fit`: the largest number that fits on a card, and how memory scales with it.

#[cfg(feature = "simulate")]
mod record;
#[cfg(any(feature = "simulate", test))]
mod search;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::report::Subject;
use ptmem::scale::{self, Run, Scale};

use super::args::{ConfigArguments, DeviceArguments, Grouping, StudyView, heading};
use super::output::{self, Output};
use super::{config, input, many};

/// Minimum number of runs that distinguishes a line from a parabola.
const FEWEST_RUNS: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// The number to search, such as batch=1..4096; or snapshots or saved profiles of three or more runs that differ in one number
    #[arg(required = true, value_name = "SNAPSHOT")]
    snapshots: Vec<PathBuf>,
    /// The simulated card on which the command runs, such as h100; its memory is that of --device-memory, where given
    #[arg(long, value_name = "NAME", default_value = "a100", help_heading = heading::SCALED)]
    gpu: String,
    /// Steps of the optimizer to run and record, as N or A..B; 'all' runs the command to its end
    #[arg(long, value_name = "STEPS", default_value = "3", help_heading = heading::SCALED)]
    steps: String,
    /// The command to run, after --, with {NAME} in place of the number
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "x")]
    command: Vec<String>,
    /// The number in each run, in the order of the files, such as 128,256,512
    #[arg(long, value_name = "NUMBERS", required_unless_present = "command", value_delimiter = ',', value_parser = place, help_heading = heading::SCALED)]
    x: Vec<f64>,
    /// Predict the peak at this number. Repeatable [default: twice the largest]
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = place, help_heading = heading::SCALED)]
    at_x: Vec<f64>,
    #[command(flatten, next_help_heading = heading::SCALED)]
    device: DeviceArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    grouping: Grouping,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    view: StudyView,
}

/// Reads a number that was varied.
fn place(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0, such as 256".to_owned())
}

pub(super) fn run(arguments: &FitArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let is_search = !arguments.command.is_empty();
    let runs = if is_search {
        searched(arguments, arguments.device.memory(&config).map(|memory| memory.bytes))?
    } else {
        runs(arguments)?
    };
    if is_search && runs.len() < FEWEST_RUNS {
        output::print_note("fewer than three runs fit: no curve of them is drawn");
        return Ok(ExitCode::SUCCESS);
    }
    output::check_exports(&arguments.view.export, arguments.snapshots.iter().map(PathBuf::as_path))?;
    let reading = arguments.grouping.reading(&config, &arguments.view.input);
    let farthest = runs.last().map_or(1.0, |run| run.x);
    let at = if arguments.at_x.is_empty() { vec![2.0 * farthest] } else { arguments.at_x.clone() };
    let device_memory = arguments.device.memory(&config);
    let profiles = runs.iter().map(|run| input::profile(run.path.as_ref(), &reading)).collect::<Result<_>>()?;
    let scale = Scale::new(runs, profiles, &scale::Options { at, device_memory });
    if scale.devices.is_empty() {
        bail!("no run allocated anything on any device; expected snapshots of recordings");
    }
    arguments.view.write(Subject::Scale(&scale), output)?;
    Ok(ExitCode::SUCCESS)
}

/// The runs of a search that fit.
#[cfg(feature = "simulate")]
fn searched(arguments: &FitArguments, memory: Option<u64>) -> Result<Vec<Run>> {
    let [range] = &arguments.snapshots[..] else {
        bail!(
            "one number can be searched at a time; fix the others in the command, and search them one after the other"
        );
    };
    let FitArguments { gpu, steps, command, .. } = arguments;
    record::Varied { range: &range.to_string_lossy(), command, gpu, steps, memory }.search()
}

#[cfg(not(feature = "simulate"))]
fn searched(_: &FitArguments, _: Option<u64>) -> Result<Vec<Run>> {
    bail!("this ptmem was built without simulated GPUs, on which the command would run; give recordings and --x")
}

/// The runs in the order of the number that was varied.
fn runs(arguments: &FitArguments) -> Result<Vec<Run>> {
    let FitArguments { snapshots, x, .. } = arguments;
    if snapshots.len() != x.len() {
        bail!("--x has {} for {}; expected one for each file", many(x.len(), "number"), many(snapshots.len(), "file"));
    }
    if snapshots.len() < FEWEST_RUNS {
        bail!("{} given; expected three or more runs with different numbers", many(snapshots.len(), "file"));
    }
    for (at, path) in snapshots.iter().enumerate() {
        if snapshots[..at].iter().any(|earlier| output::is_same_file(earlier, path)) {
            bail!("{}: is given twice; expected different runs", path.display());
        }
    }
    let runs = snapshots.iter().zip(x).map(|(path, &x)| Run { path: path.display().to_string(), x });
    let mut runs: Vec<Run> = runs.collect();
    runs.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut places: Vec<f64> = runs.iter().map(|run| run.x).collect();
    places.dedup();
    if places.len() < FEWEST_RUNS {
        bail!("--x has {}; expected three or more different numbers", many(places.len(), "different number"));
    }
    Ok(runs)
}
