//! Data for pictures of a device: its curves over the recording on a scale that both sides share, and the holders of
//! memory at chosen moments.
//!
//! Snapshots that were read with [`crate::profile::Options::history`] give fine curves and any moment. Of others, such
//! as saved profiles, there are coarse curves and the moments that a profile keeps.

mod area;
mod curve;
mod flame;
mod held;
mod span;
mod units;

pub(crate) use area::Area;
pub(crate) use curve::{Band, Curve, Event, EventKind, Spot};
pub(crate) use flame::{Flame, Moment, MomentKind};
pub(crate) use span::{EventRange, Span};

use std::collections::{BTreeMap, HashMap};

use crate::align::Correspondence;
use crate::diff::{DeviceDiff, Diff, Row};
use crate::profile::{DeviceProfile, Profile};
use crate::sides::{Side, Sides};

/// The curves and the holders of the memory of a device.
#[derive(Debug)]
pub(crate) struct Picture {
    /// The curves, before the after.
    pub(crate) curves: Vec<Curve>,
    /// The categories of all areas, in the order in which they are stacked on either side.
    pub(crate) categories: Vec<String>,
    /// Whether two sides are compared.
    pub(crate) is_compared: bool,
    /// Whether the curves of both sides lie over each other by their places in the program.
    pub(crate) is_aligned: bool,
    /// Who holds the memory.
    pub(crate) flame: Flame,
    /// Recorded names of the user's files, by their names in the picture.
    pub(crate) files: BTreeMap<String, String>,
    /// The lifetimes of the blocks that make the peak, by the key of their stack.
    spans: HashMap<String, Span>,
}

/// Inputs of a picture.
#[derive(Clone, Copy)]
pub(crate) struct Pictured<'p> {
    profiles: Sides<Option<&'p Profile>>,
    devices: Sides<Option<&'p DeviceProfile>>,
    /// The stacks of a comparison.
    rows: Option<&'p [Row]>,
    /// Whether frames that only pass calls on are shown.
    internals: bool,
}

impl Picture {
    /// The picture of a device of a comparison. `internals` shows frames that only pass calls on.
    pub(crate) fn of_diff(diff: &Diff, device: &DeviceDiff, internals: bool) -> Self {
        let profiles = Sides { before: Some(&diff.profiles.before), after: Some(&diff.profiles.after) };
        let devices = Sides {
            before: device.index.before.map(|index| &diff.profiles.before.devices[index]),
            after: device.index.after.map(|index| &diff.profiles.after.devices[index]),
        };
        Self::new(Pictured { profiles, devices, rows: Some(&device.rows), internals })
    }

    /// The picture of a device of one snapshot.
    pub(crate) fn of_device(profile: &Profile, device: &DeviceProfile, internals: bool) -> Self {
        let profiles = Sides { before: None, after: Some(profile) };
        Self::new(Pictured { profiles, devices: Sides { before: None, after: Some(device) }, rows: None, internals })
    }

    fn new(pictured: Pictured<'_>) -> Self {
        let mut units = units::Units::new(&pictured);
        let correspondence = correspondence(&pictured, &mut units);
        let holdings = held::holdings(&pictured, &mut units, correspondence.as_ref());
        let sides = Side::BOTH.into_iter();
        let mut curves: Vec<Curve> =
            sides.filter_map(|side| curve::curve(&pictured, side, correspondence.as_ref())).collect();
        let categories = area::stack(&mut curves);
        let is_compared = pictured.rows.is_some();
        Self {
            curves,
            categories,
            is_compared,
            is_aligned: correspondence.is_some(),
            flame: holdings.flame(&units.paths, !is_compared),
            files: files(&pictured),
            spans: span::spans(&pictured),
        }
    }

    /// The lifetimes of the blocks of a stack that make the peak.
    pub(crate) fn span(&self, key: &str) -> Option<Span> {
        self.spans.get(key).copied()
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

/// The correspondence of both sides, where both have a history.
fn correspondence(pictured: &Pictured<'_>, units: &mut units::Units<'_>) -> Option<Correspondence> {
    let before = allocating_units(pictured, units, Side::Before)?;
    let after = allocating_units(pictured, units, Side::After)?;
    Correspondence::new(&Sides { before: &before, after: &after })
}

/// The units that allocate on a side, in order.
fn allocating_units(pictured: &Pictured<'_>, units: &mut units::Units<'_>, side: Side) -> Option<Vec<u32>> {
    let lifetimes = pictured.devices.of(side).and_then(|device| device.lifetimes.as_ref())?;
    Some(lifetimes.recorded().iter().map(|life| units.of(side, life.owner)).collect())
}
