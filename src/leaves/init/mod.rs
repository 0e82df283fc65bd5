//! `ptmem init`: writes the files that set a gate up, and never over one that is there.

mod clauses;
mod devices;
mod packages;
mod plan;
mod programs;
mod python;
mod readiness;
mod repository;
mod torch;
mod workflows;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::profile::{self, InputKind, saved};
use ptmem::report::printable;

use crate::cli::{input, output};
use plan::{File, PROFILE, RECORDED_STEPS};
use programs::Program;
use repository::{Ci, Repository};

/// The heading of the options.
const WRITTEN: &str = "What is written";

/// The Action in workflows, by default.
const ACTION: &str = "OWNER/ptmem@v0";

/// Write the files of a gate: limits, a recording script, a workflow
///
/// Inspects the repository, asks no questions, never overwrites a file, and prints the next steps.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// A snapshot of the code as it is, to store as the first before
    snapshot: Option<PathBuf>,
    /// Record on runners with this label, which have a GPU [default: on a simulated GPU, on any runner]
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new(), help_heading = WRITTEN)]
    runner: Option<String>,
    /// The Action, as a workflow names it: a repository and a tag, or a folder of the checkout such as ./ptmem
    #[arg(long, value_name = "ACTION", default_value = ACTION, value_parser = NonEmptyStringValueParser::new(), help_heading = WRITTEN)]
    action: String,
    /// Print the files instead of writing them
    #[arg(long, help_heading = WRITTEN)]
    dry_run: bool,
    /// Print the version of Python that the repository asks for, and nothing else
    #[arg(long, hide = true, help_heading = WRITTEN)]
    print_python: bool,
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
    let repository = Repository::around(&folder);
    if arguments.print_python {
        output.print(&repository.python.as_ref().map_or(String::new(), |python| format!("{python}\n")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let runner = arguments.runner.as_deref();
    let mut files = plan::files(&repository, runner, arguments.snapshot.is_some(), &arguments.action);
    files.extend(arguments.snapshot.as_deref().map(stored).transpose()?);
    let mut told = found(&repository, runner);
    for file in &files {
        told += &write(&repository.root, file, arguments.dry_run)?;
    }
    if !arguments.dry_run {
        told += &ignore(&repository.root)?;
    }
    if !arguments.dry_run {
        told += &next_steps(&repository, runner, arguments);
    }
    output.print(&told)?;
    Ok(ExitCode::SUCCESS)
}

/// The profile of a snapshot.
fn stored(snapshot: &Path) -> Result<File> {
    let profile = input::profile(snapshot, &profile::ReadOptions::default())?;
    if profile.source.kind == InputKind::Profile {
        bail!("{}: is a saved profile; expected a snapshot", snapshot.display());
    }
    Ok(File { path: PROFILE, text: saved::text_of(&profile, &[])? })
}

/// The facts about the repository, and what the gate leaves out.
fn found(repository: &Repository, runner: Option<&str>) -> String {
    let ci = match repository.ci {
        Ci::Github => "for GitHub Actions",
        Ci::Gitlab => "for GitLab CI",
    };
    let recorded = plan::recorded(repository, runner);
    let programs = match recorded {
        [] => "found no program to record".to_owned(),
        programs => format!("records {}", listed(programs)),
    };
    let mut text = printable(&format!("{}: {ci}, {programs}", repository.root.display())) + "\n";
    // Writing to a String cannot fail.
    if let Some(python) = &repository.python {
        let _ = writeln!(text, "Python {python}: {}", python.source);
    }
    let _ = writeln!(text, "{}", repository.installation.described());
    let unnamed = packages::unnamed(&repository.root, recorded, &repository.installation.files());
    if !unnamed.is_empty() {
        let _ = writeln!(text, "installed for their imports: {}", unnamed.join(", "));
    }
    let left_out = &repository.programs[recorded.len()..];
    if !left_out.is_empty() {
        let _ = writeln!(text, "left out: {}", listed(left_out));
    }
    text + "\n"
}

/// Programs with what takes their arguments, the first five.
fn listed(programs: &[Program]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> = programs.iter().take(MOST).map(Program::described).collect();
    if programs.len() > MOST {
        names.push(format!("and {} more", programs.len() - MOST));
    }
    names.join(", ")
}

/// Lets Git ignore the snapshot of a try: it may have megabytes.
fn ignore(root: &Path) -> Result<String> {
    let path = root.join(".gitignore");
    let text = fs::read_to_string(&path).unwrap_or_default();
    if text.lines().any(|line| ["snapshot.pkl", "/snapshot.pkl", "*.pkl"].contains(&line.trim())) {
        return Ok(String::new());
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    output::write_file(&path, format!("{text}{end}snapshot.pkl\n").as_bytes())?;
    Ok("added snapshot.pkl to .gitignore\n".to_owned())
}

/// Writes a file, unless it is there, and says so.
fn write(root: &Path, file: &File, is_dry: bool) -> Result<String> {
    let path = root.join(file.path);
    if path.exists() {
        return Ok(format!("kept     {} (it exists already)\n", file.path));
    }
    if is_dry {
        // A profile is for machines.
        let text = if file.path == PROFILE { "" } else { &file.text };
        return Ok(format!("would write  {}\n{text}\n", file.path));
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    }
    output::write_file(&path, file.text.as_bytes())?;
    Ok(format!("written  {}\n", file.path))
}

fn next_steps(repository: &Repository, runner: Option<&str>, arguments: &InitArguments) -> String {
    let recorded = plan::recorded(repository, runner);
    let mut steps = match recorded.first() {
        Some(first) => try_program(first, recorded),
        None => write_script(repository, runner),
    };
    steps.push("examine the recording: ptmem doctor snapshot.pkl, ptmem show snapshot.pkl".to_owned());
    steps.push("set your limits in ptmem.toml".to_owned());
    if runner.is_some() && arguments.snapshot.is_none() {
        steps.push(format!("to keep the before in the repository: ptmem profile snapshot.pkl -o {PROFILE}"));
    }
    match repository.ci {
        Ci::Github if arguments.action.starts_with("OWNER/") => {
            steps.push("in .github/workflows/memory.yml, replace OWNER by the owner of the Action".to_owned());
        }
        Ci::Github => {}
        Ci::Gitlab => steps.push("include .gitlab/ptmem.yml in .gitlab-ci.yml, as its first lines say".to_owned()),
    }
    steps.push("commit and merge these files; the gate compares in pull requests whose base has them".to_owned());
    let mut text = String::from("\nNext:\n");
    for (number, step) in (1..).zip(steps) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {number}. {step}");
    }
    text
}

/// The steps that lead to a recording of programs as they are.
fn try_program(first: &Program, recorded: &[Program]) -> Vec<String> {
    let mut steps = Vec::new();
    for program in recorded.iter().filter(|program| !program.required.is_empty()) {
        let required = program.required.join(" ");
        steps.push(format!("where the gate records {}, add the arguments that it requires: {required}", program.path));
    }
    steps.push(format!("try it: ptmem simulate --record snapshot.pkl,steps={RECORDED_STEPS} -- {}", first.command()));
    if recorded.len() > 1 {
        steps.push("try the others likewise; remove those that fail from the matrices of the workflow".to_owned());
    }
    steps
}

/// The steps that lead to a script which records.
fn write_script(repository: &Repository, runner: Option<&str>) -> Vec<String> {
    let script = repository.programs.first().map_or(String::new(), |program| format!(" from {}", program.path));
    let command = match runner {
        None => "ptmem simulate -- python record_memory.py",
        Some(_) => "python record_memory.py",
    };
    vec![
        format!("fill in build() and the parts of record_memory.py{script}; it refuses to run until then"),
        format!("try it: {command}"),
    ]
}
