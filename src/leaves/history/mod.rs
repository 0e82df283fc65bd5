//! `ptmem history`: the memory of a code base over time.

mod course;
mod json;
mod view;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ptmem::profile;
use ptmem::report::view::View;
use ptmem::report::{RenderOptions, Report};
use ptmem::units::parse_size;
use ptmem_base::json_writer;

use crate::cli::args::StudyArguments;
use crate::cli::git;
use crate::cli::output::{Output, folder_of};
use crate::cli::ranks::{self, FoundFile};
use crate::cli::series::{self, Purpose, Series, SeriesOrder};
use course::{CoursePoint, FileCommit, History, HistoryOptions};

/// The heading of the options.
const HISTORY: &str = "History";

/// Show the peak over time, and the profiles at which it changed
///
/// Reads a folder of nightly profiles, or all versions of a stored profile in git.
#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// Profiles or snapshots of one rank; directories or quoted globs of them
    #[arg(required_unless_present = "git", conflicts_with = "git", value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// Every version of this stored profile in its git repository
    #[arg(long, value_name = "FILE", help_heading = HISTORY)]
    git: Option<PathBuf>,
    /// Look at the latest N profiles only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = HISTORY)]
    last: Option<u32>,
    /// Smallest change of the peak that counts as a step [default: 1MiB; of eight or more profiles, only what stands out]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", help_heading = HISTORY)]
    min_step: Option<u64>,
    /// Order of the files [default: as recorded; names and times must agree]
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "git", help_heading = HISTORY)]
    order: Option<SeriesOrder>,
    #[command(flatten, next_help_heading = HISTORY)]
    study: StudyArguments,
}

pub(super) fn run(arguments: &HistoryArguments, output: &Output) -> Result<ExitCode> {
    let inputs = arguments.profiles.iter().chain(&arguments.git).map(PathBuf::as_path);
    let (reading, config) = arguments.study.reading(inputs)?;
    let device_memory = arguments.study.device.memory(&config);
    let last = arguments.last.map_or(usize::MAX, |last| usize::try_from(last).unwrap_or(usize::MAX));
    let (points, series) = match &arguments.git {
        Some(path) => versions(path, last, &reading)?,
        None => read(arguments, last, &reading)?,
    };
    if let (true, Some((path, reason))) = (series.profiles.is_empty(), series.skipped.first()) {
        bail!("{path}: {reason}");
    }
    let allow_oom = config.limits.allow_oom.unwrap_or_default();
    let options = HistoryOptions { min_step: arguments.min_step, device_memory, allow_oom };
    let mut history = History::new(points, &series.profiles, series.skipped, &options);
    history.diagnostics.extend(series.remarks);
    if history.devices.is_empty() {
        bail!("no profile has a device that did anything; expected profiles of recordings");
    }
    arguments.study.view.write(&history, output)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads files, and those of directories and globs. The latest of files whose names do not state the order are known once all
/// are read.
fn read(
    arguments: &HistoryArguments,
    last: usize,
    reading: &profile::ReadOptions,
) -> Result<(Vec<CoursePoint>, Series)> {
    let mut files = of_one_process(ranks::files(&arguments.profiles)?, arguments.order)?;
    if series::is_in_order(&files, arguments.order) {
        files.drain(..files.len().saturating_sub(last));
    }
    let mut series = series::read(&files, arguments.order, reading, Purpose::Figures)?;
    series.profiles.drain(..series.profiles.len().saturating_sub(last));
    let points = series.profiles.iter().map(|profile| CoursePoint { name: profile.source.path.clone(), commit: None });
    Ok((points.collect(), series))
}

/// The files, which are a series if one process wrote all of them, as their names state, or the user says so.
fn of_one_process(files: Vec<FoundFile>, order: Option<SeriesOrder>) -> Result<Vec<FoundFile>> {
    if order == Some(SeriesOrder::Given) || files.iter().all(|file| file.is_named) {
        return Ok(files);
    }
    let processes = ranks::by_process(files.clone());
    let firsts: Vec<_> = processes.values().flat_map(|files| files.first()).map(|file| file.path.display()).collect();
    if let [first, second, ..] = &firsts[..] {
        bail!(
            "{first} and {second} are of different ranks or cases; expected the profiles of one: a quoted glob such as \
             '*rank0*', or FILE#CASE; if the names state something else, name each file or give --order given"
        );
    }
    Ok(files)
}

/// The trailer by which a commit that only keeps a profile names the commit that was recorded.
const RECORDED: &str = "Recorded-commit";

/// A version of the file.
struct Version {
    /// The commit that has it.
    hash: String,
    /// The commit whose profile it is.
    recorded: FileCommit,
}

/// Digits of a hash that name a commit.
const SHORT: usize = 10;

/// Reads the latest versions of a file that can be read, the oldest first.
fn versions(path: &Path, last: usize, reading: &profile::ReadOptions) -> Result<(Vec<CoursePoint>, Series)> {
    let name = path.display();
    let file = path.file_name().and_then(|file| file.to_str());
    let file = file.ok_or_else(|| anyhow!("{name}: has no name that git could look for; expected a file"))?;
    let folder = folder_of(path);
    let commits = commits(folder, file)?;
    if commits.is_empty() {
        bail!("{name}: no commit has this file; expected a profile that is stored in a git repository");
    }
    let mut series = Series::default();
    let mut points = Vec::new();
    for Version { hash, recorded } in commits.into_iter().rev() {
        if points.len() == last {
            break;
        }
        let short = recorded.hash.get(..SHORT).unwrap_or(&recorded.hash).to_owned();
        let stored = format!("{hash}:./{file}");
        let bytes = git::output(&mut git::git(Some(folder)), &["cat-file", "blob", &stored]);
        let profile = bytes.or_else(|error| git::require_object(folder, &stored).and(Err(error))).and_then(|bytes| {
            profile::read(&*bytes, &format!("{short}:{file}"), reading.clone()).map_err(anyhow::Error::from)
        });
        match profile {
            Ok(profile) => {
                series.profiles.push(series::prepared(profile));
                points.push(CoursePoint { name: short, commit: Some(recorded) });
            }
            Err(error) => series.skipped.push((short, error.root_cause().to_string())),
        }
    }
    points.reverse();
    series.profiles.reverse();
    series.skipped.reverse();
    Ok((points, series))
}

/// The commits that changed a file, the oldest first.
fn commits(folder: &Path, file: &str) -> Result<Vec<Version>> {
    // Fields are separated by what no message can hold, and commits by zeros.
    let format = format!("--format=%H%x1f%(trailers:key={RECORDED},valueonly,separator=%x20)%x1f%ct%x1f%s");
    let listed = git::output(&mut git::git(Some(folder)), &["log", "-z", "--reverse", &format, "--", file])?;
    let listed = String::from_utf8_lossy(&listed);
    listed.split('\0').filter(|entry| !entry.trim().is_empty()).map(commit).collect()
}

fn commit(entry: &str) -> Result<Version> {
    let fields: Vec<&str> = entry.trim().splitn(4, '\u{1f}').collect();
    let &[hash, trailer, time, subject] = &fields[..] else { bail!("git log: unexpected entry '{entry}'") };
    let time = time.parse().with_context(|| format!("git log: unexpected time in '{entry}'"))?;
    let is_named = trailer.len() >= SHORT && trailer.chars().all(|digit| digit.is_ascii_hexdigit());
    let recorded = if is_named { trailer } else { hash }.to_owned();
    Ok(Version { hash: hash.to_owned(), recorded: FileCommit { hash: recorded, time, subject: subject.to_owned() } })
}

impl Report for History {
    fn model(&self, options: &RenderOptions) -> View {
        view::view(self, options)
    }

    fn json(&self, _: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json_writer::write(&json::HistoryReport(self), out)
    }
}
