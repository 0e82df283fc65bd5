//! The stacks of one rank beside those of the others.

use std::collections::HashMap;

use super::{Compared, Line, Shown};
use crate::diff::{Row, RowKind};
use crate::profile::{Bucket, StackTotal};

/// The figures of stacks on all ranks of a job.
#[derive(Debug)]
pub(crate) struct Others<'a> {
    /// The name of the rank in the middle.
    pub(crate) median: Option<&'a str>,
    /// The number of ranks.
    pub(crate) ranks: usize,
    /// The figure of each stack on the rank in the middle, by key.
    of_median: HashMap<&'a str, i128>,
    /// The ranks on which a stack has a figure.
    same: HashMap<(&'a str, i128), Seen>,
}

/// Ranks on which something was seen, one rank after the other.
#[derive(Debug, Default)]
struct Seen {
    /// The number of the latest of them.
    latest: usize,
    /// The number of them.
    count: usize,
}

impl Seen {
    /// Counts a rank, the several devices of one rank once.
    fn on(&mut self, rank: usize) {
        if self.latest != rank {
            self.latest = rank;
            self.count += 1;
        }
    }
}

/// The line in the middle by a figure, of two the lower; none where there is only one line with a figure.
fn median<'l, 'a, T, D, K: Ord>(
    lines: &'l [Line<'a, T, D>],
    figure: impl Fn(&Line<'a, T, D>) -> Option<K>,
) -> Option<&'l Line<'a, T, D>> {
    let mut known: Vec<_> = lines.iter().enumerate().filter_map(|(at, line)| Some((figure(line)?, at))).collect();
    known.sort();
    let middle = known.len().checked_sub(1).filter(|last| *last > 0)? / 2;
    Some(&lines[known[middle].1])
}

impl<'a> Others<'a> {
    fn new<T, D, K: Ord>(
        lines: &'a [Line<'a, T, D>],
        figure: impl Fn(&Line<'a, T, D>) -> Option<K>,
        stacks: impl Fn(&Line<'a, T, D>) -> Vec<(&'a str, i128)>,
    ) -> Self {
        let median = median(lines, figure);
        let mut numbers: HashMap<*const T, usize> = HashMap::new();
        let mut same: HashMap<(&str, i128), Seen> = HashMap::new();
        for line in lines {
            let next = numbers.len() + 1;
            let rank = *numbers.entry(std::ptr::from_ref(line.of)).or_insert(next);
            stacks(line).into_iter().for_each(|stack| same.entry(stack).or_default().on(rank));
        }
        Self {
            median: median.map(|line| &*line.name),
            ranks: numbers.len(),
            of_median: median.map(|line| stacks(line).into_iter().collect()).unwrap_or_default(),
            same,
        }
    }

    /// The changes of comparisons.
    pub(crate) fn changes(lines: &'a [Compared<'a>]) -> Self {
        Self::new(lines, Compared::growth, |line| {
            let rows = line.all_rows().iter().filter(|row| !is_sum(row));
            rows.map(|row| (row.key.as_str(), row.delta())).collect()
        })
    }

    /// The bytes that snapshots hold.
    pub(crate) fn held(lines: &'a [Shown<'a>]) -> Self {
        Self::new(lines, Shown::peak, |line| {
            let stacks = line.device.map(|device| &*device.stacks).unwrap_or_default();
            let stacks = stacks.iter().filter(|total| !is_sum_of_totals(total));
            stacks.map(|total| (total.key.0.as_str(), i128::from(total.at.bytes))).collect()
        })
    }

    /// The figure of a stack on the rank in the middle; 0 where it is not there.
    fn of_median(&self, key: &str) -> Option<i128> {
        self.median?;
        Some(self.of_median.get(key).copied().unwrap_or(0))
    }

    /// The figure on the rank in the middle of all stacks but these.
    fn rest_of_median<'k>(&self, listed: impl Iterator<Item = &'k str>) -> Option<i128> {
        self.median?;
        let all: i128 = self.of_median.values().sum();
        Some(all - listed.filter_map(|key| self.of_median.get(key)).sum::<i128>())
    }

    /// The number of ranks on which a stack has this figure.
    pub(crate) fn same(&self, key: &str, figure: i128) -> usize {
        self.same.get(&(key, figure)).map_or(0, |seen| seen.count)
    }
}

/// Whether a row is the sum of rows that are not listed.
fn is_sum(row: &Row) -> bool {
    matches!(row.kind, RowKind::Others(_))
}

fn is_sum_of_totals(total: &StackTotal) -> bool {
    total.bucket == Some(Bucket::Others)
}

/// The figure that each row has on the rank in the middle.
pub(crate) fn medians_of_rows(others: &Others<'_>, rows: &[Row]) -> Vec<Option<i128>> {
    medians(others, rows.iter().map(|row| (!is_sum(row)).then_some(&*row.key)))
}

/// The figure that each stack of a snapshot has on the rank in the middle.
pub(crate) fn medians_of_stacks(others: &Others<'_>, totals: &[StackTotal]) -> Vec<Option<i128>> {
    medians(others, totals.iter().map(|total| (!is_sum_of_totals(total)).then_some(&*total.key.0)))
}

/// The figures of stacks by their keys, and that of all others where there is no key.
fn medians<'k>(others: &Others<'_>, keys: impl Iterator<Item = Option<&'k str>> + Clone) -> Vec<Option<i128>> {
    let all = keys.clone().map(|key| match key {
        Some(key) => others.of_median(key),
        None => others.rest_of_median(keys.clone().flatten()),
    });
    all.collect()
}
