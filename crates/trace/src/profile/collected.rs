//! Blocks that Python's garbage collector freed: reference cycles held them until it ran.

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{Action, CollectedBlocks, Event, Snapshot};
use rustc_hash::FxHashSet;

use crate::replay::Position;

/// The allocations of such blocks, in order; `None` if the recorder did not note them. Blocks that are older than the history
/// are not among them.
pub(super) fn allocations(snapshot: &Snapshot, device: DeviceId, events: &[Event]) -> Option<Vec<Position>> {
    let collected = snapshot.run.as_ref()?.collected.as_ref()?.iter().find(|of| of.device == device)?;
    let mut freed: FxHashSet<u64> = collected.blocks.iter().copied().collect();
    let mut number = collected.freed;
    let mut found = Vec::new();
    // From the end on: each allocation belongs to the free behind it, and numbers count frees that the history may lack.
    for (index, event) in events.iter().enumerate().rev() {
        match event.action {
            Action::Alloc => found.extend(freed.remove(&event.addr).then(|| Position::after(index))),
            Action::FreeRequested => {
                number = number.saturating_sub(1);
                if is_by_collector(collected, number) {
                    freed.insert(event.addr);
                }
            }
            Action::FreeCompleted
            | Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::Snapshot
            | Action::Oom
            | Action::Other => {}
        }
    }
    found.reverse();
    Some(found)
}

/// Whether the collector made the free of this number, from 0.
fn is_by_collector(collected: &CollectedBlocks, number: u64) -> bool {
    let later = collected.frees.partition_point(|[from, _]| *from <= number);
    later.checked_sub(1).is_some_and(|at| number < collected.frees[at][1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_belong_to_the_runs_of_the_collector_around_them() {
        let collected = CollectedBlocks { frees: vec![[3, 5], [9, 10]], ..CollectedBlocks::default() };
        let by_collector: Vec<u64> = (0..12).filter(|&number| is_by_collector(&collected, number)).collect();
        assert_eq!(by_collector, [3, 4, 9]);
    }
}
