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
    /// Each stack, in the order of the rows.
    pub(crate) stacks: Vec<CallStack>,
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
