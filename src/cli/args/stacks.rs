//! The stacks that are reported.

use anyhow::{Result, bail};
use clap::Args;
use ptmem::config::Config;
use ptmem::pattern::Pattern;
use ptmem::profile::{self, Moment};
use ptmem::report::Format;
use ptmem::stack::GroupBy;
use ptmem::tree;

use super::heading;
use super::view::ViewArguments;

/// The moment whose stacks are reported, and the grouping of these stacks.
#[derive(Debug, Default, Args)]
pub(crate) struct StackArguments {
    /// Moment of the stack totals: peak, baseline, end, oom (memory first ran out), event:N, time:SECONDS, or
    /// phase:NAME[#N]:start, :peak or :end (without #N the occurrence with the highest peak); or the highest point between
    /// two of them, such as phase:forward#2:start..phase:backward#2:end. [default: peak; for 'ptmem diff' aligned: the
    /// peak of the after and the corresponding moment of the before]
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
    #[command(flatten)]
    pub(crate) grouping: GroupingArguments,
}

impl StackArguments {
    /// The requested moment.
    pub(crate) fn moment(&self) -> Option<Moment> {
        self.at.clone()
    }

    /// Options to compute a profile that is not compared, and whose addresses may be kept unless it is a rank of a job.
    pub(crate) fn options_of_one(
        &self,
        config: &Config,
        view: &ViewArguments,
        is_rank: bool,
    ) -> Result<profile::ReadOptions> {
        if let Some(Moment::Aligned) = self.at {
            bail!("--at aligned is a moment of two snapshots, for 'ptmem diff'; expected another one");
        }
        let layout = !is_rank && view.formats().any(Format::has_pictures);
        Ok(profile::ReadOptions { layout, ..self.profile_options(config, view) })
    }

    /// Options to compute a profile that holds these stacks.
    pub(crate) fn profile_options(&self, config: &Config, view: &ViewArguments) -> profile::ReadOptions {
        let reading = self.grouping.reading(config);
        profile::ReadOptions {
            at: self.moment().unwrap_or_default(),
            device: view.device,
            sources: view.source,
            ..reading
        }
    }
}

/// The definition of one stack, and how its frames are named.
#[derive(Debug, Default, Args)]
pub(crate) struct GroupingArguments {
    /// How allocations are grouped into stacks [default: stack]
    #[arg(long, value_enum, value_name = "GROUPING")]
    group_by: Option<GroupBy>,
}

impl GroupingArguments {
    /// Whether it asks for rows that a call tree, which is one of frames or of modules, does not have.
    pub(crate) fn is_of_rows(&self) -> bool {
        self.group_by.is_some_and(|by| !matches!(by, GroupBy::Stack | GroupBy::Module))
    }

    /// The options by which a file is read. The configuration supplies whatever the command line omits.
    pub(crate) fn reading(&self, config: &Config) -> profile::ReadOptions {
        profile::ReadOptions {
            group_by: self.group_by.or(config.group_by).unwrap_or_default(),
            unfold: config.unfold,
            rules: config.rules.clone(),
            ..config.reading()
        }
    }
}

/// The call tree, and how much of it is shown.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::TREE)]
pub(crate) struct TreeArguments {
    /// Show the call tree, outermost frame first, instead of the list of stacks. With N, show only N levels and add
    /// deeper frames to their callers
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, value_parser = clap::value_parser!(u16).range(1..))]
    #[expect(clippy::option_option, reason = "the option may stand without its value")]
    tree: Option<Option<u16>>,
    /// Keep only stacks with a frame whose function or path matches PATTERN (part of a name, or a glob), and mark that frame.
    /// The whole label of a row selects only that row
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::search)]
    focus: Option<Pattern>,
    /// Show every frame, including PyTorch's own and all of C++
    #[arg(long)]
    internals: bool,
}

impl TreeArguments {
    /// The options of the tree, if requested.
    pub(crate) fn options(&self) -> Option<tree::TreeOptions> {
        // Options that only a tree can show imply `--tree`.
        let is_wanted = self.tree.is_some() || self.focus.is_some() || self.internals;
        is_wanted.then(|| tree::TreeOptions {
            internals: self.internals,
            focus: self.focus.clone(),
            depth: self.tree.flatten().map(usize::from),
        })
    }
}
