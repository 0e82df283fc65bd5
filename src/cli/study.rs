//! Reports on several profiles together: `ptmem history` and `ptmem scale`.

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ptmem::report::{self, Format, Subject};

use super::args::{Export, InputArguments, heading, value};
use super::output::Output;
use super::report::basic_options;

/// The formats that have a place for several profiles.
const FORMATS: [Format; 5] = [Format::Table, Format::Json, Format::Markdown, Format::Html, Format::Csv];

fn format() -> impl TypedValueParser<Value = Format> {
    let values = FORMATS.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| Format::from_str(&name, false))
}

/// Reports: their formats, lengths and files.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct StudyView {
    /// Output format
    #[arg(long, value_parser = format(), default_value = "table")]
    format: Format,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = |text: &str| Export::parse(text, &FORMATS))]
    pub(crate) export: Vec<Export>,
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

impl StudyView {
    /// Writes the files that were asked for, and prints the report.
    pub(crate) fn write(&self, subject: Subject<'_>, output: &Output) -> Result<()> {
        let options = basic_options(self.top, self.verbose, self.max_bytes, output);
        output.report(subject, self.format, &self.export, &options)
    }
}
