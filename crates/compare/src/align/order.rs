//! The allocations of two sequences that are the same ones, in the order of both: a long common subsequence, found in
//! the time that it takes to sort.
//!
//! The nth allocation of a stack on one side is taken for its nth on the other, counted from the start or from the end.
//! The longest run of such pairs that rises on both sides is a common order. It goes wrong where a layer is added to
//! every step: the nth of that layer's stacks drift further apart with each step. So stacks that allocate equally often
//! on both sides come first; the parts between their pairs are aligned by themselves. Of the orders that are found the
//! longest one counts.

use std::ops::Range;

use ptmem_base::sides::Sides;
use rustc_hash::FxHashMap;

use super::End;

/// Parts within parts are aligned at most so deep; then all stacks count at once.
const DEEPEST: usize = 8;

/// The same allocation on both sides, by its places.
pub(super) type PlacePair = Sides<usize>;

/// Pairs of places, rising on both sides, of two sequences that are given by the stack of each allocation.
pub(super) fn common_order(symbols: &Sides<&[u32]>) -> Vec<PlacePair> {
    let Sides { before, after } = *symbols;
    if before == after {
        return (0..before.len()).map(|place| PlacePair { before: place, after: place }).collect();
    }
    let mut longest = Vec::new();
    for from in directions(symbols) {
        for found in [in_parts(symbols, from), Region::whole(symbols).occurrences(symbols).order_of(from, |_| true)] {
            if found.len() > longest.len() {
                longest = found;
            }
        }
    }
    longest
}

/// The start comes first, unless more is the same at the end: the ends of a whole recording and of one without its head
/// correspond.
fn directions(symbols: &Sides<&[u32]>) -> [End; 2] {
    let Sides { before, after } = *symbols;
    if common_length(before, after, End::Tail) > common_length(before, after, End::Head) {
        [End::Tail, End::Head]
    } else {
        [End::Head, End::Tail]
    }
}

/// The number of symbols at an end of both sequences that are the same.
fn common_length(before: &[u32], after: &[u32], at: End) -> usize {
    let both = before.iter().zip(after);
    let from_the_end = before.iter().rev().zip(after.iter().rev());
    match at {
        End::Head => both.take_while(|(one, other)| one == other).count(),
        End::Tail => from_the_end.take_while(|(one, other)| one == other).count(),
    }
}

/// The common order that begins with the most distinctive stacks, and continues between their pairs.
fn in_parts(symbols: &Sides<&[u32]>, from: End) -> Vec<PlacePair> {
    let mut found = Vec::new();
    let mut pending = vec![Region::whole(symbols)];
    while let Some(mut region) = pending.pop() {
        if region.depth > 0 {
            region.trim(symbols, from, &mut found);
        }
        let occurrences = region.occurrences(symbols);
        if region.depth == DEEPEST {
            found.extend(occurrences.order_of(from, |_| true));
            continue;
        }
        let anchors = occurrences.anchors(from);
        if !anchors.is_empty() {
            pending.extend(region.between(&anchors));
            found.extend(anchors);
        }
    }
    found.sort_unstable_by_key(|pair| pair.after);
    found
}

/// A part of both sequences.
struct Region {
    places: Sides<Range<usize>>,
    /// Number of parts around it.
    depth: usize,
}

impl Region {
    fn whole(symbols: &Sides<&[u32]>) -> Self {
        Self { places: symbols.map(|symbols| 0..symbols.len()), depth: 0 }
    }

    /// Pairs the allocations that are the same at the end from which is counted. At the other end they may be of
    /// another step, where one side has more of these.
    fn trim(&mut self, symbols: &Sides<&[u32]>, from: End, found: &mut Vec<PlacePair>) {
        let Sides { before, after } = &self.places;
        let same = common_length(&symbols.before[before.clone()], &symbols.after[after.clone()], from);
        found.extend((0..same).map(|at| {
            self.places.map(|places| match from {
                End::Head => places.start + at,
                End::Tail => places.end - 1 - at,
            })
        }));
        self.places = self.places.map(|places| match from {
            End::Head => places.start + same..places.end,
            End::Tail => places.start..places.end - same,
        });
    }

    /// The parts between pairs that rise on both sides; those that are empty on one side have nothing to pair.
    fn between(&self, anchors: &[PlacePair]) -> Vec<Self> {
        let mut regions = Vec::new();
        let mut start = self.places.map(|places| places.start);
        let end = self.places.map(|places| places.end);
        for anchor in anchors.iter().chain([&end]) {
            let places = Sides { before: start.before..anchor.before, after: start.after..anchor.after };
            if !places.before.is_empty() && !places.after.is_empty() {
                regions.push(Self { places, depth: self.depth + 1 });
            }
            start = anchor.map(|place| place + 1);
        }
        regions
    }

    fn occurrences(&self, symbols: &Sides<&[u32]>) -> RegionPlaces {
        let mut stacks: FxHashMap<u32, Sides<Vec<usize>>> = FxHashMap::default();
        for (side, places) in self.places.each() {
            for place in places.clone() {
                stacks.entry(symbols.of(side)[place]).or_default().of_mut(side).push(place);
            }
        }
        // A stack that is only on one side has no partner.
        stacks.retain(|_, places| !places.before.is_empty() && !places.after.is_empty());
        RegionPlaces(stacks.into_values().collect())
    }
}

/// The places of each stack that occurs on both sides of a region.
struct RegionPlaces(Vec<Sides<Vec<usize>>>);

impl RegionPlaces {
    /// The common order by the stacks that allocate equally often, otherwise by all.
    fn anchors(&self, from: End) -> Vec<PlacePair> {
        let equal = self.order_of(from, |counts| counts.before == counts.after);
        if equal.is_empty() { self.order_of(from, |_| true) } else { equal }
    }

    /// The common order by the stacks whose numbers of occurrences are chosen.
    fn order_of(&self, from: End, is_chosen: impl Fn(Sides<usize>) -> bool) -> Vec<PlacePair> {
        let mut pairs = Vec::new();
        for places in self.0.iter().filter(|places| is_chosen(places.map(Vec::len))) {
            let count = places.before.len().min(places.after.len());
            let skipped = match from {
                End::Head => Sides::default(),
                End::Tail => places.map(|places| places.len() - count),
            };
            let both = places.before[skipped.before..].iter().zip(&places.after[skipped.after..]);
            pairs.extend(both.map(|(&before, &after)| PlacePair { before, after }));
        }
        pairs.sort_unstable_by_key(|pair| pair.after);
        rising(&pairs)
    }
}

/// The longest part of pairs, in the order of the after, that is in the order of the before as well.
fn rising(pairs: &[PlacePair]) -> Vec<PlacePair> {
    // For every length the pair that ends a run of it with the least place, and for every pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut earlier: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].before < pair.before);
        earlier.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(index) = at {
        run.push(pairs[index]);
        at = earlier[index];
    }
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(before: &[u32], after: &[u32]) -> Vec<PlacePair> {
        common_order(&Sides { before, after })
    }

    /// Steps of layers with forward and backward allocations, and some that occur once a step; each number is a stack.
    fn steps(steps: u32, layers: u32) -> Vec<u32> {
        let mut symbols: Vec<u32> = (1000..1010).collect();
        for _ in 0..steps {
            (0..layers).for_each(|_| symbols.extend(0..20));
            symbols.extend(200..210);
            (0..layers).for_each(|_| symbols.extend(100..120));
            symbols.extend(300..310);
        }
        symbols.extend(2000..2010);
        symbols
    }

    fn count(symbols: &[u32], symbol: u32) -> usize {
        symbols.iter().filter(|other| **other == symbol).count()
    }

    #[test]
    fn layers_do_not_drift_into_other_steps() {
        for (before, after) in [((4, 6), (4, 5)), ((4, 5), (4, 6)), ((3, 6), (5, 5))] {
            let before = steps(before.0, before.1);
            let after = steps(after.0, after.1);
            let pairs = order(&before, &after);
            // Once a step: of every step of the shorter side, in steps that follow each other on the other as well.
            for symbol in [205, 305] {
                let found = pairs.iter().filter(|pair| before[pair.before] == symbol);
                let skipped: Vec<usize> = found
                    .map(|pair| count(&after[..pair.after], symbol) - count(&before[..pair.before], symbol))
                    .collect();
                assert!(skipped.iter().all(|steps| *steps == skipped[0]), "{symbol}: {skipped:?}");
                assert_eq!(skipped.len(), count(&before, symbol), "{symbol}");
            }
        }
    }

    #[test]
    fn of_fewer_steps_those_at_the_end_that_is_the_same_correspond() {
        let whole = steps(5, 3);
        let step = (whole.len() - 20) / 5;
        // Without the head and two steps: the rest is that of the end.
        let cut = &whole[10 + 2 * step..];
        assert!(order(&whole, cut).iter().all(|pair| pair.before == pair.after + 10 + 2 * step));
        // Without the last two steps and the tail: the rest is that of the start.
        let cut = &whole[..10 + 3 * step];
        assert!(order(&whole, cut).iter().all(|pair| pair.before == pair.after));
    }

    proptest! {
        #[test]
        fn pairs_rise_on_both_sides_and_are_the_same_stack(
            before in proptest::collection::vec(0_u32..12, 0..200),
            after in proptest::collection::vec(0_u32..12, 0..200),
        ) {
            let pairs = order(&before, &after);
            prop_assert!(pairs.windows(2).all(|two| two[0].before < two[1].before && two[0].after < two[1].after));
            prop_assert!(pairs.iter().all(|pair| before[pair.before] == after[pair.after]));
            let shares_any = before.iter().any(|symbol| after.contains(symbol));
            prop_assert_eq!(shares_any, !pairs.is_empty());
        }

        /// Whatever is left out of a sequence, the rest finds itself where stacks occur once.
        #[test]
        fn what_is_left_of_a_sequence_finds_itself(kept in proptest::collection::vec(any::<bool>(), 1..300)) {
            let whole: Vec<u32> = (0..).take(kept.len()).collect();
            let left: Vec<u32> = whole.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(symbol, _)| *symbol).collect();
            let pairs = order(&whole, &left);
            prop_assert_eq!(pairs.len(), left.len());
        }
    }
}
