//! The stacks and tags of a device that fit the bound of a file, and the sum of the others.

use std::collections::HashMap;

use super::super::exact::{Attribution, Exact, Sums, Totals, merged};
use super::super::totals::Bucket;
use super::super::{Cut, DeviceProfile};
use super::Bound;
use crate::stack::{GroupBy, Grouper};

/// The totals that are kept, and what was left out.
pub(super) struct Kept {
    pub(super) totals: Totals,
    pub(super) cut: Option<Cut>,
}

/// The totals of a device within a bound.
pub(super) fn bounded(device: &DeviceProfile, grouper: &Grouper<'_>, bound: Bound) -> Kept {
    let mut kept = Kept { totals: device.totals.clone(), cut: device.cut };
    if let Some(short) = Family::new(&kept.totals.stacks, GroupBy::Stack, grouper).within(bound) {
        kept.cut = Some(short.cut_with(kept.cut));
        kept.totals.stacks = short.totals;
    }
    shorten(&mut kept.totals.metadata, GroupBy::Metadata, grouper, bound);
    shorten(&mut kept.totals.compile_contexts, GroupBy::CompileContext, grouper, bound);
    kept
}

/// Keeps what fits the bound of the totals by a kind of tag, where there are such.
fn shorten(totals: &mut Option<Vec<Exact>>, by: GroupBy, grouper: &Grouper<'_>, bound: Bound) {
    let short = totals.as_ref().and_then(|totals| Family::new(totals, by, grouper).within(bound));
    if let Some(short) = short {
        *totals = Some(short.totals);
    }
}

/// Totals that together are all that is held, by the groups that are kept or left out as one.
struct Family<'t> {
    totals: &'t [Exact],
    by: GroupBy,
    grouper: &'t Grouper<'t>,
}

/// A family without the groups beyond the bound.
struct Short {
    totals: Vec<Exact>,
    /// The number of groups that were left out.
    groups: usize,
    /// The most that one of them held.
    largest: u64,
}

impl<'t> Family<'t> {
    fn new(totals: &'t [Exact], by: GroupBy, grouper: &'t Grouper<'t>) -> Self {
        Self { totals, by, grouper }
    }

    fn group(&self, exact: &Exact) -> String {
        match exact.attribution {
            Attribution::Stack(stack) if self.by == GroupBy::Stack => self.grouper.key(stack).0,
            Attribution::Bucket(bucket) if self.by == GroupBy::Stack || bucket != Bucket::NoFrames => {
                bucket.label().to_owned()
            }
            _ => exact.tag.map_or_else(String::new, |tag| self.grouper.code().tables().string(tag).to_owned()),
        }
    }

    /// The groups beyond the bound, with the most that each holds. Buckets are always kept.
    fn beyond(&self, bound: Bound) -> HashMap<String, u64> {
        let groups = merged(self.totals.iter().map(|exact| (self.group(exact), &exact.sums)));
        let mut groups: Vec<_> = groups.into_iter().map(|(key, sums)| (key, sums.largest())).collect();
        groups.retain(|(key, _)| !Bucket::ALL.iter().any(|bucket| bucket.label() == key));
        groups.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        let top = if bound.top == 0 { usize::MAX } else { bound.top };
        let large = groups.iter().take_while(|(_, largest)| *largest >= bound.min_bytes).count();
        groups.into_iter().skip(large.min(top)).collect()
    }

    /// Nothing where all of it fits the bound.
    fn within(&self, bound: Bound) -> Option<Short> {
        let beyond = self.beyond(bound);
        if beyond.is_empty() {
            return None;
        }
        let attribution = Attribution::Bucket(Bucket::Others);
        let mut others = Exact::new(attribution, None, Sums::default());
        let mut totals = Vec::new();
        for exact in self.totals {
            // A stack that an earlier bound left out belongs to the others.
            if exact.attribution == attribution || beyond.contains_key(&self.group(exact)) {
                others.sums.add(&exact.sums);
            } else {
                totals.push(*exact);
            }
        }
        totals.push(others);
        Some(Short { totals, groups: beyond.len(), largest: beyond.into_values().max().unwrap_or(0) })
    }
}

impl Short {
    /// Stacks that were left out, now and earlier.
    fn cut_with(&self, earlier: Option<Cut>) -> Cut {
        let earlier = earlier.unwrap_or(Cut { stacks: 0, largest: 0 });
        Cut { stacks: earlier.stacks + self.groups, largest: self.largest.max(earlier.largest) }
    }
}
