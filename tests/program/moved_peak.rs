//! A peak that moved is no regression of memory that both sides hold, and a missing part leaves a gate inconclusive.

use std::fs;
use std::path::Path;

use crate::support::edit::Edited;
use crate::support::fixtures;
use crate::support::history::{A, MIB, event, file, frames, free, segment};
use crate::support::pickle::Value;
use crate::support::tool::{judged, ptmem, text, verdict};

/// A forward pass and then an optimizer, each of which frees what it allocates.
fn steps(forward: u64, optimizer: u64) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 100 * MIB)];
    for (function, size) in [("forward", forward * MIB), ("step", optimizer * MIB)] {
        events.push(event("alloc", A, size).with("frames", frames(function)));
        events.extend(free(A, size));
    }
    file(vec![segment(A, &[(100 * MIB, false)])], events)
}

fn diff(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = ptmem(folder, &[&["diff", "-v", "before.pkl", "after.pkl"], arguments].concat());
    let report = text(&output.stdout) + &text(&output.stderr);
    // Wrapped lines are one.
    (output.status.code(), report.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn moved() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), steps(30, 40)).unwrap();
    fs::write(folder.path().join("after.pkl"), steps(50, 40)).unwrap();
    folder
}

#[test]
fn what_both_sides_hold_is_no_regression_where_the_peak_moved() {
    let folder = moved();
    // The optimizer holds as much as before, only not at the peak; the forward pass grew by 20 MiB.
    let (code, report) = diff(folder.path(), &["--max-growth", "stack=25MiB"]);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("[the before had its peak, 10.00 MiB higher, elsewhere: step"), "{report}");
    let (code, report) = diff(folder.path(), &["--max-growth", "stack=15MiB"]);
    assert_eq!(code, Some(1), "{report}");
    // Peak to peak, the optimizer seems to be gone.
    let (code, report) = diff(folder.path(), &["--at", "peak", "--max-growth", "stack=25MiB"]);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("held later"), "{report}");
}

#[test]
fn the_highest_of_stacks_is_limited_wherever_the_peak_lies() {
    let folder = moved();
    for (limit, expected) in [
        ("stack-highest=20MiB", 0),
        ("stack-highest=19MiB", 1),
        ("stack-highest:step*=0", 0),
        ("stack-highest:forward*=0", 1),
        ("stack-highest:nothing*=0", 3),
    ] {
        let (code, report) = diff(folder.path(), &["--max-growth", limit]);
        assert_eq!(code, Some(expected), "{limit}: {report}");
    }
    // A saved profile knows it as well.
    let saved = ptmem(folder.path(), &["profile", "before.pkl", "-o", "stored.json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let output = ptmem(folder.path(), &["diff", "stored.json", "after.pkl", "--max-growth", "stack-highest=19MiB"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_line_that_holds_nothing_at_the_peak_names_a_stack_by_the_most_that_it_held() {
    let folder = tempfile::tempdir().unwrap();
    for (name, passing) in [("before.pkl", 5 * MIB), ("after.pkl", 60 * MIB)] {
        let at = |line: u64| {
            let [name, file] = [("name", "update".into()), ("filename", "/repo/train.py".into())];
            Value::from(vec![Value::dict([name, file, ("line", line.into())])])
        };
        let mut events = vec![event("segment_alloc", A, 200 * MIB), event("alloc", A, 10 * MIB).with("frames", at(31))];
        events.push(event("alloc", A + 10 * MIB, passing).with("frames", at(32)));
        events.extend(free(A + 10 * MIB, passing));
        events.push(event("alloc", A + 10 * MIB, 100 * MIB));
        let blocks = [(10 * MIB, true), (100 * MIB, true), (90 * MIB, false)];
        fs::write(folder.path().join(name), file(vec![segment(A, &blocks)], events)).unwrap();
    }
    for limit in ["stack-highest:update (train.py:32)=0", "stack-highest:*:32)=0"] {
        let said = verdict(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", limit]));
        assert_reads!(judged(said) => str!["1: FAIL the most held by stack update (train.py:31) grew 55.00 MiB (+366.7 %), allowed 0 B"]);
    }
    // Its growth is accepted by the same names.
    for pattern in ["update (train.py:32)", "*:32)"] {
        let entry = format!("[[accept]]\npattern = '{pattern}'\nbytes = '64MiB'\nreason = 'x'\nexpires = 9999-12-31\n");
        fs::write(folder.path().join("ptmem.toml"), entry).unwrap();
        let (code, report) = diff(folder.path(), &["--max-growth", "stack-highest=0"]);
        assert!(code == Some(0) && !report.contains("unused-rule"), "{pattern}: {report}");
    }
    let at_peak = ["diff", "before.pkl", "after.pkl", "--config", "none", "--max-growth", "stack:*:32)=0"];
    assert_reads!(judged(verdict(&ptmem(folder.path(), &at_peak))) => str!["3: INCONCLUSIVE stack:*:32): the pattern matches no stack on either side; the nearest stacks are 'update (train.py:31)' and 'main (train.py:7)'"]);
}

#[test]
fn a_missing_part_leaves_peaks_and_stacks_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fixtures::folder().join("protocol2.pkl");
    fs::copy(&whole, folder.path().join("before.pkl")).unwrap();
    let mut cut = Edited::open(&whole);
    cut.keep_events(40, 100);
    cut.write(&folder.path().join("after.pkl"));
    for limit in ["peak=1TiB", "reserved=1TiB", "stack=1TiB", "stack-highest=1TiB"] {
        let (code, report) = diff(folder.path(), &["--max-growth", limit]);
        assert_eq!(code, Some(3), "{limit}: {report}");
        assert!(report.contains("the after lacks the first") && report.contains("max_entries="), "{report}");
        fs::write(folder.path().join("ptmem.toml"), "allow-partial = true\n").unwrap();
        let (code, report) = diff(folder.path(), &["--max-growth", limit]);
        assert_eq!(code, Some(0), "{limit}: {report}");
        fs::remove_file(folder.path().join("ptmem.toml")).unwrap();
    }
    // Every report says how to compare all the same.
    for format in ["table", "json", "markdown", "html", "github", "junit", "sarif"] {
        let (_, report) = diff(folder.path(), &["--max-growth", "peak=1TiB", "--format", format]);
        assert!(report.contains("allow-partial = true in ptmem.toml compares anyway"), "{format}: {report}");
    }
    // The end does not depend on the head.
    let (code, report) = diff(folder.path(), &["--max-growth", "end=1TiB"]);
    assert_eq!(code, Some(0), "{report}");
}

/// A forward pass of 56 calls, each with a stack of its own, of which the thirteenth is written in Python: it makes many
/// allocations, some of them by a stack that the others have as well.
fn inference(python: bool) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 100 * MIB)];
    let mut allocate = |function: &str| {
        events.push(event("alloc", A, MIB).with("frames", frames(function)));
        events.extend(free(A, MIB));
    };
    for call in 0..56 {
        if call == 12 && python {
            for _ in 0..45 {
                ["index", "interpolate", "mask"].iter().for_each(|function| allocate(function));
                allocate("call_3");
            }
        } else {
            allocate(&format!("call_{call}"));
        }
    }
    file(vec![segment(A, &[(100 * MIB, false)])], events)
}

#[test]
fn one_call_that_became_many_is_no_missing_part() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.pkl"), inference(false)).unwrap();
    fs::write(folder.path().join("many.pkl"), inference(true)).unwrap();
    for [before, after] in [["one.pkl", "many.pkl"], ["many.pkl", "one.pkl"]] {
        let output = ptmem(folder.path(), &["diff", before, after, "--max-growth", "5%"]);
        assert_eq!(output.status.code(), Some(0), "{before} {after}: {}", text(&output.stdout));
    }
}

/// Steps whose second allocation grows from step to step.
fn growing(steps: u64) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 100 * MIB)];
    for step in 0..steps {
        for (function, size) in [("load", 1), ("forward", 20 + step), ("loss", 1), ("backward", 2), ("step", 10)] {
            events.push(event("alloc", A, size * MIB).with("frames", frames(function)));
            events.extend(free(A, size * MIB));
        }
    }
    file(vec![segment(A, &[(100 * MIB, false)])], events)
}

#[test]
fn a_peak_in_a_step_that_the_before_does_not_have_is_compared_with_its_last_step() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), growing(3)).unwrap();
    fs::write(folder.path().join("after.pkl"), growing(60)).unwrap();
    let (_, report) = diff(folder.path(), &["--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let places = &report["devices"][0]["places"];
    assert_eq!(places["reason"], serde_json::Value::Null, "{places}");
    assert_eq!(places["after"]["allocated"], 79 * MIB);
    assert_eq!(places["before"]["allocated"], 22 * MIB);
}
