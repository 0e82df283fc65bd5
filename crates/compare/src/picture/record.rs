//! The history of one side: as the parts of a picture ask for it, and event by event, as the script of a page replays it.

use std::collections::HashMap;

use super::{Pictured, units::Units};
use crate::align::Alignment;
use crate::interner::Interner;
use crate::profile::{DeviceProfile, Profile};
use crate::replay::{Layout, Position};
use crate::sides::Side;
use crate::snapshot::StringId;
use crate::stack::GroupBy;
use crate::trace::{Origin, Trace};

/// A device of one side, with what is worked out once.
pub(super) struct Past<'p> {
    pub(super) profile: &'p Profile,
    pub(super) device: &'p DeviceProfile,
    /// When each recorded block came, and its class; nothing where that is not known.
    pub(super) begun: Vec<(Position, u32)>,
    /// The unit of each class of the trace.
    pub(super) units: Vec<u32>,
    /// The category or the recorded purpose of each class of the trace, as an index into the names.
    pub(super) categories: Vec<u32>,
    pub(super) category_names: Vec<String>,
}

impl<'p> Past<'p> {
    /// The history of a side; `None` where the device is missing there.
    pub(super) fn new(pictured: &Pictured<'p>, side: Side, units: &mut Units<'p>) -> Option<Self> {
        let profile = (*pictured.profiles.of(side))?;
        let device = (*pictured.devices.of(side))?;
        let classes = device.trace.classes.iter();
        let (categories, category_names) = categories(profile, device);
        Some(Self {
            profile,
            device,
            begun: if device.has_moves() { device.trace.begun().collect() } else { Vec::new() },
            units: classes.map(|class| units.of(side, class.origin, class.tags)).collect(),
            categories,
            category_names,
        })
    }

    /// True if what happened is known event by event.
    pub(super) fn has_moves(&self) -> bool {
        self.device.has_moves()
    }

    /// The number of recorded allocations up to a moment: its place in the program.
    pub(super) fn place(&self, at: Position) -> usize {
        self.begun.partition_point(|&(begun, _)| begun <= at)
    }
}

/// The category or the recorded purpose of each class of a trace, as an index into the names.
fn categories(profile: &Profile, device: &DeviceProfile) -> (Vec<u32>, Vec<String>) {
    let grouper = profile.grouper_by(GroupBy::Category);
    let purposes = profile.grouper_by(GroupBy::Purpose);
    let mut names = Interner::default();
    let mut known: HashMap<(Origin, Option<StringId>), u32> = HashMap::new();
    let classes = device.trace.classes.iter().map(|class| (class.origin, class.tags.purpose));
    let categories = classes.map(|(owner, purpose)| {
        *known.entry((owner, purpose)).or_insert_with(|| {
            names.number(&match owner {
                // What the recorder saw is better than what the stack shows.
                _ if purpose.is_some() => purposes.tagged(purpose).1,
                Origin::Stack(stack) => grouper.label(stack),
                Origin::Bucket(bucket) => bucket.label().to_owned(),
            })
        })
    });
    (categories.collect(), names.into_items())
}

/// The history of one side.
#[derive(Debug)]
pub struct Record {
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
    /// `leaves` are the nodes of the units, `rows` those of the report by their keys, `categories` those of both sides.
    pub(super) fn new(
        past: &Past<'_>,
        side: Side,
        leaves: &[usize],
        rows: &HashMap<String, usize>,
        categories: &[String],
        alignment: Option<&Alignment>,
    ) -> Option<Self> {
        if !past.has_moves() {
            return None;
        }
        let keys = past.device.keys(&past.profile.grouper());
        let own = past.category_names.iter();
        let places: Vec<usize> = own.filter_map(|name| categories.iter().position(|known| known == name)).collect();
        let own = past.categories.iter().map(|&category| places.get(category as usize).copied().unwrap_or(0));
        let begun = past.begun.len();
        let of_before = alignment.filter(|_| side == Side::Before);
        let of_after = alignment.filter(|_| side == Side::After);
        Some(Self {
            trace: past.device.trace.clone(),
            layout: past.device.layout.clone(),
            times: past.device.times.clone(),
            has_reserved: past.device.figures.reserved.baseline.is_some(),
            nodes: past.units.iter().map(|&unit| leaves[unit as usize]).collect(),
            rows: keys.iter().map(|key| rows.get(&key.0).copied()).collect(),
            categories: own.collect(),
            places: of_before.map(|all| (0..=begun).map(|at| all.map.after_of(at)).collect()).unwrap_or_default(),
            partners: of_after.map(|all| (0..begun).map(|at| all.map.before_of(at)).collect()).unwrap_or_default(),
        })
    }
}
