//! Doubts about recordings, which concern every kind of limit.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::history::{A, MIB, event, free, oom, segment, snapshot};
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
