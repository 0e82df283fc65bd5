//! The command line as clap sees it. The texts here are the manual.

mod diff;
mod input;
mod limits;
mod stacks;
mod text;
pub(super) mod value;
mod view;

use clap::{Parser, Subcommand};

use super::check::CheckArguments;
use super::doctor::DoctorArguments;
use super::fit::FitArguments;
use super::history::HistoryArguments;
use super::init::InitArguments;
use super::leak::LeakArguments;
#[cfg(feature = "simulate")]
use super::pip::PipArguments;
use super::profile::ProfileArguments;
use super::show::ShowArguments;
use super::trim::TrimArguments;
pub(crate) use diff::DiffArguments;
pub(crate) use input::{BaseArguments, ConfigArguments, InputArguments};
pub(crate) use limits::{Capacity, DeviceArguments, Trust};
pub(crate) use stacks::{Grouping, Stacks, TreeArguments};
pub(crate) use text::heading;
pub(crate) use value::Export;
pub(crate) use view::{StudyView, View};

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
    /// When to colour the output; auto is on a terminal, unless NO_COLOR is set, and everywhere with CLICOLOR_FORCE
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN", help_heading = heading::OUTPUT)]
    pub(crate) color: clap::ColorChoice,
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
    /// A profile is a text file of a few to a few hundred kilobytes. Every other command accepts it instead of the snapshot.
    /// It holds the whole history, folded: the figures, and every call stack with its bytes at any moment. Times and
    /// addresses of single events are left out.
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
    /// Find the largest batch, or another number, that fits on a card
    ///
    /// With a command, runs it on a simulated card with one number after the other until the largest that fits is known. From
    /// recordings of three or more runs, it predicts the peak at other numbers: it finds for each stack whether it is constant, linear or quadratic in that number, and from them the peak at another
    /// one and the number at which the device is full. Three runs tell shapes apart; with four or more the last one is
    /// also predicted from the others, which shows how far to trust the rest.
    #[command(
        override_usage = "ptmem fit [OPTIONS] <NAME=FROM..TO> -- <COMMAND>...\n       ptmem fit [OPTIONS] --x <NUMBERS> <SNAPSHOT>..."
    )]
    Fit(FitArguments),
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
    #[cfg(feature = "simulate")]
    Simulate(ptmem_simulate::SimulateArguments),
    /// Install packages of Python without NVIDIA's, which are most of PyTorch's size: for simulated GPUs
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
        /// The page of this command instead
        command: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// More are no longer read.
    const MOST_OPTIONS: usize = 40;

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
        for name in ptmem::verdict::Growth::accepted().split([',', ' ']).filter(|name| !matches!(*name, "" | "and")) {
            assert!(
                text::DIFF.split(|c: char| !c.is_ascii_alphanumeric() && !":-".contains(c)).any(|word| word == name),
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
