//! How the workflows of a repository install it: they usually know best.

use std::fs;
use std::path::Path;

use super::python::{Python, minor_of};

/// A workflow of GitHub.
#[derive(Debug)]
struct Workflow {
    /// Its path from the root.
    path: String,
    text: String,
}

/// Our own: it installs as found before.
const OURS: &str = "memory.yml";

/// The workflows, by name, those that run tests first and those that build documentation last.
fn all(root: &Path) -> Vec<Workflow> {
    let folder = ".github/workflows";
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| (name.ends_with(".yml") || name.ends_with(".yaml")) && name != OURS).collect();
    names.sort();
    let texts = names.into_iter().filter_map(|name| {
        let path = format!("{folder}/{name}");
        Some(Workflow { text: fs::read_to_string(root.join(&path)).ok()?, path })
    });
    let mut workflows: Vec<Workflow> = texts.collect();
    workflows.sort_by_key(|workflow| (!workflow.text.lines().any(is_test), workflow.path.contains("doc")));
    workflows
}

/// The versions of Python that the workflows set up; of those that run tests, where there are any.
pub(super) fn versions_of_python(root: &Path) -> Vec<Python> {
    let versions = all(root).into_iter().map(|workflow| workflow.versions());
    versions.into_iter().find(|versions| !versions.is_empty()).unwrap_or_default()
}

/// The commands by which a workflow installs the repository before it tests it, in the words of pip, with the workflow's path.
pub(super) fn installation(root: &Path) -> Option<(String, Vec<String>)> {
    let tested = all(root).into_iter().filter(|workflow| workflow.text.lines().any(is_test));
    tested.map(|workflow| (workflow.installs(), workflow.path)).find_map(|(installs, path)| {
        let installs_it = installs.iter().any(|line| is_of_repository(line));
        installs_it.then_some((path, installs))
    })
}

/// True for a line that runs tests.
fn is_test(line: &str) -> bool {
    let line = command_of(line);
    ["pytest", "python -m pytest", "python -m unittest", "uv run pytest"].iter().any(|begin| line.starts_with(begin))
}

/// True for the installation of requirements that the repository itself names.
fn is_of_repository(line: &str) -> bool {
    installs_package(line) || line.split_whitespace().any(|word| word.trim_matches(['"', '\'']).starts_with("-r"))
}

/// True for the installation of the package that the repository is.
pub(super) fn installs_package(line: &str) -> bool {
    let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    words.into_iter().any(|word| word == "." || word.starts_with(".["))
}

/// The command in a line of a workflow.
fn command_of(line: &str) -> &str {
    let line = line.trim().trim_start_matches("- ");
    line.strip_prefix("run:").unwrap_or(line).trim()
}

impl Workflow {
    fn versions(&self) -> Vec<Python> {
        let lines = self.text.lines().filter_map(|line| line.trim().strip_prefix("python-version:"));
        let words = lines.flat_map(|line| line.split(['[', ']', ',', ' ', '"', '\'']));
        words.filter_map(minor_of).map(|minor| Python { minor, source: self.path.clone() }).collect()
    }

    /// The arguments of each `pip install` before the first test, of the job that runs it. What expressions of GitHub decide is
    /// left out.
    fn installs(&self) -> Vec<String> {
        let before: Vec<&str> = self.text.lines().take_while(|line| !is_test(line)).collect();
        let mut below = before.iter().skip_while(|line| **line != "jobs:").skip(1);
        let of_jobs = below.find(|line| !line.trim().is_empty()).map_or(0, |line| depth(line));
        let job = before.iter().rposition(|line| !line.trim().is_empty() && depth(line) == of_jobs).unwrap_or(0);
        let arguments = before[job..].iter().map(|line| command_of(line)).filter_map(|line| {
            let begins = [
                "pip install ",
                "pip3 install ",
                "python -m pip install ",
                "python3 -m pip install ",
                "uv pip install ",
            ];
            begins.iter().find_map(|begin| line.strip_prefix(begin))
        });
        let whole = arguments.filter(|line| !line.contains("${{") && !line.ends_with('\\') && !line.contains("&&"));
        whole.map(plain).filter(|line| !line.is_empty() && line != "pip").collect()
    }
}

/// The indentation of a line.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The arguments without those for an environment that is not virtual, for a checkout that stays, or for a PyTorch that
/// computes on the host.
fn plain(arguments: &str) -> String {
    let left_out = ["--system", "-e", "--editable", "-U", "--upgrade", "--user"];
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let is_index = |word: &str| word.contains("download.pytorch.org");
    let kept = words.iter().enumerate().filter(|(at, word)| {
        let names_index = words.get(at + 1).is_some_and(|next| is_index(next)) && word.starts_with('-');
        !left_out.contains(word) && !is_index(word) && !names_index
    });
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}
