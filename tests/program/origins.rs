//! Memory by the annotation that was open, and by the pool that it is from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::support::fixtures;
use crate::support::history::{A, B, C, MIB, event, file, free, pool, segment};
use crate::support::tool::{ptmem, text};

/// Allocated bytes at the peak by label, and all of them.
fn held(folder: &Path, arguments: &[&str]) -> (BTreeMap<String, u64>, u64) {
    let output = ptmem(folder, &[&["show", "--top", "0", "--format", "json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let device = &report["devices"][0];
    let rows = device["stacks"].as_array().unwrap().iter();
    let rows = rows.map(|row| (row["label"].as_str().unwrap().to_owned(), row["peak"].as_u64().unwrap()));
    (rows.filter(|(_, bytes)| *bytes > 0).collect(), device["allocated"]["peak"].as_u64().unwrap())
}

#[test]
fn memory_goes_by_the_innermost_annotation() {
    let folder = fixtures::folder();
    let (rows, peak) = held(&folder, &["phases-after.pkl", "--group-by", "annotation"]);
    assert_eq!(rows.values().sum::<u64>(), peak);
    // The step is around the passes, which are around nothing.
    for name in ["forward", "backward", "step", "epoch", "<before recording>"] {
        assert!(rows.contains_key(name), "{name}: {rows:?}");
    }
    assert!(rows["backward"] > rows["forward"] && rows["forward"] > rows["step"], "{rows:?}");
    // Without annotations there is one group.
    let (rows, peak) = held(&folder, &["metadata-phases.pkl", "--group-by", "annotation"]);
    assert_eq!(rows.iter().filter(|(name, _)| *name != "<before recording>").count(), 1, "{rows:?}");
    assert!(rows.contains_key("<no annotation>") && rows.values().sum::<u64>() == peak);
    // Leaks are grouped by it too.
    let leaks = ptmem(&folder, &["leak", "leak.pkl", "--group-by", "annotation"]);
    assert!(text(&leaks.stdout).contains("ProfilerStep leaks"), "{}", text(&leaks.stdout));
}

#[test]
fn memory_goes_by_the_pool_and_its_stream() {
    let folder = tempfile::tempdir().unwrap();
    let of_stream = |stream: u64| event("alloc", B, 30 * MIB).with("stream", stream);
    let mut events = vec![
        event("segment_alloc", B, 30 * MIB).with("stream", 7777),
        of_stream(7777),
        event("segment_alloc", C, 40 * MIB),
        event("alloc", C, 40 * MIB),
    ];
    events.extend(free(C, 40 * MIB));
    events.push(event("segment_free", C, 40 * MIB));
    let segments = vec![
        segment(A, &[(20 * MIB, true)]),
        segment(B, &[(30 * MIB, true)]).with("stream", 7777).with("segment_pool_id", pool(3)),
    ];
    fs::write(folder.path().join("pools.pkl"), file(segments, events)).unwrap();
    let (rows, peak) = held(folder.path(), &["pools.pkl", "--group-by", "pool"]);
    // Memory that is older than the recording lies in a pool; the pool of a segment that is gone is not known.
    let expected = [("<pool not known>", 40), ("default pool", 20), ("private pool 1, stream 1", 30)];
    assert_eq!(rows, expected.into_iter().map(|(name, mib)| (name.to_owned(), mib * MIB)).collect());
    assert_eq!(rows.values().sum::<u64>(), peak);
}

#[test]
fn a_saved_profile_has_neither() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = fixtures::folder().join("phases-after.pkl");
    let saved = ptmem(folder.path(), &["profile", snapshot.to_str().unwrap(), "-o", "stored.json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    for by in ["annotation", "pool"] {
        let output = ptmem(folder.path(), &["show", "stored.json", "--group-by", by]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(&format!("does not keep which {by} an allocation belongs to")));
    }
}

#[test]
fn a_grouping_that_the_recording_lacks_says_how_to_record_it() {
    let folder = fixtures::folder();
    for (by, expected) in [
        ("module", "the recording has no modules: record with 'ptmem simulate --modules'"),
        ("purpose", "the recording has no purposes: record with 'ptmem simulate --modules'"),
        ("shape", "the recording has no shapes: record with 'ptmem simulate --shapes'"),
    ] {
        let shown = ptmem(&folder, &["show", "phases-after.pkl", "--group-by", by]);
        assert!(text(&shown.stdout).contains(expected), "{by}: {}", text(&shown.stdout));
    }
}
