//! Which line of a function is which, where lines have moved: their order stays.

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What is known of the allocations on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InOrder<'t, F> {
    /// The lines of its stack, from the innermost frame on.
    pub lines: Vec<u32>,
    /// The operators that allocate; empty where none were recorded.
    pub operators: Vec<&'t str>,
    /// How often it allocates.
    pub counts: (u64, u64),
    /// What it allocates.
    pub figures: F,
}

/// Pairs what is most likely the same, by position. Both sides are in the order of their lines, and so are the
/// pairs. What cannot be told is in no pair.
#[must_use]
pub fn pair_in_order<'s, F: Hash + Eq + Ord>(
    before: &'s [InOrder<'_, F>],
    after: &'s [InOrder<'_, F>],
) -> Vec<(usize, usize)> {
    let all = |side: &[InOrder<'_, F>]| (0..side.len()).collect::<Vec<_>>();
    let mut gaps = vec![(all(before), all(after))];
    let mut pairs = Vec::new();
    // First what is the same in everything, then, in between, what is the same in less.
    for level in 0..3 {
        let mut left = Vec::new();
        for (old, new) in gaps {
            let has_operators = |&index: &usize| !before[index].operators.is_empty();
            if level == 2 && !old.iter().all(has_operators) {
                left.push((old, new));
                continue;
            }
            let aspects = |side: &'s [InOrder<'_, F>], indices: &[usize]| -> Vec<_> {
                let aspect = |&index: &usize| {
                    let item = &side[index];
                    let (counts, figures) = match level {
                        0 => (Some(item.counts), Some(&item.figures)),
                        1 => (Some(item.counts), None),
                        _ => (None, None),
                    };
                    (&*item.operators, counts, figures)
                };
                indices.iter().map(aspect).collect()
            };
            let (olds, news) = (aspects(before, &old), aspects(after, &new));
            for op in diff(&olds, &news) {
                let (_, old_range, new_range) = op.as_tag_tuple();
                if matches!(op, DiffOp::Equal { .. }) {
                    pairs.extend(old[old_range].iter().copied().zip(new[new_range].iter().copied()));
                } else if !old_range.is_empty() && !new_range.is_empty() {
                    left.push((old[old_range].to_vec(), new[new_range].to_vec()));
                }
            }
        }
        gaps = left;
    }
    // As many lines as before: the same ones, doing something else.
    for (old, new) in gaps.into_iter().filter(|(old, new)| old.len() == new.len()) {
        pairs.extend(old.into_iter().zip(new));
    }
    pairs.sort_unstable();
    pairs
}

/// The difference of two sequences. The deadline is far beyond what stacks take; it keeps a hostile input from
/// taking long.
pub(super) fn diff<T: Hash + Eq + Ord>(old: &[T], new: &[T]) -> Vec<DiffOp> {
    let deadline = Instant::now() + Duration::from_millis(500);
    capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32, operator: &str, count: u64, bytes: u64) -> InOrder<'_, u64> {
        let operators = if operator.is_empty() { Vec::new() } else { vec![operator] };
        InOrder { lines: vec![line], operators, counts: (count, 0), figures: bytes }
    }

    #[test]
    fn moved_lines_keep_their_order() {
        let before = [line(10, "", 1, 100), line(12, "", 1, 200), line(13, "", 1, 100)];
        let after = [line(13, "", 1, 100), line(15, "", 1, 200), line(16, "", 1, 100)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn a_new_line_is_new_and_a_larger_one_is_the_same() {
        let before = [line(10, "mul", 4, 100), line(12, "softmax", 4, 200)];
        let after = [line(10, "mul", 4, 300), line(11, "to", 4, 100), line(13, "softmax", 4, 900)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 2)]);
        // Without operators, what did not change tells.
        let before = [line(10, "", 4, 100), line(12, "", 4, 200)];
        let after = [line(10, "", 4, 100), line(11, "", 4, 300), line(13, "", 4, 200)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 2)]);
    }

    #[test]
    fn as_many_lines_are_the_same_ones() {
        let before = [line(10, "", 1, 100), line(12, "", 2, 200)];
        let after = [line(10, "", 3, 300), line(12, "", 4, 400)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 1)]);
        assert_eq!(pair_in_order(&before[..1], &after), []);
    }
}
