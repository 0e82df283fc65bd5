//! The program `ptmem-gate` of the Python package: the tool under a name that no other package installs.

mod cli;
mod leaves;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
