//! Files and lines that a run writes.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

/// Writes a file as a whole or not at all; the program has its own names for some.
pub type WriteFile<'a> = &'a (dyn Fn(&Path, &[u8]) -> Result<()> + Sync);

/// Prints a line for people, apart from the output of the command.
pub(super) fn eprint_line(text: &str) {
    // Failing to print a line is not an error of the run.
    let _ = writeln!(anstream::stderr(), "ptmem simulate: {text}");
}
