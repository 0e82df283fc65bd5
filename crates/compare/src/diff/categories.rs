//! The change of memory by what it is for.

use std::collections::BTreeMap;

use ptmem_trace::profile::{DeviceProfile, Profile};
use ptmem_trace::stack::{GroupBy, Grouper};

use super::Row;
use ptmem_base::sides::Sides;

/// The memory of one category on both sides, at the moment that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryChange {
    /// Its name: one of the user's, one that is built in, or a name for memory without a known stack.
    pub name: String,
    /// Bytes held.
    pub held: Sides<u64>,
}

impl CategoryChange {
    /// The change outside of all categories: see [`super::RowKind::PeakElsewhere`].
    pub(super) fn peak_elsewhere(closing: &Row) -> Self {
        Self { name: format!("[{}]", super::row::PEAK_ELSEWHERE), held: closing.held.map(|held| held.bytes) }
    }
}

/// Groups the memory of both sides by category: by the purposes that recorders saw, where both did.
pub(super) fn groupers(profiles: &Sides<Profile>) -> Sides<Grouper<'_>> {
    let has_purposes = profiles.before.has_purposes() && profiles.after.has_purposes();
    let by = if has_purposes { GroupBy::Purpose } else { GroupBy::Category };
    profiles.map(|profile| profile.grouper_by(by))
}

/// The categories that hold memory on either side of a device. They add up to the change of the allocated bytes.
pub(super) fn changes(devices: Sides<Option<&DeviceProfile>>, groupers: &Sides<Grouper<'_>>) -> Vec<CategoryChange> {
    let mut by_name: BTreeMap<(usize, String), Sides<u64>> = BTreeMap::new();
    for (side, device) in devices.each() {
        for total in device.map(|device| device.grouped(groupers.of(side))).unwrap_or_default().iter() {
            let bytes = total.at.bytes;
            let held = by_name.entry((place(&total.label), total.label.clone())).or_default().of_mut(side);
            *held = held.saturating_add(bytes);
        }
    }
    let changes = by_name.into_iter().map(|((_, name), held)| CategoryChange { name, held });
    changes.filter(|change| change.held != Sides::default()).collect()
}

/// The place of a category in a report: those of the user first, then those that are built in, in the order in which a
/// training step meets them, then memory without a known stack.
fn place(name: &str) -> usize {
    let built_in = ptmem_trace::stack::CATEGORIES.iter().position(|known| *known == name);
    match built_in {
        Some(place) => 1 + place,
        None if name.starts_with(['<', '[']) => 1 + ptmem_trace::stack::CATEGORIES.len(),
        None => 0,
    }
}
