//! Verdicts by what a recording says about its run, and what reports tell of it.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::history::{A, MIB, Tensors, event, frames, free, segment, snapshot, train};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// A recording with a peak of 10 MiB.
fn story() -> Value {
    peaking(10 * MIB)
}

/// A recording with a peak of so many bytes, at most 20 MiB.
fn peaking(peak: u64) -> Value {
    let temporary = peak - 4 * MIB;
    let mut events =
        vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB), event("alloc", A + 4 * MIB, temporary)];
    events.extend(free(A + 4 * MIB, temporary));
    snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events)
}

/// The story with facts about its run.
fn of_run(mut facts: Json) -> Value {
    facts["format"] = 1.into();
    story().with("ptmem", facts)
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), pickle::write(value, pickle::Options::default())).unwrap();
}

fn gate(folder: &Path, before: &Value, after: &Value, options: &[&str]) -> (i32, String) {
    write(folder, "before.pkl", before);
    write(folder, "after.pkl", after);
    verdict(&ptmem(folder, &[&["diff", "before.pkl", "after.pkl", "--max-growth", "5%"], options].concat()))
}

fn failed() -> Value {
    of_run(json!({"ending": {"kind": "exception", "message": "ValueError: a bad batch"}}))
}

#[test]
fn a_program_that_failed_is_inconclusive_with_its_exception() {
    let folder = tempfile::tempdir().unwrap();
    let sound = of_run(json!({"ending": {"kind": "whole", "message": ""}}));
    assert_eq!(gate(folder.path(), &sound, &sound, &["--strict"]).0, 0);
    assert_reads!(judged(gate(folder.path(), &sound, &failed(), &[])) => str!["3: INCONCLUSIVE peak: the after is not a whole run: the program failed: ValueError: a bad batch"]);
    assert_reads!(judged(gate(folder.path(), &failed(), &sound, &[])) => str!["3: INCONCLUSIVE peak: the before is not a whole run: the program failed: ValueError: a bad batch"]);
    // The exit status of a program that ended after it had written the file, and what it said before.
    for (value, told) in [(&sound, "exit status 7"), (&failed(), "ValueError: a bad batch")] {
        let (code, line) = gate(folder.path(), &sound, &value.clone().with("ptmem_exit", 7), &[]);
        assert_eq!((code, line.contains(told)), (3, true), "{line}");
    }
    // A limit that half a run exceeds is exceeded.
    write(folder.path(), "failed.pkl", &failed());
    let check = |limit: &str| verdict(&ptmem(folder.path(), &["check", "failed.pkl", "--max", limit]));
    assert_eq!((check("peak=20MiB").0, check("peak=5MiB").0), (3, 1));
    // A saved profile keeps it.
    assert_eq!(ptmem(folder.path(), &["profile", "failed.pkl", "-o", "failed.json"]).status.code(), Some(0));
    let of_profile = verdict(&ptmem(folder.path(), &["check", "failed.json", "--max", "peak=20MiB"]));
    assert_eq!(of_profile, check("peak=20MiB"));
}

/// A limit on both sides: less is an improvement only if nothing can hide that it is not.
#[test]
fn less_memory_is_an_improvement_only_without_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let judge = |before: &Value, after: &Value| {
        write(folder.path(), "before.pkl", before);
        write(folder.path(), "after.pkl", after);
        verdict(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "±5%"]))
    };
    let large = peaking(16 * MIB);
    assert_reads!(judged(judge(&large, &story())) => str!["1: FAIL peak improved by 6.00 MiB (-37.5 %), allowed ±5 %: update the before"]);
    // The rest of the run may need more; memory of supposed sizes may be larger.
    assert_reads!(judged(judge(&large, &failed())) => str!["3: INCONCLUSIVE peak: the after is not a whole run: the program failed: ValueError: a bad batch"]);
    let [half, whole] = [supposing(5 * MIB, 500, 5 * MIB), supposing(10 * MIB, 1000, 5 * MIB)];
    assert_eq!(judge(&whole, &half).0, 3);
    assert_eq!(judge(&supposing(6 * MIB, 600, 20 * MIB), &half).0, 1, "less, by more than follows from them");
    // A ring that ran over in the before: it held as much, or more.
    let cut = large.with("trace_alloc_overflowed", Value::List(vec![true.into()]));
    assert_reads!(judged(judge(&cut, &story())) => str!["1: FAIL peak improved by at least 6.00 MiB (-37.5 %), allowed ±5 %: update the before"]);
    assert_eq!(judge(&cut, &peaking(16 * MIB)).0, 3, "as much as is seen, or less than was held");
}

#[test]
fn fewer_steps_than_were_to_be_recorded_are_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |last: u64| of_run(json!({"steps": {"first": 3, "last": last, "asked": [3, 5]}}));
    assert_eq!(gate(folder.path(), &steps(5), &steps(5), &[]).0, 0);
    assert_reads!(judged(gate(folder.path(), &steps(5), &steps(4), &[])) => str!["3: INCONCLUSIVE peak: the after is not a whole run: steps 3 to 5 were to be recorded, and the program made 4"]);
}

#[test]
fn a_recorded_part_that_allocates_nothing_is_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let idle = snapshot(
        vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])],
        free(A + 4 * MIB, 6 * MIB).into_iter().chain(free(A + 12 * MIB, MIB)).collect(),
    );
    assert_reads!(judged(gate(folder.path(), &story(), &idle, &[])) => str!["3: INCONCLUSIVE peak: the after allocates nothing in its recorded part; peak cannot be compared"]);
    let (code, line) = gate(folder.path(), &idle, &idle, &[]);
    assert_eq!(code, 3, "{line}");
    write(folder.path(), "idle.pkl", &idle);
    assert_eq!(verdict(&ptmem(folder.path(), &["check", "idle.pkl", "--max", "peak=1GiB"])).0, 3);
    let doctor = ptmem(folder.path(), &["doctor", "idle.pkl"]);
    assert_eq!(doctor.status.code(), Some(3), "{}", text(&doctor.stdout));
}

fn package(path: &str, digest: &str, same: bool) -> Json {
    json!([{"name": "tower", "path": path, "inside": path == "tower", "digest": digest, "same": same}])
}

#[test]
fn both_sides_that_ran_one_code_are_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let side = |commit: &str, packages: Json| of_run(json!({"commit": commit, "packages": packages}));
    // Both import what is installed; the before's checkout holds another code.
    let before = side("a", package("/env/tower", "new", false));
    let after = side("b", package("/env/tower", "new", true));
    assert_reads!(judged(gate(folder.path(), &before, &after, &[])) => str!["3: INCONCLUSIVE peak: both sides ran the same code of tower, which was imported from /env/tower, although their commits differ"]);
    // Each side ran what is checked out: the commit changed nothing there.
    let after = side("b", package("tower", "old", true));
    assert_eq!(gate(folder.path(), &side("a", package("tower", "old", true)), &after, &[]).0, 0);
    // Installed anew on each side.
    let after = side("b", package("/env/tower", "new", true));
    assert_eq!(gate(folder.path(), &side("a", package("/env/tower", "old", true)), &after, &["--strict"]).0, 0);
    // Of one commit, two settings may be compared.
    assert_eq!(gate(folder.path(), &before, &before, &[]).0, 0);
    assert_eq!(gate(folder.path(), &before, &before, &["--strict"]).0, 3);
}

#[test]
fn reports_tell_the_facts_in_a_line_and_what_differs_in_one_more() {
    let folder = tempfile::tempdir().unwrap();
    let with = |version: &str| {
        of_run(json!({
            "steps": {"first": 2, "last": 3, "asked": [2, 3]},
            "versions": [["python", "3.11.7"], ["torch", "2.11.0"], ["transformers", version]],
            "commit": "0123456789abcdef",
        }))
    };
    write(folder.path(), "before.pkl", &with("4.37.2"));
    write(folder.path(), "after.pkl", &with("4.38.2"));
    let told = "steps 2 to 3, python 3.11.7, torch 2.11.0, transformers 4.38.2, commit 0123456789";
    for command in [&["show", "-v"][..], &["doctor"]] {
        let output = text(&ptmem(folder.path(), &[command, &["after.pkl"]].concat()).stdout);
        assert!(output.contains(told), "{command:?}: {output}");
    }
    let output = text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--format", "markdown"]).stdout);
    assert!(output.contains(told) && output.contains("transformers 4.37.2 → 4.38.2"), "{output}");
}

/// PyTorch 2.0 cannot record both sides alike, so the report gives no such advice.
#[test]
fn frames_that_pytorch_2_0_lacks_are_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let of_torch = |version: &str| of_run(json!({"versions": [["torch", version]]}));
    let cpp = |version: &str| {
        let frame = [("name", "at::empty".into()), ("filename", "/torch/Allocator.cpp".into()), ("line", 7.into())];
        let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
        events.push(event("alloc", A + 4 * MIB, 6 * MIB).with("frames", vec![Value::dict(frame)]));
        events.extend(free(A + 4 * MIB, 6 * MIB));
        let segments = vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])];
        snapshot(segments, events).with("ptmem", json!({"format": 1, "versions": [["torch", version]]}))
    };
    let report = |before: &Value, after: &Value| {
        write(folder.path(), "before.pkl", before);
        write(folder.path(), "after.pkl", after);
        text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--format", "markdown"]).stdout)
    };
    let oldest = "the after Python and C++ frames; PyTorch 2.0 records no C++ frames";
    let asked = "the after Python and C++ frames; use the same context=";
    for (before, told) in [(of_torch("2.0.1"), oldest), (of_torch("2.10.0"), asked), (story(), asked)] {
        let output = report(&before, &cpp("2.1.0"));
        assert!(output.contains(told), "{output}");
    }
    // That the other side is of this release explains nothing.
    let output = report(&cpp("2.0.1"), &of_torch("2.1.0"));
    assert!(output.contains("use the same context="), "{output}");
}

#[test]
fn facts_of_any_form_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for facts in [
        json!(7),
        json!([]),
        json!({"format": 1, "steps": {"first": u64::MAX, "last": u64::MAX, "asked": [0, 0]}}),
        json!({"format": 1, "versions": deep}),
        json!({"format": 1, "counters": [{"device": 0, "start": 1}], "rank": ["a"], "ending": {"kind": "tomorrow"}}),
        json!({"format": 1, "commit": "x".repeat(100_000), "functions": [["f", [[3, 1, "g"]]]]}),
        // A key by which events are known.
        json!({"format": 1, "versions": {"action": "1.0"}}),
    ] {
        write(folder.path(), "odd.pkl", &story().with("ptmem", facts.clone()));
        let output = ptmem(folder.path(), &["show", "odd.pkl"]);
        assert_eq!(output.status.code(), Some(0), "{facts}: {}", text(&output.stderr));
        assert!(text(&output.stdout).len() < 20_000, "{facts}");
    }
}

/// A block of unknown size from before the recording is freed in it: 100 KiB less than 6 MiB were asked for.
#[test]
fn counters_of_pytorch_make_bounds_exact_and_check_figures() {
    let folder = tempfile::tempdir().unwrap();
    let asked = 6 * MIB - 100 * 1024;
    let bounded = || {
        let mut events = free(A + 4 * MIB, asked).to_vec();
        events.extend([event("alloc", A + 4 * MIB, 2 * MIB)]);
        events.extend(free(A + 4 * MIB, 2 * MIB));
        snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events)
    };
    let of_size = |size: u64| {
        let at = |bytes: u64, peak: u64| {
            let bytes = json!({"allocated_bytes": bytes, "active_bytes": bytes});
            json!({"current": bytes, "peak": {"allocated_bytes": peak, "active_bytes": peak}, "calls": [0, 0]})
        };
        let start = at(4 * MIB + size, 30 * MIB);
        bounded().with(
            "ptmem",
            json!({"format": 1, "counters": [{"device": 0, "start": start, "dump": at(4 * MIB, 30 * MIB)}]}),
        )
    };
    let figures = |recording: &Value| {
        write(folder.path(), "bounded.pkl", recording);
        let output = ptmem(folder.path(), &["show", "bounded.pkl", "--format", "json"]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        let disagrees = report["diagnostics"].to_string().contains("counters-disagree");
        let allocated = &report["devices"][0]["allocated"];
        (allocated["baseline"].as_u64().unwrap(), allocated["exact"] == true, disagrees)
    };
    assert_eq!(figures(&bounded()), (4 * MIB + asked, false, false));
    assert_eq!(figures(&of_size(asked)), (4 * MIB + asked, true, false));
    assert_eq!(figures(&of_size(asked + 512 * 100)), (4 * MIB + asked + 512 * 100, true, false));
    assert_eq!(figures(&of_size(9 * MIB)), (4 * MIB + asked, false, true));
    // A recorder of steps begins after the model is made, on purpose.
    let of_steps = bounded().with("ptmem", json!({"format": 1, "steps": {"first": 2, "last": 3, "asked": [2, 3]}}));
    for (recording, advice) in
        [(bounded(), "record from the start, before the model"), (of_steps, "limits decide unless they are within")]
    {
        write(folder.path(), "bounded.pkl", &recording);
        let output = ptmem(folder.path(), &["doctor", "bounded.pkl"]);
        let told = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("exact within") && told.contains(advice), "{told}");
    }
}

/// Facts about versions and what followed from unknown values, of steps 2 and 3.
fn told() -> Value {
    of_run(json!({
        "recorder": "ptmem simulate",
        "steps": {"first": 2, "last": 3, "asked": [2, 3]},
        "versions": [["torch", "2.11.0"]],
        "commit": "c0ffee",
        "followed": [["sizes", 12, "roi_heads.py:740"]],
    }))
}

#[test]
fn reports_for_machines_have_the_facts() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.pkl", &told());
    let json = |arguments: &[&str]| -> Json {
        let output = ptmem(folder.path(), &[arguments, &["--format", "json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let run = json!({
        "recorder": "ptmem simulate",
        "first_step": 2,
        "last_step": 3,
        "failure": null,
        "versions": [{"name": "torch", "version": "2.11.0"}],
        "commit": "c0ffee",
        "followed": [{"what": "sizes", "count": 12, "first": "roi_heads.py:740"}],
    });
    assert_eq!(json(&["show", "a.pkl"])["source"]["run"], run);
    let diff = json(&["diff", "a.pkl", "a.pkl"]);
    assert_eq!((&diff["before"]["run"], &diff["after"]["run"]), (&run, &run));
}

#[test]
fn what_followed_from_unknown_values_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.pkl", &told());
    let words = "12 sizes followed from values that are not known, first at";
    for arguments in [&["doctor", "a.pkl"][..], &["diff", "a.pkl", "a.pkl", "--format", "markdown"]] {
        let output = text(&ptmem(folder.path(), arguments).stdout);
        assert!(output.contains(words), "{arguments:?}: {output}");
    }
    let warning =
        "warning[course-guessed] both: 12 sizes of tensors were guessed on simulated GPUs, first at roi_heads.py:740";
    let output = text(&ptmem(folder.path(), &["diff", "a.pkl", "a.pkl"]).stdout).to_owned();
    assert!(output.contains(warning), "{output}");
}

/// A recording whose conditions were guessed, in functions at lines.
fn guessing(places: &[(&str, u64)]) -> Value {
    let guesses: Vec<Json> =
        places.iter().map(|(at, line)| json!({"what": "conditions", "at": at, "line": line, "count": 7})).collect();
    of_run(json!({"followed": [["conditions", 7 * places.len(), "train.py:1"]], "guesses": guesses}))
}

/// The warnings about guesses of a comparison.
fn guesses(folder: &Path, before: &Value, after: &Value) -> Vec<String> {
    write(folder, "before.pkl", before);
    write(folder, "after.pkl", after);
    let output = ptmem(folder, &["diff", "before.pkl", "after.pkl"]);
    let told = text(&output.stdout);
    let lines = told.lines().filter_map(|line| line.strip_prefix("warning[course-guessed] "));
    lines.map(|line| line.split(": memory that").next().unwrap().to_owned()).collect()
}

#[test]
fn guesses_are_told_once_with_their_functions_until_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let old = guessing(&[("train.py:has_nan", 130)]);
    let new = guessing(&[("train.py:has_nan", 137), ("train.py:stops", 9)]);
    let both = "14 conditions of the program were guessed on simulated GPUs in train.py:has_nan (line 137), train.py:stops (line 9)";
    assert_eq!(guesses(place, &old, &new), [format!("after: {both}")]);
    assert_eq!(guesses(place, &new, &new), [""; 0], "the change made no difference");
    assert_eq!(guesses(place, &new, &old).len(), 2, "the after does not name all that the before has");
    let metric = guessing(&[("torchmetrics/functional/stat_scores.py:_binary_stat_scores_tensor_validation", 320)]);
    assert_eq!(guesses(place, &metric, &metric), [""; 0], "a check that only raises");
    fs::write(place.join("ptmem.toml"), "[simulate.known]\n\"train.py:has_nan\" = \"skips a histogram\"\n").unwrap();
    let one = "7 conditions of the program were guessed on simulated GPUs in train.py:stops (line 9)";
    assert_eq!(guesses(place, &old, &new), [format!("after: {one}")]);
    fs::write(place.join("ptmem.toml"), "[simulate]\nknown = [\"train.py:has_nan\", \"train.py:stops\"]\n").unwrap();
    assert_eq!(guesses(place, &old, &new), [""; 0]);
    // A saved profile is judged by the marks of the day.
    assert_eq!(ptmem(place, &["profile", "after.pkl", "-o", "after.json"]).status.code(), Some(0));
    let warns = |folder: &Path| text(&ptmem(folder, &["show", "after.json"]).stdout).contains("course-guessed");
    assert!(!warns(place));
    fs::remove_file(place.join("ptmem.toml")).unwrap();
    assert!(warns(place));
}

/// A recording with memory that follows from the sum of the sizes that a function supposed, and memory of another function.
fn supposing(supposed: u64, size: u64, other: u64) -> Value {
    let free = 40 * MIB - supposed - other;
    let events = vec![
        event("segment_alloc", A, 40 * MIB),
        event("alloc", A, supposed).with("frames", frames("masked")),
        event("alloc", A + supposed, other).with("frames", frames("layer")),
    ];
    let guesses = json!([{"what": "sizes", "at": "train.py:masked", "line": 3, "count": 1, "total": size}]);
    let facts =
        json!({"format": 1, "followed": [["sizes", 1, "train.py:3"]], "guesses": guesses, "supposed": [[0, 0, 0]]});
    snapshot(vec![segment(A, &[(supposed, true), (other, true), (free, false)])], events).with("ptmem", facts)
}

/// The pull request that wrote a mask in another way was a regression, and its way back an improvement.
#[test]
fn memory_of_sizes_that_were_supposed_differently_decides_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let judge = |before: &Value, after: &Value| gate(folder.path(), before, after, &[]);
    let [half, whole] = [supposing(5 * MIB, 500, 5 * MIB), supposing(10 * MIB, 1000, 5 * MIB)];
    let reason = "15.00 MiB of memory have sizes that simulated GPUs supposed, not the same on both sides, first in train.py:masked \
                  (line 3): record both with --compute all (compute = \"all\" in a gate)";
    for (before, after) in [(&half, &whole), (&whole, &half)] {
        let (code, line) = judge(before, after);
        assert_eq!((code, line.contains(reason)), (3, true), "{line}");
    }
    assert_eq!(judge(&half, &half).0, 0, "nothing differs");
    assert_eq!(judge(&half, &supposing(10 * MIB, 500, 5 * MIB)).0, 1, "both supposed the same");
    assert_eq!(judge(&half, &supposing(5 * MIB, 600, 6 * MIB)).0, 1, "the same memory follows from them");
    assert_eq!(judge(&half, &supposing(6 * MIB, 600, 20 * MIB)).0, 1, "more than follows from them");
    assert_eq!(judge(&supposing(6 * MIB, 600, 20 * MIB), &half).0, 0, "less, by more than follows from them");
}

#[test]
fn rows_without_memory_of_supposed_sizes_decide_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "before.pkl", &supposing(5 * MIB, 500, 5 * MIB));
    write(folder.path(), "after.pkl", &supposing(10 * MIB, 1000, 10 * MIB));
    for side in ["before", "after"] {
        let saved = format!("{side}.json");
        assert_eq!(ptmem(folder.path(), &["profile", &format!("{side}.pkl"), "-o", &saved]).status.code(), Some(0));
    }
    for ending in ["pkl", "json"] {
        let judge = |limit: &str| {
            let files = ["before", "after"].map(|side| format!("{side}.{ending}"));
            ptmem(folder.path(), &["diff", &files[0], &files[1], "--max-growth", limit]).status.code()
        };
        assert_eq!([judge("stack:*layer*=5%"), judge("stack:*masked*=5%")], [Some(1), Some(3)], "{ending}");
        // No stack exceeds these limits, and one could.
        assert_eq!([judge("stack=200%"), judge("stack-highest=200%")], [Some(3), Some(3)], "{ending}");
        assert_eq!([judge("stack:*layer*=200%"), judge("stack=500%")], [Some(0), Some(0)], "{ending}");
    }
}

#[test]
fn accepted_growth_of_one_stack_leaves_others_to_be_decided() {
    let folder = tempfile::tempdir().unwrap();
    let accepting = |subject: &str, bytes: &str, after: &Value, limit: &str| {
        let entry = format!("[[accept]]\n{subject}\nbytes = \"{bytes}\"\nreason = \"x\"\nexpires = 9999-12-31\n");
        fs::write(folder.path().join("ptmem.toml"), entry).unwrap();
        write(folder.path(), "before.pkl", &supposing(5 * MIB, 500, 5 * MIB));
        write(folder.path(), "after.pkl", after);
        verdict(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", limit])).0
    };
    let after = supposing(10 * MIB, 1000, 20 * MIB);
    for limit in ["stack=200%", "stack-highest=200%"] {
        assert_eq!(accepting("pattern = \"layer*\"", "20MiB", &after, limit), 3, "{limit}");
        // Memory of supposed sizes cannot exceed it.
        assert_eq!(accepting("pattern = \"layer*\"", "20MiB", &supposing(6 * MIB, 500, 21 * MIB), limit), 0, "{limit}");
    }
    // The peak grew by 20 MiB, 15 MiB of which follow from supposed sizes.
    for (limit, bytes, code) in
        [("1MiB", "20MiB", 3), ("1MiB", "33MiB", 3), ("1MiB", "34MiB", 0), ("21MiB", "13MiB", 3), ("21MiB", "14MiB", 0)]
    {
        assert_eq!(accepting("metric = \"peak\"", bytes, &after, &format!("peak={limit}")), code, "{limit} {bytes}");
    }
    // One stack grew by 15 MiB, the other by 5 MiB, or by 20 MiB.
    for (pattern, limit, bytes, code) in [
        ("masked*", "16MiB", "3MiB", 3),
        ("masked*", "16MiB", "4MiB", 0),
        ("*", "10MiB", "14MiB", 3),
        ("*", "10MiB", "15MiB", 0),
    ] {
        let subject = format!("pattern = \"{pattern}\"");
        assert_eq!(accepting(&subject, bytes, &after, &format!("stack={limit}")), code, "{pattern} {limit} {bytes}");
    }
}

#[test]
fn a_second_recording_is_held_against_the_first() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.pkl", &train(Tensors { batch: 4 * MIB, loss: MIB, sum: MIB, sums: "add" }));
    write(folder.path(), "b.pkl", &train(Tensors { batch: 5 * MIB, loss: MIB, sum: MIB, sums: "add" }));
    let again = |second: &str| text(&ptmem(folder.path(), &["doctor", "a.pkl", "--again", second]).stdout).to_owned();
    assert!(
        again("a.pkl")
            .contains("again      both recordings have the same figures, and the same stacks at the peak, to the byte"),
        "{}",
        again("a.pkl")
    );
    let differs = again("b.pkl");
    assert!(differs.contains("peak 27.00 MiB and 28.00 MiB (+3.7 %)"), "{differs}");
    assert!(differs.contains("step (train.py:12) aten::_to_copy, probably an input, differs in size"), "{differs}");
    assert!(differs.contains("seed the program (torch.manual_seed"), "{differs}");
    // Without a sign that inputs differ, seeds and sizes are not blamed.
    write(folder.path(), "c.pkl", &train(Tensors { batch: 4 * MIB, loss: 3 * MIB, sum: MIB, sums: "add" }));
    let blameless = again("c.pkl");
    assert!(blameless.contains("set limits above the difference; if the program does not seed"), "{blameless}");
    assert!(!blameless.contains("give every batch one size"), "{blameless}");
    assert!(differs.contains("fit to gate only with limits above what differs between two runs"), "{differs}");
    assert!(!again("a.pkl").contains("only with limits"), "{}", again("a.pkl"));
}

/// The ring buffer of one side ran over: the flag of PyTorch's main, at the top level, one for each device.
#[test]
fn a_ring_that_ran_over_on_one_side_leaves_a_bound_of_its_peak() {
    let folder = tempfile::tempdir().unwrap();
    let flagged = |flag: bool| story().with("trace_alloc_overflowed", Value::List(vec![flag.into()]));
    assert_eq!(gate(folder.path(), &flagged(false), &flagged(false), &[]).0, 0);
    assert_eq!(gate(folder.path(), &flagged(true), &flagged(true), &[]).0, 0, "both have what is left");
    // The before held at least as much as it shows, and so did the after.
    for (before, after, side, expected) in [(true, false, "before", 0), (false, true, "after", 3)] {
        write(folder.path(), "before.pkl", &flagged(before));
        write(folder.path(), "after.pkl", &flagged(after));
        let output = ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "5%"]);
        let report = text(&output.stdout);
        assert_eq!(output.status.code(), Some(expected), "{report}");
        assert!(report.contains(&format!("ring buffer of the {side} ran over")), "{report}");
    }
    fs::write(folder.path().join("ptmem.toml"), "allow-partial = true\n").unwrap();
    assert_eq!(gate(folder.path(), &flagged(true), &flagged(false), &[]).0, 0);
}

/// A recording on a card of a job of eight ranks.
fn of_card(others: Option<u64>) -> Value {
    let card = json!({
        "device": 0, "name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "processors": 132,
        "communicators": [[1, 2], [8, 1]], "others": others,
    });
    of_run(json!({"cards": [card]}))
}

#[test]
fn recordings_of_other_cards_or_values_are_compared_with_a_warning_and_not_strictly() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let of = |name: &str, processors: u64, compute: u64| {
        let card = json!({"device": 0, "name": name, "capability": [9, 0], "processors": processors});
        of_run(json!({"cards": [card], "compute": compute}))
    };
    let [h100, a100] = [of("NVIDIA H100 80GB HBM3", 132, MIB), of("NVIDIA A100-SXM4-80GB", 108, MIB)];
    assert_reads!(judged(gate(place, &h100, &h100, &["--strict"])) => str!["0: PASS peak did not change, allowed 5 %"]);
    assert_reads!(judged(gate(place, &h100, &a100, &[])) => str!["0: PASS the before was recorded on NVIDIA H100 80GB HBM3 (132 multiprocessors), the after on NVIDIA A100-SXM4-80GB (108 multiprocessors); peak did not change, allowed 5 %"]);
    assert_reads!(judged(gate(place, &h100, &a100, &["--strict"])) => str!["3: INCONCLUSIVE the before was recorded on NVIDIA H100 80GB HBM3 (132 multiprocessors), the after on NVIDIA A100-SXM4-80GB (108 multiprocessors); a warning makes the result untrustworthy (recordings-differ)"]);
    let report = text(&ptmem(place, &["diff", "before.pkl", "after.pkl"]).stdout);
    let warnings = report.lines().filter(|line| line.starts_with("warning")).collect::<Vec<_>>().join("\n");
    assert_reads!(warnings => str!["warning[recordings-differ] the before was recorded on NVIDIA H100 80GB HBM3 (132 multiprocessors), the after on NVIDIA A100-SXM4-80GB (108 multiprocessors); record both on the same card"]);
    // Where a card is not known, nothing is said.
    assert_eq!(gate(place, &h100, &of("", 0, MIB), &["--strict"]).0, 0);
    // A part of a whole card has its name.
    let part = of("NVIDIA H100 80GB HBM3", 16, MIB);
    assert_reads!(judged(gate(place, &h100, &part, &["--strict"])) => str!["3: INCONCLUSIVE the before was recorded on NVIDIA H100 80GB HBM3 (132 multiprocessors), the after on NVIDIA H100 80GB HBM3 (16 multiprocessors); a warning makes the result untrustworthy (recordings-differ)"]);
    let all = of("NVIDIA H100 80GB HBM3", 132, u64::MAX);
    assert_reads!(judged(gate(place, &h100, &all, &[])) => str!["0: PASS the before was recorded with --compute 1.00 MiB, the after with --compute all; peak did not change, allowed 5 %"]);
    assert_reads!(judged(gate(place, &h100, &all, &["--strict"])) => str!["3: INCONCLUSIVE the before was recorded with --compute 1.00 MiB, the after with --compute all; a warning makes the result untrustworthy (recordings-differ)"]);
}

/// As after vLLM's sleep mode, which left 198 GB reserved on a card of 140 GB.
#[test]
fn more_reserved_than_the_card_has_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let on = |memory: u64| of_run(json!({"cards": [{"device": 0, "memory": memory}]}));
    // 20 MiB are reserved, and 10 MiB allocated.
    let [small, large] = [on(15 * MIB), on(20 * MIB)];
    let words = "reserved bytes reach 20.00 MiB, and the card has 15.00 MiB: a custom allocator (a pluggable allocator or a MemPool, \
                 as of vLLM's sleep mode) probably holds other memory than PyTorch counts";
    for limit in ["reserved=5%", "reserved-end=5%", "fragmentation=5%"] {
        for (before, after, side) in [(&small, &large, "before"), (&large, &small, "after")] {
            let (code, line) = gate(place, before, after, &["--max-growth", limit]);
            assert_eq!(
                (code, line.contains(&format!("the figures of the {side} cannot be: {words}"))),
                (3, true),
                "{line}"
            );
        }
    }
    assert_eq!(gate(place, &small, &small, &[]).0, 0, "the peak of allocated bytes can be");
    assert_eq!(gate(place, &large, &large, &["--max-growth", "reserved=5%"]).0, 0);
    write(place, "small.pkl", &small);
    let check = |limit: &str| verdict(&ptmem(place, &["check", "small.pkl", "--max", limit]));
    assert_eq!([check("reserved=19MiB").0, check("reserved=20MiB").0, check("peak=9MiB").0], [3, 0, 1]);
    let shown = text(&ptmem(place, &["show", "small.pkl"]).stdout);
    assert!(shown.contains(&format!("warning[figures-impossible] {words}")), "{shown}");
    // Figures alone.
    fs::write(place.join("stats.json"), "{\"max_memory_allocated\": 1000, \"max_memory_reserved\": 900}").unwrap();
    assert_reads!(judged(verdict(&ptmem(place, &["check", "stats.json", "--max", "reserved=800B"]))) => str!["3: INCONCLUSIVE reserved: the figures cannot be: allocated bytes reach 1000 B, and reserved ones only 900 B: a custom allocator (a pluggable allocator or a MemPool, as of vLLM's sleep mode) probably holds other memory than PyTorch counts"]);
}

#[test]
fn memory_outside_of_pytorchs_allocator_is_shown_and_limited() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    write(place, "plain.pkl", &story());
    write(place, "of-card.pkl", &of_card(None));
    write(place, "less.pkl", &of_card(Some(700 * MIB)));
    write(place, "more.pkl", &of_card(Some(2150 * MIB)));
    let shown = text(&ptmem(place, &["show", "more.pkl"]).stdout);
    assert!(shown.contains("2.10 GiB used outside of PyTorch's allocator at the dump"), "{shown}");
    let limited = |before: &str, after: &str, limit: &str| {
        verdict(&ptmem(place, &["diff", before, after, "--max-growth", &format!("outside={limit}")]))
    };
    assert_reads!(judged(limited("less.pkl", "more.pkl", "1GiB")) => str!["1: FAIL outside grew 1.42 GiB (+207.1 %), allowed 1.00 GiB"]);
    assert_eq!(limited("less.pkl", "more.pkl", "2GiB").0, 0);
    // What a simulated card would lose follows from the card and the job.
    assert_reads!(judged(limited("of-card.pkl", "of-card.pkl", "0")) => str!["0: PASS outside did not change, allowed 0 B (an estimate: the card is simulated)"]);
    assert_reads!(judged(limited("plain.pkl", "more.pkl", "0")) => str!["3: INCONCLUSIVE outside: a snapshot does not name its card; record with 'ptmem simulate' or ptmem_gate.record()"]);
    for wrong in ["host:outside=0", "outside:x=0"] {
        assert_eq!(ptmem(place, &["diff", "less.pkl", "more.pkl", "--max-growth", wrong]).status.code(), Some(2));
    }
}

#[test]
fn a_device_loses_memory_to_what_is_not_pytorchs() {
    const OVERHEAD: u64 = (150 + 3 * 132 + 32 * 36) * MIB;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    write(place, "plain.pkl", &story());
    write(place, "of-card.pkl", &of_card(None));
    write(place, "measured.pkl", &of_card(Some(700 * MIB)));
    assert_eq!(ptmem(place, &["profile", "of-card.pkl", "-o", "of-card.json"]).status.code(), Some(0));
    let memory = format!("{}MiB", OVERHEAD / MIB + 30);
    let check = |name: &str, options: &[&str]| {
        let limits = ["check", name, "--device-memory", &memory, "--min-headroom", "12MiB"];
        verdict(&ptmem(place, &[&limits[..], options].concat()))
    };
    // 20 MiB are reserved.
    assert_eq!(check("plain.pkl", &[]).0, 0);
    let (code, line) = check("of-card.pkl", &[]);
    assert_reads!(judged((code, line.clone())) => str!["1: FAIL headroom is 10.00 MiB: 20.00 MiB of 1.69 GiB reserved at the peak, 1.66 GiB overhead (estimated), at least 12.00 MiB must be left"]);
    assert_eq!(check("of-card.json", &[]), (code, line));
    assert_eq!(check("measured.pkl", &[]).0, 0);
    fs::write(place.join("ptmem.toml"), "device-overhead = \"0B\"\n").unwrap();
    assert_eq!(check("of-card.pkl", &[]).0, 0);
    fs::write(place.join("ptmem.toml"), "device-overhead = \"1GiB\"\n").unwrap();
    assert_eq!(check("plain.pkl", &[]).0, 0);
    fs::write(place.join("ptmem.toml"), "device-overhead = \"1708MiB\"\n").unwrap();
    assert_eq!(check("plain.pkl", &[]).0, 1);
    fs::remove_file(place.join("ptmem.toml")).unwrap();

    let told = text(&ptmem(place, &["show", "of-card.pkl", "--device-memory", &memory]).stdout);
    assert!(told.contains("10.00 MiB left"), "{told}");
    assert!(told.contains("546.00 MiB for the CUDA context (132 multiprocessors)"), "{told}");
    assert!(told.contains("1.13 GiB for 1 communicator of NCCL"), "{told}");
    // A device that is smaller than the overhead lacks the rest of it, too.
    let told = text(&ptmem(place, &["show", "of-card.pkl", "--device-memory", "1GiB"]).stdout);
    let line = told.lines().find(|line| line.starts_with("  device memory"));
    assert_reads!(line.unwrap_or_default() => str!["  device memory   1.00 GiB, 20.00 MiB (2.0 %) reserved at the peak, -694.00 MiB left"]);
    let told = text(&ptmem(place, &["show", "plain.pkl", "--device-memory", &memory]).stdout);
    assert!(told.contains("the recording does not name the card"), "{told}");

    let json = |arguments: &[&str]| -> Json {
        let given = ["--device-memory", &memory, "--format", "json"];
        let output = ptmem(place, &[arguments, &given[..]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let expected = json!({
        "memory": OVERHEAD + 30 * MIB, "overhead": OVERHEAD, "overhead_is": "estimated",
        "context": 546 * MIB, "nccl": 1152 * MIB,
    });
    for command in
        [&["show", "of-card.pkl"][..], &["leak", "plain.pkl", "of-card.pkl"], &["history", "plain.pkl", "of-card.pkl"]]
    {
        assert_eq!(json(command)["devices"][0]["device_memory"], expected, "{command:?}");
    }
    assert_eq!(json(&["history", "plain.pkl", "of-card.pkl"])["devices"][0]["outlook"]["headroom"], 10 * MIB);
}
