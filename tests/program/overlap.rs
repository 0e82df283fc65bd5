//! Sides that have little in common, or other devices: another program, or a small part of the same one, is no improvement.

use std::fs;
use std::path::Path;

use crate::support::fixtures;
use crate::support::history::{A, KIB, MIB, event, file, frames, free, segment};
use crate::support::tool::{self, ptmem, text, verdict};

/// Exit code and line of the verdict of a comparison with a limit of 5 %.
fn judged(folder: &Path, files: [&str; 2], options: &[&str]) -> (i32, String) {
    verdict(&ptmem(folder, &[&["diff", files[0], files[1], "--max-growth", "5%"], options].concat()))
}

/// Steps that each call some of many functions.
fn program(steps: u64, functions: std::ops::Range<u64>) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 200 * MIB)];
    for _ in 0..steps {
        let blocks = || functions.clone().map(|function| (function, A + function * MIB, MIB - function * KIB));
        for (function, at, size) in blocks() {
            events.push(event("alloc", at, size).with("frames", frames(&format!("function_{function}"))));
        }
        events.extend(blocks().flat_map(|(_, at, size)| free(at, size)));
    }
    file(vec![segment(A, &[(200 * MIB, false)])], events)
}

fn folder_of(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

#[test]
fn another_program_is_no_improvement() {
    let fixtures = fixtures::folder();
    let files = ["before.pkl", "leak.pkl"];
    let (code, line) = judged(&fixtures, files, &[]);
    assert_eq!(code, 0);
    assert_eq!(
        line,
        "PASS the after has only 8 of the before's 27 call stacks; peak shrank 273.27 MiB (-97.5 %), allowed 5 %"
    );
    assert_reads!(tool::judged(judged(&fixtures, files, &["--strict"])) => str!["3: INCONCLUSIVE the after has only 8 of the before's 27 call stacks; a warning makes the result untrustworthy (little-in-common)"]);
    // Without a limit, and in the other direction, where the whole before is there.
    let ungated = verdict(&ptmem(&fixtures, &["diff", "before.pkl", "leak.pkl"])).1;
    assert!(ungated.starts_with("PASS the after has only 8 of the before's 27 call stacks"), "{ungated}");
    let (code, line) = judged(&fixtures, ["leak.pkl", "before.pkl"], &[]);
    assert_eq!((code, line.starts_with("FAIL peak grew")), (1, true), "{line}");
}

#[test]
fn a_small_part_of_a_program_is_no_improvement() {
    let folder = folder_of(&[
        ("whole.pkl", program(3, 0..30)),
        ("part.pkl", program(3, 0..12)),
        ("more.pkl", program(3, 0..60)),
        ("most.pkl", program(3, 0..20)),
        ("once.pkl", program(1, 0..30)),
    ]);
    let lead = "PASS the after has only 12 of the before's 30 call stacks; peak shrank";
    let (code, line) = judged(folder.path(), ["whole.pkl", "part.pkl"], &[]);
    assert_eq!((code, line.starts_with(lead)), (0, true), "{line}");
    assert_eq!(judged(folder.path(), ["whole.pkl", "part.pkl"], &["--strict"]).0, 3);
    // A third of the functions is gone, or there are fewer steps.
    for after in ["most.pkl", "once.pkl"] {
        let (code, line) = judged(folder.path(), ["whole.pkl", after], &[]);
        assert_eq!((code, line.starts_with("PASS peak ")), (0, true), "{after}: {line}");
    }
    let (code, line) = judged(folder.path(), ["whole.pkl", "more.pkl"], &[]);
    assert_eq!((code, line.starts_with("FAIL peak grew")), (1, true), "{line}");
}

#[test]
fn a_fraction_of_the_calls_of_the_same_functions_is_no_improvement() {
    // Each step calls one more function, so that no steps are equal.
    let calls = |steps: std::ops::Range<u64>| {
        let calls = steps.flat_map(|step| 0..=step).collect::<Vec<_>>();
        let blocks = || calls.iter().zip(1..).map(|(function, place)| (function, A + place * 8 * KIB));
        let allocations = blocks()
            .map(|(function, at)| event("alloc", at, 8 * KIB).with("frames", frames(&format!("function_{function}"))));
        let frees = blocks().flat_map(|(_, at)| free(at, 8 * KIB));
        let events = [event("segment_alloc", A, 200 * MIB)].into_iter().chain(allocations).chain(frees);
        file(vec![segment(A, &[(200 * MIB, false)])], events.collect())
    };
    let folder = folder_of(&[("all.pkl", calls(0..30)), ("one.pkl", calls(29..30)), ("half.pkl", calls(0..22))]);
    let (code, line) = judged(folder.path(), ["all.pkl", "one.pkl"], &[]);
    let lead = "PASS only 6.5 % of the before's allocations have a counterpart in the after; peak shrank";
    assert_eq!((code, line.starts_with(lead)), (0, true), "{line}");
    let (_, line) = judged(folder.path(), ["all.pkl", "half.pkl"], &[]);
    assert_reads!(line => str!["PASS peak shrank 1.66 MiB (-45.6 %), allowed 5 %"]);
}

#[test]
fn large_improvements_of_one_program_pass() {
    for change in ["checkpoint-removed", "batch-doubled", "adamw-for-sgd", "float32", "graphs-kept", "moved-and-larger"]
    {
        let [after, before] =
            ["before", "after"].map(|side| format!("recorded/changes/{change}-{side}-2.11.0.pkl.zst"));
        let (code, line) = judged(&fixtures::folder(), [&before, &after], &["--strict"]);
        assert_eq!((code, line.starts_with("PASS peak shrank")), (0, true), "{change}: {line}");
    }
}

#[test]
fn a_stored_before_is_kept_where_the_after_is_another_program() {
    let folder = folder_of(&[("whole.pkl", program(3, 0..30)), ("part.pkl", program(3, 0..12))]);
    ptmem(folder.path(), &["profile", "whole.pkl", "-o", "base.json"]);
    let stored = fs::read(folder.path().join("base.json")).unwrap();
    fs::write(folder.path().join("ptmem.toml"), "[gate.a]\nbefore = 'base.json'\nafter = 'part.pkl'\n").unwrap();
    let report = text(&ptmem(folder.path(), &["gate", "-v"]).stdout);
    assert!(report.contains("[little-in-common]") && !report.contains("[improved]"), "{report}");
    let note = text(&ptmem(folder.path(), &["gate", "--update"]).stderr);
    assert!(note.contains("base.json stays as it is: the after has only 12 of the before's 30 call stacks"), "{note}");
    assert_eq!(fs::read(folder.path().join("base.json")).unwrap(), stored);
}

#[test]
fn of_several_comparisons_the_unlike_one_leads() {
    let folder = tempfile::tempdir().unwrap();
    for side in ["before", "after"] {
        fs::create_dir(folder.path().join(side)).unwrap();
        let other = if side == "before" { 0..30 } else { 0..12 };
        for (rank, functions) in [(0, 0..30), (1, other)] {
            let path = folder.path().join(side).join(format!("rank{rank}.pkl"));
            fs::write(path, program(3, functions)).unwrap();
        }
    }
    let (code, line) = judged(folder.path(), ["before", "after"], &[]);
    assert_eq!((code, line.starts_with("PASS rank 1: the after has only 12 of the before's 30")), (0, true), "{line}");
}

/// The cells of the first table of a report in Markdown, by the name of their row.
fn overview(limit: &str) -> Vec<Vec<String>> {
    let arguments = ["diff", "before.pkl", "two-devices-after.pkl", "--max-growth", limit, "--format", "markdown"];
    let report = text(&ptmem(&fixtures::folder(), &arguments).stdout);
    let rows = report.lines().skip_while(|line| !line.starts_with("|:--")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn a_device_is_marked_by_its_own_checks() {
    let rows = overview("5%");
    assert_eq!((&*rows[0][0], &*rows[0][1], &*rows[0][5]), ("device 1", "missing", "⚠️"));
    assert_eq!((&*rows[1][0], &*rows[1][5]), ("device 0", "✅"));
    // A mistyped pattern concerns no device.
    let rows = overview("stack:nothing*=1MiB");
    assert!(rows.iter().any(|row| row[0] == "device 0" && row[5].is_empty()), "{rows:?}");
}
