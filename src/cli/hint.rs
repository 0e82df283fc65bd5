//! Hints for command lines that other tools would understand.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use strsim::osa_distance;

use super::args::Arguments;

/// Probable meaning of a command line that clap refuses.
pub(crate) fn hint(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => command(arguments),
        ErrorKind::UnknownArgument => {
            let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else { return None };
            key(found, arguments)
                .or_else(|| option(found, is_simulate(arguments)))
                .or_else(|| command_of_simulate(arguments))
                .or_else(|| further_file(found, arguments))
                .or_else(|| of_other_commands(found))
        }
        _ => None,
    }
}

/// The command for snapshots without one, and for words that mean the same.
fn command(arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let first = words.first()?;
    let mut commands = OTHER_COMMANDS.into_iter();
    // Also with a letter too many, missing or wrong, or two swapped.
    if let Some((meant, _)) = commands.find(|(_, names)| names.iter().any(|name| osa_distance(first, name) <= 1)) {
        return Some(meant.to_owned());
    }
    let files = words.iter().take_while(|word| is_file(word)).count();
    match files {
        0 => None,
        1 => Some(format!("to look at a snapshot: ptmem show {first}")),
        2 => Some(format!("to compare two snapshots: ptmem diff {first} {}", words[1])),
        _ => Some("to find leaks over several snapshots: ptmem leak SNAPSHOT...".to_owned()),
    }
}

/// Names of commands elsewhere, and the command that does the same.
const OTHER_COMMANDS: [(&str, &[&str]); 3] = [
    ("to compare two snapshots: ptmem diff BEFORE AFTER", &["compare", "cmp", "gate"]),
    ("to find leaks: ptmem leak SNAPSHOT...", &["leaks"]),
    ("to look at a snapshot: ptmem show SNAPSHOT", &["view", "report", "info"]),
];

/// Keys of `ptmem.toml` that may be taken for options.
const KEYS: [(&str, &str); 10] = [
    ("--allocator-settings", "allocator-settings = \"max_split_size_mb:64\""),
    ("--allow-oom", "allow-oom = true"),
    ("--allow-partial", "allow-partial = true"),
    ("--device-overhead", "device-overhead = \"2GiB\""),
    ("--match-ratio", "match-ratio = 0.75"),
    ("--max-input", "max-input = \"64GiB\""),
    ("--phase-occurrence", "phase-occurrence = \"max\""),
    ("--skip-first", "skip-first = 3"),
    ("--strip-prefix", "strip-prefix = \"/workspace\""),
    ("--unfold", "unfold = 1"),
];

/// The key for an option that a command on recordings does not have.
fn key(found: &str, arguments: &[OsString]) -> Option<String> {
    let name = found.split('=').next().unwrap_or(found);
    let of_recordings =
        arguments.get(1).is_some_and(|word| !["init", "pip", "simulate"].iter().any(|other| word == other));
    let (_, line) = KEYS.iter().find(|(option, _)| *option == name && of_recordings)?;
    Some(format!("{name} is a key of ptmem.toml: {line}"))
}

fn is_simulate(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == "simulate")
}

/// The hint for a command to simulate that no -- comes before.
fn command_of_simulate(arguments: &[OsString]) -> Option<String> {
    let has_dashes = arguments.iter().any(|word| word == "--");
    (is_simulate(arguments) && !has_dashes)
        .then(|| "put -- before the command to run: ptmem simulate [OPTIONS] -- python train.py".to_owned())
}

/// Ends of the names of snapshots and profiles.
const ENDS: [&str; 7] = [".pkl", ".pickle", ".pt", ".json", ".gz", ".zst", ".zstd"];

/// True for a file, also for one that is not there but has the name of a snapshot.
fn is_file(word: &str) -> bool {
    Path::new(word).exists() || ENDS.iter().any(|end| word.ends_with(end))
}

/// The hint for a file too many, which the shell most likely put in place of a pattern.
fn further_file(found: &str, arguments: &[OsString]) -> Option<String> {
    let files = arguments.iter().skip(1).filter(|word| is_file(&word.to_string_lossy())).count();
    (is_file(found) && files > 1).then(|| {
        "a glob without quotes becomes several files; for the ranks of a job put it in quotes, as in 'run/rank*.pkl'"
            .to_owned()
    })
}

/// The commands that have an option which this one lacks.
fn of_other_commands(found: &str) -> Option<String> {
    let name = found.split('=').next().unwrap_or(found);
    let long = name.strip_prefix("--")?;
    let all = Arguments::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    let having = commands.filter(|command| command.get_arguments().any(|option| option.get_long() == Some(long)));
    let names: Vec<String> = having.map(|command| format!("'ptmem {}'", command.get_name())).collect();
    let (last, others) = names.split_last()?;
    let others = if others.is_empty() { String::new() } else { format!("{} and ", others.join(", ")) };
    Some(format!("{name} is an option of {others}{last}"))
}

/// The option for words that mean the same.
fn option(found: &str, is_simulate: bool) -> Option<String> {
    let name = found.split('=').next().unwrap_or(found);
    let meant = match name {
        "--output" | "-o" if is_simulate => "write the recording by --record FILE, as in --record snapshot.pkl",
        _ if is_simulate => return None,
        "--threshold" | "--limit" | "--fail-on" | "--tolerance" => {
            "limits on growth are given by --max-growth, as in --max-growth 5%"
        }
        "--json" => "write JSON by --format json, or to a file by --export json=FILE",
        "--markdown" | "--md" => "write Markdown by --format markdown, or to a file by --export markdown=FILE",
        "--csv" => "write CSV by --format csv, or to a file by --export csv=FILE",
        "--output" | "-o" => "write a file by --export FORMAT=FILE, as in --export json=report.json",
        _ => return None,
    };
    Some(meant.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Command, Parser};
    use ptmem::config::Config;

    use super::*;

    /// The commands that read recordings, with the fewest arguments that they need.
    const COMMANDS: [&[&str]; 6] = [
        &["ptmem", "diff", "a", "b"],
        &["ptmem", "check", "a"],
        &["ptmem", "show", "a"],
        &["ptmem", "leak", "a"],
        &["ptmem", "profile", "a"],
        &["ptmem", "history", "a"],
    ];

    fn has_option(command: &Command, option: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == option.strip_prefix("--"))
    }

    #[test]
    fn keys_of_the_configuration_are_named() {
        for (name, line) in KEYS {
            for command in COMMANDS {
                let words: Vec<OsString> = command.iter().chain([&name]).map(OsString::from).collect();
                let error = Arguments::try_parse_from(&words).expect_err(name);
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{words:?}");
                assert_eq!(hint(&error, &words), Some(format!("{name} is a key of ptmem.toml: {line}")));
            }
            assert_ne!(Config::parse(line).expect(line), Config::default(), "{line}");
        }
    }

    #[cfg(feature = "simulate")]
    #[test]
    fn options_of_another_command_say_so() {
        let words = ["ptmem", "diff", "a", "b", "--allow-raise"].map(OsString::from);
        let error = Arguments::try_parse_from(&words).expect_err("no such option");
        assert_eq!(hint(&error, &words), Some("--allow-raise is an option of 'ptmem gate'".to_owned()));
        let negative = ["ptmem", "diff", "a", "b", "--top", "-1"].map(OsString::from);
        let error = Arguments::try_parse_from(&negative).expect_err("no such option");
        assert_eq!(hint(&error, &negative), None);
    }

    #[cfg(feature = "simulate")]
    #[test]
    fn a_word_of_another_tool_names_an_option_that_simulate_has() {
        let words = ["ptmem", "simulate", "--output", "a.pkl", "--", "true"].map(OsString::from);
        let error = Arguments::try_parse_from(&words).expect_err("no such option");
        let hint = hint(&error, &words).expect("a hint");
        let simulate = Arguments::command().find_subcommand("simulate").cloned().expect("a command");
        assert!(hint.contains("--record") && has_option(&simulate, "--record"), "{hint}");
    }
}
