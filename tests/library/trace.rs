//! The trace agrees with the figures and with the allocations, which are counted another way.

use std::collections::BTreeMap;

use ptmem::profile::{self, ReadOptions};
use ptmem::replay::{self, Allocation, Position, Replay};
use ptmem::snapshot::{Action, Event, Snapshot};
use ptmem::trace::{Class, Measure, Origin};

use crate::support::fixtures;
use crate::support::history::{self, A, MIB, event, free, segment};

/// Looks at the replay of every device of every snapshot.
fn for_each_device(check: impl Fn(&str, &Snapshot, &[Event], &Replay)) {
    let mut devices = 0;
    for path in fixtures::snapshots().into_iter().chain(fixtures::recorded()) {
        let snapshot = fixtures::open(&path);
        for (&id, device) in &snapshot.devices {
            let replay = replay::run(&snapshot, id, device).unwrap();
            check(&format!("{} device {id}", path.display()), &snapshot, snapshot.events_of(device), &replay);
            devices += 1;
        }
    }
    assert!(devices >= 50, "only {devices} devices were looked at");
}

/// Up to `most` places of a history, its ends among them.
fn places(replay: &Replay, most: usize) -> impl Iterator<Item = Position> {
    let dump = replay.trace.dump().count();
    (0..most).map(move |i| Position::of_count(i * dump / (most - 1)))
}

/// The bytes of allocations at every place, each from one moment to another.
fn held(replay: &Replay, bytes: fn(&Allocation) -> u64, until: fn(&Allocation) -> Position) -> Vec<i128> {
    let mut changes = vec![0_i128; replay.trace.dump().count()];
    for allocation in &replay.allocations {
        for (at, sign) in [(allocation.born, 1), (until(allocation), -1)] {
            if let Some(change) = changes.get_mut(at.count()) {
                *change += sign * i128::from(bytes(allocation));
            }
        }
    }
    let sums = changes.into_iter().scan(0, |now, change| {
        *now += change;
        Some(*now)
    });
    sums.collect()
}

#[test]
fn the_counters_have_their_values_at_every_place() {
    for_each_device(|name, _, events, replay| {
        let trace = &replay.trace;
        assert_eq!(trace.symbols.len(), events.len(), "{name}");
        let values = |measure| trace.values(measure).collect::<Vec<_>>();
        assert_eq!(values(Measure::Allocated), held(replay, |one| one.bytes, |one| one.freed), "{name}");
        assert_eq!(values(Measure::Active), held(replay, |one| one.bytes, |one| one.completed), "{name}");
        assert_eq!(values(Measure::Requested), held(replay, |one| one.requested, |one| one.completed), "{name}");
        let mut reserved = trace.reserved;
        for (event, value) in events.iter().zip(trace.values(Measure::Reserved).skip(1)) {
            reserved += match event.action {
                Action::SegmentAlloc | Action::SegmentMap => i128::from(event.size),
                Action::SegmentFree | Action::SegmentUnmap => -i128::from(event.size),
                _ => 0,
            };
            assert_eq!(value, reserved, "{name}");
        }
        for place in places(replay, 5) {
            let value = trace.value_at(Measure::Allocated, place);
            let blocks = trace.blocks_at(place).into_iter().zip(&trace.classes);
            let sum: i128 = blocks.map(|(blocks, class)| i128::from(class.bytes) * i128::from(blocks)).sum();
            assert_eq!(value, sum, "{name} place {place:?}");
        }
        assert_eq!(
            trace.value_at(Measure::Allocated, trace.dump()),
            replay.figures.allocated.end.unwrap().into(),
            "{name}"
        );
    });
}

#[test]
fn the_highest_values_are_the_peaks() {
    for_each_device(|name, _, _, replay| {
        let trace = &replay.trace;
        let counters = [
            (Measure::Allocated, &replay.figures.allocated),
            (Measure::Active, &replay.figures.active),
            (Measure::Requested, &replay.figures.requested),
            (Measure::Reserved, &replay.figures.reserved),
        ];
        for (measure, counter) in counters {
            let Some(peak) = counter.peak.filter(|_| !counter.is_least) else { continue };
            let values: Vec<i128> = trace.values(measure).collect();
            assert_eq!(values.first().copied(), counter.baseline.map(i128::from), "{name} {measure:?}");
            assert_eq!(values.iter().copied().max(), Some(peak.into()), "{name} {measure:?}");
            let first = values.iter().position(|&value| value == i128::from(peak));
            assert_eq!(first, counter.peak_at.map(Position::count), "{name} {measure:?}");
            if replay.figures.checks.end_matches {
                assert_eq!(values.last().copied(), counter.end.map(i128::from), "{name} {measure:?}");
            }
        }
    });
}

#[test]
fn classes_hold_what_their_allocations_hold() {
    let key = |class: &Class| (class.origin, class.bytes, class.requested);
    for_each_device(|name, snapshot, _, replay| {
        let trace = &replay.trace;
        for place in places(replay, 9) {
            let mut told: BTreeMap<(Origin, u64, u64), u64> = BTreeMap::new();
            for (class, blocks) in trace.classes.iter().zip(trace.blocks_at(place)) {
                *told.entry(key(class)).or_default() += blocks;
            }
            told.retain(|_, blocks| *blocks > 0);
            let mut expected: BTreeMap<(Origin, u64, u64), u64> = BTreeMap::new();
            for allocation in replay.allocations.iter().filter(|allocation| allocation.allocated_at(place)) {
                let key = (allocation.origin(snapshot), allocation.bytes, allocation.requested);
                *expected.entry(key).or_default() += 1;
            }
            assert_eq!(told, expected, "{name} place {place:?}");
        }
    });
}

#[test]
fn blocks_live_as_long_as_their_allocations() {
    for_each_device(|name, snapshot, _, replay| {
        let trace = &replay.trace;
        let lives = trace.lives().into_iter();
        let mut told: Vec<_> = lives.map(|life| (life.born, life.freed, trace.classes[life.class as usize])).collect();
        let of_class = |class: &Class| (class.origin, class.bytes, class.requested);
        told.sort_by_key(|(born, freed, class)| (*born, *freed, of_class(class)));
        let told: Vec<_> = told.iter().map(|(born, freed, class)| (*born, *freed, of_class(class))).collect();
        let mut expected: Vec<_> = replay
            .allocations
            .iter()
            .map(|one| (one.born, one.freed, (one.origin(snapshot), one.bytes, one.requested)))
            .collect();
        expected.sort_unstable();
        assert_eq!(told, expected, "{name}");
        let ends = trace.symbols.iter().chain(&trace.implied).filter_map(|&symbol| trace.moves[symbol as usize].ends());
        assert_eq!(ends.count(), trace.ended.len(), "{name}");
    });
}

/// As the documentation of `replay` says.
#[test]
fn a_history_of_three_blocks_is_exact() {
    let segment = segment(A, &[(512, true), (512, false), (1024, true), (2 * MIB - 2048, false)]);
    let allocs = [event("alloc", A + 512, 500), event("alloc", A + 1024, 1024)];
    let file = history::file(vec![segment], allocs.into_iter().chain(free(A + 512, 500)).collect());
    let profile = profile::read(&file[..], "x.pkl", ReadOptions::default()).unwrap();
    let device = &profile.devices[0];
    assert_eq!(device.trace.values(Measure::Allocated).collect::<Vec<_>>(), [512, 1024, 2048, 1536, 1536]);
    let allocated = device.figures.allocated;
    assert_eq!([allocated.baseline, allocated.peak, allocated.end], [Some(512), Some(2048), Some(1536)]);
    assert_eq!([allocated.baseline_error, allocated.peak_error], [Some(0), Some(0)]);
}
