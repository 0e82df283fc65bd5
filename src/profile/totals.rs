//! Who holds the memory: totals by stack. Every byte is attributed; what is unknown has a name.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::replay::{Origin, Position, Replay};
use crate::snapshot::{Snapshot, StackId};
use crate::stack::{Grouper, Key};

/// Memory whose stack is not known, or rows that stand for several stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Alive at the end, never allocated in the history, and without frames.
    BeforeRecording,
    /// Freed in the history, never allocated in it.
    NotRecorded,
    /// Allocated in the history without frames.
    NoFrames,
}

impl Bucket {
    /// Identifier in machine-readable output.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::BeforeRecording => "before-recording",
            Self::NotRecorded => "allocation-not-recorded",
            Self::NoFrames => "no-frames",
        }
    }

    /// The name of its row.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::BeforeRecording => "<before recording>",
            Self::NotRecorded => "<allocation not recorded>",
            Self::NoFrames => "<no frames>",
        }
    }
}

/// What is held at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Allocated bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    fn add(&mut self, bytes: u64) {
        // The sum is at most the allocated bytes of that moment, which fit.
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += 1;
    }
}

/// The allocations of one group of stacks.
#[derive(Debug, Clone)]
pub struct StackTotal {
    /// What it is called.
    pub label: String,
    /// What it is compared by.
    pub key: Key,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// A stack of the group: the one that holds most at the peak.
    pub stack: Option<StackId>,
    /// Held before the first event.
    pub baseline: Held,
    /// Held at the allocated peak.
    pub peak: Held,
    /// Held at the end.
    pub end: Held,
    /// Held at the moment that was asked for.
    pub at: Held,
    /// `alloc` events.
    pub allocations: u64,
    /// Block bytes of those.
    pub allocated_total: u64,
}

#[derive(Default, Clone, Copy)]
struct Sums {
    baseline: Held,
    peak: Held,
    end: Held,
    at: Held,
    allocations: u64,
    allocated_total: u64,
}

/// Adds up the allocations by group, the most at the peak first.
pub(super) fn by_stack(
    snapshot: &Snapshot,
    grouper: &Grouper<'_>,
    replay: &Replay,
    at: Option<Position>,
) -> Vec<StackTotal> {
    // By exact stack first: there are few of them, and a group is worked out once for each.
    let mut exact: FxHashMap<Origin, Sums> = FxHashMap::default();
    let moments = [Some(Position::START), replay.figures.allocated.peak_at, Some(replay.dump), at];
    for allocation in &replay.allocations {
        let sums = exact.entry(allocation.origin(snapshot)).or_default();
        let held = [&mut sums.baseline, &mut sums.peak, &mut sums.end, &mut sums.at];
        for (held, moment) in held.into_iter().zip(moments) {
            if moment.is_some_and(|moment| allocation.allocated_at(moment)) {
                held.add(allocation.bytes);
            }
        }
        if allocation.born != Position::START && allocation.born != replay.dump {
            sums.allocations += 1;
            sums.allocated_total = sums.allocated_total.saturating_add(allocation.bytes);
        }
    }
    let mut exact: Vec<_> = exact.into_iter().collect();
    // The first of a group is its representative.
    exact.sort_by_key(|&(origin, sums)| (std::cmp::Reverse((sums.peak.bytes, sums.allocated_total)), origin));

    let mut groups: Vec<StackTotal> = Vec::new();
    let mut by_key: HashMap<Key, usize> = HashMap::new();
    for (origin, sums) in exact {
        let (key, bucket, stack) = match origin {
            Origin::Stack(stack) => (grouper.key(stack), None, Some(stack)),
            Origin::BeforeRecording => named(Bucket::BeforeRecording),
            Origin::NotRecorded => named(Bucket::NotRecorded),
            Origin::NoFrames => named(Bucket::NoFrames),
        };
        let index = *by_key.entry(key).or_insert_with_key(|key| {
            groups.push(StackTotal {
                label: stack.map_or_else(String::new, |stack| grouper.label(stack)),
                key: key.clone(),
                bucket,
                stack,
                baseline: Held::default(),
                peak: Held::default(),
                end: Held::default(),
                at: Held::default(),
                allocations: 0,
                allocated_total: 0,
            });
            groups.len() - 1
        });
        let group = &mut groups[index];
        let pairs = [
            (&mut group.baseline, sums.baseline),
            (&mut group.peak, sums.peak),
            (&mut group.end, sums.end),
            (&mut group.at, sums.at),
        ];
        for (total, part) in pairs {
            total.bytes = total.bytes.saturating_add(part.bytes);
            total.blocks += part.blocks;
        }
        group.allocations += sums.allocations;
        group.allocated_total = group.allocated_total.saturating_add(sums.allocated_total);
    }
    for group in &mut groups {
        if let Some(bucket) = group.bucket {
            bucket.label().clone_into(&mut group.label);
        }
    }
    // Of equal size, by name: keys are digests, whose order means nothing.
    groups.sort_by(|a, b| {
        let size = b.peak.bytes.cmp(&a.peak.bytes);
        size.then_with(|| a.label.cmp(&b.label)).then_with(|| a.key.cmp(&b.key))
    });
    groups
}

fn named(bucket: Bucket) -> (Key, Option<Bucket>, Option<StackId>) {
    (Key(bucket.label().to_owned()), Some(bucket), None)
}
