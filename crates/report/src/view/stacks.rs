//! The call stacks of rows.

use super::{Site, StackLine, Value};
use crate::text::thousands;
use crate::tree::Frame;
use crate::units::Delta;

/// Call stacks of rows.
#[derive(Debug)]
pub(crate) struct CallStacks {
    /// A title for all of them.
    pub(crate) title: &'static str,
    /// Each stack, in the order of the rows: the first ones.
    pub(crate) stacks: Vec<CallStack>,
    /// The number of further ones.
    pub(crate) more: usize,
}

/// Frames of all stacks of a device: a report that lists every row may have millions, for which no reader has room.
const MOST_FRAMES: usize = 100_000;

/// The first of them, which together have no more frames.
pub(super) fn first_ones<T>(all: impl Iterator<Item = T>, frames: fn(&T) -> usize) -> Vec<T> {
    let mut taken = 0;
    let fit = all.take_while(|one| {
        let fits = taken < MOST_FRAMES;
        taken += frames(one);
        fits
    });
    fit.collect()
}

impl CallStacks {
    /// Those of a number of rows.
    pub(super) fn new(title: &'static str, all: impl Iterator<Item = CallStack>, count: usize) -> Self {
        let stacks = first_ones(all, |stack| stack.frames.len());
        let more = count - stacks.len();
        Self { title, stacks, more }
    }
}

/// A call stack.
#[derive(Debug)]
pub(crate) struct CallStack {
    /// Bytes that its row holds or gained.
    pub(crate) amount: Value,
    /// The label of its row.
    pub(crate) label: String,
    /// Labels of further stacks in the same row.
    pub(crate) also: Vec<String>,
    /// The lines that its row sums; none where it is one line.
    pub(crate) lines: Vec<SummedLine>,
    /// Its frames, the outermost first.
    pub(crate) frames: Vec<Frame>,
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

/// Differences between the call stacks of rows before and after.
#[derive(Debug)]
pub(crate) struct StackChanges {
    /// Those of the first rows.
    pub(crate) all: Vec<StackChange>,
    /// The number of further ones.
    pub(crate) more: usize,
}

/// The difference between the call stacks of a row before and after.
#[derive(Debug)]
pub(crate) struct StackChange {
    /// Bytes gained.
    pub(crate) delta: Delta,
    /// The label of its row.
    pub(crate) label: String,
    /// The lines of code that its row sums; none where it is one line.
    pub(crate) summed: Vec<SummedLine>,
    /// The lines of a unified diff.
    pub(crate) lines: Vec<StackLine>,
}
