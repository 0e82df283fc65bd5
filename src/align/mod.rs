//! The parts of one history that another one lacks: its head, because the ring buffer dropped the oldest events or the recording
//! began later, or its tail, because the recording ended earlier.
//!
//! Nearly the same program runs the same course. Where a head is cut off, the stacks of the rest occur as often as in the
//! same rest of the other side, those of the head less often or never, and what was held at the cut is a baseline that
//! the other side lacks. A change to the code shows otherwise: it spreads over the layers and the steps, replaces
//! what it removes, and leaves the baseline alone. Fewer steps or layers of the same kind are no missing part while
//! one is whole.
//!
//! [`Correspondence`] answers another question: which allocation of one history is which of the other.

mod comparison;
mod correspondence;
mod order;
mod parts;
mod rest;
mod written;

use std::collections::HashMap;

use crate::profile::course::{Course, Folded, Grouped};
use crate::profile::{DeviceProfile, StackTotal};
use crate::sides::{Side, Sides};
use crate::stack::{GroupBy, Grouper};
use comparison::{Comparison, Found, Lacks, ratio};
pub use correspondence::{Correspondence, corresponding_allocation};
use parts::Sequence;

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

/// The parts that one of two recordings lacks. `pairs` are the groups of both that are the same ones.
#[must_use]
pub fn missing(runs: &Sides<Run<'_>>, pairs: &[(usize, usize)]) -> Vec<Missing> {
    let common = in_common(runs, pairs);
    let sequences = common.map(|side| Sequence::new(&side.sequence));
    let sizes = common.map(|side| &side.sizes);
    let mut found = Vec::new();
    for side in Side::BOTH {
        let other = if side == Side::Before { Side::After } else { Side::Before };
        let one = Found { run: runs.of(side), sequence: sequences.of(side), sizes: sizes.of(side) };
        let whole = Found { run: runs.of(other), sequence: sequences.of(other), sizes: sizes.of(other) };
        let parts = [End::Head, End::Tail].map(|end| Comparison::new(&one, &whole, end)?.missing());
        // If a side seems to lack both, keep the larger.
        let larger = parts.into_iter().flatten().max_by_key(|lacks| lacks.share);
        found.extend(larger.map(|Lacks { end, share, of_step }| Missing { side, end, share, of_step }));
    }
    found
}

/// A sequence in symbols that both sides share, and the mean size of the allocations of each.
struct Common {
    sequence: Folded,
    sizes: HashMap<u32, f64>,
}

/// Gives groups that are the same one symbol on both sides.
fn in_common(runs: &Sides<Run<'_>>, pairs: &[(usize, usize)]) -> Sides<Common> {
    let keys = Side::BOTH.into_iter().flat_map(|side| &runs.of(side).grouped.keys);
    let mut names = Names {
        totals: runs.map(|run| run.totals),
        places: runs.map(|run| {
            let keys = run.totals.iter().enumerate().map(|(place, total)| (total.key.0.as_str(), place));
            keys.collect()
        }),
        partners: pairs.iter().map(|&(before, after)| (after, before)).collect(),
        length: keys.map(String::len).filter(|&length| length > 1).min().unwrap_or(0),
        symbols: HashMap::new(),
    };
    Sides { before: names.common(Side::Before, &runs.before), after: names.common(Side::After, &runs.after) }
}

/// The names that groups of stacks have in common, and a symbol for each.
struct Names<'r> {
    /// The groups of both sides.
    totals: Sides<&'r [StackTotal]>,
    /// The place of each group among those, by its key.
    places: Sides<HashMap<&'r str, usize>>,
    /// The group of the before that each of the after is.
    partners: HashMap<usize, usize>,
    /// A stack that a saved profile does not list goes by so much of the beginning of its key.
    length: usize,
    symbols: HashMap<String, u32>,
}

impl<'r> Names<'r> {
    /// One side in symbols.
    fn common(&mut self, side: Side, run: &Run<'r>) -> Common {
        let mut sizes = HashMap::new();
        let mut symbols = Vec::with_capacity(run.grouped.keys.len());
        for key in &run.grouped.keys {
            let place = self.places.of(side).get(key.as_str()).copied();
            let name = self.name(side, place).unwrap_or(key);
            let symbol = self.symbol(name.get(..self.length).unwrap_or(name).to_owned());
            if let Some(total) = place.map(|place| &run.totals[place]).filter(|total| total.allocations > 0) {
                sizes.insert(symbol, ratio(total.allocated_total, total.allocations));
            }
            symbols.push(symbol);
        }
        Common { sequence: run.grouped.sequence.renamed(|symbol| symbols[symbol as usize]), sizes }
    }

    /// The key by which the partner of a group goes, where it has one in the before.
    fn name(&self, side: Side, place: Option<usize>) -> Option<&'r str> {
        match side {
            Side::Before => None,
            Side::After => {
                let before = *self.partners.get(&place?)?;
                Some(self.totals.before[before].key.0.as_str())
            }
        }
    }

    fn symbol(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
        *self.symbols.entry(name).or_insert(next)
    }
}
