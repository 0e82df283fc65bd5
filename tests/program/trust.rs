//! Verdicts on recordings that ran out of memory, whose pool grows, or of which a part cannot be known.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::support::fixtures;
use crate::support::history::{A, B, MIB, event, file, frames, free, oom, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{explanation, ptmem, text, verdict};

fn code(folder: &Path, arguments: &[&str]) -> Option<i32> {
    ptmem(folder, arguments).status.code()
}

fn json(folder: &Path, arguments: &[&str]) -> Json {
    let output = ptmem(folder, &[arguments, &["--format", "json"]].concat());
    assert!(output.status.code() != Some(2), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), pickle::write(value, pickle::Options::default())).unwrap();
}

/// A night that holds 4 MiB, and may have run out of memory on the way.
fn night(runs_out: bool) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    events.extend(runs_out.then(|| oom(900 * MIB)));
    file(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events)
}

#[test]
fn memory_that_runs_out_fails_a_search_for_leaks() {
    let folder = tempfile::tempdir().unwrap();
    let nights = |ran_out: [bool; 4]| {
        for (number, ran_out) in ran_out.into_iter().enumerate() {
            fs::write(folder.path().join(format!("night-{number}.pkl")), night(ran_out)).unwrap();
        }
        ptmem(folder.path(), &["leak", "night-0.pkl", "night-1.pkl", "night-2.pkl", "night-3.pkl"])
    };
    assert_eq!(nights([false; 4]).status.code(), Some(0));
    let (code_of_last, line) = verdict(&nights([false, false, false, true]));
    assert_eq!(code_of_last, 1);
    assert_reads!(line => str!["FAIL out of memory: 900.00 MiB requested by main (train.py:7)"]);
    // One night of which nothing came of.
    assert_eq!(nights([false, true, false, false]).status.code(), Some(0));
    // In both, the ends are those of runs that were cut short.
    let (code_of_both, line) = verdict(&nights([true, false, false, true]));
    assert_eq!(code_of_both, 3, "{line}");

    // A single snapshot.
    assert_eq!(code(folder.path(), &["leak", "night-3.pkl"]), Some(1));
    let nights = ["leak", "night-1.pkl", "night-2.pkl", "night-3.pkl"];
    assert_eq!(code(folder.path(), &nights), Some(1));
    fs::write(folder.path().join("ptmem.toml"), "allow-oom = true\n").unwrap();
    assert_eq!(code(folder.path(), &nights), Some(0));
    assert_eq!(code(folder.path(), &["leak", "night-3.pkl"]), Some(3));
    fs::write(folder.path().join("night-0.pkl"), "no snapshot").unwrap();
    assert_eq!(code(folder.path(), &["leak", "."]), Some(0));
    fs::write(folder.path().join("ptmem.toml"), "allow-oom = true\nstrict = true\n").unwrap();
    assert_eq!(code(folder.path(), &["leak", "."]), Some(3));
    // A gate has keys of its own.
    for (key, expected) in [("", 1), ("allow-oom = true", 0), ("allow-oom = true\nstrict = true", 3)] {
        let gate = format!("[gate.nights]\nleak = '.'\n{key}\n");
        fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
        assert_eq!(code(folder.path(), &["gate"]), Some(expected), "{key}");
    }
}

/// Steps that each allocate and free some blocks; `new` segments are never used again.
fn steps(new: impl Fn(u64) -> u64, used: impl Fn(u64) -> u64) -> Value {
    let (mut events, mut segments) = (Vec::new(), Vec::new());
    for step in 0..12 {
        let base = A + step * 1000 * MIB;
        let (new, used) = (new(step), used(step));
        let mark =
            |name: &str| event("alloc", base, 2 * MIB).with("frames", frames(name)).with("user_metadata", "step");
        events.push(event("segment_alloc", base, new.max(used) * MIB));
        for name in ["load", "forward", "loss", "backward"] {
            events.push(mark(name));
            events.extend(free(base, 2 * MIB));
        }
        events.push(event("alloc", base, used * MIB).with("frames", frames("work")));
        events.extend(free(base, used * MIB));
        if new == 0 {
            events.push(event("segment_free", base, used * MIB));
        } else {
            segments.push(segment(base, &[(new.max(used) * MIB, false)]));
        }
    }
    snapshot(segments, events)
}

#[test]
fn a_pool_that_grows_in_every_step_is_a_leak_unless_the_steps_need_it() {
    let folder = tempfile::tempdir().unwrap();
    // 20 MiB more in each step, of which none needs more than 20.
    write(folder.path(), "grows.pkl", &steps(|_| 20, |_| 20));
    let report = json(folder.path(), &["leak", "grows.pkl"]);
    assert_eq!(report["verdict"], "regression");
    let leak = &report["leaks"][0];
    assert_eq!((&leak["metric"], &leak["label"]), (&"fragmentation".into(), &"<fragmentation>".into()));
    assert_eq!(leak["bytes_per_step"], 20 * MIB);
    assert_eq!(code(folder.path(), &["leak", "grows.pkl", "--max-leak", "20MiB"]), Some(1), "of stacks");
    assert_eq!(code(folder.path(), &["leak", "grows.pkl", "--max-leak", "fragmentation=20MiB"]), Some(0));
    let (_, line) = verdict(&ptmem(folder.path(), &["leak", "grows.pkl"]));
    assert_reads!(line => str!["FAIL reserved memory that nothing uses grows 20.00 MiB per step, in 9 of 9 steps, allowed 0 B per step"]);
    // Memory that is given back is no leak.
    write(folder.path(), "flat.pkl", &steps(|_| 0, |_| 20));
    let flat = json(folder.path(), &["leak", "flat.pkl"]);
    assert_eq!((&flat["verdict"], flat["leaks"].as_array().unwrap().len()), (&"pass".into(), 0));
}

#[test]
fn a_pool_that_grows_in_stairs_is_a_leak_unless_it_comes_to_rest() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "stairs.pkl", &steps(|step| if step % 3 == 0 { 60 } else { 0 }, |_| 20));
    let report = json(folder.path(), &["leak", "stairs.pkl"]);
    assert_eq!((&report["verdict"], &report["leaks"][0]["metric"]), (&"regression".into(), &"fragmentation".into()));
    assert_eq!(report["leaks"][0]["bytes"], 180 * MIB);
    write(folder.path(), "warm-up.pkl", &steps(|step| if step < 4 { 60 } else { 0 }, |_| 20));
    assert_eq!(code(folder.path(), &["leak", "warm-up.pkl"]), Some(0));
}

/// Snapshots with 4 MiB in a pool of these MiB.
fn pools(folder: &Path, sizes: &[u64]) -> Option<i32> {
    let names: Vec<String> = (0..sizes.len()).map(|night| format!("night-{night}.pkl")).collect();
    for (name, size) in names.iter().zip(sizes) {
        let events = vec![event("segment_alloc", A, size * MIB), event("alloc", A, 4 * MIB)];
        let held = segment(A, &[(4 * MIB, true), ((size - 4) * MIB, false)]);
        fs::write(folder.join(name), file(vec![held], events)).unwrap();
    }
    code(folder, &[&["leak"], &*names.iter().map(String::as_str).collect::<Vec<_>>()].concat())
}

#[test]
fn a_pool_that_grows_in_stairs_over_a_series_is_a_leak_unless_it_comes_to_rest() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(pools(folder.path(), &[20, 20, 20, 20, 40, 40, 40, 40, 60, 60, 60, 60, 80, 80]), Some(1));
    assert_eq!(pools(folder.path(), &[20, 40, 60, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80]), Some(0));
}

#[test]
fn the_beginning_of_a_leak_stands_in_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let held = [4, 4, 4, 4, 6, 8, 10, 12, 14];
    let names: Vec<String> = (0..held.len()).map(|night| format!("night-{night}.pkl")).collect();
    for (name, held) in names.iter().zip(held) {
        let events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, held * MIB)];
        let held = segment(A, &[(held * MIB, true), ((20 - held) * MIB, false)]);
        fs::write(folder.path().join(name), file(vec![held], events)).unwrap();
    }
    let arguments: Vec<&str> = ["leak"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let table = text(&ptmem(folder.path(), &arguments).stdout);
    let row = table.lines().find(|line| line.contains("main (train.py:7)")).unwrap();
    assert!(row.contains("night-3.pkl") && table.contains("since"), "{table}");
    let csv = text(&ptmem(folder.path(), &[&arguments[..], &["--format", "csv"]].concat()).stdout);
    assert!(csv.lines().next().unwrap().contains(",since,") && csv.contains(",night-3.pkl"), "{csv}");
    let markdown = text(&ptmem(folder.path(), &[&arguments[..], &["--format", "markdown"]].concat()).stdout);
    assert!(markdown.contains("| since |") && markdown.contains("night-3.pkl"), "{markdown}");
}

/// Blocks of release 2.0 have no address.
fn without_addresses(segment: Value) -> Value {
    let Value::Dict(entries) = segment else { panic!("a segment is a dictionary") };
    let plain = |(key, value): (Value, Value)| match value {
        Value::List(blocks) => (key, Value::List(blocks.into_iter().map(|block| block.without("address")).collect())),
        other => (key, other),
    };
    Value::Dict(entries.into_iter().map(plain).collect())
}

#[test]
fn memory_that_release_2_0_gives_back_unseen_is_at_least_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let story = |size: u64| {
        let old = without_addresses(segment(A, &[(4 * MIB, true), (16 * MIB, false)]));
        // Segments that are older than the recording may have gone, whether or not one of the recording did.
        let new = without_addresses(segment(A + 100 * MIB, &[(size, false)]));
        let mut events = vec![event("segment_alloc", A + 100 * MIB, size), event("alloc", A + 100 * MIB, size)];
        events.extend(free(A + 100 * MIB, size));
        snapshot(vec![old, new], events)
    };
    write(folder.path(), "old.pkl", &story(40 * MIB));
    write(folder.path(), "smaller.pkl", &story(38 * MIB));
    let report = json(folder.path(), &["show", "old.pkl"]);
    for counter in ["allocated", "reserved"] {
        let figure = &report["devices"][0][counter];
        let (peak, error) = (figure["peak"].as_u64().unwrap(), figure["peak_error"].as_u64().unwrap());
        assert_eq!((&figure["at_least"], &figure["exact"]), (&true.into(), &false.into()), "{counter}");
        assert_eq!(peak + error, 144 << 30, "{counter}");
        assert_eq!(peak, if counter == "allocated" { 44 * MIB } else { 60 * MIB });
    }
    assert!(report["diagnostics"].to_string().contains("frees-not-recorded"));
    // Enough to fail a limit, and not to pass one.
    assert_eq!(code(folder.path(), &["check", "old.pkl", "--max", "peak=40MiB"]), Some(1));
    assert_eq!(code(folder.path(), &["check", "old.pkl", "--max", "peak=50MiB"]), Some(3));
    assert_eq!(code(folder.path(), &["diff", "old.pkl", "smaller.pkl", "--max-growth", "1GiB"]), Some(3));
    // All that is known of both sides is the same.
    assert_eq!(code(folder.path(), &["diff", "old.pkl", "old.pkl", "--max-growth", "0"]), Some(0));
    // A saved profile says the same.
    assert_eq!(code(folder.path(), &["profile", "old.pkl", "-o", "stored.json"]), Some(0));
    assert_eq!(
        json(folder.path(), &["show", "stored.json"])["devices"][0]["allocated"],
        report["devices"][0]["allocated"]
    );
}

#[test]
fn blocks_whose_completed_free_is_not_recorded_may_still_be_active() {
    let folder = tempfile::tempdir().unwrap();
    let events = vec![
        event("segment_alloc", A, 20 * MIB),
        event("alloc", A, 4 * MIB),
        event("alloc", A + 4 * MIB, 6 * MIB),
        event("free_requested", A + 4 * MIB, 6 * MIB),
        // Not where the first one was: another stream still uses that.
        event("alloc", A + 10 * MIB, 6 * MIB),
        event("free_requested", A + 10 * MIB, 6 * MIB),
    ];
    let segments = vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])];
    write(folder.path(), "skipped.pkl", &snapshot(segments, events));
    let device = &json(folder.path(), &["show", "skipped.pkl"])["devices"][0];
    assert_eq!((&device["allocated"]["peak"], &device["allocated"]["exact"]), (&(10 * MIB).into(), &true.into()));
    for counter in ["active", "requested"] {
        let figure = &device[counter];
        assert_eq!((&figure["peak"], &figure["peak_error"]), (&(10 * MIB).into(), &(10 * MIB).into()), "{counter}");
    }
}

#[test]
fn blocks_whose_requested_free_is_not_recorded_may_no_longer_be_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let story = |skips: bool| {
        let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
        events.push(event("alloc", A + 4 * MIB, 6 * MIB));
        events.push(event("free_requested", A + 4 * MIB, 6 * MIB));
        // Not where the first one was: another stream still uses that.
        events.push(event("alloc", A + 10 * MIB, 5 * MIB));
        events.push(event("free_completed", A + 4 * MIB, 6 * MIB));
        events.retain(|event| !(skips && event == &self::event("free_requested", A + 4 * MIB, 6 * MIB)));
        let blocks = [(4 * MIB, true), (6 * MIB, false), (5 * MIB, true), (5 * MIB, false)];
        snapshot(vec![segment(A, &blocks)], events)
    };
    for (name, skips, peak, error) in [("all.pkl", false, 10, 0), ("skipped.pkl", true, 15, 6)] {
        write(folder.path(), name, &story(skips));
        let device = &json(folder.path(), &["show", name])["devices"][0];
        let figure = &device["allocated"];
        assert_eq!([&figure["peak"], &figure["max_error"]], [peak * MIB, error * MIB], "{name}");
        assert_eq!(
            (&device["active"]["peak"], &device["active"]["exact"]),
            (&(15 * MIB).into(), &true.into()),
            "{name}"
        );
    }
    let check = |limit: &str| verdict(&ptmem(folder.path(), &["check", "skipped.pkl", "--strict", "--max", limit])).1;
    assert_reads!(check("peak=12MiB") => str!["FAIL peak is 15.00 MiB, allowed 12.00 MiB (peak is known to within 6.00 MiB, which reaches across the limit)"]);
    assert_reads!(check("active=15MiB") => str!["PASS active is 15.00 MiB, allowed 15.00 MiB"]);
}

#[test]
fn a_block_alone_in_a_segment_that_is_gone_may_have_filled_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("graph_capture_record_stream_reuse", false.into())]);
    let story = |shared: bool| {
        let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 3 * MIB)];
        if shared {
            events.push(event("alloc", A + 3 * MIB, 3 * MIB));
            events.extend(free(A + 3 * MIB, 3 * MIB));
        }
        events.extend(free(A, 3 * MIB));
        events.push(event("segment_free", A, 20 * MIB));
        snapshot(Vec::new(), events).with("allocator_settings", settings.clone())
    };
    // Blocks of a pool that splits its segments, each in one of its own or both in one.
    for (name, shared, peak, error) in [("alone.pkl", false, 3, 17), ("shared.pkl", true, 6, 0)] {
        write(folder.path(), name, &story(shared));
        let allocated = &json(folder.path(), &["show", name])["devices"][0]["allocated"];
        assert_eq!(allocated["peak"], peak * MIB, "{name}");
        assert_eq!(allocated["peak_error"], error * MIB, "{name}");
        assert_eq!(allocated["exact"], error == 0, "{name}");
    }
}

/// The peak is elsewhere, and certain.
#[test]
fn a_block_of_unknown_size_bounds_the_phase_and_the_stack_that_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("graph_capture_record_stream_reuse", false.into())]);
    let within = |phase: &str, event: Value| event.with("user_metadata", phase).with("frames", frames(phase));
    let story = |shared: bool| {
        let mut events = vec![event("segment_alloc", A, 100 * MIB)];
        events.push(within("load", event("alloc", A, 100 * MIB)));
        events.extend(free(A, 100 * MIB).map(|event| within("load", event)));
        events.push(event("segment_alloc", B, 20 * MIB));
        events.push(within("serve", event("alloc", B, 3 * MIB)));
        if shared {
            events.push(within("check", event("alloc", B + 3 * MIB, 3 * MIB)));
            events.extend(free(B + 3 * MIB, 3 * MIB).map(|event| within("check", event)));
        }
        events.extend(free(B, 3 * MIB).map(|event| within("serve", event)));
        events.push(event("segment_free", B, 20 * MIB));
        let held = segment(A, &[(100 * MIB, false)]);
        snapshot(vec![held], events).with("allocator_settings", settings.clone())
    };
    write(folder.path(), "shared.pkl", &story(true));
    write(folder.path(), "alone.pkl", &story(false));
    let device = &json(folder.path(), &["show", "alone.pkl"])["devices"][0];
    assert_eq!((&device["allocated"]["peak"], &device["allocated"]["exact"]), (&(100 * MIB).into(), &true.into()));
    assert_eq!(device["fragmentation"]["peak_error"], 17 * MIB);
    let of_phases = device["phases"].as_array().unwrap().iter().map(|phase| phase["max_error"].as_u64());
    assert_eq!(of_phases.collect::<Vec<_>>(), [None, Some(17 * MIB)]);
    for limit in ["phase:serve=0", "phase=0", "stack-highest:serve*=0", "stack-highest=0", "fragmentation=1GiB"] {
        let judge = |files: [&str; 2], strict: &[&str]| {
            let arguments = [&["diff", files[0], files[1], "--max-growth", limit], strict].concat();
            verdict(&ptmem(folder.path(), &arguments))
        };
        let (code, line) = judge(["shared.pkl", "alone.pkl"], &["--strict"]);
        let expected = if limit.starts_with("fragmentation") { 0 } else { 3 };
        assert!(code == expected, "{limit}: {code}: {line}");
        assert_eq!(judge(["shared.pkl", "alone.pkl"], &[]).0, 0, "{limit}");
    }
    assert_eq!(code(folder.path(), &["check", "alone.pkl", "--max", "fragmentation=118MiB", "--strict"]), Some(3));
    let doctor = ptmem(folder.path(), &["doctor", "alone.pkl"]);
    let told = text(&doctor.stdout);
    let told = told.lines().find(|line| line.contains("  figures ")).unwrap_or_default();
    assert_reads!(told => str!["ok     figures    exact to the byte at the peak; a stack is known to within 17.00 MiB at its highest"]);
}

#[test]
fn errors_belong_to_the_figure_that_they_concern() {
    let folder = fixtures::folder();
    for name in fixtures::snapshots() {
        let report = json(&folder, &["show", name.to_str().unwrap()]);
        for device in report["devices"].as_array().unwrap() {
            for counter in ["allocated", "active", "requested", "reserved"] {
                let figure = &device[counter];
                let errors = [&figure["baseline_error"], &figure["peak_error"]].map(Json::as_u64);
                assert_eq!(figure["max_error"].as_u64(), errors.into_iter().max().flatten(), "{name:?} {counter}");
                assert_eq!(figure["exact"], errors == [Some(0), Some(0)], "{name:?} {counter}");
            }
        }
    }
}

#[test]
fn growth_that_is_older_than_the_recording_says_how_to_record_it() {
    let folder = fixtures::folder();
    let place = tempfile::tempdir().unwrap();
    let partial = place.path().join("ptmem.toml");
    fs::write(&partial, "allow-partial = true\n").unwrap();
    let partial = partial.to_str().unwrap();
    let verdict = |after: &str, limit: &str| {
        let arguments = ["diff", "no-leak.pkl", after, "--max-growth", limit, "--config", partial];
        let output = ptmem(&folder, &arguments);
        assert_eq!(output.status.code(), Some(1), "{after}");
        explanation(&text(&output.stdout)) + &verdict(&output).1
    };
    let older = verdict("kv-cache.pkl", "baseline=1%");
    assert!(older.contains("more was allocated before the recording: record from the start of the process"), "{older}");
    let named = verdict("leak.pkl", "1%");
    assert!(!named.contains("before the recording"), "{named}");
    // These programs have no place in common: what each held before at its own peak tells nothing.
    let elsewhere = verdict("kv-cache.pkl", "1%");
    assert!(!elsewhere.contains("before the recording"), "{elsewhere}");
}

/// A run of which the peak is so many MiB, and which may end because memory ran out.
fn run_of(peak: u64, runs_out: bool) -> Value {
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    events.push(event("alloc", A + 4 * MIB, (peak - 4) * MIB));
    events.extend(runs_out.then(|| oom(900 * MIB)));
    events.extend(free(A + 4 * MIB, (peak - 4) * MIB));
    snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events)
}

#[test]
fn memory_that_no_longer_runs_out_is_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "fails.pkl", &run_of(10, true));
    write(folder.path(), "runs.pkl", &run_of(16, false));
    let diff = |before: &str, after: &str, limit: &str| {
        verdict(&ptmem(folder.path(), &["diff", before, after, "--max-growth", "0", "--max", limit]))
    };
    let (code_of_fix, line) = diff("fails.pkl", "runs.pkl", "peak=20MiB");
    assert_eq!(code_of_fix, 0, "{line}");
    assert_reads!(line => str!["PASS memory ran out in the before and no longer does; peak is now 16.00 MiB"]);
    assert_eq!(diff("fails.pkl", "runs.pkl", "peak=12MiB").0, 1, "absolute limits still hold");
    assert_eq!(diff("runs.pkl", "fails.pkl", "peak=20MiB").0, 1);
    assert_eq!(diff("fails.pkl", "fails.pkl", "peak=20MiB").0, 3);
    write(folder.path(), "grows.pkl", &run_of(18, true));
    // Growth that is agreed to does not make memory suffice, nor a limit on the size.
    for (after, limit, helps) in
        [("grows.pkl", "20MiB", false), ("runs.pkl", "20MiB", true), ("runs.pkl", "12MiB", false)]
    {
        write(folder.path(), "before.pkl", &run_of(10, false));
        let output = ptmem(folder.path(), &["diff", "before.pkl", after, "--max-growth", "0", "--max", limit]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert_eq!(shown.contains("to accept it"), helps, "{shown}");
    }
    // A recorder says that it made no step; the reason is that memory ran out.
    for (ending, code_of_fix) in [("oom", 0), ("exception", 3)] {
        let steps = serde_json::json!({"first": 1, "last": 0, "asked": [1, 3]});
        let ending = serde_json::json!({"kind": ending, "message": ""});
        let facts = serde_json::json!({"format": 1, "ending": ending, "steps": steps});
        write(folder.path(), "stated.pkl", &run_of(10, true).with("ptmem", facts));
        assert_eq!(diff("stated.pkl", "runs.pkl", "peak=20MiB").0, code_of_fix);
    }
}

/// A thousand events, the first of which free a block that nothing allocates.
fn thousand_events() -> Vec<Value> {
    let mut events = free(A + 4 * MIB, 6 * MIB).to_vec();
    while events.len() < 1000 {
        events.push(event("alloc", A + 4 * MIB, 6 * MIB));
        events.extend(free(A + 4 * MIB, 6 * MIB));
    }
    events.truncate(1000);
    events.pop();
    events.push(event("snapshot", 0, 4 * MIB));
    events
}

#[test]
fn a_ring_that_ran_over_decides_no_absolute_limit_on_a_peak() {
    let folder = tempfile::tempdir().unwrap();
    let segments = || vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])];
    let check = |recording: &Value, limit: &str| {
        write(folder.path(), "ring.pkl", recording);
        verdict(&ptmem(folder.path(), &["check", "ring.pkl", "--max", limit])).0
    };
    let full = snapshot(segments(), thousand_events());
    assert_eq!((check(&full, "peak=1GiB"), check(&full, "peak=8MiB"), check(&full, "end=1GiB")), (3, 1, 0));
    assert_eq!(check(&full, "stack=1GiB"), 3);
    // PyTorch says it itself, whatever the length.
    let short = run_of(10, false);
    assert_eq!(check(&short, "peak=1GiB"), 0);
    let flagged = |flag: bool| Value::List(vec![flag.into()]);
    assert_eq!(check(&short.with("trace_alloc_overflowed", flagged(true)), "peak=1GiB"), 3);
    assert_eq!(check(&full.with("trace_alloc_overflowed", flagged(false)), "peak=1GiB"), 0);
}

#[test]
fn less_reserved_than_allocated_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    // Blocks outside of every segment, and a small segment beside them.
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    for number in 1..=8 {
        events.push(event("alloc", A + number * 1000 * MIB, 300 * MIB));
    }
    for number in 1..=8 {
        events.extend(free(A + number * 1000 * MIB, 300 * MIB));
    }
    write(folder.path(), "skipped.pkl", &snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events));
    let figure = &json(folder.path(), &["show", "skipped.pkl"])["devices"][0];
    assert_eq!(figure["allocated"]["peak"], 2404 * MIB);
    assert_eq!(figure["reserved"]["peak"], Json::Null, "{figure}");
    assert_eq!(code(folder.path(), &["check", "skipped.pkl", "--max", "reserved=1GiB"]), Some(3));
    // One block outside, in a segment of which nobody knows the size, while less is allocated than is reserved.
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    events.push(event("alloc", A + 1000 * MIB, 6 * MIB));
    events.extend(free(A + 1000 * MIB, 6 * MIB));
    write(folder.path(), "one.pkl", &snapshot(vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])], events));
    let figure = &json(folder.path(), &["show", "one.pkl"])["devices"][0];
    assert_eq!((&figure["allocated"]["peak"], &figure["reserved"]["max_error"]), (&(10 * MIB).into(), &Json::Null));
    assert_eq!(code(folder.path(), &["check", "one.pkl", "--max", "reserved=1GiB"]), Some(3));
    assert_eq!(code(folder.path(), &["check", "one.pkl", "--max", "peak=1GiB"]), Some(0));
}
