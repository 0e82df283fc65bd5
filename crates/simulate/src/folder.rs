//! The private folder of a run: the library, stand-ins for NVIDIA's libraries, the hook for Python, the counters.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::arguments::RecordedSnapshot;
use crate::compiled::{empty_caches, has_compiled};
use crate::embedded::{LIBRARY, PYTHON, PYTHON_WATCH};
use crate::ledger::{CountedFact, Ledger};
use crate::report::{Followed, PeerValue};
use crate::settings::{SETTINGS_VARIABLE, Settings};
use crate::stand_in::{PRELOADED, SONAMES, StandIn};

/// Prefix of the folder's name. The folder contains generated code, so labels of stacks fold its name.
const PREFIX: &str = "ptmem-simulate-";

/// Variables that are set unless the user set them. A program that allocates in the order of a set of strings needs one order on
/// both sides. `torch.compile` otherwise starts a Python that imports PyTorch anew to start its workers, which takes a third of the
/// time. After a cold start, the program can wait 300 seconds for it to end
/// (<https://github.com/pytorch/pytorch/issues/162199>).
const DEFAULTS: [(&str, &str); 2] = [("PYTHONHASHSEED", "0"), ("TORCHINDUCTOR_WORKER_START", "fork")];

/// Variables by which services that track experiments write to disk alone: losses of a run that is recorded for its memory belong
/// on no dashboard, and nobody has an account in CI.
const TRACKERS: [(&str, &str); 4] = [
    ("WANDB_MODE", "offline"),
    ("NEPTUNE_MODE", "offline"),
    ("SWANLAB_MODE", "offline"),
    ("CLEARML_OFFLINE_MODE", "1"),
];

/// Attempts to remove the folder, and the pause between them: together longer than compile workers outlive their
/// program.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Age from which the folder of a run that is over is removed by the next: a younger one may not have its lock yet.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);
/// File in the folder that its run keeps locked: the counters are mapped, so their file need not get younger.
const LOCK: &str = "lock";

/// The folder; it is removed with the value.
pub(super) struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

/// Variables to set for the child.
pub(super) type Environment = Vec<(&'static str, OsString)>;

/// Variables by which a program reports to no service, unless the user set them.
pub fn offline_trackers() -> impl Iterator<Item = (&'static str, OsString)> {
    unless_set(&TRACKERS)
}

fn unless_set(variables: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = (&'static str, OsString)> {
    let unset = variables.iter().filter(|(variable, _)| env::var_os(variable).is_none());
    unset.map(|(variable, value)| (*variable, value.into()))
}

impl TemporaryFolder {
    /// Creates the folder with its contents.
    pub(super) fn make() -> Result<Self> {
        let place = place()?;
        clear_old(&place);
        Self::make_in(&place)
            .with_context(|| format!("{}: no folder for the run can be made there (TMPDIR)", place.display()))
    }

    fn make_in(place: &Path) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // Whatever the umask allows: others could put code there that the program runs.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(place)?;
        let lock = File::create(folder.path().join(LOCK))?;
        // Where files cannot be locked, runs of more than a day are the only ones at risk.
        let _ = is_locked(&lock);
        fill(folder.path())?;
        Ok(Self { path: folder.keep(), _lock: lock })
    }

    /// Variables that let a child find all of it. Search paths that are set already are kept behind.
    pub(super) fn environment(&self, settings: &Settings, record: Option<&RecordedSnapshot>) -> Result<Environment> {
        let libraries = self.path.join("lib");
        let python = self.path.join("python");
        let ledger = self.path.join("ledger");
        let mut environment = vec![
            (
                SETTINGS_VARIABLE,
                settings.text(&python.to_string_lossy(), &ledger.to_string_lossy(), std::process::id()).into(),
            ),
            ("LD_PRELOAD", before("LD_PRELOAD", libraries.join(PRELOADED), [":", " "])),
            ("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", libraries.clone(), [":", ":"])),
            // The stand-in of the driver, for programs that are linked with it.
            ("LIBRARY_PATH", before("LIBRARY_PATH", libraries.clone(), [":", ":"])),
            ("PYTHONPATH", before("PYTHONPATH", python, [":", ":"])),
            ("TRITON_LIBCUDA_PATH", libraries.into()),
        ];
        environment.extend(empty_caches(&self.path));
        environment.extend(unless_set(&DEFAULTS));
        environment.extend(offline_trackers());
        if let Ok(ptmem) = env::current_exe() {
            environment.push(("PTMEM_SIMULATE_PROGRAM", ptmem.into()));
        }
        if let Some(RecordedSnapshot { path, steps }) = record {
            let path = std::path::absolute(path).with_context(|| format!("{}: no such folder", path.display()))?;
            let mut text = OsString::from(steps.map_or(";;".to_owned(), |steps| {
                format!("{};{}{};", steps.first, steps.last, if steps.continues { "+" } else { "" })
            }));
            text.push(path);
            environment.push(("PTMEM_SIMULATE_RECORD", text));
        }
        Ok(environment)
    }

    /// Contents of the file of counters.
    pub(super) fn ledger(&self) -> Vec<u8> {
        fs::read(self.path.join("ledger")).unwrap_or_default()
    }

    /// Lines of the program in which something first followed from values that are not known.
    pub(super) fn followed(&self) -> [Option<String>; 3] {
        Followed::ALL.map(|kind| fs::read_to_string(self.path.join(format!("python/first_{}", kind as usize))).ok())
    }

    /// Waits for processes that write the recordings of others, which may have been killed.
    pub(super) fn wait_for_recordings(&self) {
        #[cfg(unix)]
        if let Ok(file) = File::open(self.path.join("python/writing")) {
            // Where files cannot be locked, there is nothing to wait for.
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive);
        }
    }

    /// Snapshots that were written, in order and each once.
    pub(super) fn recorded(&self) -> Vec<String> {
        self.notes("recorded").into_keys().collect()
    }

    /// The exit status of the process that recorded to a path; `None` if it wrote the recording before its end, was killed or
    /// has not ended.
    pub(super) fn status_of(&self, recording: &str) -> Option<u8> {
        let python = self.path.join("python");
        let text = fs::read_to_string(python.join("statuses")).ok()?;
        let last = text.lines().rev().filter_map(|line| line.split_once(' ')).find(|(_, path)| *path == recording);
        fs::read(python.join(last?.0)).ok()?.first().copied()
    }

    /// Whether the program was ended after the last step to record.
    pub(super) fn was_stopped(&self) -> bool {
        !self.notes("stopped").is_empty()
    }

    /// Reasons for which the recording is not as requested.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.notes("problems").into_keys().collect();
        let used = Ledger::read(&self.ledger()).fact(CountedFact::AllocatingProcesses);
        let accounted = self.notes("accounted").len() as u64;
        if let missing @ 1.. = used.saturating_sub(accounted) {
            problems.push(format!(
                "{missing} of {used} processes that used the GPU were not recorded: they are not Python with PyTorch, \
                 or ended by os._exit or a signal before they wrote their file"
            ));
        }
        problems
    }

    /// Places at which other ranks send what only they know, with how often, in order.
    pub(super) fn peer_values(&self) -> Vec<PeerValue> {
        self.notes("peers").into_iter().map(|(place, times)| PeerValue { place, times }).collect()
    }

    /// Lines that the hook in Python wrote to a file, with how often.
    fn notes(&self, file: &str) -> BTreeMap<String, u64> {
        let text = fs::read_to_string(self.path.join("python").join(file)).unwrap_or_default();
        let mut lines = BTreeMap::new();
        for line in text.lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        lines
    }
}

impl Drop for TemporaryFolder {
    /// Workers of `torch.compile` that outlive their program may still write to the caches: then it takes more than one
    /// attempt.
    fn drop(&mut self) {
        let caches = has_compiled(&self.path);
        for _ in 0..ATTEMPTS {
            // A file that cannot be removed now is tried again later; failing to remove it is not an error.
            let _ = fs::remove_dir_all(&self.path);
            if caches {
                thread::sleep(PAUSE);
            }
            if !self.path.exists() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Removes the folders of runs that were killed: their own process could not.
fn clear_old(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_folder = entry.metadata().is_ok_and(|of| of.is_dir() && is_own(&of) && is_old(&of));
        if is_folder && entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // A folder without a lock is somebody's own.
            if File::open(entry.path().join(LOCK)).is_ok_and(|lock| !is_locked(&lock)) {
                // The run before the next one tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn is_old(folder: &fs::Metadata) -> bool {
    folder.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD))
}

/// Others may put folders of this name next to ours.
#[cfg(unix)]
fn is_own(folder: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(folder) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

/// True if another process has locked the file; otherwise this process locks it.
#[cfg(unix)]
fn is_locked(file: &File) -> bool {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
}

#[cfg(not(unix))]
fn is_locked(_: &File) -> bool {
    false
}

/// The folder for temporary files; `/tmp` if its path cannot be used in `LD_PRELOAD` and in the settings.
fn place() -> Result<PathBuf> {
    [env::temp_dir(), PathBuf::from("/tmp")].into_iter().find(|place| can_be_listed(place)).context(
        "the path of the folder for temporary files holds a blank, colon, semicolon or dollar sign; set TMPDIR to another one",
    )
}

/// True for a path without the characters at which lists of paths are split.
fn can_be_listed(place: &Path) -> bool {
    place.to_str().is_some_and(|text| !text.contains([' ', ':', ';', '$', '\n', '\t']))
}

fn fill(folder: &Path) -> io::Result<()> {
    let libraries = folder.join("lib");
    fs::create_dir(&libraries)?;
    fs::write(libraries.join(PRELOADED), LIBRARY)?;
    // Elsewhere nothing is simulated.
    #[cfg(unix)]
    std::os::unix::fs::symlink(PRELOADED, libraries.join("libcuda.so"))?;
    for soname in SONAMES.lines() {
        let stand_in = StandIn { soname, needed: &[PRELOADED], functions: &[] };
        fs::write(libraries.join(soname), stand_in.bytes().map_err(io::Error::other)?)?;
    }
    let python = folder.join("python");
    fs::create_dir_all(python.join(PYTHON_WATCH))?;
    for (name, text) in PYTHON {
        fs::write(python.join(name), text)?;
    }
    File::create(folder.join("ledger"))?.set_len(Ledger::file_size())
}

/// A search path with one more entry in front. Entries of a run around this one are left out.
fn before(variable: &str, first: PathBuf, separators: [&str; 2]) -> OsString {
    let mut path: OsString = first.into();
    let earlier = env::var(variable).unwrap_or_default();
    for entry in earlier.split(|letter: char| separators.iter().any(|separator| separator.contains(letter))) {
        if !entry.is_empty() && !entry.contains(PREFIX) {
            path.push(":");
            path.push(entry);
        }
    }
    path
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_is_private() {
        let place = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::make_in(place.path()).unwrap();
        assert_eq!(fs::metadata(&folder.path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// Of runs that were killed: a run of days keeps its folder, and so does one that just began.
    #[test]
    fn folders_of_runs_that_are_over_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let running = TemporaryFolder::make_in(place.path()).unwrap();
        let over = place.path().join("ptmem-simulate-over");
        let young = place.path().join("ptmem-simulate-young");
        let other = place.path().join("another-program");
        let mine = place.path().join("ptmem-simulate-mine");
        fs::create_dir(&mine).unwrap();
        for folder in [&over, &young, &other] {
            fs::create_dir(folder).unwrap();
            File::create(folder.join(LOCK)).unwrap();
        }
        for folder in [&running.path, &over, &other, &mine] {
            let two_days_ago = std::time::SystemTime::now() - 2 * OLD;
            File::open(folder).unwrap().set_modified(two_days_ago).unwrap();
        }
        clear_old(place.path());
        let left = [&running.path, &over, &young, &other, &mine].map(|path| path.exists());
        assert_eq!(left, [true, false, true, true, true]);
    }

    #[test]
    fn a_path_at_which_lists_split_is_not_used() {
        for path in ["/a b", "/a:b", "/a;b", "/a$b"] {
            assert!(!can_be_listed(Path::new(path)), "{path}");
        }
        assert!(can_be_listed(&place().unwrap()));
    }
}
