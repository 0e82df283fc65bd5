//! The call tree as a flat list: nesting would be as deep as the stacks of the input.

use serde::Serialize;

use crate::diff::Sides;
use crate::profile::{Held, others};
use crate::tree::{Layout, Line, Tree};

/// A line of the call tree.
#[derive(Debug, Serialize)]
pub(super) struct TreeReport {
    depth: usize,
    name: String,
    path: Option<String>,
    line: Option<u32>,
    #[serde(flatten)]
    held: TreeHeld,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TreeHeld {
    Held { bytes: u64, blocks: u64 },
    Change { before: u64, after: u64, delta: i128, before_blocks: u64, after_blocks: u64 },
}

/// The tree of one snapshot.
pub(super) fn held(tree: &Tree, top: usize) -> Vec<TreeReport> {
    let lines = tree.lines(Layout { top, least: 0, changes: false, fold: false });
    lines.iter().map(|line| TreeReport::new(line, TreeHeld::held(line.held.after))).collect()
}

/// The tree of a comparison.
pub(super) fn changes(tree: &Tree, top: usize) -> Vec<TreeReport> {
    let lines = tree.lines(Layout { top, least: 1, changes: true, fold: false });
    lines.iter().map(|line| TreeReport::new(line, TreeHeld::change(line.held))).collect()
}

impl TreeReport {
    fn new(line: &Line<'_>, held: TreeHeld) -> Self {
        let Some(node) = line.chain.last() else {
            let name = if line.others == 0 { "[itself]".to_owned() } else { others(line.others) };
            return Self { depth: line.depth, name, path: None, line: None, held };
        };
        let frame = &node.frame;
        Self { depth: line.depth, name: frame.name.clone(), path: frame.path.clone(), line: frame.line, held }
    }
}

impl TreeHeld {
    fn held(held: Held) -> Self {
        Self::Held { bytes: held.bytes, blocks: held.blocks }
    }

    fn change(held: Sides<Held>) -> Self {
        Self::Change {
            before: held.before.bytes,
            after: held.after.bytes,
            delta: held.delta(),
            before_blocks: held.before.blocks,
            after_blocks: held.after.blocks,
        }
    }
}
