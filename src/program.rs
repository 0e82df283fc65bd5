//! The command line: parse, run, exit code.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ContextKind;

use crate::cli;

/// Carries out the command line of this process.
pub(crate) fn run() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let arguments = match cli::args::Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(error, &words),
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
fn refuse(mut error: clap::Error, words: &[OsString]) -> ExitCode {
    let hint = cli::hint::hint(&error, words);
    if hint.is_some() {
        // The command whose letters are alike is another one.
        error.remove(ContextKind::SuggestedSubcommand);
    }
    // An error on standard error cannot be reported anywhere.
    let _ = error.print();
    if let Some(hint) = hint {
        cli::output::print_note(&hint);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(cli::COULD_NOT_RUN))
}
