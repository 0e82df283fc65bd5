//! Reports: their formats, lengths and files.

use std::num::NonZeroUsize;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ptmem::device::DeviceId;
use ptmem::report::Format;

use super::value::Export;
use super::{ConfigArguments, DeviceArguments, GroupingArguments, heading};

/// Reports: their formats, lengths and files.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct ViewArguments {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = |text: &str| Export::parse(text, Format::ALL))]
    pub(crate) export: Vec<Export>,
    /// List N stacks (with --tree: N callees of a frame) and sum the rest in one row; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Show the source line of each row, if the checkout or snapshot has it
    #[arg(long)]
    pub(crate) source: bool,
    /// Print all metrics, all notes and the full text of warnings, which a table otherwise omits
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Read only this device, by its number in the snapshot, or host: the pinned host memory
    #[arg(long, value_name = "N", help_heading = heading::INPUT)]
    pub(crate) device: Option<DeviceId>,
    /// Read at most N files at the same time [default: one per core]
    #[arg(long, value_name = "N", help_heading = heading::INPUT)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

impl ViewArguments {
    /// The requested formats.
    pub(crate) fn formats(&self) -> impl Iterator<Item = Format> {
        self.export.iter().map(|export| export.format).chain([self.format])
    }
}

/// The formats that have a place for several profiles.
pub(crate) const STUDY_FORMATS: [Format; 5] =
    [Format::Table, Format::Json, Format::Markdown, Format::Html, Format::Csv];

fn format() -> impl TypedValueParser<Value = Format> {
    let values = STUDY_FORMATS.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| Format::from_str(&name, false))
}

/// The same of reports on several profiles together.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct StudyView {
    /// Output format
    #[arg(long, value_parser = format(), default_value = "table")]
    pub(crate) format: Format,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = |text: &str| Export::parse(text, &STUDY_FORMATS))]
    pub(crate) export: Vec<Export>,
    /// List N stacks and sum the rest in one row; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Print all notes and the full text of warnings, which a table otherwise omits
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The arguments of commands that look at several profiles together. The device has the heading of the command.
#[derive(Debug, Args)]
pub(crate) struct StudyArguments {
    #[command(flatten)]
    pub(crate) device: DeviceArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) grouping: GroupingArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) view: StudyView,
}
