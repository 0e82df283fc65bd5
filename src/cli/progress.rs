//! How far reading has come: on a terminal, and only for what takes longer than a second.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ptmem::units::Size;

/// What is over sooner needs no words.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two lines of progress.
const PAUSE: Duration = Duration::from_millis(200);

/// Erases the line on which the cursor stands, and goes to its begin.
const ERASE: &str = "\r\x1b[2K";

/// All inputs of a run together; a terminal has one line for them.
static PROGRESS: Mutex<Progress> = Mutex::new(Progress { read: 0, total: 0, open: 0, began: None, shown: None });

#[derive(Debug)]
struct Progress {
    /// Bytes that were read.
    read: u64,
    /// Bytes that there are, of all inputs that were opened; 0 where one of them does not tell.
    total: u64,
    /// Inputs that are being read.
    open: usize,
    began: Option<Instant>,
    /// When the line was last written, if it stands there.
    shown: Option<Instant>,
}

/// An input that tells of its progress.
#[derive(Debug)]
pub(super) struct Told<R> {
    input: R,
    is_terminal: bool,
}

impl<R: Read> Told<R> {
    /// `bytes` is the size of the input, where it has one.
    pub(super) fn new(input: R, bytes: Option<u64>) -> Self {
        let is_terminal = io::stderr().is_terminal();
        if is_terminal && let Ok(mut progress) = PROGRESS.lock() {
            progress.begin(bytes, Instant::now());
        }
        Self { input, is_terminal }
    }
}

impl<R: Read> Read for Told<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if self.is_terminal
            && let Ok(mut progress) = PROGRESS.lock()
        {
            progress.read = progress.read.saturating_add(read as u64);
            if let Some(line) = progress.line(Instant::now()) {
                // Where even this fails, there is nobody to tell.
                let _ = write!(io::stderr(), "{ERASE}{line}");
            }
        }
        Ok(read)
    }
}

impl<R> Drop for Told<R> {
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

    /// What to show now, if it is time.
    fn line(&mut self, now: Instant) -> Option<String> {
        let took = now.saturating_duration_since(self.began?);
        if took < PATIENCE || self.shown.is_some_and(|shown| now.saturating_duration_since(shown) < PAUSE) {
            return None;
        }
        self.shown = Some(now);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = u64::try_from(u128::from(self.read) * 1000 / u128::from(millis)).unwrap_or(u64::MAX);
        let so_far = match self.total {
            0 => format!("{}", Size(self.read)),
            total => {
                let percent = u128::from(self.read) * 100 / u128::from(total);
                format!("{} % of {}", percent.min(100), Size(total))
            }
        };
        let left = self.total.checked_sub(self.read).filter(|_| self.total > 0).and_then(|left| left.checked_div(rate));
        let left = left.map(|seconds| format!(", {} s left", seconds + 1)).unwrap_or_default();
        Some(format!("reading {so_far}, {}/s{left}", Size(rate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_bytes_rate_and_time() {
        let mut progress = Progress { read: 0, total: 0, open: 0, began: None, shown: None };
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        progress.begin(Some(3 << 30), start);
        progress.begin(Some(1 << 30), start);
        progress.read = 1 << 30;
        assert_eq!(progress.line(after(900)), None, "too early");
        assert_eq!(progress.line(after(2000)).unwrap(), "reading 25 % of 4.00 GiB, 512.00 MiB/s, 7 s left");
        assert_eq!(progress.line(after(2100)), None, "too soon again");
        progress.read = 4 << 30;
        assert_eq!(progress.line(after(4000)).unwrap(), "reading 100 % of 4.00 GiB, 1.00 GiB/s, 1 s left");
        // An input without a size, such as a pipe.
        progress.begin(None, after(4000));
        assert_eq!(progress.line(after(5000)).unwrap(), "reading 4.00 GiB, 819.20 MiB/s");
        progress.begin(Some(1), after(5000));
        assert_eq!(progress.total, 0, "what is not known stays so");
    }
}
