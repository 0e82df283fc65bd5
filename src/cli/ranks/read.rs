//! Reading the snapshots of the ranks of a job.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use ptmem::profile::{self, Profile};
use ptmem::snapshot::Tables;
use ptmem::verdict::{self, Judgement, Reading, Readings, Thresholds};

use super::super::args::View;
use super::super::input::{self, require_moment};
use super::super::output;
use super::{Found, in_order, jobs, members, size};

/// Refuses exports that must be a mistake.
pub(crate) fn check_exports(view: &View, path: &Path, found: Option<&[Found]>) -> Result<()> {
    let of_ranks = found.unwrap_or_default().iter().map(|found| &*found.path);
    output::check_exports(&view.export, [path].into_iter().chain(of_ranks))
}

/// Reads the snapshots of the ranks of a job, and judges them where there are limits.
pub(crate) fn readings(
    path: &Path,
    found: &[Found],
    thresholds: Option<Thresholds>,
    view: &View,
    options: &profile::Options,
) -> Result<Readings> {
    let members = members(path, found)?;
    let sizes: Vec<u64> = members.iter().map(|(_, found)| size(&found.path)).collect();
    let one_of_ranks = thresholds.clone().map(|thresholds| Thresholds { one_of_ranks: true, ..thresholds });
    let mut readings: Vec<Reading> = Vec::with_capacity(members.len());
    let mut tables = Tables::default();
    in_order(
        jobs(view.jobs),
        &sizes,
        |index| judged(&members[index].1.path, one_of_ranks.as_ref(), options),
        |index, (mut profile, judgement)| {
            profile.pool(&mut tables);
            readings.push(Reading { member: members[index].0.clone(), profile, judgement });
        },
    )?;
    let tables = Arc::new(tables);
    for reading in &mut readings {
        reading.profile.tables = Arc::clone(&tables);
    }
    Ok(Readings::new(path.display().to_string(), readings, &thresholds.unwrap_or_default()))
}

/// A snapshot, and its judgement where there are limits.
fn judged(
    path: &Path,
    thresholds: Option<&Thresholds>,
    options: &profile::Options,
) -> Result<(Profile, Option<Judgement>)> {
    let profile = input::profile(path, options)?;
    require_moment(&profile)?;
    let judgement = thresholds.map(|thresholds| verdict::judge_profile(&profile, thresholds));
    Ok((profile, judgement))
}
