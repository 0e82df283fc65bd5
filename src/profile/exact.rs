//! What every single stack held, before stacks are put into groups. Every byte is attributed; what is unknown has
//! a name.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::DeviceProfile;
use super::highest::{Groups, Highest, highest};
use super::totals::{Bucket, Held, group};
use crate::replay::{Origin, Position, Replay};
use crate::snapshot::{Copier, Device, Frame, FrameId, Snapshot, StackId, StringId, Tables};
use crate::stack::{CppDigest, ExactKeys, GroupBy, Grouper};

/// To whom memory belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// A known stack.
    Stack(StackId),
    /// What is known in place of it.
    Bucket(Bucket),
}

impl Whose {
    /// The stack, where it is known.
    pub(super) fn stack(self) -> Option<StackId> {
        match self {
            Self::Stack(stack) => Some(stack),
            Self::Bucket(_) => None,
        }
    }
}

impl From<Origin> for Whose {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Stack(stack) => Self::Stack(stack),
            Origin::BeforeRecording => Self::Bucket(Bucket::BeforeRecording),
            Origin::NotRecorded => Self::Bucket(Bucket::NotRecorded),
            Origin::NoFrames => Self::Bucket(Bucket::NoFrames),
        }
    }
}

/// What was held at the moments that a profile knows, and what was allocated in the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) baseline: Held,
    pub(super) peak: Held,
    pub(super) end: Held,
    /// When the first allocation failed, if one did.
    pub(super) oom: Held,
    /// At the moment that was asked for.
    pub(super) at: Held,
    pub(super) allocations: u64,
    pub(super) allocated_total: u64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.baseline, other.baseline),
            (&mut self.peak, other.peak),
            (&mut self.end, other.end),
            (&mut self.oom, other.oom),
            (&mut self.at, other.at),
        ];
        for (sum, part) in pairs {
            *sum = sum.plus(part);
        }
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.allocated_total = self.allocated_total.saturating_add(other.allocated_total);
    }

    /// The most bytes at any of the moments.
    pub(super) fn largest(&self) -> u64 {
        [self.baseline, self.peak, self.end, self.oom, self.at].map(|held| held.bytes).into_iter().max().unwrap_or(0)
    }

    fn order(&self) -> impl Ord + use<> {
        Reverse((self.at.bytes, self.peak.bytes, self.allocated_total))
    }
}

/// What one stack held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) whose: Whose,
    /// The tag of its allocations, where they are told apart by one.
    pub(super) tag: Option<StringId>,
    /// The digest of its C++ frames, where it had more of them than it has now.
    pub(super) cpp: Option<CppDigest>,
    pub(super) sums: Sums,
    /// The most that it held, where that is known.
    pub(super) highest: Option<Highest>,
    /// The most that its group held, in the grouping that was asked for; of a saved profile in that by
    /// [`GroupBy::Stack`].
    pub(super) group_highest: Option<Highest>,
}

impl Exact {
    pub(super) fn new(whose: Whose, tag: Option<StringId>, sums: Sums) -> Self {
        Self { whose, tag, cpp: None, sums, highest: None, group_highest: None }
    }
}

/// What every stack held, the largest first, and the same by the tags of the allocations. Where no allocation has a
/// tag, the stacks say it all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) stacks: Vec<Exact>,
    pub(super) metadata: Option<Vec<Exact>>,
    pub(super) compile_contexts: Option<Vec<Exact>>,
}

impl Totals {
    /// What a grouping is made of.
    pub(super) fn of(&self, by: GroupBy) -> &[Exact] {
        self.kept(by).unwrap_or(&self.stacks)
    }

    /// The same, where it is kept by itself.
    pub(super) fn kept(&self, by: GroupBy) -> Option<&[Exact]> {
        match by {
            GroupBy::Metadata => self.metadata.as_deref(),
            GroupBy::CompileContext => self.compile_contexts.as_deref(),
            _ => Some(&self.stacks),
        }
    }

    fn of_mut(&mut self, by: GroupBy) -> &mut [Exact] {
        let tagged = match by {
            GroupBy::Metadata => self.metadata.as_mut(),
            GroupBy::CompileContext => self.compile_contexts.as_mut(),
            _ => None,
        };
        tagged.unwrap_or(&mut self.stacks)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Vec<Exact>> {
        let tagged = self.metadata.iter_mut().chain(&mut self.compile_contexts);
        std::iter::once(&mut self.stacks).chain(tagged)
    }

    /// Puts the largest first, and what is equally large in an order that only the contents decide: numbers of stacks
    /// differ between a snapshot and its saved profile.
    pub(super) fn sort(&mut self, tables: &Tables) {
        let mut keys = None;
        for family in self.all_mut() {
            family.sort_by_key(|exact| exact.sums.order());
            for equal in family.chunk_by_mut(|a, b| a.sums.order() == b.sums.order()).filter(|run| run.len() > 1) {
                let keys = keys.get_or_insert_with(|| ExactKeys::new(tables));
                equal.sort_by_cached_key(|exact| {
                    let (bucket, digest, forward) = match exact.whose {
                        Whose::Bucket(bucket) => (Some(bucket), None, None),
                        Whose::Stack(stack) => (None, Some(keys.of(stack, exact.cpp)), Some(forward(tables, stack))),
                    };
                    (bucket, digest, exact.tag.map(|tag| tables.string(tag)), forward)
                });
            }
        }
    }
}

/// The frames of the forward pass, by their contents.
fn forward(tables: &Tables, stack: StackId) -> Vec<(&str, &str, i128)> {
    let content = |&frame: &FrameId| {
        let Frame { name, filename, line, .. } = *tables.frame(frame);
        (tables.string(name), tables.string(filename), line)
    };
    tables.forward(stack).iter().map(content).collect()
}

/// The tags that allocations are told apart by: metadata and compile context.
type Wanted = [Option<StringId>; 2];

/// Sums by where memory comes from and its tags.
struct Parts {
    /// Where in `sums` those of a stack are that have no tags: nearly all, where there are enough for a table.
    stacks: Vec<Option<u32>>,
    others: FxHashMap<(Origin, Wanted), u32>,
    sums: Vec<(Origin, Wanted, Sums)>,
}

impl Parts {
    /// The number of a part, which is a new one where there is none yet.
    fn number(&mut self, origin: Origin, tags: Wanted) -> u32 {
        // There are at most as many as allocations, which have 32 bits.
        let next = u32::try_from(self.sums.len()).unwrap_or(u32::MAX);
        let in_table = match origin {
            Origin::Stack(stack) if tags == Wanted::default() => self.stacks.get_mut(stack.index()),
            _ => None,
        };
        let at = match in_table {
            Some(at) => *at.get_or_insert(next),
            None => *self.others.entry((origin, tags)).or_insert(next),
        };
        if at == next {
            self.sums.push((origin, tags, Sums::default()));
        }
        at
    }
}

/// Adds up the allocations of a device at the moments.
pub(super) fn totals(
    snapshot: &Snapshot,
    device: &Device,
    replay: &Replay,
    at: Option<Position>,
    grouper: &Grouper<'_>,
) -> Totals {
    let oom = replay.figures.first_oom();
    // What is not known is never.
    let moments = [Some(Position::START), replay.figures.allocated.peak_at, Some(replay.dump), oom, at]
        .map(|moment| moment.unwrap_or(Position::NEVER));
    let events = snapshot.events_of(device);
    let all_tags = snapshot.tables.all_tags().iter().map(|tags| [tags.user_metadata, tags.compile_context]);
    let all_tags: Vec<Wanted> = all_tags.collect();
    let tagged = all_tags.iter().any(|tags| *tags != Wanted::default());
    // Not a table for each of many devices that hold next to nothing.
    let stacks = Some(snapshot.tables.stack_count()).filter(|&count| count <= replay.allocations.len());
    let stacks = vec![None; stacks.unwrap_or(0)];
    let mut parts = Parts { stacks, others: FxHashMap::default(), sums: Vec::new() };
    let mut part_of = Vec::with_capacity(replay.allocations.len());
    for allocation in &replay.allocations {
        let recorded = allocation.born != Position::START && allocation.born != replay.dump;
        let event = allocation.born.event().filter(|_| recorded && tagged);
        let event = event.and_then(|index| events.get(index as usize));
        let tags = event.map(|event| all_tags[event.tags.index()]).unwrap_or_default();
        let part = parts.number(allocation.origin(snapshot), tags);
        part_of.push(part);
        let sums = &mut parts.sums[part as usize].2;
        let held = [&mut sums.baseline, &mut sums.peak, &mut sums.end, &mut sums.oom, &mut sums.at];
        for (held, moment) in held.into_iter().zip(moments) {
            if allocation.allocated_at(moment) {
                *held = held.plus(Held { bytes: allocation.bytes, blocks: 1 });
            }
        }
        if recorded {
            sums.allocations += 1;
            sums.allocated_total = sums.allocated_total.saturating_add(allocation.bytes);
        }
    }
    let family = |tag: fn(Wanted) -> Option<StringId>| -> Vec<Exact> {
        let parts = parts.sums.iter().map(|(origin, tags, sums)| ((Whose::from(*origin), tag(*tags)), sums));
        merged(parts).into_iter().map(|((whose, tag), sums)| Exact::new(whose, tag, sums)).collect()
    };
    let tagged = |tag: fn(Wanted) -> Option<StringId>| {
        parts.sums.iter().any(|&(_, tags, _)| tag(tags).is_some()).then(|| family(tag))
    };
    let mut totals = Totals {
        metadata: tagged(|[metadata, _]| metadata),
        compile_contexts: tagged(|[_, context]| context),
        stacks: family(|_| None),
    };
    let mut by_whose = Numbers::default();
    let mut by_key = Numbers::default();
    let mut group_of = FxHashMap::default();
    for &(origin, tags, _) in &parts.sums {
        let whose = Whose::from(origin);
        let tag = tag_of(tags, grouper.by());
        by_whose.push(whose);
        let group = by_key.push(group(whose, tag, None, grouper).0);
        group_of.insert((whose, tag), group);
    }
    let [of_stacks, of_groups] = highest(replay, &part_of, [&by_whose.groups, &by_key.groups]);
    for exact in &mut totals.stacks {
        exact.highest = by_whose.numbers.get(&exact.whose).map(|&group| of_stacks[group as usize]);
    }
    for exact in totals.of_mut(grouper.by()) {
        exact.group_highest = group_of.get(&(exact.whose, exact.tag)).map(|&group| of_groups[group as usize]);
    }
    totals
}

/// Groups by a key, numbered as they come.
struct Numbers<K> {
    numbers: FxHashMap<K, u32>,
    groups: Groups,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), groups: Groups::default() }
    }
}

impl<K: Eq + Hash> Numbers<K> {
    /// The group of one more part.
    fn push(&mut self, key: K) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let group = *self.numbers.entry(key).or_insert(next);
        self.groups.of_part.push(group);
        self.groups.count = self.numbers.len();
        group
    }
}

/// The tag that a grouping goes by.
fn tag_of([metadata, compile_context]: Wanted, by: GroupBy) -> Option<StringId> {
    match by {
        GroupBy::Metadata => metadata,
        GroupBy::CompileContext => compile_context,
        _ => None,
    }
}

/// Adds up what has the same key, in no order.
pub(super) fn merged<'s, K: Eq + Hash>(parts: impl Iterator<Item = (K, &'s Sums)>) -> FxHashMap<K, Sums> {
    let mut sums: FxHashMap<K, Sums> = FxHashMap::default();
    for (key, part) in parts {
        sums.entry(key).or_default().add(part);
    }
    sums
}

/// The tables with nothing but what the totals refer to, which then refer to those: a profile is small although the
/// snapshot is not, and is the same whether it comes from the snapshot or from a file that it was saved to.
pub(super) fn compact(from: &Tables, devices: &mut [DeviceProfile]) -> Tables {
    let mut to = Tables::default();
    let mut copy = Copier::new(from, &mut to);
    for device in devices {
        device.totals.sort(from);
        for exact in device.totals.all_mut().flatten() {
            if let Whose::Stack(stack) = &mut exact.whose {
                *stack = copy.stack(*stack);
            }
            exact.tag = exact.tag.map(|tag| copy.string(tag));
        }
        if let Some(course) = &mut device.course {
            course.renumber(|stack| copy.stack(stack));
        }
        device.copy_failed_stacks(&mut copy);
    }
    to
}
