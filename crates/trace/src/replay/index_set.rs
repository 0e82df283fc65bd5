//! An ordered set of small integers.

/// A set of integers below a limit that finds the neighbours of each in a few steps, however many it holds.
///
/// It has a bit for each integer, and above them a tree: each word of 64 bits has one bit in the level above, set while
/// any of its own is. Three levels are enough for 262,144 integers, and most neighbors are in the same word.
#[derive(Debug)]
pub(super) struct IndexSet {
    /// The members, then which words of the level before are not empty; the last is one word.
    levels: Vec<Vec<u64>>,
}

const BITS: usize = u64::BITS as usize;

impl IndexSet {
    /// An empty set of integers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = limit;
        loop {
            words = words.div_ceil(BITS).max(1);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
        }
    }

    pub(super) fn insert(&mut self, index: usize) {
        let mut at = index;
        for level in &mut self.levels {
            let word = &mut level[at / BITS];
            let was_empty = *word == 0;
            *word |= 1 << (at % BITS);
            if !was_empty {
                break;
            }
            at /= BITS;
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        let mut at = index;
        for level in &mut self.levels {
            let word = &mut level[at / BITS];
            *word &= !(1 << (at % BITS));
            if *word != 0 {
                break;
            }
            at /= BITS;
        }
    }

    /// The least member that is no less than `index`.
    pub(super) fn from(&self, index: usize) -> Option<usize> {
        let mut at = index;
        for (height, level) in self.levels.iter().enumerate() {
            let later = level.get(at / BITS)? & (u64::MAX << (at % BITS));
            if later != 0 {
                let at = at / BITS * BITS + later.trailing_zeros() as usize;
                let down = self.levels[..height].iter().rev();
                return Some(down.fold(at, |at, level| at * BITS + level[at].trailing_zeros() as usize));
            }
            at = at / BITS + 1;
        }
        None
    }

    /// The greatest member that is less than `index`.
    pub(super) fn before(&self, index: usize) -> Option<usize> {
        let mut end = index;
        for (height, level) in self.levels.iter().enumerate() {
            let last = end.checked_sub(1)?;
            let earlier = level[last / BITS] & (u64::MAX >> (BITS - 1 - last % BITS));
            if earlier != 0 {
                let at = last / BITS * BITS + earlier.ilog2() as usize;
                let down = self.levels[..height].iter().rev();
                return Some(down.fold(at, |at, level| at * BITS + level[at].ilog2() as usize));
            }
            end = last / BITS;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_the_set_of_std(
            limit in prop_oneof![1..5_usize, 60..70_usize, 4000..4200_usize, 260_000..270_000_usize],
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..200),
        ) {
            let mut set = IndexSet::new(limit);
            let mut expected = BTreeSet::new();
            for (adds, index, asked) in steps {
                let index = index.index(limit);
                let asked = asked.index(limit + 1);
                if adds {
                    set.insert(index);
                    expected.insert(index);
                } else {
                    // Members are rarely hit by chance.
                    let index = expected.range(index..).next().copied().unwrap_or(index);
                    set.remove(index);
                    expected.remove(&index);
                }
                for at in [index, asked, 0, limit] {
                    prop_assert_eq!(set.from(at), expected.range(at..).next().copied());
                    prop_assert_eq!(set.before(at), expected.range(..at).next_back().copied());
                }
            }
        }
    }

    #[test]
    fn an_empty_set_has_no_neighbours() {
        for limit in [0, 1, 64, 65, 5000] {
            let set = IndexSet::new(limit);
            assert_eq!((set.from(0), set.before(limit)), (None, None));
        }
    }
}
