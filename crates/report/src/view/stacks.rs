//! The call stacks of rows: the frames of one side, or how they changed, as a unified diff.

use ptmem_base::difference::difference;
use ptmem_base::sides::Sides;
use ptmem_base::text::thousands;
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::stack::{SnapshotCode, Token};
use similar::{ChangeTag, DiffOp, group_diff_ops};

use super::{RowOfCells, Value};
use crate::RenderOptions;
use crate::source::Site;

/// Frames that are shown around a change.
const CONTEXT: usize = 8;

/// Frames of one stack that are shown: the innermost ones.
const MOST_FRAMES_OF_STACK: usize = 512;

/// Frames of all rows of a table: a report that lists every row may have millions, for which no reader has room.
const MOST_FRAMES: usize = 100_000;

/// The same on a page, which is sent by mail.
const MOST_FRAMES_OF_PAGE: usize = 4_000;

/// Lines of one row that are listed.
const MOST_SUMMED: usize = 10;

/// A line of a call stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackLine {
    /// The sides that have it; none for the head of the diff or of a part of it.
    pub(crate) tag: Option<ChangeTag>,
    /// Its text.
    pub(crate) text: String,
}

impl StackLine {
    fn new(tag: ChangeTag, text: String) -> Self {
        Self { tag: Some(tag), text }
    }

    fn head(text: &str) -> Self {
        Self { tag: None, text: text.to_owned() }
    }

    /// The sign of the sides that have it.
    pub(crate) fn sign(&self) -> String {
        self.tag.map_or(String::new(), |tag| tag.to_string())
    }
}

/// The frames of the rows of a table, as far as there is room for them.
pub(super) struct RowFrames<'a> {
    options: &'a RenderOptions,
    /// The number of further frames and rows that have room.
    frames: usize,
    pub(super) rows: usize,
    /// The number of rows whose frames have none.
    pub(super) more: usize,
}

impl<'a> RowFrames<'a> {
    pub(super) fn new(options: &'a RenderOptions) -> Self {
        let frames = if options.pictures { MOST_FRAMES_OF_PAGE } else { MOST_FRAMES };
        Self { options, frames, rows: usize::MAX, more: 0 }
    }

    /// A row with its frames, and with the lines that it sums.
    pub(super) fn row(
        &mut self,
        row: RowOfCells,
        frames: impl FnOnce() -> Vec<StackLine>,
        summed: impl FnOnce() -> Vec<[Value; 2]>,
    ) -> RowOfCells {
        if self.frames == 0 || self.rows == 0 {
            self.more += 1;
            return row;
        }
        let frames = frames();
        self.frames = self.frames.saturating_sub(frames.len());
        self.rows -= 1;
        let mut summed = summed();
        let rest = summed.len().saturating_sub(MOST_SUMMED);
        summed.truncate(MOST_SUMMED);
        summed.extend((rest > 0).then(|| [Value::Nothing, Value::words(format!("and {rest} more"))]));
        RowOfCells { frames, summed, ..row }
    }

    /// A row with its line in the checkout.
    pub(super) fn placed(&self, row: RowOfCells, code: &SnapshotCode<'_>, stack: Option<StackId>) -> RowOfCells {
        let site = stack.and_then(|stack| Site::new(code, stack, self.options));
        RowOfCells { site, shows_source: self.options.source, ..row }
    }
}

/// A frame of a stack, or an operation of its C++ frames.
#[derive(Debug, Clone)]
struct FrameOrOperation {
    identity: (Option<Token>, String),
    line: Option<u32>,
    text: String,
}

impl FrameOrOperation {
    /// A step that is not a frame.
    fn named(text: &str) -> Self {
        Self { identity: (None, text.to_owned()), line: None, text: text.to_owned() }
    }

    /// A frame in Python.
    fn frame(code: &SnapshotCode<'_>, frame: FrameId) -> Self {
        Self { identity: (Some(code.token(frame)), String::new()), line: code.line(frame), text: code.text(frame) }
    }
}

/// The steps from the outermost frame inwards, as in a traceback.
fn steps((code, stack): (&SnapshotCode<'_>, StackId)) -> Vec<FrameOrOperation> {
    let frames = code.shown_frames(stack);
    let mut steps: Vec<FrameOrOperation> =
        code.is_backward(stack).then(|| FrameOrOperation::named("backward")).into_iter().collect();
    steps.extend(frames.iter().take(MOST_FRAMES_OF_STACK).rev().map(|&frame| FrameOrOperation::frame(code, frame)));
    steps.extend(code.operation_names(stack).iter().map(|name| FrameOrOperation::named(name)));
    steps
}

fn identities(steps: &[FrameOrOperation]) -> Vec<(Option<Token>, String)> {
    steps.iter().map(|step| step.identity.clone()).collect()
}

/// The frames of a stack, the outermost first.
pub(super) fn frames(stack: (&SnapshotCode<'_>, StackId)) -> Vec<StackLine> {
    steps(stack).into_iter().map(|step| StackLine::new(ChangeTag::Equal, step.text)).collect()
}

/// The frames on the way from the stack of the before to that of the after. Frames that only moved to another line are the same.
pub(super) fn changed_frames(stacks: Sides<Option<StackId>>, codes: &Sides<SnapshotCode<'_>>) -> Vec<StackLine> {
    let [before, after] = stacks.zip(codes.map(|code| code)).each().map(|(_, &(stack, code))| Some((code, stack?)));
    let (Some(old), Some(new)) = (before, after) else {
        return before.or(after).map(frames).unwrap_or_default();
    };
    let [old, new] = [old, new].map(steps);
    let ops = difference(Sides { before: &identities(&old), after: &identities(&new) });
    if ops.iter().all(|op| matches!(op, DiffOp::Equal { .. })) {
        // The same functions on both sides: the whole stack says where that is.
        return ops.iter().flat_map(|op| lines_of(op, &old, &new)).collect();
    }
    let mut lines = vec![StackLine::head("--- before"), StackLine::head("+++ after")];
    for group in group_diff_ops(ops, CONTEXT) {
        lines.push(StackLine::head("@@ … @@"));
        lines.extend(group.iter().flat_map(|op| lines_of(op, &old, &new)));
    }
    lines
}

fn lines_of(op: &DiffOp, old: &[FrameOrOperation], new: &[FrameOrOperation]) -> Vec<StackLine> {
    if let DiffOp::Equal { .. } = op {
        let pairs = old[op.old_range()].iter().zip(&new[op.new_range()]);
        return pairs.map(|(old, new)| StackLine::new(ChangeTag::Equal, moved(old, new))).collect();
    }
    let sides = op.iter_slices(old, new);
    sides.flat_map(|(tag, steps)| steps.iter().map(move |step| StackLine::new(tag, step.text.clone()))).collect()
}

/// A frame as in the after, and from which line it moved.
fn moved(old: &FrameOrOperation, new: &FrameOrOperation) -> String {
    match (old.line, new.line) {
        (Some(old), Some(line)) if old != line => format!("{}, was line {old}", new.text),
        _ => new.text.clone(),
    }
}

/// Tensors of one type and shape: `bf16 [8, 2048, 4096] × 24`.
pub(super) fn tensors(shape: &str, count: u64) -> String {
    format!("{shape} × {}", thousands(count))
}

/// Figures of a stack, for readers who look at it individually.
pub(super) fn details(mean: Sides<u64>, highest: Sides<Option<u64>>) -> String {
    let highest = match (highest.before, highest.after) {
        (Some(before), Some(after)) => Some(Value::sizes(Sides { before, after })),
        (_, after) => after.map(Value::Size),
    };
    let highest = highest.map(|highest| format!("; highest: {}", highest.with_arrow())).unwrap_or_default();
    format!("mean size: {}{highest}", Value::sizes(mean).with_arrow())
}
