//! The places of one side by those of the other, in numbers of allocations.

use ptmem_base::sides::{Side, Sides};

use super::order::PlacePair;
use super::overlap::are_enough;
use super::steps::FoldedSteps;
use super::{End, MissingPart};

/// How the allocations of both sides correspond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    pub(super) steps: Sides<Option<FoldedSteps>>,
    /// Corresponding allocations, in order on both sides, by their positions among the aligned ones; points on a
    /// straight line between others are omitted.
    pairs: Vec<PlacePair>,
    /// The ends of the after that the before lacks.
    lacking: Vec<End>,
}

impl Map {
    /// `order` and `lengths` are those of the aligned sequences.
    pub(super) fn new(
        steps: Sides<Option<FoldedSteps>>,
        order: &[PlacePair],
        lengths: Sides<usize>,
        missing: &[MissingPart],
    ) -> Self {
        let is_alike = are_enough(order.len() as u64, lengths.before.min(lengths.after) as u64);
        let lacking = missing.iter().filter(|part| part.side == Side::Before).map(|part| part.end);
        Self { steps, pairs: if is_alike { corners(order) } else { Vec::new() }, lacking: lacking.collect() }
    }

    /// True if the histories have something in common.
    pub fn is_alike(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// The allocation of the before that corresponds to one of the after, both counted from 0. Without a partner, it is
    /// the one at the same place of another step, preferably the last step before it, otherwise that of the nearest
    /// earlier allocation with a partner. `None` in a part that the before lacks, and if the histories do not correspond.
    pub fn before_of(&self, after: usize) -> Option<usize> {
        let near = self.steps.after.and_then(|steps| steps.step(after)).unwrap_or(0);
        let partner = self.partner_of(after)?;
        Some(self.steps.before.map_or(partner, |steps| steps.whole(partner, near)))
    }

    /// The number of allocations of the after that corresponds to one of the before. Outside of all pairs both programs run
    /// at the same pace, so that it is negative where the before begins earlier.
    pub fn after_of(&self, before: usize) -> i64 {
        let step = self.steps.before.and_then(|steps| steps.step(before)).unwrap_or(0);
        let place = self.on_line(self.steps.before.map_or(before, |steps| steps.place(before)));
        let (Some(steps), Ok(aligned)) = (self.steps.after, usize::try_from(place)) else { return place };
        let is_inner = self.steps.before.is_some_and(|steps| step > 0 && step + 1 < steps.count);
        // Steps that the after does not have come before its last one.
        if is_inner && step + 1 >= steps.count {
            return signed(steps.start + (steps.count - 1) * steps.length);
        }
        signed(steps.whole(aligned, step))
    }

    /// The place on the line through the pairs.
    fn on_line(&self, before: usize) -> i64 {
        let next = self.pairs.partition_point(|pair| pair.before <= before);
        let place = signed(before);
        let left = next.checked_sub(1).and_then(|last| self.pairs.get(last));
        let (Some(left), Some(right)) = (left, self.pairs.get(next)) else {
            let edge = self.pairs.get(next).or(self.pairs.last());
            return edge.map_or(place, |edge| place - signed(edge.before) + signed(edge.after));
        };
        let along = (before - left.before) * (right.after - left.after) / (right.before - left.before);
        signed(left.after + along)
    }

    /// The aligned allocation of the before that is one of the after.
    fn partner_of(&self, after: usize) -> Option<usize> {
        let places = self.same_places(after);
        places.iter().find_map(|&place| self.own_partner_of(place)).or_else(|| {
            let after = *places.first()?;
            let next = self.pairs.partition_point(|pair| pair.after <= after);
            let is_lacking = |end| self.lacking.contains(&end);
            let is_missing = next == 0 && is_lacking(End::Head) || next == self.pairs.len() && is_lacking(End::Tail);
            self.pairs.get(next.saturating_sub(1)).filter(|_| !is_missing).map(|nearest| nearest.before)
        })
    }

    /// The aligned allocation that stands for one of the after, and the same one of other steps, the latest before it
    /// first.
    fn same_places(&self, after: usize) -> Vec<usize> {
        let Some(steps) = self.steps.after else { return vec![after] };
        let place = steps.place(after);
        let Some(at) = place.checked_sub(steps.start).filter(|at| *at < steps.left() * steps.length) else {
            return vec![place];
        };
        let step = at / steps.length;
        let all = (0..=step).rev().chain(step + 1..steps.left());
        all.map(|step| steps.start + step * steps.length + at % steps.length).collect()
    }

    /// The same; `None` where the allocation itself has no partner.
    fn own_partner_of(&self, after: usize) -> Option<usize> {
        let next = self.pairs.partition_point(|pair| pair.after <= after);
        let left = self.pairs[next.checked_sub(1)?];
        let is_between = self.pairs.get(next).is_some_and(|right| is_even(&left, right));
        (is_between || left.after == after).then(|| left.before + after - left.after)
    }
}

fn signed(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// The pairs at which the pace changes.
fn corners(order: &[PlacePair]) -> Vec<PlacePair> {
    let mut corners: Vec<PlacePair> = Vec::new();
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

/// True if the distance between two pairs is the same on both sides.
fn is_even(one: &PlacePair, other: &PlacePair) -> bool {
    other.before - one.before == other.after - one.after
}

#[cfg(test)]
mod tests {
    use super::super::order::common_order;
    use super::super::sequence::folded;
    use super::*;

    fn of(before: &[u32], after: &[u32]) -> Map {
        of_lacking(before, after, &[])
    }

    /// The map where the before lacks these ends of the after.
    fn of_lacking(before: &[u32], after: &[u32], ends: &[End]) -> Map {
        let symbols = Sides { before, after };
        let steps = folded(&symbols.map(|symbols| symbols.to_vec()));
        let reduced = |symbols: &[u32], steps: Option<FoldedSteps>| {
            steps.map_or_else(|| symbols.to_vec(), |steps| steps.reduced(symbols))
        };
        let aligned = Sides { before: reduced(before, steps.before), after: reduced(after, steps.after) };
        let order = common_order(&aligned.map(|symbols| &symbols[..]));
        let missing = ends.iter().copied().map(|end| MissingPart { side: Side::Before, end, share: 500, steps: None });
        Map::new(steps, &order, aligned.map(Vec::len), &missing.collect::<Vec<_>>())
    }

    fn sequence(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn of_texts(before: &str, after: &str) -> Map {
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
        let map = of(&symbols, &symbols);
        for place in 0..symbols.len() {
            assert_eq!(map.after_of(place), signed(place));
            assert_eq!(map.before_of(place), Some(place));
        }
        assert_eq!(map.pairs.len(), 2);
    }

    #[test]
    fn new_allocations_make_room_in_every_step() {
        let map = of_texts(&"abcd".repeat(5), &"abxxcd".repeat(5));
        assert_eq!(map.after_of(2), 4, "c of the first step");
        assert_eq!(map.after_of(18), 28, "c of the last step");
        assert_eq!(map.before_of(28), Some(18));
        assert_eq!(map.before_of(27), Some(17), "that of b, which comes before the new ones");
    }

    #[test]
    fn a_place_is_found_in_changed_code() {
        // One more allocation in each layer: the same place of the same step.
        let before = program(3, 6, false);
        let after = program(3, 6, true);
        let map = of(&before, &after);
        for (symbol, n) in [(205, 1), (310, 0), (1005, 0), (2010, 0), (339, 2), (5, 7)] {
            let found = map.before_of(nth(&after, symbol, n));
            assert_eq!(found, Some(nth(&before, symbol, n)), "{symbol}");
        }
        // The new allocation itself goes by the one before it.
        let found = map.before_of(nth(&after, 99, 7)).unwrap();
        assert_eq!(before[found], 9);
    }

    #[test]
    fn a_part_that_is_missing_has_no_place() {
        let whole = program(3, 6, false);
        let cut = whole.len() / 2;
        let map = of_lacking(&whole[cut..], &whole, &[End::Head]);
        assert_eq!(map.before_of(10), None);
        assert_eq!(map.before_of(cut + 50), Some(50));
        assert_eq!(map.after_of(50), signed(cut + 50));
        let map = of(&whole, &whole[cut..]);
        assert_eq!(map.after_of(cut), 0);
        assert_eq!(map.after_of(0), -signed(cut));
        // The end, which the before lacks.
        let map = of_lacking(&whole[..cut], &whole, &[End::Tail]);
        assert_eq!(map.before_of(whole.len() - 1), None);
    }

    #[test]
    fn other_programs_do_not_correspond() {
        let other: Vec<u32> = program(3, 6, false).into_iter().map(|symbol| symbol + 5000).collect();
        assert!(!of(&program(3, 6, false), &other).is_alike());
        assert!(!of(&[], &[]).is_alike());
    }

    #[test]
    fn few_of_many_steps_tell_the_place_in_all() {
        // As many steps with a layer more, and more steps of the same kind.
        for (before, after) in
            [((9, 6, false), (9, 6, true)), ((4, 6, false), (9, 5, false)), ((9, 5, true), (2, 6, true))]
        {
            let before = program(before.0, before.1, before.2);
            let after = program(after.0, after.1, after.2);
            let map = of(&before, &after);
            for place in (0..after.len()).filter(|place| after[*place] >= 200) {
                let found = map.before_of(place).unwrap();
                assert_eq!(before[found], after[place], "{place}");
            }
        }
    }

    #[test]
    fn the_axis_of_both_sides_never_goes_back() {
        for (before, after) in [((9, 6), (4, 6)), ((4, 5), (9, 6)), ((9, 6), (1, 6)), ((2, 6), (9, 5))] {
            let before = program(before.0, before.1, false);
            let map = of(&before, &program(after.0, after.1, true));
            let places: Vec<i64> = (0..before.len()).map(|place| map.after_of(place)).collect();
            assert!(places.is_sorted(), "{places:?}");
        }
    }
}
