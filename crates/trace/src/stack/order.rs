//! Pairs the lines of a function where lines have moved: their order stays.

use ptmem_base::difference::difference;
use ptmem_base::sides::Sides;
use similar::DiffOp;

use super::GroupFigures;

/// The allocations on one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InOrder<'t> {
    /// The operators that allocate; empty where none were recorded.
    pub operators: &'t [&'t str],
    /// The figures of its allocations.
    pub figures: GroupFigures,
}

/// The figures of lines that must be the same besides their operators, from all to none; then operators must be known.
const LEVELS: [fn(GroupFigures) -> GroupFigures; 3] =
    [std::convert::identity, GroupFigures::counts, GroupFigures::none];

/// Pairs the lines that are most likely the same, by position. Both sides are in the order of their lines, and so are
/// the pairs. A line with an ambiguous partner is not paired.
pub fn pair_in_order(before: &[InOrder<'_>], after: &[InOrder<'_>]) -> Vec<(usize, usize)> {
    let mut gaps = vec![Gap { old: (0..before.len()).collect(), new: (0..after.len()).collect() }];
    let mut pairs = Vec::new();
    // First the lines that are the same in everything, then, in between, those that are the same in less.
    for (level, figures) in LEVELS.into_iter().enumerate() {
        let mut left = Vec::new();
        for gap in gaps {
            if level + 1 == LEVELS.len() && gap.old.iter().any(|&index| before[index].operators.is_empty()) {
                left.push(gap);
                continue;
            }
            let aspects =
                Sides { before: aspects(before, &gap.old, figures), after: aspects(after, &gap.new, figures) };
            for op in difference(aspects.map(Vec::as_slice)) {
                let old = &gap.old[op.old_range()];
                let new = &gap.new[op.new_range()];
                if matches!(op, DiffOp::Equal { .. }) {
                    pairs.extend(old.iter().copied().zip(new.iter().copied()));
                } else if !old.is_empty() && !new.is_empty() {
                    left.push(Gap { old: old.to_vec(), new: new.to_vec() });
                }
            }
        }
        gaps = left;
    }
    // As many lines as before: the same ones, doing something else.
    for gap in gaps.into_iter().filter(|gap| gap.old.len() == gap.new.len()) {
        pairs.extend(gap.old.into_iter().zip(gap.new));
    }
    pairs.sort_unstable();
    pairs
}

/// Lines between those that are paired, by their indices.
struct Gap {
    old: Vec<usize>,
    new: Vec<usize>,
}

/// Lines with those figures that count.
fn aspects<'t>(side: &[InOrder<'t>], indices: &[usize], figures: fn(GroupFigures) -> GroupFigures) -> Vec<InOrder<'t>> {
    let lines = indices.iter().map(|&index| side[index]);
    lines.map(|line| InOrder { figures: figures(line.figures), ..line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operators: &'static [&str], allocations: u64, bytes: u64) -> InOrder<'static> {
        InOrder { operators, figures: GroupFigures { allocations, bytes, ..GroupFigures::default() } }
    }

    #[test]
    fn moved_lines_keep_their_order() {
        let before = [line(&[], 1, 100), line(&[], 1, 200), line(&[], 1, 100)];
        let after = [line(&[], 1, 100), line(&[], 1, 200), line(&[], 1, 100)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn a_new_line_is_new_and_a_larger_one_is_the_same() {
        let before = [line(&["mul"], 4, 100), line(&["softmax"], 4, 200)];
        let after = [line(&["mul"], 4, 300), line(&["to"], 4, 100), line(&["softmax"], 4, 900)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 2)]);
        // Without operators, unchanged figures decide.
        let before = [line(&[], 4, 100), line(&[], 4, 200)];
        let after = [line(&[], 4, 100), line(&[], 4, 300), line(&[], 4, 200)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 2)]);
    }

    #[test]
    fn as_many_lines_are_the_same_ones() {
        let before = [line(&[], 1, 100), line(&[], 2, 200)];
        let after = [line(&[], 3, 300), line(&[], 4, 400)];
        assert_eq!(pair_in_order(&before, &after), [(0, 0), (1, 1)]);
        assert_eq!(pair_in_order(&before[..1], &after), []);
    }
}
