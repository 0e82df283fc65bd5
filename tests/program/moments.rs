//! Moments that name a phase, a window, or the same place of two programs; and one device of several.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::support::fixtures;
use crate::support::history::{A, B, MIB, event, file, frames, free, segment};
use crate::support::pickle;
use crate::support::tool::{ptmem, text};

fn json(folder: &Path, arguments: &[&str]) -> Json {
    let output = ptmem(folder, &[arguments, &["--format", "json"]].concat());
    assert!(output.status.code() != Some(2), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The event that a moment means, and what is allocated then.
fn at(folder: &Path, file: &str, moment: &[&str]) -> (i64, u64) {
    let report = json(folder, &[&["show", file, "--top", "0"], moment].concat());
    let device = &report["devices"][0];
    let stacks = device["stacks"].as_array().unwrap();
    let held = stacks.iter().map(|stack| stack["at"].as_u64().unwrap()).sum();
    (device["at_event"].as_i64().unwrap(), held)
}

fn error(folder: &Path, arguments: &[&str]) -> String {
    let output = ptmem(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    text(&output.stderr)
}

#[test]
fn a_phase_has_a_start_a_peak_and_an_end() {
    let folder = fixtures::folder();
    let report = json(&folder, &["show", "phases-after.pkl"]);
    let phases = report["devices"][0]["phases"].as_array().unwrap();
    let of_name = |name: &str| phases.iter().filter(|phase| phase["name"] == name).collect::<Vec<_>>();
    let forward = of_name("forward");
    assert!(forward.len() > 2);
    for phase in &forward {
        let moment = |point: &str| format!("phase:forward#{}:{point}", phase["occurrence"]);
        let first = phase["first_event"].as_i64().unwrap();
        let last = first + phase["events"].as_i64().unwrap() - 1;
        let start = at(&folder, "phases-after.pkl", &["--at", &moment("start")]);
        assert_eq!(start, (first - 1, phase["start"].as_u64().unwrap()));
        let end = at(&folder, "phases-after.pkl", &["--at", &moment("end")]);
        assert_eq!(end, (last, phase["end"].as_u64().unwrap()));
        let (event, held) = at(&folder, "phases-after.pkl", &["--at", &moment("peak")]);
        assert_eq!(held, phase["peak"].as_u64().unwrap());
        assert!((first - 1..=last).contains(&event));
        let window = format!("{}..{}", moment("start"), moment("end"));
        assert_eq!(at(&folder, "phases-after.pkl", &["--at", &window]), (event, held));
    }
    // Without a number it is the occurrence with the highest peak.
    let highest = of_name("backward").iter().map(|phase| phase["peak"].as_u64().unwrap()).max().unwrap();
    assert_eq!(at(&folder, "phases-after.pkl", &["--at", "phase:backward:peak"]).1, highest);
    // The highest point of the whole recording is its peak.
    let peak = at(&folder, "phases-after.pkl", &["--at", "peak"]);
    assert_eq!(at(&folder, "phases-after.pkl", &["--at", "baseline..end"]), peak);
}

#[test]
fn a_profile_knows_the_moments_of_phases() {
    let folder = tempfile::tempdir().unwrap();
    let file = fixtures::folder().join("phases-after.pkl");
    let file = file.to_str().unwrap();
    let saved = ptmem(folder.path(), &["profile", file, "-o", "stored.json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    for moment in ["phase:forward#1:peak", "between:phase:forward#1:start..phase:step#1:end", "event:17"] {
        assert_eq!(at(folder.path(), "stored.json", &["--at", moment]), at(folder.path(), file, &["--at", moment]));
    }
    let other = error(folder.path(), &["show", "stored.json", "--at", "time:0.001"]);
    assert!(other.contains("keeps the times of few events"), "{other}");
}

#[test]
fn a_moment_that_is_not_there_is_refused_with_what_is() {
    let folder = fixtures::folder();
    for (arguments, expected) in [
        (["show", "phases-after.pkl", "--at", "phase:forwrd:peak"], "the nearest phases are 'forward'"),
        (["show", "phases-after.pkl", "--at", "phase:forward#9:peak"], "there are 4 occurrences of 'forward'"),
        (["show", "state-only.pkl", "--at", "phase:forward:peak"], "the history has no phases"),
        (["show", "before.pkl", "--at", "end..baseline"], "the earlier first"),
        (["show", "before.pkl", "--at", "baseline-end"], "invalid moment"),
        (["show", "before.pkl", "--at", "aligned"], "a moment of two snapshots"),
    ] {
        let said = error(&folder, &arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert_reads!(error(&folder, &["check", "before.pkl", "--max", "1GiB", "--at", "aligned"]) => str!["error: --at aligned is a moment of two snapshots, for 'ptmem diff'; expected another one"]);
    let timeless = tempfile::tempdir().unwrap();
    let events =
        vec![event("segment_alloc", A, 20 * MIB).without("time_us"), event("alloc", A, 20 * MIB).without("time_us")];
    fs::write(timeless.path().join("old.pkl"), file(vec![segment(A, &[(20 * MIB, true)])], events)).unwrap();
    for moment in [["--at", "time:0.5"], ["--at", "time:0..end"]] {
        let said = error(timeless.path(), &[&["show", "old.pkl"], &moment[..]].concat());
        assert!(said.contains("the events have no times"), "{said}");
    }
    // The length is unknown, the times are not.
    let timed = |size: u64, time: i64| event("alloc", A, size).with("time_us", time);
    let first = event("segment_alloc", A, 20 * MIB);
    for (name, events) in [
        ("first.pkl", vec![first.clone().without("time_us"), timed(20 * MIB, 1_000)]),
        ("back.pkl", vec![first.with("time_us", 1_000), timed(20 * MIB, 0)]),
    ] {
        fs::write(timeless.path().join(name), file(vec![segment(A, &[(20 * MIB, true)])], events)).unwrap();
    }
    let said = |arguments: &[&str]| error(timeless.path(), arguments);
    assert_reads!(said(&["show", "first.pkl", "--at", "time:5"]) => str!["error: first.pkl: no device has the moment 'time:5.000000' (--at); the histories have 2 events"]);
    assert_reads!(said(&["show", "back.pkl", "--at", "time:5"]) => str!["error: back.pkl: no device has the moment 'time:5.000000' (--at); the histories have 2 events"]);
    let examined = text(&ptmem(timeless.path(), &["doctor", "back.pkl"]).stdout);
    assert!(examined.contains("or the clock went back"), "{examined}");
}

/// A forward pass and then an optimizer, each of which frees what it allocates, many times over.
fn steps(forward: u64, optimizer: u64) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 100 * MIB)];
    for _ in 0..10 {
        for (function, size) in [("load", 1), ("forward", forward), ("loss", 1), ("backward", 2), ("step", optimizer)] {
            events.push(event("alloc", A, size * MIB).with("frames", frames(function)));
            events.extend(free(A, size * MIB));
        }
    }
    file(vec![segment(A, &[(100 * MIB, false)])], events)
}

#[test]
fn both_sides_are_compared_at_the_same_place_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), steps(30, 40)).unwrap();
    fs::write(folder.path().join("after.pkl"), steps(50, 40)).unwrap();
    let rows = |report: &Json| -> Vec<(String, i64)> {
        let rows = report["devices"][0]["stacks"].as_array().unwrap().iter();
        rows.map(|row| (row["label"].as_str().unwrap().to_owned(), row["delta"].as_i64().unwrap())).collect()
    };
    let mib = |bytes: i64| bytes * MIB as i64;
    // At the two peaks other stacks hold the memory; at the same place one holds 20 MiB more.
    let at_peaks = rows(&json(folder.path(), &["diff", "before.pkl", "after.pkl", "--at", "peak"]));
    assert_eq!(at_peaks.len(), 2);
    let report = json(folder.path(), &["diff", "before.pkl", "after.pkl"]);
    assert_eq!(report["at"], "aligned");
    // What the peak of the before held elsewhere closes the sum: the peak grew by 10 MiB.
    let elsewhere = "[the before had its peak, 10.00 MiB higher, elsewhere: step (train.py:7) (event 13)]";
    assert_eq!(rows(&report), [("forward (train.py:7)".to_owned(), mib(20)), (elsewhere.to_owned(), mib(-10))]);
    let device = &report["devices"][0];
    assert_eq!(device["metrics"]["peak"]["delta"], mib(10));
    assert_eq!(device["stacks"][1]["bucket"], "peak-elsewhere");
    let categories: i64 =
        device["categories"].as_array().unwrap().iter().map(|one| one["delta"].as_i64().unwrap()).sum();
    assert_eq!(categories, mib(10));
    let place = |event: i64, bytes: i64| serde_json::json!({ "event": event, "step": 0, "phase": null, "allocated": mib(bytes) });
    let places = &device["places"];
    assert_eq!(places["before"], place(4, 30));
    assert_eq!(places["after"], place(4, 50));
    assert_eq!(places["before_peak"], place(13, 40));
    assert_eq!(places["reason"], Json::Null);
    let limit =
        |limit: &str| ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", limit]).status.code();
    assert_eq!(limit("stack=20MiB"), Some(0));
    assert_eq!(limit("stack=19MiB"), Some(1));

    // A saved profile has the stacks of every place.
    let saved = ptmem(folder.path(), &["profile", "before.pkl", "-o", "stored.json"]);
    assert!(saved.status.success());
    let from_stored = json(folder.path(), &["diff", "stored.json", "after.pkl"]);
    assert_eq!(from_stored["devices"][0]["places"], *places);
    assert_eq!(rows(&from_stored), rows(&report));
    let same = ptmem(folder.path(), &["diff", "stored.json", "before.pkl", "--at", "aligned"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
}

#[test]
fn histories_that_are_not_alike_have_no_common_moment() {
    let folder = fixtures::folder();
    let report = json(&folder, &["diff", "before.pkl", "kv-cache.pkl"]);
    assert_eq!(report["devices"][0]["places"]["reason"], "not-alike");
    let codes: Vec<_> = report["diagnostics"].as_array().unwrap().iter().map(|found| &found["code"]).collect();
    assert!(codes.contains(&&Json::from("places-not-aligned")), "{codes:?}");
    let without = tempfile::tempdir().unwrap();
    fs::write(without.path().join("state.pkl"), file(vec![segment(A, &[(20 * MIB, true)])], Vec::new())).unwrap();
    fs::write(without.path().join("after.pkl"), steps(30, 40)).unwrap();
    let report = json(without.path(), &["diff", "state.pkl", "after.pkl"]);
    assert_eq!(report["devices"][0]["places"]["reason"], "not-known");
}

#[test]
fn one_device_of_several_is_looked_at_alone() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |addr: u64, mib: u64| vec![event("segment_alloc", addr, mib * MIB), event("alloc", addr, mib * MIB)];
    let write = |name: &str, other: u64| {
        let segments = vec![segment(A, &[(20 * MIB, true)]), segment(B, &[(other * MIB, true)]).with("device", 1)];
        let traces = vec![trace(A, 20).into(), trace(B, other).into()];
        let both = pickle::Value::dict([("segments", segments.into()), ("device_traces", traces.into())]);
        fs::write(folder.path().join(name), pickle::write(&both, pickle::Options::default())).unwrap();
    };
    write("before.pkl", 30);
    write("after.pkl", 50);
    let devices = |report: &Json| report["devices"].as_array().unwrap().len();
    assert_eq!(devices(&json(folder.path(), &["show", "before.pkl"])), 2);
    let one = json(folder.path(), &["show", "before.pkl", "--device", "1"]);
    assert_eq!((devices(&one), &one["devices"][0]["device"]), (1, &Json::from(1)));
    let code = |arguments: &[&str]| ptmem(folder.path(), arguments).status.code();
    let gate = ["diff", "before.pkl", "after.pkl", "--max-growth", "5MiB"];
    assert_eq!(code(&gate), Some(1));
    assert_eq!(code(&[&gate[..], &["--device", "1"]].concat()), Some(1));
    assert_eq!(code(&[&gate[..], &["--device", "0"]].concat()), Some(0));
    assert_eq!(code(&["check", "after.pkl", "--max", "peak=20MiB"]), Some(1));
    assert_eq!(code(&["check", "after.pkl", "--max", "peak=20MiB", "--device", "0"]), Some(0));
    assert_eq!(code(&["leak", "before.pkl", "after.pkl", "--device", "0"]), Some(0));

    // A saved profile has all of them, and is restricted as well.
    assert_eq!(code(&["profile", "before.pkl", "-o", "stored.json"]), Some(0));
    assert_eq!(devices(&json(folder.path(), &["show", "stored.json", "--device", "0"])), 1);
    for file in ["before.pkl", "stored.json"] {
        let said = error(folder.path(), &["show", file, "--device", "7"]);
        assert!(said.contains("there is no device 7 in it; it has devices 0, 1"), "{said}");
        assert!(said.contains("to --device"), "{said}");
    }
}

#[test]
fn a_saved_profile_knows_every_moment_of_a_history_that_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = vec![event("segment_alloc", A, 20 * MIB)];
    for size in (1..9_000).map(|number| 512 * (number * 7_919 % 9_001)) {
        events.push(event("alloc", A, size));
        events.extend(free(A, size));
    }
    fs::write(folder.path().join("whole.pkl"), file(vec![segment(A, &[(20 * MIB, false)])], events)).unwrap();
    let saved = ptmem(folder.path(), &["profile", "whole.pkl", "-o", "stored.json"]);
    assert!(saved.status.success() && !text(&saved.stderr).contains("warning"), "{}", text(&saved.stderr));
    for moment in ["event:7", "event:20000", "peak", "baseline..event:9"] {
        let [whole, stored] = ["whole.pkl", "stored.json"].map(|file| at(folder.path(), file, &["--at", moment]));
        assert_eq!(whole, stored, "{moment}");
    }
    assert!(fs::metadata(folder.path().join("stored.json")).unwrap().len() < 2 << 20);
}
