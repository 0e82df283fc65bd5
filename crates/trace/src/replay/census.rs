//! How many events of each kind a history has, counted before it is replayed.

use std::collections::BTreeMap;

use ptmem_snapshot::snapshot::{Action, Event};

/// Counts from a first look at the events of a device.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// By [`slot`].
    known: [Tally; Action::KNOWN.len()],
    /// Those without a slot.
    others: BTreeMap<Action, u64>,
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

/// The place of an action among the known ones.
fn slot(action: Action) -> Option<usize> {
    Some(match action {
        Action::Alloc => 0,
        Action::FreeRequested => 1,
        Action::FreeCompleted => 2,
        Action::SegmentAlloc => 3,
        Action::SegmentFree => 4,
        Action::SegmentMap => 5,
        Action::SegmentUnmap => 6,
        Action::Snapshot => 7,
        Action::Oom => 8,
        Action::Other(_) => return None,
    })
}

impl Census {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut census = Self::default();
        let mut latest = i64::MIN;
        for event in events {
            if let Some(slot) = slot(event.action) {
                let tally = &mut census.known[slot];
                tally.events += 1;
                tally.sizes += i128::from(event.size);
            } else {
                *census.others.entry(event.action).or_default() += 1;
            }
            if let Some(time) = event.time() {
                census.backwards += u64::from(time < latest);
                latest = latest.max(time);
            }
        }
        census
    }

    /// Number of events.
    pub(super) fn count(&self, action: Action) -> u64 {
        slot(action).map_or_else(|| self.others.get(&action).copied().unwrap_or(0), |slot| self.known[slot].events)
    }

    /// The sizes of the events of a known action together.
    pub(super) fn sizes(&self, action: Action) -> i128 {
        slot(action).map_or(0, |slot| self.known[slot].sizes)
    }

    /// Number of events by action, of those that occur.
    pub(super) fn actions(self) -> BTreeMap<Action, u64> {
        let known = Action::KNOWN.iter().filter_map(|&(_, action)| Some((action, self.known[slot(action)?].events)));
        let mut actions = self.others;
        actions.extend(known.filter(|(_, events)| *events > 0));
        actions
    }
}
