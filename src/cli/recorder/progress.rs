//! How far recordings are: one line on a terminal for all that run, otherwise nothing.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Least time between two updates.
const PAUSE: Duration = Duration::from_millis(200);

/// Erases the current line and returns to its start.
const ERASE: &str = "\r\x1b[2K";

/// What runs now. A terminal has one line for it.
static LINE: Mutex<ProgressLine> = Mutex::new(ProgressLine { parts: Vec::new(), shown: None });

struct ProgressLine {
    parts: Vec<ProgressPart>,
    shown: Option<Instant>,
}

/// A part of the line.
struct ProgressPart {
    name: String,
    doing: &'static str,
    began: Instant,
    /// The file into which the program writes the number of steps that it made, and the last one if it knows that.
    steps: Option<PathBuf>,
    /// How long it took last time.
    last: Option<Duration>,
}

/// A recording that is part of the line.
pub(crate) struct InProgress {
    /// Its name, such as "base 1a2b3c4".
    pub(crate) name: String,
    /// How long it took last time.
    pub(crate) last: Option<Duration>,
}

impl InProgress {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), last: None }
    }

    /// Shows what it does until the value is dropped.
    pub(crate) fn doing(&self, doing: &'static str, steps: Option<PathBuf>) -> Doing {
        let running = ProgressPart { name: self.name.clone(), doing, began: Instant::now(), steps, last: self.last };
        if let Ok(mut line) = LINE.lock() {
            line.parts.push(running);
        }
        Doing { name: self.name.clone(), is_terminal: io::stderr().is_terminal() }
    }
}

/// A part of the line that is shown.
pub(crate) struct Doing {
    name: String,
    is_terminal: bool,
}

impl Doing {
    /// Shows the line, if it is time to.
    pub(crate) fn show(&self) {
        if self.is_terminal
            && let Ok(mut line) = LINE.lock()
            && line.shown.is_none_or(|shown| shown.elapsed() >= PAUSE)
        {
            line.shown = Some(Instant::now());
            // An error on standard error cannot be reported anywhere.
            let _ = write!(io::stderr(), "{ERASE}{}", line.text());
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let Ok(mut line) = LINE.lock() else { return };
        line.parts.retain(|part| part.name != self.name);
        if self.is_terminal && line.shown.take().is_some() {
            let _ = write!(io::stderr(), "{ERASE}");
        }
    }
}

impl ProgressLine {
    fn text(&self) -> String {
        self.parts.iter().map(ProgressPart::text).collect::<Vec<_>>().join(" | ")
    }
}

impl ProgressPart {
    fn text(&self) -> String {
        let step = self.steps.as_ref().and_then(|file| step(&fs::read_to_string(file).ok()?)).unwrap_or_default();
        let last = self.last.map(|last| format!(" (last time {} s)", last.as_secs())).unwrap_or_default();
        let so_far = self.began.elapsed().as_secs();
        format!("{}: {}{step} {so_far} s{last}", self.name, self.doing)
    }
}

/// The step that a program makes, given the words of how far it is.
fn step(words: &str) -> Option<String> {
    let mut numbers = words.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    let now = numbers.next()?.saturating_add(1);
    Some(match numbers.next() {
        Some(last) => format!(" step {} of {last},", now.min(last)),
        None => format!(" step {now},"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_its_step_and_how_long_it_took_last_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let running = |steps, last| ProgressPart {
            name: "base 1a2b3c4".to_owned(),
            doing: "recording",
            began: Instant::now(),
            steps,
            last,
        };
        let steps = Some(file.path().to_owned());
        assert_eq!(running(steps.clone(), None).text(), "base 1a2b3c4: recording 0 s");
        let last = Some(Duration::from_secs(21));
        for (told, shown) in [("1 3", " step 2 of 3,"), ("3 3", " step 3 of 3,"), ("4 ", " step 5,"), ("x", "")] {
            fs::write(file.path(), told).unwrap();
            let text = running(steps.clone(), last).text();
            assert_eq!(text, format!("base 1a2b3c4: recording{shown} 0 s (last time 21 s)"));
        }
        assert_eq!(running(None, None).text(), "base 1a2b3c4: recording 0 s");
    }
}
