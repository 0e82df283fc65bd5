//! Options that a command does not use with the other arguments: refused.

use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;

/// Arguments with which a command does not use some of its options.
struct Mode {
    command: &'static str,
    applies: fn(&ArgMatches) -> bool,
    unused: &'static [&'static str],
    because: &'static str,
}

const MODES: [Mode; 1] = [Mode {
    command: "diff",
    applies: |given| !has(given, "update"),
    unused: &["allow_raise"],
    because: "no profile is rewritten without --update",
}];

/// Of an argument that the command lacks, clap is asked by its list of values alone: to other questions, a release build gives other
/// answers than a debug build.
fn has(given: &ArgMatches, argument: &str) -> bool {
    given.ids().any(|id| id == argument) && given.value_source(argument) == Some(ValueSource::CommandLine)
}

/// Refuses an option that the command does not use with the others.
pub(super) fn require_used(arguments: &ArgMatches) -> Result<()> {
    let Some((command, given)) = arguments.subcommand() else { return Ok(()) };
    for mode in MODES.iter().filter(|mode| mode.command == command && (mode.applies)(given)) {
        let unused = mode.unused.iter().filter(|option| has(given, option));
        let unused: Vec<_> = unused.map(|option| format!("--{}", option.replace('_', "-"))).collect();
        if !unused.is_empty() {
            return refuse(&unused.join(", "), mode.because);
        }
    }
    Ok(())
}

/// Refuses an option that is unused because of the contents of the files.
pub(crate) fn refuse(option: &str, because: &str) -> Result<()> {
    bail!("{option}: not used, because {because}; leave it out")
}

#[cfg(all(test, feature = "simulate"))]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::args::Arguments;

    #[test]
    fn each_mode_names_options_of_its_command() {
        let all = Arguments::command();
        for mode in MODES {
            let command = all.find_subcommand(mode.command).unwrap();
            let options: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
            assert!(mode.unused.iter().all(|option| options.contains(option)), "{}: {options:?}", mode.command);
        }
    }
}
