//! How the stack of a row differs between before and after, as a unified diff.

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::snapshot::StackId;
use crate::stack::{Code, Token};

/// So many frames around a change are shown.
const CONTEXT: usize = 8;

/// More frames of one stack nobody reads.
const MOST_FRAMES: usize = 512;

/// A line of the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StackLine {
    /// `--- before` and its like.
    Head(String),
    /// Where a part begins.
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

/// The steps from the outermost frame inwards, as in a traceback.
fn steps(code: &Code<'_>, stack: StackId) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let words = |text: &str| Step { identity: (None, text.to_owned()), line: None, text: text.to_owned() };
    if code.is_backward(stack) {
        steps.push(words("backward"));
    }
    let telling = code.telling(stack);
    for &frame in telling.iter().take(MOST_FRAMES).rev() {
        steps.push(Step {
            identity: (Some(code.token(frame)), String::new()),
            line: code.line(frame),
            text: code.text(frame),
        });
    }
    steps.extend(code.operation_names(stack).iter().map(|name| words(name)));
    steps
}

/// How the stack of the before, if there is one, became that of the after. Frames that only moved to another
/// line are the same.
pub(super) fn lines(before: Option<(&Code<'_>, StackId)>, after: Option<(&Code<'_>, StackId)>) -> Vec<StackLine> {
    let side = |side: Option<(&Code<'_>, StackId)>| side.map(|(code, stack)| steps(code, stack)).unwrap_or_default();
    let (old, new) = (side(before), side(after));
    let identities = |steps: &[Step]| steps.iter().map(|step| step.identity.clone()).collect::<Vec<_>>();
    let ops = capture_diff_slices(Algorithm::Myers, &identities(&old), &identities(&new));
    let changed = ops.iter().any(|op| !matches!(op, DiffOp::Equal { .. }));
    let mut lines = Vec::new();
    if changed {
        lines.extend([StackLine::Head("--- before".to_owned()), StackLine::Head("+++ after".to_owned())]);
    }
    // The same functions on both sides: the whole stack says where that is.
    let groups = if changed { group_diff_ops(ops, CONTEXT) } else { vec![ops] };
    for group in groups {
        if let (true, Some(first), Some(last)) = (changed, group.first(), group.last()) {
            let range = |start: usize, end: usize| match end - start {
                // An empty range is named after the line before it.
                0 => format!("{start},0"),
                1 => format!("{}", start + 1),
                length => format!("{},{length}", start + 1),
            };
            let old = range(first.old_range().start, last.old_range().end);
            let new = range(first.new_range().start, last.new_range().end);
            lines.push(StackLine::Hunk(format!("@@ -{old} +{new} @@")));
        }
        for op in group {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                let pairs = old[old_index..old_index + len].iter().zip(&new[new_index..new_index + len]);
                lines.extend(pairs.map(|(old, new)| StackLine::Context(moved(old, new))));
            } else {
                lines.extend(old[op.old_range()].iter().map(|step| StackLine::Removed(step.text.clone())));
                lines.extend(new[op.new_range()].iter().map(|step| StackLine::Added(step.text.clone())));
            }
        }
    }
    lines
}

/// A frame as in the after, and from which line it moved.
fn moved(old: &Step, new: &Step) -> String {
    match (old.line, new.line) {
        (Some(old), Some(line)) if old != line => format!("{}, was line {old}", new.text),
        _ => new.text.clone(),
    }
}
