//! Reads the recordings of a series, the oldest first.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Result, bail};
use clap::ValueEnum;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::profile::{InputKind, Profile, ReadOptions};

use super::ranks::{self, FoundFile};
use super::{advice, errors, input, output};

/// The order of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeriesOrder {
    /// As they were recorded, by the times in the files
    Recorded,
    /// As they are given; those of directories and globs in the order of their names
    Given,
}

/// Recordings that were read, the oldest first.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) profiles: Vec<Profile>,
    /// Files that could not be read or compared, with the reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// Remarks on files that were given in another order, and on those that may be of ranks.
    pub(crate) remarks: Vec<Diagnostic>,
    /// True if they are no series: their order is not known, nor needed.
    pub(crate) are_of_ranks: bool,
}

/// The purpose of reading a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Figures are listed.
    Figures,
    /// Stacks are compared: figures among recordings are left out.
    Stacks,
    /// The same, unless the recordings are of ranks.
    StacksUnlessOfRanks,
}

/// Reads files. One that the user did not name may turn out to be unreadable: it must not stop a job that looks at all of them
/// every night.
///
/// # Errors
/// Where no file can be read, one that was named cannot be, one is given twice, or names and times disagree.
pub(crate) fn read(
    files: &[FoundFile],
    order: Option<SeriesOrder>,
    reading: &ReadOptions,
    purpose: Purpose,
) -> Result<Series> {
    let mut members = Vec::new();
    let mut skipped = Vec::new();
    let mut first_error = None;
    let mut given = HashSet::new();
    for file in files {
        let path = &file.path;
        if output::real_file(path).is_some_and(|real| !given.insert(real)) {
            bail!("{}: is given twice; expected different snapshots, in order", path.display());
        }
        match input::profile(path, reading) {
            Ok(profile) => members.push(SeriesMember::new(file, profile)),
            Err(error) if !file.is_named => {
                skipped.push((path.display().to_string(), errors::explained_cause(&error)));
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = first_error.filter(|_| members.is_empty()) {
        return Err(error);
    }
    if purpose != Purpose::Figures {
        skipped.extend(take_figures_among_snapshots(&mut members));
    }
    let kind = if purpose == Purpose::StacksUnlessOfRanks { kind(&members) } else { MembersKind::Series };
    let are_of_ranks = kind == MembersKind::Ranks;
    let mut remarks = Vec::new();
    if !are_of_ranks {
        remarks.extend(sort(&mut members, order)?);
        remarks.extend((kind == MembersKind::Unclear).then(series_assumed));
    }
    let profiles = members.into_iter().map(|member| member.profile).collect();
    Ok(Series { profiles, skipped, remarks, are_of_ranks })
}

/// Takes the figures that nobody named, unless they are most of a series: with one file of figures, only totals could be compared.
fn take_figures_among_snapshots(members: &mut Vec<SeriesMember>) -> Vec<(String, String)> {
    if 2 * members.iter().filter(|member| member.is_of_unnamed_figures()).count() > members.len() {
        return Vec::new();
    }
    let taken = members.extract_if(.., |member| member.is_of_unnamed_figures());
    taken.map(|member| (member.path, "figures without stacks, beside recordings with stacks".to_owned())).collect()
}

/// True if the order of files is known before their times are read: they were given in the order of the numbers in their names, with
/// which the times must agree, or their order shall not change.
pub(crate) fn is_in_order(files: &[FoundFile], order: Option<SeriesOrder>) -> bool {
    let paths: Vec<String> = files.iter().map(path_of).collect();
    match order {
        Some(SeriesOrder::Given) => true,
        Some(SeriesOrder::Recorded) => false,
        None => {
            ranks::differ_in_numbers(paths.iter().map(String::as_str))
                && paths.is_sorted_by(|a, b| ranks::natural(a, b).is_le())
        }
    }
}

/// Ranks end their last step together: within this part of the shortest of their recordings. Needed for `leak-series`.
const ENDS_TOGETHER: u64 = 10;

/// The subject of recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembersKind {
    /// The ranks of a job.
    Ranks,
    /// One process after the other, or one process at several moments.
    Series,
    /// Either of them.
    Unclear,
}

/// Recordings are of the ranks of a job if their recorders state different ranks, or, where those state nothing, if they end
/// together, and began at least twice as far apart. Later snapshots of one process, with its whole history, begin at the same
/// moment and end later. If its history is cut, both move on alike, as those of ranks may.
fn kind(members: &[SeriesMember]) -> MembersKind {
    let profiles = members.iter().map(|member| &member.profile);
    let stated: Option<BTreeSet<u64>> =
        profiles.clone().map(|profile| profile.run.as_ref()?.rank.map(|[rank, _]| rank)).collect();
    if let Some(ranks) = stated {
        return if ranks.len() > 1 { MembersKind::Ranks } else { MembersKind::Series };
    }
    let ends: Option<Vec<i64>> = members.iter().map(SeriesMember::time).collect();
    let durations: Option<Vec<u64>> = profiles.map(duration).collect();
    let (Some(ends), Some(durations)) = (ends, durations) else { return MembersKind::Series };
    let Some(&shortest) = durations.iter().min() else { return MembersKind::Series };
    let begins = ends.iter().zip(&durations).map(|(&end, &duration)| end.saturating_sub_unsigned(duration));
    let [begin_apart, end_apart] = [begins.collect::<Vec<_>>(), ends].map(|times| spread(&times));
    match begin_apart {
        _ if members.len() < 2 || end_apart >= shortest / ENDS_TOGETHER => MembersKind::Series,
        apart if apart / 2 >= end_apart => MembersKind::Ranks,
        0 => MembersKind::Series,
        _ => MembersKind::Unclear,
    }
}

/// The remark on recordings that may be of ranks.
fn series_assumed() -> Diagnostic {
    let message = "the snapshots begin and end at nearly the same times: they may be of ranks, but are compared as a series. \
                   Name those of ranks so (rank0.pkl), or state with --order of `ptmem leak` that they are a series";
    Diagnostic::new(Code::SeriesAssumed, None, message)
}

/// The time between the first and the last of some.
fn spread(times: &[i64]) -> u64 {
    times.iter().max().zip(times.iter().min()).map_or(0, |(last, first)| last.abs_diff(*first))
}

/// Microseconds that a recording lasts.
fn duration(profile: &Profile) -> Option<u64> {
    profile.devices.iter().filter_map(|device| device.duration_us).max()
}

/// A recording that was read.
struct SeriesMember {
    path: String,
    /// Whether the user named the file, or the file of which it is a case.
    is_named: bool,
    profile: Profile,
}

impl SeriesMember {
    fn new(file: &FoundFile, profile: Profile) -> Self {
        Self { path: path_of(file), is_named: file.is_named || file.is_case, profile: prepared(profile) }
    }

    fn is_of_unnamed_figures(&self) -> bool {
        !self.is_named && self.profile.source.kind == InputKind::Numbers
    }

    /// When the recording ended.
    fn time(&self) -> Option<i64> {
        self.profile.ended_us
    }
}

/// A profile of a series: of many, the histories would take most memory.
pub(crate) fn prepared(mut profile: Profile) -> Profile {
    advice::complete_diagnostics(&mut profile.diagnostics);
    profile.forget_history();
    profile
}

/// The path of a file, with folders parted by `/`.
fn path_of(file: &FoundFile) -> String {
    file.path.to_string_lossy().replace('\\', "/")
}

/// Sorts members by their recorded times, unless they are sorted or the user asks for the given order. Returns a remark if it did.
///
/// # Errors
/// Where numbers in the names state another order than the times.
fn sort(members: &mut [SeriesMember], order: Option<SeriesOrder>) -> Result<Option<Diagnostic>> {
    let have_times = members.iter().all(|member| member.time().is_some());
    if order == Some(SeriesOrder::Given) || !have_times || members.is_sorted_by_key(SeriesMember::time) {
        return Ok(None);
    }
    members.sort_by(|a, b| ranks::natural(&a.path, &b.path));
    if order.is_none() && ranks::differ_in_numbers(members.iter().map(|member| &*member.path)) {
        require_agreement(members)?;
    }
    members.sort_by_key(SeriesMember::time);
    let [first, last] = [members.first(), members.last()].map(|end| end.map_or("", |member| &*member.path));
    let message = format!(
        "the files were given in another order than they were recorded in; sorted by their recorded times, from {first} to {last}"
    );
    Ok(Some(Diagnostic::new(Code::SeriesSorted, None, message)))
}

/// Refuses members in the order of the numbers in their names that were recorded in another order.
fn require_agreement(members: &[SeriesMember]) -> Result<()> {
    let Some(pair) = members.windows(2).find(|pair| pair[0].time() > pair[1].time()) else { return Ok(()) };
    bail!(
        "{} was recorded before {}, against the numbers in their names; expected a series in which both agree: --order \
         recorded goes by the times in the files, --order given takes the files as they are given",
        pair[1].path,
        pair[0].path
    )
}
