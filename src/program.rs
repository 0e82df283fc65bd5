//! The command line: parse, run, exit code.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::cli;

/// Carries out the command line of this process.
pub(crate) fn run() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let arguments = match cli::args::Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error, &words),
    };
    match cli::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            cli::output::print_error(&cli::hint::explained(&error));
            ExitCode::from(cli::COULD_NOT_RUN)
        }
    }
}

/// Prints the error of clap, or the help that it stands for, with a hint where one is known.
fn refuse(error: &clap::Error, words: &[OsString]) -> ExitCode {
    // An error on standard error cannot be reported anywhere.
    let _ = error.print();
    if let Some(hint) = cli::hint::hint(error, words) {
        cli::output::print_note(&hint);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(cli::COULD_NOT_RUN))
}
