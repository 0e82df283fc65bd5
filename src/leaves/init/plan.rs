//! The files that set a gate up.

use super::packages::unnamed;
use super::programs::{MOST_RECORDED, Program};
use super::python::{date_of_pins, dormant_since};
use super::readiness::Readiness;
use super::repository::{Ci, Installation, Repository, is_package};
use super::workflows::installs_package;

/// A file to write.
#[derive(Debug)]
pub(super) struct File {
    /// Its path from the root of the repository.
    pub(super) path: &'static str,
    pub(super) text: String,
}

/// The profile that a snapshot is stored as.
pub(super) const PROFILE: &str = "baseline.ptmem.json";

const CONFIGURATION: &str = include_str!("templates/ptmem.toml");
const SCRIPT: &str = include_str!("templates/record_memory.py");
const GITHUB: &str = include_str!("templates/github.yml");
const GITHUB_TREND: &str = include_str!("templates/github-trend.yml");
const GITLAB: &str = include_str!("templates/gitlab.yml");

/// The files for a repository; recorded on a simulated GPU, or on runners with this label; `is_stored` where the before is a profile in the repository. `action` is what a workflow
/// calls the Action.
pub(super) fn files(repository: &Repository, runner: Option<&str>, is_stored: bool, action: &str) -> Vec<File> {
    let workflow = match repository.ci {
        Ci::Github => {
            File { path: ".github/workflows/memory.yml", text: github(repository, runner, is_stored, action) }
        }
        Ci::Gitlab => File { path: ".gitlab/ptmem.yml", text: gitlab(repository, runner) },
    };
    let mut files = vec![File { path: "ptmem.toml", text: CONFIGURATION.to_owned() }];
    if recorded(repository, runner).is_empty() {
        files.push(File { path: "record_memory.py", text: SCRIPT.to_owned() });
    }
    files.push(workflow);
    files
}

/// The programs that the gate records unchanged, which can run on a runner as far as is known; empty if a script records,
/// as on a real GPU.
pub(super) fn recorded<'a>(repository: &'a Repository, runner: Option<&str>) -> &'a [Program] {
    let most = if repository.ci == Ci::Github { MOST_RECORDED } else { 1 };
    let able = repository.programs.iter().take_while(|program| program.readiness <= Readiness::Unknown);
    let count = if runner.is_some() { 0 } else { able.take(most).count() };
    &repository.programs[..count]
}

/// Commands that install PyTorch and what the repository needs, into an environment that is active.
fn installs(repository: &Repository, runner: Option<&str>) -> Vec<String> {
    // uv takes seconds, and reads what packages require without downloading them.
    let (first, install) = match runner {
        None => (Some("pip install uv"), "ptmem pip install"),
        Some(_) => (None, "pip install"),
    };
    let mut lines: Vec<String> = first.into_iter().map(str::to_owned).collect();
    let old_pins = date_of_pins(&repository.root).filter(|(year, _)| *year < 2026);
    if let Some((year, month)) = old_pins.and_then(|_| dormant_since(&repository.root)) {
        // Newer packages may not work with those, but PyTorch has to be one that can be simulated, of March 2023 at least.
        let (year, month) = (year + month / 12, month % 12 + 1).max((2023, 4));
        lines.push(format!(
            "export UV_EXCLUDE_NEWER={year}-{month:02}-01 # the repository and its pins are of that time"
        ));
    }
    match &repository.installation {
        Installation::Locked => {
            lines.push("uv export --quiet --frozen --no-hashes --no-emit-project --output-file locked.txt".to_owned());
            lines.push(format!("{install} -r locked.txt ."));
        }
        Installation::Workflow(_, arguments) => {
            if !arguments.iter().any(|line| line.split_whitespace().any(|word| word == "torch")) {
                lines.push(format!("{install} torch"));
            }
            lines.extend(arguments.iter().map(|arguments| format!("{install} {arguments}")));
            // Tests find the package in the checkout; programs in other folders do not.
            if is_package(&repository.root) && !arguments.iter().any(|line| installs_package(line)) {
                lines.push(format!("{install} ."));
            }
        }
        Installation::Conda(_, packages) => {
            let words: Vec<String> = packages.iter().map(|package| shell_word(package)).collect();
            lines.push(format!("{install} torch {}", words.join(" ")));
        }
        Installation::Package => lines.push(format!("{install} torch .")),
        Installation::Requirements(files) => lines.push(format!("{install} torch -r {}", files.join(" -r "))),
        Installation::Unknown => lines.push(format!("{install} torch")),
    }
    let mut unnamed = unnamed(&repository.root, recorded(repository, runner), &repository.installation.files());
    if repository.installation == Installation::Unknown && !unnamed.contains(&"numpy") {
        unnamed.insert(0, "numpy");
    }
    // Packages of then import a part of setuptools that it had until 2026.
    if old_pins.is_some() {
        unnamed.push("'setuptools<82'");
    }
    if let (Some(last), false) = (lines.last_mut(), unnamed.is_empty()) {
        last.push(' ');
        last.push_str(&unnamed.join(" "));
    }
    lines
}

/// A word of a shell.
fn shell_word(word: &str) -> String {
    if word.contains(['<', '>', '*', '!', ' ']) { format!("'{word}'") } else { word.to_owned() }
}

/// Lines below a key of YAML that begins a text of several lines.
fn indented(lines: &[String], columns: usize) -> String {
    lines.iter().map(|line| format!("{:columns$}{line}", "")).collect::<Vec<_>>().join("\n")
}

fn github(repository: &Repository, runner: Option<&str>, is_stored: bool, action: &str) -> String {
    let words = match runner {
        None => "both commits are recorded on a simulated GPU, on a free runner.",
        Some(_) => "recorded on a machine with a GPU.",
    };
    let machine = runner.map_or("ubuntu-latest".to_owned(), quoted);
    let install = indented(&installs(repository, runner), 12);
    let is_compared_with_stored = is_stored && runner.is_some();
    let record = match is_compared_with_stored {
        true => format!(
            "      - run: |\n{}\n          python record_memory.py # writes snapshot.pkl\n",
            indented(&installs(repository, runner), 10)
        ),
        false => String::new(),
    };
    let gpu = if runner.is_some() { "real" } else { GPU };
    let programs = recorded(repository, runner);
    let inputs = match is_compared_with_stored {
        true => format!("          before: {PROFILE}\n          after: snapshot.pkl"),
        false => format!(
            "{}          install: |\n{install}\n{}\n          gpu: {gpu}",
            python(repository),
            record_inputs(programs)
        ),
    };
    // A profile in the repository has a history of its own.
    let [push, condition, trend] = if is_compared_with_stored { [""; 3] } else { [PUSH, NOT_FOR_PUSH, GITHUB_TREND] };
    let github =
        (GITHUB.replace("PUSH", push).replace("IF", condition) + trend).replace("STRATEGY\n", &strategy(programs));
    let github = for_each(&github, programs);
    let github = github.replace("RECORD\n", &format!("{record}\n")).replace("PLACE", words).replace("RUNNER", &machine);
    let of_base = if action.starts_with("./") { CHECKOUT_OF_BASE } else { "" };
    let github = github.replace("OF_BASE\n", of_base).replace("COMMENTER", &commenter(action));
    github.replace("INPUTS", &inputs).replace("ACTION", action)
}

/// The input for a version of Python that the repository asks for.
fn python(repository: &Repository) -> String {
    let python = repository.python.as_ref();
    python.map_or(String::new(), |python| format!("          python-version: '{python}' # {}\n", python.source))
}

/// Inputs that record both commits.
fn record_inputs(programs: &[Program]) -> String {
    let record = match programs {
        [] => return RECORD.to_owned(),
        [program] => program.command(),
        _ => "${{ matrix.record }}".to_owned(),
    };
    let name = if programs.len() > 1 { "          name: ${{ matrix.name }}\n" } else { "" };
    format!(
        "{name}          # It ends after the steps that are recorded.\n          record: {record}\n          record-steps: {RECORDED_STEPS}"
    )
}

/// The steps that are recorded. Before the first there may be an evaluation, and what each step leaves behind has added up at
/// the last.
pub(super) const RECORDED_STEPS: &str = "1..8";

/// A job for each of several programs.
fn strategy(programs: &[Program]) -> String {
    if programs.len() < 2 {
        return String::new();
    }
    let jobs = programs
        .iter()
        .map(|program| format!("          - name: {}\n            record: {}\n", program.name(), program.command()));
    format!("    strategy:\n      fail-fast: false\n      matrix:\n        include:\n{}", jobs.collect::<String>())
}

/// The text with an artifact, and a job that posts it, for each program.
fn for_each(github: &str, programs: &[Program]) -> String {
    if programs.len() < 2 {
        return github.replace("OF_EACH\n", "").replace("UPLOADED", "ptmem-comment").replace("NAMED\n", "");
    }
    let names: Vec<String> = programs.iter().map(Program::name).collect();
    let jobs = format!("    strategy:\n      matrix:\n        name: [{}]\n", names.join(", "));
    let github = github.replace("OF_EACH\n", &jobs).replace("UPLOADED", "ptmem-comment-${{ matrix.name }}");
    github.replace("NAMED\n", "          name: ${{ matrix.name }}\n")
}

/// The part of the Action that posts what the other wrote.
fn commenter(action: &str) -> String {
    match action.split_once('@') {
        Some((repository, version)) => format!("{repository}/comment@{version}"),
        None => format!("{}/comment", action.trim_end_matches('/')),
    }
}

/// For an Action that is a folder of the checkout: the one of the pull request is not to have the token.
const CHECKOUT_OF_BASE: &str = "      - uses: actions/checkout@8e8c483db84b4bee98b60c0593521ed34d9990e8 # v6.0.1
        with:
          ref: ${{ github.event.pull_request.base.sha }}
          persist-credentials: false
";

/// The card to simulate, that of `ptmem simulate` by default.
const GPU: &str = "a100";

/// The event for the trend.
const PUSH: &str = "  push:\n    branches: [main, master]\n";

/// The condition of the job that gates.
const NOT_FOR_PUSH: &str = "    if: github.event_name != 'push'\n";

/// Inputs of the Action that record both commits by a script which writes the snapshot itself.
const RECORD: &str = "          record: python record_memory.py\n          record-steps: none";

fn gitlab(repository: &Repository, runner: Option<&str>) -> String {
    let text = GITLAB.replace("      INSTALL", &indented(&installs(repository, runner), 8));
    let python = repository.python.as_ref().map_or("3.12".to_owned(), ToString::to_string);
    let program = recorded(repository, runner).first();
    let command = match (runner, program) {
        (None, Some(program)) => {
            format!("ptmem simulate --record \"$2,steps={RECORDED_STEPS}\" -- {}", program.command())
        }
        (None, None) => "PTMEM_SNAPSHOT=$2 ptmem simulate -- python record_memory.py".to_owned(),
        (Some(_), _) => "PTMEM_SNAPSHOT=$2 python record_memory.py".to_owned(),
    };
    let script = program.map_or("record_memory.py", |program| &program.path);
    let text = text.replace("COMMAND", &command).replace("SCRIPT", script).replace("VERSION", &python);
    match runner {
        None => text
            .replace("PLACE", "both commits are recorded on a simulated GPU, on any runner.")
            .replace("  TAGS\n", ""),
        Some(label) => text
            .replace("PLACE", "both commits are recorded on a machine with a GPU.")
            .replace("  TAGS\n", &format!("  tags: [{}]\n", quoted(label))),
    }
}

/// A string of YAML.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use ptmem::config::Config;

    use super::*;

    #[test]
    fn the_limits_can_be_turned_on() {
        Config::parse(CONFIGURATION).unwrap();
        let all: Vec<&str> = CONFIGURATION
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = \"")).unwrap_or(line))
            .collect();
        let config = Config::parse(&all.join("\n")).unwrap();
        assert!(format!("{config:?}").contains("*attention*"));
    }

    #[cfg(feature = "simulate")]
    #[test]
    fn the_card_is_one_that_is_simulated() {
        assert_eq!(GPU, ptmem_simulate::Card::DEFAULT);
    }

    #[test]
    fn the_action_that_comments_lies_within_the_other() {
        assert_eq!(commenter("someone/ptmem@v0"), "someone/ptmem/comment@v0");
        assert_eq!(commenter("./ptmem/"), "./ptmem/comment");
    }

    #[test]
    fn labels_of_runners_stay_labels() {
        assert_eq!(quoted("gpu-a100"), "gpu-a100");
        assert_eq!(quoted("yes: [x]"), "'yes: [x]'");
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
