//! Reports on several profiles together: `ptmem history` and `ptmem scale`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use ptmem::config::Config;
use ptmem::profile::{self, Moment};
use ptmem::report::{self, Study, StudyFormat};

use super::args::{Grouping, InputArguments, heading, value};
use super::output::Output;
use super::surroundings;

/// Reports: their formats, lengths and files.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct StudyView {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    format: StudyFormatArgument,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(crate) export: Vec<StudyExport>,
    /// List N stacks and sum the rest in one row; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Largest size of Markdown output; rows are left out until it fits
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = report::MOST_SUMMARY_BYTES,
        value_parser = value::markdown_bytes
    )]
    max_bytes: usize,
    #[command(flatten, next_help_heading = heading::INPUT)]
    pub(crate) input: InputArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StudyFormatArgument(StudyFormat);

impl ValueEnum for StudyFormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [StudyFormatArgument; StudyFormat::ALL.len()] = {
            let mut all = [StudyFormatArgument(StudyFormat::Table); StudyFormat::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = StudyFormatArgument(StudyFormat::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.description()))
    }
}

/// A report to write to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StudyExport {
    format: StudyFormat,
    pub(crate) path: PathBuf,
}

impl FromStr for StudyExport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = StudyFormat::ALL.map(StudyFormat::name).join(", ");
        let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err(format!("expected FORMAT=PATH, such as csv=history.csv; formats are {names}"));
        };
        match StudyFormat::ALL.into_iter().find(|format| format.name() == name) {
            Some(format) => Ok(Self { format, path: PathBuf::from(path) }),
            None => Err(format!("unknown format '{name}'; accepted are {names}")),
        }
    }
}

impl StudyView {
    /// The options by which each profile is read: at its peak.
    pub(crate) fn reading(&self, grouping: &Grouping, config: &Config) -> profile::Options {
        profile::Options {
            group_by: grouping.group_by(config),
            at: Moment::Peak,
            rules: grouping.rules(config),
            max_input: self.input.max_input(),
            allocator_settings: self.input.allocator_settings(config),
            ..profile::Options::default()
        }
    }

    /// Refuses files that cannot be written before any work is done.
    pub(crate) fn check_exports(&self) -> Result<()> {
        self.export.iter().try_for_each(|export| super::output::require_folder(&export.path))
    }

    /// Writes the files that were asked for, and prints the report.
    pub(crate) fn write(&self, study: Study<'_>, device_memory: Option<u64>, output: &Output) -> Result<()> {
        let options = report::Options {
            top: self.top,
            width: output.width(),
            max_bytes: self.max_bytes,
            device_memory,
            run: surroundings::run(),
            ..report::Options::default()
        };
        for StudyExport { format, path } in &self.export {
            let text = format.render(study, &options)?;
            output.write(path, &anstream::adapter::strip_str(&text).to_string())?;
        }
        let text = self.format.0.render(study, &options)?;
        let is_plain = self.format.0 == StudyFormat::Table && !super::output::is_utf8();
        output.print(&if is_plain { super::output::in_ascii(&text) } else { text })
    }
}
