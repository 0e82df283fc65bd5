//! The command line as clap sees it. The texts here are the manual.

mod diff;
mod input;
mod limits;
mod stacks;
pub(crate) mod text;
pub(super) mod value;
mod view;

use clap::{Parser, Subcommand};

use super::check::CheckArguments;
#[cfg(feature = "simulate")]
use super::gate::GateArguments;
use super::leak::LeakArguments;
#[cfg(feature = "simulate")]
use super::pip::PipArguments;
use super::profile::ProfileArguments;
use super::show::ShowArguments;
use crate::leaves::Leaf;
pub(crate) use diff::DiffArguments;
pub(crate) use input::ConfigArguments;
#[cfg(feature = "simulate")]
pub(crate) use limits::DiffLimits;
pub(crate) use limits::{Capacity, DeviceArguments, Trust};
pub(crate) use stacks::{GroupingArguments, StackArguments, TreeArguments};
pub(crate) use text::heading;
pub(crate) use value::Export;
#[cfg(feature = "simulate")]
pub(crate) use view::STUDY_FORMATS;
pub(crate) use view::{StudyArguments, StudyView, ViewArguments};

/// The name that no other tool has, by which `--version` proves that this one was found: another tool for the same files is
/// called ptmem, too.
const PRODUCT: &str = "ptmem-gate";

/// The gate that keeps PyTorch GPU memory regressions out of a code base
///
/// Reads CUDA memory snapshots, as written by torch.cuda.memory._dump_snapshot(), without running code from them.
/// Computes baseline, peak and end of PyTorch's counters to the byte, and totals per call stack. Compares two
/// snapshots, applies limits, and prints a report. The exit code is the verdict.
#[derive(Debug, Parser)]
#[command(name = "ptmem", display_name = PRODUCT, version, after_help = text::EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// When to color the output. auto: on a terminal unless NO_COLOR is set, and always with CLICOLOR_FORCE
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN", help_heading = heading::OUTPUT)]
    pub(crate) color: clap::ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record the base and the working tree, compare them, and gate the growth
    ///
    /// Finds the base, records both sides on a simulated card (the base in a git worktree), and compares them: the peak may grow
    /// by 5 %, unless limits are given. With a command behind --, that command is the only gate; otherwise the gates are those of
    /// ptmem.toml. The recording of the base is kept, so the next run records only the working tree.
    #[cfg(feature = "simulate")]
    #[command(
        after_help = text::EXIT_CODES,
        override_usage = "ptmem gate [OPTIONS] [NAME]...\n       ptmem gate [OPTIONS] -- <COMMAND>..."
    )]
    Gate(Box<GateArguments>),
    /// Compare two snapshots and gate the growth
    #[command(
        args_override_self = true,
        after_long_help = format!("{}\n\n{}", text::diff(), text::EXIT_CODES),
        after_help = text::EXIT_CODES
    )]
    Diff(DiffArguments),
    /// Check one snapshot against absolute limits
    #[command(after_help = text::EXIT_CODES)]
    Check(CheckArguments),
    /// Find memory leaks, over a series of snapshots or over the steps of one
    ///
    /// A leak is memory that is never freed. In a series of snapshots, a stack leaks if it holds more at the end of
    /// nearly every snapshot than at the end of the previous one; in a single snapshot, if it leaves blocks behind in
    /// nearly every step.
    #[command(
        after_long_help = format!("{}\n\n{}", text::LEAK, text::LEAK_EXIT_CODES),
        after_help = text::LEAK_EXIT_CODES
    )]
    Leak(LeakArguments),
    /// Show figures, timeline and the largest stacks of a snapshot
    ///
    /// If memory ran out, it also shows the request, the free memory that could not serve it, and the stacks that held
    /// most at that moment.
    Show(ShowArguments),
    /// Write the compact profile of a snapshot, to store as the before
    ///
    /// A profile is a text file of a few to a few hundred kilobytes. Every other command accepts it instead of the snapshot.
    /// It contains the whole history in compressed form, without addresses and most times.
    Profile(ProfileArguments),
    #[command(flatten)]
    Leaf(Leaf),
    /// Run a command on simulated GPUs, to record without a GPU
    ///
    /// PyTorch runs its own code and its own allocator on a CUDA device that exists only as addresses. Kernels compute
    /// nothing, but the snapshot has the allocations of a real run. Needs Linux on x86-64 or aarch64 and a CUDA build
    /// of PyTorch 2.0 or later, but neither a driver nor NVIDIA's packages (ptmem pip install torch). crates/simulate/README.md
    /// describes what is exact and what is not.
    #[cfg(feature = "simulate")]
    Simulate(ptmem_simulate::SimulateArguments),
    /// Install Python packages without NVIDIA's, which simulated GPUs do not need
    #[cfg(feature = "simulate")]
    Pip(PipArguments),
    /// Add stand-ins for the libraries that a PyTorch wants; simulate calls it
    #[cfg(feature = "simulate")]
    #[command(hide = true)]
    StandIns(ptmem_simulate::StandInsArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, as roff: ptmem man | man -l -
    Man {
        /// Print the page of this command
        command: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    mod documented;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// More are no longer read.
    const MOST_OPTIONS: usize = 29;

    #[test]
    fn no_command_has_more_options_than_people_read() {
        let mut all = Arguments::command();
        all.build();
        for command in all.get_subcommands() {
            let options = command.get_arguments().filter(|argument| !argument.is_positional()).count();
            assert!(options <= MOST_OPTIONS, "{} has {options} options", command.get_name());
        }
    }

    #[test]
    fn the_help_of_diff_names_every_metric() {
        let help = text::diff();
        for name in
            ptmem::verdict::GrowthLimit::accepted().split([',', ' ']).filter(|name| !matches!(*name, "" | "and"))
        {
            assert!(
                help.split(|c: char| !c.is_ascii_alphanumeric() && !":-".contains(c)).any(|word| word == name),
                "{name}"
            );
        }
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
