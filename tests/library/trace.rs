//! The trace agrees with the figures and with the allocations, which are counted another way.

use std::collections::BTreeMap;
use std::fs::File;

use ptmem::replay::{self, Position, Replay};
use ptmem::snapshot::{self, Snapshot};
use ptmem::trace::{Class, Measure, Origin};

/// Looks at the replay of every device of every snapshot.
fn for_each_device(check: impl Fn(&str, &Snapshot, &Replay)) {
    let mut devices = 0;
    for path in crate::parts::snapshots() {
        let snapshot = snapshot::read(File::open(&path).unwrap()).unwrap();
        for (&id, device) in &snapshot.devices {
            let count = snapshot.events_of(device).len();
            let borders: Vec<_> = (0..=count).map(Position::of_count).collect();
            let replay = replay::run(&snapshot, id, device, &borders).unwrap();
            check(&format!("{} device {id}", path.display()), &snapshot, &replay);
            devices += 1;
        }
    }
    assert!(devices >= 50, "only {devices} devices were looked at");
}

/// Up to `most` places of a history, its ends among them.
fn places(replay: &Replay, most: usize) -> impl Iterator<Item = Position> {
    let dump = replay.dump.count();
    (0..most).map(move |i| Position::of_count(i * dump / (most - 1)))
}

#[test]
fn the_counters_have_their_values_at_every_place() {
    for_each_device(|name, _, replay| {
        let trace = &replay.trace;
        assert_eq!(trace.symbols.len(), replay.parts.len() - 1, "{name}");
        let start = replay.parts.iter().map(|part| part.start);
        let counters = [Measure::Allocated, Measure::Active, Measure::Reserved].map(|measure| {
            let values = trace.values(measure).map(|value| u64::try_from(value.max(0)).unwrap());
            values.collect::<Vec<_>>()
        });
        for (place, level) in start.enumerate() {
            let values = counters.each_ref().map(|values| values[place]);
            assert_eq!(values, [level.allocated, level.active, level.reserved], "{name} place {place}");
        }
        let requested = &replay.figures.requested;
        if let Some(peak) = requested.peak.filter(|_| !requested.is_least) {
            assert_eq!(trace.values(Measure::Requested).max(), Some(peak.into()), "{name}");
        }
        for place in places(replay, 5) {
            let value = trace.value_at(Measure::Allocated, place);
            let blocks = trace.blocks_at(place).into_iter().zip(&trace.classes);
            let sum: i128 = blocks.map(|(blocks, class)| i128::from(class.bytes) * i128::from(blocks)).sum();
            assert_eq!(value, sum, "{name} place {place:?}");
        }
        assert_eq!(trace.value_at(Measure::Allocated, trace.dump()), replay.figures.allocated.end.into(), "{name}");
    });
}

#[test]
fn classes_hold_what_their_allocations_hold() {
    let key = |class: &Class| (class.origin, class.bytes, class.requested);
    for_each_device(|name, snapshot, replay| {
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
    for_each_device(|name, snapshot, replay| {
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
