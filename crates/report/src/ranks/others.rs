//! The stacks of one rank beside those of the others.

use std::collections::{HashMap, HashSet};

use ptmem_compare::diff::RowKind;
use ptmem_trace::profile::Bucket;

use super::{Compared, RankLine, Shown};
use crate::grouped;

/// The figures of stacks on all ranks of a job.
#[derive(Debug)]
pub(crate) struct Others<'a> {
    /// The name of the rank in the middle.
    pub(crate) median: Option<&'a str>,
    /// The number of ranks.
    pub(crate) ranks: usize,
    /// The figure of each stack on the rank in the middle, by key.
    of_median: HashMap<&'a str, i128>,
    /// The number of ranks on which a stack has a figure.
    same: HashMap<(&'a str, i128), usize>,
}

/// The median line by a figure, the lower one of two; `None` if only one line has a figure.
fn median<'l, 'a, T, D>(lines: &'l [RankLine<'a, T, D>]) -> Option<&'l RankLine<'a, T, D>> {
    let mut known: Vec<_> = lines.iter().enumerate().filter_map(|(at, line)| Some((line.figure?, at))).collect();
    known.sort();
    let middle = known.len().checked_sub(1).filter(|last| *last > 0)? / 2;
    Some(&lines[known[middle].1])
}

impl<'a> Others<'a> {
    fn new<T, D>(
        lines: &'a [RankLine<'a, T, D>],
        stacks: impl Fn(&'a RankLine<'a, T, D>) -> Vec<(&'a str, i128)>,
    ) -> Self {
        let median = median(lines);
        let ranks = grouped(lines, |line| std::ptr::from_ref(line.of));
        let mut same: HashMap<(&str, i128), usize> = HashMap::new();
        for devices in &ranks {
            // A stack may have the same figure on several devices of a rank.
            let of_rank: HashSet<_> = devices.iter().flat_map(|line| stacks(line)).collect();
            of_rank.into_iter().for_each(|stack| *same.entry(stack).or_default() += 1);
        }
        Self {
            median: median.map(|line| &*line.name),
            ranks: ranks.len(),
            of_median: median.map(|line| stacks(line).into_iter().collect()).unwrap_or_default(),
            same,
        }
    }

    /// The changes of comparisons.
    pub(crate) fn changes(lines: &'a [Compared<'a>]) -> Self {
        Self::new(lines, |line| {
            let rows = line.all_rows().iter().filter(|row| !matches!(row.kind, RowKind::Others(_)));
            rows.map(|row| (row.key.as_str(), row.delta())).collect()
        })
    }

    /// The bytes that snapshots hold.
    pub(crate) fn held(lines: &'a [Shown<'a>]) -> Self {
        Self::new(lines, |line| {
            let stacks = line.device.map(|device| &*device.stacks).unwrap_or_default();
            let stacks = stacks.iter().filter(|total| total.bucket != Some(Bucket::Others));
            stacks.map(|total| (total.key.0.as_str(), i128::from(total.at.bytes))).collect()
        })
    }

    /// The figure of a stack on the rank in the middle; 0 where it is not there.
    pub(crate) fn of_median(&self, key: &str) -> Option<i128> {
        self.median?;
        Some(self.of_median.get(key).copied().unwrap_or(0))
    }

    /// The number of ranks on which a stack has this figure.
    pub(crate) fn same(&self, key: &str, figure: i128) -> usize {
        self.same.get(&(key, figure)).copied().unwrap_or(0)
    }
}
