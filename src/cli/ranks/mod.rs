//! Inputs of a distributed job: a directory or a glob with a file for each rank.

mod find;
mod name;
mod pair;
mod read;
mod rule;
mod work;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use anyhow::{Result, bail};
use ptmem::sides::Sides;

pub(super) use find::{Found, files, find};
use pair::members;
pub(super) use pair::{Pair, pair};
pub(super) use read::{check_exports, readings};
pub(super) use rule::RankRule;
pub(super) use work::in_order;

/// The files of both sides where they are those of ranks; `None` where each side is one file.
///
/// # Errors
/// Where only one side is a directory or a glob, or nothing is found.
pub(super) fn sides(before: &Path, after: &Path) -> Result<Option<Sides<Vec<Found>>>> {
    match (find(before)?, find(after)?) {
        (None, None) => Ok(None),
        (Some(before), Some(after)) => Ok(Some(Sides { before, after })),
        (Some(_), None) => bail!(one_sided(before, after)),
        (None, Some(_)) => bail!(one_sided(after, before)),
    }
}

fn one_sided(folder: &Path, file: &Path) -> String {
    format!(
        "{} stands for several files, but {} is one file; expected a directory or a glob on both sides, or one file on each",
        folder.display(),
        file.display()
    )
}

/// The number of threads to work with.
pub(super) fn jobs(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// The size of a file; 0 if it is not known: reading the file then reports the error.
pub(super) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |there| there.len())
}
