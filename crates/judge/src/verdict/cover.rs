//! Which agreements cover which growth: as much as possible, whatever the order in which they are written.

use std::collections::{HashMap, VecDeque};

/// Growth that agreements cover, each up to its bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cover {
    /// The bytes that each agreement has left.
    left: Vec<u64>,
    growths: Vec<CoveredGrowth>,
    /// The number of each growth, by whether each agreement is about it.
    numbers: HashMap<Vec<bool>, usize>,
}

/// Growth of all things that the same agreements are about.
#[derive(Debug, Clone)]
struct CoveredGrowth {
    /// Whether each agreement is about it.
    about: Vec<bool>,
    /// The bytes that each covers.
    covered: Vec<u64>,
}

/// A part of a growth that an agreement is to cover.
#[derive(Debug, Clone, Copy)]
struct CoverStep {
    growth: usize,
    agreement: usize,
    /// The agreement that covers this part so far; `None` if it is not covered.
    replaced: Option<usize>,
}

impl Cover {
    /// No growth is covered by agreements about these bytes.
    pub(super) fn new(bytes: impl Iterator<Item = u64>) -> Self {
        Self { left: bytes.collect(), ..Self::default() }
    }

    /// The number of the growth that these agreements are about.
    pub(super) fn growth(&mut self, about: Vec<bool>) -> usize {
        let number = *self.numbers.entry(about.clone()).or_insert(self.growths.len());
        if number == self.growths.len() {
            self.growths.push(CoveredGrowth { covered: vec![0; about.len()], about });
        }
        number
    }

    /// The bytes that each agreement has left for growth that it is about.
    pub(super) fn left<'a>(&'a self, about: &'a [bool]) -> impl Iterator<Item = u64> + 'a {
        self.left.iter().zip(about).map(|(&left, &is_about)| if is_about { left } else { 0 })
    }

    /// The bytes that each agreement covers of all growth.
    pub(super) fn used(&self) -> impl Iterator<Item = u64> + '_ {
        let growths = &self.growths;
        (0..self.left.len()).map(move |agreement| growths.iter().map(|growth| growth.covered[agreement]).sum())
    }

    /// Covers as much as possible of further bytes of a growth; returns how many. Growth that is covered stays so, possibly by
    /// other agreements.
    pub(super) fn cover(&mut self, growth: usize, bytes: u64) -> u64 {
        let mut missing = bytes;
        while missing > 0 {
            let Some(steps) = self.steps(growth) else { break };
            let last = steps[0].agreement;
            let replaced = steps.iter().filter_map(|step| Some(self.growths[step.growth].covered[step.replaced?]));
            let moved = replaced.fold(missing.min(self.left[last]), u64::min);
            for step in &steps {
                let covered = &mut self.growths[step.growth].covered;
                covered[step.agreement] += moved;
                step.replaced.into_iter().for_each(|agreement| covered[agreement] -= moved);
            }
            self.left[last] -= moved;
            missing -= moved;
        }
        bytes - missing
    }

    /// The same, unless that is not enough for all of them.
    pub(super) fn cover_all(&mut self, growth: usize, bytes: u64) -> u64 {
        let covered = self.cover(growth, bytes);
        if covered == bytes {
            return covered;
        }
        let taken = self.take(growth, covered);
        self.left.iter_mut().zip(taken).for_each(|(left, taken)| *left += taken);
        0
    }

    /// Takes bytes that cover a growth, for one of the things that it is of; returns those of each agreement.
    pub(super) fn take(&mut self, growth: usize, bytes: u64) -> Vec<u64> {
        let mut rest = bytes;
        let mut taken = Vec::with_capacity(self.left.len());
        for covered in &mut self.growths[growth].covered {
            let bytes = rest.min(*covered);
            *covered -= bytes;
            rest -= bytes;
            taken.push(bytes);
        }
        taken
    }

    /// The fewest steps to cover more of a growth, the last first, which uses an agreement that has bytes left. Each other
    /// agreement covers as much as before.
    fn steps(&self, growth: usize) -> Option<Vec<CoverStep>> {
        let mut reached: Vec<Option<CoverStep>> = vec![None; self.left.len()];
        let mut waiting = self.reach(growth, None, &mut reached);
        while let Some(agreement) = waiting.pop_front() {
            if self.left[agreement] > 0 {
                let last = reached[agreement];
                return Some(std::iter::successors(last, |step| reached[step.replaced?]).collect());
            }
            for (other, _) in self.growths.iter().enumerate().filter(|(_, other)| other.covered[agreement] > 0) {
                waiting.append(&mut self.reach(other, Some(agreement), &mut reached));
            }
        }
        None
    }

    /// Notes the agreements about a growth that have not been reached, and returns them.
    fn reach(&self, growth: usize, replaced: Option<usize>, reached: &mut [Option<CoverStep>]) -> VecDeque<usize> {
        let about = self.growths[growth].about.iter().enumerate().filter(|(_, is_about)| **is_about);
        let new: VecDeque<usize> = about.map(|(at, _)| at).filter(|&at| reached[at].is_none()).collect();
        for &agreement in &new {
            reached[agreement] = Some(CoverStep { growth, agreement, replaced });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that are covered of growths, each with the agreements about it.
    fn covered(bytes: &[u64], growths: &[(&[usize], u64)]) -> Vec<u64> {
        let mut cover = Cover::new(bytes.iter().copied());
        let mut all = Vec::new();
        for (agreements, growth) in growths {
            let at = cover.growth((0..bytes.len()).map(|agreement| agreements.contains(&agreement)).collect());
            all.push(cover.cover(at, *growth));
        }
        assert!(cover.used().zip(bytes).all(|(used, bytes)| used <= *bytes));
        assert_eq!(cover.used().sum::<u64>(), all.iter().sum::<u64>());
        all
    }

    #[test]
    fn as_much_is_covered_as_possible() {
        assert_eq!(covered(&[], &[(&[], 5)]), [0]);
        assert_eq!(covered(&[10], &[(&[0], 4), (&[], 4), (&[0], 7)]), [4, 0, 6]);
        // An agreement about both does not go to the one that has its own.
        assert_eq!(covered(&[10, 10], &[(&[0, 1], 10), (&[0], 10)]), [10, 10]);
        assert_eq!(covered(&[10, 10], &[(&[0, 1], 10), (&[1], 10)]), [10, 10]);
        assert_eq!(covered(&[10, 10], &[(&[0, 1], 6), (&[0], 6), (&[1], 6)]), [6, 6, 6]);
        // Each makes room for the one before.
        assert_eq!(covered(&[5, 5, 5], &[(&[0, 1], 5), (&[1, 2], 5), (&[1], 5)]), [5, 5, 5]);
        assert_eq!(covered(&[5, 5, 5], &[(&[0, 1], 5), (&[0, 2], 5), (&[1], 3), (&[1], 3)]), [5, 5, 3, 2]);
        assert_eq!(covered(&[u64::MAX], &[(&[0], u64::MAX), (&[0], 1)]), [u64::MAX, 0]);
    }

    #[test]
    fn all_is_covered_or_nothing() {
        let mut cover = Cover::new([5, 5].into_iter());
        let [one, other] = [vec![true, true], vec![true, false]].map(|about| cover.growth(about));
        assert_eq!([cover.cover_all(one, 5), cover.cover_all(other, 6), cover.cover_all(one, 6)], [5, 0, 0]);
        assert_eq!([cover.cover_all(other, 4), cover.cover_all(one, 1)], [4, 1]);
        assert_eq!([cover.take(one, 2), cover.take(one, 4), cover.take(other, 4)], [[1, 1], [0, 4], [4, 0]]);
    }

    /// Otherwise many stacks take long.
    #[test]
    fn things_of_the_same_agreements_are_one_growth() {
        let mut cover = Cover::new([5, 5].into_iter());
        let growths = [[true, true], [true, false], [true, true]].map(|about| cover.growth(about.to_vec()));
        assert_eq!(growths, [0, 1, 0]);
    }
}
