//! `ptmem init`: proposes gates for a repository, and writes them with the workflow that runs them, never over a file that is there.

mod attempt;
mod commands;
mod imports;
mod install;
mod options;
mod programs;
mod python;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ptmem::report::printable;

use crate::cli::{checkout, config, output};
use attempt::Interpreter;
use install::Installation;
use programs::{FoundProgram, Obstacle, ProgramKind};

/// The heading of the options.
const WRITTEN: &str = "What is written";

/// Write the gates of a repository, ptmem.toml, and the workflow that runs them
///
/// Proposes up to three programs that run on a GPU, and says why it chose each and why it left others out. Asks no questions, and
/// never overwrites a file.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Run each program for up to a minute on a simulated GPU, and propose those that record [default: where the Python on the
    /// path has PyTorch]
    #[arg(long = "try", help_heading = WRITTEN)]
    tries: bool,
    /// Propose programs without running them
    #[arg(long, conflicts_with = "tries", help_heading = WRITTEN)]
    no_try: bool,
    /// Print the files instead of writing them
    #[arg(long, help_heading = WRITTEN)]
    dry_run: bool,
    /// Set up the repository around this folder
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = WRITTEN)]
    folder: PathBuf,
}

pub(super) fn run(arguments: &InitArguments, output: &output::Output) -> Result<ExitCode> {
    let name = arguments.folder.display();
    let folder = fs::canonicalize(&arguments.folder).with_context(|| format!("{name}: no such folder"))?;
    if !folder.is_dir() {
        bail!("{name}: is a file; expected a folder");
    }
    let root = checkout::around(&folder).unwrap_or(folder);
    let may_try = arguments.tries || !arguments.no_try && root.join(".git").exists();
    let python = if may_try { Interpreter::found() } else { None };
    if arguments.tries && python.is_none() {
        bail!("--try: needs Linux, and a Python on the path with PyTorch (ptmem pip install torch)");
    }
    let found = RepositoryProposal::of(&root, python.as_ref())?;
    let mut told = found.described();
    // One in another place is not replaced silently.
    let configuration = configuration(&root).unwrap_or(config::PLACES[0]);
    told += &write(&root, configuration, &found.configuration(), arguments.dry_run)?;
    if found.needs_script {
        told += &write(&root, SCRIPT, &found.script(), arguments.dry_run)?;
    }
    let is_on_gitlab = root.join(".gitlab-ci.yml").exists() && !root.join(".github").exists();
    if !is_on_gitlab {
        told += &write(&root, WORKFLOW, WORKFLOW_TEXT, arguments.dry_run)?;
    }
    if !arguments.dry_run {
        told += &found.next_steps(is_on_gitlab);
    }
    output.print(&told)?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration that is there.
fn configuration(root: &Path) -> Option<&'static str> {
    config::PLACES.into_iter().find(|place| root.join(place).exists())
}

/// The workflow of GitHub that runs the gates.
const WORKFLOW: &str = ".github/workflows/memory.yml";
const WORKFLOW_TEXT: &str = include_str!("templates/github.yml");

/// Writes a file, unless it is there, and says so.
fn write(root: &Path, name: &str, text: &str, is_dry: bool) -> Result<String> {
    let path = root.join(name);
    if path.exists() {
        return Ok(format!("kept     {name} (it exists already)\n"));
    }
    if is_dry {
        return Ok(format!("would write  {name}\n{text}\n"));
    }
    fs::create_dir_all(path.parent().unwrap_or(root)).with_context(|| format!("{name}: its folder cannot be made"))?;
    output::write_file(&path, text.as_bytes())?;
    Ok(format!("written  {name}\n"))
}

/// Maximum number of programs that are proposed.
const MOST: usize = 3;

/// A program that becomes a gate.
struct ProposedGate {
    name: String,
    program: FoundProgram,
    installation: Installation,
}

/// What is proposed for a repository.
struct RepositoryProposal<'a> {
    root: &'a Path,
    gates: Vec<ProposedGate>,
    /// Whether the only gate records a script that is not there yet.
    needs_script: bool,
    left_out: Vec<FoundProgram>,
}

impl<'a> RepositoryProposal<'a> {
    fn of(root: &'a Path, python: Option<&Interpreter>) -> Result<Self> {
        let mut programs = programs::find(root);
        programs.retain(|program| program.path != SCRIPT || !is_unfilled(root));
        if let Some(python) = python {
            attempt::all(python, root, &mut programs, MOST)?;
        }
        let has_recorded = programs.iter().any(|program| program.recorded.is_some());
        let (mut chosen, mut left_out): (Vec<_>, Vec<_>) =
            programs.into_iter().partition(|program| match &program.obstacle {
                None => python.is_none() || program.recorded.is_some(),
                Some(obstacle) => !has_recorded && obstacle.is_unknown(program.kind),
            });
        left_out.extend(chosen.drain(chosen.len().min(MOST)..));
        let mut gates: Vec<ProposedGate> = Vec::new();
        for program in chosen {
            let name = name(&program.path, &gates);
            gates.push(ProposedGate { name, installation: Installation::of(root, Some(&program)), program });
        }
        let needs_script = gates.is_empty() && configuration(root).is_none() && !root.join(SCRIPT).exists();
        Ok(Self { root, gates, needs_script, left_out })
    }

    /// What becomes a gate, what does not, and why.
    fn described(&self) -> String {
        let mut lines = vec![self.root.display().to_string()];
        for ProposedGate { name, program, installation } in &self.gates {
            lines.push(format!("  [gate.{name}] {}", program.record()));
            lines.push(format!("    {}", program.because()));
            lines.push(format!("    installed by {}", installation.because));
        }
        if self.gates.is_empty() {
            lines.push("  no program that a gate can record as it is".to_owned());
        }
        let mut left_out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for program in &self.left_out {
            let reason = program.obstacle.as_ref().map_or("others come first".to_owned(), Obstacle::described);
            left_out.entry(reason).or_default().push(&program.path);
        }
        lines.extend(left_out.iter().map(|(reason, paths)| format!("  left out: {} ({reason})", paths.join(", "))));
        lines.iter().flat_map(|line| [printable(line), "\n".to_owned()]).chain(["\n".to_owned()]).collect()
    }

    fn configuration(&self) -> String {
        let mut text = include_str!("templates/ptmem.toml").to_owned();
        for ProposedGate { name, program, installation } in &self.gates {
            let steps = if program.kind == ProgramKind::Runs { "all" } else { "" };
            text += &table(name, &program.because(), installation, &[("record", &program.record()), ("steps", steps)]);
            text += &program.ranks().map_or(String::new(), |ranks| format!("ranks = {ranks}\n"));
        }
        if self.gates.is_empty() {
            let because = format!("what {SCRIPT} trains: no program can be recorded as it is");
            let record = format!("python {SCRIPT}");
            text += &table("train", &because, &Installation::of(self.root, None), &[("record", &record)]);
        }
        text
    }

    /// A script to fill in, which imports the package of the repository.
    fn script(&self) -> String {
        SCRIPT_TEXT.replace("PACKAGE", &programs::package(self.root).unwrap_or_else(|| "REPLACE_ME".to_owned()))
    }

    fn next_steps(&self, is_on_gitlab: bool) -> String {
        let replace = format!("  in {SCRIPT}, fill in what says REPLACE_ME\n");
        let replace = if is_unfilled(self.root) { replace } else { String::new() };
        let workflow = match (is_on_gitlab, WORKFLOW_TEXT.contains("OWNER/")) {
            (true, _) => "  copy the jobs of docs/examples/gitlab.yml of ptmem\n".to_owned(),
            (false, true) => format!("  in {WORKFLOW}, replace OWNER by the owner of the Action\n"),
            (false, false) => String::new(),
        };
        format!("\nNext:\n{replace}  try it: ptmem gate\n{workflow}  commit these files and merge them\n")
    }
}

/// Whether the script to fill in is there as it was written.
fn is_unfilled(root: &Path) -> bool {
    fs::read_to_string(root.join(SCRIPT)).is_ok_and(|text| text.contains("REPLACE_ME"))
}

/// The table of a gate, without entries that are empty.
fn table(name: &str, because: &str, installation: &Installation, entries: &[(&str, &str)]) -> String {
    let python = installation.python.as_deref().unwrap_or_default();
    let all = [("install", &*installation.script), ("python", python)].into_iter().chain(entries.iter().copied());
    let written = all.filter(|(_, value)| !value.is_empty());
    let lines = written.map(|(key, value)| format!("{key} = {}\n", toml::Value::from(value)));
    format!("\n# {}\n[gate.{name}]\n{}", printable(because), lines.collect::<String>())
}

/// A name for the gate of a program: that of its file, or its path where another one has that.
fn name(path: &str, others: &[ProposedGate]) -> String {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let stem = stem.trim_end_matches("/__main__").trim_end_matches("/main");
    let short = stem.rsplit('/').next().unwrap_or(stem);
    let plain = [short, stem].map(|text| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-"));
    let mut names = plain.iter().map(|name| name.trim_start_matches(['-', '_']).to_owned());
    let free = names.find(|name| !name.is_empty() && others.iter().all(|other| other.name != *name));
    free.unwrap_or_else(|| format!("gate-{}", others.len() + 1))
}

/// What a gate records where no program can be recorded as it is.
const SCRIPT: &str = "record_memory.py";
const SCRIPT_TEXT: &str = include_str!("templates/record_memory.py");
