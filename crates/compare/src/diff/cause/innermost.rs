//! The least of the ranges of lines that contain a line.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Ranges of lines with a rank each, of which a change may have tens of thousands, and a recording as many lines.
#[derive(Debug)]
pub(super) struct Innermost<K> {
    /// Lines from which on the range of the least rank is another one, or none.
    from: Vec<(u64, Option<K>)>,
}

impl<K: Copy + Ord> Innermost<K> {
    /// No two ranges have the same rank.
    pub(super) fn new(ranges: impl Iterator<Item = (RangeInclusive<u32>, K)>) -> Self {
        let ranges = ranges.filter(|(lines, _)| !lines.is_empty());
        let bounds = |(lines, rank): (RangeInclusive<u32>, K)| {
            [(u64::from(*lines.start()), true, rank), (u64::from(*lines.end()) + 1, false, rank)]
        };
        let mut changes: Vec<(u64, bool, K)> = ranges.flat_map(bounds).collect();
        changes.sort_unstable_by_key(|(line, ..)| *line);
        let mut open = BTreeSet::new();
        let mut from = Vec::new();
        for at_line in changes.chunk_by(|(line, ..), (next, ..)| line == next) {
            for &(_, begins, rank) in at_line {
                if begins {
                    open.insert(rank);
                } else {
                    open.remove(&rank);
                }
            }
            from.push((at_line[0].0, open.first().copied()));
        }
        Self { from }
    }

    /// The least rank of the ranges that contain a line.
    pub(super) fn around(&self, line: u32) -> Option<K> {
        let last = self.from.partition_point(|(from, _)| *from <= u64::from(line)).checked_sub(1)?;
        self.from[last].1
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::Innermost;

    #[test]
    fn the_least_of_the_ranges_around_a_line_is_found() {
        let ranges = [
            (1..=9, 8),
            (2..=3, 1),
            (3..=5, 2),
            (5..=5, 0),
            (RangeInclusive::new(7, 6), 3),
            (9..=u32::MAX, 4),
            (4..=4, 9),
        ];
        let innermost = Innermost::new(ranges.iter().cloned());
        for line in (0..12).chain([u32::MAX]) {
            let around = ranges.iter().filter(|(lines, _)| lines.contains(&line));
            assert_eq!(innermost.around(line), around.map(|(_, rank)| *rank).min(), "{line}");
        }
        assert_eq!(Innermost::<u8>::new(std::iter::empty()).around(3), None);
    }

    /// Time that grows with the product of ranges and lines would be minutes.
    #[test]
    fn ranges_may_be_many() {
        const COUNT: u32 = 200_000;
        let innermost = Innermost::new((0..COUNT).map(|at| (at..=2 * COUNT - at, COUNT - at)));
        for line in 0..COUNT {
            assert_eq!(innermost.around(line), Some(COUNT - line));
            assert_eq!(innermost.around(2 * COUNT - line), Some(COUNT - line));
        }
    }
}
