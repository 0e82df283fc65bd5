//! `ptmem diff`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::verdict::Limits;

use super::limits::{Capacity, DiffLimits, Trust};
use super::stacks::{StackArguments, TreeArguments};
use super::view::ViewArguments;
use super::{ConfigArguments, heading};

#[derive(Debug, Default, Args)]
pub(crate) struct DiffArguments {
    /// Snapshot or saved profile of the code without the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    pub(crate) before: PathBuf,
    /// Snapshot or saved profile of the code with the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) limits: DiffLimits,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    pub(crate) stacks: StackArguments,
    /// Also list the phases (annotations, metadata, compile contexts) whose peak changed
    #[arg(long, help_heading = heading::COMPARED)]
    pub(crate) phases: bool,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    /// Name the edits since the merge base with BASE (a commit, branch or tag) to which growth leads
    #[arg(long, value_name = "BASE", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::OUTPUT)]
    pub(crate) git: Option<String>,
    /// Also list the stacks that did not change or only moved
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(crate) all: bool,
    /// Show how the stacks of each row differ between before and after
    #[arg(
        long,
        conflicts_with_all = ["tree", "focus", "internals"],
        help_heading = heading::OUTPUT
    )]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) view: ViewArguments,
}

impl DiffArguments {
    /// The limits that were set.
    pub(crate) fn limits(&self) -> Limits {
        self.capacity.limits(self.limits.limits(self.trust.strict))
    }
}
