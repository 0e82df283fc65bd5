//! Puts stacks together to a tree.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use ptmem_base::pattern::{Naming, Pattern, Selector};
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::{DeviceProfile, GroupMember, Held, StackTotal};
use ptmem_trace::stack::{GroupBy, Owner, SnapshotCode, Token};

use super::{CallFrame, DEEPEST, Tree, TreeNode, TreeOptions};
use crate::diff::{DeviceDiff, Row, Sides};

/// The identity of a child among its siblings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ChildIdentity {
    /// A function, in one snapshot with its line.
    Function(Token, Option<u32>),
    Name(String),
}

pub(super) struct TreeStep {
    identity: ChildIdentity,
    pub(super) frame: CallFrame,
}

impl TreeStep {
    pub(super) fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { identity: ChildIdentity::Name(name.clone()), frame: CallFrame::named(name) }
    }
}

/// The tree of one device at the requested moment.
pub fn of_device(device: &DeviceProfile, by: GroupBy, code: &SnapshotCode<'_>, options: &TreeOptions) -> Tree {
    let is_of_modules = by == GroupBy::Module;
    let stacks = device.stacks.iter().flat_map(|total| total.members.iter().map(move |member| (total, member)));
    let label = options.focus.as_ref().map(|pattern| {
        Selector::new(pattern, stacks.map(|(total, member)| naming_of_member(pattern, total, member, code)))
    });
    let mut builder = TreeBuilder::new(options, label.filter(|label| label.is_literal() && !is_of_modules));
    for total in &device.stacks {
        let mut rest = total.at;
        for member in total.members.iter().filter(|_| !is_of_modules) {
            let held = Sides { before: Held::default(), after: member.at };
            builder.add(
                || steps(code, member.stack, options.internals, true),
                |pattern| naming_of_member(pattern, total, member, code),
                held,
            );
            rest = rest.less(member.at);
        }
        // Memory without a stack, or of a module within those that it is a part of.
        builder.add(
            || if is_of_modules { module_steps(&total.label) } else { vec![TreeStep::named(&*total.label)] },
            |pattern| pattern.naming(&total.label, NO_NAMES),
            Sides { before: Held::default(), after: rest },
        );
    }
    builder.finish()
}

fn module_steps(label: &str) -> Vec<TreeStep> {
    module_frames(label).into_iter().map(|frame| TreeStep::named(frame.name)).collect()
}

/// The modules that a module is part of, the outermost first, and the module itself.
pub fn module_frames(label: &str) -> Vec<CallFrame> {
    if label.starts_with(['<', '[']) {
        return vec![CallFrame::named(label)];
    }
    label.split('.').take(DEEPEST).map(CallFrame::named).collect()
}

/// The tree of a comparison. Functions are compared without their lines, which move.
pub fn of_diff(device: &DeviceDiff, by: GroupBy, codes: &Sides<SnapshotCode<'_>>, options: &TreeOptions) -> Tree {
    let label = options.focus.as_ref().map(|pattern| device.selector(pattern));
    let mut builder = TreeBuilder::new(options, label.filter(Selector::is_literal));
    let internals = options.internals;
    for row in &device.rows {
        let mut rest = row.held;
        for pair in row.members.iter().filter(|_| by != GroupBy::Module) {
            let held = pair.map(|member| member.map(|member| member.at).unwrap_or_default());
            let stacks = pair.map(|member| member.map(|member| member.stack));
            builder.add(|| steps_of_row(row, stacks, by, codes, internals), |pattern| row.naming(pattern), held);
            rest = rest.zip(held).map(|(rest, held)| rest.less(*held));
        }
        builder.add(|| steps_of_row(row, row.stack, by, codes, internals), |pattern| row.naming(pattern), rest);
    }
    builder.finish()
}

/// A stack of a row, as in the after if it exists there. One that is gone passes through the functions of the row as they are now, to
/// the line that the before had in the innermost one of the user.
fn steps_of_row(
    row: &Row,
    stacks: Sides<Option<StackId>>,
    by: GroupBy,
    codes: &Sides<SnapshotCode<'_>>,
    internals: bool,
) -> Vec<TreeStep> {
    if by == GroupBy::Module {
        return module_steps(&row.label);
    }
    match (stacks.after, stacks.before) {
        (Some(stack), _) => steps(&codes.after, stack, internals, false),
        (None, Some(stack)) => {
            let mut path = python_steps(&codes.before, stack, internals, false);
            if let Some(now) = row.stack.after.filter(|_| by == GroupBy::Stack) {
                let gone = std::mem::replace(&mut path, python_steps(&codes.after, now, internals, false));
                for (step, gone) in path.iter_mut().rev().zip(gone.iter().rev()) {
                    step.frame.line = gone.frame.line;
                    if step.frame.is_user {
                        break;
                    }
                }
            }
            with_operation(path, &codes.before, stack, internals)
        }
        (None, None) => vec![TreeStep::named(&*row.label)],
    }
}

/// The frames of a stack that say something, from the outermost inwards, the operation last; or also what is hidden
/// otherwise ([`TreeOptions::internals`]).
pub fn frames(code: &SnapshotCode<'_>, stack: StackId, internals: bool) -> Vec<CallFrame> {
    steps(code, stack, internals, true).into_iter().map(|step| step.frame).collect()
}

/// A stack from the outermost frame inwards. PyTorch's order of frames holds within a language only: C++ comes
/// below Python.
fn steps(code: &SnapshotCode<'_>, stack: StackId, internals: bool, lines: bool) -> Vec<TreeStep> {
    with_operation(python_steps(code, stack, internals, lines), code, stack, internals)
}

/// The frames of Python of a stack.
fn python_steps(code: &SnapshotCode<'_>, stack: StackId, internals: bool, lines: bool) -> Vec<TreeStep> {
    let mut python: Vec<FrameId> = if internals { code.python(stack).collect() } else { code.shown_frames(stack) };
    python.reverse();
    let mut steps: Vec<TreeStep> = Vec::new();
    if code.is_backward(stack) {
        steps.push(TreeStep::named("backward"));
    }
    steps.extend(python.into_iter().take(DEEPEST).map(|frame| {
        let line = code.line(frame);
        TreeStep {
            identity: ChildIdentity::Function(code.token(frame), line.filter(|_| lines)),
            frame: CallFrame {
                name: code.function(frame).to_owned(),
                path: Some(code.path(frame).to_owned()),
                line,
                is_user: code.owner(frame) == Owner::User,
            },
        }
    }));
    steps
}

/// The frames of Python of a stack, and those of C++ that say something.
fn with_operation(mut steps: Vec<TreeStep>, code: &SnapshotCode<'_>, stack: StackId, internals: bool) -> Vec<TreeStep> {
    let cpp = if internals { code.cpp_names(stack) } else { code.operation_names(stack) };
    steps.extend(cpp.into_iter().map(TreeStep::named));
    if steps.is_empty() {
        steps.push(TreeStep::named(code.label(stack)));
    }
    steps
}

/// Names that there are not.
const NO_NAMES: [&str; 0] = [];

/// The way in which a pattern names a single stack: as the group that it is in, or as the line that it is.
fn naming_of_member(
    pattern: &Pattern,
    total: &StackTotal,
    member: &GroupMember,
    code: &SnapshotCode<'_>,
) -> Option<Naming> {
    pattern.naming(&total.label, std::iter::once_with(|| code.label(member.stack)))
}

/// Frames of stacks without a match that are remembered, to name those that are nearest to a pattern.
const MOST_MISSED: usize = 1_000;

/// Nodes of a tree. Distinct stacks of a small file can have millions; those with most memory come first.
pub(super) const MOST_NODES: usize = 50_000;

pub(super) struct TreeBuilder<'o> {
    options: &'o TreeOptions,
    /// The label that is searched for, where it is one.
    label: Option<Selector<'o>>,
    tree: Tree,
    children: HashMap<(usize, ChildIdentity), usize>,
    /// Frames that the pattern did not match, as long as it matched none.
    missed: BTreeSet<String>,
}

impl<'o> TreeBuilder<'o> {
    pub(super) fn new(options: &'o TreeOptions, label: Option<Selector<'o>>) -> Self {
        let root = TreeNode::new(CallFrame::named(""));
        let tree = Tree { nodes: vec![root], total: Sides::default(), near: String::new() };
        Self { options, label, tree, children: HashMap::new(), missed: BTreeSet::new() }
    }

    /// Adds what a stack holds at the end of its path. `naming` is the way in which a pattern names the stack.
    pub(super) fn add(
        &mut self,
        path: impl FnOnce() -> Vec<TreeStep>,
        naming: impl FnOnce(&Pattern) -> Option<Naming>,
        held: Sides<Held>,
    ) {
        if held.before.blocks == 0 && held.after.blocks == 0 {
            return;
        }
        self.tree.total = self.tree.total.plus(held);
        let mut path = path();
        let is_named = self.label.is_some_and(|label| label.selects(naming(label.pattern)));
        let is_found = match &self.label {
            Some(_) => is_named,
            None => self.options.focus.is_none() || path.iter().any(|step| self.is_match(step)),
        };
        if !is_found {
            return self.miss(&path);
        }
        path.truncate(self.options.depth.unwrap_or(DEEPEST).min(DEEPEST));
        let mut at = 0;
        self.tree.nodes[at].held = self.tree.nodes[at].held.plus(held);
        for step in path {
            let marked = self.is_match(&step);
            let nodes = &mut self.tree.nodes;
            let has_room = nodes.len() < MOST_NODES;
            let child = match self.children.entry((at, step.identity)) {
                Entry::Occupied(known) => *known.get(),
                // It counts for its caller, as what is too deep does.
                Entry::Vacant(_) if !has_room && at > 0 => break,
                Entry::Vacant(vacant) => {
                    nodes.push(TreeNode { marked, ..TreeNode::new(step.frame.clone()) });
                    let child = *vacant.insert(nodes.len() - 1);
                    nodes[at].children.push(child);
                    child
                }
            };
            if nodes[child].frame.line != step.frame.line {
                nodes[child].frame.line = None;
            }
            at = child;
            nodes[at].held = nodes[at].held.plus(held);
        }
        self.tree.nodes[at].marked |= is_named;
        self.tree.nodes[at].own = self.tree.nodes[at].own.plus(held);
    }

    /// Whether a frame is one that is searched for.
    fn is_match(&self, step: &TreeStep) -> bool {
        self.label.is_none() && self.options.focus.as_ref().is_some_and(|pattern| step.frame.matches(pattern))
    }

    /// Remembers the frames of a stack that is left out.
    fn miss(&mut self, path: &[TreeStep]) {
        let nothing_matched = self.tree.nodes.len() == 1;
        for step in path.iter().filter(|_| nothing_matched) {
            if self.missed.len() == MOST_MISSED {
                return;
            }
            self.missed.insert(step.frame.text());
        }
    }

    pub(super) fn finish(mut self) -> Tree {
        if let (Some(pattern), 1) = (&self.options.focus, self.tree.nodes.len()) {
            self.tree.near = pattern.unmatched("frame", self.missed.iter().map(String::as_str));
        }
        self.tree
    }
}
