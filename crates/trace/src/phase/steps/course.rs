//! The allocations of a history, as steps are found by them.

use std::ops::Range;

use crate::replay::{Origin, Position};
use crate::snapshot::StackId;
use crate::trace::Trace;

/// An allocation of a history.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// The index of its event.
    pub event: usize,
    /// Its stack; `None` where it has no frames, as on the threads of autograd where C++ is not recorded.
    pub stack: Option<StackId>,
    /// Bytes that were asked for.
    pub requested: u64,
    /// Just after the event that frees it.
    freed: Position,
}

/// The allocations of a history, in order.
#[derive(Debug, Clone)]
pub struct Course {
    /// Number of events.
    pub events: usize,
    /// Those that events make.
    pub allocations: Vec<Allocated>,
}

impl Course {
    /// The allocations of a trace.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut allocations = Vec::new();
        for life in trace.lives() {
            let Some(event) = life.born.event().map(|event| event as usize).filter(|_| life.born < trace.dump()) else {
                continue;
            };
            let class = &trace.classes[life.class as usize];
            let stack = match class.origin {
                Origin::Stack(stack) => Some(stack),
                Origin::Bucket(_) => None,
            };
            allocations.push(Allocated { event, stack, requested: class.requested, freed: life.freed });
        }
        Self { events: trace.symbols.len(), allocations }
    }

    /// The allocations of a range of events.
    pub(super) fn within(&self, events: &Range<usize>) -> &[Allocated] {
        let [from, to] = [events.start, events.end.max(events.start)]
            .map(|event| self.allocations.partition_point(|one| one.event < event));
        &self.allocations[from..to]
    }

    /// True if some allocation of a range of events is freed in it.
    pub(super) fn frees_own(&self, events: &Range<usize>) -> bool {
        self.within(events).iter().any(|one| one.freed.count() <= events.end)
    }
}
