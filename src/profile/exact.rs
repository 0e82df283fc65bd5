//! The totals of every class, before they are put into groups. Every byte is attributed; unknown memory has a name.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::DeviceProfile;
use super::totals::{Bucket, Held, Member};
use crate::replay::{Figures, Origin, Position};
use crate::snapshot::{Copier, StackId, StringId, Tables};
use crate::stack::{CppDigest, ExactKeys, GroupBy};
use crate::trace::{Class, Trace};

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

impl Attribution {
    /// The bucket, where the stack is not known.
    pub(super) fn bucket(self) -> Option<Bucket> {
        match self {
            Self::Stack(_) => None,
            Self::Bucket(bucket) => Some(bucket),
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
            Origin::Others => Self::Bucket(Bucket::Others),
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
    /// Bytes that were asked for of those; 0 where a saved profile does not say.
    pub(super) requested: u64,
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
        self.requested = self.requested.saturating_add(other.requested);
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.allocated_total = self.allocated_total.saturating_add(other.allocated_total);
    }

    /// One stack of a group, with what it holds.
    pub(super) fn of_member(&self, stack: StackId) -> Member {
        Member { stack, at: self.at, requested: self.requested, oom: self.oom }
    }

    /// The most bytes at any of the moments.
    pub(super) fn largest(&self) -> u64 {
        [self.baseline, self.peak, self.end, self.oom, self.at].map(|held| held.bytes).into_iter().max().unwrap_or(0)
    }

    fn order(&self) -> impl Ord + use<> {
        Reverse((self.at.bytes, self.peak.bytes, self.allocated_total))
    }
}

/// The totals of every class of a trace. `at` is the moment that was asked for.
pub(super) fn sums(trace: &Trace, figures: &Figures, at: Option<Position>) -> Vec<Sums> {
    let moments = [Some(Position::START), figures.allocated.peak_at, Some(trace.dump()), figures.first_oom(), at];
    let blocks = moments.map(|moment| moment.map(|moment| trace.blocks_at(moment)).unwrap_or_default());
    let times = trace.times_before(trace.end());
    let mut allocations = vec![0_u64; trace.classes.len()];
    for (block, &times) in trace.moves.iter().zip(&times).filter_map(|(one, times)| Some((one.begins()?, times))) {
        allocations[block.class as usize] += times;
    }
    let sums = trace.classes.iter().zip(allocations).enumerate().map(|(class, (of, allocations))| {
        let [baseline, peak, end, oom, at] = blocks.each_ref().map(|blocks| {
            let blocks = blocks.get(class).copied().unwrap_or(0);
            Held { bytes: of.bytes.saturating_mul(blocks), blocks }
        });
        let requested = of.requested.saturating_mul(at.blocks);
        let allocated_total = of.bytes.saturating_mul(allocations);
        Sums { baseline, peak, end, oom, at, requested, allocations, allocated_total }
    });
    sums.collect()
}

/// The totals of one stack, or of one stack with one tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) attribution: Attribution,
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
            let tag = class.tags.of(by);
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let place = *known.entry((class.origin, class.cpp, tag)).or_insert(next);
            if place == next {
                all.push(Exact { attribution: class.origin.into(), tag, cpp: class.cpp, sums: Sums::default() });
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
                match exact.attribution {
                    Attribution::Bucket(bucket) => (Some(bucket), None, tag, None),
                    Attribution::Stack(stack) => {
                        (None, Some(keys.of(stack, exact.cpp)), tag, Some(forward(tables, stack)))
                    }
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

/// The tables with nothing but what the classes refer to, which then refer to those: a profile is small although the
/// snapshot is not, and is the same whether it comes from the snapshot or from a file that it was saved to.
pub(super) fn compact(from: &Tables, devices: &mut [DeviceProfile]) -> Tables {
    let mut to = Tables::default();
    let mut copy = Copier::new(from, &mut to);
    for device in devices {
        for class in &mut device.trace.classes {
            if let Origin::Stack(stack) = &mut class.origin {
                *stack = copy.stack(*stack);
            }
            class.tags.all_mut().for_each(|tag| *tag = copy.string(*tag));
        }
        device.copy_failed_stacks(&mut copy);
    }
    to
}
