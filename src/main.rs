//! The program `ptmem`. In the Python package it starts `ptmem-gate` beside it, so that the package holds the tool
//! once.

#[cfg(not(feature = "wheel"))]
mod cli;
#[cfg(feature = "wheel")]
mod launch;
#[cfg(not(feature = "wheel"))]
mod leaves;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "wheel")]
    return launch::run();
    #[cfg(not(feature = "wheel"))]
    cli::run()
}
