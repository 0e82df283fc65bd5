//! Who holds the memory: totals by class, by stack, and by group of stacks. Every byte is attributed; unknown memory has a
//! name.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::{Add, Deref};

use ptmem_snapshot::snapshot::{StackId, StringId, Tables};
use rustc_hash::FxHashMap;

use super::lines::HeldLine;
use crate::replay::{Figures, Position};
use crate::stack::{CppDigest, ExactKeys, GroupBy, Grouper, Key, tell_apart};
use crate::trace::{Bucket, Class, Highest, Origin, Trace};

/// Memory that is held at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Held {
    /// Allocated bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    /// Blocks of a class.
    #[must_use]
    pub fn of(class: &Class, blocks: u64) -> Self {
        Self { bytes: class.bytes.saturating_mul(blocks), blocks }
    }

    /// Mean size of a block in bytes, rounded down; 0 where there is none.
    #[must_use]
    pub fn mean(self) -> u64 {
        self.bytes.checked_div(self.blocks).unwrap_or(0)
    }

    /// Both together. (The sum is at most the allocated bytes of a moment, which fit.)
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), blocks: self.blocks.saturating_add(other.blocks) }
    }
}

impl Add for Held {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.plus(other)
    }
}

/// Its bytes, for differences.
impl From<Held> for i128 {
    fn from(held: Held) -> Self {
        held.bytes.into()
    }
}

/// Memory that was held at the moments that a profile knows, and that was allocated in the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// Held before the first event.
    pub baseline: Held,
    /// Held at the allocated peak.
    pub peak: Held,
    /// Held at the end.
    pub end: Held,
    /// Held when the first allocation failed, if one did.
    pub oom: Held,
    /// Held at the requested moment.
    pub at: Held,
    /// Requested bytes of those.
    pub requested: u64,
    /// `alloc` events.
    pub allocations: u64,
    /// Block bytes of those.
    pub allocated_total: u64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        *self = Self {
            baseline: self.baseline + other.baseline,
            peak: self.peak + other.peak,
            end: self.end + other.end,
            oom: self.oom + other.oom,
            at: self.at + other.at,
            requested: self.requested.saturating_add(other.requested),
            allocations: self.allocations.saturating_add(other.allocations),
            allocated_total: self.allocated_total.saturating_add(other.allocated_total),
        };
    }

    pub(super) fn order(&self) -> impl Ord + use<> {
        Reverse((self.at.bytes, self.peak.bytes, self.allocated_total))
    }
}

/// One exact stack of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The stack.
    pub stack: StackId,
    /// Held at the requested moment.
    pub at: Held,
    /// Requested bytes of those; 0 where a saved profile does not say.
    pub requested: u64,
    /// Held when memory first ran out.
    pub oom: Held,
}

/// The allocations of one group of stacks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StackTotal {
    /// Its label: that of the stack of the group that holds most at the requested moment.
    pub label: String,
    /// Its key in comparisons.
    pub key: Key,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The stacks of the group, the largest at the requested moment first.
    pub members: Vec<Member>,
    /// The bytes it held, and the bytes it allocated.
    pub sums: Sums,
    /// The most that it held at any moment; `None` where a saved profile does not say.
    pub highest: Option<Highest>,
    /// Number of modules that it sums, where it is of modules.
    pub(super) modules: usize,
    /// Types and shapes of the tensors that it holds at the requested moment, where they were recorded; the most
    /// bytes first.
    pub shapes: Vec<HeldLine>,
}

impl StackTotal {
    /// A group with nothing in it.
    pub(super) fn new(label: String, key: Key, bucket: Option<Bucket>) -> Self {
        let sums = Sums::default();
        Self { label, key, bucket, members: Vec::new(), sums, highest: None, modules: 0, shapes: Vec::new() }
    }

    /// Adds an exact stack.
    pub(super) fn add_exact(&mut self, exact: &Exact) {
        let &Exact { origin, ref sums, .. } = exact;
        let &Sums { at, requested, oom, .. } = sums;
        self.members.extend(origin.stack().map(|stack| Member { stack, at, requested, oom }));
        self.sums.add(sums);
    }

    /// The row for this many stacks that are not listed.
    #[must_use]
    pub fn others(count: usize) -> Self {
        Self::new(others(count), Key(Bucket::Others.label().to_owned()), Some(Bucket::Others))
    }

    /// The stack that stands for the group.
    #[must_use]
    pub fn stack(&self) -> Option<StackId> {
        self.members.first().map(|member| member.stack)
    }
}

impl Deref for StackTotal {
    type Target = Sums;

    fn deref(&self) -> &Sums {
        &self.sums
    }
}

/// The group of each stack, and of each kind of memory without one, by its index.
#[must_use]
pub fn groups_of_origins(groups: &[StackTotal]) -> FxHashMap<Origin, usize> {
    let groups = groups.iter().enumerate().flat_map(|(index, total)| {
        let stacks = total.members.iter().map(|member| Origin::Stack(member.stack));
        stacks.chain(total.bucket.map(Origin::Bucket)).map(move |origin| (origin, index))
    });
    groups.collect()
}

/// The label of the row that stands for this many others.
#[must_use]
pub fn others(count: usize) -> String {
    format!("[{count} {}]", if count == 1 { "other" } else { "others" })
}

/// The key and the label of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its key in comparisons.
    pub key: Key,
    /// Its name.
    pub label: String,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
}

/// The group that memory of a class belongs to.
#[must_use]
pub fn identity(class: &Class, grouper: &Grouper<'_>) -> Identity {
    identity_of(&Exact::of(class, grouper.by()), grouper)
}

/// The group that a stack belongs to.
fn identity_of(exact: &Exact, grouper: &Grouper<'_>) -> Identity {
    let (label, bucket) = match exact.origin {
        _ if exact.goes_by_tag(grouper) => (grouper.tagged(exact.tag).1, None),
        Origin::Stack(stack) => (grouper.label(stack), None),
        Origin::Bucket(bucket) => (bucket.label().to_owned(), Some(bucket)),
    };
    Identity { key: key(exact, grouper), label, bucket }
}

/// The key of that group.
pub(super) fn key(exact: &Exact, grouper: &Grouper<'_>) -> Key {
    match exact.origin {
        _ if exact.goes_by_tag(grouper) => grouper.tagged(exact.tag).0,
        Origin::Stack(stack) if grouper.by() == GroupBy::Frames => grouper.exact(stack, exact.cpp),
        Origin::Stack(stack) => grouper.key(stack),
        Origin::Bucket(bucket) => Key(bucket.label().to_owned()),
    }
}

impl Exact {
    /// That of a class, without its sums.
    fn of(class: &Class, by: GroupBy) -> Self {
        Self { origin: class.origin, tag: class.tags.of(by), cpp: class.cpp, sums: Sums::default() }
    }

    /// True if the group of this memory follows from its tag. Tagged memory has a group even without frames; memory of
    /// any age belongs to a pool and possibly to a module.
    fn goes_by_tag(&self, grouper: &Grouper<'_>) -> bool {
        let is_recorded = matches!(self.origin, Origin::Stack(_) | Origin::Bucket(Bucket::NoFrames));
        grouper.by().is_tag() && (is_recorded || self.tag.is_some())
    }
}

/// Totals by group while they are added up.
pub(super) struct Grouping {
    /// In the order of their first stacks.
    pub(super) totals: Vec<StackTotal>,
    /// The group of every class, as an index into the totals.
    pub(super) of_class: Vec<u32>,
}

impl Grouping {
    /// The first stack of a group stands for it.
    pub(super) fn new(exact: &Totals, grouper: &Grouper<'_>) -> Self {
        let mut by_key: HashMap<Key, usize> = HashMap::new();
        Self::by(Vec::new(), exact, |exact, totals| {
            *by_key.entry(key(exact, grouper)).or_insert_with_key(|key| {
                let Identity { label, bucket, .. } = identity_of(exact, grouper);
                totals.push(StackTotal::new(label, key.clone(), bucket));
                totals.len() - 1
            })
        })
    }

    /// Adds each stack to the group whose index `group` gives; it may add that group to the end.
    pub(super) fn by(
        mut totals: Vec<StackTotal>,
        exact: &Totals,
        mut group: impl FnMut(&Exact, &mut Vec<StackTotal>) -> usize,
    ) -> Self {
        let mut of_exact: Vec<u32> = Vec::with_capacity(exact.all.len());
        for exact in &exact.all {
            let index = group(exact, &mut totals);
            of_exact.push(u32::try_from(index).unwrap_or(u32::MAX));
            totals[index].add_exact(exact);
        }
        Self { of_class: exact.of_class.iter().map(|&exact| of_exact[exact as usize]).collect(), totals }
    }

    /// The groups, the most at the peak first.
    pub(super) fn finish(self, grouper: &Grouper<'_>) -> Vec<StackTotal> {
        let mut groups = self.totals;
        tell_apart(
            &mut groups,
            |total| &mut total.label,
            |total| Some((total.key.clone(), grouper, total.stack().filter(|_| total.bucket.is_none())?)),
        );
        // Groups of equal size by name: keys are digests, whose order means nothing.
        groups.sort_by(|a, b| {
            let size = b.peak.bytes.cmp(&a.peak.bytes);
            size.then_with(|| a.label.cmp(&b.label)).then_with(|| a.key.cmp(&b.key))
        });
        groups
    }
}

/// The totals of every class of a trace. `at` is the requested moment.
pub(super) fn sums(trace: &Trace, figures: &Figures, at: Option<Position>) -> Vec<Sums> {
    let moments = [Some(Position::START), figures.allocated.peak_at, Some(trace.dump()), figures.first_oom(), at];
    let blocks = moments.map(|moment| moment.map(|moment| trace.blocks_at(moment)).unwrap_or_default());
    let sums = trace.classes.iter().zip(trace.allocations()).enumerate().map(|(class, (of, allocations))| {
        let [baseline, peak, end, oom, at] =
            blocks.each_ref().map(|blocks| Held::of(of, blocks.get(class).copied().unwrap_or(0)));
        let requested = of.requested.saturating_mul(at.blocks);
        let allocated_total = of.bytes.saturating_mul(allocations);
        Sums { baseline, peak, end, oom, at, requested, allocations, allocated_total }
    });
    sums.collect()
}

/// The totals of one stack, or of one stack with one tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) origin: Origin,
    /// The tag of its allocations, where they are told apart by one.
    pub(super) tag: Option<StringId>,
    /// The digest of all its C++ frames, where some of them were dropped.
    pub(super) cpp: Option<CppDigest>,
    pub(super) sums: Sums,
}

/// The totals that a grouping is made of, the largest first.
pub(super) struct Totals {
    pub(super) all: Vec<Exact>,
    /// The total that every class belongs to.
    pub(super) of_class: Vec<u32>,
}

impl Totals {
    /// Adds up the sums of classes by stack, and by the tag that the grouping goes by.
    pub(super) fn new(classes: &[Class], sums: &[Sums], by: GroupBy, tables: &Tables) -> Self {
        let mut known: FxHashMap<_, u32> = FxHashMap::default();
        let mut all: Vec<Exact> = Vec::new();
        let mut of_class = Vec::with_capacity(classes.len());
        for (class, sums) in classes.iter().zip(sums) {
            let exact = Exact::of(class, by);
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let place = *known.entry((exact.origin, exact.cpp, exact.tag)).or_insert(next);
            if place == next {
                all.push(exact);
            }
            all[place as usize].sums.add(sums);
            of_class.push(place);
        }
        Self { all, of_class }.sorted(tables)
    }

    /// The largest first, and equally large ones in an order that only their contents decide: numbers of stacks differ
    /// between a snapshot and its saved profile.
    fn sorted(mut self, tables: &Tables) -> Self {
        let all = &self.all;
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&place| all[place].sums.order());
        let mut keys = None;
        let equal = order.chunk_by_mut(|&a, &b| all[a].sums.order() == all[b].sums.order());
        for equal in equal.filter(|run| run.len() > 1) {
            let keys = keys.get_or_insert_with(|| ExactKeys::new(tables));
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
