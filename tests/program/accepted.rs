//! Growth that was accepted, on devices and of pinned host memory.

use std::fs;

use crate::support::fixtures;
use crate::support::tool::{ptmem, text};

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
