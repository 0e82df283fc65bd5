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
            removed(found, arguments)
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
const OTHER_COMMANDS: [(&str, &[&str]); 4] = [
    ("'ptmem fit' has replaced 'ptmem scale': ptmem fit batch=1..4096 -- COMMAND {batch}", &["scale"]),
    ("to compare two snapshots: ptmem diff BEFORE AFTER", &["compare", "cmp", "gate"]),
    ("to find leaks: ptmem leak SNAPSHOT...", &["leaks"]),
    ("to look at a snapshot: ptmem show SNAPSHOT", &["view", "report", "info"]),
];

/// Former options, and what took their place: an option as it is typed, or a key of `ptmem.toml`.
pub(crate) const REMOVED: [(&str, &str); 14] = [
    ("--allocator-settings", "allocator-settings = \"max_split_size_mb:64\""),
    ("--allow-oom", "allow-oom = true"),
    ("--allow-partial", "allow-partial = true"),
    ("--between", "--at FROM..TO"),
    ("--depth", "--tree=N"),
    ("--device-overhead", "device-overhead = \"2GiB\""),
    ("--grep", "--focus PATTERN"),
    ("--match-ratio", "match-ratio = 0.75"),
    ("--max-input", "max-input = \"64GiB\""),
    ("--no-config", "--config none"),
    ("--phase-occurrence", "phase-occurrence = \"max\""),
    ("--skip-first", "skip-first = 3"),
    ("--strip-prefix", "strip-prefix = \"/workspace\""),
    ("--unfold", "unfold = 1"),
];

/// Former options of the commands that read recordings, and what `ptmem gate` does in their place.
const OF_GATE: [(&str, &str); 11] = [
    ("--allow-raise", "'ptmem gate NAME --update --allow-raise REASON' raises a stored before"),
    ("--approve-label", "'ptmem gate --approve-label LABEL' reads the labels of a pull request"),
    ("--comment-key", "'ptmem gate --ci' writes the comment of a pull request"),
    ("--first", "'ptmem gate' finds out itself whether a gate is new"),
    ("--git", "'ptmem gate' shows what a change edits of its own limits"),
    ("--max-bytes", "Markdown always fits into a comment, and 'ptmem gate --ci' writes a longer report beside it"),
    ("--no-before", "'ptmem gate' judges the change alone where its base cannot be recorded"),
    ("--suite", "'ptmem gate' compares what [gate.NAME] of ptmem.toml names"),
    ("--picture", "a comment has a chart, and --export html=FILE the timelines"),
    ("--reason", "'ptmem gate NAME --update --allow-raise REASON' raises a stored before"),
    ("--update", "'ptmem gate NAME --update' rewrites the stored before of [gate.NAME]"),
];

/// The replacement of an option that was removed.
fn removed(found: &str, arguments: &[OsString]) -> Option<String> {
    let name = found.split('=').next().unwrap_or(found);
    if let Some((_, instead)) = OF_GATE.iter().find(|(removed, _)| *removed == name) {
        return Some(format!("{name} was removed: {instead}"));
    }
    let of_recordings =
        arguments.get(1).is_some_and(|word| !["init", "pip", "simulate"].iter().any(|other| word == other));
    let (_, instead) = REMOVED.iter().find(|(removed, _)| *removed == name && of_recordings)?;
    Some(match instead.strip_prefix("--") {
        Some(_) => format!("{name} was removed: give {instead}"),
        None => format!("{name} was removed: write {instead} to ptmem.toml"),
    })
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
    let all = Arguments::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    let having =
        commands.filter(|command| command.get_arguments().any(|option| option.get_long() == name.strip_prefix("--")));
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
    fn removed_options_name_their_replacement() {
        for (name, instead) in REMOVED {
            for command in COMMANDS {
                let words: Vec<OsString> = command.iter().chain([&name]).map(OsString::from).collect();
                let error = Arguments::try_parse_from(&words).expect_err(name);
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{words:?}");
                let hint = hint(&error, &words).unwrap_or_default();
                assert!(hint.starts_with(&format!("{name} was removed: ")) && hint.contains(instead), "{hint}");
            }
            match instead.starts_with("--") {
                true => {
                    let option = instead.split([' ', '=']).next().unwrap_or_default();
                    let command = Arguments::command();
                    assert!(command.get_subcommands().any(|command| has_option(command, option)), "{instead}");
                }
                false => assert_ne!(Config::parse(instead).expect(instead), Config::default(), "{instead}"),
            }
        }
    }

    #[test]
    fn options_that_only_a_gate_had_say_so() {
        for (name, instead) in OF_GATE {
            for command in COMMANDS.iter().filter(|command| name != "--git" || command[1] == "check") {
                let words: Vec<OsString> = command.iter().chain([&name]).map(OsString::from).collect();
                let error = Arguments::try_parse_from(&words).expect_err(name);
                assert_eq!(hint(&error, &words), Some(format!("{name} was removed: {instead}")));
            }
        }
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
