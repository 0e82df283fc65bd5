//! How many events of each kind a history has, counted before it is replayed.

use std::collections::BTreeMap;

use ptmem_snapshot::snapshot::{Action, Event};
use strum::IntoEnumIterator;

/// Counts from a first look at the events of a device.
#[derive(Debug, Default)]
pub(super) struct Census {
    by_action: [Tally; Action::COUNT],
    /// The places of those about segments, in order: few of a history are.
    pub(super) of_segments: Vec<u32>,
    /// Events that are older than one before them.
    pub(super) backwards: u64,
}

/// The events of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    events: u64,
    /// Their sizes together.
    sizes: i128,
}

impl Census {
    pub(super) fn of(events: &[Event], backwards: u64) -> Self {
        let mut census = Self { backwards, ..Self::default() };
        for (place, event) in (0..).zip(events) {
            if event.action.is_of_segment() {
                census.of_segments.push(place);
            }
            let tally = &mut census.by_action[event.action as usize];
            tally.events += 1;
            tally.sizes += i128::from(event.size);
        }
        census
    }

    /// Number of events.
    pub(super) fn count(&self, action: Action) -> u64 {
        self.by_action[action as usize].events
    }

    /// The sizes of the events of an action together.
    pub(super) fn sizes(&self, action: Action) -> i128 {
        self.by_action[action as usize].sizes
    }

    /// Number of events by action, of those that occur.
    pub(super) fn actions(&self) -> BTreeMap<Action, u64> {
        let all = Action::iter().chain([Action::Other]);
        all.map(|action| (action, self.count(action))).filter(|&(_, count)| count > 0).collect()
    }
}
