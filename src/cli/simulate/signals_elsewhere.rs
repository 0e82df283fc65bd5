//! Children on systems without Unix signals, where no GPU can be simulated.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// Starts a child.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// Exit code of a child.
pub(super) fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
