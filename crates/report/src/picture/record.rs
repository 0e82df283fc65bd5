//! The history of one side: as the parts of a picture ask for it, and event by event, as the script of a page replays it.

use std::collections::HashMap;

use ptmem_base::interner::Interner;
use ptmem_base::sides::Side;
use ptmem_compare::align::Alignment;
use ptmem_snapshot::snapshot::StringId;
use ptmem_trace::profile::{DeviceProfile, Profile, identity};
use ptmem_trace::replay::{Layout, Position};
use ptmem_trace::stack::GroupBy;
use ptmem_trace::trace::{Origin, Trace};

use super::{Pictured, units::Units};

/// A device of one side, with what is worked out once.
pub(super) struct Past<'p> {
    pub(super) side: Side,
    pub(super) device: &'p DeviceProfile,
    pub(super) is_compared: bool,
    pub(super) alignment: Option<&'p Alignment>,
    /// The places just after the recorded allocations; nothing where they are not known.
    pub(super) begun: Vec<Position>,
    /// The unit of each class of the trace.
    pub(super) units: Vec<u32>,
    /// The category or the recorded purpose of each class of the trace, as an index into names that both sides share.
    pub(super) categories: Vec<u32>,
}

impl<'p> Past<'p> {
    /// The history of a side; `None` where the device is missing there.
    pub(super) fn new(
        pictured: &Pictured<'p>,
        side: Side,
        units: &mut Units<'p>,
        names: &mut Interner<String>,
    ) -> Option<Self> {
        let profile = (*pictured.profiles.of(side))?;
        let device = (*pictured.devices.of(side))?;
        let known = Some(device).filter(|device| device.has_moves());
        let classes = device.trace.classes.iter();
        Some(Self {
            side,
            device,
            is_compared: pictured.rows.is_some(),
            alignment: pictured.alignment,
            begun: known.iter().flat_map(|device| device.trace.begun()).map(|(at, _)| at).collect(),
            units: classes.map(|class| units.of(side, class.origin, class.tags)).collect(),
            categories: known.map(|device| categories(profile, device, names)).unwrap_or_default(),
        })
    }
}

/// The category or the recorded purpose of each class of a trace, as an index into the names.
fn categories(profile: &Profile, device: &DeviceProfile, names: &mut Interner<String>) -> Vec<u32> {
    let by_category = profile.grouper_by(GroupBy::Category);
    let by_purpose = profile.grouper_by(GroupBy::Purpose);
    let mut known: HashMap<(Origin, Option<StringId>), u32> = HashMap::new();
    let categories = device.trace.classes.iter().map(|class| {
        *known.entry((class.origin, class.tags.purpose)).or_insert_with(|| {
            // The recorder saw the purpose; the stack only suggests a category.
            let grouper = if class.tags.purpose.is_some() { &by_purpose } else { &by_category };
            names.number(&identity(class, grouper).label)
        })
    });
    categories.collect()
}

/// The history of one side.
#[derive(Debug)]
pub(crate) struct Record {
    /// What happened.
    pub trace: Trace,
    /// Where blocks and segments lie, where a snapshot was read.
    pub layout: Option<Layout>,
    /// Microseconds since the first event of any device at some places.
    pub times: Vec<(Position, u64)>,
    /// Whether the reserved bytes are known.
    pub has_reserved: bool,
    /// The innermost frame of each class, as a node of the flame graph.
    pub nodes: Vec<usize>,
    /// The row of each class, as an index into [`super::Picture::rows`]; `None` where it has none.
    pub rows: Vec<Option<usize>>,
    /// The category of each class, as an index into [`super::Picture::categories`].
    pub categories: Vec<usize>,
    /// Where two sides are aligned: of the before, the place of the after that corresponds to each of its places.
    pub places: Vec<i64>,
    /// Where two sides are aligned: of the after, the allocation of the before that each of its allocations is.
    pub partners: Vec<Option<usize>>,
}

impl Record {
    /// The history of a side; `None` where it is not known event by event.
    ///
    /// `leaves` are the nodes of the units, `rows` those of the report by their keys, `layers` the places of the categories
    /// among those of all areas.
    pub(super) fn new(
        past: &Past<'_>,
        units: &Units<'_>,
        leaves: &[usize],
        rows: &HashMap<String, usize>,
        layers: &[usize],
    ) -> Option<Self> {
        let device = Some(past.device).filter(|device| device.has_moves())?;
        let keys = device.keys(units.groupers.of(past.side).as_ref()?);
        let [before, after] = Side::BOTH.map(|side| Some(&past.alignment?.map).filter(|_| past.side == side));
        let begun = past.begun.len();
        Some(Self {
            trace: device.trace.clone(),
            layout: device.layout.clone(),
            times: device.times.clone(),
            has_reserved: device.figures.reserved.baseline.is_some(),
            nodes: past.units.iter().map(|&unit| leaves[unit as usize]).collect(),
            rows: keys.iter().map(|key| rows.get(units.shared(past.side, &key.0)).copied()).collect(),
            categories: past.categories.iter().map(|&category| layers[category as usize]).collect(),
            places: before.map(|map| (0..=begun).map(|at| map.after_of(at)).collect()).unwrap_or_default(),
            partners: after.map(|map| (0..begun).map(|at| map.before_of(at)).collect()).unwrap_or_default(),
        })
    }
}
