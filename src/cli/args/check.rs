//! `ptmem check`.

use std::path::PathBuf;

use clap::Args;
use ptmem::diagnostic::Diagnostic;
use ptmem::verdict::{Maximum, NoBefore};

use super::limits::{Capacity, Trust};
use super::stacks::Stacks;
use super::view::View;
use super::{ConfigArguments, heading};

/// The after of a comparison, whose before is not there.
#[derive(Debug, Clone)]
pub(crate) struct Unpaired {
    pub(crate) before: NoBefore,
    /// The label that lets it pass.
    pub(crate) approve_label: Option<String>,
    /// Remarks on the comparison that was to be made.
    pub(crate) remarks: Vec<Diagnostic>,
}

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
    /// Of a comparison whose before is not there.
    #[arg(skip)]
    pub(crate) unpaired: Option<Unpaired>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten)]
    pub(crate) view: View,
}
