//! Standard output and error.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anyhow::Result;

use super::args::ColorWhen;

/// Columns where there is no terminal: a log of a CI job.
const WIDTH_OF_LOGS: usize = 100;

/// Where reports go.
pub(crate) struct Output {
    color: ColorChoice,
}

impl Output {
    pub(crate) fn new(when: ColorWhen) -> Self {
        let color = match when {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::AlwaysAnsi,
            ColorWhen::Never => ColorChoice::Never,
        };
        Self { color }
    }

    /// Columns to print in: `COLUMNS`, else those of the terminal.
    pub(crate) fn width(&self) -> usize {
        let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|&width| width > 0);
        let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        asked.or_else(terminal).unwrap_or(WIDTH_OF_LOGS).clamp(40, 400)
    }

    /// Prints a report. A reader that closed the pipe has seen enough: that is no error.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        let mut stdout = AutoStream::new(io::stdout().lock(), self.color);
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Prints why the tool could not run.
pub(crate) fn print_error(error: &anyhow::Error) {
    let mut stderr = AutoStream::auto(io::stderr().lock());
    let style = anstyle::AnsiColor::Red.on_default().bold();
    // Where even this fails, there is nobody to tell.
    let _ = writeln!(stderr, "{style}error{style:#}: {error:#}");
}
