//! Figures that are known only to within an error, because of blocks whose sizes are not certain.

use std::path::Path;
use std::{fs, iter};

use crate::support::history::{A, B, MIB, event, frames, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// A block in a segment of its own, which goes with it. Alone in it, it may have filled it: its pool splits segments.
#[derive(Clone, Copy)]
struct Gone {
    function: &'static str,
    size: u64,
    segment: u64,
    is_alone: bool,
}

fn within(name: &str, event: Value) -> Value {
    event.with("user_metadata", name).with("frames", frames(name))
}

/// A block of this size that comes and goes, in a phase named after its function.
fn passing(function: &str, at: u64, size: u64) -> impl Iterator<Item = Value> {
    let events = iter::once(event("alloc", at, size)).chain(free(at, size));
    events.map(move |event| within(function, event))
}

impl Gone {
    fn events(self) -> Vec<Value> {
        let Self { function, size, segment, is_alone } = self;
        let mut events = vec![event("segment_alloc", B, segment), within(function, event("alloc", B, size))];
        if !is_alone {
            events.extend(passing(function, B + size, MIB));
        }
        events.extend(free(B, size).map(|event| within(function, event)));
        events.push(event("segment_free", B, segment));
        events
    }
}

/// What [`Gone`] leaves beside a segment that stays, in which other functions hold blocks of these sizes one after the other.
fn write(folder: &Path, name: &str, passed: &[(&str, u64)], gone: Gone) {
    let room = 200 * MIB;
    let mut events = vec![event("segment_alloc", A, room)];
    events.extend(passed.iter().flat_map(|(function, size)| passing(function, A, *size)));
    events.extend(gone.events());
    let settings =
        Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("graph_capture_record_stream_reuse", false.into())]);
    let value = snapshot(vec![segment(A, &[(room, false)])], events).with("allocator_settings", settings);
    fs::write(folder.join(name), pickle::write(&value, pickle::Options::default())).unwrap();
}

fn accept(folder: &Path, subject: &str, bytes: &str) {
    let entry = format!("[[accept]]\n{subject}\nbytes = \"{bytes}\"\nreason = \"x\"\nexpires = 9999-12-31\n");
    fs::write(folder.join("ptmem.toml"), entry).unwrap();
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
    let serve = |is_alone: bool| Gone { function: "serve", size: 3 * MIB, segment: 20 * MIB, is_alone };
    write(folder, "before.pkl", &[("load", 100 * MIB), ("eval", 10 * MIB)], serve(false));
    write(folder, "after.pkl", &[("load", 100 * MIB), ("eval", 20 * MIB)], serve(true));
    accept(folder, "metric = \"phase:eval\"", "20MiB");
    assert_reads!(diff(folder, "phase=2MiB", &["--strict"]) => str!["3: INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    assert_reads!(diff(folder, "phase=2MiB", &[]) => str!["0: PASS phase eval grew 10.00 MiB (+100.0 %), allowed 2.00 MiB (8.00 MiB accepted until 9999-12-31: x)"]);
    assert_reads!(diff(folder, "phase=18MiB", &["--strict"]) => str!["0: PASS no outermost named phase grew by more than 18.00 MiB"]);
    let output = ptmem(folder, &["diff", "before.pkl", "after.pkl", "--max-growth", "phase=2MiB"]);
    let report = text(&output.stdout);
    let warnings: Vec<&str> = report.lines().filter(|line| line.starts_with("warning[within-error]")).collect();
    assert_reads!(warnings.join("\n") => str!["warning[within-error] phase serve is known to within 17.00 MiB, which reaches across the limit"]);
}

#[test]
fn accepted_growth_covers_no_more_than_was_agreed_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let peak = |size: u64, segment: u64, is_alone: bool| Gone { function: "f", size, segment, is_alone };
    write(folder, "before.pkl", &[], peak(29 * MIB, 60 * MIB, false));
    write(folder, "after.pkl", &[], peak(38 * MIB, 43 * MIB, true));
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
