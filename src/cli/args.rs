//! The command line as clap sees it. The texts here are the manual.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ptmem::pattern::Pattern;
use ptmem::profile::{self, Moment};
use ptmem::report::{self, Format};
use ptmem::stack::{GroupBy, Rules};
use ptmem::tree;
use ptmem::units::{ParseError, parse_size};
use ptmem::verdict::config::Config;
use ptmem::verdict::{Growth, Level, Limits, Maximum, ParseThresholdError};

use super::phases::{DiffPhases, ShowPhases};

const EXIT_CODES: &str = "\
Exit codes:
  0  pass, or a command that only reports
  1  regression: a limit is exceeded
  2  could not run: usage, unreadable or invalid input, configuration
  3  inconclusive: a gated figure cannot be computed or compared";

const DIFF_HELP: &str = "\
Thresholds:
  --max-growth 5%                     the peak of allocated bytes may grow by 5 percent
  --max-growth reserved=5%+128MiB     the reserved peak by 5 percent and 128 MiB
  --max-growth stack=64MiB            no single call stack by more than 64 MiB
  --max-growth 'stack:*attention*=0'  stacks whose label matches, not at all
  --max-growth phase:forward=5%       the peak inside phases of that name by 5 percent
  --max reserved=75GiB                the after may reserve at most 75 GiB

Metrics, each per device and in bytes: peak, baseline, end (allocated bytes), active, requested,
reserved (their peaks), stack (every stack's total at the peak), stack:GLOB, phase:GLOB (the
peak inside phases of the history, by their names). Of all ranks together: imbalance (the highest
peak less the median of the peaks).

Ranks: give a directory or a quoted glob with a file for each rank, 'ptmem diff runs/before
runs/after'. Files are paired by the rank in their names (rank3, device_3, snapshot_3), else by
equal names; the verdict is that of all.

A limit for certain stacks takes the place of that for all of them, and a flag that of the same
limit in ptmem.toml.

The stored before: 'ptmem profile before.pkl -o baseline.ptmem.json' once, then
'ptmem diff baseline.ptmem.json after.pkl', and after an improvement
'ptmem diff --update baseline.ptmem.json after.pkl'.

Inconclusive, always: a gated device or a rank is missing on one side, no allocation was recorded,
only one side has a history, a pattern matches no stack or no phase, a phase is missing on one side.
With --strict also: the history is truncated, a self-check failed, allocator settings or recording
modes differ, the error of a figure reaches across its limit.";

const LEAK_EXIT_CODES: &str = "\
Exit codes:
  0  nothing leaks, or less than --max-leak
  1  something leaks
  2  could not run: usage, unreadable or invalid input, configuration
  3  inconclusive: there are too few steps or snapshots, or none can be told apart";

const LEAK_HELP: &str = "\
Steps of one snapshot, the first of these that there is: ranges of torch.profiler (ProfilerStep#*), calls
of an optimizer (Optimizer.step#*), rounds in which the same stacks allocate again and again; else ten
equal parts of the history. --step and --windows ask for others. The report says which it were.

Not reported: what the warm-up leaves behind, what the last step still uses, blocks that live no longer
than others of their stack that were freed, and what has stopped to grow.

A directory or glob stands for its files in natural order. Where their names state ranks, such as
rank3, every rank has a series of its own, or one snapshot.";

/// The gate that keeps PyTorch GPU memory regressions out of a code base
///
/// Reads CUDA memory snapshots, which torch.cuda.memory._dump_snapshot() writes, without ever running
/// code from them; computes baseline, peak and end of PyTorch's counters to the byte, and totals per call
/// stack; compares a before with an after against limits, and answers with a report and an exit code.
#[derive(Debug, Parser)]
#[command(name = "ptmem", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Colour the output
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN")]
    pub(crate) color: ColorWhen,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare two snapshots and gate the growth
    #[command(
        args_override_self = true,
        after_long_help = format!("{DIFF_HELP}\n\n{EXIT_CODES}"),
        after_help = EXIT_CODES,
        override_usage = "ptmem diff [OPTIONS] <BEFORE> <AFTER>\n       ptmem diff [OPTIONS] --update <PROFILE> <AFTER>\n       \
                          ptmem diff [OPTIONS] --suite <NAME>"
    )]
    Diff(DiffArguments),
    /// Gate one snapshot by absolute limits
    #[command(after_help = EXIT_CODES)]
    Check(CheckArguments),
    /// Find what grows: over a series of snapshots, or over the steps of one
    ///
    /// Of two or more snapshots, in order, every stack that holds more at the end of nearly each of them than at the end
    /// of the one before; of one snapshot, every stack that leaves blocks behind in nearly each of its steps. A leak is
    /// memory that does not come back, whatever the peak.
    #[command(after_long_help = format!("{LEAK_HELP}\n\n{LEAK_EXIT_CODES}"), after_help = LEAK_EXIT_CODES)]
    Leak(LeakArguments),
    /// Show figures, timeline and the largest stacks of a snapshot
    ///
    /// Where memory ran out, it says what was asked for, what was held, what the demand would have been and why the
    /// free memory was of no use, and lists the stacks that held most then beside those at the peak.
    Show(ShowArguments),
    /// Write the compact profile of a snapshot, to keep as the stored before
    ///
    /// A profile is text of a few to a few hundred kilobytes that stands in for the snapshot in every other command.
    /// It holds the figures, and every call stack with what it holds at the baseline, the peak, the end, when memory
    /// first ran out, and at the moment of --at.
    Profile(ProfileArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, as roff: ptmem man | man -l -
    Man {
        /// The page of this command instead
        command: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// Snapshot of the code base as it was, or a saved profile; - is standard input. A directory or a quoted glob
    /// with a file for each rank of a job
    #[arg(required_unless_present_any = ["suite", "update"])]
    pub(crate) before: Option<PathBuf>,
    /// Snapshot of the code base with the change, or a saved profile; - is standard input. A directory or a quoted
    /// glob with a file for each rank of a job
    #[arg(required_unless_present_any = ["suite", "update"])]
    pub(crate) after: Option<PathBuf>,
    /// Compare every pair of a suite in ptmem.toml, with one verdict
    #[arg(long, value_name = "NAME", conflicts_with_all = ["before", "after", "update"])]
    pub(crate) suite: Option<String>,
    /// Fail when METRIC (default: peak) grows by more than LIMIT: 5%, 200MiB, 5%+128MiB or 0. Repeatable
    #[arg(long, value_name = "[METRIC=]LIMIT", value_parser = fail_growth, allow_hyphen_values = true)]
    pub(crate) max_growth: Vec<Growth>,
    /// The same as a warning, which leaves the exit code alone. Repeatable
    #[arg(long, value_name = "[METRIC=]LIMIT", value_parser = warn_growth, allow_hyphen_values = true)]
    pub(crate) warn_growth: Vec<Growth>,
    /// Fail when METRIC of the after exceeds SIZE, such as reserved=75GiB. Repeatable
    #[arg(long, value_name = "METRIC=SIZE", value_parser = Maximum::from_str, allow_hyphen_values = true)]
    pub(crate) max: Vec<Maximum>,
    /// Stacks that changed by less are neither listed nor gated [default: 1MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) min_delta: Option<SizeArgument>,
    /// How similar two stacks must be, from 0 to 1, to be taken for the same one in changed code [default: 0.75]
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub(crate) match_ratio: Option<f64>,
    /// After a pass, rewrite this saved profile, which is the before, with the after; figures only fall
    #[arg(long, value_name = "PROFILE")]
    pub(crate) update: Option<PathBuf>,
    /// Let --update also raise figures
    #[arg(long, requires = "update", requires = "reason")]
    pub(crate) allow_raise: bool,
    /// Why figures are raised; kept in the profile
    #[arg(long, value_name = "TEXT", requires = "allow_raise", value_parser = reason)]
    pub(crate) reason: Option<String>,
    /// List also the stacks that did not change, or only moved
    #[arg(long)]
    pub(crate) all: bool,
    /// Show how the stacks of each row differ between before and after
    #[arg(long, conflicts_with = "tree")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) phases: DiffPhases,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) at: At,
    #[command(flatten)]
    pub(crate) view: View,
}

impl DiffArguments {
    /// The limits that were set.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            growth: self.max_growth.iter().chain(&self.warn_growth).cloned().collect(),
            maximum: self.max.clone(),
            min_delta: self.min_delta.map(|size| size.0),
            strict: self.trust.strict.then_some(true),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot; - is standard input. A directory or a quoted glob with a file for each rank of a job
    pub(crate) snapshot: PathBuf,
    /// Fail when METRIC (peak, baseline, end, active, requested, reserved, imbalance) exceeds SIZE. Repeatable; at least one, here
    /// or in ptmem.toml
    #[arg(long, value_name = "METRIC=SIZE", value_parser = Maximum::from_str, allow_hyphen_values = true)]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) at: At,
    #[command(flatten)]
    pub(crate) view: View,
}

/// What the verdict and the exit code make of doubt and failure.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// What cannot be trusted is inconclusive instead of a warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Exit with 0 whatever the verdict; errors still exit with 2
    #[arg(long)]
    pub(crate) exit_zero: bool,
}

/// Whether and how the call tree is shown.
#[derive(Debug, Args)]
pub(crate) struct TreeArguments {
    /// Show the call tree, outermost frame first, in place of the list of stacks
    #[arg(long)]
    tree: bool,
    /// Show so many levels of the tree; what is deeper counts for the frame above
    #[arg(long, value_name = "N", requires = "tree", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Take only stacks with a frame whose function or path matches, and make it the root: a part of the name or
    /// a glob
    #[arg(long, value_name = "PATTERN", requires = "tree", value_parser = Pattern::search)]
    focus: Option<Pattern>,
    /// Take only stacks with a frame whose function or path matches, and mark it
    #[arg(long, value_name = "PATTERN", requires = "tree", value_parser = Pattern::search)]
    grep: Option<Pattern>,
    /// Show every frame, also those that only pass calls on, and all of C++
    #[arg(long, requires = "tree")]
    internals: bool,
}

impl TreeArguments {
    /// What the report has to show.
    pub(crate) fn options(&self) -> Option<tree::Options> {
        self.tree.then(|| tree::Options {
            internals: self.internals,
            focus: self.focus.clone(),
            grep: self.grep.clone(),
            depth: self.depth.map(usize::from),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The snapshot; - is standard input. A directory or a quoted glob with a file for each rank of a job
    pub(crate) snapshot: PathBuf,
    /// Memory of the device, such as 80GiB: adds utilisation and headroom
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) device_memory: Option<SizeArgument>,
    #[command(flatten)]
    pub(crate) phases: ShowPhases,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) at: At,
    #[command(flatten)]
    pub(crate) view: View,
}

#[derive(Debug, Args)]
pub(crate) struct LeakArguments {
    /// One snapshot, or two or more in order: snapshots or saved profiles, directories or globs of them; - is standard
    /// input
    #[arg(required = true, value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<PathBuf>,
    /// Fail only when what leaks on a device, all stacks together, exceeds SIZE per snapshot or step
    /// [default: any leak fails]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) max_leak: Option<SizeArgument>,
    /// The first N snapshots or steps are warm-up [default: 0 snapshots, 1 step]
    #[arg(long, value_name = "N")]
    pub(crate) skip: Option<usize>,
    /// A leak has grown by so much in total [default: 1MiB over a series; any within one snapshot]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) min_growth: Option<SizeArgument>,
    /// A leak has grown in so many of the steps
    #[arg(long, value_name = "SHARE", default_value = "80%", value_parser = share)]
    pub(crate) min_share: f64,
    /// Steps begin where annotations or user_metadata do whose name matches: a part of the name or a glob
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::search, conflicts_with = "windows")]
    pub(crate) step: Option<Pattern>,
    /// Take so many equal parts of the history for steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    pub(crate) windows: Option<u16>,
    /// Memory of the device, such as 80GiB: tells when it runs out
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) device_memory: Option<SizeArgument>,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) view: View,
}

/// Which configuration file counts.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    /// Read this configuration file instead of ptmem.toml or .github/ptmem.toml in the working directory
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long)]
    pub(crate) no_config: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// The snapshot, or a profile to make smaller; - is standard input
    pub(crate) snapshot: PathBuf,
    /// The file to write, such as baseline.ptmem.json; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Keep at most so many stacks per device, those that hold most; 0 is all. The rest is summed in one row
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) top: usize,
    /// Keep only stacks that hold so much at one of the moments. The rest is summed in one row
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true)]
    pub(crate) min_bytes: SizeArgument,
    #[command(flatten)]
    pub(crate) input: InputArguments,
    /// One more moment to keep: event:N or time:SECONDS. Baseline, peak, end and oom are kept anyway
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    pub(crate) at: Moment,
    /// Show the user's code relative to this folder instead of what all of it has in common. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) strip_prefix: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// What is read.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// Refuse compressed input that expands to more
    #[arg(long, value_name = "SIZE", default_value = "64GiB", allow_hyphen_values = true)]
    max_input: SizeArgument,
}

impl InputArguments {
    /// In bytes.
    pub(crate) fn max_input(&self) -> Option<u64> {
        Some(self.max_input.0)
    }
}

/// Which moment of a history is looked at.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// Moment of the stack totals: peak, baseline, end, oom (memory first ran out), event:N or time:SECONDS
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    pub(crate) at: Moment,
}

/// What is shown and how.
#[derive(Debug, Args)]
pub(crate) struct View {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: FormatArgument,
    /// Write the result to a file as well, in any of the formats; PATH may be - for standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(crate) export: Vec<Export>,
    #[command(flatten)]
    pub(crate) input: InputArguments,
    /// How many stacks to list, or callees of a frame of the tree; 0 is all. The rest is summed in one row
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// What counts as one stack [default: stack]
    #[arg(long, value_enum)]
    pub(crate) group_by: Option<GroupByArgument>,
    /// Show the user's code relative to this folder instead of what all of it has in common. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) strip_prefix: Vec<String>,
    /// The most bytes of Markdown; what does not fit is left out row by row. GitHub takes 65,536 for a comment and
    /// 1,048,576 for a summary
    #[arg(long, value_name = "N", default_value_t = report::MOST_COMMENT_BYTES, value_parser = markdown_bytes)]
    pub(crate) max_bytes: usize,
    /// How many files to read at the same time, where there are several [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Name of the hidden marker in Markdown, by which a comment on a pull request is found again
    #[arg(long, value_name = "KEY", default_value = "default", value_parser = comment_key)]
    pub(crate) comment_key: String,
}

impl View {
    /// What the profile has to hold.
    pub(crate) fn profile_options(&self, config: &Config, at: &At) -> profile::Options {
        let rules = rules(config, &self.strip_prefix);
        profile::Options {
            group_by: self.group_by(config),
            at: at.at,
            rules,
            every: None,
            max_input: self.input.max_input(),
        }
    }

    /// What counts as one stack.
    pub(crate) fn group_by(&self, config: &Config) -> GroupBy {
        self.group_by.map(GroupBy::from).or(config.group_by).unwrap_or_default()
    }
}

/// The rules of the configuration; folders on the command line take the place of those there.
pub(crate) fn rules(config: &Config, strip_prefix: &[String]) -> Rules {
    let mut rules = config.rules.clone();
    if !strip_prefix.is_empty() {
        rules.strip_prefix = strip_prefix.to_vec();
    }
    rules
}

/// A format on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FormatArgument(pub(crate) Format);

impl ValueEnum for FormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [FormatArgument; Format::ALL.len()] = {
            let mut all = [FormatArgument(Format::Table); Format::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = FormatArgument(Format::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Format::Table => "For people",
            Format::Json => "For machines; see docs/json.md",
            Format::Markdown => "A comment on a pull request, or the summary of a job",
            Format::Github => "Workflow commands that annotate the lines of a pull request",
            Format::Junit => "JUnit XML: a suite per device, a case per check",
            Format::Sarif => "SARIF 2.1.0: a result per check that does not hold",
            Format::Csv => "A row per stack, or per phase with --phases",
            Format::Folded => "A line per stack, for flame graphs",
            Format::Bencher => "Bencher Metric Format",
            Format::GithubActionBenchmark => "customSmallerIsBetter of github-action-benchmark",
            Format::GithubOutput => "name=value lines for the file that GITHUB_OUTPUT names",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

/// A further report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Format::ALL.map(Format::name).join(", ");
        let (name, path) = text
            .split_once('=')
            .filter(|(_, path)| !path.is_empty())
            .ok_or_else(|| format!("expected FORMAT=PATH, such as json=report.json; formats are {}", names()))?;
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        let format = format.ok_or_else(|| format!("unknown format '{name}'; accepted are {}", names()))?;
        Ok(Self { format, path: PathBuf::from(path) })
    }
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
    /// What the memory is for: parameters, forward, gradients, backward, optimizer, communication, data, other
    Category,
    /// What _set_memory_metadata() said at the allocation
    Metadata,
    /// The compiled region that allocates
    CompileContext,
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

fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("expected a reason that says something".to_owned()) } else { Ok(text.to_owned()) }
}

fn markdown_bytes(text: &str) -> Result<usize, String> {
    // Less than this holds no verdict with its figure.
    let bytes = text.replace(['_', ','], "").parse().ok().filter(|&bytes| bytes >= 4096);
    bytes.ok_or_else(|| "expected a number of bytes, at least 4096".to_owned())
}

/// It stands in an HTML comment, which nothing in it may end.
fn comment_key(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || text.len() > 64 || !text.chars().all(plain) {
        return Err("expected up to 64 letters, digits and . _ / -, a letter or digit first".to_owned());
    }
    Ok(text.to_owned())
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "expected a number from 0 to 1, such as 0.75".to_owned())
}

/// A share in percent, or from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let bad = || "expected a share such as 80% or 0.8".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => Ok(ratio(&format!("{}", percent.trim().parse::<f64>().map_err(|_| bad())? / 100.0))?),
        None => ratio(text).map_err(|_| bad()),
    }
}

fn fail_growth(text: &str) -> Result<Growth, ParseThresholdError> {
    Growth::parse(text, Level::Fail)
}

fn warn_growth(text: &str) -> Result<Growth, ParseThresholdError> {
    Growth::parse(text, Level::Warn)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
