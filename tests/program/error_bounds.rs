//! Figures that are known only to within an error, because of blocks whose sizes are not certain.

use std::path::Path;
use std::{fs, iter};

use crate::support::history::{A, B, MIB, event, frame, frames, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// A block in a segment of its own, which goes with it. Alone in it, it may have filled it: its pool splits segments.
#[derive(Clone, Copy)]
struct Gone {
    phase: &'static str,
    function: &'static str,
    size: u64,
    segment: u64,
    is_alone: bool,
}

fn within(phase: &str, function: &str, event: Value) -> Value {
    event.with("user_metadata", phase).with("frames", frames(function))
}

/// A block that comes and goes.
fn passing(phase: &str, function: &str, at: u64, size: u64) -> impl Iterator<Item = Value> {
    let events = iter::once(event("alloc", at, size)).chain(free(at, size));
    events.map(move |event| within(phase, function, event))
}

/// Blocks that come and go one after the other, each in a phase named after its function, in a segment that stays.
fn passed(blocks: &[(&str, u64)]) -> Vec<Value> {
    blocks.iter().flat_map(|(function, size)| passing(function, function, A, *size)).collect()
}

impl Gone {
    /// Its events, around others.
    fn events(self, during: Vec<Value>) -> Vec<Value> {
        let Self { phase, function, size, segment, is_alone } = self;
        let mut events = vec![event("segment_alloc", B, segment), within(phase, function, event("alloc", B, size))];
        if !is_alone {
            events.extend(passing(phase, function, B + size, MIB));
        }
        events.extend(during);
        events.extend(free(B, size).map(|event| within(phase, function, event)));
        events.push(event("segment_free", B, segment));
        events
    }
}

fn write(folder: &Path, name: &str, events: Vec<Value>) {
    let room = 200 * MIB;
    let events = [vec![event("segment_alloc", A, room)], events].concat();
    let settings =
        Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("graph_capture_record_stream_reuse", false.into())]);
    let value = snapshot(vec![segment(A, &[(room, false)])], events).with("allocator_settings", settings);
    fs::write(folder.join(name), pickle::write(&value, pickle::Options::default())).unwrap();
}

fn accept(folder: &Path, subject: &str, bytes: &str) {
    accept_beside(folder, "", subject, bytes);
}

fn accept_beside(folder: &Path, settings: &str, subject: &str, bytes: &str) {
    let entry = format!("[[accept]]\n{subject}\nbytes = \"{bytes}\"\nreason = \"x\"\nexpires = 9999-12-31\n");
    fs::write(folder.join("ptmem.toml"), format!("{settings}{entry}")).unwrap();
}

fn diff(folder: &Path, limit: &str, options: &[&str]) -> String {
    let arguments = [&["diff", "before.pkl", "after.pkl", "--max-growth", limit], options].concat();
    judged(verdict(&ptmem(folder, &arguments)))
}

/// Phase `serve` holds 3 MiB on both sides, or 17 MiB more in the after.
#[test]
fn accepted_growth_of_one_phase_does_not_hide_the_bound_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, eval, is_alone) in [("before.pkl", 10 * MIB, false), ("after.pkl", 20 * MIB, true)] {
        let serve = Gone { phase: "serve", function: "f", size: 3 * MIB, segment: 20 * MIB, is_alone };
        let others = passed(&[("load", 100 * MIB), ("eval", eval)]);
        write(folder, name, [others, serve.events(Vec::new())].concat());
    }
    accept(folder, "metric = \"phase:eval\"", "20MiB");
    assert_reads!(diff(folder, "phase=2MiB", &["--strict"]) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    assert_reads!(diff(folder, "phase=2MiB", &[]) => str!["0: PASS phase eval grew 10.00 MiB (+100.0 %), allowed 2.00 MiB (8.00 MiB accepted until 9999-12-31: x)"]);
    assert_reads!(diff(folder, "phase=18MiB", &["--strict"]) => str!["0: PASS no outermost named phase grew by more than 18.00 MiB"]);
    let output = ptmem(folder, &["diff", "before.pkl", "after.pkl", "--max-growth", "phase=2MiB"]);
    let report = text(&output.stdout);
    let warnings: Vec<&str> = report.lines().filter(|line| line.starts_with("warning[within-error]")).collect();
    assert_reads!(warnings.join("\n") => str!["warning[within-error] phase serve is known to within 17.00 MiB, which reaches across the limit"]);
}

/// Nothing is allocated beyond the beginning of phase `serve`, unless its block is larger than what it frees before.
#[test]
fn a_phase_that_may_allocate_more_than_it_frees_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, held) in [("before.pkl", 3 * MIB), ("after.pkl", 4 * MIB)] {
        let load = within("load", "g", event("alloc", A, held));
        let freed = free(A, held).map(|event| within("serve", "g", event));
        let serve = Gone { phase: "serve", function: "f", size: 2 * MIB, segment: 20 * MIB, is_alone: true };
        let mut events = serve.events(Vec::new());
        // Its segment comes first, so that the phase is one.
        events.splice(1..1, iter::once(load).chain(freed));
        write(folder, name, events);
    }
    assert_reads!(diff(folder, "phase=0", &["--max-growth", "phase:load=9MiB"]) => str!["1: FAIL phase serve grew 1.00 MiB (+33.3 %), allowed 0 B"]);
}

#[test]
fn accepted_growth_covers_no_more_than_was_agreed_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, size, segment, is_alone) in [("before.pkl", 29, 60, false), ("after.pkl", 38, 43, true)] {
        let gone = Gone { phase: "p", function: "f", size: size * MIB, segment: segment * MIB, is_alone };
        write(folder, name, gone.events(Vec::new()));
    }
    accept(folder, "metric = \"peak\"", "8MiB");
    assert_reads!(diff(folder, "peak=1MiB", &[]) => str!["0: PASS peak grew 8.00 MiB (+26.7 %), allowed 1.00 MiB, accepted"]);
    assert_reads!(diff(folder, "peak=1MiB", &["--strict"]) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    accept(folder, "metric = \"peak\"", "13MiB");
    assert_reads!(diff(folder, "peak=1MiB", &["--strict"]) => str!["0: PASS peak grew 8.00 MiB (+26.7 %), allowed 1.00 MiB (7.00 MiB accepted until 9999-12-31: x)"]);
    accept(folder, "pattern = \"f*\"", "8MiB");
    assert_reads!(diff(folder, "stack-highest=1MiB", &["--strict"]) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    accept(folder, "pattern = \"f*\"", "13MiB");
    assert_reads!(diff(folder, "stack-highest=1MiB", &["--strict"]) => str!["0: PASS the most held by stack f (train.py:7) grew 8.00 MiB (+26.7 %), allowed 1.00 MiB, accepted, but peak grew 8.00 MiB (+26.7 %)"]);
}

/// The change of 9 MiB, of 8 MiB of the peak, is known to within 5 MiB.
#[test]
fn accepted_growth_counts_for_figures_that_keep_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, size, segment, is_alone) in [("before.pkl", 29, 60, false), ("after.pkl", 38, 43, true)] {
        let gone = Gone { phase: "p", function: "f", size: size * MIB, segment: segment * MIB, is_alone };
        write(folder, name, gone.events(Vec::new()));
    }
    for (subject, limit, least) in [
        ("metric = \"peak\"", "peak", 13),
        ("pattern = \"f*\"", "stack", 14),
        ("pattern = \"f*\"", "stack-highest", 13),
        ("metric = \"phase:p\"", "phase", 13),
        ("metric = \"phase:p\"", "phase:p", 13),
    ] {
        for (limit, allowed) in [1, 7, 9, 10, 12].map(|allowed| (format!("{limit}={allowed}MiB"), allowed)) {
            for (bytes, code) in [(least - allowed, "0: "), (least - allowed - 1, "3: ")] {
                accept(folder, subject, &format!("{bytes}MiB"));
                let line = diff(folder, &limit, &["--strict"]);
                assert!(line.starts_with(code), "{limit} {bytes}: {line}");
            }
        }
    }
    // Less memory is not beyond a limit on growth.
    fs::rename(folder.join("before.pkl"), folder.join("other.pkl")).unwrap();
    fs::rename(folder.join("after.pkl"), folder.join("before.pkl")).unwrap();
    fs::rename(folder.join("other.pkl"), folder.join("after.pkl")).unwrap();
    for subject in ["metric = \"peak\"", "pattern = \"f*\""] {
        accept(folder, subject, "20MiB");
        assert_reads!(diff(folder, "peak=1MiB", &["--strict"]) => str!["0: PASS peak shrank 8.00 MiB (-21.1 %), allowed 1.00 MiB, but reserved grew 17.00 MiB (+7.0 %)"]);
    }
}

/// Each of two stacks may be 4 MiB beyond the limit.
#[test]
fn stacks_of_uncertain_size_share_what_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, size, segment, is_alone) in [("before.pkl", 29, 60, false), ("after.pkl", 38, 43, true)] {
        let [f, g] = ["f", "g"].map(|function| (function, size * MIB, segment * MIB));
        let blocks = [f, g].map(|(function, size, segment)| Gone { phase: "p", function, size, segment, is_alone });
        write(folder, name, blocks.map(|gone| gone.events(Vec::new())).concat());
    }
    for (bytes, code) in [("7MiB", "3: "), ("8MiB", "0: ")] {
        accept(folder, "pattern = \"*\"", bytes);
        let line = diff(folder, "stack-highest=9MiB", &["--strict"]);
        assert!(line.starts_with(code), "{bytes}: {line}");
    }
}

/// A block of a function that is alone in its segment, after 100 MiB of another one.
fn alone(function: &'static str, size: u64, segment: u64) -> Vec<Value> {
    let gone = Gone { phase: "serve", function, size: size * MIB, segment: segment * MIB, is_alone: true };
    [passed(&[("load", 100 * MIB)]), gone.events(Vec::new())].concat()
}

/// Whether a change stays within a limit for certain.
fn passes(before: &[Value], after: &[Value], limit: &str, options: &[&str]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "before.pkl", before.to_vec());
    write(folder.path(), "after.pkl", after.to_vec());
    let line = diff(folder.path(), limit, &[options, &["--strict"]].concat());
    assert!(line.starts_with("0: ") || line.contains("(within-error)"), "{line}");
    line.starts_with("0: ")
}

/// Equal bounds of other blocks do not cancel, whenever these are held.
#[test]
fn bounds_of_the_same_blocks_cancel() {
    let small = alone("f", 3, 20);
    for limit in ["phase:serve=3MiB", "phase=3MiB", "stack-highest=3MiB", "fragmentation=1MiB", "active=1MiB"] {
        assert!(passes(&small, &small, limit, &[]), "{limit}");
    }
    for other in [alone("g", 3, 20), alone("f", 5, 22), alone("g", 5, 22)] {
        for limit in ["phase:serve=3MiB", "phase=3MiB", "fragmentation=1MiB"] {
            assert!(!passes(&small, &other, limit, &[]), "{limit}");
        }
        assert!(passes(&small, &other, "peak=0", &[]), "the peak is elsewhere");
    }
    assert!(!passes(&small, &alone("f", 5, 22), "stack-highest=3MiB", &[]));
    // The bound is 7 MiB: with all of its segment, the block would exceed the peak.
    let large = alone("f", 90, 107);
    assert!(passes(&large, &large, "peak=1MiB", &[]));
    assert!(!passes(&large, &alone("g", 88, 107), "peak=1MiB", &[]));
}

/// What else changes does not make a block another one.
#[test]
fn bounds_of_blocks_held_at_the_peak_cancel_beside_growth() {
    let around = |size: u64, function: &'static str| {
        let gone = Gone { phase: "serve", function, size: 3 * MIB, segment: 20 * MIB, is_alone: true };
        gone.events(passed(&[("load", size * MIB)]))
    };
    let before = around(100, "f");
    for limit in ["peak=1MiB", "active=1MiB", "stack=1MiB", "stack-highest=1MiB", "phase:load=1MiB", "phase=1MiB"] {
        assert!(passes(&before, &around(101, "f"), limit, &[]), "{limit}");
    }
    for limit in ["peak=1MiB", "active=1MiB", "phase:load=1MiB", "phase=1MiB"] {
        assert!(!passes(&before, &around(100, "g"), limit, &[]), "{limit}");
    }
}

/// A block of 20 MiB of `f` at the peak of `load`, or before it; its size may be 25 MiB.
fn beside_load(is_at_peak: bool, is_alone: bool) -> Vec<Value> {
    let gone = Gone { phase: "serve", function: "f", size: 20 * MIB, segment: 25 * MIB, is_alone };
    let load = passed(&[("load", 60 * MIB)]);
    if is_at_peak { gone.events(load) } else { [gone.events(Vec::new()), load].concat() }
}

/// A stack exceeds a limit if it does with what it holds at the peak, with the most that it held, and with what was requested.
#[test]
fn a_stack_is_doubted_by_the_figures_that_decide_about_it() {
    let at_peak = beside_load(true, true);
    for (limit, is_certain) in [("stack=1MiB", false), ("stack=5MiB", true), ("stack-highest=1MiB", false)] {
        assert_eq!(passes(&beside_load(false, false), &at_peak, limit, &[]), is_certain, "{limit}");
    }
    for limit in ["stack=1MiB", "stack=22MiB", "stack-highest=1MiB"] {
        assert!(passes(&beside_load(false, true), &at_peak, limit, &[]), "{limit}: the same block");
    }
    let as_much = beside_load(true, false);
    assert!(passes(&as_much, &at_peak, "stack=1MiB", &[]), "growth would be slack");
    assert!(!passes(&as_much, &at_peak, "stack-highest=1MiB", &[]));
    // A change of 4 MiB, or of 6.
    let small = Gone { phase: "serve", function: "f", size: 3 * MIB, segment: 9 * MIB, is_alone: false };
    let large = Gone { size: 7 * MIB, is_alone: true, ..small };
    let [small, large] = [small, large].map(|gone| gone.events(passed(&[("load", 60 * MIB)])));
    for (least, is_certain) in [("5MiB", false), ("7MiB", true)] {
        assert_eq!(passes(&small, &large, "stack=1MiB", &["--min-delta", least]), is_certain, "{least}");
    }
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "before.pkl", beside_load(false, false));
    write(folder.path(), "after.pkl", at_peak);
    let report = text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "stack=1MiB"]).stdout);
    let warning = report.lines().find(|line| line.starts_with("warning[within-error]"));
    assert_reads!(warning.unwrap_or_default() => str!["warning[within-error] the most held by stack f (train.py:7) is known to within 5.00 MiB, which reaches across the limit"]);
}

#[test]
fn a_block_held_at_the_moment_on_one_side_bounds_its_stack() {
    let block = Gone { phase: "serve", function: "f", size: 3 * MIB, segment: 20 * MIB, is_alone: true };
    let [load, other] = [passed(&[("load", 100 * MIB)]), passed(&[("other", 30 * MIB)])];
    let block = block.events(Vec::new());
    let first = [load.clone(), block.clone(), other.clone()].concat();
    let last = [load, other, block].concat();
    let at = ["--at", "event:5"];
    assert!(passes(&first, &first, "stack:f*=4MiB", &at));
    assert!(!passes(&last, &first, "stack:f*=4MiB", &at));
    assert!(passes(&last, &first, "stack:f*=20MiB", &at));
}

/// The peak of the whole is that of the workspace, and certain.
#[test]
fn figures_beside_workspaces_have_the_bounds_of_their_own_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("ptmem.toml"), "beside-workspaces = true\n").unwrap();
    let [workspace, asks, frees] = ["alloc", "free_requested", "free_completed"]
        .map(|action| event(action, A, 100 * MIB).with("frames", vec![frame("at::cuda::getNewWorkspace()", "??", 0)]));
    for (name, size, is_alone) in [("before.pkl", 3 * MIB, false), ("after.pkl", 5 * MIB, true)] {
        let gone = Gone { phase: "p", function: "f", size, segment: 20 * MIB, is_alone };
        let workspace = vec![workspace.clone(), asks.clone(), frees.clone()];
        write(folder, name, [workspace, gone.events(Vec::new())].concat());
    }
    assert_reads!(diff(folder, "peak=2MiB", &[]) => str!["0: PASS peak did not change, allowed 2.00 MiB (peak beside cuBLAS workspaces is known to within 15.00 MiB, which reaches across the limit)"]);
    assert_reads!(diff(folder, "peak=2MiB", &["--strict"]) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    assert_reads!(diff(folder, "peak=512KiB", &[]) => str!["1: FAIL peak beside cuBLAS workspaces (100.00 MiB) grew 1.00 MiB (+25.0 %), allowed 512.00 KiB"]);
    assert_reads!(diff(folder, "peak=17MiB", &["--strict"]) => str!["0: PASS peak did not change, allowed 17.00 MiB"]);
    assert_reads!(diff(folder, "end=0", &["--strict"]) => str!["0: PASS end did not change, allowed 0 B"]);
    for (bytes, code) in [("13MiB", "3: "), ("14MiB", "0: ")] {
        accept_beside(folder, "beside-workspaces = true\n", "metric = \"peak\"", bytes);
        let line = diff(folder, "peak=2MiB", &["--strict"]);
        assert!(line.starts_with(code), "{bytes}: {line}");
    }
    fs::copy(folder.join("after.pkl"), folder.join("before.pkl")).unwrap();
    assert_reads!(diff(folder, "peak=2MiB", &["--strict"]) => str!["0: PASS peak did not change, allowed 2.00 MiB"]);
}
