//! The call tree as a flat list: nesting would be as deep as the stacks of the input.

use serde::ser::{Serialize, Serializer};

use crate::json_writer::object;
use crate::profile::others;
use crate::tree::{Layout, Line, Tree};

/// The lines of a tree, of which each frame has at most `top` callees.
pub(super) struct Lines {
    tree: Tree,
    layout: Layout,
}

impl Lines {
    /// Those of one snapshot.
    pub(super) fn held(tree: Tree, top: usize) -> Self {
        Self { tree, layout: Layout { top, least: 0, changes: false, fold: false } }
    }

    /// Those of a comparison.
    pub(super) fn changes(tree: Tree, top: usize) -> Self {
        Self { tree, layout: Layout { top, least: 1, changes: true, fold: false } }
    }
}

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = self.tree.lines(self.layout);
        serializer.collect_seq(lines.iter().map(|line| LineReport(line, self.layout.changes)))
    }
}

object! {
    LineReport<'t>(of: &'t Line<'t>, changes: bool) {
        depth: of.depth,
        name: name(of),
        path: of.chain.last().and_then(|node| node.frame.path.as_deref()),
        line: of.chain.last().and_then(|node| node.frame.line),
        bytes?: (!changes).then_some(of.held.after.bytes),
        blocks?: (!changes).then_some(of.held.after.blocks),
        before?: changes.then_some(of.held.before.bytes),
        after?: changes.then_some(of.held.after.bytes),
        delta?: changes.then(|| of.held.delta()),
        before_blocks?: changes.then_some(of.held.before.blocks),
        after_blocks?: changes.then_some(of.held.after.blocks),
    }
}

fn name(line: &Line<'_>) -> String {
    match (line.chain.last(), line.others) {
        (Some(node), _) => node.frame.name.clone(),
        (None, 0) => "[itself]".to_owned(),
        (None, count) => others(count),
    }
}
