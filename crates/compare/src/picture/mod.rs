//! Data for pictures of a device: its curves over the recording on a scale that both sides share, and the holders of
//! memory at chosen moments.
//!
//! Where a profile has its trace, the script of a page gets the whole history ([`Record`]) and draws any moment and any
//! stretch of it. Of others, such as one of many ranks, there are coarse curves and the moments that a profile keeps.

mod curve;
mod flame;
mod held;
mod record;
mod units;

use record::Past;

pub use curve::{Area, Band, Curve, Event, EventKind, Spot};
pub use flame::{Flame, Moment};
pub use record::Record;

use std::collections::{BTreeMap, HashMap};

use crate::align::Alignment;
use crate::diff::{DeviceDiff, Diff, Row};
use crate::profile::{DeviceProfile, Profile};
use crate::sides::{Side, Sides};

/// The curves and the holders of the memory of a device.
#[derive(Debug)]
pub struct Picture {
    /// The curves, before the after.
    pub curves: Vec<Curve>,
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
    pub records: Sides<Option<Record>>,
    /// The rows by the keys of their stacks.
    row_of_key: HashMap<String, usize>,
}

/// Inputs of a picture.
#[derive(Clone, Copy)]
pub(crate) struct Pictured<'p> {
    profiles: Sides<Option<&'p Profile>>,
    devices: Sides<Option<&'p DeviceProfile>>,
    /// The stacks of a comparison.
    rows: Option<&'p [Row]>,
    /// How the histories of a comparison correspond, where they do.
    alignment: Option<&'p Alignment>,
    /// Whether frames that only pass calls on are shown.
    internals: bool,
}

impl Picture {
    /// The picture of a device of a comparison. `internals` shows frames that only pass calls on.
    pub fn of_diff(diff: &Diff, device: &DeviceDiff, internals: bool) -> Self {
        let profiles = Sides { before: Some(&diff.profiles.before), after: Some(&diff.profiles.after) };
        let devices = Sides {
            before: device.index.before.map(|index| &diff.profiles.before.devices[index]),
            after: device.index.after.map(|index| &diff.profiles.after.devices[index]),
        };
        let alignment = device.alignment.as_ref().filter(|alignment| alignment.map.is_alike());
        Self::new(Pictured { profiles, devices, rows: Some(&device.rows), alignment, internals })
    }

    /// The picture of a device of one snapshot.
    pub fn of_device(profile: &Profile, device: &DeviceProfile, internals: bool) -> Self {
        let profiles = Sides { before: None, after: Some(profile) };
        let devices = Sides { before: None, after: Some(device) };
        Self::new(Pictured { profiles, devices, rows: None, alignment: None, internals })
    }

    fn new(pictured: Pictured<'_>) -> Self {
        let mut units = units::Units::new(&pictured);
        let pasts = Sides {
            before: Past::new(&pictured, Side::Before, &mut units),
            after: Past::new(&pictured, Side::After, &mut units),
        };
        let is_compared = pictured.rows.is_some();
        let alignment = pictured.alignment;
        let holdings = held::holdings(&pictured, &pasts, &mut units);
        let flame = holdings.flame(|unit| units.frames(unit), !is_compared, &highest(&pasts, units.count()));
        let known = pasts.each().into_iter().filter_map(|(side, past)| Some((side, past.as_ref()?)));
        let curves = known.filter_map(|(side, past)| curve::curve(past, side, is_compared, alignment));
        let mut curves: Vec<Curve> = curves.collect();
        let categories = curve::stack(&mut curves);
        let rows = Rows::new(&pictured);
        let mut records = Sides::default();
        for (side, past) in pasts.each() {
            let Some(past) = past else { continue };
            *records.of_mut(side) = Record::new(past, side, &flame.leaves, rows.keys.of(side), &categories, alignment);
        }
        Self {
            records,
            curves,
            is_compared,
            is_aligned: alignment.is_some(),
            flame,
            files: files(&pictured),
            row_of_key: rows.keys.after,
            rows: rows.labels,
            categories,
        }
    }

    /// Whether a side has the addresses of its blocks.
    pub fn has_layout(&self) -> bool {
        [&self.records.before, &self.records.after].into_iter().flatten().any(|record| record.layout.is_some())
    }

    /// The number of the row of a stack by its key.
    pub fn row(&self, key: &str) -> Option<usize> {
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
fn highest(pasts: &Sides<Option<Past<'_>>>, units: usize) -> Vec<u64> {
    let mut highest = vec![0; units];
    for past in [&pasts.before, &pasts.after].into_iter().flatten().filter(|past| past.has_moves()) {
        for (most, of_side) in highest.iter_mut().zip(past.device.trace.highest(&past.units, units)) {
            *most = of_side.bytes.max(*most);
        }
    }
    highest
}

/// The rows of the report: what each is called, and the keys that its stacks have on both sides.
struct Rows {
    labels: Vec<String>,
    keys: Sides<HashMap<String, usize>>,
}

impl Rows {
    fn new(pictured: &Pictured<'_>) -> Self {
        let mut rows = Self { labels: Vec::new(), keys: Sides::default() };
        let groupers = pictured.profiles.map(|profile| profile.map(Profile::grouper));
        for row in pictured.rows.unwrap_or_default().iter().filter(|row| row.kind.is_memory()) {
            let before = groupers.before.as_ref().filter(|grouper| !grouper.by().is_tag()).zip(row.stack.before);
            let before = before.map_or_else(|| row.key.clone(), |(grouper, stack)| grouper.key(stack).0);
            rows.add(&row.label, Sides { before, after: row.key.clone() });
        }
        let alone = pictured.devices.after.filter(|_| pictured.rows.is_none());
        for total in alone.map(|device| &*device.stacks).unwrap_or_default() {
            rows.add(&total.label, Sides { before: total.key.0.clone(), after: total.key.0.clone() });
        }
        rows
    }

    fn add(&mut self, label: &str, keys: Sides<String>) {
        let at = self.labels.len();
        self.labels.push(label.to_owned());
        self.keys.before.insert(keys.before, at);
        self.keys.after.insert(keys.after, at);
    }
}
