//! The call stacks of rows.

use super::{Column, StackLine, Value, figure};
use crate::sides::Sides;
use crate::source::Site;
use crate::text::thousands;

/// Call stacks of rows.
#[derive(Debug)]
pub(crate) struct CallStacks {
    /// A title for all of them.
    pub(crate) title: &'static str,
    /// Whether they show how stacks changed, or else the stacks themselves.
    pub(crate) are_changes: bool,
    /// Each stack, in the order of the rows: the first ones.
    pub(crate) stacks: Vec<CallStack>,
    /// The number of further ones.
    pub(crate) more: usize,
}

/// Frames of all stacks of a device: a report that lists every row may have millions, for which no reader has room.
const MOST_FRAMES: usize = 100_000;

impl CallStacks {
    /// Those of a number of rows, as far as there is room for their frames.
    pub(super) fn new(title: &'static str, all: impl Iterator<Item = CallStack>, count: usize) -> Self {
        let mut taken = 0;
        let fit = all.take_while(|stack| {
            let fits = taken < MOST_FRAMES;
            taken += stack.lines.len();
            fits
        });
        let stacks: Vec<CallStack> = fit.collect();
        Self { title, are_changes: false, more: count - stacks.len(), stacks }
    }
}

/// A call stack, or the difference between those of a row before and after.
#[derive(Debug)]
pub(crate) struct CallStack {
    /// Bytes that its row holds or gained.
    pub(crate) amount: Value,
    /// The label of its row.
    pub(crate) label: String,
    /// Labels of further stacks in the same row.
    pub(crate) also: Vec<String>,
    /// The lines that its row sums; none where it is one line.
    pub(crate) summed: Vec<SummedLine>,
    /// Its frames, the outermost first, or the lines of a unified diff.
    pub(crate) lines: Vec<StackLine>,
    /// Its line in the checkout.
    pub(crate) site: Option<Site>,
}

/// One of the lines that a row sums, with its operator.
#[derive(Debug, Clone)]
pub(crate) struct SummedLine {
    /// Bytes that it holds or gained.
    pub(crate) amount: Value,
    /// Its label.
    pub(crate) label: String,
}

/// Tensors of one type and shape: `bf16 [8, 2048, 4096] × 24`.
pub(super) fn tensors(shape: &str, count: u64) -> String {
    format!("{shape} × {}", thousands(count))
}

/// Lines of one row that are listed.
pub(crate) const MOST_SUMMED: usize = 10;

/// Rows of a page with their frames: the first ones.
pub(super) const MOST_WITH_FRAMES: usize = 60;

/// Columns of stacks for which only a page has room.
pub(super) fn details() -> [Column; 2] {
    ["mean size", "highest"].map(|head| figure(head).detail())
}

/// The cells of these columns.
pub(super) fn cells_of_details(mean: Sides<u64>, highest: Sides<Option<u64>>) -> [Value; 2] {
    let highest = match (highest.before, highest.after) {
        (Some(before), Some(after)) => Value::sizes(Sides { before, after }),
        (_, after) => Value::size(after),
    };
    [Value::sizes(mean), highest]
}
