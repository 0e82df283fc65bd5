//! The call stack of a row before and after, as a unified diff.

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::snapshot::{FrameId, StackId};
use crate::stack::{Code, Token};
use crate::tree;

/// Frames that are shown around a change.
const CONTEXT: usize = 8;

/// Frames of one stack that are compared: the innermost ones.
const MOST_FRAMES: usize = 512;

/// A line of the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StackLine {
    /// `--- before` and its like.
    Head(String),
    /// The head of a part.
    Hunk(String),
    /// A frame on both sides.
    Context(String),
    /// A frame of the before alone.
    Removed(String),
    /// A frame of the after alone.
    Added(String),
}

impl StackLine {
    /// The sign that begins the line.
    pub(crate) fn sign(&self) -> &'static str {
        match self {
            Self::Head(_) | Self::Hunk(_) => "",
            Self::Context(_) => " ",
            Self::Removed(_) => "-",
            Self::Added(_) => "+",
        }
    }

    /// The rest of the line.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Head(text) | Self::Hunk(text) | Self::Context(text) | Self::Removed(text) | Self::Added(text) => text,
        }
    }
}

/// A frame of a stack, or an operation of its C++ frames.
#[derive(Debug, Clone)]
struct Step {
    identity: (Option<Token>, String),
    line: Option<u32>,
    text: String,
}

impl Step {
    /// A step that is no frame.
    fn named(text: &str) -> Self {
        Self { identity: (None, text.to_owned()), line: None, text: text.to_owned() }
    }

    /// A frame in Python.
    fn frame(code: &Code<'_>, frame: FrameId) -> Self {
        Self { identity: (Some(code.token(frame)), String::new()), line: code.line(frame), text: code.text(frame) }
    }
}

/// The steps from the outermost frame inwards, as in a traceback; none where there is no stack.
fn steps(side: Option<(&Code<'_>, StackId)>) -> Vec<Step> {
    let Some((code, stack)) = side else { return Vec::new() };
    let frames = code.shown_frames(stack);
    let mut steps: Vec<Step> = code.is_backward(stack).then(|| Step::named("backward")).into_iter().collect();
    steps.extend(frames.iter().take(MOST_FRAMES).rev().map(|&frame| Step::frame(code, frame)));
    steps.extend(code.operation_names(stack).iter().map(|name| Step::named(name)));
    steps
}

fn identities(steps: &[Step]) -> Vec<(Option<Token>, String)> {
    steps.iter().map(|step| step.identity.clone()).collect()
}

/// The frames of a stack as lines, the outermost first.
pub(super) fn frames(code: &Code<'_>, stack: StackId) -> Vec<StackLine> {
    tree::frames(code, stack).iter().map(|frame| StackLine::Context(frame.text())).collect()
}

/// The way from the stack of the before, if there is one, to that of the after. Frames that only moved to another
/// line are the same.
pub(super) fn lines(before: Option<(&Code<'_>, StackId)>, after: Option<(&Code<'_>, StackId)>) -> Vec<StackLine> {
    let old = steps(before);
    let new = steps(after);
    let ops = capture_diff_slices(Algorithm::Myers, &identities(&old), &identities(&new));
    if ops.iter().all(|op| matches!(op, DiffOp::Equal { .. })) {
        // The same functions on both sides: the whole stack says where that is.
        return ops.iter().flat_map(|op| lines_of(op, &old, &new)).collect();
    }
    let mut lines = vec![StackLine::Head("--- before".to_owned()), StackLine::Head("+++ after".to_owned())];
    for group in group_diff_ops(ops, CONTEXT) {
        lines.push(StackLine::Hunk("@@ … @@".to_owned()));
        lines.extend(group.iter().flat_map(|op| lines_of(op, &old, &new)));
    }
    lines
}

fn lines_of(op: &DiffOp, old: &[Step], new: &[Step]) -> Vec<StackLine> {
    let old = &old[op.old_range()];
    let new = &new[op.new_range()];
    if let DiffOp::Equal { .. } = op {
        return old.iter().zip(new).map(|(old, new)| StackLine::Context(moved(old, new))).collect();
    }
    let removed = old.iter().map(|step| StackLine::Removed(step.text.clone()));
    removed.chain(new.iter().map(|step| StackLine::Added(step.text.clone()))).collect()
}

/// A frame as in the after, and from which line it moved.
fn moved(old: &Step, new: &Step) -> String {
    match (old.line, new.line) {
        (Some(old), Some(line)) if old != line => format!("{}, was line {old}", new.text),
        _ => new.text.clone(),
    }
}
