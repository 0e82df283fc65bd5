//! The steps of a history: the unit that it repeats nearly all the time. Of many equal steps three are aligned, the
//! first, one for all in the middle, and the last, so that long runs are aligned as fast as short ones.

use ptmem_trace::phase::steps::nearly_all;
use ptmem_trace::trace::fold::{Folded, MOST_ITEMS};
use rustc_hash::FxHashSet;

use super::End;
use super::sequence::counts;

/// With fewer stacks than these, their order is not evidence. Needed for `corners/pinned`.
pub(super) const LEAST_STACKS: usize = 4;

/// Equal steps that are aligned: the first, one for those in between, and the last.
const LEFT: usize = 3;

/// Equal steps, by the places of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoldedSteps {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) count: usize,
}

impl FoldedSteps {
    /// The longest repetition of a sequence, whatever part of it that is.
    pub(super) fn repeated(symbols: &[u32]) -> Option<Self> {
        let longest = Folded::new(symbols, MOST_ITEMS)?.longest_loop()?;
        let [start, length, count] = longest.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        Some(Self { start, length, count }.with_divided(symbols))
    }

    /// The same from the earliest place if that makes more steps: equal allocations in a row, which end one step and begin the
    /// next, may divide a step between both ends.
    fn with_divided(self, symbols: &[u32]) -> Self {
        let first = self.start + self.length;
        let earlier = symbols[..self.start].iter().rev().zip(symbols[..first].iter().rev());
        let start = self.start - earlier.take_while(|(one, next)| one == next).count();
        let end = self.start + self.count * self.length;
        let later = symbols[end..].iter().zip(&symbols[end - self.length..]);
        let count = (end + later.take_while(|(one, last)| one == last).count() - start) / self.length;
        if count > self.count { Self { start, count, ..self } } else { self }
    }

    /// True if nearly all of a sequence is these steps.
    pub(super) fn are_nearly_all_of(&self, symbols: &[u32]) -> bool {
        let step: FxHashSet<u32> = self.first(symbols).iter().copied().collect();
        nearly_all(self.length * self.count, symbols.len()) && step.len() >= LEAST_STACKS
    }

    /// True if a step of another sequence makes mostly the same allocations, wherever it is taken to begin.
    pub(super) fn are_same(&self, own: &[u32], other: &Self, others: &[u32]) -> bool {
        let [own, others] = [counts(self.first(own)), counts(other.first(others))];
        let shared: usize =
            own.iter().map(|(symbol, count)| others.get(symbol).map_or(0, |other| *count.min(other))).sum();
        shared * 2 > self.length.max(other.length)
    }

    fn first<'s>(&self, symbols: &'s [u32]) -> &'s [u32] {
        &symbols[self.start..self.start + self.length]
    }

    /// How many of them are aligned.
    pub(super) fn left(&self) -> usize {
        self.count.min(LEFT)
    }

    /// How many of them are not.
    fn gone(&self) -> usize {
        self.count - self.left()
    }

    /// The step that contains a place; `None` outside of all steps.
    pub(super) fn step(&self, place: usize) -> Option<usize> {
        let step = place.checked_sub(self.start)? / self.length;
        (step < self.count).then_some(step)
    }

    /// A sequence without the steps that are not aligned.
    pub(super) fn reduced(&self, symbols: &[u32]) -> Vec<u32> {
        let kept = self.start + (self.left() - 1) * self.length;
        let last = self.start + (self.count - 1) * self.length;
        [&symbols[..kept], &symbols[last..]].concat()
    }

    /// The place in what is aligned that stands for one in the whole.
    pub(super) fn place(&self, whole: usize) -> usize {
        let step = whole.saturating_sub(self.start) / self.length;
        whole - step.saturating_sub(1).min(self.gone()) * self.length
    }

    /// The place in the whole that one in what is aligned stands for; of steps in the middle that of step `near`, or of
    /// the nearest.
    pub(super) fn whole(&self, place: usize, near: usize) -> usize {
        let skipped = match place.saturating_sub(self.start) / self.length {
            0 => 0,
            1 => near.clamp(1, self.gone() + 1) - 1,
            _ => self.gone(),
        };
        place + skipped * self.length
    }

    /// The place in the whole of a cut in what is aligned, where all between it and an end is left: as many steps of the whole
    /// as of the aligned ones.
    pub(super) fn whole_next_to(&self, end: End, cut: usize) -> usize {
        let is_beyond = match end {
            End::Head => cut >= self.start + self.left() * self.length,
            End::Tail => cut > self.start,
        };
        if is_beyond { cut + self.gone() * self.length } else { cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(symbols: &[u32]) -> Option<FoldedSteps> {
        FoldedSteps::repeated(symbols).filter(|steps| steps.are_nearly_all_of(symbols))
    }

    fn symbols(count: u32) -> Vec<u32> {
        (0..5).chain((0..count).flat_map(|_| 10..30)).chain(40..45).collect()
    }

    #[test]
    fn places_are_found_again() {
        for count in [2, 3, 4, 100] {
            let symbols = symbols(count);
            let steps = steps_of(&symbols).unwrap();
            assert_eq!(steps, FoldedSteps { start: 5, length: 20, count: count as usize });
            let reduced = steps.reduced(&symbols);
            assert_eq!(reduced.len(), 10 + 20 * steps.left());
            for (place, symbol) in symbols.iter().enumerate() {
                let left = steps.place(place);
                assert_eq!(reduced[left], *symbol, "{place} of {count}");
                assert_eq!(steps.whole(left, steps.step(place).unwrap_or(0)), place, "{place} of {count}");
            }
        }
        let steps = steps_of(&symbols(100)).unwrap();
        // A cut in the second of three aligned steps leaves the same number of steps of the whole.
        assert_eq!(steps.whole_next_to(End::Head, 32), 32);
        assert_eq!(steps.whole_next_to(End::Tail, 32), 5 + 98 * 20 + 7);
        assert_eq!([End::Head, End::Tail].map(|end| steps.whole_next_to(end, 5)), [5, 5]);
        assert_eq!([End::Head, End::Tail].map(|end| steps.whole_next_to(end, 65)), [5 + 2000; 2]);
        // In a run with fewer steps, it is the nearest step in the middle.
        assert_eq!(steps.whole(32, 400), 5 + 98 * 20 + 7);
    }

    #[test]
    fn a_step_that_ends_as_it_begins_is_not_divided() {
        for count in 3..9 {
            let symbols: Vec<u32> = (0..count).flat_map(|_| [1, 2, 3, 4, 5, 1]).collect();
            assert_eq!(steps_of(&symbols), Some(FoldedSteps { start: 0, length: 6, count }), "{count}");
        }
    }

    #[test]
    fn layers_and_loops_over_parameters_are_no_steps() {
        let layers: Vec<u32> = (0..40).chain((0..4).flat_map(|_| 50..60)).chain(70..110).collect();
        assert_eq!(steps_of(&layers), None);
        let parameters: Vec<u32> = (0..100).flat_map(|_| [7, 8]).collect();
        assert_eq!(steps_of(&parameters), None);
    }
}
