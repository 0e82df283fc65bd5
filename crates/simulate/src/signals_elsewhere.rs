//! Children on systems without Unix signals, where no GPU can be simulated.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// A child.
pub(super) struct Running(Child);

impl Running {
    /// Waits for its end.
    pub(super) fn wait(mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

/// Starts a child.
pub(super) fn start(command: &mut Command) -> io::Result<Running> {
    command.spawn().map(Running)
}

/// True after a signal that asks programs to end.
pub(super) fn interrupted() -> bool {
    false
}

/// Exit code of a child.
pub(super) fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
