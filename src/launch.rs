//! Starts `ptmem-gate`, which the Python package installs beside `ptmem`, with the same arguments.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Exit code of everything that kept the tool from an answer.
const COULD_NOT_RUN: u8 = 2;

/// Hands over to the tool, or says why that is impossible.
pub(crate) fn run() -> ExitCode {
    let error = match program() {
        Ok(path) => match hand_over(Command::new(&path).args(env::args_os().skip(1))) {
            Ok(code) => return code,
            Err(error) => format!("{}: cannot be started: {error}; install ptmem-gate again", path.display()),
        },
        Err(error) => format!("the folder of this program cannot be found: {error}; call ptmem-gate instead"),
    };
    // An error on standard error cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(COULD_NOT_RUN)
}

/// The tool beside this program, also where this one was started through a link.
fn program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.canonicalize()?.with_file_name(format!("ptmem-gate{}", env::consts::EXE_SUFFIX)))
}

/// Becomes the tool: signals and the exit code are its own.
#[cfg(unix)]
fn hand_over(command: &mut Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

/// Waits for the tool. Both processes belong to the same console, which interrupts both.
#[cfg(not(unix))]
fn hand_over(command: &mut Command) -> io::Result<ExitCode> {
    let code = command.status()?.code().unwrap_or(i32::from(COULD_NOT_RUN));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(COULD_NOT_RUN)))
}
