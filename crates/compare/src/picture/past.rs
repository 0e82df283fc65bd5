//! The history of one side, as the parts of a picture ask for it.

use std::collections::HashMap;

use super::{Pictured, units::Units};
use crate::profile::{DeviceProfile, Profile};
use crate::replay::Position;
use crate::sides::Side;
use crate::snapshot::StringId;
use crate::stack::{GroupBy, Grouper};
use crate::trace::Origin;

/// A device of one side, with what is worked out once.
pub(super) struct Past<'p> {
    pub(super) profile: &'p Profile,
    pub(super) device: &'p DeviceProfile,
    /// When each recorded block came, and its class; nothing where that is not known.
    pub(super) begun: Vec<(Position, u32)>,
    /// The unit of each class of the trace.
    pub(super) units: Vec<u32>,
}

impl<'p> Past<'p> {
    /// The history of a side; `None` where the device is missing there.
    pub(super) fn new(pictured: &Pictured<'p>, side: Side, units: &mut Units<'p>) -> Option<Self> {
        let profile = (*pictured.profiles.of(side))?;
        let device = (*pictured.devices.of(side))?;
        let classes = device.trace.classes.iter();
        Some(Self {
            profile,
            device,
            begun: if device.has_moves() { device.trace.begun().collect() } else { Vec::new() },
            units: classes.map(|class| units.of(side, class.origin, class.tags)).collect(),
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

    /// The category or the recorded purpose of each class of the trace, as an index into the names.
    pub(super) fn categories(&self) -> (Vec<u32>, Vec<String>) {
        let grouper = Grouper::new(&self.profile.tables, GroupBy::Category, &self.profile.options.rules);
        let mut names: Vec<String> = Vec::new();
        let purposes = Grouper::new(&self.profile.tables, GroupBy::Purpose, &self.profile.options.rules);
        let mut known: HashMap<(Origin, Option<StringId>), u32> = HashMap::new();
        let classes = self.device.trace.classes.iter();
        let classes = classes.map(|class| (class.origin, class.tags.purpose));
        let categories = classes.map(|(owner, purpose)| {
            *known.entry((owner, purpose)).or_insert_with(|| {
                let name = match owner {
                    // What the recorder saw is better than what the stack shows.
                    _ if purpose.is_some() => purposes.tagged(purpose).1,
                    Origin::Stack(stack) => grouper.label(stack),
                    Origin::Bucket(bucket) => bucket.label().to_owned(),
                };
                let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                u32::try_from(place).unwrap_or(u32::MAX)
            })
        });
        (categories.collect(), names)
    }
}
