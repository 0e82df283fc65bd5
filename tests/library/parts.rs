//! The counters over time agree with the figures, which are computed another way.

use std::fs::File;
use std::path::{Path, PathBuf};

use ptmem::replay::{self, Counter, Level, Part, Position};
use ptmem::snapshot;

/// Snapshots of the repository, and real ones where they are at hand.
pub(crate) fn snapshots() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let real = root.join("../shared/snapshots").read_dir().into_iter().flatten().flatten().map(|file| file.path());
    let real = real.filter(|path| path.extension().is_some_and(|end| end == "pkl" || end == "pickle"));
    crate::support::fixtures::snapshots().into_iter().chain(real).collect()
}

/// With a border at every event, the parts are the counters after each of them.
#[test]
fn parts_reach_the_figures() {
    let mut devices = 0;
    for path in snapshots() {
        let snapshot = snapshot::read(File::open(&path).unwrap()).unwrap();
        for (&id, device) in &snapshot.devices {
            let count = snapshot.events_of(device).len();
            let borders: Vec<_> = (0..=count).map(Position::of_count).collect();
            let replay = replay::run(&snapshot, id, device, &borders).unwrap();
            assert_eq!(replay.parts.iter().map(|part| part.from).collect::<Vec<_>>(), borders);
            for pair in replay.parts.windows(2) {
                assert_eq!((pair[0].end, pair[0].peak), (pair[1].start, pair[0].start.max(pair[1].start)));
            }
            let check = |name: &str, counter: &Counter, value: fn(&Level) -> u64| {
                let context = format!("{} device {id}: {name}", path.display());
                let values: Vec<u64> = replay.parts.iter().map(|part| value(&part.start)).collect();
                let Some(peak) = counter.peak else { return };
                assert_eq!(values.first().copied(), counter.baseline, "{context}");
                assert_eq!(values.iter().copied().max(), Some(peak), "{context}");
                let first = values.iter().position(|&value| value == peak);
                match counter.peak_at {
                    Some(at) => assert_eq!(first, Some(at.count()), "{context}"),
                    // A figure that may be higher has no known moment.
                    None => assert!(counter.is_least, "{context}"),
                }
                if replay.figures.checks.end_matches {
                    assert_eq!(values.last().copied(), Some(counter.end), "{context}");
                }
            };
            check("allocated", &replay.figures.allocated, |level| level.allocated);
            check("active", &replay.figures.active, |level| level.active);
            check("reserved", &replay.figures.reserved, |level| level.reserved);
            devices += 1;
        }
    }
    assert!(devices >= 50, "only {devices} devices were looked at");
}

/// Fewer borders put parts together: the peak of the whole is the highest of its parts.
#[test]
fn a_part_has_the_highest_of_what_it_holds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/before.pkl");
    let snapshot = snapshot::read(File::open(path).unwrap()).unwrap();
    let (&id, device) = snapshot.devices.first_key_value().unwrap();
    let count = snapshot.events_of(device).len();
    let all: Vec<_> = (0..=count).map(Position::of_count).collect();
    let fine = replay::run(&snapshot, id, device, &all).unwrap().parts;
    let some: Vec<_> = [7, 7, count / 2, count - 3].map(Position::of_count).to_vec();
    let coarse = replay::run(&snapshot, id, device, &some).unwrap().parts;
    assert_eq!(coarse.len(), 4);
    for (index, part) in coarse.iter().enumerate() {
        let to = coarse.get(index + 1).map_or(count, |next| next.from.count());
        let inside = &fine[part.from.count()..=to];
        assert_eq!(part.start, inside[0].start);
        assert_eq!(part.end, inside[inside.len() - 1].start);
        let peak = inside.iter().map(|part: &Part| part.start).reduce(Level::max).unwrap();
        assert_eq!(part.peak, peak);
    }
    assert_eq!(replay::run(&snapshot, id, device, &[]).unwrap().parts, []);
    let whole = replay::run(&snapshot, id, device, &[Position::START]).unwrap();
    assert_eq!(whole.parts.len(), 1);
    assert_eq!(Some(whole.parts[0].peak.allocated), whole.figures.allocated.peak);
}
