//! The classes of a device as a file within a bound has them.

use std::collections::HashMap;

use super::super::totals::Sums;
use super::super::{Cut, DeviceProfile};
use super::Bound;
use crate::stack::{CppDigest, Grouper};
use crate::trace::{Bucket, Class, Origin};

/// The classes of a device, of which some have lost their stack, and how many stacks that are.
pub(super) struct Bounded {
    pub(super) classes: Vec<Class>,
    pub(super) cut: Option<Cut>,
}

/// The classes of a device within a bound. `grouper` groups by stack.
pub(super) fn bounded(device: &DeviceProfile, grouper: &Grouper<'_>, bound: Bound) -> Bounded {
    let mut kept = Bounded { classes: device.trace.classes.clone(), cut: device.cut };
    let beyond = beyond(device, grouper, bound);
    if let Some(&largest) = beyond.values().max() {
        for class in &mut kept.classes {
            if let Origin::Stack(stack) = class.origin
                && beyond.contains_key(&grouper.key(stack).0)
            {
                class.cpp = digest_of(&grouper.key(stack).0);
                class.origin = Origin::Bucket(Bucket::Others);
            }
        }
        let earlier = kept.cut.unwrap_or(Cut { stacks: 0, largest: 0 });
        kept.cut = Some(Cut { stacks: earlier.stacks + beyond.len(), largest: largest.max(earlier.largest) });
    }
    kept
}

/// The beginning of the key of a group, which tells it from others where nothing else is kept of it.
fn digest_of(key: &str) -> Option<CppDigest> {
    key.get(..16).and_then(|digits| CppDigest::from_str_radix(digits, 16).ok())
}

/// The groups beyond the bound, with the most that each holds. Buckets are always kept.
fn beyond(device: &DeviceProfile, grouper: &Grouper<'_>, bound: Bound) -> HashMap<String, u64> {
    let mut sums: HashMap<String, Sums> = HashMap::new();
    for exact in device.totals(grouper).all {
        if let Origin::Stack(stack) = exact.origin {
            sums.entry(grouper.key(stack).0).or_default().add(&exact.sums);
        }
    }
    sums.retain(|key, _| !Bucket::ALL.iter().any(|bucket| bucket.label() == key));
    let mut groups: Vec<_> = sums.into_iter().map(|(key, sums)| (key, sums.largest())).collect();
    groups.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    let top = if bound.top == 0 { usize::MAX } else { bound.top };
    let large = groups.iter().take_while(|(_, largest)| *largest >= bound.min_bytes).count();
    groups.into_iter().skip(large.min(top)).collect()
}
