//! A tree as lines, the heaviest frames first.

use std::cmp::Ordering;

use super::{Node, Tree};
use crate::diff::Sides;
use crate::profile::Held;

/// A line of the tree.
#[derive(Debug, Clone)]
pub struct Line<'t> {
    /// Its distance from the root, in lines.
    pub depth: usize,
    /// A frame with those that it calls and that nothing else comes between, outermost first; or none, where
    /// the line sums smaller ones.
    pub chain: Vec<&'t Node>,
    /// Without a chain, the number of siblings that it sums; 0 for the memory of the frame above itself, beside
    /// its callees.
    pub others: usize,
    /// Memory that is held there and below.
    pub held: Sides<Held>,
    /// Memory that is held there itself.
    pub own: Sides<Held>,
}

/// Rules by which a tree becomes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The most children of one frame; 0 is all.
    pub top: usize,
    /// Children that weigh less are summed: bytes, or in a comparison bytes of change.
    pub least: u64,
    /// True if it is a comparison, where the change is what counts.
    pub changes: bool,
    /// True if chains of single children are one line.
    pub fold: bool,
}

impl Tree {
    /// Memory of the stacks in the tree; less than the total where some are left out.
    #[must_use]
    pub fn held(&self) -> Sides<Held> {
        self.nodes.first().map_or(self.total, |root| root.held)
    }

    /// The lines of the tree, each frame before those that it calls, the heaviest first. The children of a line and
    /// its own bytes add up to it.
    #[must_use]
    pub fn lines(&self, layout: Layout) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        // The next one last.
        let mut pending = vec![Pending::Node { at: 0, depth: 0 }];
        while let Some(next) = pending.pop() {
            match next {
                Pending::Others { others, depth, held } => {
                    lines.push(Line { depth, chain: Vec::new(), others, held, own: held });
                }
                Pending::Node { at, depth } => {
                    let chain = self.chain(at, layout);
                    let last = chain.last().copied().unwrap_or(at);
                    self.push_children(&mut pending, last, depth + usize::from(at > 0), layout);
                    if at > 0 {
                        let Node { held, own, .. } = self.nodes[last];
                        let chain = chain.into_iter().map(|node| &self.nodes[node]).collect();
                        lines.push(Line { depth, chain, others: 0, held, own });
                    }
                }
            }
        }
        lines
    }

    /// The chain of single children that begins at a node, where chains are one line.
    fn chain(&self, at: usize, layout: Layout) -> Vec<usize> {
        let mut chain = vec![at];
        let mut last = at;
        while at > 0
            && layout.fold
            && let [only] = self.nodes[last].children[..]
            && self.nodes[last].own == Sides::default()
        {
            chain.push(only);
            last = only;
        }
        chain
    }

    /// Adds what comes below a node, the first of it last.
    fn push_children(&self, pending: &mut Vec<Pending>, node: usize, depth: usize, layout: Layout) {
        let mut children = self.nodes[node].children.clone();
        children.sort_by(|&one, &other| layout.order(&self.nodes[one], &self.nodes[other]));
        let most = if layout.top == 0 { usize::MAX } else { layout.top };
        let heaviest = children.iter().take(most);
        let large = heaviest.take_while(|&&at| layout.weight(&self.nodes[at]) >= u128::from(layout.least)).count();
        let rest = &children[large..];
        if !rest.is_empty() {
            let held = rest.iter().fold(Sides::default(), |sum: Sides<Held>, &at| sum.plus(self.nodes[at].held));
            pending.push(Pending::Others { others: rest.len(), depth, held });
        }
        pending.extend(children[..large].iter().rev().map(|&at| Pending::Node { at, depth }));
        let own = self.nodes[node].own;
        if !children.is_empty() && own != Sides::default() {
            pending.push(Pending::Others { others: 0, depth, held: own });
        }
    }
}

/// A part of the tree that has no line yet.
enum Pending {
    /// A node and everything below it.
    Node { at: usize, depth: usize },
    /// The line for siblings that are not listed, or for the own bytes of the frame above.
    Others { others: usize, depth: usize, held: Sides<Held> },
}

impl Layout {
    /// The bytes by which a node counts.
    fn weight(self, node: &Node) -> u128 {
        if self.changes { node.held.delta().unsigned_abs() } else { u128::from(node.held.after.bytes) }
    }

    /// The heavier node first.
    fn order(self, one: &Node, other: &Node) -> Ordering {
        let by_weight = self.weight(other).cmp(&self.weight(one));
        let by_size = other.held.after.bytes.cmp(&one.held.after.bytes);
        by_weight.then(by_size).then_with(|| one.frame.text().cmp(&other.frame.text()))
    }
}
