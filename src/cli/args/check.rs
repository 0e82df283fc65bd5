//! `ptmem check`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::verdict::Maximum;

use super::limits::{Capacity, Trust};
use super::stacks::Stacks;
use super::view::View;
use super::{ConfigArguments, heading};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    /// Fail when METRIC (peak, the default, baseline, end, active, requested, reserved, fragmentation, stack, stack:GLOB,
    /// imbalance) exceeds SIZE. Repeatable; at least one, here or in ptmem.toml
    #[arg(long, value_name = "[METRIC=]SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Growth should be gated, and REASON is why there is no before: inconclusive unless a limit is exceeded
    #[arg(long, value_name = "REASON", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::TRUST)]
    pub(crate) no_before: Option<String>,
    /// With --no-before, exit with 0 where nothing else fails and the pull request of this run of GitHub Actions has LABEL
    #[arg(long, value_name = "LABEL", requires = "no_before", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::TRUST)]
    pub(crate) approve_label: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten)]
    pub(crate) view: View,
}
