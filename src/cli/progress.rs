//! Progress of reading, on a terminal only, and only after a second.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ptmem::units::Size;

/// Shorter work shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Least time between two updates.
const PAUSE: Duration = Duration::from_millis(200);

/// Erases the current line and returns to its start.
const ERASE: &str = "\r\x1b[2K";

/// All inputs of a run: a terminal has one line for them.
static PROGRESS: Mutex<Progress> = Mutex::new(Progress { read: 0, total: 0, open: 0, began: None, shown: None });

#[derive(Debug)]
struct Progress {
    /// Bytes read so far.
    read: u64,
    /// Size of all inputs opened so far; 0 where the size of one is not known, as for a pipe.
    total: u64,
    /// Number of inputs being read.
    open: usize,
    began: Option<Instant>,
    /// Time of the last update, while the line is visible.
    shown: Option<Instant>,
}

/// A reader that reports its progress.
#[derive(Debug)]
pub(super) struct ProgressReader<R> {
    input: R,
    is_terminal: bool,
}

impl<R: Read> ProgressReader<R> {
    /// `bytes` is the size of the input, where it has one.
    pub(super) fn new(input: R, bytes: Option<u64>) -> Self {
        let is_terminal = io::stderr().is_terminal();
        if is_terminal && let Ok(mut progress) = PROGRESS.lock() {
            progress.begin(bytes, Instant::now());
        }
        Self { input, is_terminal }
    }
}

impl<R: Read> Read for ProgressReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if self.is_terminal
            && let Ok(mut progress) = PROGRESS.lock()
        {
            progress.read = progress.read.saturating_add(read as u64);
            if let Some(line) = progress.line(Instant::now()) {
                // An error on standard error cannot be reported anywhere.
                let _ = write!(io::stderr(), "{ERASE}{line}");
            }
        }
        Ok(read)
    }
}

impl<R> Drop for ProgressReader<R> {
    fn drop(&mut self) {
        if self.is_terminal
            && let Ok(mut progress) = PROGRESS.lock()
        {
            progress.open = progress.open.saturating_sub(1);
            if progress.open == 0 && progress.shown.take().is_some() {
                let _ = write!(io::stderr(), "{ERASE}");
            }
        }
    }
}

impl Progress {
    fn begin(&mut self, bytes: Option<u64>, now: Instant) {
        self.total = match bytes {
            Some(bytes) if self.total > 0 || self.began.is_none() => self.total.saturating_add(bytes),
            _ => 0,
        };
        self.open += 1;
        self.began.get_or_insert(now);
    }

    /// The line to show now, or none while it is too early.
    fn line(&mut self, now: Instant) -> Option<String> {
        let took = now.saturating_duration_since(self.began?);
        if took < PATIENCE || self.shown.is_some_and(|shown| now.saturating_duration_since(shown) < PAUSE) {
            return None;
        }
        self.shown = Some(now);
        let so_far = match self.total {
            0 => Size(self.read).to_string(),
            total => format!("{} % of {}", (u128::from(self.read) * 100 / u128::from(total)).min(100), Size(total)),
        };
        Some(format!("reading {so_far}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_much_was_read() {
        let mut progress = Progress { read: 0, total: 0, open: 0, began: None, shown: None };
        let start = Instant::now();
        let [early, shown, soon, later, last] =
            [900, 2000, 2100, 4000, 5000].map(|millis| start + Duration::from_millis(millis));
        progress.begin(Some(3 << 30), start);
        progress.begin(Some(1 << 30), start);
        progress.read = 1 << 30;
        assert_eq!(progress.line(early), None, "too early");
        assert_eq!(progress.line(shown).unwrap(), "reading 25 % of 4.00 GiB");
        assert_eq!(progress.line(soon), None, "too soon again");
        progress.read = 4 << 30;
        assert_eq!(progress.line(later).unwrap(), "reading 100 % of 4.00 GiB");
        // An input without a size, such as a pipe.
        progress.begin(None, later);
        assert_eq!(progress.line(last).unwrap(), "reading 4.00 GiB");
        progress.begin(Some(1), last);
        assert_eq!(progress.total, 0, "an unknown total stays unknown");
    }
}
