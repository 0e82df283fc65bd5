//! The arguments of `ptmem bisect`.

use clap::Args;

use crate::cli::args::{ConfigArguments, DiffLimits, StackArguments, Trust, ViewArguments, heading, text};
use crate::cli::recorder::RecordArguments;

/// Find the commit or the release that made memory grow
///
/// Searches between a good and a bad commit or release: records candidates on a simulated card and compares each
/// with the good one, until it knows the first that exceeds the limits. Reports that one, compared with the one
/// before it. Recordings are kept, so an interrupted search continues; one of releases only if no file changed that
/// git does not ignore. Candidates that cannot be recorded are skipped.
///
/// With a snapshot of a good commit instead of a range, it records and judges only the checkout, and exits with 125
/// if that has no verdict, or with 128 if no commit could have one:
/// git bisect run ptmem bisect good.pkl --max-growth 5% -- python train.py
#[derive(Debug, Args)]
#[command(
    after_help = text::EXIT_CODES,
    mut_arg("command", |command| command.required(true)),
    override_usage = "ptmem bisect [OPTIONS] <GOOD..BAD> -- <COMMAND>...\n       ptmem bisect [OPTIONS] <PACKAGE==GOOD..BAD> -- <COMMAND>...\n       \
                      ptmem bisect [OPTIONS] <SNAPSHOT> -- <COMMAND>..."
)]
pub(crate) struct BisectArguments {
    /// Commits, as GOOD..BAD; releases of a package, as 'NAME==GOOD..BAD'; or the recording of a good commit, with which the
    /// checkout is compared: for git bisect run
    #[arg(value_name = "RANGE")]
    pub(super) range: String,
    #[command(flatten)]
    pub(super) record: RecordArguments,
    #[command(flatten)]
    pub(super) limits: DiffLimits,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    pub(super) stacks: StackArguments,
    #[command(flatten)]
    pub(super) trust: Trust,
    #[command(flatten)]
    pub(super) config: ConfigArguments,
    #[command(flatten)]
    pub(super) view: ViewArguments,
}
