//! Recordings of a part, held against the whole.

use ptmem::device::DeviceId;
use ptmem::profile::{DeviceProfile, InputKind, Profile, ReadOptions, Source, measure};
use ptmem::replay::{self, Counter, Position};
use ptmem::snapshot::Snapshot;
use ptmem::trace::{CounterLevels, Window, WindowCounters};

use crate::support::cut::cut;
use crate::support::fixtures;

fn profile_of(snapshot: Snapshot) -> Profile {
    let source = Source { path: String::new(), bytes: 0, kind: InputKind::Snapshot };
    measure(snapshot, source, ReadOptions::default()).unwrap()
}

/// Whether a figure is right as far as it says itself, and how far it is off at all.
fn assert_holds(counter: &Counter, start: u64, peak: u64, place: &str) {
    let figures = [
        ("baseline", counter.baseline, counter.baseline_error, start),
        ("peak", counter.peak, counter.peak_error, peak),
    ];
    for (name, value, error, truth) in figures {
        let Some((value, error)) = value.zip(error) else { continue };
        assert!(value.abs_diff(truth) <= error, "{place}: {name} {value} ± {error}, expected {truth}");
    }
}

fn compare(device: &DeviceProfile, truth: &WindowCounters, place: &str) {
    let figures = &device.figures;
    let CounterLevels { allocated, active, reserved } = truth.peak;
    assert_holds(&figures.allocated, truth.start.allocated, allocated, &format!("{place}: allocated"));
    assert_holds(&figures.active, truth.start.active, active, &format!("{place}: active"));
    assert_holds(&figures.reserved, truth.start.reserved, reserved, &format!("{place}: reserved"));
    let [allocated, active, reserved] =
        [figures.allocated, figures.active, figures.reserved].map(|counter| counter.end.unwrap());
    let end = CounterLevels { allocated, active, reserved };
    assert_eq!(end, truth.end, "{place}: end");
}

#[test]
fn a_part_has_the_counters_of_the_whole_there() {
    let mut compared = 0;
    for path in fixtures::snapshots().into_iter().chain(fixtures::recorded()) {
        let whole = fixtures::open(&path);
        // PyTorch 2.0 does not record enough to wind back.
        if whole.lacks_block_addresses || !whole.has_traces {
            continue;
        }
        for (&id, device) in &whole.devices {
            let replay = replay::run(&whole, id, device).unwrap();
            if !replay.figures.checks.hold() || replay.figures.allocated.peak.is_none() {
                continue;
            }
            let all = device.events.len();
            for window in [all / 4..all / 2, 0..all / 3, all * 2 / 3..all, all / 2..all / 2] {
                let place = format!("{} {id} {window:?}", path.display());
                let [from, to] = [window.start, window.end].map(Position::of_count);
                let again = profile_of(cut(fixtures::open(&path), id, window.clone()));
                let Some(device) = again.devices.first() else { continue };
                assert_eq!(device.events, window.len() as u64, "{place}");
                compare(device, &replay.trace.parts(&[Window { from, to }])[0], &place);
                compared += 1;
            }
        }
    }
    assert!(compared > 120, "{compared}");
}

#[test]
fn memory_that_is_older_than_the_part_keeps_its_stack() {
    let whole = || fixtures::open(&fixtures::folder().join("before.pkl"));
    let at_peak = profile_of(whole());
    let at_peak = &at_peak.devices[0];
    let peak = at_peak.figures.allocated.peak_at.unwrap().count();
    let again = profile_of(cut(whole(), DeviceId::FIRST, peak..peak));
    let again = &again.devices[0];
    assert_eq!(again.events, 0);
    assert_eq!(again.figures.allocated.end, at_peak.figures.allocated.peak);
    let mut held: Vec<_> = at_peak.stacks.iter().map(|stack| (stack.label.as_str(), stack.peak)).collect();
    held.retain(|(_, held)| held.bytes > 0);
    let mut listed: Vec<_> = again.stacks.iter().map(|stack| (stack.label.as_str(), stack.end)).collect();
    held.sort_unstable_by_key(|(label, _)| *label);
    listed.sort_unstable_by_key(|(label, _)| *label);
    assert_eq!(held, listed);
}
