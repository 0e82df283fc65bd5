//! Snapshots that are cut to a part, read again and held against the whole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ptmem::device::DeviceId;

use crate::support::fixtures;
use ptmem::profile::{DeviceProfile, InputKind, Profile, ReadOptions, Source, measure};
use ptmem::replay::{self, Counter, Position, Replay};
use ptmem::snapshot::{self, Snapshot};
use ptmem::trace::{Level, Part, Window};
use ptmem::trim::{self, Error, TrimOptions, TrimmedDevice, trim};

fn fixture(name: &str) -> Snapshot {
    fixtures::open(&fixtures::folder().join(name))
}

/// Every snapshot with its whole history.
fn snapshots() -> Vec<PathBuf> {
    fixtures::snapshots().into_iter().chain(fixtures::recorded()).collect()
}

fn profile_of(snapshot: Snapshot) -> Profile {
    let source = Source { path: String::new(), bytes: 0, kind: InputKind::Snapshot };
    measure(snapshot, source, ReadOptions::default()).unwrap()
}

fn between(text: &str) -> TrimOptions {
    TrimOptions { between: Some(trim::between(text).unwrap()), ..TrimOptions::default() }
}

/// The whole history of each device.
fn replays(whole: &Snapshot) -> BTreeMap<DeviceId, Replay> {
    whole.devices.iter().map(|(&id, device)| (id, replay::run(whole, id, device).unwrap())).collect()
}

/// The counters within the window of a device, from the whole history.
fn truth(whole: &Replay, trimmed: &TrimmedDevice) -> Part {
    let window = &trimmed.window;
    let [from, to] = [window.start, window.end].map(Position::of_count);
    whole.trace.parts(&[Window { from, to }])[0]
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

fn compare(device: &DeviceProfile, truth: &Part, place: &str) {
    let figures = &device.figures;
    let Level { allocated, active, reserved } = truth.peak;
    assert_holds(&figures.allocated, truth.start.allocated, allocated, &format!("{place}: allocated"));
    assert_holds(&figures.active, truth.start.active, active, &format!("{place}: active"));
    assert_holds(&figures.reserved, truth.start.reserved, reserved, &format!("{place}: reserved"));
    let [allocated, active, reserved] =
        [figures.allocated, figures.active, figures.reserved].map(|counter| counter.end.unwrap());
    let end = Level { allocated, active, reserved };
    assert_eq!(end, truth.end, "{place}: end");
}

#[test]
fn a_window_has_the_counters_of_the_whole_there() {
    let mut compared = 0;
    for path in snapshots() {
        let whole = fixtures::open(&path);
        // PyTorch 2.0 does not record enough to wind back.
        if whole.lacks_block_addresses || !whole.has_traces {
            continue;
        }
        let most = whole.devices.values().map(|device| device.events.len()).max().unwrap_or(0);
        let replays = replays(&whole);
        for (from, to) in [(most / 4, most / 2), (0, most / 3), (most * 2 / 3, most), (most / 2, most / 2)] {
            let place = format!("{} {from}..{to}", path.display());
            let window =
                format!("{}..{}", from.checked_sub(1).map_or(String::new(), |at| at.to_string()), to.max(1) - 1);
            // Another device may have fewer events.
            let Ok(trimmed) = trim(&whole, &between(&window)) else { continue };
            let again = profile_of(snapshot::read(&*trimmed.bytes).unwrap_or_else(|error| panic!("{place}: {error}")));
            for told in &trimmed.devices {
                let device = again.devices.iter().find(|device| device.device == told.device);
                let Some(device) = device else { continue };
                let original = &replays[&told.device];
                if !original.figures.checks.hold() || original.figures.allocated.peak.is_none() {
                    continue;
                }
                assert_eq!(device.events, told.window.len() as u64, "{place}");
                let truth = truth(original, told);
                assert_eq!(truth.peak.allocated, told.peak_within, "{place}");
                compare(device, &truth, &place);
                compared += 1;
            }
        }
    }
    assert!(compared > 120, "{compared}");
}

#[test]
fn the_whole_is_the_same_snapshot() {
    for path in snapshots() {
        let whole = fixtures::open(&path);
        let place = path.display();
        let trimmed = trim(&whole, &TrimOptions::default()).unwrap();
        let again = snapshot::read(&*trimmed.bytes).unwrap();
        assert_eq!(again.settings.all, whole.settings.all, "{place}");
        assert_eq!(again.settings, whole.settings, "{place}");
        assert_eq!(again.annotations.len(), whole.annotations.len(), "{place}");
        assert_eq!(again.has_traces, whole.has_traces, "{place}");
        assert_eq!(again.lacks_block_addresses, whole.lacks_block_addresses, "{place}");
        let before = profile_of(whole);
        let after = profile_of(again);
        for (before, after) in before.devices.iter().zip(&after.devices) {
            let [one, other] = [before, after].map(|device| {
                let figures = &device.figures;
                [figures.allocated, figures.active, figures.requested, figures.reserved]
            });
            assert_eq!(one, other, "{place}");
            assert_eq!(before.figures.checks, after.figures.checks, "{place}");
            assert_eq!(before.actions, after.actions, "{place}");
            let [one, other] = [before, after]
                .map(|device| device.stacks.iter().map(|stack| (&stack.label, stack.peak)).collect::<Vec<_>>());
            assert_eq!(one, other, "{place}");
        }
    }
}

#[test]
fn memory_that_is_older_than_the_window_keeps_its_stack() {
    let whole = fixture("before.pkl");
    let trimmed = trim(&whole, &between("peak..peak")).unwrap();
    let at_peak = profile_of(whole);
    let again = profile_of(snapshot::read(&*trimmed.bytes).unwrap());
    let [at_peak, again] = [&at_peak.devices[0], &again.devices[0]];
    assert_eq!(again.events, 0);
    assert_eq!(again.figures.allocated.end, at_peak.figures.allocated.peak);
    let mut held: Vec<_> = at_peak.stacks.iter().map(|stack| (stack.label.as_str(), stack.peak)).collect();
    held.retain(|(_, held)| held.bytes > 0);
    let mut listed: Vec<_> = again.stacks.iter().map(|stack| (stack.label.as_str(), stack.end)).collect();
    held.sort_unstable_by_key(|(label, _)| *label);
    listed.sort_unstable_by_key(|(label, _)| *label);
    assert_eq!(held, listed);
}

#[test]
fn a_size_is_kept_and_so_is_the_peak() {
    let whole = fixture("before.pkl");
    let all = trim(&whole, &TrimOptions::default()).unwrap();
    let mut latest = 0;
    for most in [20_000, 32_000, 48_000, 1 << 20] {
        let trimmed = trim(&whole, &TrimOptions { max_bytes: Some(most), ..TrimOptions::default() }).unwrap();
        assert!(trimmed.bytes.len() as u64 <= most, "{most}: {}", trimmed.bytes.len());
        assert_eq!(Some(trimmed.devices[0].peak_within), trimmed.devices[0].peak);
        assert!(trimmed.devices[0].window.len() >= latest);
        latest = trimmed.devices[0].window.len();
    }
    assert_eq!(latest, all.devices[0].events);
    let refused = trim(&whole, &TrimOptions { max_bytes: Some(10), ..TrimOptions::default() }).unwrap_err();
    assert!(matches!(refused, Error::TooSmall { least } if least > 10), "{refused}");
}

#[test]
fn one_device_is_left_as_it_was() {
    let whole = fixture("two-devices-before.pkl");
    let trimmed = trim(&whole, &TrimOptions { devices: vec![DeviceId::Ordinal(1)], ..TrimOptions::default() }).unwrap();
    let all = profile_of(whole);
    let again = profile_of(snapshot::read(&*trimmed.bytes).unwrap());
    assert_eq!(again.devices.len(), 1);
    assert_eq!(again.devices[0].device, DeviceId::Ordinal(1));
    assert_eq!(again.devices[0].figures.allocated, all.devices[1].figures.allocated);
}

#[test]
fn what_is_not_there_is_refused() {
    let whole = fixture("before.pkl");
    let no_device = trim(&whole, &TrimOptions { devices: vec![DeviceId::Ordinal(7)], ..TrimOptions::default() });
    assert_eq!(no_device.unwrap_err(), Error::NoDevice { device: DeviceId::Ordinal(7), there: vec![DeviceId::FIRST] });
    assert!(matches!(trim(&whole, &between("oom..end")), Err(Error::NoMoment(_))));
    assert!(matches!(trim(&whole, &between("end..peak")), Err(Error::Backwards { .. })));
    assert!(trim::between("peak").is_err());
}
