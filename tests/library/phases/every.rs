//! Equal parts of a history.

use super::{Event, alloc, clock, events, fixture, free, pickle_of};
use proptest::prelude::*;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Every, Moment, Position, Profile, ReadOptions};

fn every(bytes: &[u8], every: &str) -> Result<Profile, profile::ProfileError> {
    let options = ReadOptions { every: Some(every.parse::<Every>().unwrap()), ..ReadOptions::default() };
    profile::read(bytes, "made.pkl", options)
}

/// The name of a part, the number of its events, and its MiB at the start, at its peak and at the end.
type Told = (String, usize, u64, u64, u64);

fn part(name: &str, events: usize, start: u64, peak: u64, end: u64) -> Told {
    (name.to_owned(), events, start, peak, end)
}

/// The parts of a length.
fn parts(bytes: &[u8], length: &str) -> Vec<Told> {
    let profile = every(bytes, length).unwrap();
    let parts = profile.devices[0].intervals.iter().map(|interval| {
        let held = interval.held;
        let [start, peak, end] = [held.start, held.peak, held.end].map(|level| level.allocated >> 20);
        part(&interval.name, interval.window.events(), start, peak, end)
    });
    parts.collect()
}

#[test]
fn equal_parts_have_their_peaks() {
    let events = [alloc(100, 5), free(150, 1), alloc(250, 3), alloc(900, 2), free(905, 2)];
    let pickle = pickle_of(&events, &[]);
    assert_eq!(
        parts(&pickle, "2events"),
        [
            part("events 0 to 1", 2, 0, 5, 0),
            part("events 2 to 3", 2, 0, 3, 3),
            part("events 4 to 5", 2, 3, 5, 2),
            part("event 6", 1, 2, 2, 2)
        ]
    );
    let by_time = parts(&pickle, "400us");
    assert_eq!(
        by_time,
        [
            part("0 s to 0.0004 s", 4, 0, 5, 3),
            part("0.0004 s to 0.0008 s", 0, 3, 3, 3),
            part("0.0008 s to 0.0012 s", 3, 3, 5, 2)
        ]
    );
    assert_eq!(parts(&pickle, "1min").len(), 1);
    assert_eq!(parts(&pickle, "99999events").len(), 1);
}

/// A clock that goes back does not bring events back, nor move the zero that all times are counted from.
#[test]
fn times_are_counted_from_the_first_event() {
    let pickle = pickle_of(&[alloc(5_000, 5), alloc(5_250, 3), alloc(100, 2), alloc(5_500, 1)], &[]);
    assert_eq!(
        parts(&pickle, "400us"),
        [part("0 s to 0.0004 s", 3, 0, 10, 10), part("0.0004 s to 0.0008 s", 1, 10, 11, 11)]
    );
    for (moment, events) in [(0, 1), (249, 1), (250, 3), (500, 4)] {
        let options = ReadOptions { at: Moment::Time(moment), ..ReadOptions::default() };
        let profile = profile::read(&*pickle, "made.pkl", options).unwrap();
        assert_eq!(profile.devices[0].at, Some(Position::of_count(events)), "{moment}");
    }
}

/// Devices have one clock: the second one begins a millisecond later.
#[test]
fn times_of_all_devices_are_counted_from_one_zero() {
    let bytes = std::fs::read(fixture("two-devices-after.pkl")).unwrap();
    let profile = every(&bytes, "1ms").unwrap();
    let events = |device: usize| profile.devices[device].intervals.iter().map(|part| part.window.events());
    assert!(events(0).next() > Some(0) && events(1).take(2).all(|events| events == 0));
}

#[test]
fn steps_are_parts() {
    let leak = std::fs::read(fixture("leak.pkl")).unwrap();
    let names = |profile: &Profile| -> Vec<String> {
        profile.devices[0].intervals.iter().map(|part| part.name.clone()).collect()
    };
    let profile = every(&leak, "5steps").unwrap();
    assert_eq!(
        names(&profile),
        ["ProfilerStep#0 to ProfilerStep#4", "ProfilerStep#5 to ProfilerStep#9", "ProfilerStep#10 to ProfilerStep#11"]
    );
    let (device, phases) = (&profile.devices[0], &profile.devices[0].phases.all);
    // A step lasts until the next; the last one until the dump.
    let from = |index: usize| {
        phases
            .iter()
            .find(|phase| &*phase.name == "ProfilerStep" && phase.number as usize == index)
            .unwrap()
            .window
            .from
    };
    let starts: Vec<Position> = device.intervals.iter().map(|part| part.window.from).collect();
    assert_eq!(starts, [Position::START, from(5), from(10)]);
    assert_eq!(device.intervals[2].window.to, device.trace.end());
    // By name, and with what lies before the first one.
    let named = |pattern: &str| {
        let pattern = ptmem::pattern::Pattern::search(pattern).unwrap();
        let options = ReadOptions { every: Some(Every::Steps(1, Some(pattern))), ..ReadOptions::default() };
        profile::read(&*std::fs::read(fixture("phases-after.pkl")).unwrap(), "x", options)
    };
    assert_eq!(
        names(&named("backward").unwrap()),
        ["before the first step", "backward", "backward", "backward", "backward"]
    );
    assert_reads!(named("sideways").unwrap_err().to_string() => str!["device 0: no step is named 'sideways', so the history cannot be divided into parts of 1step"]);
    assert_reads!(every(&pickle_of(&clock(3), &[]), "1step").unwrap_err().to_string() => str!["device 0: no steps are found, so the history cannot be divided into parts of 1step"]);
}

#[test]
fn parts_that_nobody_could_read_are_refused() {
    let pickle = pickle_of(&[alloc(0, 1), alloc(1_000_000_000, 1)], &[]);
    let error = every(&pickle, "1ms").unwrap_err();
    let message = "device 0: the history has more than 10000 parts of 1ms; take longer ones";
    assert_eq!(error.to_string(), message);
    assert_eq!(every(&pickle, "200ms").unwrap().devices[0].intervals.len(), 5001);
    let far = pickle_of(&[alloc(i64::MIN + 1, 1), alloc(i64::MAX, 1)], &[]);
    assert!(matches!(every(&far, "1us"), Err(profile::ProfileError::TooManyIntervals { .. })));
    let timeless = pickle_of(&[Event { time: None, ..alloc(0, 1) }, Event { time: None, ..alloc(0, 1) }], &[]);
    assert!(every(&timeless, "1s").unwrap_err().to_string().contains("no times (PyTorch before 2.2)"));
    let live = every(&pickle, "1event").unwrap();
    let saved = text_of(&live, &[]).unwrap();
    assert_eq!(every(saved.as_bytes(), "1event").unwrap().devices[0].intervals, live.devices[0].intervals);
    assert_reads!(every(saved.as_bytes(), "1s").unwrap_err().to_string() => str!["device 0: a saved profile keeps the times of few events, so the history cannot be divided into parts of 1s"]);
}

proptest! {
    #[test]
    fn parts_of_any_history_cover_it(events in events(), length in 1..50_u64, by_time in any::<bool>()) {
        let pickle = pickle_of(&events, &[]);
        let text = if by_time { format!("{length}us") } else { format!("{length}events") };
        let Ok(profile) = every(&pickle, &text) else {
            return Ok(());
        };
        for device in profile.devices.iter().filter(|device| !device.intervals.is_empty()) {
            let parts = &device.intervals;
            let ends = (parts[0].window.from, parts[parts.len() - 1].window.to);
            prop_assert_eq!(ends, (Position::START, device.trace.end()));
            prop_assert!(parts.windows(2).all(|pair| pair[0].window.to == pair[1].window.from));
            prop_assert!(parts.windows(2).all(|pair| pair[0].held.end == pair[1].held.start));
            let peak = parts.iter().map(|part| part.held.peak.allocated).max();
            prop_assert_eq!(peak, device.figures.allocated.peak);
        }
    }
}
