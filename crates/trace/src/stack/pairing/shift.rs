//! The distances that lines have moved.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The distances that functions of a file have moved, in lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    /// The distance of most of them.
    pub(super) common: i64,
    pub(super) least: i64,
    pub(super) most: i64,
}

impl Shift {
    /// From distances, with the number of functions that moved by each.
    pub(super) fn of(votes: &BTreeMap<i64, usize>) -> Option<Self> {
        let (&common, _) = votes.iter().max_by_key(|&(shift, count)| (count, Reverse(shift)))?;
        Some(Self { common, least: *votes.first_key_value()?.0, most: *votes.last_key_value()?.0 })
    }
}

/// The distance between two sets of lines that are otherwise the same.
pub(super) fn shape_shift(old: &BTreeSet<u32>, new: &BTreeSet<u32>) -> Option<i64> {
    let shift = i64::from(*new.first()?) - i64::from(*old.first()?);
    let moved = old.iter().map(|&line| i64::from(line) + shift);
    (old.len() == new.len() && moved.eq(new.iter().map(|&line| i64::from(line)))).then_some(shift)
}
