//! `ptmem pip install`: installs Python packages without NVIDIA's libraries, which a simulated GPU replaces.
//!
//! Neither pip nor uv can leave out what a package requires, and whoever installs PyTorch without its requirements gets
//! them with the next package that requires PyTorch. So each of NVIDIA's packages gets a stand-in of the right name and
//! version, which holds nothing; to pip, to uv and to `pip check` it is installed.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::output::print_note;
use super::words::many;

#[derive(Debug, Args)]
pub(crate) struct PipArguments {
    #[command(subcommand)]
    command: PipCommand,
}

#[derive(Debug, Subcommand)]
enum PipCommand {
    /// Install packages, except those of NVIDIA
    ///
    /// By uv if it is on the path, which takes seconds, otherwise by pip, which may download NVIDIA's packages to read what
    /// they require. For an environment that is only used with ptmem simulate.
    Install {
        /// Arguments of pip install, such as . or -r requirements.txt
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
}

pub(crate) fn run(arguments: &PipArguments) -> Result<ExitCode> {
    let PipCommand::Install { arguments } = &arguments.command;
    let installer = Installer::find()?;
    if let Err(failed) = installer.add_stand_ins(arguments)? {
        anstream::eprint!("{}", String::from_utf8_lossy(&failed.stderr));
        return Ok(code_of(failed.status));
    }
    let status = installer.command().arg("install").args(arguments).status();
    Ok(code_of(status.with_context(|| format!("{}: cannot be started", installer.name()))?))
}

/// The exit code of a command that has ended; 1 where a signal ended it.
fn code_of(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The variable of uv that names a file of constraints for builds.
const BUILD_CONSTRAINT: &str = "UV_BUILD_CONSTRAINT";

/// A program that installs packages.
pub(crate) enum Installer {
    /// With constraints for builds, once one needed a part of setuptools that releases since 2026 lack.
    Uv(OnceCell<NamedTempFile>),
    /// As a module of this Python.
    Pip(OsString),
}

/// A package that would be installed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Package {
    name: String,
    version: String,
}

impl Installer {
    fn find() -> Result<Self> {
        if succeeds("uv", &["--version"]) {
            return Ok(Self::Uv(OnceCell::new()));
        }
        let python = ["python", "python3"].into_iter().find(|python| succeeds(python, &["-m", "pip", "--version"]));
        python
            .map(|python| Self::Pip(python.into()))
            .context("neither uv nor a Python with pip is on the path; expected one of them")
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Uv(_) => "uv pip",
            Self::Pip(_) => "pip",
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Uv(constraints) => {
                let mut command = command("uv", &["pip"]);
                command.envs(constraints.get().map(|file| (BUILD_CONSTRAINT, file.path())));
                command
            }
            Self::Pip(python) => command(python, &["-m", "pip"]),
        }
    }

    /// Installs packages without a word; the last line of its error where it fails.
    pub(crate) fn install(&self, arguments: &[OsString]) -> Result<Result<(), String>> {
        let failed = match self.add_stand_ins(arguments)? {
            Err(failed) => failed,
            Ok(()) => self.command().arg("install").args(arguments).output()?,
        };
        let text = String::from_utf8_lossy(&failed.stderr);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(if failed.status.success() { Ok(()) } else { Err(last.to_owned()) })
    }

    /// Makes stand-ins for those of NVIDIA's packages that it would install; its output where it fails.
    fn add_stand_ins(&self, arguments: &[OsString]) -> Result<Result<(), Output>> {
        let packages = match self.resolve(arguments)? {
            Ok(packages) => packages,
            Err(failed) => return Ok(Err(failed)),
        };
        let of_nvidia: Vec<Package> = packages.into_iter().filter(|package| is_of_nvidia(&package.name)).collect();
        if !of_nvidia.is_empty() {
            let folder = self.packages()?;
            for package in &of_nvidia {
                stand_in(&folder, package)?;
            }
            let number = many(of_nvidia.len(), "package");
            print_note(&format!("stand-ins for {number} of NVIDIA: this environment is for ptmem simulate"));
        }
        Ok(Ok(()))
    }

    /// The packages that it would install; its output where it fails.
    fn resolve(&self, arguments: &[OsString]) -> Result<Result<Vec<Package>, Output>> {
        let mut command = self.command();
        command.args(["install", "--dry-run"]);
        match self {
            Self::Uv(_) => command.args(["--color", "never"]).stdout(Stdio::null()),
            Self::Pip(_) => command.args(["--quiet", "--report", "-"]),
        };
        // uv would not say what it plans.
        command.args(arguments.iter().filter(|argument| !is_quiet(argument))).env_remove("UV_QUIET");
        let output = command.output().with_context(|| format!("{}: cannot be started", self.name()))?;
        if !output.status.success() {
            return if self.builds_as_before(&output)? { self.resolve(arguments) } else { Ok(Err(output)) };
        }
        match self {
            Self::Uv(_) => Ok(Ok(planned_by_uv(&output))),
            Self::Pip(_) => reported_by_pip(&output).map(Ok),
        }
    }

    /// Constrains builds from now on if this one failed because packages of its time import `pkg_resources`, and says so.
    fn builds_as_before(&self, failed: &Output) -> Result<bool> {
        let Self::Uv(constraints) = self else { return Ok(false) };
        let needs = String::from_utf8_lossy(&failed.stderr).contains("pkg_resources");
        if !needs || constraints.get().is_some() || std::env::var_os(BUILD_CONSTRAINT).is_some() {
            return Ok(false);
        }
        let mut file = NamedTempFile::new()?;
        file.write_all(b"setuptools<82\n")?;
        print_note("a package is built with pkg_resources: all are built with setuptools<82");
        Ok(constraints.set(file).is_ok())
    }

    /// The folder of the packages of the environment.
    pub(crate) fn packages(&self) -> Result<PathBuf> {
        let python = match self {
            Self::Uv(_) => printed("uv", &["python", "find"])?.into(),
            Self::Pip(python) => python.clone(),
        };
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let folder = PathBuf::from(printed(&python, &["-c", script])?);
        if !folder.is_dir() {
            bail!("{}: says that its packages are in '{}'; expected a folder", python.display(), folder.display());
        }
        Ok(folder)
    }
}

/// Whether an argument is `--quiet`, `-q` or `-qq`.
fn is_quiet(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    text == "--quiet" || text.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c == 'q'))
}

fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments).output().is_ok_and(|output| output.status.success())
}

/// The text that a program prints.
pub(crate) fn printed(program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<String> {
    let name = program.as_ref().to_string_lossy();
    let output = command(&program, arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{name}: cannot be started"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{name} {}: {}", arguments.join(" "), text.trim().lines().last().unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Lines such as ` + torch==2.11.0`; uv has no report for machines.
fn planned_by_uv(output: &Output) -> Vec<Package> {
    let text = String::from_utf8_lossy(&output.stderr);
    let planned = text.lines().filter_map(|line| line.trim().strip_prefix("+ ")?.split_once("=="));
    planned.map(|(name, version)| Package { name: name.to_owned(), version: version.to_owned() }).collect()
}

/// The part of pip's report that is used.
#[derive(Deserialize)]
struct PipReport {
    install: Vec<PlannedInstall>,
}

#[derive(Deserialize)]
struct PlannedInstall {
    metadata: Package,
}

fn reported_by_pip(output: &Output) -> Result<Vec<Package>> {
    let report: PipReport = serde_json::from_slice(&output.stdout)
        .context("pip: its report of what it would install cannot be read; expected that of pip 22.2 or later")?;
    Ok(report.install.into_iter().map(|planned| planned.metadata).collect())
}

fn is_of_nvidia(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    ptmem_simulate::PACKAGES.lines().any(|library| name.starts_with(library))
}

/// Writes the metadata of a package that holds nothing.
fn stand_in(packages: &Path, package: &Package) -> Result<()> {
    let Package { name, version } = package;
    let inner = format!("{}-{version}.dist-info", name.replace(['-', '.'], "_"));
    let folder = packages.join(&inner);
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Empty package, installed by 'ptmem pip install'\n"
    );
    let files = [
        ("METADATA", metadata),
        ("WHEEL", "Wheel-Version: 1.0\nGenerator: ptmem\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned()),
        ("INSTALLER", "ptmem\n".to_owned()),
        ("RECORD", ["METADATA", "WHEEL", "INSTALLER", "RECORD"].map(|file| format!("{inner}/{file},,\n")).concat()),
    ];
    fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    for (file, text) in files {
        super::output::write_file(&folder.join(file), text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_all_releases_of_cuda_are_told_from_modules() {
        for name in ["nvidia-cublas-cu12", "nvidia_cublas", "nvidia-cuda-runtime-cu11", "nvidia-cudnn-cu13"] {
            assert!(is_of_nvidia(name), "{name}");
        }
        for name in ["nvidia-ml-py", "nvidia-modelopt", "nvidia-cudnn-frontend", "torch", "cuda-toolkit", "cuda-python"]
        {
            assert!(!is_of_nvidia(name), "{name}");
        }
    }
}
