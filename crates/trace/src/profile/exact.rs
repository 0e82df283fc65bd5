//! The totals of every class, before they are put into groups. Every byte is attributed; unknown memory has a name.

use rustc_hash::FxHashMap;

use super::DeviceProfile;
use super::totals::{Held, Sums};
use crate::replay::{Figures, Origin, Position};
use crate::snapshot::{Copier, StackId, StringId, Tables};
use crate::stack::{CppDigest, ExactKeys, GroupBy};
use crate::trace::{Class, Trace};

/// The totals of every class of a trace. `at` is the moment that was asked for.
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
            let tag = class.tags.of(by);
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let place = *known.entry((class.origin, class.cpp, tag)).or_insert(next);
            if place == next {
                all.push(Exact { origin: class.origin, tag, cpp: class.cpp, sums: Sums::default() });
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
            class.tags = class.tags.map(|tag| copy.string(*tag));
        }
        device.copy_failed_stacks(&mut copy);
    }
    to
}
