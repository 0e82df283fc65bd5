//! The program `ptmem-gate` of the Python package: the tool under a name that no other package installs.

mod cli;
mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run()
}
