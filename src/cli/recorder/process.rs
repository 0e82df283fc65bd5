//! Runs a command to its end, with its output in a file, and ends it where ptmem is asked to end.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::progress::Doing;
use super::variables::is_of_host;

/// How a command ended.
pub(crate) struct Ended {
    /// Its exit code; 128 and the number of the signal where a signal ended it.
    pub(crate) code: i32,
    /// The most memory that its processes took together, as far as it was seen.
    pub(crate) memory: u64,
}

/// ptmem was asked to end, and has ended what it ran.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; nothing was compared")]
pub(crate) struct Interrupted;

/// Pause between looks at a command that runs.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause between looks at its memory.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);

/// Runs a command, with its output in a file.
///
/// # Errors
/// If it cannot be started, or ptmem is asked to end.
pub(crate) fn run(command: &mut Command, log: &Path, doing: &Doing) -> Result<Ended> {
    interrupts::watch();
    let words = File::create(log).with_context(|| format!("{}: cannot be written", log.display()))?;
    command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
    hide_host(command);
    interrupts::group(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = interrupts::start(command)?.with_context(|| format!("{program}: cannot be started"))?;
    let ended = wait(&mut child, doing);
    interrupts::ended(&child);
    if interrupts::asked() {
        return Err(Interrupted.into());
    }
    ended.with_context(|| format!("{program}: cannot be waited for"))
}

/// Takes away what only the host of a job may see.
fn hide_host(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_of_host(&name.to_string_lossy()) {
            command.env_remove(&name);
        }
    }
}

fn wait(child: &mut Child, doing: &Doing) -> std::io::Result<Ended> {
    let mut memory = 0;
    let mut read = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { code: code(status), memory });
        }
        if read.elapsed() >= BETWEEN_READINGS {
            memory = memory.max(memory_of_group(child.id()));
            read = Instant::now();
        }
        doing.show();
        thread::sleep(PAUSE);
    }
}

/// The exit code, as a shell gives it.
fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return super::SIGNALS + signal;
    }
    status.code().unwrap_or(super::SIGNALS)
}

/// Bytes of main memory of the processes of a group; 0 where the system does not say so.
fn memory_of_group(group: u32) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_process = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        // The name of the program, in parentheses, may have any characters. Behind it: state, parent, group, …, pages.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let is_of_group = fields.get(2)?.parse() == Ok(group);
        let pages: u64 = fields.get(21).filter(|_| is_of_group)?.parse().ok()?;
        Some(pages.saturating_mul(PAGE))
    };
    processes.filter_map(|entry| of_process(&entry.file_name().to_string_lossy())).sum()
}

/// Bytes of a page: an estimate suffices.
const PAGE: u64 = 4096;

/// Bytes of main memory that new processes can take; `None` where the system does not say so.
pub(crate) fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Signals that ask ptmem to end. While a command runs, it is ended first, so that nothing is left behind.
mod interrupts {
    use super::{AtomicUsize, Child, Command, Interrupted, Mutex, Ordering};

    /// Groups of the processes that run.
    static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

    /// Signals so far.
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);

    /// Whether ptmem was asked to end.
    pub(crate) fn asked() -> bool {
        SIGNALS.load(Ordering::SeqCst) > 0
    }

    /// Starts a command, unless ptmem was asked to end.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<std::io::Result<Child>> {
        let Ok(mut groups) = GROUPS.lock() else { return Err(Interrupted.into()) };
        if asked() {
            return Err(Interrupted.into());
        }
        let child = command.spawn();
        groups.extend(child.as_ref().ok().map(Child::id));
        Ok(child)
    }

    /// Forgets a command that has ended.
    pub(crate) fn ended(child: &Child) {
        if let Ok(mut groups) = GROUPS.lock() {
            groups.retain(|group| *group != child.id());
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn watch() {}

    #[cfg(not(unix))]
    pub(crate) fn group(_: &mut Command) {}

    /// Gives a command a group of its own: a terminal sends signals to that of ptmem, which passes them on.
    #[cfg(unix)]
    pub(crate) fn group(command: &mut Command) {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }

    /// Waits for signals, in a thread of its own, from the first command on.
    #[cfg(unix)]
    pub(crate) fn watch() {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        use signal_hook::iterator::Signals;

        static WATCHED: std::sync::Once = std::sync::Once::new();
        WATCHED.call_once(|| {
            if let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) {
                std::thread::spawn(move || signals.forever().for_each(end_groups));
            }
        });
    }

    /// Ends what runs: first politely, then for good.
    #[cfg(unix)]
    fn end_groups(number: i32) {
        use rustix::process::{Pid, Signal, kill_process_group};

        let Ok(groups) = GROUPS.lock() else { return };
        let signal = if SIGNALS.fetch_add(1, Ordering::SeqCst) == 0 { Signal::TERM } else { Signal::KILL };
        if groups.is_empty() && !super::held() {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
        for group in groups.iter().filter_map(|group| Pid::from_raw(i32::try_from(*group).ok()?)) {
            // One that has just ended needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Parts of the program that must not be ended in the middle.
static HELD: AtomicUsize = AtomicUsize::new(0);

fn held() -> bool {
    HELD.load(Ordering::SeqCst) > 0
}

/// Keeps signals from ending ptmem while there is something to remove; a recording that was asked to end is an error.
pub(crate) struct Hold;

impl Hold {
    pub(crate) fn new() -> Self {
        interrupts::watch();
        HELD.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::SeqCst);
    }
}
