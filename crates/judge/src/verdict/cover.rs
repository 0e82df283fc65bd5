//! Which agreements cover which growth: as much as possible, whatever the order in which they are written.

use std::collections::VecDeque;

/// Growth that agreements cover, each up to its bytes.
#[derive(Debug, Default)]
pub(super) struct Cover {
    /// The bytes that each agreement has left.
    left: Vec<u64>,
    growths: Vec<CoveredGrowth>,
}

/// Growth of one thing, or of several that the same agreements are about.
#[derive(Debug)]
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
        Self { left: bytes.collect(), growths: Vec::new() }
    }

    /// Adds growth of which nothing is covered; returns its number.
    pub(super) fn add(&mut self, about: Vec<bool>) -> usize {
        let covered = vec![0; about.len()];
        self.growths.push(CoveredGrowth { about, covered });
        self.growths.len() - 1
    }

    /// The bytes of a growth that each agreement covers.
    pub(super) fn covered(&self, growth: usize) -> &[u64] {
        &self.growths[growth].covered
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

    /// Gives bytes that cover a growth back to their agreements.
    pub(super) fn uncover(&mut self, growth: usize, bytes: u64) {
        let mut rest = bytes;
        for (covered, left) in self.growths[growth].covered.iter_mut().zip(&mut self.left) {
            let moved = rest.min(*covered);
            *covered -= moved;
            *left += moved;
            rest -= moved;
        }
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
        for (agreements, growth) in growths {
            let at = cover.add((0..bytes.len()).map(|agreement| agreements.contains(&agreement)).collect());
            cover.cover(at, *growth);
        }
        assert!(cover.used().zip(bytes).all(|(used, bytes)| used <= *bytes));
        (0..growths.len()).map(|growth| cover.covered(growth).iter().sum()).collect()
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
    fn what_is_given_back_covers_others() {
        let mut cover = Cover::new([5, 5].into_iter());
        let [one, other] = [vec![true, true], vec![true, false]].map(|about| cover.add(about));
        assert_eq!([cover.cover(one, 9), cover.cover(other, 5)], [9, 1]);
        cover.uncover(one, 4);
        assert_eq!([cover.cover(other, 4), cover.cover(one, 1)], [4, 0]);
        assert_eq!([cover.covered(one), cover.covered(other)], [[0, 5], [5, 0]]);
    }
}
