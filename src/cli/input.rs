//! Opening and reading snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::profile::numbers::{self, Cases};
use ptmem::profile::{self, Moment, Opened, Profile, ReadOptions, Source};
use ptmem::sides::Sides;
use ptmem_base::text::did_you_mean;

use super::advice;
use super::output::folder_of;
use super::progress::ProgressReader;
use super::words::word;

/// Reads two snapshots, at the same time if requested.
pub(crate) fn profiles(files: Sides<&Path>, options: &ReadOptions, parallel: bool) -> Result<Sides<Profile>> {
    if parallel {
        let read = files.map_at_once(|path| profile(path, options));
        return Ok(Sides { before: read.before?, after: read.after? });
    }
    Ok(Sides { before: profile(files.before, options)?, after: profile(files.after, options)? })
}

/// Reads a snapshot, or a saved profile.
pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Opened> {
    let (file, options) = case_of(path, options);
    read(file, |input| profile::open(input, &path.display().to_string(), options))
}

/// The file of a path, and the options with the case of `FILE#CASE`.
fn case_of<'p>(path: &'p Path, options: &ReadOptions) -> (&'p Path, ReadOptions) {
    let options = options.clone();
    let split = path.to_str().filter(|_| !path.exists()).and_then(|text| text.split_once('#'));
    match split.filter(|(file, _)| Path::new(file).is_file()) {
        Some((file, case)) => (Path::new(file), ReadOptions { case: Some(case.to_owned()), ..options }),
        None => (path, options),
    }
}

/// Whether there is a file or a directory, also of a case.
pub(crate) fn exists(path: &Path) -> bool {
    case_of(path, &ReadOptions::default()).0.exists()
}

/// The largest file in which figures are looked for before it is read as an input.
pub(crate) const MOST_FIGURES: u64 = 64 << 20;

/// The files that hold the figures of several cases. Each is read once, although its cases are read one by one.
static CASES: Mutex<BTreeMap<PathBuf, Arc<Cases>>> = Mutex::new(BTreeMap::new());

/// The files whose cases are known.
fn known_cases() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<Cases>>> {
    CASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the cases of a file that holds the figures of several.
pub(crate) fn cases(path: &Path) -> Vec<String> {
    let is_table = path.extension().is_some_and(|ending| ending == "json" || ending == "csv");
    if !is_table || !path.metadata().is_ok_and(|there| there.is_file() && there.len() <= MOST_FIGURES) {
        return Vec::new();
    }
    // An error is reported where the file is read.
    let cases = std::fs::read(path).ok().and_then(|text| numbers::cases(&text).ok()).unwrap_or_default();
    let names: Vec<String> = cases.names().map(str::to_owned).collect();
    if !names.is_empty() {
        known_cases().insert(path.to_owned(), Arc::new(cases));
    }
    names
}

/// Reads a snapshot and computes its profile.
pub(crate) fn profile(path: &Path, options: &ReadOptions) -> Result<Profile> {
    let (file, options) = case_of(path, options);
    let known = known_cases().get(file).filter(|_| options.case.is_some()).cloned();
    let mut profile = match known {
        Some(cases) => profile_of_case(&cases, file, path, options)?,
        None => read(file, |input| profile::read(input, &path.display().to_string(), options))?,
    };
    advice::complete_diagnostics(&mut profile.diagnostics);
    Ok(profile)
}

/// The profile of a case of a file.
fn profile_of_case(cases: &Cases, file: &Path, path: &Path, options: ReadOptions) -> Result<Profile> {
    let shown = path.display().to_string();
    let bytes = file.metadata().map_or(0, |there| there.len());
    let source = Source { path: shown.clone(), bytes, ..Source::default() };
    profile::read_case(cases, source, options).context(shown)
}

fn read<T>(path: &Path, read: impl FnOnce(&mut dyn Read) -> Result<T, profile::ProfileError>) -> Result<T> {
    if path.as_os_str() == "-" {
        return read(&mut ProgressReader::new(io::stdin().lock(), None)).context("standard input");
    }
    let file = file(path)?;
    let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|there| there.len());
    read(&mut ProgressReader::new(file, bytes)).with_context(|| path.display().to_string())
}

/// Refuses a moment (`--at`) that no device has: a typo would otherwise look like an empty device. An unknown peak is
/// not a typo.
pub(crate) fn require_moment(profile: &Profile) -> Result<()> {
    let moment = &profile.options.at;
    let active: Vec<_> = profile.devices.iter().filter(|device| device.is_active()).collect();
    if matches!(moment, Moment::Peak | Moment::Aligned)
        || active.is_empty()
        || active.iter().any(|device| device.at.is_some())
    {
        return Ok(());
    }
    if moment.needs_times() && active.iter().all(|device| !device.has_times) {
        bail!(
            "{}: the events have no times (PyTorch before 2.2), which --at {moment} needs; try --at event:N",
            profile.source.path
        );
    }
    if profile.is_numbers() {
        bail!("{}: holds only figures, which --at {moment} cannot choose from", profile.source.path);
    }
    require_phases(profile, moment)?;
    let lengths: Vec<_> = active.iter().map(|device| device.events.to_string()).collect();
    let phases = profile.devices.iter().flat_map(|device| &device.phases.all);
    let what = match moment {
        Moment::Between(_) => "expected two moments that exist, the earlier first".to_owned(),
        Moment::Phase(of) => {
            let count = phases.filter(|phase| *phase.name == *of.name).count();
            format!("there are {count} occurrences of '{}'", of.name)
        }
        Moment::Oom => "memory did not run out".to_owned(),
        _ => format!("the histories have {} events", lengths.join(", ")),
    };
    bail!("{}: no device has the moment '{moment}' (--at); {what}", profile.source.path);
}

/// Refuses a moment of a phase whose name no device has.
fn require_phases(profile: &Profile, moment: &Moment) -> Result<()> {
    let path = &profile.source.path;
    let phases = profile.devices.iter().flat_map(|device| &device.phases.all);
    let names: BTreeSet<&str> = phases.map(|phase| &*phase.name).collect();
    match moment.phase_names().into_iter().find(|name| !names.contains(name)) {
        Some(_) if names.is_empty() => bail!(
            "{path}: the history has no phases, which --at {moment} needs; name parts of the program with \
             torch.profiler.record_function(NAME)"
        ),
        Some(name) => {
            let near = profile.nearest_phases(name);
            bail!("{path}: no phase is named '{name}'{near}. 'ptmem show --phases' lists them");
        }
        None => Ok(()),
    }
}

/// Whether a path is the address of a file elsewhere: `https://example.org/snapshot.pkl`.
fn is_address(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Names of a folder that are compared with one that is not there.
const MOST_NAMES: usize = 10_000;

/// `; did you mean 'before.pkl'?` for a file that is not there.
pub(crate) fn near(path: &Path) -> String {
    let folder = folder_of(path);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_NAMES);
    let prefix = if path.parent() == Some(folder) { folder } else { Path::new("") };
    let names: Vec<String> = entries.map(|entry| prefix.join(entry.file_name()).display().to_string()).collect();
    did_you_mean(&path.display().to_string(), names.iter().map(String::as_str))
}

const EXPECTED: &str = "expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile";

fn file(path: &Path) -> Result<File> {
    let name = path.display();
    // Asked first: some systems say "no permission" when a directory is opened.
    if path.is_dir() {
        bail!("{name}: is a directory; {EXPECTED}");
    }
    if path.is_file() && path.extension().is_some_and(|ending| ending == "py") {
        let program = word(&name.to_string());
        bail!(
            "{name}: is a Python program; {EXPECTED}. To record the program: ptmem simulate --record snapshot.pkl -- python \
             {program}"
        );
    }
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if is_address(path) => {
            anyhow!("{name}: is an address, and ptmem opens no connections; download the file first")
        }
        io::ErrorKind::NotFound => anyhow!("{name}: no such file; {EXPECTED}{}", near(path)),
        io::ErrorKind::PermissionDenied => anyhow!("{name}: no permission to read the file"),
        _ => anyhow!("{name}: {error}"),
    })
}
