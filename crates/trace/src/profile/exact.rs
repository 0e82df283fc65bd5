//! Totals of exact stacks, of which groups are made.

use std::cmp::Ordering;

use ptmem_snapshot::snapshot::{FrameId, StringId, Tables};
use rustc_hash::FxHashMap;

use super::totals::{BlockCounts, Sums};
use crate::stack::{CppDigest, Digest, ExactKeys, GroupBy, Grouper, SnapshotCode};
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
    pub(super) fn new(classes: &[Class], counts: &BlockCounts, grouper: &Grouper<'_>) -> Self {
        let mut known: FxHashMap<_, u32> = FxHashMap::default();
        let mut all: Vec<Exact> = Vec::new();
        let mut of_class = Vec::with_capacity(classes.len());
        for (class, sums) in counts.sums(classes) {
            let exact = Exact::of(class, grouper.by());
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let place = *known.entry((exact.origin, exact.cpp, exact.tag)).or_insert(next);
            if place == next {
                all.push(exact);
            }
            all[place as usize].sums.add(&sums);
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
            let mut contents: Vec<(ContentOrder<'_>, usize)> =
                equal.iter().map(|&place| (ContentOrder::of(&all[place], keys, tables), place)).collect();
            contents.sort_by(|(one, _), (other, _)| one.cmp(other));
            equal.iter_mut().zip(contents).for_each(|(place, (_, sorted))| *place = sorted);
        }
        let mut places = vec![0; order.len()];
        for (new, &old) in (0_u32..).zip(&order) {
            places[old] = new;
        }
        self.of_class.iter_mut().for_each(|place| *place = places[*place as usize]);
        Self { all: order.iter().map(|&place| self.all[place]).collect(), of_class: self.of_class }
    }
}

/// The order of equally large totals by their contents.
struct ContentOrder<'t> {
    bucket: Option<Bucket>,
    /// All frames but those of the forward pass.
    digest: Option<Digest>,
    tag: Option<&'t str>,
    forward: &'t [FrameId],
    tables: &'t Tables,
}

impl<'t> ContentOrder<'t> {
    fn of(exact: &Exact, keys: &ExactKeys<'_>, tables: &'t Tables) -> Self {
        let stack = exact.origin.stack();
        Self {
            bucket: exact.origin.bucket(),
            digest: stack.map(|stack| keys.of(stack, exact.cpp)),
            tag: exact.tag.map(|tag| tables.string(tag)),
            forward: stack.map(|stack| tables.forward(stack)).unwrap_or_default(),
            tables,
        }
    }

    /// The names, files and lines of the frames of the forward pass.
    fn forward(&self) -> impl Iterator<Item = (&'t str, &'t str, i128)> {
        let frames = self.forward.iter().map(|&frame| self.tables.frame(frame));
        frames.map(|frame| (self.tables.string(frame.name), self.tables.string(frame.filename), frame.line))
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let inner = (self.bucket, self.digest, self.tag).cmp(&(other.bucket, other.digest, other.tag));
        // Many stacks share frames of the forward pass, which have the same numbers then.
        inner.then_with(|| {
            if self.forward == other.forward { Ordering::Equal } else { self.forward().cmp(other.forward()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use ptmem_snapshot::snapshot::{Frame, StackId};

    use super::*;
    use crate::stack::Rules;
    use crate::trace::Origin;

    /// A stack without frames of its own, with those of the forward pass as letters.
    fn stack(tables: &mut Tables, forward: &str) -> StackId {
        let mut frames = Vec::new();
        for name in forward.chars() {
            let name = tables.intern_string(&name.to_string());
            frames.push(tables.intern_frame(Frame { name, filename: name, line: 1, original: None }));
        }
        let inner = tables.intern_stack(&[]);
        tables.intern_forward(inner, &frames)
    }

    #[test]
    fn frames_of_the_forward_pass_order_equal_stacks_without_a_copy_for_each() {
        let mut tables = Tables::default();
        // Numbered against the order of their names.
        let stacks = ["cb", "ca", "b", "bc", "a", ""].map(|forward| stack(&mut tables, forward));
        let code = SnapshotCode::new(&tables, &Rules::default(), &[]);
        let keys = ExactKeys::new(&code);
        let exact =
            stacks.map(|stack| Exact { origin: Origin::Stack(stack), tag: None, cpp: None, sums: Sums::default() });
        let mut orders: Vec<_> = exact.iter().map(|exact| ContentOrder::of(exact, &keys, &tables)).collect();
        orders.sort_by(ContentOrder::cmp);
        let sorted: Vec<String> = orders.iter().map(|order| order.forward().map(|frame| frame.0).collect()).collect();
        assert_eq!(sorted, ["", "a", "b", "bc", "ca", "cb"]);
        assert!(std::ptr::eq(orders[1].forward, tables.forward(stacks[4])));
    }
}
