//! The trace for Perfetto, read back by another decoder of protocol buffers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::report::{Format, RenderOptions, Subject};
use ptmem::{Thresholds, compare};
use serde_json::Value as Json;

use super::{fixture, run, try_run};
use crate::support::fixtures::{recorded, snapshots};
use crate::support::history::{A, MIB, event, file, segment};
use crate::support::perfetto::{Shown, Slice, decoded};

fn written(subject: Subject<'_>) -> BTreeMap<String, Shown> {
    let mut bytes = Vec::new();
    Format::Perfetto.write(subject, &RenderOptions::default(), &mut bytes).unwrap();
    decoded(&bytes)
}

fn timed() -> ReadOptions {
    ReadOptions { event_times: true, ..ReadOptions::default() }
}

fn read(path: &Path) -> Profile {
    profile::read(fs::File::open(path).unwrap(), &path.display().to_string(), timed()).unwrap()
}

fn load(name: &str) -> Profile {
    read(&PathBuf::from(fixture(name)))
}

fn only(shown: BTreeMap<String, Shown>) -> (String, Shown) {
    assert_eq!(shown.len(), 1, "{:?}", shown.keys());
    shown.into_iter().next().unwrap()
}

/// Sources of phases, as JSON and tracks name them.
const SOURCES: [&str; 4] = ["annotation", "metadata", "compile-context", "pass"];

/// The slice of a phase, from its first event to its last. Without times each event takes a microsecond.
fn slice_of(phase: &Json, times: &[u64]) -> Slice {
    let [first, events] = ["first_event", "events"].map(|key| usize::try_from(phase[key].as_u64().unwrap()).unwrap());
    let name = phase["name"].as_str().unwrap().to_owned();
    Slice { name, from: nanos(times, first), to: nanos(times, first + events.max(1) - 1) }
}

fn nanos(times: &[u64], event: usize) -> i64 {
    1000 * i64::try_from(times.get(event).copied().unwrap_or(event as u64)).unwrap()
}

/// Holds the trace of a snapshot against its JSON. Returns the number of phases.
fn agrees_with_json(path: &Path) -> usize {
    let profile = read(path);
    let subject = Subject::Profile(&profile, None);
    let options = RenderOptions { phases: true, ..RenderOptions::default() };
    let json: Json = serde_json::from_str(&Format::Json.render(subject, &options).unwrap()).unwrap();
    let shown = written(subject);
    let mut count = 0;
    for (device, read) in json["devices"].as_array().unwrap().iter().zip(&profile.devices) {
        let name = format!("{} (", read.device);
        let Some((name, shown)) = shown.iter().find(|(of, _)| of.starts_with(&name)) else {
            assert_eq!(device["end"]["active"].as_u64().unwrap_or(0), 0);
            continue;
        };
        if name.contains("time)") || name.contains("event)") {
            for counter in ["allocated", "active", "requested", "reserved"] {
                assert_eq!(shown.peak(counter), device[counter]["peak"].as_i64(), "{}: {counter}", path.display());
            }
        }
        let phases: Vec<&Json> = device["phases"].as_array().into_iter().flatten().collect();
        for source in SOURCES {
            let of_source = phases.iter().filter(|phase| phase["source"] == source);
            let mut expected: Vec<Slice> = of_source.map(|phase| slice_of(phase, &read.event_times)).collect();
            let mut slices = shown.slices.get(&format!("phases: {source}")).cloned().unwrap_or_default();
            expected.sort();
            slices.sort();
            assert_eq!(slices, expected, "{}: {source}", path.display());
        }
        count += phases.len();
    }
    count
}

#[test]
fn counters_and_phases_are_those_of_the_json() {
    let count: usize = snapshots().iter().map(|path| agrees_with_json(path)).sum();
    assert!(count > 100, "{count}");
    recorded().iter().step_by(9).for_each(|path| _ = agrees_with_json(path));
}

#[test]
fn phases_have_their_recorded_times() {
    let (name, shown) = only(written(Subject::Profile(&load("phases-before.pkl"), None)));
    assert_eq!(name, "device 0 (recorded time)");
    let slices = &shown.slices["phases: annotation"];
    // The events of the fixture are 0, 7, 24, 24, 31, 76, 78 and 81 us after the first, and go on.
    for (name, from, to) in [("epoch", 0, 1_834_000), ("step", 24_000, 407_000), ("forward", 24_000, 81_000)] {
        let slice = slices.iter().filter(|slice| slice.name == name).min_by_key(|slice| slice.from).unwrap();
        assert_eq!((slice.from, slice.to), (from, to), "{name}");
    }
}

#[test]
fn steps_are_those_of_leak() {
    let (_, shown) = only(written(Subject::Profile(&load("leak.pkl"), None)));
    let json = run(Path::new("."), &["leak", &fixture("leak.pkl"), "--format", "json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    let steps = json["devices"][0]["steps"].as_array().unwrap();
    let expected: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert!(expected.len() > 5 && shown.slice_names("steps") == expected, "{shown:?}");
}

#[test]
fn the_sides_of_a_comparison_have_processes_of_their_own() {
    let before = load("before.pkl");
    let gate = compare(before, load("state-only.pkl"), &Thresholds::default());
    let shown = written(Subject::Gate(&gate));
    let names: Vec<&str> = shown.keys().map(String::as_str).collect();
    assert_eq!(names, ["after: device 0 (no recorded history)", "before: device 0 (recorded time)"]);
    assert_eq!(shown[names[1]].peak("allocated"), Some(293_752_320));
    // The figures of a state without a history.
    assert_eq!(shown[names[0]].counters["allocated at the dump"], [(0, 1_316_864)]);
}

#[test]
fn the_name_of_a_process_says_what_its_time_axis_is() {
    let (name, shown) = only(written(Subject::Profile(&load("torch-2.0.pkl"), None)));
    assert_eq!(name, "device 0 (1 us = 1 event)");
    assert!(shown.counters.keys().any(|name| name == "allocated (at least)"), "{:?}", shown.counters.keys());
    let stored = profile::saved::text_of(&load("before.pkl"), &[]).unwrap();
    let stored = profile::read(stored.as_bytes(), "stored.json", timed()).unwrap();
    let (name, shown) = only(written(Subject::Profile(&stored, None)));
    assert_eq!(name, "device 0 (interpolated time)");
    assert_eq!(shown.peak("allocated"), Some(293_752_320));
}

/// A damaged file states any times, and a clock may go back.
#[test]
fn any_times_fit() {
    const TIMES: [i64; 6] = [-5, i64::MAX, i64::MIN + 1, 0, i64::MAX - 1, 1_700_000_000_000_000];
    for first in 0..TIMES.len() {
        let mut events = vec![event("segment_alloc", A, 20 * MIB)];
        events.extend((0..5).map(|i| event("alloc", A + i * 2 * MIB, 2 * MIB)));
        let events = events.into_iter().enumerate().map(|(i, event)| {
            let time = TIMES[(first + i) % TIMES.len()];
            event.with("time_us", time)
        });
        let file = file(vec![segment(A, &[(10 * MIB, true), (10 * MIB, false)])], events.collect());
        let profile = profile::read(&file[..], "times.pkl", timed()).unwrap();
        let (name, shown) = only(written(Subject::Profile(&profile, None)));
        assert_eq!((&*name, shown.peak("reserved")), ("device 0 (recorded time)", Some(20 << 20)), "{first}");
    }
}

#[test]
fn bytes_reach_files_and_pipes_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["show", &fixture("phases-before.pkl"), "--format", "perfetto", "--export", "perfetto=out"];
    for color in ["never", "auto", "always"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        let output = command.current_dir(folder.path()).args(arguments).args(["--color", color]).output().unwrap();
        let printed = output.stdout;
        assert!(fs::read(folder.path().join("out")).unwrap() == printed, "{color}");
        let (name, _) = only(decoded(&printed));
        assert_eq!(name, "device 0 (recorded time)");
    }
}

#[test]
fn reports_without_a_history_refuse_it() {
    let [ranks, leak] = ["ranks", "leak.pkl"].map(fixture);
    for arguments in [&["show", &*ranks][..], &["check", &*ranks], &["diff", &*ranks, &*ranks], &["leak", &*leak]] {
        let error = try_run(Path::new("."), &[arguments, &["--format", "perfetto"]].concat()).unwrap_err();
        assert!(error.contains("the format perfetto shows the history of one snapshot"), "{arguments:?}: {error}");
    }
}
