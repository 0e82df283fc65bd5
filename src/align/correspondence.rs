//! Which moment of one history corresponds to which of another, so that both can be drawn on one axis, or looked at in
//! the same moment of the program. The page of curves and `--at aligned` both ask here, and get the same answer.
//!
//! Missing parts ([`super::missing`]) are another question, and answered by other means: not which allocations
//! correspond, but whether those without a partner at an end were cut off or changed. That is told by how often stacks
//! occur on each side of a possible cut and by what was held there; an order of pairs cannot tell it. Both share the
//! symbols of [`super::in_common`].

use super::order::{Pair, common_order};
use super::parts::{Counts, Sequence};
use super::steps::FewSteps;
use super::written::{Written, written};
use super::{Run, in_common};
use crate::profile::course::Folded;
use crate::sides::Sides;
use crate::stack::Paired;

/// Histories do not correspond where fewer allocations than those of the shorter one divided by this have a partner.
const LEAST_PART: usize = 5;

/// A stretch without partners that is longer than the longer history divided by this is missing on the other side.
const WIDEST_GAP_PART: usize = 64;

/// A shorter stretch than this is a change to the code.
const SHORTEST_MISSING: usize = 64;

/// Allocations of both sides that are aligned; of longer histories those of the rarest stacks.
const MOST_ALLOCATIONS: u64 = 1 << 22;

/// How the allocations of two histories correspond. The place of a moment is the number of allocations before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondence {
    /// Allocations of both histories that correspond, in order on both sides; those that lie on a line between others
    /// are left out.
    pairs: Vec<Pair>,
    /// The longest stretch without partners that is there on the other side.
    widest_gap: usize,
}

impl Correspondence {
    /// Maps two sequences of allocations on each other, each given by numbers of the stacks that are the same on both
    /// sides. `None` where they are not alike.
    #[must_use]
    pub fn new(symbols: &Sides<&[u32]>) -> Option<Self> {
        let lengths = symbols.map(|symbols| symbols.len());
        Self::of(&common_order(symbols), &lengths)
    }

    fn of(order: &[Pair], lengths: &Sides<usize>) -> Option<Self> {
        if order.is_empty() || order.len() < lengths.before.min(lengths.after) / LEAST_PART {
            return None;
        }
        let widest_gap = lengths.before.max(lengths.after).div_ceil(WIDEST_GAP_PART).max(SHORTEST_MISSING);
        Some(Self { pairs: corners(order), widest_gap })
    }

    /// The place of the after that corresponds to one of the before. Outside of all pairs both programs run at the same
    /// pace, so that it is negative where the before begins earlier.
    #[must_use]
    pub fn after_of(&self, before: usize) -> i64 {
        let next = self.pairs.partition_point(|pair| pair.before <= before);
        let place = signed(before);
        let left = next.checked_sub(1).and_then(|last| self.pairs.get(last));
        let (Some(left), Some(right)) = (left, self.pairs.get(next)) else {
            let edge = self.pairs.get(next).or(self.pairs.last());
            return edge.map_or(place, |edge| place - signed(edge.before) + signed(edge.after));
        };
        let span = signed((right.before - left.before).max(1));
        let other = signed(right.after - left.after);
        let along = i128::from(place - signed(left.before)) * i128::from(other) / i128::from(span);
        signed(left.after).saturating_add(i64::try_from(along).unwrap_or(0))
    }

    /// The allocation of the before that is one of the after. Where that has no partner, it is that of the nearest one
    /// before it that has, and at the head that of the first; `None` in a part that the before lacks.
    #[must_use]
    pub fn partner_of(&self, after: usize) -> Option<usize> {
        self.own_partner_of(after).or_else(|| {
            let next = self.pairs.partition_point(|pair| pair.after <= after);
            let Some(left) = next.checked_sub(1).map(|last| self.pairs[last]) else {
                let first = self.pairs.get(next).filter(|first| first.after - after <= self.widest_gap);
                return first.map(|first| first.before);
            };
            (after - left.after <= self.widest_gap).then_some(left.before)
        })
    }

    /// The same; `None` where the allocation itself has no partner.
    fn own_partner_of(&self, after: usize) -> Option<usize> {
        let next = self.pairs.partition_point(|pair| pair.after <= after);
        let left = self.pairs[next.checked_sub(1)?];
        let is_between = self.pairs.get(next).is_some_and(|right| is_even(&left, right));
        (is_between || left.after == after).then(|| left.before + after - left.after)
    }
}

/// The allocation of the before at which it does what the after does at `after`; where that lies in a step without a
/// partner, at the same place of the last step that has one. `pairs` are the groups of both that are the same ones. `None`
/// where the histories are not alike, or the before has nothing like it.
#[must_use]
pub fn corresponding_allocation(runs: &Sides<Run<'_>>, pairs: &Paired, after: u64) -> Option<u64> {
    partner_in(&in_common(runs, pairs).map(|side| &side.sequence), after)
}

/// The same for sequences in common symbols. Few of many equal steps are looked at.
fn partner_in(sequences: &Sides<&Folded>, after: u64) -> Option<u64> {
    let few = sequences.map(|sequence| FewSteps::new(sequence));
    let place = partner_of_place(&few.map(|few| &few.sequence), few.after.left(after))?;
    Some(few.before.whole(place, few.after.step(after)))
}

fn partner_of_place(sequences: &Sides<&Folded>, after: u64) -> Option<u64> {
    let rarest = Rarest::new(sequences, MOST_ALLOCATIONS);
    let allocations = sequences.map(|sequence| rarest.allocations(sequence));
    let symbols = allocations.map(|all| all.iter().map(|allocation| allocation.symbol).collect::<Vec<u32>>());
    let correspondence = Correspondence::new(&symbols.map(|symbols| &symbols[..]))?;
    let places = std::iter::once(after).chain(Sequence::new(sequences.after).in_other_steps(after));
    let mut written = places
        .filter_map(|place| allocations.after.partition_point(|one| one.place <= place).checked_sub(1))
        .peekable();
    let own = *written.peek()?;
    let partner = written.find_map(|place| correspondence.own_partner_of(place));
    let partner = partner.or_else(|| correspondence.partner_of(own))?;
    allocations.before.get(partner).map(|allocation| allocation.place)
}

/// The symbols that occur least often on both sides, up to a number of allocations.
struct Rarest(Vec<bool>);

impl Rarest {
    fn new(sequences: &Sides<&Folded>, most: u64) -> Self {
        let mut counts = Counts::new();
        for (_, sequence) in sequences.each() {
            for (symbol, count) in Sequence::new(sequence).counts() {
                let sum = counts.entry(symbol).or_default();
                *sum = u64::saturating_add(*sum, count);
            }
        }
        let symbols = counts.keys().max().map_or(0, |last| *last as usize + 1);
        let mut by_count: Vec<(u64, u32)> = counts.into_iter().map(|(symbol, count)| (count, symbol)).collect();
        by_count.sort_unstable();
        let mut left = most;
        let mut is_kept = vec![false; symbols];
        for (count, symbol) in by_count {
            let Some(rest) = left.checked_sub(count) else { break };
            left = rest;
            is_kept[symbol as usize] = true;
        }
        Self(is_kept)
    }

    /// The allocations of these symbols, in order.
    fn allocations(&self, folded: &Folded) -> Vec<Written> {
        written(folded, |symbol| self.0[symbol as usize])
    }
}

fn signed(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// The pairs at which the pace changes.
fn corners(order: &[Pair]) -> Vec<Pair> {
    let mut corners: Vec<Pair> = Vec::new();
    for (index, pair) in order.iter().enumerate() {
        let is_inner = index > 0
            && order.get(index + 1).is_some_and(|next| is_even(pair, next))
            && is_even(&order[index - 1], pair);
        if !is_inner {
            corners.push(*pair);
        }
    }
    corners
}

/// True if as much lies between two pairs on one side as on the other.
fn is_even(one: &Pair, other: &Pair) -> bool {
    other.before - one.before == other.after - one.after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: &[u32], after: &[u32]) -> Option<Correspondence> {
        Correspondence::new(&Sides { before, after })
    }

    fn sequence(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn of_texts(before: &str, after: &str) -> Option<Correspondence> {
        of(&sequence(before), &sequence(after))
    }

    /// A head, steps of forward layers and backward layers, and a tail; each symbol is another stack.
    fn program(steps: u32, layers: u32, more: bool) -> Vec<u32> {
        let mut symbols: Vec<u32> = (1000..1040).collect();
        for _ in 0..steps {
            for _ in 0..layers {
                symbols.extend(0..10);
                symbols.extend(more.then_some(99));
            }
            symbols.extend(200..230);
            (0..layers).for_each(|_| symbols.extend(100..115));
            symbols.extend(300..340);
        }
        symbols.extend(2000..2020);
        symbols
    }

    /// The place of the nth allocation of a stack.
    fn nth(symbols: &[u32], symbol: u32, n: usize) -> usize {
        let mut places = symbols.iter().enumerate().filter(|(_, other)| **other == symbol).map(|(place, _)| place);
        places.nth(n).unwrap()
    }

    #[test]
    fn a_history_corresponds_to_itself_place_by_place() {
        let symbols = program(3, 6, false);
        let map = of(&symbols, &symbols).unwrap();
        for place in 0..symbols.len() {
            assert_eq!(map.after_of(place), signed(place));
            assert_eq!(map.partner_of(place), Some(place));
        }
        assert_eq!(map.pairs.len(), 2);
    }

    #[test]
    fn new_allocations_make_room_in_every_step() {
        let map = of_texts(&"abcd".repeat(5), &"abxxcd".repeat(5)).unwrap();
        assert_eq!(map.after_of(2), 4, "c of the first step");
        assert_eq!(map.after_of(18), 28, "c of the last step");
        assert_eq!(map.partner_of(28), Some(18));
        assert_eq!(map.partner_of(27), Some(17), "that of b, which comes before the new ones");
    }

    #[test]
    fn a_place_is_found_in_changed_code() {
        // One more allocation in each layer: the same place of the same step.
        let before = program(3, 6, false);
        let after = program(3, 6, true);
        let map = of(&before, &after).unwrap();
        for (symbol, n) in [(205, 1), (310, 0), (1005, 0), (2010, 0), (339, 2), (5, 7)] {
            let found = map.partner_of(nth(&after, symbol, n));
            assert_eq!(found, Some(nth(&before, symbol, n)), "{symbol}");
        }
        // The new allocation itself goes by the one before it.
        let found = map.partner_of(nth(&after, 99, 7)).unwrap();
        assert_eq!(before[found], 9);
    }

    #[test]
    fn a_part_that_is_missing_has_no_place() {
        let whole = program(3, 6, false);
        let cut = whole.len() / 2;
        let map = of(&whole[cut..], &whole).unwrap();
        assert_eq!(map.partner_of(10), None);
        assert_eq!(map.partner_of(cut + 50), Some(50));
        assert_eq!(map.after_of(50), signed(cut + 50));
        let map = of(&whole, &whole[cut..]).unwrap();
        assert_eq!(map.after_of(cut), 0);
        assert_eq!(map.after_of(0), -signed(cut));
        // The end, which the before lacks.
        let map = of(&whole[..cut], &whole).unwrap();
        assert_eq!(map.partner_of(whole.len() - 1), None);
    }

    #[test]
    fn other_programs_do_not_correspond() {
        let other: Vec<u32> = program(3, 6, false).into_iter().map(|symbol| symbol + 5000).collect();
        assert_eq!(of(&program(3, 6, false), &other), None);
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn few_of_many_steps_tell_the_place_in_all() {
        // As many steps with a layer more, and more steps of the same kind.
        for (before, after) in
            [((9, 6, false), (9, 6, true)), ((4, 6, false), (9, 5, false)), ((9, 5, true), (2, 6, true))]
        {
            let before = program(before.0, before.1, before.2);
            let after = program(after.0, after.1, after.2);
            let folded = Sides { before: &before, after: &after }
                .map(|symbols| Folded::new(symbols.iter().copied(), usize::MAX).unwrap());
            for place in (0..after.len()).filter(|place| after[*place] >= 200) {
                let found = partner_in(&folded.map(|folded| folded), place as u64).unwrap();
                let found = usize::try_from(found).unwrap();
                assert_eq!(before[found], after[place], "{place}");
            }
        }
    }

    #[test]
    fn long_histories_are_aligned_by_their_rarest_stacks() {
        let symbols = program(3, 6, false);
        let folded = Folded::new(symbols.iter().copied(), usize::MAX).unwrap();
        let both = Sides { before: &folded, after: &folded };
        let all = Rarest::new(&both, u64::MAX).allocations(&folded);
        assert!(all.iter().enumerate().all(|(place, one)| (one.place, one.symbol) == (place as u64, symbols[place])));
        assert_eq!(all.len(), symbols.len());
        // Room for what occurs once and three times, not for the layers.
        let rarest = Rarest::new(&both, 2 * (60 + 3 * 70)).allocations(&folded);
        assert_eq!(rarest.len(), 60 + 3 * 70);
        assert!(
            rarest.iter().all(|one| one.symbol >= 200 && symbols[usize::try_from(one.place).unwrap()] == one.symbol)
        );
    }
}
