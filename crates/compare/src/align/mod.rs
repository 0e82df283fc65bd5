//! The one correspondence of two histories: which place of the before is which of the after, which parts one side lacks,
//! and which steps have a partner.
//!
//! The allocations of both sides are aligned, in the order in which the same stacks make them (`sequence.rs`). Steps
//! come first (`steps.rs`): many equal ones are aligned as one. In the remainder, a long common order pairs the
//! allocations (`order.rs`), and everything between two pairs corresponds to the range between their partners
//! (`map.rs`). If an end of one side has no partner, the memory that both held there decides whether it was cut off
//! (`ends.rs`).

mod blocks;
mod ends;
mod extra_steps;
mod map;
mod order;
mod overlap;
mod parts;
mod sequence;
mod steps;

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_trace::stack::Paired;
use ptmem_trace::trace::Position;

pub use map::Map;
pub use overlap::Overlap;
pub use parts::{End, ExtraSteps, MissingPart, Parts};
pub use sequence::AlignedSide;

use order::common_order;
use sequence::common;

/// How the histories of a device correspond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// The places just after the allocations of both sides.
    born: Sides<Vec<Position>>,
    /// Their last places.
    end: Sides<Position>,
    /// The allocations that correspond.
    pub map: Map,
    /// The parts that one side lacks.
    pub parts: Parts,
    /// How much of the before the after has too; `None` if a side has no stacks.
    pub overlap: Option<Overlap>,
}

impl Alignment {
    /// Aligns a device. `paired` are the groups that both sides have. `None` if a side allocates nothing.
    pub fn new(runs: &Sides<AlignedSide<'_>>, paired: &Paired) -> Option<Self> {
        let sequences = common(runs, paired);
        if sequences.before.born.is_empty() || sequences.after.born.is_empty() {
            return None;
        }
        let mut order = common_order(&sequences.map(|sequence| &*sequence.symbols));
        let parts = ends::parts(&sequences, scale(runs, paired), &mut order);
        let overlap = Overlap::new(runs, paired, order.len(), sequences.before.symbols.len());
        Some(Self {
            end: runs.map(|run| run.device.trace.dump()),
            map: Map::new(sequences.map(|of| of.steps), &order, sequences.map(|of| of.symbols.len()), &parts.missing),
            born: Sides { before: sequences.before.born, after: sequences.after.born },
            parts,
            overlap,
        })
    }

    /// The place of the before that corresponds to `at` in the after. Without a partner, it is the same place of
    /// another step, preferably the last step before it, otherwise the place of the nearest earlier allocation with a
    /// partner. `None` in a part that the before lacks, and if the histories do not correspond.
    pub fn before_of(&self, at: Position) -> Option<Position> {
        let Some(last) = self.begun(Side::After, at).checked_sub(1) else { return Some(Position::START) };
        let partner = self.map.before_of(last)?;
        let born = &self.born.before;
        let since = at.count() - self.born.after[last].count();
        let next = born.get(partner + 1).map_or(self.end.before.count(), |next| next.count() - 1);
        Some(Position::of_count((born[partner].count() + since).min(next.max(born[partner].count()))))
    }

    /// The number of the step, from 0, that contains a place; `None` outside of all steps, and if no steps repeat.
    pub fn step(&self, side: Side, at: Position) -> Option<usize> {
        let last = self.begun(side, at).checked_sub(1)?;
        self.map.steps.of(side).and_then(|steps| steps.step(last))
    }

    /// The number of allocations up to a moment.
    fn begun(&self, side: Side, at: Position) -> usize {
        self.born.of(side).partition_point(|born| *born <= at)
    }
}

/// By how much the sizes of the after differ: the median over the groups that are the same.
fn scale(runs: &Sides<AlignedSide<'_>>, paired: &Paired) -> f64 {
    let groups = paired.pairs.iter().map(|&(old, new)| [&runs.before.totals[old], &runs.after.totals[new]]);
    let means =
        groups.map(|groups| groups.map(|total| approximate(total.allocated_total) / approximate(total.allocations)));
    let ratios = means.map(|[before, after]| after / before);
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_normal()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
}
