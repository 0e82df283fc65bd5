//! Walks over the opcodes of a pickle and does nothing else: the floor for the speed of reading it.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml --bin walk -- large.pkl
//! ```

#![allow(clippy::print_stdout, reason = "this is a program")]

#[path = "../walk/mod.rs"]
mod walk;

use std::fs::File;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("usage: walk FILE")?;
    let name = || format!("cannot read {}", path.display());
    let file = File::open(&path).with_context(name)?;
    let opcodes = walk::walk(file).with_context(name)?;
    println!("{opcodes} opcodes");
    Ok(())
}
