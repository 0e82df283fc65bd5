//! Limits on pinned host memory and limits on devices.

use std::fs;
use std::path::Path;

use crate::support::fixtures;
use crate::support::tool::{judged, ptmem, verdict};

/// A recording of a device and of pinned memory, as `same.pkl`.
fn recording(folder: &Path) {
    fs::copy(fixtures::folder().join("torch-2.15.pkl"), folder.join("same.pkl")).unwrap();
}

fn judge(folder: &Path, arguments: &[&str]) -> String {
    judged(verdict(&ptmem(folder, arguments)))
}

/// A name that only the other memory has is no match.
#[test]
fn a_pattern_that_matches_only_other_memory_checks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    recording(place);
    let grows = |limit: &str| judge(place, &["diff", "same.pkl", "same.pkl", "--max-growth", limit]);
    assert_reads!(grows("host:phase:forward=1%") => str!["3: INCONCLUSIVE host:phase:forward: the pattern matches no phase on either side; the nearest phase is 'Optimizer.step#SGD.step'"]);
    assert_reads!(grows("host:stack:*forward*=1%") => str!["3: INCONCLUSIVE host:stack:*forward*: the pattern matches no stack on either side"]);
    assert_reads!(grows("stack:<no frames>=1%") => str!["3: INCONCLUSIVE stack:<no frames>: the pattern matches no stack on either side; the nearest stacks are 'backward: ReluBackward0 (aten::threshold_backward)', 'forward (model.py:94) aten::relu' and 'forward (model.py:95) aten::addmm'"]);
    assert_reads!(judge(place, &["check", "same.pkl", "--max", "host:stack:*forward*=1GiB"]) => str!["3: INCONCLUSIVE host:stack:*forward*: the pattern matches no stack"]);
}

/// A limit on the pinned memory of a name leaves devices to the limit on all.
#[test]
fn a_limit_on_other_memory_replaces_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    recording(place);
    let maxima = ["--max", "stack=1MiB", "--max", "host:stack:*=1GiB"];
    assert_reads!(judge(place, &[&["check", "same.pkl"], &maxima[..]].concat()) => str!["1: FAIL stack backward: ReluBackward0 (aten::threshold_backward) is 2.71 MiB, allowed 1.00 MiB; 2 more checks fail"]);
}

/// Pinned memory has no workspaces of cuBLAS.
#[test]
fn limits_on_pinned_memory_hold_for_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    recording(place);
    fs::write(place.join("ptmem.toml"), "beside-workspaces = true").unwrap();
    let grows = |limit: &str| judge(place, &["diff", "same.pkl", "same.pkl", "--max-growth", limit]);
    assert_reads!(grows("host:peak=5%") => str!["0: PASS host:peak did not change, allowed 5 %"]);
    assert_reads!(grows("host:end=5%") => str!["0: PASS host:end did not change, allowed 5 %"]);
}

/// Without the devices, only limits on pinned memory have anything to limit.
#[test]
fn limits_on_devices_and_leaks_say_that_only_pinned_memory_was_examined() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    recording(place);
    let judge = |arguments: &[&str]| judge(place, &[arguments, &["--device", "host"]].concat());
    assert_reads!(judge(&["diff", "same.pkl", "same.pkl", "--max-growth", "5%"]) => str!["3: INCONCLUSIVE peak: it is about devices, and only pinned host memory was examined; host:peak limits that"]);
    assert_reads!(judge(&["diff", "same.pkl", "same.pkl", "--max-growth", "pool:x=5%"]) => str!["3: INCONCLUSIVE pool:x: it is about devices, and only pinned host memory was examined"]);
    assert_reads!(judge(&["check", "same.pkl", "--max", "1MiB"]) => str!["3: INCONCLUSIVE peak: it is about devices, and only pinned host memory was examined; host:peak limits that"]);
    assert_reads!(judge(&["check", "same.pkl", "--device-memory", "1GiB", "--min-headroom", "1MiB"]) => str!["3: INCONCLUSIVE headroom: it is about devices, and only pinned host memory was examined"]);
    assert_reads!(judge(&["leak", "same.pkl"]) => str!["3: INCONCLUSIVE leak: leaks are searched on devices, and only pinned host memory was examined"]);
    assert_reads!(judge(&["diff", "same.pkl", "same.pkl", "--max-growth", "host:peak=5%"]) => str!["0: PASS host:peak did not change, allowed 5 %"]);
}
