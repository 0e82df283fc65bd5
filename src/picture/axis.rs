//! Which allocation of one recording is which of another one of nearly the same program, so that both curves can be
//! drawn over each other.
//!
//! The nth allocation of a stack before is taken for its nth after, counted from the start or from the end, whichever
//! agrees better. Of these pairs the longest run that keeps the order on both sides counts; between its pairs places
//! are interpolated, outside of them both programs are taken to run at the same pace.

use std::collections::HashMap;

/// Pairs must cover one allocation in as many of the shorter recording; with fewer, the programs are not alike.
const LEAST_PART: usize = 5;

/// Places of the before among the allocations of the after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Pairs of places, rising on both sides; those that lie on a line between others are left out.
    pairs: Vec<Pair>,
}

/// An allocation of both sides, by its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    before: usize,
    after: usize,
}

/// The end from which equal allocations are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Start,
    End,
}

impl Axis {
    /// The alignment of two sequences of allocations, each given by the number of its stack; `None` where too little is the
    /// same.
    pub(crate) fn new(before: &[u32], after: &[u32]) -> Option<Self> {
        let from_start = rising(&pairs(before, after, From::Start));
        let from_end = rising(&pairs(before, after, From::End));
        let longest = if from_end.len() > from_start.len() { from_end } else { from_start };
        let shorter = before.len().min(after.len());
        if longest.is_empty() || longest.len() < shorter / LEAST_PART {
            return None;
        }
        Some(Self { pairs: corners(&longest) })
    }

    /// The place among the allocations of the after. It is negative where the before begins earlier.
    pub(crate) fn to_after(&self, before: usize) -> i64 {
        let next = self.pairs.partition_point(|pair| pair.before <= before);
        let place = signed(before);
        let left = next.checked_sub(1).and_then(|last| self.pairs.get(last));
        let (Some(left), Some(right)) = (left, self.pairs.get(next)) else {
            // Outside of all pairs.
            let edge = self.pairs.get(next).or(self.pairs.last());
            return edge.map_or(place, |edge| place - signed(edge.before) + signed(edge.after));
        };
        let span = signed((right.before - left.before).max(1));
        let other = signed(right.after - left.after);
        let along = i128::from(place - signed(left.before)) * i128::from(other) / i128::from(span);
        signed(left.after).saturating_add(i64::try_from(along).unwrap_or(0))
    }

    /// The allocation of the before that is that of the after, or else the nearest one before it that has a partner; `None`
    /// where there is none.
    pub(crate) fn partner(&self, after: usize) -> Option<usize> {
        let next = self.pairs.partition_point(|pair| pair.after <= after);
        let left = self.pairs.get(next.checked_sub(1)?)?;
        let is_even = |right: &Pair| right.after - left.after == right.before - left.before;
        let along = if self.pairs.get(next).is_some_and(is_even) { after - left.after } else { 0 };
        Some(left.before + along)
    }
}

fn signed(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// The places of each stack.
fn places(sequence: &[u32]) -> HashMap<u32, Vec<usize>> {
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    for (place, &stack) in sequence.iter().enumerate() {
        places.entry(stack).or_default().push(place);
    }
    places
}

/// The nth allocations of each stack on both sides, in the order of the after.
fn pairs(before: &[u32], after: &[u32], from: From) -> Vec<Pair> {
    let of_before = places(before);
    let mut pairs = Vec::new();
    for (stack, after) in places(after) {
        let Some(before) = of_before.get(&stack) else { continue };
        let count = before.len().min(after.len());
        let skipped = match from {
            From::Start => Pair { before: 0, after: 0 },
            From::End => Pair { before: before.len() - count, after: after.len() - count },
        };
        let both = before[skipped.before..].iter().zip(&after[skipped.after..]);
        pairs.extend(both.map(|(&before, &after)| Pair { before, after }));
    }
    pairs.sort_unstable_by_key(|pair| pair.after);
    pairs
}

/// The longest part of pairs, in the order of the after, that is in the order of the before as well.
fn rising(pairs: &[Pair]) -> Vec<Pair> {
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

/// The pairs at which the pace changes.
fn corners(pairs: &[Pair]) -> Vec<Pair> {
    let mut corners: Vec<Pair> = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        let is_even = |other: &Pair| pair.before.abs_diff(other.before) == pair.after.abs_diff(other.after);
        let is_inner = index > 0 && pairs.get(index + 1).is_some_and(is_even) && is_even(&pairs[index - 1]);
        if !is_inner {
            corners.push(*pair);
        }
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn axis(before: &str, after: &str) -> Option<Axis> {
        Axis::new(&sequence(before), &sequence(after))
    }

    #[test]
    fn equal_programs_have_equal_places() {
        let axis = axis("abcabcabc", "abcabcabc").unwrap();
        assert!((0..9).all(|place| axis.to_after(place) == i64::try_from(place).unwrap()));
        assert_eq!(axis.pairs.len(), 2, "{axis:?}");
    }

    #[test]
    fn new_allocations_make_room_in_every_step() {
        let before = "abcd".repeat(5);
        let after = "abxxcd".repeat(5);
        let axis = axis(&before, &after).unwrap();
        assert_eq!(axis.to_after(2), 4, "c of the first step");
        assert_eq!(axis.to_after(18), 28, "c of the last step");
        assert_eq!(axis.partner(28), Some(18));
        assert_eq!(axis.partner(27), Some(17), "that of b, which comes before the new ones");
    }

    #[test]
    fn a_missing_head_shifts_the_rest() {
        let whole = "s".to_owned() + &"abcdefgh".repeat(6);
        let cut = &whole[20..];
        let axis = axis(&whole, cut).unwrap();
        assert_eq!(axis.to_after(20), 0);
        assert_eq!(axis.to_after(0), -20);
        assert_eq!(axis.partner(0), Some(20));
        assert_eq!(axis.to_after(40), 20);
    }

    #[test]
    fn different_programs_have_no_common_axis() {
        assert_eq!(axis("abcabc", "xyzxyz"), None);
        assert_eq!(axis("", ""), None);
    }
}
