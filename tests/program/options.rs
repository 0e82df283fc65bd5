//! Every option of every command is used or refused, whatever the other arguments are.

use std::fs;
use std::path::Path;

use crate::support::fixtures;
use crate::support::tool::{ptmem, text};

/// Command lines that use a command in different ways.
const WAYS: &[&[&str]] = &[
    &["diff", "before.pkl", "after.pkl", "--max-growth", "9%"],
    &["diff", "phases-before.pkl", "phases-after.pkl", "--max", "1GiB"],
    &["diff", "ranks-before", "ranks-after"],
    &["check", "before.pkl", "--max", "1GiB"],
    &["check", "ranks", "--max", "1GiB"],
    &["show", "phases-after.pkl"],
    &["show", "before.pkl", "--tree"],
    &["show", "ranks"],
    &["leak", "leak.pkl"],
    &["leak", "leak-series"],
    &["history", "leak-series"],
    &["settings", "before.pkl", "--python", "none"],
    &["doctor", "before.pkl"],
    &["profile", "before.pkl"],
    &["init", "--dry-run"],
    #[cfg(all(feature = "simulate", target_os = "linux"))]
    &["simulate", "--world-size", "4", "--", "true"],
];

/// Values of options; the others stand alone.
const VALUES: [(&str, &str); 46] = [
    ("addresses", "down"),
    ("again", "before.pkl"),
    ("at", "end"),
    ("color", "always"),
    ("config", "other.toml"),
    ("cudnn-workspace", "1MiB"),
    ("device", "0"),
    ("device-memory", "80GiB"),
    ("events", "late"),
    ("every", "10events"),
    ("fill", "3"),
    ("export", "json=-"),
    ("focus", "forward"),
    ("folder", "ranks"),
    ("format", "json"),
    ("git", "HEAD"),
    ("gpu", "h100"),
    ("gpus", "8"),
    ("group-by", "function"),
    ("jobs", "1"),
    ("keep", "10%"),
    ("last", "2"),
    ("max", "peak=1MiB"),
    ("max-growth", "1%"),
    ("max-leak", "100GiB"),
    ("memory", "1GiB"),
    ("min-delta", "64MiB"),
    ("min-growth", "900MiB"),
    ("min-headroom", "1GiB"),
    ("min-share", "100%"),
    ("min-step", "1KiB"),
    ("output", "written"),
    ("peer-value", "x=1"),
    ("python", "no-python"),
    ("rank", "1"),
    ("record", "recorded.pkl"),
    ("report", "report.json"),
    ("settings", "max_split_size_mb:64"),
    ("skip", "2"),
    ("step", "step"),
    ("steps", "4"),
    ("top", "2"),
    ("unsupported", "error"),
    ("windows", "5"),
    ("without", "expandable_segments"),
    ("world-size", "2"),
];

/// Options whose effect depends on what the recordings hold, on the program that is recorded, on the checkout or the terminal: here
/// they may have none.
const DEPENDENT: [&str; 22] = [
    "addresses",
    "color",
    "config",
    "cudnn-workspace",
    "device",
    "events",
    "exit-zero",
    "explain",
    "fill",
    "git",
    "jobs",
    "keep",
    "min-delta",
    "min-share",
    "no-try",
    "peer-value",
    "report",
    "source",
    "strict",
    "top",
    "unsupported",
    "verbose",
];

/// Commands that print texts, or whose work needs a checkout, PyTorch or a registry.
const OTHERS: [&str; 7] = ["bisect", "completions", "fit", "gate", "help", "man", "pip"];

#[test]
fn every_command_is_tried() {
    let help = text(&ptmem(Path::new("."), &["--help"]).stdout);
    let listed = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let commands = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let untried = |name: &&str| !OTHERS.contains(name) && !WAYS.iter().any(|way| way[0] == *name);
    let untried: Vec<&str> = commands.filter(|name| !name.is_empty()).filter(untried).collect();
    assert!(untried.is_empty() || cfg!(not(feature = "simulate")), "{untried:?}");
}

#[test]
fn completions_offer_no_hidden_command() {
    let script = text(&ptmem(Path::new("."), &["completions", "bash"]).stdout);
    assert!(script.contains("simulate") && script.contains("--version") && !script.contains("stand-ins"), "{script}");
}

/// The options that the help of a command lists.
fn options(folder: &Path, command: &str) -> Vec<String> {
    let help = text(&ptmem(folder, &[command, "--help"]).stdout);
    let lines = help.split("Examples of limits").next().unwrap().lines().map(str::trim_start);
    let lines = lines.map(|line| line.trim_start_matches("-v, ").trim_start_matches("-o, "));
    let names = lines.filter_map(|line| line.strip_prefix("--"));
    names.map(|name| name.split([' ', '[', '=']).next().unwrap().to_owned()).collect()
}

#[test]
fn every_option_is_used_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for name in ["before.pkl", "after.pkl", "phases-before.pkl", "phases-after.pkl", "leak.pkl"] {
        fs::copy(fixtures::folder().join(name), folder.join(name)).unwrap();
    }
    for name in ["ranks", "ranks-before", "ranks-after", "leak-series"] {
        fs::create_dir(folder.join(name)).unwrap();
        for file in fs::read_dir(fixtures::folder().join(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(name).join(file.file_name())).unwrap();
        }
    }
    fs::write(folder.join("other.toml"), "group-by = \"category\"\n").unwrap();
    let mut silent = Vec::new();
    for &way in WAYS {
        let plain = ptmem(folder, way);
        assert_ne!(plain.status.code(), Some(2), "{way:?}: {}", text(&plain.stderr));
        let listed = options(folder, way[0]);
        assert!(listed.len() > 2, "{way:?}: {listed:?}");
        for name in listed {
            let value = VALUES.iter().find(|(option, _)| *option == name).map(|(_, value)| format!("={value}"));
            let option = format!("--{name}{}", value.unwrap_or_default());
            // The program that is recorded does nothing.
            let (way, program) = if way[0] == "simulate" { (&way[..3], &["--", "true"][..]) } else { (way, &[][..]) };
            let output = ptmem(folder, &[way, &[&*option], program].concat());
            if output == plain && !DEPENDENT.contains(&&*name) {
                silent.push(format!("{way:?} {option}"));
            }
        }
    }
    assert!(silent.is_empty(), "neither used nor refused: {silent:#?}");
}
