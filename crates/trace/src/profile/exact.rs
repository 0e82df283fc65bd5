//! Totals of exact stacks, of which groups are made.

use ptmem_snapshot::snapshot::{StackId, StringId, Tables};
use rustc_hash::FxHashMap;

use super::totals::Sums;
use crate::stack::{CppDigest, ExactKeys, GroupBy, Grouper, SnapshotCode};
use crate::trace::{Bucket, Class, Origin};

/// The totals of one stack, or of one stack with one tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) origin: Origin,
    /// The tag of its allocations, if they are distinguished by tag.
    pub(super) tag: Option<StringId>,
    /// The digest of all its C++ frames, where some of them were dropped.
    pub(super) cpp: Option<CppDigest>,
    pub(super) sums: Sums,
}

impl Exact {
    /// That of a class, without its sums.
    pub(super) fn of(class: &Class, by: GroupBy) -> Self {
        Self { origin: class.origin, tag: class.tags.of(by), cpp: class.cpp, sums: Sums::default() }
    }

    /// True if the group of this memory follows from its tag. Tagged memory has a group even without frames; memory of
    /// any age belongs to a pool and possibly to a module.
    pub(super) fn goes_by_tag(&self, grouper: &Grouper<'_>) -> bool {
        let is_recorded = matches!(self.origin, Origin::Stack(_) | Origin::Bucket(Bucket::NoFrames));
        grouper.by().is_tag() && (is_recorded || self.tag.is_some())
    }
}

/// The totals that a grouping is made of, the largest first.
pub(super) struct Totals {
    pub(super) all: Vec<Exact>,
    /// The total that every class belongs to.
    pub(super) of_class: Vec<u32>,
}

impl Totals {
    /// Adds up the sums of classes by stack, and by the tag that the grouping goes by.
    pub(super) fn new(classes: &[Class], sums: &[Sums], grouper: &Grouper<'_>) -> Self {
        let mut known: FxHashMap<_, u32> = FxHashMap::default();
        let mut all: Vec<Exact> = Vec::new();
        let mut of_class = Vec::with_capacity(classes.len());
        for (class, sums) in classes.iter().zip(sums) {
            let exact = Exact::of(class, grouper.by());
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let place = *known.entry((exact.origin, exact.cpp, exact.tag)).or_insert(next);
            if place == next {
                all.push(exact);
            }
            all[place as usize].sums.add(sums);
            of_class.push(place);
        }
        Self { all, of_class }.sorted(grouper.code())
    }

    /// The largest first, and equally large ones in an order that only their contents decide: numbers of stacks differ
    /// between a snapshot and its saved profile.
    fn sorted(mut self, code: &SnapshotCode<'_>) -> Self {
        let tables = code.tables();
        let all = &self.all;
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&place| all[place].sums.order());
        let mut keys = None;
        let equal = order.chunk_by_mut(|&a, &b| all[a].sums.order() == all[b].sums.order());
        for equal in equal.filter(|run| run.len() > 1) {
            let keys = keys.get_or_insert_with(|| ExactKeys::new(code));
            equal.sort_by_cached_key(|&place| {
                let exact = &all[place];
                let tag = exact.tag.map(|tag| tables.string(tag));
                match exact.origin {
                    Origin::Bucket(bucket) => (Some(bucket), None, tag, None),
                    Origin::Stack(stack) => (None, Some(keys.of(stack, exact.cpp)), tag, Some(forward(tables, stack))),
                }
            });
        }
        let mut places = vec![0; order.len()];
        for (new, &old) in (0_u32..).zip(&order) {
            places[old] = new;
        }
        self.of_class.iter_mut().for_each(|place| *place = places[*place as usize]);
        Self { all: order.iter().map(|&place| self.all[place]).collect(), of_class: self.of_class }
    }
}

/// The frames of the forward pass, by their contents.
fn forward(tables: &Tables, stack: StackId) -> Vec<(&str, &str, i128)> {
    let frames = tables.forward(stack).iter().map(|&frame| tables.frame(frame));
    frames.map(|frame| (tables.string(frame.name), tables.string(frame.filename), frame.line)).collect()
}
