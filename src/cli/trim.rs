//! `ptmem trim`: cuts a snapshot to a part that PyTorch's own viewer opens.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ptmem::device::DeviceId;
use ptmem::profile::{Moment, Opened};
use ptmem::trim::{self, Trimmed};
use ptmem::units::{Size, parse_size};

use super::args::{ConfigArguments, InputArguments, heading};
use super::{config, input, output};

#[derive(Debug, Args)]
pub(crate) struct TrimArguments {
    /// The snapshot; - is standard input
    snapshot: PathBuf,
    /// Keep the history between two moments: event:N (or N), time:SECONDS, phase:NAME[#N]:start, :peak or :end,
    /// baseline, peak, oom or end; either may be left out
    #[arg(long, value_name = "MOMENT..MOMENT", value_parser = trim::between, help_heading = heading::KEPT)]
    between: Option<[Moment; 2]>,
    /// Keep this device. Repeatable [default: all]
    #[arg(long, value_name = "N", help_heading = heading::KEPT)]
    device: Vec<DeviceId>,
    /// Keep the longest window around the peak whose file is not larger than SIZE
    #[arg(long, value_parser = parse_size, value_name = "SIZE", help_heading = heading::KEPT)]
    max_bytes: Option<u64>,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::INPUT)]
    input: InputArguments,
    /// The file to write, such as small.pickle; - is standard output
    #[arg(long, short, value_name = "FILE", help_heading = heading::OUTPUT)]
    output: PathBuf,
}

pub(super) fn run(arguments: &TrimArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    output::require_folder(&arguments.output)?;
    let name = arguments.snapshot.display().to_string();
    if output::is_same_file(&arguments.snapshot, &arguments.output) {
        bail!("{name}: is the snapshot itself; expected another file to write to");
    }
    let reading = arguments.input.reading(&config);
    let Opened::Snapshot(snapshot, source) = input::open(&arguments.snapshot, &reading)? else {
        bail!("{name}: is a saved profile, which has no history to cut; expected a snapshot");
    };
    let options = trim::TrimOptions {
        between: arguments.between.clone(),
        devices: arguments.device.clone(),
        max_bytes: arguments.max_bytes,
    };
    let trimmed = trim::trim(&snapshot, &options).context(name)?;
    output.write_bytes(&arguments.output, &trimmed.bytes)?;
    tell(&trimmed, source.bytes);
    Ok(ExitCode::SUCCESS)
}

/// Prints to standard error how much of the snapshot is left.
fn tell(trimmed: &Trimmed, before: u64) {
    output::print_note(&format!("wrote {} of {}", Size(trimmed.bytes.len() as u64), Size(before)));
    for device in trimmed.devices.iter().filter(|device| device.events > 0) {
        let peak = device.peak.map_or("unknown".to_owned(), |peak| Size(peak).to_string());
        output::print_note(&format!(
            "{}: {} of {} events, from {} to {}; allocated peak {} of {peak}",
            device.device,
            device.window.len(),
            device.events,
            device.window.start,
            device.window.end,
            Size(device.peak_within),
        ));
    }
}
