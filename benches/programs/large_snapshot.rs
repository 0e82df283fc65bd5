//! Writes a large, made-up snapshot in the shape of a real one, for measurements.
//!
//! ```text
//! cargo build --release --manifest-path benches/Cargo.toml
//! cd benches/target/release
//! ./large_snapshot 200MB large.pkl                                    # a training run
//! ./large_snapshot --events 20000000 long.pkl                         # 4 GB
//! ./large_snapshot --events 1600000 --ramp ramp.pkl                   # the peak rises to the very end
//! ./large_snapshot --events 1600000 --peaks peaks.pkl                 # nearly every allocation is a peak
//! ./large_snapshot --events 1600000 --devices 64 devices.pkl
//! ./large_snapshot --events 1600000 --stacks 100000 stacks.pkl
//! ./large_snapshot --events 400000 --depth 300 deep.pkl
//! ./large_snapshot --events 1600000 --expandable 50000 expandable.pkl # 300,000 ranges are mapped, and unmapped
//! ```

#![allow(clippy::print_stdout, reason = "this is a program")]

#[path = "../../tests/support/large/mod.rs"]
mod large;

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use large::Plan;
use ptmem_base::units::{Size, parse_size};

/// Write a large, made-up CUDA memory snapshot
#[derive(Debug, Parser)]
#[command(
    name = "large_snapshot",
    override_usage = "large_snapshot [OPTIONS] SIZE FILE\n       large_snapshot [OPTIONS] --events N FILE"
)]
struct Arguments {
    /// [SIZE] FILE: approximate size, such as 200MB (not with --events), and the file to write
    #[arg(required = true, num_args = 1..=2, value_names = ["SIZE", "FILE"])]
    target: Vec<PathBuf>,
    /// Number of events, instead of SIZE
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    events: Option<u64>,
    /// Number of distinct call stacks, if there are 8 events for each [default: 230, more for larger files]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    stacks: Option<u32>,
    /// Mean number of frames per stack
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u16).range(2..))]
    depth: u16,
    /// Number of devices that share the events
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    devices: u8,
    /// Make the peak rise to the very end
    #[arg(long)]
    ramp: bool,
    /// Make nearly every allocation a new peak
    #[arg(long, conflicts_with_all = ["ramp", "expandable"])]
    peaks: bool,
    /// Use expandable segments, and map and unmap this many ranges in every step
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100_000))]
    expandable: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let depth = usize::from(arguments.depth);
    let (mut plan, path) = match (arguments.events, &arguments.target[..]) {
        (None, [size, path]) => {
            let text = size.to_string_lossy();
            (Plan::of_size(parse_size(&text).with_context(|| format!("the size '{text}'"))?, depth), path)
        }
        (Some(events), [path]) => (Plan { depth, ..Plan::of_events(events) }, path),
        (None, _) => bail!("expected SIZE and FILE, such as 200MB large.pkl, or --events N and FILE"),
        (Some(_), _) => bail!("--events replaces SIZE; expected only FILE"),
    };
    plan.devices = u64::from(arguments.devices);
    plan.ramp = arguments.ramp;
    plan.peaks = arguments.peaks;
    plan.expandable = arguments.expandable;
    if let Some(stacks) = arguments.stacks {
        plan.stacks = usize::try_from(stacks)?;
    }
    // All are mapped and unmapped before the first step, and again in it.
    let least = 16 * plan.expandable * plan.devices;
    if plan.events < least {
        bail!("{} events are too few for --expandable {}; expected {least} or more", plan.events, plan.expandable);
    }

    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    large::write(&plan, &file).with_context(|| format!("cannot write {}", path.display()))?;
    let bytes = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?.len();
    println!("{}: {}, about {} events, {} stacks", path.display(), Size(bytes), plan.events, plan.stacks);
    Ok(())
}
