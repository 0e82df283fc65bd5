//! Data for pictures of a device: its curves over the recording on a scale that both sides share, and the holders of
//! memory at chosen moments.
//!
//! Where a profile has its trace, the script of a page gets the whole history ([`HistoryColumns`]) and draws any moment and any
//! stretch of it. Of others, such as one of many ranks, there are coarse curves and the moments that a profile keeps.

mod areas;
mod curve;
mod flame;
mod held;
mod pictured;
mod record;
mod units;

pub(crate) use areas::Amounts;
pub(crate) use curve::{Band, CurveEvent, EventKind, SideCurves, Spot};
pub(crate) use flame::{Flame, FlameMoment, FlameNode};
pub(crate) use record::HistoryColumns;

use std::collections::{BTreeMap, HashMap};

use ptmem_base::interner::Interner;
use ptmem_base::sides::{Side, Sides};
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_trace::profile::{DeviceProfile, Profile};

use crate::name::name;
use pictured::Pictured;
use record::Past;
use units::Units;

/// The curves and the holders of the memory of a device.
#[derive(Debug)]
pub(crate) struct Picture {
    /// The curves, before the after.
    pub curves: Vec<SideCurves>,
    /// The categories of all areas, in the order in which they are stacked on either side.
    pub categories: Vec<String>,
    /// Whether two sides are compared.
    pub is_compared: bool,
    /// Whether the curves of both sides lie over each other by their places in the program.
    pub is_aligned: bool,
    /// Who holds the memory.
    pub flame: Flame,
    /// Recorded names of the user's files, by their names in the picture.
    pub files: BTreeMap<String, String>,
    /// The labels of the rows, in the order of the report.
    pub rows: Vec<String>,
    /// The history of each side, where it is known event by event.
    pub records: Sides<Option<HistoryColumns>>,
    /// The rows by the keys of their stacks.
    row_of_key: HashMap<String, usize>,
}

impl Picture {
    /// The picture of a device of a comparison. `internals` shows frames that only pass calls on.
    pub(crate) fn of_diff(diff: &Diff, device: &DeviceDiff, internals: bool) -> Self {
        let profiles = Sides { before: Some(&diff.profiles.before), after: Some(&diff.profiles.after) };
        let devices = diff.sides_of(device);
        let alignment = device.alignment.as_ref().filter(|alignment| alignment.map.is_alike());
        Self::new(Pictured { profiles, devices, rows: Some(&device.rows), alignment, internals })
    }

    /// The picture of a device of one snapshot.
    pub(crate) fn of_device(profile: &Profile, device: &DeviceProfile, internals: bool) -> Self {
        let profiles = Sides { before: None, after: Some(profile) };
        let devices = Sides { before: None, after: Some(device) };
        Self::new(Pictured { profiles, devices, rows: None, alignment: None, internals })
    }

    fn new(pictured: Pictured<'_>) -> Self {
        let mut units = Units::new(&pictured);
        let mut names = Interner::default();
        let pasts = Side::BOTH.into_iter().filter_map(|side| Past::new(&pictured, side, &mut units, &mut names));
        let pasts: Vec<Past<'_>> = pasts.collect();
        let moments = held::moments(&pictured, &pasts, &mut units);
        let is_compared = pictured.rows.is_some();
        let flame = Flame::new(moments, |unit| units.frames(unit), !is_compared, &highest(&pasts, units.count()));
        let names = names.into_items();
        let mut curves: Vec<SideCurves> = pasts.iter().filter_map(|past| curve::curve(past, &names)).collect();
        let categories = areas::stack(&mut curves);
        let layers = names.iter().filter_map(|name| categories.iter().position(|known| known == name));
        let layers: Vec<usize> = layers.collect();
        let (rows, keys): (Vec<String>, Vec<String>) = rows(&pictured).into_iter().unzip();
        let row_of_key: HashMap<String, usize> = keys.into_iter().zip(0..).collect();
        let mut records = Sides::default();
        for past in &pasts {
            *records.of_mut(past.side) = HistoryColumns::new(past, &units, &flame.leaves, &row_of_key, &layers);
        }
        Self {
            curves,
            categories,
            is_compared,
            is_aligned: pictured.alignment.is_some(),
            flame,
            files: files(&pictured),
            rows,
            records,
            row_of_key,
        }
    }

    /// Whether a side has the addresses of its blocks.
    pub(crate) fn has_layout(&self) -> bool {
        [&self.records.before, &self.records.after].into_iter().flatten().any(HistoryColumns::has_layout)
    }

    /// Whether everything that the curves show is known event by event.
    pub(crate) fn has_histories(&self) -> bool {
        let known = self.records.each().into_iter().filter(|(_, record)| record.is_some()).count();
        known > 0 && known == self.curves.len()
    }

    /// The number of the row of a stack by its key.
    pub(crate) fn row(&self, key: &str) -> Option<usize> {
        self.row_of_key.get(key).copied()
    }
}

/// The user's files by their names in reports.
fn files(pictured: &Pictured<'_>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for profile in [pictured.profiles.before, pictured.profiles.after].into_iter().flatten() {
        let code = profile.code();
        files.extend(code.shown_user_files().map(|(shown, recorded)| (shown.to_owned(), recorded.to_owned())));
    }
    files
}

/// The most that each unit holds at any moment, as far as that is known.
fn highest(pasts: &[Past<'_>], units: usize) -> Vec<u64> {
    let mut highest = vec![0; units];
    for past in pasts.iter().filter(|past| past.device.has_moves()) {
        for (most, of_side) in highest.iter_mut().zip(past.device.trace.highest(&past.units, units)) {
            *most = of_side.bytes.max(*most);
        }
    }
    highest
}

/// The labels of the rows of the report, each with its key.
fn rows(pictured: &Pictured<'_>) -> Vec<(String, String)> {
    let rows = pictured.rows.unwrap_or_default().iter().filter(|row| row.kind.is_memory());
    let rows = rows.map(|row| (name(&row.label), row.key.clone()));
    let alone = pictured.devices.after.filter(|_| pictured.rows.is_none());
    let totals = alone.map(|device| &*device.stacks).unwrap_or_default().iter();
    rows.chain(totals.map(|total| (name(&total.label), total.key.0.clone()))).collect()
}
