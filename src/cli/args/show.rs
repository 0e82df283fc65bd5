//! `ptmem show`.

use std::path::PathBuf;

use clap::Args;

use super::limits::DeviceArguments;
use super::stacks::Stacks;
use super::tree::TreeArguments;
use super::view::View;
use super::{ConfigArguments, heading};
use crate::cli::phases::ShowPhases;

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) phases: ShowPhases,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) device: DeviceArguments,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) view: View,
}
