//! The call tree: who holds the memory, rolled up on every frame from the outermost inwards.
//!
//! Nothing here recurses: stacks may be as deep as a hostile file makes them.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use crate::diff::{DeviceDiff, Row, Sides};
use crate::pattern::{Naming, Pattern, Selector};
use crate::profile::{DeviceProfile, Held, Member, StackTotal};
use crate::snapshot::{FrameId, StackId};
use crate::stack::{Code, Owner, Token};

/// The parts of stacks that make the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Also what is hidden otherwise: frames that only pass calls on, and every C++ frame.
    pub internals: bool,
    /// Only stacks with a matching frame, which becomes the root.
    pub focus: Option<Pattern>,
    /// Only stacks of this label, else those with a matching frame.
    pub grep: Option<Pattern>,
    /// The most levels; deeper frames are in their parent.
    pub depth: Option<usize>,
}

/// No tree is deeper.
pub const DEEPEST: usize = 256;

/// A call tree.
#[derive(Debug)]
pub struct Tree {
    /// Parents come before their children.
    nodes: Vec<Node>,
    /// Bytes of all stacks, those left out included.
    pub total: Sides<Held>,
    /// `; the nearest frames are …`, where a pattern matches none.
    pub near: String,
}

/// A frame within its callers.
#[derive(Debug, Clone)]
pub struct Node {
    /// Index of the caller; `None` for the root, which stands for everything.
    parent: Option<usize>,
    /// Children by index, unsorted.
    children: Vec<usize>,
    /// The frame of the node.
    pub frame: Frame,
    /// Held by its own allocations and by those of its callees.
    pub held: Sides<Held>,
    /// Held by its own allocations.
    pub own: Sides<Held>,
    /// True if [`Options::grep`] matches it.
    pub marked: bool,
}

/// A frame as it stands in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function, operator, or the name of memory without a stack.
    pub name: String,
    /// File, for frames in Python.
    pub path: Option<String>,
    /// Line, where all stacks below agree on it.
    pub line: Option<u32>,
    /// True if it is the user's code.
    pub is_user: bool,
}

impl Frame {
    /// A frame that is no place in a file.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), path: None, line: None, is_user: false }
    }

    /// `function (path:line)`, or the name.
    #[must_use]
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

/// The identity of a child among its siblings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// A function, in one snapshot with its line.
    Function(Token, Option<u32>),
    Name(String),
}

struct Step {
    identity: Identity,
    frame: Frame,
}

impl Step {
    fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { identity: Identity::Name(name.clone()), frame: Frame::named(name) }
    }
}

/// The tree of one device at the moment that was asked for.
#[must_use]
pub fn of_device(device: &DeviceProfile, code: &Code<'_>, options: &Options) -> Tree {
    let stacks = device.stacks.iter().flat_map(|total| total.members.iter().map(move |member| (total, member)));
    let label = options.grep.as_ref().map(|pattern| {
        Selector::new(pattern, stacks.map(|(total, member)| naming_of_member(pattern, total, member, code)))
    });
    let mut builder = Builder::new(options, label.filter(Selector::is_literal));
    for total in &device.stacks {
        let mut rest = total.at;
        for member in &total.members {
            let held = Sides { before: Held::default(), after: member.at };
            builder.add(
                || steps(code, member.stack, options.internals, true),
                |pattern| naming_of_member(pattern, total, member, code),
                held,
            );
            rest.bytes = rest.bytes.saturating_sub(member.at.bytes);
            rest.blocks = rest.blocks.saturating_sub(member.at.blocks);
        }
        // Memory without a stack.
        builder.add(
            || vec![Step::named(&*total.label)],
            |pattern| pattern.naming(&total.label, NO_NAMES),
            Sides { before: Held::default(), after: rest },
        );
    }
    builder.finish()
}

/// Names that there are not.
const NO_NAMES: [&str; 0] = [];

/// The way in which a pattern names a single stack: as the group that it is in, or as the line that it is.
fn naming_of_member(pattern: &Pattern, total: &StackTotal, member: &Member, code: &Code<'_>) -> Option<Naming> {
    pattern.naming(&total.label, std::iter::once_with(|| code.label(member.stack)))
}

/// The tree of a comparison. Functions are told apart without their lines, which move.
#[must_use]
pub fn of_diff(device: &DeviceDiff, codes: &Sides<Code<'_>>, options: &Options) -> Tree {
    let label = options.grep.as_ref().map(|pattern| device.selector(pattern));
    let mut builder = Builder::new(options, label.filter(Selector::is_literal));
    for row in &device.rows {
        builder.add(|| steps_of_row(row, codes, options.internals), |pattern| row.naming(pattern), row.held);
    }
    builder.finish()
}

/// The stack of a row, as in the after where it exists there.
fn steps_of_row(row: &Row, codes: &Sides<Code<'_>>, internals: bool) -> Vec<Step> {
    match (row.stack.after, row.stack.before) {
        (Some(stack), _) => steps(&codes.after, stack, internals, false),
        (None, Some(stack)) => steps(&codes.before, stack, internals, false),
        (None, None) => vec![Step::named(&*row.label)],
    }
}

/// The frames of a stack that say something, from the outermost inwards, the operation last.
#[must_use]
pub fn frames(code: &Code<'_>, stack: StackId) -> Vec<Frame> {
    frames_with(code, stack, false)
}

/// The same, also with what is hidden otherwise ([`Options::internals`]).
pub(crate) fn frames_with(code: &Code<'_>, stack: StackId, internals: bool) -> Vec<Frame> {
    steps(code, stack, internals, true).into_iter().map(|step| step.frame).collect()
}

/// A stack from the outermost frame inwards. PyTorch's order of frames holds within a language only: C++ comes
/// below Python.
fn steps(code: &Code<'_>, stack: StackId, internals: bool, lines: bool) -> Vec<Step> {
    let mut python: Vec<FrameId> = if internals { code.python(stack).collect() } else { code.shown_frames(stack) };
    python.reverse();
    let mut steps: Vec<Step> = Vec::new();
    if code.is_backward(stack) {
        steps.push(Step::named("backward"));
    }
    steps.extend(python.into_iter().take(DEEPEST).map(|frame| {
        let line = code.line(frame);
        Step {
            identity: Identity::Function(code.token(frame), line.filter(|_| lines)),
            frame: Frame {
                name: code.function(frame).to_owned(),
                path: Some(code.path(frame).to_owned()),
                line,
                is_user: code.owner(frame) == Owner::User,
            },
        }
    }));
    let cpp = if internals { code.cpp_names(stack) } else { code.operation_names(stack) };
    steps.extend(cpp.into_iter().map(Step::named));
    if steps.is_empty() {
        steps.push(Step::named(code.label(stack)));
    }
    steps
}

/// Frames of stacks without a match that are remembered, to name those that are nearest to a pattern.
const MOST_MISSED: usize = 1_000;

struct Builder<'o> {
    options: &'o Options,
    /// The label that is searched for, where it is one.
    label: Option<Selector<'o>>,
    tree: Tree,
    children: HashMap<(usize, Identity), usize>,
    /// Frames that the pattern did not match, as long as it matched none.
    missed: BTreeSet<String>,
}

impl<'o> Builder<'o> {
    fn new(options: &'o Options, label: Option<Selector<'o>>) -> Self {
        let nothing = Sides::<Held>::default();
        let frame = Frame::named("");
        let root = Node { parent: None, children: Vec::new(), frame, held: nothing, own: nothing, marked: false };
        let tree = Tree { nodes: vec![root], total: nothing, near: String::new() };
        Self { options, label, tree, children: HashMap::new(), missed: BTreeSet::new() }
    }

    /// Adds what a stack holds at the end of its path. `naming` tells how a pattern names the stack.
    fn add(
        &mut self,
        path: impl FnOnce() -> Vec<Step>,
        naming: impl FnOnce(&Pattern) -> Option<Naming>,
        held: Sides<Held>,
    ) {
        if held.before.blocks == 0 && held.after.blocks == 0 {
            return;
        }
        self.tree.total = self.tree.total.plus(held);
        let mut path = path();
        if let Some(pattern) = &self.options.focus {
            let Some(at) = path.iter().position(|step| step.frame.matches(pattern)) else { return self.miss(&path) };
            path.drain(..at);
        }
        let is_named = self.label.is_some_and(|label| label.selects(naming(label.pattern)));
        let is_found = match &self.label {
            Some(_) => is_named,
            None => self.options.grep.is_none() || path.iter().any(|step| self.is_match(step)),
        };
        if !is_found {
            return self.miss(&path);
        }
        path.truncate(self.options.depth.unwrap_or(DEEPEST).min(DEEPEST));
        let mut at = 0;
        for step in path {
            let marked = self.is_match(&step);
            let nodes = &mut self.tree.nodes;
            let child = *self.children.entry((at, step.identity)).or_insert_with(|| {
                let nothing = Sides::<Held>::default();
                let frame = step.frame.clone();
                nodes.push(Node { parent: Some(at), children: Vec::new(), frame, held: nothing, own: nothing, marked });
                let child = nodes.len() - 1;
                nodes[at].children.push(child);
                child
            });
            if nodes[child].frame.line != step.frame.line {
                nodes[child].frame.line = None;
            }
            at = child;
        }
        self.tree.nodes[at].marked |= is_named;
        self.tree.nodes[at].own = self.tree.nodes[at].own.plus(held);
    }

    /// Whether a frame is one that is searched for.
    fn is_match(&self, step: &Step) -> bool {
        self.label.is_none() && self.options.grep.as_ref().is_some_and(|pattern| step.frame.matches(pattern))
    }

    /// Remembers the frames of a stack that is left out.
    fn miss(&mut self, path: &[Step]) {
        let nothing_matched = self.tree.nodes.len() == 1;
        for step in path.iter().filter(|_| nothing_matched) {
            if self.missed.len() == MOST_MISSED {
                return;
            }
            self.missed.insert(step.frame.text());
        }
    }

    /// Rolls up: children come after their parents.
    fn finish(mut self) -> Tree {
        for at in (0..self.tree.nodes.len()).rev() {
            let own = self.tree.nodes[at].own;
            self.tree.nodes[at].held = self.tree.nodes[at].held.plus(own);
            let held = self.tree.nodes[at].held;
            if let Some(parent) = self.tree.nodes[at].parent {
                self.tree.nodes[parent].held = self.tree.nodes[parent].held.plus(held);
            }
        }
        let pattern = self.options.focus.as_ref().or(self.options.grep.as_ref());
        if let (Some(pattern), 1) = (pattern, self.tree.nodes.len()) {
            self.tree.near = pattern.unmatched("frame", self.missed.iter().map(String::as_str));
        }
        self.tree
    }
}

/// A line of the tree.
#[derive(Debug, Clone)]
pub struct Line<'t> {
    /// How far it is from the root, in lines.
    pub depth: usize,
    /// A frame with those that it calls and that nothing else comes between, outermost first; or none, where
    /// the line stands for smaller ones.
    pub chain: Vec<&'t Node>,
    /// Without a chain, how many siblings it stands for; 0 where it is what the frame above holds itself, beside
    /// what it calls.
    pub others: usize,
    /// Memory that is held there and below.
    pub held: Sides<Held>,
    /// Memory that is held there itself.
    pub own: Sides<Held>,
}

/// How a tree becomes lines.
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
                    let last = self.end_of_chain(at, layout);
                    let below = if at == 0 { depth } else { depth + 1 };
                    if at > 0 {
                        let Node { held, own, .. } = self.nodes[last];
                        lines.push(Line { depth, chain: self.chain(at, last), others: 0, held, own });
                    }
                    self.push_children(&mut pending, last, below, layout);
                }
            }
        }
        lines
    }

    /// The last node of the chain of single children that begins at a node, where chains are one line.
    fn end_of_chain(&self, at: usize, layout: Layout) -> usize {
        let mut last = at;
        while at > 0
            && layout.fold
            && let [only] = self.nodes[last].children[..]
            && self.nodes[last].own == Sides::default()
        {
            last = only;
        }
        last
    }

    /// The nodes from one down to another, of which each but the last has a single child.
    fn chain(&self, from: usize, last: usize) -> Vec<&Node> {
        let mut chain = vec![&self.nodes[from]];
        let mut at = from;
        while at != last {
            at = self.nodes[at].children[0];
            chain.push(&self.nodes[at]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> Step {
        Step::named(name)
    }

    fn held(bytes: u64) -> Sides<Held> {
        Sides { before: Held::default(), after: Held { bytes, blocks: 1 } }
    }

    fn tree(options: &Options, stacks: &[(&[&str], u64)]) -> Tree {
        let mut builder = Builder::new(options, None);
        for (path, bytes) in stacks {
            builder.add(|| path.iter().map(|name| step(name)).collect(), |_| None, held(*bytes));
        }
        builder.finish()
    }

    const ALL: Layout = Layout { top: 0, least: 0, changes: false, fold: false };

    fn text(line: &Line<'_>) -> String {
        let names: Vec<_> = line.chain.iter().map(|node| node.frame.text()).collect();
        if names.is_empty() { format!("[{}]", line.others) } else { names.join(">") }
    }

    fn texts(tree: &Tree, layout: Layout) -> Vec<(usize, String, u64)> {
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
        let tree = tree(&Options::default(), &STACKS);
        let expected = [
            (0, "main", 84),
            (1, "train", 84),
            // Memory that it holds itself stands beside that of its callees.
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
        let tree = tree(&Options::default(), &STACKS);
        let lines = texts(&tree, Layout { top: 1, least: 0, changes: false, fold: true });
        let texts: Vec<_> = lines.iter().map(|(depth, text, bytes)| format!("{depth} {text} {bytes}")).collect();
        assert_eq!(texts, ["0 main>train 84", "1 [0] 4", "1 forward 50", "1 [1] 30", "0 [1] 16"]);
        let lines = tree.lines(Layout { least: 40, ..ALL });
        assert_eq!(lines.iter().filter(|line| line.chain.is_empty()).count(), 3);
    }

    fn pattern(text: &str) -> Option<Pattern> {
        Some(Pattern::search(text).unwrap())
    }

    #[test]
    fn patterns_choose_the_stacks() {
        let focus = tree(&Options { focus: pattern("train"), ..Options::default() }, &STACKS);
        assert_eq!(texts(&focus, ALL)[0], (0, "train".to_owned(), 84));
        assert_eq!(focus.total.after.bytes, 100);
        let grep = tree(&Options { grep: pattern("loss"), ..Options::default() }, &STACKS);
        assert_eq!(grep.held().after.bytes, 30);
        assert_eq!(grep.lines(ALL).iter().filter(|line| line.chain.iter().any(|node| node.marked)).count(), 1);
        let none = tree(&Options { grep: pattern("nothing"), ..Options::default() }, &STACKS);
        assert!(none.lines(ALL).is_empty());
    }

    #[test]
    fn what_is_deeper_counts_for_the_frame_above() {
        let flat = tree(&Options { depth: Some(1), ..Options::default() }, &STACKS);
        assert_eq!(texts(&flat, ALL), [(0, "main".to_owned(), 84), (0, "data".to_owned(), 16)]);
        let names: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        let deep: Vec<&str> = names.iter().map(String::as_str).collect();
        let tree = tree(&Options::default(), &[(&deep, 7)]);
        assert_eq!(tree.lines(ALL).len(), DEEPEST);
        assert!(tree.lines(ALL).iter().all(|line| line.held.after.bytes == 7));
    }

    #[test]
    fn a_line_stands_where_all_agree_on_it() {
        let options = Options { internals: false, focus: None, grep: None, depth: None };
        let mut builder = Builder::new(&options, None);
        for line in [7, 8] {
            let mut step = step("forward");
            (step.frame.path, step.frame.line) = (Some("model.py".to_owned()), Some(line));
            builder.add(|| vec![step], |_| None, held(1));
        }
        assert_eq!(builder.finish().lines(ALL)[0].chain[0].frame.text(), "forward (model.py)");
    }
}
