//! Recordings of a part: what PyTorch would have dumped if it had recorded one device later, or dumped earlier.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::ops::Range;

use ptmem::device::DeviceId;
use ptmem::replay::{self, Position, WantedResults};
use ptmem::snapshot::{Device, EventTimes, Segment, Snapshot};

/// The recording of these events of a device.
pub fn cut(whole: Snapshot, id: DeviceId, window: Range<usize>) -> Snapshot {
    let segments = state(&whole, id, window.end);
    let recorded = &whole.devices[&id];
    let events = whole.events_of(recorded)[window.clone()].to_vec();
    let times: EventTimes = whole.times_of(recorded).skip(window.start).take(window.len()).collect();
    let device = Device { segments, events: 0..events.len(), overflowed: None };
    let mut annotations = whole.annotations;
    let last = times.all().flatten().max().unwrap_or(i64::MIN);
    annotations.retain(|annotation| annotation.time_us <= last);
    let mut run = whole.run;
    if let Some(run) = &mut run {
        // They are those of the whole run.
        run.steps = None;
        run.program = None;
        run.counters = Vec::new();
    }
    Snapshot { events, times, annotations, run, devices: BTreeMap::from([(id, device)]), ..whole }
}

/// The segments of a device after some of its events.
fn state(whole: &Snapshot, id: DeviceId, count: usize) -> Vec<Segment> {
    let device = &whole.devices[&id];
    if count == device.events.len() {
        return device.segments.clone();
    }
    let replay =
        replay::run_with(whole, id, device, WantedResults { layout: true, ..WantedResults::default() }).unwrap();
    let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
    replay::state_at(whole, device, &allocations, Position::of_count(count))
}
