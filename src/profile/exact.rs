//! The totals of every single stack, before stacks are put into groups. Every byte is attributed; unknown memory has
//! a name.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::DeviceProfile;
use super::highest::{Groups, Highest, Holding, Holdings};
use super::origins::Origins;
use super::totals::{Bucket, Grouping, Held, StackTotal, keep_highest};
use crate::replay::{Allocation, Origin, Position, Replay};
use crate::snapshot::{Copier, Device, Event, Snapshot, StackId, StringId, Tables};
use crate::stack::{CppDigest, ExactKeys, GroupBy, Grouper};

/// The owner of some memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Attribution {
    /// A known stack.
    Stack(StackId),
    /// The bucket in place of an unknown stack.
    Bucket(Bucket),
}

impl Attribution {
    /// The stack, where it is known.
    pub(crate) fn stack(self) -> Option<StackId> {
        match self {
            Self::Stack(stack) => Some(stack),
            Self::Bucket(_) => None,
        }
    }
}

impl From<Origin> for Attribution {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Stack(stack) => Self::Stack(stack),
            Origin::BeforeRecording => Self::Bucket(Bucket::BeforeRecording),
            Origin::NotRecorded => Self::Bucket(Bucket::NotRecorded),
            Origin::NoFrames => Self::Bucket(Bucket::NoFrames),
        }
    }
}

/// Memory that was held at the moments that a profile knows, and that was allocated in the history.
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

/// The totals of one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) attribution: Attribution,
    /// The tag of its allocations, where they are told apart by one.
    pub(super) tag: Option<StringId>,
    /// The digest of all its C++ frames, where some of them were dropped.
    pub(super) cpp: Option<CppDigest>,
    pub(super) sums: Sums,
    /// The most that it held, where that is known.
    pub(super) highest: Option<Highest>,
    /// The most that its group held in the grouping by [`GroupBy::Stack`], where the group has other stacks as well and
    /// this is its first.
    pub(super) group_highest: Option<Highest>,
}

impl Exact {
    pub(super) fn new(attribution: Attribution, tag: Option<StringId>, sums: Sums) -> Self {
        Self { attribution, tag, cpp: None, sums, highest: None, group_highest: None }
    }
}

/// The totals of every stack, the largest first, and the same by the tags of the allocations; `None` where no
/// allocation has such a tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) stacks: Vec<Exact>,
    pub(super) metadata: Option<Vec<Exact>>,
    pub(super) compile_contexts: Option<Vec<Exact>>,
    /// By annotation or pool, whichever was asked for; no saved profile has it.
    pub(super) origins: Option<Vec<Exact>>,
}

impl Totals {
    /// The totals that a grouping is made of.
    pub(super) fn of(&self, by: GroupBy) -> &[Exact] {
        self.kept(by).unwrap_or(&self.stacks)
    }

    /// The same, where it is kept by itself.
    pub(super) fn kept(&self, by: GroupBy) -> Option<&[Exact]> {
        match by {
            GroupBy::Metadata => self.metadata.as_deref(),
            GroupBy::CompileContext => self.compile_contexts.as_deref(),
            GroupBy::Annotation | GroupBy::Module | GroupBy::Pool => self.origins.as_deref(),
            _ => Some(&self.stacks),
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Vec<Exact>> {
        let tagged = self.metadata.iter_mut().chain(&mut self.compile_contexts).chain(&mut self.origins);
        std::iter::once(&mut self.stacks).chain(tagged)
    }

    /// Puts the largest first, and equally large ones in an order that only their contents decide: numbers of stacks
    /// differ between a snapshot and its saved profile.
    pub(super) fn sort(&mut self, tables: &Tables) {
        let mut keys = None;
        for family in self.all_mut() {
            family.sort_by_key(|exact| exact.sums.order());
            for equal in family.chunk_by_mut(|a, b| a.sums.order() == b.sums.order()).filter(|run| run.len() > 1) {
                let keys = keys.get_or_insert_with(|| ExactKeys::new(tables));
                equal.sort_by_cached_key(|exact| {
                    let tag = exact.tag.map(|tag| tables.string(tag));
                    match exact.attribution {
                        Attribution::Bucket(bucket) => (Some(bucket), None, tag, None),
                        Attribution::Stack(stack) => {
                            (None, Some(keys.of(stack, exact.cpp)), tag, Some(forward(tables, stack)))
                        }
                    }
                });
            }
        }
    }
}

/// The frames of the forward pass, by their contents.
fn forward(tables: &Tables, stack: StackId) -> Vec<(&str, &str, i128)> {
    let frames = tables.forward(stack).iter().map(|&frame| tables.frame(frame));
    frames.map(|frame| (tables.string(frame.name), tables.string(frame.filename), frame.line)).collect()
}

/// The tags that allocations are told apart by: metadata, compile context, and annotation or pool where one is asked
/// for.
type Wanted = [Option<StringId>; 3];

/// Picks one of the tags.
type Tag = fn(Wanted) -> Option<StringId>;

/// Sums by origin and tags.
struct Parts<'s> {
    snapshot: &'s Snapshot,
    events: &'s [Event],
    /// Group names from annotations or pools.
    origins: &'s Origins,
    /// By [`TagsId::index`](crate::snapshot::TagsId::index); empty where no allocation is tagged.
    tags: Vec<Wanted>,
    /// The moments of the sums.
    moments: [Position; 5],
    dump: Position,
    /// The places in `sums` of stacks without tags: nearly all. Empty where a table would not pay.
    stacks: Vec<Option<u32>>,
    others: FxHashMap<(Origin, Wanted), u32>,
    sums: Vec<(Origin, Wanted, Sums)>,
}

impl<'s> Parts<'s> {
    fn new(
        snapshot: &'s Snapshot,
        device: &Device,
        moments: [Position; 5],
        dump: Position,
        allocations: usize,
        origins: &'s Origins,
    ) -> Self {
        let tags = snapshot.tables.all_tags().iter().map(|tags| [tags.user_metadata, tags.compile_context, None]);
        let mut tags: Vec<Wanted> = tags.collect();
        if tags.iter().all(|tags| *tags == Wanted::default()) {
            tags.clear();
        }
        // A table does not pay for devices that hold next to nothing, of which there may be many.
        let stacks = Some(snapshot.tables.stack_count()).filter(|&count| count <= allocations);
        Self {
            snapshot,
            events: snapshot.events_of(device),
            origins,
            tags,
            moments,
            dump,
            stacks: vec![None; stacks.unwrap_or(0)],
            others: FxHashMap::default(),
            sums: Vec::new(),
        }
    }

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

    /// The tags of the event that an allocation was recorded by.
    fn tags(&self, allocation: &Allocation) -> Wanted {
        let event = allocation.born.event().filter(|_| !self.tags.is_empty());
        let event = event.and_then(|index| self.events.get(index as usize));
        event.map(|event| self.tags[event.tags.index()]).unwrap_or_default()
    }

    /// Adds an allocation to the sums of its part.
    fn add(&mut self, allocation: &Allocation) -> Option<Holding> {
        let recorded = allocation.born != Position::START && allocation.born != self.dump;
        let mut tags = if recorded { self.tags(allocation) } else { Wanted::default() };
        let event = allocation.born.event().filter(|_| recorded);
        let event = event.and_then(|index| self.events.get(index as usize));
        tags[2] = self.origins.name(allocation, event, self.snapshot);
        let part = self.number(allocation.origin(self.snapshot), tags);
        let sums = &mut self.sums[part as usize].2;
        let held = [&mut sums.baseline, &mut sums.peak, &mut sums.end, &mut sums.oom, &mut sums.at];
        for (held, moment) in held.into_iter().zip(self.moments) {
            if allocation.allocated_at(moment) {
                *held = held.plus(Held { bytes: allocation.bytes, blocks: 1 });
            }
        }
        if recorded {
            sums.allocations += 1;
            sums.allocated_total = sums.allocated_total.saturating_add(allocation.bytes);
        }
        Holding::new(allocation, part)
    }

    /// The totals of every stack, the largest first.
    fn totals(&self) -> Totals {
        let mut totals = Totals {
            metadata: self.tagged(|[metadata, ..]| metadata),
            compile_contexts: self.tagged(|[_, context, _]| context),
            origins: self.tagged(|[.., origin]| origin),
            stacks: self.family(|_| None),
        };
        totals.sort(&self.snapshot.tables);
        totals
    }

    /// The same with the stacks told apart by a tag; `None` where no allocation has it.
    fn tagged(&self, tag: Tag) -> Option<Vec<Exact>> {
        self.sums.iter().any(|&(_, tags, _)| tag(tags).is_some()).then(|| self.family(tag))
    }

    fn family(&self, tag: Tag) -> Vec<Exact> {
        let parts = self.sums.iter().map(|(origin, tags, sums)| ((Attribution::from(*origin), tag(*tags)), sums));
        merged(parts).into_iter().map(|((attribution, tag), sums)| Exact::new(attribution, tag, sums)).collect()
    }

    /// The parts that each of the totals is made of.
    fn members(&self, totals: &[Exact], tag: Tag) -> Groups {
        let places = (0_u32..).zip(totals).map(|(place, exact)| ((exact.attribution, exact.tag), place));
        let places: FxHashMap<_, u32> = places.collect();
        let of_part = self.sums.iter().map(|&(origin, tags, _)| places[&(Attribution::from(origin), tag(tags))]);
        Groups { of_part: of_part.collect(), count: totals.len() }
    }
}

/// The totals of a device, and those of its groups.
pub(super) struct GroupedTotals {
    pub(super) totals: Totals,
    pub(super) stacks: Vec<StackTotal>,
}

/// The totals of a device, and its allocations by the parts that they belong to.
pub(super) struct Attributed {
    pub(super) totals: Totals,
    pub(super) holdings: Holdings,
    /// The parts of each of [`Totals::stacks`].
    stacks: Groups,
    /// The parts of each of the totals that the grouping is made of.
    members: Groups,
}

impl Attributed {
    /// Puts the totals into groups with the most that each held, and keeps the most that each stack held.
    pub(super) fn into_groups(mut self, grouper: &Grouper<'_>) -> GroupedTotals {
        let mut grouping = Grouping::new(self.totals.of(grouper.by()), grouper, 0);
        let groups = self.members.merged(&grouping.of_exact, grouping.totals.len());
        let [of_stacks, of_groups] = self.holdings.highest([&self.stacks, &groups]);
        for (exact, highest) in self.totals.stacks.iter_mut().zip(of_stacks) {
            exact.highest = Some(highest);
        }
        for (total, highest) in grouping.totals.iter_mut().zip(of_groups) {
            total.highest = Some(highest);
        }
        let stacks = grouping.finish(grouper);
        keep_highest(&stacks, &mut self.totals.stacks, grouper.by());
        GroupedTotals { totals: self.totals, stacks }
    }
}

/// Adds up the allocations of a device at the moments. They are taken out of the replay.
pub(super) fn attribute(
    snapshot: &Snapshot,
    device: &Device,
    replay: &mut Replay,
    at: Option<Position>,
    by: GroupBy,
    origins: &Origins,
) -> Attributed {
    let figures = &replay.figures;
    // An unknown moment is never.
    let moments = [Some(Position::START), figures.allocated.peak_at, Some(replay.dump), figures.first_oom(), at]
        .map(|moment| moment.unwrap_or(Position::NEVER));
    let allocations = std::mem::take(&mut replay.allocations);
    let mut parts = Parts::new(snapshot, device, moments, replay.dump, allocations.len(), origins);
    let mut holdings: Vec<Holding> = allocations.into_iter().filter_map(|allocation| parts.add(&allocation)).collect();
    holdings.shrink_to_fit();
    let totals = parts.totals();
    let stacks = parts.members(&totals.stacks, |_| None);
    let members = match by {
        GroupBy::Metadata => parts.members(totals.of(by), |[metadata, ..]| metadata),
        GroupBy::CompileContext => parts.members(totals.of(by), |[_, context, _]| context),
        GroupBy::Annotation | GroupBy::Module | GroupBy::Pool => parts.members(totals.of(by), |[.., origin]| origin),
        _ => parts.members(&totals.stacks, |_| None),
    };
    Attributed { totals, holdings: Holdings::new(holdings, replay.dump), stacks, members }
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
pub(super) fn compact(from: &Tables, devices: &mut [DeviceProfile], totals: &mut [Attributed]) -> Tables {
    let mut to = Tables::default();
    let mut copy = Copier::new(from, &mut to);
    for (device, Attributed { totals, .. }) in devices.iter_mut().zip(totals) {
        for exact in totals.all_mut().flatten() {
            if let Attribution::Stack(stack) = &mut exact.attribution {
                *stack = copy.stack(*stack);
            }
            exact.tag = exact.tag.map(|tag| copy.string(tag));
        }
        if let Some(course) = &mut device.course {
            course.renumber(|stack| copy.stack(stack));
        }
        if let Some(lifetimes) = &mut device.lifetimes {
            lifetimes.renumber(|stack| copy.stack(stack));
        }
        device.copy_failed_stacks(&mut copy);
    }
    to
}
