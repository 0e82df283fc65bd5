//! `ptmem init`: writes the files that set a gate up, and never over one that is there.

mod plan;
mod repository;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::profile::{self, Kind, saved};
use ptmem::report::printable;

use super::args::heading;
use super::{input, output};
use plan::{File, PROFILE};
use repository::{Ci, Repository};

/// The Action in workflows, where nothing else is asked for.
const ACTION: &str = "OWNER/ptmem@v0";

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// A snapshot of the code as it is, to store as the first before
    snapshot: Option<PathBuf>,
    /// Record on runners with this label, which have a GPU [default: on a simulated GPU, on any runner]
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::WRITTEN)]
    runner: Option<String>,
    /// The Action, as a workflow names it: a repository and a tag, or a folder of the checkout such as ./ptmem
    #[arg(long, value_name = "ACTION", default_value = ACTION, value_parser = NonEmptyStringValueParser::new(), help_heading = heading::WRITTEN)]
    action: String,
    /// Print the files instead of writing them
    #[arg(long, help_heading = heading::WRITTEN)]
    dry_run: bool,
    /// Set up the repository around this folder
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = heading::WRITTEN)]
    folder: PathBuf,
}

pub(super) fn run(arguments: &InitArguments, output: &output::Output) -> Result<ExitCode> {
    let name = arguments.folder.display();
    let folder = fs::canonicalize(&arguments.folder).with_context(|| format!("{name}: no such folder"))?;
    if !folder.is_dir() {
        bail!("{name}: is a file; expected a folder");
    }
    let repository = Repository::around(&folder);
    let runner = arguments.runner.as_deref();
    let mut files = plan::files(&repository, runner, arguments.snapshot.is_some(), &arguments.action);
    files.extend(arguments.snapshot.as_deref().map(stored).transpose()?);
    let mut told = found(&repository);
    for file in &files {
        told += &write(&repository.root, file, arguments.dry_run)?;
    }
    if !arguments.dry_run {
        told += &next_steps(&repository, runner, arguments);
    }
    output.print(&told)?;
    Ok(ExitCode::SUCCESS)
}

/// The profile of a snapshot.
fn stored(snapshot: &Path) -> Result<File> {
    let profile = input::profile(snapshot, &profile::Options::default())?;
    if profile.source.kind == Kind::Profile {
        bail!("{}: is a saved profile; expected a snapshot", snapshot.display());
    }
    Ok(File { path: PROFILE, text: saved::text_of(&profile, &[])? })
}

/// The facts about the repository.
fn found(repository: &Repository) -> String {
    let ci = match repository.ci {
        Ci::Github => "GitHub Actions",
        Ci::Gitlab => "GitLab CI",
    };
    let scripts = match &repository.scripts[..] {
        [] => "no script that trains".to_owned(),
        scripts => format!("scripts that train: {}", scripts.join(", ")),
    };
    printable(&format!("{}: {ci}, {scripts}", repository.root.display())) + "\n\n"
}

/// Writes a file, unless it is there, and says so.
fn write(root: &Path, file: &File, is_dry: bool) -> Result<String> {
    let path = root.join(file.path);
    if path.exists() {
        return Ok(format!("kept     {} (it is there already)\n", file.path));
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
    let script = repository.scripts.first().map_or(String::new(), |script| format!(" from {script}"));
    let command = match runner {
        None => "ptmem simulate -- python record_memory.py",
        Some(_) => "python record_memory.py",
    };
    let mut steps = vec![
        format!("write build() and the parts of record_memory.py{script}; it refuses to run until then"),
        format!("try it: {command}"),
        "look at it: ptmem doctor snapshot.pkl, ptmem show snapshot.pkl".to_owned(),
        "set your limits in ptmem.toml".to_owned(),
    ];
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
    steps.push("commit and merge them; the gate works from the next change on, whose base has the script".to_owned());
    let mut text = String::from("\nNext:\n");
    for (number, step) in (1..).zip(steps) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {number}. {step}");
    }
    text
}
