//! Columns of stacks for which only a page has room.

use super::{Column, Distance, Value};
use crate::picture::Span;
use crate::sides::Sides;

/// Rows whose frames are told: the first ones.
pub(super) const MOST_FRAMES: usize = 60;

/// Mean size, highest, and the lifetimes of the blocks.
pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::figure("mean size").spare(),
        Column::figure("highest").spare(),
        Column::figure("allocated before the peak").spare(),
        Column::figure("freed after the peak").spare(),
    ]
}

/// The cells of these columns.
pub(super) fn cells(mean: Sides<u64>, highest: Sides<Option<u64>>, span: Option<Span>) -> Vec<Value> {
    let highest = match (highest.before, highest.after) {
        (Some(before), Some(after)) => Value::Sizes(Sides { before, after }),
        (_, Some(after)) => Value::Size(after),
        (_, None) => Value::Unknown,
    };
    let distance = |of: fn(&Span) -> Distance| span.as_ref().map_or(Value::Nothing, |span| Value::Distance(of(span)));
    vec![
        Value::Sizes(mean),
        highest,
        distance(|span| Distance { nearest: span.born.nearest, farthest: span.born.farthest }),
        distance(|span| Distance { nearest: span.freed.nearest, farthest: span.freed.farthest }),
    ]
}
