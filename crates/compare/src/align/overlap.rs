//! How much of the before the after has too. Call stacks count once each, however often they allocate: fewer steps or another
//! optimizer change the number of allocations, but hardly the program.

use std::fmt;

use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::format_share;
use ptmem_trace::profile::StackTotal;
use ptmem_trace::stack::Paired;

use super::AlignedSide;

/// With a smaller part of its call stacks in the after, in percent, the before may be another program. Needed for
/// `convolutional-2.6.0` and `changes/scores-kept-before`.
const LEAST_STACKS: u64 = 50;

/// The same for allocations that have a counterpart; at most three of many equal steps count. Needed for
/// `corners/private-pool` and `corners/pool-without-splits`.
const LEAST_ALLOCATIONS: u64 = 20;

/// Whether enough of some allocations have a counterpart.
pub(super) fn are_enough(part: u64, whole: u64) -> bool {
    !PartOfWhole { part, whole }.is_below(LEAST_ALLOCATIONS)
}

/// How much of the before the after has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The call stacks that allocate in the before.
    stacks: PartOfWhole,
    /// The aligned allocations of the before.
    allocations: PartOfWhole,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartOfWhole {
    part: u64,
    whole: u64,
}

impl PartOfWhole {
    fn is_below(self, percent: u64) -> bool {
        self.part * 100 < self.whole * percent
    }
}

impl Overlap {
    /// `pairs` of `length` aligned allocations of the before have a counterpart. `None` if a side has no stacks.
    pub(super) fn new(runs: &Sides<AlignedSide<'_>>, paired: &Paired, pairs: usize, length: usize) -> Option<Self> {
        let has_partner = partners(runs.before.totals.len(), paired);
        let of_before = || runs.before.totals.iter().zip(&has_partner).filter(|(total, _)| allocates(total));
        let stacks = PartOfWhole {
            part: of_before().filter(|(_, has_partner)| **has_partner).count() as u64,
            whole: of_before().count() as u64,
        };
        let has_stacks = stacks.whole > 0 && runs.after.totals.iter().any(allocates);
        has_stacks.then_some(Self { stacks, allocations: PartOfWhole { part: pairs as u64, whole: length as u64 } })
    }

    /// Whether the after may be another program, or a small part of the one of the before.
    pub fn is_little(&self) -> bool {
        self.stacks.is_below(LEAST_STACKS) || self.allocations.is_below(LEAST_ALLOCATIONS)
    }
}

/// Whether a group is of a known stack that allocates within the recording.
fn allocates(total: &StackTotal) -> bool {
    total.bucket.is_none() && total.allocations > 0
}

/// For each group of the before, whether the after has it.
fn partners(count: usize, paired: &Paired) -> Vec<bool> {
    let mut has_partner = vec![false; count];
    paired.pairs.iter().chain(&paired.parts).for_each(|&(before, _)| has_partner[before] = true);
    has_partner
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stacks, allocations } = self;
        if stacks.is_below(LEAST_STACKS) {
            let part = if stacks.part == 0 { "none".to_owned() } else { format!("only {}", stacks.part) };
            return write!(
                f,
                "the after has {part} of the before's {}",
                count(stacks.whole, "call stack", "call stacks")
            );
        }
        let share = format_share(allocations.part, allocations.whole).unwrap_or_default();
        write!(f, "only {share} of the before's allocations have a counterpart in the after")
    }
}
