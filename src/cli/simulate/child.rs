//! The child process: starts it, passes signals on, waits for it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Result, anyhow};

use super::folder::Environment;
use super::signals;

/// Exit codes of shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The end of a command.
pub(super) enum Ended {
    /// With an exit code, which is 128 and the signal's number where a signal ended it.
    Ran(u8),
    /// It could not be started, which was said; the exit code of a shell for that.
    NotStarted(u8),
}

/// Runs a command to its end.
pub(super) fn run(command: &[OsString], environment: &Environment) -> Result<Ended> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Ended::NotStarted(NOT_FOUND)) };
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let started = signals::start(&mut child);
    let name = program.to_string_lossy();
    let running = match started {
        Ok(running) => running,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            super::eprint_line(&format!("{name}: command not found"));
            return Ok(Ended::NotStarted(NOT_FOUND));
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            super::eprint_line(&format!("{name}: cannot be executed: {error}"));
            return Ok(Ended::NotStarted(NOT_EXECUTABLE));
        }
        Err(error) => return Err(anyhow!("{name}: cannot be started: {error}")),
    };
    let status = running.wait().map_err(|error| anyhow!("{name}: cannot be waited for: {error}"))?;
    Ok(Ended::Ran(signals::code(status)))
}
