//! The call tree.

use clap::Args;
use ptmem::pattern::Pattern;
use ptmem::tree;

use super::heading;

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
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::search_code)]
    focus: Option<Pattern>,
    /// Keep only stacks with a frame whose function or path matches, and mark that frame; with the whole label of a row
    /// only that row
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
