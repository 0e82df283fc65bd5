//! Signals that reach ptmem while it waits for its child.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

/// A shell's code for a program that a signal ended is this and the number of the signal.
const SIGNALLED: i32 = 128;

/// Set by a signal that asks programs to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A child that signals are passed on to.
pub(super) struct Running {
    child: Child,
    ended: Arc<AtomicBool>,
}

impl Running {
    /// Waits for the end of the child.
    pub(super) fn wait(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        self.ended.store(true, Ordering::Relaxed);
        status
    }
}

/// Starts a child, and passes on the signals that ptmem receives afterwards.
pub(super) fn start(command: &mut Command) -> io::Result<Running> {
    let mut wanted = vec![SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH];
    // A terminal sends these to all processes in front of it: the child has them already, and ptmem outlives it.
    let mut from_terminal = vec![SIGINT, SIGQUIT];
    if !io::stdin().is_terminal() {
        wanted.append(&mut from_terminal);
    }
    let mut ignored = Signals::new(from_terminal)?;
    let mut signals = Signals::new(wanted)?;
    let child = command.spawn()?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let running = Running { child, ended: Arc::default() };
    let ended = Arc::clone(&running.ended);
    thread::spawn(move || ignored.forever().for_each(note));
    thread::spawn(move || {
        for number in signals.forever() {
            note(number);
            if ended.load(Ordering::Relaxed) {
                return; // Another process may have its number by now.
            }
            if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(number)) {
                // A child that has just ended needs no signal.
                let _ = kill_process(process, signal);
            }
        }
    });
    Ok(running)
}

fn note(number: i32) {
    if [SIGTERM, SIGHUP, SIGINT, SIGQUIT].contains(&number) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
}

/// True after a signal that asks programs to end: nothing more is started then.
pub(super) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Exit code of a child, as a shell would give it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
