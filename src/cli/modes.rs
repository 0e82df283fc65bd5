//! Options that a command does not use with the other arguments: refused, or named where the command line is that of a comparison
//! whose before is missing.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use ptmem::report::Format;

use super::args::Export;
use super::output;
use super::settings::NO_PYTHON;

/// Arguments with which a command does not use some of its options.
struct Mode {
    /// The command; `None` where it is any.
    command: Option<&'static str>,
    applies: fn(&ArgMatches) -> bool,
    unused: &'static [&'static str],
    because: &'static str,
    is_refused: bool,
}

const MODES: [Mode; 6] = [
    Mode {
        command: Some("diff"),
        applies: |given| has(given, "no_before") && !has(given, "after"),
        unused: &["max_growth", "warn_growth", "min_delta", "all", "explain", "allow_partial", "no_acceptance"],
        because: "there is no before",
        // The same command line compares once the before is there.
        is_refused: false,
    },
    Mode {
        command: Some("diff"),
        applies: |given| !has(given, "no_before") || has(given, "after"),
        unused: &["first"],
        because: "there is a before",
        is_refused: true,
    },
    Mode {
        command: Some("diff"),
        applies: |given| !has(given, "update"),
        unused: &["allow_raise"],
        because: "no profile is rewritten without --update",
        is_refused: true,
    },
    Mode {
        command: Some("fit"),
        applies: |given| !has(given, "command"),
        unused: &["gpu", "steps", "world_size"],
        because: "no command is run",
        is_refused: true,
    },
    Mode {
        command: Some("settings"),
        applies: |given| given.get_one::<PathBuf>("python").is_some_and(|python| python.as_os_str() == NO_PYTHON),
        unused: &["settings", "device_memory"],
        because: "no settings are tried",
        is_refused: true,
    },
    Mode {
        command: None,
        applies: has_no_markdown,
        unused: &["max_bytes", "comment_key", "picture"],
        because: "no report is written as Markdown",
        is_refused: true,
    },
];

fn has(given: &ArgMatches, argument: &str) -> bool {
    given.try_contains_id(argument).unwrap_or(false) && given.value_source(argument) == Some(ValueSource::CommandLine)
}

/// Whether a command writes reports, and none of them as Markdown.
fn has_no_markdown(given: &ArgMatches) -> bool {
    let Ok(exports) = given.try_get_many::<Export>("export") else { return false };
    let exports = exports.into_iter().flatten().map(|export| &export.format);
    !exports.chain(given.get_one("format")).any(|format| matches!(format, Format::Markdown | Format::Brief))
}

/// Refuses an option that the command does not use with the others.
pub(super) fn require_used(arguments: &ArgMatches) -> Result<()> {
    let Some((command, given)) = arguments.subcommand() else { return Ok(()) };
    for mode in MODES.iter().filter(|mode| mode.command.is_none_or(|of| of == command) && (mode.applies)(given)) {
        let unused = mode.unused.iter().filter(|option| has(given, option));
        let unused: Vec<_> = unused.map(|option| format!("--{}", option.replace('_', "-"))).collect();
        match (unused.is_empty(), mode.is_refused) {
            (true, _) => {}
            (false, true) => return refuse(&unused.join(", "), mode.because),
            (false, false) => output::print_note(&format!("not used, because {}: {}", mode.because, unused.join(", "))),
        }
    }
    Ok(())
}

/// Refuses an option that is unused because of the contents of the files.
pub(super) fn refuse(option: &str, because: &str) -> Result<()> {
    bail!("{option}: not used, because {because}; leave it out")
}
