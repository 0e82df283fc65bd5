//! Who holds the memory: totals by stack. Every byte is attributed; what is unknown has a name.

use std::cmp::Reverse;
use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::replay::{Origin, Position, Replay};
use crate::snapshot::{Device, Snapshot, StackId, StringId};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Held {
    /// Allocated bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    /// Mean size of a block in bytes, rounded down; 0 where there is none.
    #[must_use]
    pub fn mean(self) -> u64 {
        self.bytes.checked_div(self.blocks).unwrap_or(0)
    }

    fn add(&mut self, bytes: u64) {
        // The sum is at most the allocated bytes of that moment, which fit.
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += 1;
    }
}

/// What one exact stack of a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The stack.
    pub stack: StackId,
    /// Held at the moment that was asked for.
    pub at: Held,
}

/// The allocations of one group of stacks.
#[derive(Debug, Clone)]
pub struct StackTotal {
    /// What it is called: after the stack of the group that holds most at the moment that was asked for.
    pub label: String,
    /// What it is compared by.
    pub key: Key,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The stacks of the group, the largest at the moment that was asked for first.
    pub members: Vec<Member>,
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

impl StackTotal {
    /// The stack that stands for the group.
    #[must_use]
    pub fn stack(&self) -> Option<StackId> {
        self.members.first().map(|member| member.stack)
    }
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
    device: &Device,
    grouper: &Grouper<'_>,
    replay: &Replay,
    at: Option<Position>,
) -> Vec<StackTotal> {
    // By exact stack first: there are few of them, and a group is worked out once for each.
    let mut exact: FxHashMap<(Origin, Option<StringId>), Sums> = FxHashMap::default();
    let moments = [Some(Position::START), replay.figures.allocated.peak_at, Some(replay.dump), at];
    let events = snapshot.events_of(device);
    for allocation in &replay.allocations {
        let recorded = allocation.born != Position::START && allocation.born != replay.dump;
        let event = allocation.born.event().filter(|_| recorded).and_then(|index| events.get(index as usize));
        let tag = event.and_then(|event| grouper.by().tag(snapshot.tables.tags(event.tags)));
        let sums = exact.entry((allocation.origin(snapshot), tag)).or_default();
        let held = [&mut sums.baseline, &mut sums.peak, &mut sums.end, &mut sums.at];
        for (held, moment) in held.into_iter().zip(moments) {
            if moment.is_some_and(|moment| allocation.allocated_at(moment)) {
                held.add(allocation.bytes);
            }
        }
        if recorded {
            sums.allocations += 1;
            sums.allocated_total = sums.allocated_total.saturating_add(allocation.bytes);
        }
    }
    let mut exact: Vec<_> = exact.into_iter().collect();
    // The first of a group is its representative.
    exact.sort_by_key(|&(origin, sums)| (Reverse((sums.at.bytes, sums.peak.bytes, sums.allocated_total)), origin));

    let mut groups: Vec<StackTotal> = Vec::new();
    let mut by_key: HashMap<Key, usize> = HashMap::new();
    for ((origin, tag), sums) in exact {
        let (key, bucket, stack) = match origin {
            Origin::Stack(stack) if grouper.by().is_tag() => (grouper.tagged(tag).0, None, Some(stack)),
            Origin::Stack(stack) => (grouper.key(stack), None, Some(stack)),
            // What is tagged has a group even without frames.
            Origin::NoFrames if grouper.by().is_tag() => (grouper.tagged(tag).0, None, None),
            Origin::NoFrames => named(Bucket::NoFrames),
            Origin::BeforeRecording => named(Bucket::BeforeRecording),
            Origin::NotRecorded => named(Bucket::NotRecorded),
        };
        let index = *by_key.entry(key).or_insert_with_key(|key| {
            let label = match (bucket, stack) {
                (Some(bucket), _) => bucket.label().to_owned(),
                (None, Some(stack)) if !grouper.by().is_tag() => grouper.label(stack),
                (None, _) => grouper.tagged(tag).1,
            };
            groups.push(StackTotal {
                label,
                key: key.clone(),
                bucket,
                members: Vec::new(),
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
        group.members.extend(stack.map(|stack| Member { stack, at: sums.at }));
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
