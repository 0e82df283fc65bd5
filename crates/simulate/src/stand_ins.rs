//! `ptmem stand-ins`: called by the hook in a child's Python, when it is about to load PyTorch.
//!
//! Adds what the libraries of that PyTorch want and the folder of the run does not have: libraries of a new name, and
//! functions that this ptmem does not know.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use crate::arguments::StandInsArguments;
use crate::imports::LibraryImports;
use crate::output::{WriteFile, eprint_line};
use crate::stand_in::{PRELOADED, StandIn};

/// Library of the functions that [`crate::LIBRARY`] does not have.
const UNKNOWN: &str = "libptmem-unknown.so";

/// Adds them to the folder.
///
/// # Errors
/// If the libraries of that PyTorch cannot be read, or a stand-in cannot be written.
pub fn run(arguments: &StandInsArguments, write_file: WriteFile<'_>) -> Result<()> {
    // As a whole: processes of a run may write it at the same time.
    let write = |stand_in: &StandIn<'_>| write_file(&arguments.folder.join(stand_in.soname), &stand_in.bytes()?);
    let imports = imports_of(&arguments.torch)?;
    let functions = imports.unknown().context("the library in this ptmem cannot be read")?;
    let mut needed = vec![PRELOADED];
    if !functions.is_empty() {
        write(&StandIn { soname: UNKNOWN, needed: &[PRELOADED], functions: &functions })?;
        needed.push(UNKNOWN);
        eprint_line(&format!(
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
            write(&StandIn { soname, needed: &needed, functions: &[] })?;
        }
    }
    Ok(())
}

/// The imports of all libraries in a folder.
fn imports_of(folder: &Path) -> Result<LibraryImports> {
    let mut all = LibraryImports::default();
    for entry in fs::read_dir(folder).with_context(|| format!("{}: cannot be read", folder.display()))? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")) {
            continue;
        }
        let file = File::open(&path).with_context(|| format!("{}: cannot be opened", path.display()))?;
        // A file that is not a shared object, such as a linker script, imports nothing.
        if let Ok(imports) = LibraryImports::read(file) {
            all.merge(imports);
        }
    }
    Ok(all)
}
