//! `ptmem stand-ins`: called by the hook in a child's Python, when it is about to load PyTorch.
//!
//! Adds what the libraries of that PyTorch want and the folder of the run does not have: libraries of a new name, and
//! functions that this ptmem does not know.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ptmem::simulate::{Imports, PRELOADED, StandIn};

use crate::cli::output::write_file;

/// Library of the functions that [`ptmem::simulate::LIBRARY`] does not have.
const UNKNOWN: &str = "libptmem-unknown.so";

#[derive(Debug, Args)]
pub(crate) struct StandInsArguments {
    /// Folder of PyTorch's libraries
    torch: PathBuf,
    /// Folder of the stand-ins
    folder: PathBuf,
}

pub(crate) fn run(arguments: &StandInsArguments) -> Result<ExitCode> {
    let imports = imports_of(&arguments.torch)?;
    let functions = imports.unknown().context("the library in this ptmem cannot be read")?;
    let mut needed = vec![PRELOADED];
    if !functions.is_empty() {
        write(&arguments.folder, &StandIn { soname: UNKNOWN, needed: &[PRELOADED], functions: &functions })?;
        needed.push(UNKNOWN);
        super::eprint_line(&format!(
            "{} functions of this PyTorch are not known to this ptmem: they only return success ({})",
            functions.len(),
            functions.join(", ")
        ));
    }
    for soname in imports.of_nvidia().filter(|soname| *soname != PRELOADED) {
        if arguments.torch.join(soname).exists() {
            continue; // PyTorch brings it.
        }
        if !functions.is_empty() || !arguments.folder.join(soname).exists() {
            write(&arguments.folder, &StandIn { soname, needed: &needed, functions: &[] })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The imports of all libraries in a folder.
fn imports_of(folder: &Path) -> Result<Imports> {
    let mut all = Imports::default();
    for entry in fs::read_dir(folder).with_context(|| format!("{}: cannot be read", folder.display()))? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")) {
            continue;
        }
        let file = File::open(&path).with_context(|| format!("{}: cannot be opened", path.display()))?;
        // A file that is no shared object, such as a script for the linker, wants nothing.
        if let Ok(imports) = Imports::read(file) {
            all.merge(imports);
        }
    }
    Ok(all)
}

/// Writes a stand-in as a whole: processes of a run may write it at the same time.
fn write(folder: &Path, stand_in: &StandIn<'_>) -> Result<()> {
    write_file(&folder.join(stand_in.soname), &stand_in.bytes()?)
}
