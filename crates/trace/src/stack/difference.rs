//! The difference of two stacks, in bounded time.

use ptmem_base::difference::{numbered, of_numbers};
use ptmem_base::sides::Sides;
use rustc_hash::FxHashMap;
use similar::DiffOp;

use super::Token;

/// Stacks whose lengths, without their common first and last frames, have a larger product are compared by bit-parallel
/// code: the time of Myers' algorithm grows with the square of the differences, and a file may have thousands of
/// stacks.
const MOST_BY_MYERS: usize = 1 << 12;

/// The difference of two stacks of a few hundred frames.
pub(super) fn stack_differences(stacks: Sides<&[Token]>) -> Vec<DiffOp> {
    differences(&numbered(stacks))
}

fn differences(items: &Sides<Vec<usize>>) -> Vec<DiffOp> {
    let Sides { before: old, after: new } = items;
    let first = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let behind = old[first..].iter().rev().zip(new[first..].iter().rev()).take_while(|(old, new)| old == new).count();
    let old_middle = &old[first..old.len() - behind];
    let new_middle = &new[first..new.len() - behind];
    if old_middle.len().saturating_mul(new_middle.len()) <= MOST_BY_MYERS {
        return of_numbers(items);
    }
    let mut pairs: Vec<_> = (0..first).map(|at| (at, at)).collect();
    pairs.extend(common(old_middle, new_middle).into_iter().map(|(i, j)| (first + i, first + j)));
    pairs.extend((1..=behind).rev().map(|back| (old.len() - back, new.len() - back)));
    operations(&pairs, old.len(), new.len())
}

/// A longest common subsequence, by the positions of its items: the algorithm of Hyyrö, a bit for each item of `old`.
fn common(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let words = old.len().div_ceil(64);
    let mut places: FxHashMap<usize, Vec<u64>> = FxHashMap::default();
    for (at, &item) in old.iter().enumerate() {
        places.entry(item).or_insert_with(|| vec![0; words])[at / 64] |= 1 << (at % 64);
    }
    // A row for each item of `new`: a bit is 0 where the subsequence up to there grows by an item of `old`.
    let mut rows = vec![u64::MAX; words];
    rows.reserve_exact(words * new.len());
    for (at, item) in new.iter().enumerate() {
        let mut carry = false;
        for word in 0..words {
            let above = rows[at * words + word];
            let matching = above & places.get(item).map_or(0, |places| places[word]);
            let (sum, over) = above.overflowing_add(matching);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            carry = over || over_again;
            rows.push(sum | (above - matching));
        }
    }
    let grows = |row: usize, column: usize| rows[row * words + column / 64] >> (column % 64) & 1 == 0;
    let mut pairs = Vec::new();
    let mut row = new.len();
    let mut column = old.len();
    while row > 0 && column > 0 {
        if !grows(row, column - 1) {
            column -= 1;
        } else if grows(row - 1, column - 1) {
            row -= 1;
        } else {
            row -= 1;
            column -= 1;
            pairs.push((column, row));
        }
    }
    pairs.reverse();
    pairs
}

/// The operations that keep these pairs of positions.
fn operations(pairs: &[(usize, usize)], old_len: usize, new_len: usize) -> Vec<DiffOp> {
    let mut all = Vec::new();
    let mut old_index = 0;
    let mut new_index = 0;
    for &(old, new) in pairs.iter().chain([&(old_len, new_len)]) {
        match (old - old_index, new - new_index) {
            (0, 0) => {}
            (old_len, 0) => all.push(DiffOp::Delete { old_index, old_len, new_index }),
            (0, new_len) => all.push(DiffOp::Insert { old_index, new_index, new_len }),
            (old_len, new_len) => all.push(DiffOp::Replace { old_index, old_len, new_index, new_len }),
        }
        match all.last_mut() {
            _ if old == old_len => {}
            Some(DiffOp::Equal { len, .. }) => *len += 1,
            _ => all.push(DiffOp::Equal { old_index: old, new_index: new, len: 1 }),
        }
        old_index = old + 1;
        new_index = new + 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use similar::DiffTag;

    fn kept(operations: &[DiffOp]) -> usize {
        let kept = operations.iter().filter(|operation| matches!(operation, DiffOp::Equal { .. }));
        kept.map(|operation| operation.old_range().len()).sum()
    }

    proptest! {
        /// Both algorithms keep as many items, and the operations are those of the sequences.
        #[test]
        fn bits_keep_as_many_items_as_myers(
            old in prop::collection::vec(0_usize..9, 0..300),
            new in prop::collection::vec(0_usize..9, 0..300),
        ) {
            let items = Sides { before: old.clone(), after: new.clone() };
            let expected = of_numbers(&items);
            let found = operations(&common(&old, &new), old.len(), new.len());
            prop_assert_eq!(kept(&found), kept(&expected));
            prop_assert_eq!(kept(&differences(&items)), kept(&expected));
            for operations in [found, differences(&items)] {
                let mut places = (0, 0);
                for operation in &operations {
                    prop_assert_eq!((operation.old_range().start, operation.new_range().start), places);
                    places = (operation.old_range().end, operation.new_range().end);
                    if let DiffOp::Equal { .. } = operation {
                        prop_assert_eq!(&old[operation.old_range()], &new[operation.new_range()]);
                    }
                }
                prop_assert_eq!(places, (old.len(), new.len()));
                let tags: Vec<_> = operations.iter().copied().map(DiffOp::tag).collect();
                let is_equal = |tag: DiffTag| tag == DiffTag::Equal;
                prop_assert!(tags.windows(2).all(|two| is_equal(two[0]) != is_equal(two[1])));
            }
        }
    }
}
