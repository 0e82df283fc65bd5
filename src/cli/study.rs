//! Reports on several profiles together: `ptmem history` and `ptmem scale`.

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use ptmem::config::Config;
use ptmem::profile::{self, Moment};
use ptmem::report::{self, Format, Subject};

use super::args::{Export, Grouping, InputArguments, heading, value};
use super::output::Output;
use super::surroundings;

/// Reports: their formats, lengths and files.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct StudyView {
    /// Output format
    #[arg(long, value_enum, default_value_t = StudyFormat(Format::Table))]
    format: StudyFormat,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(crate) export: Vec<Export<StudyFormat>>,
    /// List N stacks and sum the rest in one row; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print all notes and whole warnings: a table without it counts what it leaves out
    #[arg(short, long)]
    verbose: bool,
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

/// A format that has a place for several profiles: none of the others can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StudyFormat(Format);

impl ValueEnum for StudyFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Format::Table), Self(Format::Json), Self(Format::Markdown), Self(Format::Html), Self(Format::Csv)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.0.to_possible_value()
    }
}

impl StudyView {
    /// The options by which each profile is read: at its peak.
    pub(crate) fn reading(&self, grouping: &Grouping, config: &Config) -> profile::Options {
        profile::Options {
            group_by: grouping.group_by(config),
            unfold: grouping.unfold,
            at: Moment::Peak,
            rules: grouping.rules(config),
            ..self.input.reading(config)
        }
    }

    /// Refuses files that cannot be written before any work is done.
    pub(crate) fn check_exports(&self) -> Result<()> {
        self.export.iter().try_for_each(|export| super::output::require_folder(&export.path))
    }

    /// Writes the files that were asked for, and prints the report.
    pub(crate) fn write(&self, subject: Subject<'_>, output: &Output) -> Result<()> {
        let options = report::Options {
            top: self.top,
            width: output.width(),
            more: super::output::more(self.verbose),
            max_bytes: self.max_bytes,
            run: surroundings::run(),
            ..report::Options::default()
        };
        output.report(&self.export, self.format, StudyFormat(Format::Table), &options, |format, options, out| {
            format.0.write(subject, options, out)
        })
    }
}
