//! The call tree: who holds the memory, rolled up on every frame from the outermost inwards.
//!
//! Nothing here recurses: stacks may be as deep as a hostile file makes them.

mod build;

use std::cmp::Ordering;

use ptmem_base::pattern::Pattern;
use ptmem_trace::profile::Held;

use crate::diff::Sides;
pub use build::{frames, module_frames, of_device, of_diff};

/// The parts of stacks that make the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeOptions {
    /// Show frames that are hidden otherwise: those that only pass calls on, and all C++ frames.
    pub internals: bool,
    /// Only stacks of this label, otherwise those with a matching frame.
    pub focus: Option<Pattern>,
    /// The most levels; deeper frames are in their parent.
    pub depth: Option<usize>,
}

/// No tree is deeper.
pub const DEEPEST: usize = 256;

/// A call tree.
#[derive(Debug)]
pub struct Tree {
    /// The first contains everything.
    nodes: Vec<TreeNode>,
    /// Bytes of all stacks, those left out included.
    pub total: Sides<Held>,
    /// `; the nearest frames are …`, where a pattern matches none.
    pub near: String,
}

/// A frame within its callers.
#[derive(Debug, Clone)]
pub struct TreeNode {
    /// Children by index, unsorted.
    children: Vec<usize>,
    /// The frame of the node.
    pub frame: CallFrame,
    /// Held by its own allocations and by those of its callees.
    pub held: Sides<Held>,
    /// Held by its own allocations.
    pub own: Sides<Held>,
    /// True if [`TreeOptions::focus`] matches it.
    pub marked: bool,
}

/// A frame of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallFrame {
    /// Function, operator, or the name of memory without a stack.
    pub name: String,
    /// File, for frames in Python.
    pub path: Option<String>,
    /// Line, where all stacks below agree on it.
    pub line: Option<u32>,
    /// True if it is the user's code.
    pub is_user: bool,
}

impl TreeNode {
    fn new(frame: CallFrame) -> Self {
        let held = Sides::default();
        Self { children: Vec::new(), frame, held, own: held, marked: false }
    }
}

impl CallFrame {
    /// A frame that is not a place in a file.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), path: None, line: None, is_user: false }
    }

    /// `function (path:line)`, or the name.
    pub fn text(&self) -> String {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => format!("{} ({path}:{line})", self.name),
            (Some(path), None) => format!("{} ({path})", self.name),
            (None, _) => self.name.clone(),
        }
    }

    fn matches(&self, pattern: &Pattern) -> bool {
        let path = self.path.as_deref().is_some_and(|path| pattern.matches(path));
        path || pattern.matches(&self.name) || pattern.matches(&self.text())
    }
}

/// A line of the tree.
#[derive(Debug, Clone)]
pub struct TreeLine<'t> {
    /// Its distance from the root, in lines.
    pub depth: usize,
    /// A frame with those that it calls and that nothing else comes between, outermost first; or none, where
    /// the line sums smaller ones.
    pub chain: Vec<&'t TreeNode>,
    /// Without a chain, the number of siblings that it sums; 0 for the memory of the frame above itself, beside
    /// its callees.
    pub others: usize,
    /// Memory that is held there and below.
    pub held: Sides<Held>,
}

/// Rules by which a tree becomes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLayout {
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
    pub fn held(&self) -> Sides<Held> {
        self.nodes.first().map_or(self.total, |root| root.held)
    }

    /// The lines of the tree, each frame before those that it calls, the heaviest first. The children of a line and
    /// its own bytes add up to it.
    pub fn lines(&self, layout: TreeLayout) -> Vec<TreeLine<'_>> {
        let mut lines = Vec::new();
        let weights = self.weights(layout);
        // The next one last.
        let mut pending = vec![Pending::Node { at: 0, depth: 0 }];
        while let Some(next) = pending.pop() {
            match next {
                Pending::Line(line) => lines.push(line),
                Pending::Node { at, depth } => {
                    let chain = self.chain(at, layout);
                    let last = chain.last().copied().unwrap_or(at);
                    self.push_children(&mut pending, last, depth + usize::from(at > 0), layout, &weights);
                    if at > 0 {
                        let TreeNode { held, .. } = self.nodes[last];
                        let chain = chain.into_iter().map(|node| &self.nodes[node]).collect();
                        lines.push(TreeLine { depth, chain, others: 0, held });
                    }
                }
            }
        }
        lines
    }

    /// The most bytes by which each node counts, or one below it: growth may be as large there as shrinkage.
    fn weights(&self, layout: TreeLayout) -> Vec<u128> {
        let mut weights: Vec<u128> = self.nodes.iter().map(|node| layout.weight(node)).collect();
        // Nodes come after their callers.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let below = node.children.iter().map(|&child| weights[child]).max();
            weights[at] = weights[at].max(below.unwrap_or(0));
        }
        weights
    }

    /// The chain of single children that begins at a node, where chains are one line.
    fn chain(&self, at: usize, layout: TreeLayout) -> Vec<usize> {
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
    fn push_children(
        &self,
        pending: &mut Vec<Pending<'_>>,
        node: usize,
        depth: usize,
        layout: TreeLayout,
        weights: &[u128],
    ) {
        let mut children = self.nodes[node].children.clone();
        let has_children = !children.is_empty();
        children.sort_by(|&one, &other| layout.order(&self.nodes[one], &self.nodes[other]));
        let most = if layout.top == 0 { usize::MAX } else { layout.top };
        let small = children.extract_if(.., |at| weights[*at] < u128::from(layout.least)).collect::<Vec<_>>();
        let rest = [children.split_off(children.len().min(most)), small].concat();
        if !rest.is_empty() {
            let held = rest.iter().fold(Sides::default(), |sum: Sides<Held>, &at| sum.plus(self.nodes[at].held));
            pending.push(Pending::Line(TreeLine { depth, chain: Vec::new(), others: rest.len(), held }));
        }
        pending.extend(children.iter().rev().map(|&at| Pending::Node { at, depth }));
        let own = self.nodes[node].own;
        if has_children && own != Sides::default() {
            pending.push(Pending::Line(TreeLine { depth, chain: Vec::new(), others: 0, held: own }));
        }
    }
}

/// A part of the tree that has no line yet.
enum Pending<'t> {
    /// A node and everything below it.
    Node { at: usize, depth: usize },
    /// The line for siblings that are not listed, or for the own bytes of the frame above.
    Line(TreeLine<'t>),
}

impl TreeLayout {
    /// The bytes by which a node counts.
    fn weight(self, node: &TreeNode) -> u128 {
        if self.changes { node.held.delta().unsigned_abs() } else { u128::from(node.held.after.bytes) }
    }

    /// The heavier node first.
    fn order(self, one: &TreeNode, other: &TreeNode) -> Ordering {
        let by_weight = self.weight(other).cmp(&self.weight(one));
        let by_size = other.held.after.bytes.cmp(&one.held.after.bytes);
        by_weight.then(by_size).then_with(|| one.frame.text().cmp(&other.frame.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::build::{TreeBuilder, TreeStep};
    use super::*;

    fn step(name: &str) -> TreeStep {
        TreeStep::named(name)
    }

    fn held(bytes: u64) -> Sides<Held> {
        Sides { before: Held::default(), after: Held { bytes, blocks: 1 } }
    }

    fn tree(options: &TreeOptions, stacks: &[(&[&str], u64)]) -> Tree {
        let mut builder = TreeBuilder::new(options, None);
        for (path, bytes) in stacks {
            builder.add(|| path.iter().map(|name| step(name)).collect(), |_| None, held(*bytes));
        }
        builder.finish()
    }

    const ALL: TreeLayout = TreeLayout { top: 0, least: 0, changes: false, fold: false };

    fn text(line: &TreeLine<'_>) -> String {
        let names: Vec<_> = line.chain.iter().map(|node| node.frame.text()).collect();
        if names.is_empty() { format!("[{}]", line.others) } else { names.join(">") }
    }

    fn texts(tree: &Tree, layout: TreeLayout) -> Vec<(usize, String, u64)> {
        tree.lines(layout).iter().map(|line| (line.depth, text(line), line.held.after.bytes)).collect()
    }

    const STACKS: [(&[&str], u64); 4] = [
        (&["main", "train", "forward"], 50),
        (&["main", "train", "loss"], 30),
        (&["main", "train"], 4),
        (&["data"], 16),
    ];

    #[test]
    fn totals_are_rolled_up_on_every_frame() {
        let tree = tree(&TreeOptions::default(), &STACKS);
        let expected = [
            (0, "main", 84),
            (1, "train", 84),
            // Its own memory is a line beside those of its callees.
            (2, "[0]", 4),
            (2, "forward", 50),
            (2, "loss", 30),
            (0, "data", 16),
        ];
        assert_eq!(texts(&tree, ALL), expected.map(|(depth, text, bytes)| (depth, text.to_owned(), bytes)));
        assert_eq!(tree.held().after, Held { bytes: 100, blocks: 4 });
    }

    #[test]
    fn chains_are_folded_and_small_ones_summed() {
        let tree = tree(&TreeOptions::default(), &STACKS);
        let lines = texts(&tree, TreeLayout { top: 1, least: 0, changes: false, fold: true });
        let texts: Vec<_> = lines.iter().map(|(depth, text, bytes)| format!("{depth} {text} {bytes}")).collect();
        assert_eq!(texts, ["0 main>train 84", "1 [0] 4", "1 forward 50", "1 [1] 30", "0 [1] 16"]);
        let lines = tree.lines(TreeLayout { least: 40, ..ALL });
        assert_eq!(lines.iter().filter(|line| line.chain.is_empty()).count(), 3);
    }

    #[test]
    fn what_grew_and_shrank_below_a_frame_is_listed() {
        let options = TreeOptions::default();
        let mut builder = TreeBuilder::new(&options, None);
        for (name, sizes) in [("encode", [64, 32]), ("decode", [32, 64]), ("loss", [8, 8])] {
            let [before, after] = sizes.map(|bytes| Held { bytes, blocks: 1 });
            builder.add(|| vec![step("main"), step(name)], |_| None, Sides { before, after });
        }
        let tree = builder.finish();
        let lines = tree.lines(TreeLayout { top: 0, least: 1, changes: true, fold: true });
        let texts: Vec<_> = lines.iter().map(|line| format!("{} {}", text(line), line.held.delta())).collect();
        assert_eq!(texts, ["main 0", "decode 32", "encode -32", "[1] 0"]);
    }

    fn pattern(text: &str) -> Option<Pattern> {
        Some(Pattern::search(text).unwrap())
    }

    #[test]
    fn patterns_choose_the_stacks() {
        let focus = tree(&TreeOptions { focus: pattern("loss"), ..TreeOptions::default() }, &STACKS);
        assert_eq!((focus.held().after.bytes, focus.total.after.bytes), (30, 100));
        assert_eq!(texts(&focus, ALL)[0].1, "main");
        assert_eq!(focus.lines(ALL).iter().filter(|line| line.chain.iter().any(|node| node.marked)).count(), 1);
        let none = tree(&TreeOptions { focus: pattern("nothing"), ..TreeOptions::default() }, &STACKS);
        assert!(none.lines(ALL).is_empty());
    }

    #[test]
    fn what_is_deeper_counts_for_the_frame_above() {
        let flat = tree(&TreeOptions { depth: Some(1), ..TreeOptions::default() }, &STACKS);
        assert_eq!(texts(&flat, ALL), [(0, "main".to_owned(), 84), (0, "data".to_owned(), 16)]);
        let names: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        let deep: Vec<&str> = names.iter().map(String::as_str).collect();
        let tree = tree(&TreeOptions::default(), &[(&deep, 7)]);
        assert_eq!(tree.lines(ALL).len(), DEEPEST);
        assert!(tree.lines(ALL).iter().all(|line| line.held.after.bytes == 7));
    }

    /// A small file can have many stacks of distinct frames.
    #[test]
    fn what_has_no_room_counts_for_its_caller() {
        let options = TreeOptions::default();
        let mut builder = TreeBuilder::new(&options, None);
        for stack in 0..300 {
            builder.add(
                || (0..DEEPEST).map(|at| TreeStep::named(format!("{stack}-{at}"))).collect(),
                |_| None,
                held(7),
            );
        }
        let tree = builder.finish();
        assert!(tree.nodes.len() <= build::MOST_NODES + 300, "{}", tree.nodes.len());
        assert_eq!(tree.held().after, Held { bytes: 2100, blocks: 300 });
        assert_eq!(tree.nodes.iter().map(|node| node.own.after.bytes).sum::<u64>(), 2100);
    }

    #[test]
    fn a_line_stands_where_all_agree_on_it() {
        let options = TreeOptions { internals: false, focus: None, depth: None };
        let mut builder = TreeBuilder::new(&options, None);
        for line in [7, 8] {
            let mut step = step("forward");
            (step.frame.path, step.frame.line) = (Some("model.py".to_owned()), Some(line));
            builder.add(|| vec![step], |_| None, held(1));
        }
        assert_eq!(builder.finish().lines(ALL)[0].chain[0].frame.text(), "forward (model.py)");
    }
}
