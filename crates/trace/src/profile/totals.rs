//! Who holds the memory: totals by class, by stack, and by group of stacks. Every byte is attributed; unknown memory has a
//! name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Add, AddAssign, Deref};

use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::StackId;
use rustc_hash::FxHashMap;

use super::exact::{Exact, Totals};
use super::lines::HeldLine;
use crate::replay::{Figures, Position};
use crate::stack::{CppDigest, GroupBy, Grouper, Key, tell_apart};
use crate::trace::{Bucket, Class, ErrorBound, Highest, Origin, Trace};

/// Memory that is held at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Held {
    /// Allocated bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    /// Blocks of a class.
    pub fn of(class: &Class, blocks: u64) -> Self {
        Self { bytes: class.bytes.saturating_mul(blocks), blocks }
    }

    /// What is left of it without a part.
    #[must_use]
    pub fn less(self, part: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(part.bytes), blocks: self.blocks.saturating_sub(part.blocks) }
    }

    /// Mean size of a block in bytes, rounded down; 0 where there is none.
    pub fn mean(self) -> u64 {
        self.bytes.checked_div(self.blocks).unwrap_or(0)
    }
}

/// Both together. (The sum is at most the allocated bytes of a moment, which fit.)
impl Add for Held {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), blocks: self.blocks.saturating_add(other.blocks) }
    }
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
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

/// A stack, and the digest of all its C++ frames where a saved profile dropped some of them.
pub type ExactStack = (StackId, Option<CppDigest>);

/// One exact stack of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// The stack.
    pub stack: StackId,
    /// The digest of all its C++ frames, where some of them were dropped: the stack may occur again with another.
    pub cpp: Option<CppDigest>,
    /// Held at the requested moment.
    pub at: Held,
    /// Requested bytes of those; 0 where a saved profile does not say.
    pub requested: u64,
    /// Held when memory first ran out.
    pub oom: Held,
}

impl GroupMember {
    /// What tells it from all others.
    pub fn exact(&self) -> ExactStack {
        (self.stack, self.cpp)
    }
}

/// The allocations of one group of stacks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StackTotal {
    /// Its label: that of the stack of the group that holds most at the requested moment.
    pub label: String,
    /// Its key in comparisons.
    pub key: Key,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The stacks of the group, the largest at the requested moment first.
    pub members: Vec<GroupMember>,
    /// The bytes it held, and the bytes it allocated.
    pub sums: Sums,
    /// The most that it held at any moment; `None` where a saved profile does not say.
    pub highest: Option<Highest>,
    /// How far that may be from the truth, because the sizes of blocks are not certain.
    pub highest_bound: ErrorBound,
    /// How far the bytes held at the requested moment may be.
    pub at_bound: ErrorBound,
    /// The most bytes that it held in sizes that a function supposed, on simulated GPUs, by function.
    pub supposed: BTreeMap<String, u64>,
    /// Number of modules that it sums, where it is of modules.
    pub(super) modules: usize,
    /// Types and shapes of the tensors that it holds at the requested moment, where they were recorded; the most
    /// bytes first.
    pub shapes: Vec<HeldLine>,
}

impl StackTotal {
    /// A group with nothing in it.
    pub(super) fn new(label: String, key: Key, bucket: Option<Bucket>) -> Self {
        Self { label, key, bucket, ..Self::default() }
    }

    /// Adds an exact stack.
    pub(super) fn add_exact(&mut self, exact: &Exact) {
        let &Exact { origin, cpp, ref sums, .. } = exact;
        let &Sums { at, requested, oom, .. } = sums;
        self.members.extend(origin.stack().map(|stack| GroupMember { stack, cpp, at, requested, oom }));
        self.sums.add(sums);
    }

    /// The row for this many stacks that are not listed.
    pub fn others(count: usize) -> Self {
        Self::new(others(count), Key(Bucket::Others.label().to_owned()), Some(Bucket::Others))
    }

    /// The stack that represents the group.
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
pub fn groups_of_origins(groups: &[StackTotal]) -> FxHashMap<Origin, usize> {
    let groups = groups.iter().enumerate().flat_map(|(index, total)| {
        let stacks = total.members.iter().map(|member| Origin::Stack(member.stack));
        stacks.chain(total.bucket.map(Origin::Bucket)).map(move |origin| (origin, index))
    });
    groups.collect()
}

/// The label of the row that sums this many others.
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
pub fn identity(class: &Class, grouper: &Grouper<'_>) -> Identity {
    identity_of(&Exact::of(class, grouper.by()), grouper)
}

/// The group that a stack belongs to.
fn identity_of(exact: &Exact, grouper: &Grouper<'_>) -> Identity {
    let by_tag = exact.goes_by_tag(grouper);
    let label = if by_tag { grouper.tagged(exact.tag).1 } else { exact.origin.label(|stack| grouper.label(stack)) };
    let bucket = exact.origin.bucket().filter(|_| !by_tag);
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

/// Totals by group while they are added up.
pub(super) struct GroupedTotals {
    /// In the order of their first stacks.
    pub(super) totals: Vec<StackTotal>,
    /// The group of every class, as an index into the totals.
    pub(super) of_class: Vec<u32>,
}

impl GroupedTotals {
    /// The first stack of a group represents it.
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

/// The blocks of every class at the moments of [`Sums`], in a third of the memory of these.
#[derive(Debug, Default)]
pub(crate) struct BlockCounts {
    /// Where the counts of each moment are: most are at the same places. `None` where there is no such moment.
    moments: [Option<u32>; 5],
    /// The allocated blocks at places, by class.
    at_places: Vec<Vec<u64>>,
    /// `alloc` events by class.
    allocations: Vec<u64>,
}

impl BlockCounts {
    /// Those of a trace. `at` is the requested moment.
    pub(super) fn new(trace: &Trace, figures: &Figures, at: Option<Position>) -> Self {
        let moments = [Some(Position::START), figures.allocated.peak_at, Some(trace.dump()), figures.first_oom(), at];
        let mut places = Interner::default();
        let moments = moments.map(|moment| moment.map(|moment| places.insert(moment)));
        let at_places = places.into_items().into_iter().map(|place| trace.blocks_at(place)).collect();
        Self { moments, at_places, allocations: trace.allocations() }
    }

    /// True if nothing is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// The totals of classes, which are those of the trace.
    pub(super) fn sums<'c>(&'c self, classes: &'c [Class]) -> impl Iterator<Item = (&'c Class, Sums)> {
        classes.iter().zip(&self.allocations).enumerate().map(|(index, (class, &allocations))| {
            let [baseline, peak, end, oom, at] = self
                .moments
                .map(|moment| Held::of(class, moment.map_or(0, |place| self.at_places[place as usize][index])));
            let requested = class.requested.saturating_mul(at.blocks);
            let allocated_total = class.bytes.saturating_mul(allocations);
            (class, Sums { baseline, peak, end, oom, at, requested, allocations, allocated_total })
        })
    }
}
