//! Arguments, reading inputs, output, exit code: what the library leaves to its user. Every command is a file or a folder.

// What only commands that record use, which need simulated GPUs.
#![cfg_attr(not(feature = "simulate"), allow(dead_code, unused_imports))]

mod advice;
pub(crate) mod args;
mod check;
pub(crate) mod checkout;
pub(crate) mod config;
pub(crate) mod diff;
mod errors;
pub(crate) mod exit;
#[cfg(feature = "simulate")]
mod gate;
pub(crate) mod git;
mod hint;
pub(crate) mod input;
mod leak;
pub(crate) mod logs;
mod manual;
pub(crate) mod modes;
pub(crate) mod output;
#[cfg(feature = "simulate")]
pub(crate) mod pip;
pub(crate) mod place;
mod profile;
mod progress;
pub(crate) mod ranks;
#[cfg(feature = "simulate")]
pub(crate) mod recorder;
pub(crate) mod report;
pub(crate) mod series;
mod show;
#[cfg(feature = "simulate")]
mod simulate;
mod sources;
mod surroundings;
#[cfg(unix)]
mod tool_environment;
pub(crate) mod words;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use clap::error::ContextKind;

use args::{Arguments, Command};
use exit::could_not_run;

/// Carries out the command line of this process.
pub(crate) fn run() -> ExitCode {
    #[cfg(unix)]
    tool_environment::stand_back();
    let words: Vec<OsString> = env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(error, &words),
    };
    match carry_out(arguments) {
        Ok(code) => code,
        Err(error) => {
            output::print_error(&errors::explained(&error));
            could_not_run(&words)
        }
    }
}

/// Prints the error of clap, or the help that it stands for, with a hint where one is known.
fn refuse(mut error: clap::Error, words: &[OsString]) -> ExitCode {
    let hint = hint::hint(&error, words);
    if hint.is_some() {
        // Do not suggest a different command or option because of similar letters.
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
    }
    // An error on standard error cannot be reported anywhere.
    let _ = error.print();
    if let Some(hint) = hint {
        output::print_note(&hint);
    }
    if error.exit_code() == 0 { ExitCode::SUCCESS } else { could_not_run(words) }
}

fn carry_out(arguments: Arguments) -> Result<ExitCode> {
    let output = output::Output::new(arguments.color);
    match arguments.command {
        #[cfg(feature = "simulate")]
        Command::Gate(arguments) => gate::run(&arguments, &output),
        Command::Diff(arguments) => diff::run(&arguments, &output),
        Command::Check(arguments) => check::run(&arguments, &output),
        Command::Leak(arguments) => leak::run(arguments, &output),
        Command::Show(arguments) => show::run(arguments, &output),
        Command::Profile(arguments) => profile::run(arguments, &output),
        #[cfg(feature = "simulate")]
        Command::Simulate(arguments) => simulate::run(&arguments, &output),
        #[cfg(feature = "simulate")]
        Command::StandIns(arguments) => simulate::add_stand_ins(&arguments),
        #[cfg(feature = "simulate")]
        Command::Pip(arguments) => pip::run(&arguments),
        Command::Leaf(leaf) => leaf.run(&output),
        Command::Completions { shell } => manual::completions(shell, &output),
        Command::Man { command } => manual::man(command.as_deref(), &output),
    }
}
