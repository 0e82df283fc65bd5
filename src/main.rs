//! The `ptmem` command line: parse, run, exit code.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::args::Arguments::parse();
    match cli::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            cli::output::print_error(&error);
            ExitCode::from(cli::COULD_NOT_RUN)
        }
    }
}
