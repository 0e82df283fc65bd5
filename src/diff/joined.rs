//! Stacks that a change to the code took apart or put together, as one.

use std::borrow::Cow;

use super::Sides;
use crate::profile::StackTotal;

/// The stacks of a pair, with the parts of it that lie elsewhere on one side.
pub(super) struct Joined<'t> {
    pub(super) totals: Sides<Cow<'t, StackTotal>>,
    /// See [`super::Row::joined`].
    pub(super) highest: Option<Sides<u64>>,
}

fn saturating_sum(sum: u64, bytes: Option<u64>) -> Option<u64> {
    bytes.map(|bytes| sum.saturating_add(bytes))
}

impl<'t> Joined<'t> {
    pub(super) fn new(stacks: Sides<&'t [StackTotal]>, pair: (usize, usize), parts: &[(usize, usize)]) -> Self {
        let (before, after) = pair;
        let more_before = parts.iter().filter(|part| part.1 == after).map(|part| part.0);
        let more_after = parts.iter().filter(|part| part.0 == before).map(|part| part.1);
        let all = Sides {
            before: std::iter::once(before).chain(more_before).map(|index| &stacks.before[index]).collect::<Vec<_>>(),
            after: std::iter::once(after).chain(more_after).map(|index| &stacks.after[index]).collect::<Vec<_>>(),
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
