//! A history event by event, as the script of a page replays it.

use std::collections::HashMap;

use super::past::Past;
use crate::align::Alignment;
use crate::replay::{Layout, Position};
use crate::sides::{Side, Sides};
use crate::trace::Trace;

/// The history of one side.
#[derive(Debug)]
pub struct Record {
    /// What happened.
    pub trace: Trace,
    /// Where blocks and segments lie, where a snapshot was read.
    pub layout: Option<Layout>,
    /// Microseconds since the first event of any device at some places.
    pub times: Vec<(Position, u64)>,
    /// Whether the reserved bytes are known.
    pub has_reserved: bool,
    /// The innermost frame of each class, as a node of the flame graph.
    pub nodes: Vec<usize>,
    /// The row of each class, as an index into [`super::Picture::rows`]; `None` where it has none.
    pub rows: Vec<Option<usize>>,
    /// The category of each class, as an index into [`super::Picture::categories`].
    pub categories: Vec<usize>,
    /// Where two sides are aligned: of the before, the place of the after that corresponds to each of its places.
    pub places: Vec<i64>,
    /// Where two sides are aligned: of the after, the allocation of the before that each of its allocations is.
    pub partners: Vec<Option<usize>>,
}

/// What both sides share.
pub(super) struct Shared<'p> {
    /// The nodes of the units.
    pub(super) leaves: &'p [usize],
    /// The rows by their keys on a side.
    pub rows: Sides<HashMap<&'p str, usize>>,
    pub categories: &'p [String],
    pub(super) alignment: Option<&'p Alignment>,
}

impl Record {
    /// The history of a side; `None` where it is not known event by event.
    pub(super) fn new(past: &Past<'_>, side: Side, shared: &Shared<'_>) -> Option<Self> {
        if !past.has_moves() {
            return None;
        }
        let keys = past.device.keys(&past.profile.grouper());
        let rows = shared.rows.of(side);
        let (categories, names) = past.categories();
        let places: Vec<usize> =
            names.iter().filter_map(|name| shared.categories.iter().position(|known| known == name)).collect();
        let begun = past.begun.len();
        let of_before = shared.alignment.filter(|_| side == Side::Before);
        let of_after = shared.alignment.filter(|_| side == Side::After);
        Some(Self {
            trace: past.device.trace.clone(),
            layout: past.device.layout.clone(),
            times: past.device.times.clone(),
            has_reserved: past.device.figures.reserved.baseline.is_some(),
            nodes: past.units.iter().map(|&unit| shared.leaves[unit as usize]).collect(),
            rows: keys.iter().map(|key| rows.get(&*key.0).copied()).collect(),
            categories: categories
                .iter()
                .map(|&category| places.get(category as usize).copied().unwrap_or(0))
                .collect(),
            places: of_before.map(|all| (0..=begun).map(|at| all.after_of(at)).collect()).unwrap_or_default(),
            partners: of_after.map(|all| (0..begun).map(|at| all.partner_of(at)).collect()).unwrap_or_default(),
        })
    }
}
