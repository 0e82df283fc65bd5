//! `ptmem simulate`: runs a command on simulated GPUs.

use std::process::ExitCode;

use anyhow::Result;
use ptmem_simulate::{SimulateArguments, StandInsArguments};

use super::output::{Output, require_folder, write_file};

pub(super) fn run(arguments: &SimulateArguments, output: &Output) -> Result<ExitCode> {
    if let Some(list) = arguments.list_of_cards() {
        output.print(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before the command has run for hours.
    arguments.files().try_for_each(require_folder)?;
    let write = |path: &std::path::Path, bytes: &[u8]| output.write_bytes(path, bytes);
    ptmem_simulate::run(arguments, &write).map(ExitCode::from)
}

/// `ptmem stand-ins`, which the hook in the child's Python calls.
pub(super) fn add_stand_ins(arguments: &StandInsArguments) -> Result<ExitCode> {
    ptmem_simulate::add_stand_ins(arguments, &write_file).map(|()| ExitCode::SUCCESS)
}
