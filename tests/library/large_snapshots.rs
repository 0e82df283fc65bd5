//! The made-up snapshots that programs are tried on, small: each has the shape that was asked for, and a history that
//! agrees with its final state.

use ptmem::device::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

use crate::large::Plan;
use ptmem::profile::{InputKind, ReadOptions, Source, measure};
use ptmem::snapshot::{Action, Event, Snapshot, read};

fn written(plan: &Plan) -> Vec<u8> {
    let mut file = Vec::new();
    crate::large::write(plan, &mut file).unwrap();
    file
}

/// The snapshot, after it was held against itself.
fn snapshot(plan: &Plan) -> Snapshot {
    let file = written(plan);
    let source = Source { path: "large.pkl".to_owned(), bytes: file.len() as u64, kind: InputKind::Snapshot };
    let profile = measure(read(&file[..]).unwrap(), source, ReadOptions::default()).unwrap();
    assert_eq!(profile.diagnostics, []);
    assert_eq!(profile.devices.len() as u64, plan.devices);
    for device in &profile.devices {
        let share = plan.events / plan.devices;
        assert!(device.events.abs_diff(share) <= 200 + plan.expandable, "{plan:?}: {} events", device.events);
        let figures = &device.figures;
        for counter in [figures.allocated, figures.active, figures.requested, figures.reserved] {
            assert!(counter.exact() && counter.baseline == Some(0), "{plan:?}: {counter:?}");
        }
        let checks = figures.checks;
        assert!(checks.end_matches && checks.sizes.total > 0 && checks.sizes.recovered == checks.sizes.total);
    }
    read(&file[..]).unwrap()
}

fn events(snapshot: &Snapshot) -> impl Iterator<Item = (DeviceId, &Event)> {
    snapshot.devices.iter().flat_map(|(&id, device)| snapshot.events_of(device).iter().map(move |event| (id, event)))
}

#[test]
fn a_training_run_is_as_long_or_as_large_as_asked_for() {
    snapshot(&Plan::of_events(20_000));
    for bytes in [3_000_000, 5_000_000] {
        let size = written(&Plan::of_size(bytes, Plan::DEPTH)).len() as u64;
        assert!(size.abs_diff(bytes) < bytes / 20, "{size} bytes in place of {bytes}");
    }
}

#[test]
fn a_ramp_rises_to_the_end() {
    let last = |ramp| *peaks(&snapshot(&Plan { ramp, ..Plan::of_events(16_000) })).last().unwrap();
    assert!(last(true) > 14_000, "{}", last(true));
}

/// The events that raise the requested bytes of the only device higher than ever.
fn peaks(snapshot: &Snapshot) -> Vec<usize> {
    let (mut held, mut most, mut peaks) = (0, 0, Vec::new());
    for (at, (_, event)) in events(snapshot).enumerate() {
        match event.action {
            Action::Alloc => held += event.size,
            Action::FreeCompleted => held -= event.size,
            _ => {}
        }
        if held > most {
            most = held;
            peaks.push(at);
        }
    }
    peaks
}

#[test]
fn nearly_every_allocation_is_a_peak() {
    let snapshot = snapshot(&Plan { peaks: true, ..Plan::of_events(10_000) });
    let allocations = events(&snapshot).filter(|(_, event)| event.action == Action::Alloc).count();
    assert!(peaks(&snapshot).len() * 100 > allocations * 98);
}

#[test]
fn devices_share_the_events() {
    let snapshot = snapshot(&Plan { devices: 16, ..Plan::of_events(16_000) });
    assert!(snapshot.devices.values().all(|device| !device.segments.is_empty()));
}

#[test]
fn all_stacks_occur() {
    let snapshot = snapshot(&Plan { stacks: 5_000, depth: 8, ..Plan::of_events(40_000) });
    let stacks: BTreeSet<_> = events(&snapshot).filter_map(|(_, event)| event.stack).collect();
    assert_eq!(stacks.len(), 5_000);
}

#[test]
fn stacks_are_as_deep_as_asked_for() {
    let snapshot = snapshot(&Plan { depth: 300, ..Plan::of_events(10_000) });
    let depths: Vec<_> = snapshot.tables.stacks().map(|stack| snapshot.tables.stack(stack).len()).collect();
    let mean = depths.iter().sum::<usize>() / depths.len();
    assert!(mean.abs_diff(300) < 15, "{mean}");
}

#[test]
fn every_step_maps_and_unmaps_ranges_apart_from_each_other() {
    let snapshot = snapshot(&Plan { expandable: 1000, ..Plan::of_events(40_000) });
    assert!(snapshot.settings.expandable_segments);
    assert!(snapshot.devices[&DeviceId::FIRST].segments.iter().all(|segment| segment.is_expandable));
    // Start to end, as the driver has them; what touches is joined.
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut most, mut least_since, mut rounds) = (0, usize::MAX, 0);
    for (_, event) in events(&snapshot) {
        let (start, end) = (event.addr, event.addr + event.size);
        match event.action {
            Action::SegmentMap => {
                let end = ranges.remove(&end).unwrap_or(end);
                let before = ranges.range(..start).next_back().filter(|&(_, &end)| end == start).map(|(&at, _)| at);
                ranges.insert(before.unwrap_or(start), end);
            }
            Action::SegmentUnmap => {
                let (&first, &last) = ranges.range(..=start).next_back().unwrap();
                assert!(end <= last, "unmapped where nothing was mapped");
                ranges.remove(&first);
                ranges.extend([(first, start), (end, last)].into_iter().filter(|(from, to)| from < to));
            }
            _ => {}
        }
        least_since = least_since.min(ranges.len());
        if ranges.len() >= 1000 && least_since < 10 {
            (rounds, least_since) = (rounds + 1, usize::MAX);
        }
        most = most.max(ranges.len());
    }
    assert!((1000..1100).contains(&most) && rounds >= 3, "{most} ranges, {rounds} times");
    let dumped: Vec<_> =
        snapshot.devices[&DeviceId::FIRST].segments.iter().map(|s| (s.address, s.address + s.total_size)).collect();
    assert_eq!(dumped, ranges.into_iter().collect::<Vec<_>>());
}
