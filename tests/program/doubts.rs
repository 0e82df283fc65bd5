//! Doubts about recordings, which concern every kind of limit.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::history::{A, B, MIB, event, free, oom, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, verdict};

/// A recording with a peak of 10 MiB, in which more events happen in the end.
fn story(more: Vec<Value>) -> Value {
    let mut events =
        vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB), event("alloc", A + 4 * MIB, 6 * MIB)];
    events.extend(free(A + 4 * MIB, 6 * MIB));
    events.extend(more);
    snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events)
}

fn sound() -> Value {
    story(Vec::new())
}

fn with_facts(mut facts: Json) -> Value {
    facts["format"] = 1.into();
    sound().with("ptmem", facts)
}

fn failed() -> Value {
    with_facts(json!({"ending": {"kind": "exception", "message": "ValueError: a bad batch"}}))
}

fn out_of_memory() -> Value {
    story(vec![oom(50 * MIB)])
}

/// A recording whose ring buffer ran over.
fn cut() -> Value {
    sound().with("trace_alloc_overflowed", Value::List(vec![true.into()]))
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), pickle::write(value, pickle::Options::default())).unwrap();
}

/// Two ranks, of which one has these recordings before and after.
fn job(before: &Value, after: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (side, doubtful) in [("b", before), ("a", after)] {
        fs::create_dir(folder.path().join(side)).unwrap();
        write(folder.path(), &format!("{side}/rank0.pkl"), &sound());
        write(folder.path(), &format!("{side}/rank1.pkl"), doubtful);
    }
    folder
}

fn judge(folder: &TempDir, words: &[&str]) -> String {
    judged(verdict(&ptmem(folder.path(), words)))
}

const GROWTH: [&str; 5] = ["diff", "b", "a", "--max-growth", "imbalance=0"];
const ABSOLUTE: [&str; 5] = ["diff", "b", "a", "--max", "imbalance=1GiB"];
const ONE_SIDE: [&str; 4] = ["check", "a", "--max", "imbalance=1GiB"];

#[test]
fn the_imbalance_is_known_only_of_whole_runs() {
    let folder = job(&sound(), &failed());
    assert_reads!(judge(&folder, &GROWTH) => str!["3: INCONCLUSIVE imbalance: rank 1: the after is not a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judge(&folder, &ABSOLUTE) => str!["3: INCONCLUSIVE imbalance: rank 1: the after is not a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judge(&folder, &ONE_SIDE) => str!["3: INCONCLUSIVE imbalance: rank 1: the snapshot is not of a whole run: the program failed: ValueError: a bad batch"]);
    let folder = job(&failed(), &sound());
    assert_reads!(judge(&folder, &GROWTH) => str!["3: INCONCLUSIVE imbalance: rank 1: the before is not a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judge(&folder, &ABSOLUTE) => str!["0: PASS all 2 ranks: imbalance is 0 B, allowed 1.00 GiB"]);
}

#[test]
fn the_imbalance_is_not_known_where_memory_ran_out() {
    let folder = job(&out_of_memory(), &out_of_memory());
    assert_reads!(judge(&folder, &GROWTH) => str!["3: INCONCLUSIVE imbalance: rank 1: memory ran out on both sides: the peak is the limit of the device, not the need of the program"]);
    assert_reads!(judge(&folder, &ABSOLUTE) => str!["3: INCONCLUSIVE imbalance: rank 1: memory ran out: the peak is the limit of the device, not the need of the program"]);
    fs::write(folder.path().join("ptmem.toml"), "allow-oom = true\n").unwrap();
    assert_reads!(judge(&folder, &GROWTH) => str!["0: PASS all 2 ranks: imbalance did not change, allowed 0 B"]);
    assert_reads!(judge(&folder, &ABSOLUTE) => str!["0: PASS all 2 ranks: imbalance is 0 B, allowed 1.00 GiB"]);
}

#[test]
fn the_imbalance_is_not_known_where_a_ring_buffer_ran_over() {
    let folder = job(&sound(), &cut());
    assert_reads!(judge(&folder, &GROWTH) => str!["3: INCONCLUSIVE imbalance: the after of rank 1 lacks a part that the other side records"]);
    assert_reads!(judge(&folder, &ONE_SIDE) => str!["3: INCONCLUSIVE imbalance: rank 1: the ring buffer was full: the oldest events are missing, and the peak may be among them"]);
    // On both sides, the remaining parts are compared.
    let folder = job(&cut(), &cut());
    assert_reads!(judge(&folder, &GROWTH) => str!["0: PASS all 2 ranks: imbalance did not change, allowed 0 B"]);
    assert_reads!(judge(&folder, &[&GROWTH[..], &["--strict"]].concat()) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (history-truncated)"]);
}

#[test]
fn the_imbalance_is_not_known_of_runs_that_cannot_be_compared() {
    let ran = |commit: &str| {
        let package =
            json!({"name": "tower", "path": "/env/tower", "inside": false, "digest": "new", "same": commit == "b"});
        with_facts(json!({"commit": commit, "packages": [package]}))
    };
    assert_reads!(judge(&job(&ran("a"), &ran("b")), &GROWTH) => str!["3: INCONCLUSIVE imbalance: rank 1: both sides ran the same code of tower, which was imported from /env/tower, although their commits differ"]);
}

/// No limit on what is held at a peak may forget that memory ran out there.
#[test]
fn absolute_limits_on_peaks_are_inconclusive_where_memory_ran_out() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "oom.pkl", &out_of_memory());
    let with = |words: &[&str]| judge(&folder, &[&["diff", "oom.pkl", "oom.pkl"], words].concat());
    for limit in [
        "peak=1GiB",
        "active=1GiB",
        "requested=1GiB",
        "reserved=1GiB",
        "fragmentation=1GiB",
        "stack=1GiB",
        "stack:*=1GiB",
    ] {
        let line = with(&["--max", limit]);
        let reason = "memory ran out: the peak is the limit of the device, not the need of the program";
        let name = limit.split('=').next().unwrap();
        assert_eq!(line, format!("3: INCONCLUSIVE {name}: {reason}"));
    }
    assert_reads!(with(&["--device-memory", "80GiB", "--min-headroom", "1GiB"]) => str!["3: INCONCLUSIVE headroom: memory ran out: the peak is the limit of the device, not the need of the program"]);
    assert_reads!(with(&["--max", "end=1GiB"]) => str!["0: PASS end is 4.00 MiB, allowed 1.00 GiB"]);
    assert_reads!(with(&["--max", "stack=1MiB"]) => str!["1: FAIL stack main (train.py:7) is 10.00 MiB, allowed 1.00 MiB"]);
}

/// A recording that holds 4 MiB for good, and 40 MiB more until its end, or until it fails.
fn ending(fails: bool) -> Value {
    let activations = 40 * MIB;
    let mut events = vec![event("segment_alloc", A, 100 * MIB), event("alloc", A, 4 * MIB)];
    events.push(event("alloc", A + 4 * MIB, activations));
    events.extend(free(A + 4 * MIB, activations).into_iter().filter(|_| !fails));
    let blocks = segment(A, &[(4 * MIB, true), (activations, fails), (56 * MIB, false)]);
    let kind = if fails { "exception" } else { "whole" };
    let facts = json!({"format": 1, "ending": {"kind": kind, "message": "ValueError: a bad batch"}});
    snapshot(vec![blocks], events).with("ptmem", facts)
}

/// What is held at an exception is not what the end of a run holds.
#[test]
fn the_end_of_a_run_that_failed_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "whole.pkl", &ending(false));
    write(folder.path(), "failed.pkl", &ending(true));
    let growth = ["diff", "whole.pkl", "failed.pkl", "--max-growth", "end=5%"];
    assert_reads!(judge(&folder, &growth) => str!["3: INCONCLUSIVE end: the after is not a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judge(&folder, &["check", "failed.pkl", "--max", "end=20MiB"]) => str!["3: INCONCLUSIVE end: the snapshot is not of a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judge(&folder, &["check", "failed.pkl", "--max", "peak=20MiB"]) => str!["1: FAIL peak is 44.00 MiB, allowed 20.00 MiB"]);
    assert_reads!(judge(&folder, &["check", "failed.pkl", "--max", "baseline=0"]) => str!["3: INCONCLUSIVE baseline: the snapshot is not of a whole run: the program failed: ValueError: a bad batch"]);
}

/// All that was reserved first was used; it is given back, and of less that is reserved then, a part is not.
fn reserving_again() -> [Vec<Value>; 2] {
    let mut first = vec![event("segment_alloc", A, 200 * MIB), event("alloc", A, 200 * MIB)];
    first.extend(free(A, 200 * MIB));
    first.push(event("segment_free", A, 200 * MIB));
    let mut second = vec![event("segment_alloc", B, 100 * MIB), event("alloc", B, 40 * MIB)];
    second.extend(free(B, 40 * MIB));
    [first, second]
}

#[test]
fn a_ring_that_ran_over_knows_neither_the_start_nor_what_was_unused_at_the_peak() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = reserving_again();
    let held = || vec![segment(B, &[(100 * MIB, false)])];
    write(folder.path(), "whole.pkl", &snapshot(held(), [first, second.clone()].concat()));
    let cut = snapshot(held(), second).with("trace_alloc_overflowed", Value::List(vec![true.into()]));
    write(folder.path(), "cut.pkl", &cut);
    let check = |name: &str, limit: &str| judge(&folder, &["check", name, "--max", limit]);
    assert_reads!(check("whole.pkl", "fragmentation=30MiB") => str!["0: PASS fragmentation is 0 B, allowed 30.00 MiB"]);
    assert_reads!(check("cut.pkl", "fragmentation=30MiB") => str!["3: INCONCLUSIVE fragmentation: the ring buffer was full: the oldest events are missing, and the peak may be among them"]);
    assert_reads!(check("cut.pkl", "reserved=30MiB") => str!["1: FAIL reserved is 100.00 MiB, allowed 30.00 MiB"]);
    assert_reads!(check("cut.pkl", "baseline=30MiB") => str!["3: INCONCLUSIVE baseline: the ring buffer was full: the oldest events are missing, and what was held before them is not known"]);
    assert_reads!(check("cut.pkl", "end=30MiB") => str!["0: PASS end is 0 B, allowed 30.00 MiB"]);
}
