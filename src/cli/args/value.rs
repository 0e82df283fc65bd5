//! Values of options, and how they are read.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ptmem::report::{Format, StudyFormat};
use ptmem::stack::GroupBy;
use ptmem::units::{ParseError, parse_size};
use ptmem::verdict::{Growth, Level, ParseThresholdError};

/// A value of the library that is one of a few, each with a name.
pub(crate) trait Choice: Copy + Send + Sync + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// Its name on the command line.
    fn name(self) -> &'static str;

    /// The same as `--help` shows it.
    fn possible_value(self) -> PossibleValue {
        PossibleValue::new(self.name())
    }
}

/// Reads one of a few values.
pub(crate) fn choice<C: Choice>() -> impl TypedValueParser<Value = C> {
    let names = C::ALL.iter().map(|choice| choice.possible_value());
    PossibleValuesParser::new(names).try_map(|name| find(&name).ok_or("unknown value"))
}

fn find<C: Choice>(name: &str) -> Option<C> {
    C::ALL.iter().copied().find(|choice| choice.possible_value().matches(name, false))
}

/// A format of reports as `--help` shows it. The ending of Markdown files stands for that format as well.
fn described(name: &'static str, description: &'static str) -> PossibleValue {
    let value = PossibleValue::new(name).help(description);
    if name == Format::Markdown.name() { value.alias("md") } else { value }
}

impl Choice for Format {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn possible_value(self) -> PossibleValue {
        described(self.name(), self.description())
    }
}

impl Choice for StudyFormat {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn possible_value(self) -> PossibleValue {
        described(self.name(), self.description())
    }
}

/// A report to write to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export<F> {
    pub(crate) format: F,
    pub(crate) path: PathBuf,
}

impl<F: Choice> FromStr for Export<F> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err(format!("expected FORMAT=PATH, such as json=report.json; formats are {}", names::<F>()));
        };
        match find(name) {
            Some(format) => Ok(Self { format, path: PathBuf::from(path) }),
            None => Err(format!("unknown format '{name}'; accepted are {}", names::<F>())),
        }
    }
}

fn names<C: Choice>() -> String {
    let names: Vec<&str> = C::ALL.iter().map(|choice| choice.name()).collect();
    names.join(", ")
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupByArgument {
    /// Every frame with its line, exactly
    Frames,
    /// Python frames without line numbers, independent of where the code lies
    #[default]
    Stack,
    /// The line of your code that allocates
    Line,
    /// The function of your code that allocates
    Function,
    /// The file of your code that allocates
    File,
    /// The purpose of the memory: parameters, forward, gradients, backward, optimizer, communication, data, other
    Category,
    /// The text given to _set_memory_metadata() at the allocation
    Metadata,
    /// The compiled region that allocates
    CompileContext,
    /// The innermost annotation (record_function) that was open at the allocation
    Annotation,
    /// The nn.Module that allocates, or to which the memory belongs: recorded with 'ptmem simulate --modules'
    Module,
    /// The purpose as the recorder saw it: parameters, gradients, optimizer state, activations, temporary, communication,
    /// workspace; recorded with --modules too
    Purpose,
    /// Type and shape of the tensor: recorded with 'ptmem simulate --shapes'
    Shape,
    /// The pool that the memory is from, and its stream
    Pool,
}

impl From<GroupByArgument> for GroupBy {
    fn from(argument: GroupByArgument) -> Self {
        match argument {
            GroupByArgument::Frames => Self::Frames,
            GroupByArgument::Stack => Self::Stack,
            GroupByArgument::Line => Self::Line,
            GroupByArgument::Function => Self::Function,
            GroupByArgument::File => Self::File,
            GroupByArgument::Category => Self::Category,
            GroupByArgument::Metadata => Self::Metadata,
            GroupByArgument::CompileContext => Self::CompileContext,
            GroupByArgument::Annotation => Self::Annotation,
            GroupByArgument::Module => Self::Module,
            GroupByArgument::Purpose => Self::Purpose,
            GroupByArgument::Shape => Self::Shape,
            GroupByArgument::Pool => Self::Pool,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set; everywhere with CLICOLOR_FORCE
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A size on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeArgument(pub(crate) u64);

impl FromStr for SizeArgument {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_size(text).map(Self)
    }
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("expected a reason in words".to_owned()) } else { Ok(text.to_owned()) }
}

/// Fewer bytes cannot hold a verdict with its figure.
const LEAST_MARKDOWN_BYTES: usize = 4096;

pub(crate) fn markdown_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.replace(['_', ','], "").parse().ok().filter(|&bytes| bytes >= LEAST_MARKDOWN_BYTES);
    bytes.ok_or_else(|| format!("expected a number of bytes, at least {LEAST_MARKDOWN_BYTES}"))
}

/// Reads a key that is safe inside an HTML comment.
pub(super) fn comment_key(text: &str) -> Result<String, String> {
    let is_safe = text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || text.len() > 64 || !is_safe {
        return Err("expected up to 64 letters, digits and . _ / -, starting with a letter or digit".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads an address that cannot end the image in Markdown that it stands in.
pub(super) fn picture(text: &str) -> Result<String, String> {
    let is_safe = text.chars().all(|c| c.is_ascii_graphic() && !"()<>[]\"\\`".contains(c));
    if !text.starts_with("https://") || !is_safe {
        return Err("expected an address that starts with https://, without brackets or spaces".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "expected a number from 0 to 1, such as 0.75".to_owned())
}

/// Reads a share: a percentage, or a number from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share such as 80% or 0.8".to_owned())
}

pub(super) fn fail_growth(text: &str) -> Result<Growth, ParseThresholdError> {
    Growth::parse(text, Level::Fail)
}

pub(super) fn warn_growth(text: &str) -> Result<Growth, ParseThresholdError> {
    Growth::parse(text, Level::Warn)
}
