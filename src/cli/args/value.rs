//! Values of options, and how they are read.

use std::path::PathBuf;

use clap::ValueEnum;
use ptmem::report::Format;

/// A report to write to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

impl Export {
    /// The same report of a further gate, whose name precedes the ending of the file.
    #[cfg(feature = "simulate")]
    pub(crate) fn of(&self, gate: &str) -> Self {
        if self.path.as_os_str() == "-" {
            return self.clone();
        }
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let ending = self.path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
        Self { format: self.format, path: self.path.with_file_name(format!("{stem}-{gate}{ending}")) }
    }

    /// Whether it goes to standard output in a format of which a second report makes an invalid document.
    #[cfg(feature = "simulate")]
    pub(crate) fn is_document_on_stdout(&self) -> bool {
        let is_of_lines = matches!(self.format, Format::Table | Format::Markdown | Format::Brief | Format::Github);
        self.path.as_os_str() == "-" && !is_of_lines
    }

    /// Reads `FORMAT=PATH`, with one of these formats.
    pub(crate) fn parse(text: &str, formats: &[Format]) -> Result<Self, String> {
        let names = formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ");
        let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err(format!("expected FORMAT=PATH, such as json=report.json; formats are {names}"));
        };
        let format = Format::from_str(name, false).ok().filter(|format| formats.contains(format));
        let format = format.ok_or_else(|| format!("unknown format '{name}'; accepted are {names}"))?;
        Ok(Self { format, path: PathBuf::from(path) })
    }
}

pub(crate) fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("expected a reason in words".to_owned()) } else { Ok(text.to_owned()) }
}

/// Reads a share: a percentage, or a number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share such as 80% or 0.8".to_owned())
}
