//! A sequence of many equal steps, with three of them: the first, one that stands for those in the middle, and the last.
//! A place found for that one holds for all, so that long runs are aligned as fast as short ones.

use super::parts::Sequence;
use crate::profile::course::{Entry, Folded};

/// Steps that are left.
const LEFT: u64 = 3;

/// A sequence with no more than three of its steps.
pub(super) struct FewSteps {
    /// The sequence with its equal steps cut down.
    pub(super) sequence: Folded,
    /// The steps, where some were left out.
    steps: Option<Steps>,
}

/// The steps of a sequence by its places.
struct Steps {
    start: u64,
    length: u64,
    count: u64,
}

impl FewSteps {
    pub(super) fn new(folded: &Folded) -> Self {
        let sequence = Sequence::new(folded);
        let mut left = folded.clone();
        let places = sequence.steps().and_then(|steps| sequence.places(steps)).filter(|places| places.count > LEFT);
        let steps = places.map(|places| {
            if let Entry::Loop { count, .. } = &mut left.entries[places.entry] {
                *count = LEFT;
            }
            Steps { start: places.start, length: places.length, count: places.count }
        });
        Self { sequence: left, steps }
    }

    /// The number of the step that a place lies in; 0 where it lies in none.
    pub(super) fn step(&self, place: u64) -> u64 {
        let of_steps = |steps: &Steps| place.checked_sub(steps.start)?.checked_div(steps.length);
        self.steps.as_ref().and_then(of_steps).unwrap_or(0)
    }

    /// The place in what is left that stands for one in the whole.
    pub(super) fn left(&self, place: u64) -> u64 {
        let Some(steps) = self.steps.as_ref().filter(|steps| place >= steps.start) else { return place };
        let step = self.step(place);
        let left = match step {
            0 => 0,
            _ if step + 1 < steps.count => 1,
            _ => step + LEFT - steps.count,
        };
        place - (step - left) * steps.length
    }

    /// The place in the whole that one in what is left stands for; of those in the middle that of step `near`, or of the
    /// nearest.
    pub(super) fn whole(&self, place: u64, near: u64) -> u64 {
        let Some(steps) = self.steps.as_ref().filter(|steps| place >= steps.start) else { return place };
        let left = self.step(place);
        let step = match left {
            0 => 0,
            1 => near.clamp(1, steps.count - 2),
            _ => left + steps.count - LEFT,
        };
        place + (step - left) * steps.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again() {
        let symbols = (0..5).chain((0..100).flat_map(|_| 10..30)).chain(40..45);
        let few = FewSteps::new(&Folded::new(symbols, usize::MAX).unwrap());
        assert_eq!(few.sequence.length(), 5 + 3 * 20 + 5);
        for place in 0..2010 {
            assert_eq!(few.whole(few.left(place), few.step(place)), place);
            assert!(few.left(place) < few.sequence.length());
        }
        // The first of 100 steps, those in the middle, and the last.
        let steps = [0, 1, 50, 98, 99].map(|step| few.left(5 + step * 20 + 7));
        assert_eq!(steps, [12, 32, 32, 32, 52]);
        assert_eq!(few.left(2005), 65);
        // In a run with fewer steps, it is the nearest step in the middle.
        assert_eq!(few.whole(32, 400), 5 + 98 * 20 + 7);
    }

    #[test]
    fn few_steps_are_all_left() {
        let symbols = (0..5).chain((0..3).flat_map(|_| 10..30));
        let folded = Folded::new(symbols, usize::MAX).unwrap();
        let few = FewSteps::new(&folded);
        assert_eq!(few.sequence, folded);
        assert_eq!((few.left(40), few.whole(40, 7)), (40, 40));
    }
}
