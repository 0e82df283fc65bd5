//! The parts of one history that another one lacks: its head, because the ring buffer dropped the oldest events or the
//! recording began later, or its tail, because the recording ended earlier.
//!
//! Nearly the same program runs the same course. Where a head is cut off, the stacks of the rest occur as often as in
//! the same rest of the other side, those of the head less often or never, and what was held at the cut is a baseline
//! that the other side lacks. A change to the code shows otherwise: it spreads over the layers and the steps, replaces
//! what it removes, and leaves the baseline alone. Fewer steps or layers of the same kind are no missing part while one
//! is whole.
//!
//! Where few stacks make all allocations, as where a recording has no frames, their order tells nothing. The sizes that
//! they ask for take the place of stacks then; if these differ as well, it is not known whether a part is missing.
//!
//! [`Correspondence`] answers another question: which allocation of one history is which of the other.

mod comparison;
mod correspondence;
mod cut;
mod numbers;
mod order;
mod parts;
mod rest;
mod steps;
mod written;

use std::collections::HashMap;

use crate::profile::course::{BySize, Course, Folded, Grouped};
use crate::profile::{DeviceProfile, StackTotal};
use crate::sides::{Side, Sides};
use crate::stack::{GroupBy, Grouper, Paired};
use comparison::{Answer, Comparison, Found, Lacks};
pub use correspondence::{Correspondence, corresponding_allocation};
use numbers::ratio;
use parts::Sequence;

/// Fewer stacks than these tell nothing by their order.
const LEAST_STACKS: usize = 4;

/// The least share of the allocations of the shorter history whose sizes the other one knows too, if sizes are to tell.
const LEAST_SHARED: f64 = 0.5;

/// Histories whose lengths differ by no more than the longer one divided by this lack no part.
const SHORTEST_PART: u64 = 20;

/// An end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

/// A part of a recording that is missing on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Where it is missing.
    pub side: Side,
    /// Which part.
    pub end: End,
    /// Its share of the allocations of the other side, or of one of its steps, in thousandths.
    pub share: u64,
    /// True if it is the share of one step.
    pub of_step: bool,
}

/// Facts about one side.
#[derive(Debug)]
pub struct Run<'c> {
    /// Its course.
    pub course: &'c Course,
    /// The course by groups of stacks, as [`Course::grouped`] has it.
    pub grouped: Grouped,
    /// Its groups.
    pub totals: &'c [StackTotal],
    /// True if the state at the dump is that at the end of the history.
    pub ends_at_dump: bool,
}

impl<'c> Run<'c> {
    /// One side; `grouper` groups by [`GroupBy::Stack`], and so do the totals.
    #[must_use]
    pub fn new(course: &'c Course, device: &DeviceProfile, totals: &'c [StackTotal], grouper: &Grouper<'_>) -> Self {
        debug_assert_eq!(grouper.by(), GroupBy::Stack);
        Self { course, grouped: course.grouped(grouper), totals, ends_at_dump: device.figures.checks.end_matches }
    }
}

/// The result of looking for missing parts.
#[derive(Debug, Default)]
pub struct Parts {
    /// The parts that one of the recordings lacks.
    pub missing: Vec<Missing>,
    /// The reason why one may lack a part that is not found.
    pub unclear: Option<Unclear>,
}

/// The reason why it is not known whether a side lacks a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// The stacks are few, and the sizes differ.
    Unlike,
    /// All allocations of this side are, one by one, those at an end of the other: its recording or its program is
    /// shorter.
    Rest(Side),
    /// This side has too few allocations to be compared.
    Short(Side),
}

/// The parts that one of two recordings lacks. `pairs` are the groups of both that are the same ones.
#[must_use]
pub fn missing(runs: &Sides<Run<'_>>, pairs: &Paired) -> Parts {
    let mut parts = by_stack_or_size(runs, pairs);
    if parts.missing.is_empty() && parts.unclear.is_none() {
        parts.unclear = too_short(runs).map(Unclear::Short);
    }
    parts
}

fn by_stack_or_size(runs: &Sides<Run<'_>>, pairs: &Paired) -> Parts {
    let parts = parts_of(runs, &in_common(runs, pairs));
    let stacks = runs.map(|run| run.grouped.keys.len());
    if !parts.missing.is_empty() || stacks.before.min(stacks.after) >= LEAST_STACKS {
        return parts;
    }
    let Some(common) = in_common_by_size(runs, pairs).filter(are_alike) else {
        return Parts { unclear: may_lack_a_part(runs).then_some(Unclear::Unlike), ..Parts::default() };
    };
    let mut parts = parts_of(runs, &common);
    // Sizes alone change more easily than stacks.
    parts.missing.retain(|part| part.share >= 1000 / SHORTEST_PART);
    parts
}

fn parts_of(runs: &Sides<Run<'_>>, common: &Sides<Common>) -> Parts {
    let sequences = common.map(|side| Sequence::new(&side.sequence));
    let sizes = common.map(|side| &side.sizes);
    let mut parts = Parts::default();
    for side in Side::BOTH {
        let other = side.other();
        let one = Found { run: runs.of(side), sequence: sequences.of(side), sizes: sizes.of(side) };
        let whole = Found { run: runs.of(other), sequence: sequences.of(other), sizes: sizes.of(other) };
        let answers = [End::Head, End::Tail].map(|end| Comparison::new(&one, &whole, end)?.answer());
        let mut larger: Option<Lacks> = None;
        for answer in answers.into_iter().flatten() {
            match answer {
                // If a side seems to lack both, keep the larger.
                Answer::Lacks(lacks) if larger.as_ref().is_none_or(|larger| larger.share <= lacks.share) => {
                    larger = Some(lacks);
                }
                Answer::Lacks(_) => {}
                Answer::Unclear => parts.unclear = Some(Unclear::Rest(side)),
            }
        }
        parts.missing.extend(larger.map(|Lacks { end, share, of_step }| Missing { side, end, share, of_step }));
    }
    parts.unclear = parts.unclear.filter(|_| parts.missing.is_empty());
    parts
}

/// True if the sizes of both sides are the same often enough to tell which allocations correspond.
fn are_alike(common: &Sides<Common>) -> bool {
    let counts = common.map(|side| Sequence::new(&side.sequence).counts());
    let lengths = counts.map(|counts| counts.values().fold(0, |sum, count| u64::saturating_add(sum, *count)));
    let shorter = if lengths.before <= lengths.after { Side::Before } else { Side::After };
    let known = counts.of(shorter.other());
    let shared = counts.of(shorter).iter().filter(|(symbol, _)| known.contains_key(symbol)).map(|(_, count)| *count);
    ratio(shared.fold(0, u64::saturating_add), *lengths.of(shorter)) >= LEAST_SHARED
}

/// The side that has so few allocations that any program may begin or end with them.
fn too_short(runs: &Sides<Run<'_>>) -> Option<Side> {
    let lengths = runs.map(|run| run.course.sequence.length());
    let is_course = lengths.before.max(lengths.after) >= comparison::LEAST_ALLOCATIONS;
    let shorter = if lengths.before <= lengths.after { Side::Before } else { Side::After };
    (is_course && *lengths.of(shorter) < rest::LEAST_ALLOCATIONS as u64).then_some(shorter)
}

/// True if one history is shorter than the other by more than a change to the code explains.
fn may_lack_a_part(runs: &Sides<Run<'_>>) -> bool {
    let lengths = runs.map(|run| run.course.sequence.length());
    let longer = lengths.before.max(lengths.after);
    longer >= comparison::LEAST_ALLOCATIONS && lengths.before.abs_diff(lengths.after) > longer / SHORTEST_PART
}

/// A sequence in symbols that both sides share, and the mean size of the allocations of each.
struct Common {
    sequence: Folded,
    sizes: HashMap<u32, f64>,
}

/// Gives groups that are the same one symbol on both sides.
fn in_common(runs: &Sides<Run<'_>>, pairs: &Paired) -> Sides<Common> {
    let mut names = Names::new(runs, pairs);
    Sides { before: names.common(Side::Before, &runs.before), after: names.common(Side::After, &runs.after) }
}

/// Gives allocations of the same group and size one symbol on both sides. `None` where a side does not tell sizes.
fn in_common_by_size(runs: &Sides<Run<'_>>, pairs: &Paired) -> Option<Sides<Common>> {
    let by_size = runs.map(|run| run.grouped.by_size.as_ref()).both()?;
    let mut names = Names::new(runs, pairs);
    let mut classes = HashMap::new();
    let mut common = Vec::with_capacity(2);
    for side in Side::BOTH {
        let groups = names.symbols(side, runs.of(side));
        let BySize { classes: own, sequence } = *by_size.of(side);
        let mut symbols = Vec::with_capacity(own.len());
        let mut sizes = HashMap::new();
        for class in own {
            let next = u32::try_from(classes.len()).unwrap_or(u32::MAX);
            let symbol = *classes.entry((groups[class.symbol as usize], class.bytes)).or_insert(next);
            sizes.insert(symbol, ratio(class.bytes, 1));
            symbols.push(symbol);
        }
        common.push(Common { sequence: sequence.renamed(|class| symbols[class as usize]), sizes });
    }
    let after = common.pop()?;
    Some(Sides { before: common.pop()?, after })
}

/// The names that groups of stacks have in common, and a symbol for each.
struct Names<'r> {
    /// The groups of both sides.
    totals: Sides<&'r [StackTotal]>,
    /// The place of each group among those, by its key.
    places: Sides<HashMap<&'r str, usize>>,
    /// The group of the before that each of the after is, or is a part of.
    partners: HashMap<usize, usize>,
    /// The group of the before with which each other part of one in the after goes.
    joined: HashMap<usize, usize>,
    /// A stack that a saved profile does not list goes by so much of the beginning of its key.
    length: usize,
    symbols: HashMap<String, u32>,
}

impl<'r> Names<'r> {
    fn new(runs: &Sides<Run<'r>>, pairs: &Paired) -> Self {
        let keys = Side::BOTH.into_iter().flat_map(|side| &runs.of(side).grouped.keys);
        let mut partners: HashMap<usize, usize> = pairs.pairs.iter().map(|&(before, after)| (after, before)).collect();
        let mut joined = HashMap::new();
        for &(before, after) in &pairs.parts {
            let first = *partners.entry(after).or_insert(before);
            if first != before {
                joined.insert(before, first);
            }
        }
        Self {
            joined,
            totals: runs.map(|run| run.totals),
            places: runs.map(|run| {
                let keys = run.totals.iter().enumerate().map(|(place, total)| (total.key.0.as_str(), place));
                keys.collect()
            }),
            partners,
            length: keys.map(String::len).filter(|&length| length > 1).min().unwrap_or(0),
            symbols: HashMap::new(),
        }
    }

    /// One side in symbols.
    fn common(&mut self, side: Side, run: &Run<'r>) -> Common {
        let symbols = self.symbols(side, run);
        let mut sizes = HashMap::new();
        for (key, &symbol) in run.grouped.keys.iter().zip(&symbols) {
            let place = self.places.of(side).get(key.as_str());
            if let Some(total) = place.map(|&place| &run.totals[place]).filter(|total| total.allocations > 0) {
                sizes.insert(symbol, ratio(total.allocated_total, total.allocations));
            }
        }
        Common { sequence: run.grouped.sequence.renamed(|symbol| symbols[symbol as usize]), sizes }
    }

    /// The symbol of each group of a side.
    fn symbols(&mut self, side: Side, run: &Run<'r>) -> Vec<u32> {
        let mut symbols = Vec::with_capacity(run.grouped.keys.len());
        for key in &run.grouped.keys {
            let place = self.places.of(side).get(key.as_str()).copied();
            let name = self.name(side, place).unwrap_or(key);
            symbols.push(self.symbol(name.get(..self.length).unwrap_or(name).to_owned()));
        }
        symbols
    }

    /// The key by which the partner of a group goes, where it has one in the before.
    fn name(&self, side: Side, place: Option<usize>) -> Option<&'r str> {
        let of = match side {
            Side::Before => &self.joined,
            Side::After => &self.partners,
        };
        let before = *of.get(&place?)?;
        Some(self.totals.before[before].key.0.as_str())
    }

    fn symbol(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
        *self.symbols.entry(name).or_insert(next)
    }
}
