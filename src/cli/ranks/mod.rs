//! Inputs of a distributed job: a directory or a glob with a file for each rank.

mod find;
mod name;
mod pair;
mod process;
mod work;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Result, bail};
use ptmem::profile;
use ptmem::sides::Sides;
use ptmem::snapshot::Tables;
use ptmem::verdict::{self, GateNode, Job, Reading, Readings, Thresholds};

use super::args::ViewArguments;
use super::input::{self, require_moment};
use super::output;

pub(crate) use find::{FoundFile, files, find};
pub(crate) use name::{differ_in_numbers, natural};
use pair::members;
pub(crate) use pair::{Pairs, RankPair, UnpairedRank, pair};
pub(crate) use process::{Process, by_member, by_process};
pub(crate) use work::in_order;

/// The files of both sides where they are those of ranks; `None` where each side is one file.
///
/// # Errors
/// Where only one side is a directory or a glob, or nothing is found.
pub(crate) fn sides(before: &Path, after: &Path) -> Result<Option<Sides<Vec<FoundFile>>>> {
    match (find(before)?, find(after)?) {
        (None, None) => Ok(None),
        (Some(before), Some(after)) => Ok(Some(Sides { before, after })),
        (found, _) => {
            let [folder, file] = if found.is_some() { [before, after] } else { [after, before] };
            if file.as_os_str() != "-" && !input::exists(file) {
                bail!(
                    "{}: no such file or directory; expected the snapshots of the ranks, as {} has",
                    file.display(),
                    folder.display()
                );
            }
            bail!(
                "{} stands for several files or cases, but {} for one; expected several on both sides (a directory, a glob, \
                 or a file with cases), or one on each",
                folder.display(),
                file.display()
            )
        }
    }
}

/// The number of threads to work with.
pub(crate) fn jobs(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// The size of a file; 0 if it is not known: reading the file then reports the error.
pub(crate) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |there| there.len())
}

/// Refuses exports that must be a mistake.
pub(crate) fn check_exports(view: &ViewArguments, path: &Path, found: Option<&[FoundFile]>) -> Result<()> {
    let of_ranks = found.unwrap_or_default().iter().map(|found| &*found.path);
    output::check_exports(&view.export, [path].into_iter().chain(of_ranks))
}

/// Reads a snapshot, or those of the ranks of a job that were found, and judges them where there are limits.
pub(crate) fn readings(
    path: &Path,
    found: Option<&[FoundFile]>,
    thresholds: Option<&Thresholds>,
    view: &ViewArguments,
    options: &profile::ReadOptions,
) -> Result<Readings> {
    let Some(found) = found else { return Ok(reading(path, thresholds, options)?.into()) };
    let members = members(path, found)?;
    let sizes: Vec<u64> = members.iter().map(|(_, found)| size(&found.path)).collect();
    let one_of_ranks = thresholds.map(|thresholds| Thresholds { one_of_ranks: true, ..thresholds.clone() });
    let mut readings: Vec<Reading> = Vec::with_capacity(members.len());
    let mut tables = Tables::default();
    in_order(
        jobs(view.jobs),
        &sizes,
        |index| reading(&members[index].1.path, one_of_ranks.as_ref(), options),
        |index, mut reading| {
            reading.profile.pool(&mut tables);
            readings.push(Reading { member: Some(members[index].0.clone()), ..reading });
        },
    )?;
    let tables = Arc::new(tables);
    for reading in &mut readings {
        reading.profile.tables = Arc::clone(&tables);
    }
    let job = Job::read(path.display().to_string(), readings, &thresholds.cloned().unwrap_or_default());
    Ok(Readings { nodes: vec![GateNode::Job(job)] })
}

/// A snapshot, and its judgement where there are limits.
fn reading(path: &Path, thresholds: Option<&Thresholds>, options: &profile::ReadOptions) -> Result<Reading> {
    let profile = input::profile(path, options)?;
    require_moment(&profile)?;
    let judgement = thresholds.map(|thresholds| verdict::judge_profile(&profile, thresholds));
    Ok(Reading { member: None, profile, judgement })
}
