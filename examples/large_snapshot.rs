//! Writes a large snapshot that is made up, but shaped like a real one, to try programs on.
//!
//! ```text
//! cargo run --release --example large_snapshot -- 200MB large.pkl
//! cargo run --release --example large_snapshot -- --events 1600000 --ramp large.pkl
//! ```

#![allow(clippy::print_stdout, reason = "this is a program")]

#[path = "../benches/large/mod.rs"]
mod large;

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use large::Plan;
use ptmem::units::{Size, parse_size};

/// Write a large, made-up CUDA memory snapshot
#[derive(Debug, Parser)]
#[command(
    name = "large_snapshot",
    override_usage = "large_snapshot [OPTIONS] SIZE FILE\n       large_snapshot [OPTIONS] --events N FILE"
)]
struct Arguments {
    /// [SIZE] FILE: about how large, such as 200MB (not with --events), and where to write it
    #[arg(required = true, num_args = 1..=2, value_names = ["SIZE", "FILE"])]
    target: Vec<PathBuf>,
    /// How many events, in place of SIZE
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    events: Option<u64>,
    /// How many distinct call stacks; by default more for a larger file, from 230 on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    stacks: Option<u16>,
    /// How many frames a stack has on average
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u16).range(2..))]
    depth: u16,
    /// How many devices share the events
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    devices: u8,
    /// Let the peak rise to the very end
    #[arg(long)]
    ramp: bool,
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
        (Some(_), _) => bail!("--events stands in place of SIZE; expected FILE alone"),
    };
    plan.devices = u64::from(arguments.devices);
    plan.ramp = arguments.ramp;
    plan.stacks = arguments.stacks.map_or(plan.stacks, usize::from);

    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    large::write(&plan, &file).with_context(|| format!("cannot write {}", path.display()))?;
    let bytes = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?.len();
    println!("{}: {}, about {} events, {} stacks", path.display(), Size(bytes), plan.events, plan.stacks);
    Ok(())
}
