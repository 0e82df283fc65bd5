//! Columns of stacks for which only a page has room.

use super::{Column, Distance, Value};
use crate::picture::{EventRange, Span};
use crate::sides::Sides;

/// Rows with their frames: the first ones.
pub(super) const MOST_FRAMES: usize = 60;

/// Mean size, highest, and the lifetimes of the blocks.
pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::figure("mean size").detail(),
        Column::figure("highest").detail(),
        Column::figure("allocated before the peak").detail(),
        Column::figure("freed after the peak").detail(),
    ]
}

/// The cells of these columns.
pub(super) fn cells(mean: Sides<u64>, highest: Sides<Option<u64>>, span: Option<Span>) -> Vec<Value> {
    let highest = match (highest.before, highest.after) {
        (Some(before), Some(after)) => Value::Sizes(Sides { before, after }),
        (_, Some(after)) => Value::Size(after),
        (_, None) => Value::Unknown,
    };
    vec![
        Value::Sizes(mean),
        highest,
        span.map_or(Value::Nothing, |span| Value::Distance(span.born.into())),
        span.map_or(Value::Nothing, |span| Value::Distance(span.freed.into())),
    ]
}

impl From<EventRange> for Distance {
    fn from(range: EventRange) -> Self {
        Self { nearest: range.nearest, farthest: range.farthest }
    }
}
