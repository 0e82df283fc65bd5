//! `ptmem fit`: the largest number that fits on a card, and how memory scales with it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use ptmem::profile::ReadOptions;
use ptmem::report::{self, Subject};
use ptmem::scale::{MeasuredRun, Options, Scale};

use super::args::{ConfigArguments, DeviceArguments, Grouping, StudyView, heading};
use super::output::{self, Output};
use super::{config, input, many};
#[cfg(feature = "simulate")]
use super::{recorder::RecordArguments, search::fitting::Fitting};

/// Minimum number of runs that distinguishes a line from a parabola.
const FEWEST_RUNS: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// With a command, the numbers to search, such as batch=1..4096, or seq=128..8192/128 in steps of 128. Otherwise
    /// recordings with the number of each: batch: 8=a.pkl 16=b.pkl 32=c.pkl
    #[arg(required = true, value_name = "NUMBERS")]
    numbers: Vec<String>,
    #[cfg(feature = "simulate")]
    #[command(flatten)]
    record: RecordArguments,
    /// Predict the peak at this number. Repeatable [default for recordings: twice the largest]
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
    let reading = arguments.grouping.reading(&config, &arguments.view.input);
    let options = Options { at: arguments.at_x.clone(), device_memory: arguments.device.memory(&config) };
    let scales = scales(arguments, &reading, options)?;
    arguments.view.write(Subject::Study(report::Study::Scale(&scales)), output)?;
    Ok(ExitCode::SUCCESS)
}

fn scales(arguments: &FitArguments, reading: &ReadOptions, options: Options) -> Result<Vec<Scale>> {
    #[cfg(feature = "simulate")]
    if !arguments.record.command.is_empty() {
        output::check_exports(&arguments.view.export, [].into_iter())?;
        return Fitting { record: &arguments.record, reading, options }.all(&arguments.numbers);
    }
    Ok(vec![extrapolated(arguments, reading, options)?])
}

/// The fit of recordings.
fn extrapolated(arguments: &FitArguments, reading: &ReadOptions, mut options: Options) -> Result<Scale> {
    let (name, runs) = recordings(&arguments.numbers)?;
    output::check_exports(&arguments.view.export, runs.iter().map(|run| Path::new(&run.path)))?;
    let farthest = runs.last().map_or(1.0, |run| run.x);
    if options.at.is_empty() {
        options.at.push(2.0 * farthest);
    }
    let profiles = runs.iter().map(|run| input::profile(run.path.as_ref(), reading)).collect::<Result<Vec<_>>>()?;
    let scale = Scale::new(name, runs, &profiles, &options);
    if scale.devices.is_empty() {
        bail!("no run allocated anything on any device; expected snapshots of recordings");
    }
    Ok(scale)
}

/// The name of the number, and the runs in its order.
fn recordings(words: &[String]) -> Result<(String, Vec<MeasuredRun>)> {
    let name = words[0].strip_suffix(':');
    let mut runs: Vec<MeasuredRun> = Vec::new();
    for word in &words[usize::from(name.is_some())..] {
        let run =
            word.split_once('=').and_then(|(x, path)| Some(MeasuredRun { path: path.to_owned(), x: place(x).ok()? }));
        let run = run.with_context(|| {
            format!(
                "{word}: expected a number above 0 and its recording, such as 8=a.pkl, or a range and a command, such as batch=1..4096 -- \
                 python train.py --batch-size {{batch}}"
            )
        })?;
        if runs.iter().any(|earlier| output::is_same_file(&PathBuf::from(&earlier.path), run.path.as_ref())) {
            bail!("{}: is given twice; expected different runs", run.path);
        }
        runs.push(run);
    }
    runs.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut places: Vec<f64> = runs.iter().map(|run| run.x).collect();
    places.dedup();
    if places.len() < FEWEST_RUNS {
        bail!("{} given; expected recordings of three or more", many(places.len(), "different number"));
    }
    Ok((name.unwrap_or("x").to_owned(), runs))
}
