//! Growth that was accepted, on devices and of pinned host memory.

use std::fs;
use std::path::Path;

use crate::support::fixtures;
use crate::support::history::{A, MIB, event, file, frame, free, segment};
use crate::support::pickle::Value;
use crate::support::tool::{proposed, ptmem, text};

#[test]
fn growth_of_the_host_is_accepted_by_its_own_name_only() {
    let corners = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/recorded/corners");
    let [before, after] = ["pinned", "pinned-deeper"].map(|name| format!("{corners}/{name}-2.15.0.pkl.zst"));
    let folder = tempfile::tempdir().unwrap();
    for (subject, limit, code) in [
        ("pattern = \"*\"", "host:stack=1MiB", 1),
        ("pattern = \"*\"", "stack=1MiB", 0),
        ("metric = \"host:stack:*\"", "host:stack=1MiB", 0),
        ("metric = \"host:stack:*\"", "stack=1MiB", 1),
        ("metric = \"stack:*\"", "stack=1MiB", 2),
    ] {
        let entry = format!("[[accept]]\n{subject}\nbytes = \"64MiB\"\nreason = \"x\"\nexpires = 9999-12-31\n");
        fs::write(folder.path().join("ptmem.toml"), entry).unwrap();
        let output = ptmem(folder.path(), &["diff", &before, &after, "--max-growth", limit]);
        assert_eq!(output.status.code(), Some(code), "{subject} {limit}: {}", text(&output.stdout));
    }
    // Line 129 allocates on the host alone, line 130 on the device.
    for (subject, is_unused) in [
        ("metric = \"host:stack:*:129)*\"", false),
        ("metric = \"host:stack:*:130)*\"", true),
        ("pattern = \"*:129)*\"", true),
        ("pattern = \"*:130)*\"", false),
    ] {
        let entry = format!("[[accept]]\n{subject}\nbytes = \"64MiB\"\nreason = \"x\"\nexpires = 9999-12-31\n");
        fs::write(folder.path().join("ptmem.toml"), entry).unwrap();
        let report = text(&ptmem(folder.path(), &["diff", &before, &after]).stdout);
        assert_eq!(report.contains("warning[unused-rule]"), is_unused, "{subject}: {report}");
    }
}

#[test]
fn growth_of_which_a_bound_is_known_is_not_proposed_to_accept() {
    let folder = fixtures::folder();
    let diff = |after: &str| {
        let report =
            text(&ptmem(&folder, &["diff", "before.pkl", after, "--max-growth", "0", "--config", "none"]).stdout);
        (report.contains("FAIL peak grew"), report.contains("[[accept]]"))
    };
    assert_eq!(diff("after.pkl"), (true, true));
    // The after ends early.
    assert_eq!(diff("expandable.pkl"), (true, false));
}

/// Exit code and report with an entry of the configuration.
fn diff_beside_workspaces(folder: &Path, accept: &str) -> (Option<i32>, String) {
    let config = format!("beside-workspaces = true\nmax-growth.peak = \"5%\"\n{accept}");
    fs::write(folder.join("ptmem.toml"), config).unwrap();
    let output = ptmem(folder, &["diff", "before.pkl", "after.pkl"]);
    (output.status.code(), text(&output.stdout))
}

/// The limit allows more of 12 MiB than of the 4 MiB beside the workspace.
#[test]
fn a_proposed_entry_covers_growth_beside_workspaces_too() {
    let folder = tempfile::tempdir().unwrap();
    for (name, size) in [("before.pkl", 4 * MIB), ("after.pkl", 11 * MIB / 2)] {
        let workspace = vec![frame("at::cuda::getNewWorkspace()", "??", 0)];
        let workspace = event("alloc", A, 8 * MIB).with("frames", workspace);
        let events = vec![event("segment_alloc", A, 20 * MIB), workspace, event("alloc", A + 8 * MIB, size)];
        let blocks = segment(A, &[(8 * MIB, true), (size, true), (12 * MIB - size, false)]);
        fs::write(folder.path().join(name), file(vec![blocks], events)).unwrap();
    }
    let (code, report) = diff_beside_workspaces(folder.path(), "");
    assert_eq!(code, Some(1), "{report}");
    let entry = proposed(&report);
    assert_reads!(entry => str![[r#"
  [[accept]]
  metric = "peak"
  bytes = "2MiB" # peak beside cuBLAS workspaces: +1.50 MiB, allowed +204.80 KiB
  reason = "why it is worth it"
  expires = 2027-01-29
"#]]);
    let (code, report) = diff_beside_workspaces(folder.path(), &entry);
    assert_eq!(code, Some(0), "{report}");
}

/// A snapshot of a stack of each function, of so many MiB.
fn stacks(sizes: [(&str, u64); 4]) -> Vec<u8> {
    recorded(&sizes, &[])
}

/// The same with operators in all stacks.
fn recorded(sizes: &[(&str, u64)], operators: &[&str]) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 400 * MIB)];
    let mut blocks = Vec::new();
    let mut at = A;
    for (function, size) in sizes.iter().map(|(function, size)| (function, size * MIB)) {
        let operators = operators.iter().map(|operator| frame(operator, "??", 0));
        let frames: Vec<Value> = operators.chain([frame(function, "/repo/train.py", 7)]).collect();
        events.push(event("alloc", at, size).with("frames", frames));
        blocks.push((size, true));
        at += size;
    }
    blocks.push((A + 400 * MIB - at, false));
    file(vec![segment(A, &blocks)], events)
}

/// An entry for stacks.
fn entry_for(patterns: &str, bytes: &str, reason: &str) -> String {
    format!("[[accept]]\npattern = [{patterns}]\nbytes = \"{bytes}\"\nreason = \"{reason}\"\nexpires = 9999-12-31\n")
}

/// Exit code, and the lines of the checks of stacks.
fn judge_stacks(folder: &Path, config: &str) -> String {
    fs::write(folder.join("ptmem.toml"), config).unwrap();
    let output = ptmem(folder, &["diff", "before.pkl", "after.pkl"]);
    let report = text(&output.stdout);
    let checks = report.lines().filter(|line| line.contains("  stack ") && !line.starts_with(' '));
    format!("{}\n{}", output.status.code().unwrap(), checks.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_order_of_entries_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let rest = ("rest", 100);
    fs::write(folder.path().join("before.pkl"), stacks([("one", 10), ("two", 10), ("three", 10), rest])).unwrap();
    fs::write(folder.path().join("after.pkl"), stacks([("one", 20), ("two", 20), ("three", 20), rest])).unwrap();
    let limits = "max-growth = { stack = \"0\", peak = \"0\" }\n";
    let [wide, narrow, other] = [("\"one*\", \"two*\"", "wide"), ("\"one*\"", "narrow"), ("\"t*\"", "other")]
        .map(|(patterns, reason)| entry_for(patterns, "10MiB", reason));
    for entries in [
        [&wide, &narrow, &other],
        [&wide, &other, &narrow],
        [&narrow, &wide, &other],
        [&narrow, &other, &wide],
        [&other, &wide, &narrow],
        [&other, &narrow, &wide],
    ] {
        let verdict = judge_stacks(folder.path(), &format!("{limits}{}{}{}", entries[0], entries[1], entries[2]));
        assert_eq!(verdict.lines().next(), Some("0"), "{verdict}");
    }
    assert_reads!(judge_stacks(folder.path(), &format!("{limits}{wide}{narrow}")) => str![[r#"
1
FAIL      stack three (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B
accepted  stack one (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B (10.00 MiB accepted until 9999-12-31: narrow)
accepted  stack two (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B (10.00 MiB accepted until 9999-12-31: wide)
"#]]);
    assert_reads!(judge_stacks(folder.path(), &format!("{limits}{narrow}{wide}")) => str![[r#"
1
FAIL      stack three (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B
accepted  stack one (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B (10.00 MiB accepted until 9999-12-31: narrow)
accepted  stack two (train.py:7) grew 10.00 MiB (+100.0 %), allowed 0 B (10.00 MiB accepted until 9999-12-31: wide)
"#]]);
}

/// The after also records C++ frames, so that what it adds may be a stack of the before.
#[test]
fn growth_that_is_not_known_leaves_entries_to_growth_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let rest = ("rest", 100);
    fs::write(folder.path().join("before.pkl"), recorded(&[("known", 10), rest], &[])).unwrap();
    fs::write(folder.path().join("after.pkl"), recorded(&[("known", 15), ("new", 20), rest], &["at::empty"])).unwrap();
    let config = format!("max-growth.stack = \"0\"\n{}", entry_for("\"*\"", "20MiB", "all"));
    assert_reads!(judge_stacks(folder.path(), &config) => str![[r#"
3
?         stack new (train.py:7): the before records Python frames, the after Python and C++ frames; stack cannot be compared
accepted  stack known (train.py:7) grew 5.00 MiB (+50.0 %), allowed 0 B (5.00 MiB accepted until 9999-12-31: all)
"#]]);
    assert_reads!(judge_stacks(folder.path(), &config.replace("20MiB", "25MiB")) => str![[r#"
0
accepted  stack new (train.py:7) grew 20.00 MiB, allowed 0 B (20.00 MiB accepted until 9999-12-31: all)
accepted  stack known (train.py:7) grew 5.00 MiB (+50.0 %), allowed 0 B (5.00 MiB accepted until 9999-12-31: all)
"#]]);
}

/// A stack that the before may have under another name held 20 MiB, and 4 MiB of it at the peak.
#[test]
fn a_highest_that_is_not_known_to_have_grown_is_covered_in_full() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), recorded(&[("rest", 100)], &[])).unwrap();
    let [new, rest] = ["new", "rest"].map(|of| vec![frame("at::empty", "??", 0), frame(of, "/repo/train.py", 7)]);
    let mut events =
        vec![event("segment_alloc", A, 200 * MIB), event("alloc", A, 20 * MIB).with("frames", new.clone())];
    events.extend(free(A, 20 * MIB));
    events.push(event("alloc", A, 4 * MIB).with("frames", new));
    events.push(event("alloc", A + 4 * MIB, 100 * MIB).with("frames", rest));
    let blocks = segment(A, &[(4 * MIB, true), (100 * MIB, true), (96 * MIB, false)]);
    fs::write(folder.path().join("after.pkl"), file(vec![blocks], events)).unwrap();
    for (bytes, code) in [("19MiB", Some(3)), ("20MiB", Some(0))] {
        let config = format!("max-growth.stack-highest = \"0\"\n{}", entry_for("\"new*\"", bytes, "all"));
        fs::write(folder.path().join("ptmem.toml"), config).unwrap();
        let output = ptmem(folder.path(), &["diff", "before.pkl", "after.pkl"]);
        assert_eq!(output.status.code(), code, "{bytes}: {}", text(&output.stdout));
    }
}

/// Several limits are on stacks that one entry is about.
#[test]
fn a_proposed_entry_leaves_others_to_the_stacks_that_need_them() {
    let folder = tempfile::tempdir().unwrap();
    let rest = ("rest", 90);
    fs::write(folder.path().join("before.pkl"), stacks([("one", 20), ("two", 20), ("three", 10), rest])).unwrap();
    fs::write(folder.path().join("after.pkl"), stacks([("one", 22), ("two", 28), ("three", 18), rest])).unwrap();
    let limits = "max-growth = { peak = \"1%\", stack = \"5%\", \"stack:one*\" = \"0\" }\n";
    let config = format!("{limits}{}", entry_for("\"*\"", "6MiB", "all"));
    assert_reads!(judge_stacks(folder.path(), &config) => str![[r#"
1
FAIL      stack two (train.py:7) grew 8.00 MiB (+40.0 %), allowed 5 % (4.00 MiB accepted until 9999-12-31: all)
FAIL      stack three (train.py:7) grew 8.00 MiB (+80.0 %), allowed 5 % (4.00 MiB accepted until 9999-12-31: all)
accepted  stack one (train.py:7) grew 2.00 MiB (+10.0 %), allowed 0 B (2.00 MiB accepted until 9999-12-31: all)
"#]]);
    let proposed = proposed(&text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl"]).stdout));
    assert_reads!(judge_stacks(folder.path(), &format!("{config}{proposed}")) => str![[r#"
0
accepted  stack two (train.py:7) grew 8.00 MiB (+40.0 %), allowed 5 % (4.00 MiB accepted until 9999-12-31: all; 3.00 MiB accepted until 2027-01-29: why it is worth it)
accepted  stack three (train.py:7) grew 8.00 MiB (+80.0 %), allowed 5 % (7.50 MiB accepted until 2027-01-29: why it is worth it)
accepted  stack one (train.py:7) grew 2.00 MiB (+10.0 %), allowed 0 B (2.00 MiB accepted until 9999-12-31: all)
"#]]);
}
