//! The virtual environment of a candidate, in which a script installs its code and dependencies.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::super::checkout::paths_of;
use super::super::pip::printed;
use super::failure::{Failure, last_lines};
use super::process::{self, Ended};
use super::progress::InProgress;

/// Where a script installs, and what it needs for that.
pub(crate) struct Environment<'a> {
    /// The folder of the environment.
    pub(crate) path: PathBuf,
    /// The version of Python, if not any.
    pub(crate) python: Option<&'a str>,
}

impl Environment<'_> {
    /// The variables by which programs of it are found first.
    pub(crate) fn variables(&self) -> Result<Vec<(&'static str, OsString)>> {
        let programs = [self.path.join("bin")].into_iter().chain(paths_of("PATH"));
        let path = env::join_paths(programs).context("PATH")?;
        Ok(vec![("VIRTUAL_ENV", self.path.clone().into()), ("PATH", path)])
    }

    /// Makes the environment and runs a script in a folder. The reason where it fails.
    pub(crate) fn install(
        &self,
        script: &[OsString],
        folder: &Path,
        log: &Path,
        part: &InProgress,
    ) -> Result<Result<(), Failure>> {
        let doing = part.doing("installing", None);
        let made = match self.maker() {
            Ok(mut command) => process::run(&mut command, log, &doing)?,
            Err(reason) => return Ok(Err(Failure::Command(reason))),
        };
        if made.code != 0 {
            let words = last_lines(log);
            let version = self.python.map(|version| format!(" of Python {version}")).unwrap_or_default();
            return Ok(Err(Failure::Command(format!("install: no virtual environment{version} can be made{words}"))));
        }
        let mut command = Command::new(script.first().map_or(OsStr::new(""), |word| word));
        command.args(script.iter().skip(1)).current_dir(folder).envs(self.variables()?);
        let Ended { code, .. } = process::run(&mut command, log, &doing)?;
        Ok(if code == 0 { Ok(()) } else { Err(Failure::of_install(code, log)) })
    }

    /// The command that makes it: uv, which can bring a version of Python, otherwise a Python that is there.
    fn maker(&self) -> Result<Command, String> {
        if is_there("uv") {
            let mut command = Command::new("uv");
            command.args(["venv", "--quiet", "--seed"]).arg(&self.path);
            command.args(self.python.iter().flat_map(|version| ["--python", version]));
            return Ok(command);
        }
        let named = self.python.map(|version| format!("python{version}"));
        let python = named.as_deref().into_iter().chain(["python3", "python"]).find(|python| self.is_wanted(python));
        let python = python.ok_or_else(|| match self.python {
            Some(version) => format!(
                "install: there is neither uv nor a Python {version}; install one of them, or change 'python' of the gate"
            ),
            None => "install: there is neither uv nor Python; install one of them".to_owned(),
        })?;
        let mut command = Command::new(python);
        command.args(["-m", "venv"]).arg(&self.path);
        Ok(command)
    }

    /// Whether a Python is there, in the version that is asked for.
    fn is_wanted(&self, python: &str) -> bool {
        let script = "import sys; print('.'.join(map(str, sys.version_info[:3])))";
        let Ok(found) = printed(OsStr::new(python), &["-c", script]) else { return false };
        self.python.is_none_or(|wanted| {
            found.trim().strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Removes it: it may take gigabytes.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether a program is on the path.
fn is_there(program: &str) -> bool {
    paths_of("PATH").iter().any(|folder| folder.join(program).is_file())
}
