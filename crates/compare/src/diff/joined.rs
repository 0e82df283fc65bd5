//! Stacks that a change to the code took apart or put together, as one.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Sides;
use crate::profile::StackTotal;

/// The parts of stacks, by the stack of the other side that they belong to.
#[derive(Default)]
pub(super) struct Parts {
    /// Those of the before.
    before: HashMap<usize, Vec<usize>>,
    /// Those of the after.
    after: HashMap<usize, Vec<usize>>,
}

impl Parts {
    pub(super) fn new(parts: &[(usize, usize)]) -> Self {
        let mut found = Self::default();
        for &(before, after) in parts {
            found.before.entry(after).or_default().push(before);
            found.after.entry(before).or_default().push(after);
        }
        found
    }
}

/// The stacks of a pair, with the parts of it that lie elsewhere on one side.
pub(super) struct Joined<'t> {
    pub(super) totals: Sides<Cow<'t, StackTotal>>,
    /// See [`super::Row::joined`].
    pub(super) highest: Option<Sides<u64>>,
}

fn with_parts<'t>(stacks: &'t [StackTotal], first: usize, parts: Option<&Vec<usize>>) -> Vec<&'t StackTotal> {
    std::iter::once(&first).chain(parts.into_iter().flatten()).map(|&index| &stacks[index]).collect()
}

fn saturating_sum(sum: u64, bytes: Option<u64>) -> Option<u64> {
    bytes.map(|bytes| sum.saturating_add(bytes))
}

impl<'t> Joined<'t> {
    pub(super) fn new(stacks: Sides<&'t [StackTotal]>, pair: (usize, usize), parts: &Parts) -> Self {
        let (before, after) = pair;
        let all = Sides {
            before: with_parts(stacks.before, before, parts.before.get(&after)),
            after: with_parts(stacks.after, after, parts.after.get(&before)),
        };
        let totals = all.map(|groups| match groups[..] {
            [only] => Cow::Borrowed(only),
            _ => StackTotal::joined(groups).map_or(Cow::Borrowed(groups[0]), Cow::Owned),
        });
        let mut highest = all.map(|groups| groups.iter().map(|group| group.highest.map(|most| most.bytes)));
        let highest = match (all.before.len(), all.after.len()) {
            (1, 1) => None,
            // Together they held no less than the largest, or than at one moment, and no more than the most of each.
            _ => highest.before.max().flatten().zip(highest.after.try_fold(0, saturating_sum)),
        };
        let highest = highest.map(|(before, after)| Sides { before: before.max(totals.before.largest()), after });
        Self { totals, highest }
    }
}
