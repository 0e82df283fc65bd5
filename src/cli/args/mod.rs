//! The command line as clap sees it. The texts here are the manual.

mod text;
pub(super) mod value;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use ptmem::config::Config;
use ptmem::pattern::Pattern;
use ptmem::profile::{self, Moment};
use ptmem::report;
use ptmem::snapshot::AllocatorSettings;
use ptmem::stack::{GroupBy, Rules};
use ptmem::tree;
use ptmem::verdict::{Growth, Limits, Maximum};

use super::doctor::DoctorArguments;
use super::history::HistoryArguments;
use super::init::InitArguments;
use super::phases::{DiffPhases, ShowPhases};
use super::scale::ScaleArguments;
use super::simulate::SimulateArguments;
use super::simulate::stand_ins::StandInsArguments;
use super::trim::TrimArguments;
pub(crate) use text::heading;
pub(crate) use value::{ColorWhen, Export};
use value::{FormatArgument, GroupByArgument, SizeArgument};

/// The name that no other tool has, by which `--version` proves that this one was found: another tool for the same files is
/// called ptmem, too.
const PRODUCT: &str = "ptmem-gate";

/// The gate that keeps PyTorch GPU memory regressions out of a code base
///
/// Reads CUDA memory snapshots, which torch.cuda.memory._dump_snapshot() writes, without ever running
/// code from them; computes baseline, peak and end of PyTorch's counters to the byte, and totals per call
/// stack; compares a before with an after against limits, and answers with a report and an exit code.
#[derive(Debug, Parser)]
#[command(name = "ptmem", display_name = PRODUCT, version, after_help = text::EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// When to colour the output
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN", help_heading = heading::OUTPUT)]
    pub(crate) color: ColorWhen,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare two snapshots and gate the growth
    #[command(
        args_override_self = true,
        after_long_help = format!("{}\n\n{}", text::DIFF, text::EXIT_CODES),
        after_help = text::EXIT_CODES,
        override_usage = "ptmem diff [OPTIONS] <BEFORE> <AFTER>\n       ptmem diff [OPTIONS] --update <PROFILE> <AFTER>\n       \
                          ptmem diff [OPTIONS] --suite <NAME>"
    )]
    Diff(DiffArguments),
    /// Gate one snapshot by absolute limits
    #[command(after_help = text::EXIT_CODES)]
    Check(CheckArguments),
    /// Find what grows: over a series of snapshots, or over the steps of one
    ///
    /// A leak is memory that does not come back, whatever the peak. In a series of two or more snapshots, in order, it
    /// is every stack that holds more at the end of nearly each of them than at the end of the one before. In a single
    /// snapshot it is every stack that leaves blocks behind in nearly each of its steps.
    #[command(
        after_long_help = format!("{}\n\n{}", text::LEAK, text::LEAK_EXIT_CODES),
        after_help = text::LEAK_EXIT_CODES
    )]
    Leak(LeakArguments),
    /// Show figures, timeline and the largest stacks of a snapshot
    ///
    /// Where memory ran out, it shows the request, the memory held, the demand, and the free memory that the request
    /// could not use, and lists the stacks that held most at that moment beside those at the peak.
    Show(ShowArguments),
    /// Write the compact profile of a snapshot, to keep as the stored before
    ///
    /// A profile is text of a few to a few hundred kilobytes that stands in for the snapshot in every other command.
    /// It holds the figures, and every call stack with its bytes at the baseline, the peak, the end, the first
    /// out-of-memory event, and the moment of --at.
    Profile(ProfileArguments),
    /// Write the files that set a gate up: limits, a recording script, a workflow
    ///
    /// Looks at the repository, asks nothing, never overwrites a file, and says what to do next.
    Init(InitArguments),
    /// Say whether a snapshot is fit to gate, and how to record a better one
    #[command(after_help = text::DOCTOR_EXIT_CODES)]
    Doctor(DoctorArguments),
    /// Show peak and largest stacks over time, with the profile at which each step came
    ///
    /// Over a folder of nightly profiles, or over the versions of a stored profile in git.
    History(HistoryArguments),
    /// Predict the peak from runs that differ in one number
    ///
    /// Finds for each stack whether it is constant, linear or quadratic in that number, and from them the peak at another
    /// one and the number at which the device is full. Three runs tell shapes apart; with four or more the last one is
    /// also predicted from the others, which shows how far to trust the rest.
    Scale(ScaleArguments),
    /// Cut a snapshot to a part that PyTorch's own viewer opens
    ///
    /// The file is the one that a recording of that window would have left: memory that is older belongs to its state at
    /// the start, the final state is that at the end of the window, and curves and peaks within are the same.
    Trim(TrimArguments),
    /// Run a command on simulated GPUs, to record where there is none
    ///
    /// PyTorch runs its own code and its own allocator on a CUDA device that exists only as addresses: kernels do nothing, and
    /// the snapshot has the allocations of a real run. Linux, x86-64 and aarch64, PyTorch 2.0 and later with CUDA
    /// (pip install torch); NVIDIA's packages may be there or not (pip install --no-deps torch). docs/simulate.md says
    /// what is exact and what is not.
    #[command(
        after_long_help = format!("{}\n\n{}", text::SIMULATE, text::SIMULATE_EXIT_CODES),
        after_help = text::SIMULATE_EXIT_CODES,
        override_usage = "ptmem simulate [OPTIONS] -- <COMMAND>...\n       ptmem simulate --gpu list"
    )]
    Simulate(SimulateArguments),
    /// Add stand-ins for the libraries that a PyTorch wants; simulate calls it
    #[command(hide = true)]
    StandIns(StandInsArguments),
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
    /// Snapshot or saved profile of the code without the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    #[arg(required_unless_present_any = ["suite", "update"])]
    pub(crate) before: Option<PathBuf>,
    /// Snapshot or saved profile of the code with the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    #[arg(required_unless_present_any = ["suite", "update"])]
    pub(crate) after: Option<PathBuf>,
    /// Fail when METRIC (default: peak) grows by more than LIMIT: 5%, 200MiB, 5%+128MiB or 0. Repeatable
    #[arg(
        long,
        value_name = "[METRIC=]LIMIT",
        value_parser = value::fail_growth,
        allow_hyphen_values = true,
        help_heading = heading::LIMITS
    )]
    pub(crate) max_growth: Vec<Growth>,
    /// Warn when METRIC grows by more than LIMIT; the exit code stays 0. Repeatable
    #[arg(
        long,
        value_name = "[METRIC=]LIMIT",
        value_parser = value::warn_growth,
        allow_hyphen_values = true,
        help_heading = heading::LIMITS
    )]
    pub(crate) warn_growth: Vec<Growth>,
    /// Fail when METRIC of the after exceeds SIZE, such as reserved=75GiB. Repeatable
    #[arg(
        long,
        value_name = "METRIC=SIZE",
        value_parser = Maximum::from_str,
        allow_hyphen_values = true,
        help_heading = heading::LIMITS
    )]
    pub(crate) max: Vec<Maximum>,
    /// Neither list nor gate stacks that changed by less than SIZE [default: 1MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    pub(crate) min_delta: Option<SizeArgument>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    /// Compare every pair of this suite in ptmem.toml and give one verdict
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["before", "after", "update"],
        help_heading = heading::COMPARED
    )]
    pub(crate) suite: Option<String>,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    pub(crate) stacks: Stacks,
    /// How similar two stacks must be, from 0 to 1, to count as the same stack in changed code [default: 0.75]
    #[arg(long, value_name = "RATIO", value_parser = value::ratio, help_heading = heading::COMPARED)]
    pub(crate) match_ratio: Option<f64>,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    pub(crate) phases: DiffPhases,
    /// After a pass, rewrite this saved profile, which is the before, from the after; figures can only fall
    #[arg(long, value_name = "PROFILE", conflicts_with = "device", help_heading = heading::STORED)]
    pub(crate) update: Option<PathBuf>,
    /// Let --update also raise figures, beyond limits too
    #[arg(long, requires = "update", requires = "reason", help_heading = heading::STORED)]
    pub(crate) allow_raise: bool,
    /// Why figures are raised; kept in the profile
    #[arg(
        long,
        value_name = "TEXT",
        requires = "allow_raise",
        value_parser = value::reason,
        help_heading = heading::STORED
    )]
    pub(crate) reason: Option<String>,
    /// Compare peaks and stacks although one recording lacks its beginning or end
    #[arg(long, help_heading = heading::TRUST)]
    pub(crate) allow_partial: bool,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Exit with 0 where only growth fails and the pull request of this run of GitHub Actions has LABEL
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::TRUST)]
    pub(crate) approve_label: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    /// Mark what changed in lines that the checkout changes since its merge base with BASE: a commit, branch or tag
    #[arg(long, value_name = "BASE", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::OUTPUT)]
    pub(crate) git: Option<String>,
    /// Also list the stacks that did not change or only moved
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(crate) all: bool,
    /// Show how the stacks of each row differ between before and after
    #[arg(
        long,
        conflicts_with_all = ["tree", "depth", "focus", "grep", "internals"],
        help_heading = heading::OUTPUT
    )]
    pub(crate) explain: bool,
    /// Leave out how to accept growth that fails, for programs that have a way of their own
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(crate) no_acceptance: bool,
    #[command(flatten)]
    pub(crate) view: View,
}

impl DiffArguments {
    /// The limits that were set.
    pub(crate) fn limits(&self) -> Limits {
        self.capacity.limits(Limits {
            growth: self.max_growth.iter().chain(&self.warn_growth).cloned().collect(),
            maximum: self.max.clone(),
            min_delta: self.min_delta.map(|size| size.0),
            strict: self.trust.strict.then_some(true),
            allow_partial: self.allow_partial.then_some(true),
            ..Limits::default()
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    /// Fail when METRIC (peak, baseline, end, active, requested, reserved, fragmentation, stack, stack:GLOB,
    /// imbalance) exceeds SIZE. Repeatable; at least one, here or in ptmem.toml
    #[arg(
        long,
        value_name = "METRIC=SIZE",
        value_parser = Maximum::from_str,
        allow_hyphen_values = true,
        help_heading = heading::LIMITS
    )]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten)]
    pub(crate) view: View,
}

/// The device, and memory that must be left free on it.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::LIMITS)]
pub(crate) struct Capacity {
    /// Memory of the device, such as 80GiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) device_memory: Option<SizeArgument>,
    /// Fail when the reserved peak leaves less than SIZE of --device-memory
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) min_headroom: Option<SizeArgument>,
    /// Let memory run out, as programs do that probe for the largest batch; otherwise an out-of-memory event is a
    /// regression
    #[arg(long)]
    pub(crate) allow_oom: bool,
}

impl Capacity {
    /// The limits, and those of the command line beside them.
    pub(crate) fn limits(&self, others: Limits) -> Limits {
        Limits {
            allow_oom: self.allow_oom.then_some(true),
            device_memory: self.device_memory.map(|size| size.0),
            min_headroom: self.min_headroom.map(|size| size.0),
            ..others
        }
    }
}

/// How doubt and failure affect the verdict and the exit code.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::TRUST)]
pub(crate) struct Trust {
    /// Treat untrustworthy comparisons as inconclusive (exit 3) instead of warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Exit with 0 whatever the verdict; errors still exit with 2
    #[arg(long)]
    pub(crate) exit_zero: bool,
}

/// The call tree, and how much of it is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::TREE)]
pub(crate) struct TreeArguments {
    /// Show the call tree, outermost frame first, instead of the list of stacks
    #[arg(long)]
    tree: bool,
    /// Show N levels of the tree; deeper frames count towards the frame above them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Keep only stacks with a frame whose function or path matches, and make that frame the root: part of a name,
    /// or a glob
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::search)]
    focus: Option<Pattern>,
    /// Keep only stacks with a frame whose function or path matches, and mark that frame
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::search)]
    grep: Option<Pattern>,
    /// Show every frame, including PyTorch's own and all of C++
    #[arg(long)]
    internals: bool,
}

impl TreeArguments {
    /// The options of the tree, where one was asked for.
    pub(crate) fn options(&self) -> Option<tree::Options> {
        // Options that only a tree can show imply `--tree`.
        let is_wanted =
            self.tree || self.depth.is_some() || self.focus.is_some() || self.grep.is_some() || self.internals;
        is_wanted.then(|| tree::Options {
            internals: self.internals,
            focus: self.focus.clone(),
            grep: self.grep.clone(),
            depth: self.depth.map(usize::from),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) phases: ShowPhases,
    /// Memory of the device, such as 80GiB: adds utilisation and headroom
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::SHOWN)]
    pub(crate) device_memory: Option<SizeArgument>,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) view: View,
}

#[derive(Debug, Args)]
pub(crate) struct LeakArguments {
    /// One snapshot, or two or more in order: snapshots or saved profiles, directories or globs of them; - is standard
    /// input
    #[arg(required = true, value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<PathBuf>,
    /// Fail only when all leaks of a device together exceed SIZE per snapshot or step [default: any leak fails]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    pub(crate) max_leak: Option<SizeArgument>,
    /// Let memory run out; otherwise an out-of-memory event, of a series in the latest snapshot, is a failure
    #[arg(long, help_heading = heading::LIMITS)]
    pub(crate) allow_oom: bool,
    /// Ignore the first N snapshots or steps as warm-up [default: 0 snapshots, 1 step]
    #[arg(long, value_name = "N", help_heading = heading::LEAK)]
    pub(crate) skip: Option<usize>,
    /// Smallest total growth that counts as a leak [default: 1MiB over a series; any within one snapshot]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LEAK)]
    pub(crate) min_growth: Option<SizeArgument>,
    /// Share of steps in which a stack must grow to count as a leak
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "80%",
        value_parser = value::share,
        help_heading = heading::LEAK
    )]
    pub(crate) min_share: f64,
    /// Begin a step at every annotation or user_metadata whose name matches: part of a name, or a glob
    #[arg(
        long,
        value_name = "PATTERN",
        value_parser = Pattern::search,
        conflicts_with = "windows",
        help_heading = heading::LEAK
    )]
    pub(crate) step: Option<Pattern>,
    /// Divide the history into N equal parts and treat them as steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..), help_heading = heading::LEAK)]
    pub(crate) windows: Option<u16>,
    #[command(flatten, next_help_heading = heading::LEAK)]
    pub(crate) grouping: Grouping,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Memory of the device, such as 80GiB: adds when it runs out
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::OUTPUT)]
    pub(crate) device_memory: Option<SizeArgument>,
    #[command(flatten)]
    pub(crate) view: View,
}

/// The configuration file to use.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::INPUT)]
pub(crate) struct ConfigArguments {
    /// Read this configuration file instead of the nearest ptmem.toml or .github/ptmem.toml, which is looked for upwards
    /// to the root of the repository
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
    /// Keep the N stacks per device that hold most and sum the rest in one row; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = heading::KEPT)]
    pub(crate) top: usize,
    /// Keep stacks that hold at least SIZE at one of the moments and sum the rest in one row
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true, help_heading = heading::KEPT)]
    pub(crate) min_bytes: SizeArgument,
    /// Keep one more moment: event:N, time:SECONDS, phase:NAME[#N]:start, :peak or :end, or between:MOMENT..MOMENT. Baseline, peak, end and oom are always kept
    #[arg(long, value_name = "MOMENT", default_value = "peak", help_heading = heading::KEPT)]
    pub(crate) at: Moment,
    /// Show your code relative to this folder instead of the root of the checkout. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::KEPT)]
    pub(crate) strip_prefix: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Keep this device alone, by its number in the snapshot [default: all]
    #[arg(long, value_name = "N", help_heading = heading::KEPT)]
    pub(crate) device: Option<u32>,
    #[command(flatten, next_help_heading = heading::INPUT)]
    pub(crate) input: InputArguments,
    /// The file to write, such as baseline.ptmem.json; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = heading::OUTPUT)]
    pub(crate) output: PathBuf,
}

/// Limits on reading.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// Refuse compressed input that expands to more than SIZE
    #[arg(long, value_name = "SIZE", default_value = "64GiB", allow_hyphen_values = true)]
    max_input: SizeArgument,
    /// Allocator settings of the run, as in PYTORCH_CUDA_ALLOC_CONF, for snapshots that do not state them (PyTorch
    /// before 2.3)
    #[arg(long, value_name = "SETTINGS")]
    allocator_settings: Option<AllocatorSettings>,
}

impl InputArguments {
    /// In bytes.
    pub(crate) fn max_input(&self) -> Option<u64> {
        Some(self.max_input.0)
    }

    /// The allocator settings of the command line, else of the configuration.
    pub(crate) fn allocator_settings(&self, config: &Config) -> Option<AllocatorSettings> {
        self.allocator_settings.clone().or_else(|| config.allocator_settings.clone())
    }
}

/// The moment whose stacks are reported, and the grouping of these stacks.
#[derive(Debug, Args)]
pub(crate) struct Stacks {
    /// Moment of the stack totals: peak, baseline, end, oom (memory first ran out), event:N, time:SECONDS, or
    /// phase:NAME[#N]:start, :peak or :end (without #N the occurrence with the highest peak). In a comparison also aligned:
    /// the peak of the after, and where the before does the same
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: Moment,
    /// Take the highest point between two moments instead, such as phase:forward#2:start..phase:backward#2:end
    #[arg(long, value_name = "MOMENT..MOMENT", conflicts_with = "at", value_parser = Moment::between)]
    between: Option<Moment>,
    #[command(flatten)]
    pub(crate) grouping: Grouping,
}

impl Stacks {
    /// The moment that was asked for.
    fn moment(&self) -> Moment {
        self.between.as_ref().unwrap_or(&self.at).clone()
    }

    /// Refuses the moment that only a comparison has.
    pub(crate) fn require_one_sided(&self) -> Result<()> {
        match self.at {
            Moment::Aligned(_) => {
                bail!("--at aligned is a moment of two snapshots, for 'ptmem diff'; expected another one")
            }
            _ => Ok(()),
        }
    }

    /// How to compute a profile that holds these stacks.
    pub(crate) fn profile_options(&self, config: &Config, view: &View) -> profile::Options {
        profile::Options {
            group_by: self.grouping.group_by(config),
            at: self.moment(),
            device: view.device,
            rules: self.grouping.rules(config),
            every: None,
            max_input: view.input.max_input(),
            allocator_settings: view.input.allocator_settings(config),
            history: false,
            skip_course: false,
        }
    }
}

/// The definition of one stack, and how its frames are named.
#[derive(Debug, Args)]
pub(crate) struct Grouping {
    /// What counts as one stack [default: stack]
    #[arg(long, value_enum, value_name = "GROUPING")]
    group_by: Option<GroupByArgument>,
    /// Show your code relative to this folder instead of the root of the checkout. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = NonEmptyStringValueParser::new())]
    strip_prefix: Vec<String>,
}

impl Grouping {
    /// The grouping of the command line, else of the configuration.
    pub(crate) fn group_by(&self, config: &Config) -> GroupBy {
        self.group_by.map(GroupBy::from).or(config.group_by).unwrap_or_default()
    }

    /// The rules about frames.
    pub(crate) fn rules(&self, config: &Config) -> Rules {
        rules(config, &self.strip_prefix)
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

/// Reports: their formats, lengths and files.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct View {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: FormatArgument,
    /// Also write the result to a file, in any of the formats; - is standard output. Repeatable
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(crate) export: Vec<Export>,
    /// List N stacks (with --tree: N callees of a frame) and sum the rest in one row; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Show the line of the source below each row, where the checkout has the file
    #[arg(long)]
    pub(crate) source: bool,
    /// Largest size of Markdown output; rows are left out until it fits. GitHub accepts 65,536 for a comment and
    /// 1,048,576 for a summary
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = report::MOST_COMMENT_BYTES,
        value_parser = value::markdown_bytes
    )]
    pub(crate) max_bytes: usize,
    /// Name of the hidden marker in Markdown that identifies the comment on a pull request
    #[arg(long, value_name = "KEY", default_value = "default", value_parser = value::comment_key)]
    pub(crate) comment_key: String,
    /// Look at this device alone, by its number in the snapshot
    #[arg(long, value_name = "N", help_heading = heading::INPUT)]
    pub(crate) device: Option<u32>,
    #[command(flatten, next_help_heading = heading::INPUT)]
    pub(crate) input: InputArguments,
    /// Read at most N files at the same time [default: one per core]
    #[arg(long, value_name = "N", help_heading = heading::INPUT)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

impl View {
    /// Whether a format is asked for that shows pictures.
    pub(crate) fn has_pictures(&self) -> bool {
        self.format.0.has_pictures() || self.export.iter().any(|export| export.format.has_pictures())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_option_of_a_command_stands_under_a_heading() {
        for command in Arguments::command().get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
                assert!(argument.get_help_heading().is_some(), "{} --{}", command.get_name(), argument.get_id());
            }
        }
    }
}
