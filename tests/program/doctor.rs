//! What `ptmem doctor` says of recordings that are not what they seem at first sight.

use std::fs;
use std::path::Path;

use crate::support::history::{A, B, MIB, event, file, frames, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{ptmem, text};

/// The lines about some aspects.
fn examined(folder: &Path, arguments: &[&str], aspects: &[&str]) -> String {
    let output = ptmem(folder, &[&["doctor"], arguments].concat());
    let told = text(&output.stdout);
    let lines = told.lines().filter(|line| {
        let aspect = line.split_whitespace().nth(1).unwrap_or_default();
        aspects.contains(&aspect) || line.contains("fit to gate")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A snapshot of two devices: the history of each, and the segment that the second one holds.
fn two_devices(first: Vec<Value>, second: Vec<Value>, held: Value) -> Vec<u8> {
    let own = [segment(A, &[(100 * MIB, false)]), held.with("device", 1_u64)];
    let traces = vec![Value::List(first), Value::List(second)];
    let snapshot = Value::dict([("segments", Value::List(own.to_vec())), ("device_traces", traces.into())]);
    pickle::write(&snapshot, pickle::Options::default())
}

/// What a device allocates and frees by one function.
fn passing(address: u64, function: &str, size: u64) -> Vec<Value> {
    let [requested, completed] = free(address, size);
    let mut events =
        vec![event("segment_alloc", address, 100 * MIB), event("alloc", address, size), requested, completed];
    events.iter_mut().for_each(|event| *event = event.clone().with("frames", frames(function)));
    events
}

#[test]
fn the_device_that_is_recorded_worst_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut second = vec![event("free_requested", B, 5 * MIB), event("free_completed", B, 5 * MIB)];
    second.extend(passing(B, "load", MIB).into_iter().skip(1));
    let snapshot =
        two_devices(passing(A, "load", 90 * MIB), second, segment(B, &[(50 * MIB, false), (50 * MIB, true)]));
    fs::write(folder.path().join("two.pkl"), snapshot).unwrap();
    assert_reads!(examined(folder.path(), &["two.pkl"], &["history", "stacks"]) => str![[r#"
ok     history    9 events, on 2 devices: 2 allocations, 3 frees
weak   stacks     device 1: 55.00 MiB of 55.00 MiB at the peak have none (100.0 %)
fit to gate; weak points make reports less exact or less detailed
"#]]);
}

#[test]
fn recordings_that_differ_are_told_by_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let recording = |at_peak: u64, held: u64| {
        let end = segment(B, &[(held, true), (100 * MIB - held, false)]);
        let mut second =
            vec![event("segment_alloc", B, 100 * MIB), event("alloc", B, held).with("frames", frames("keep"))];
        second.extend(passing(B + held, "step", at_peak - held).into_iter().skip(1));
        two_devices(passing(A, "load", 90 * MIB), second, end)
    };
    for (name, at_peak, held) in [("a.pkl", 60, 10), ("b.pkl", 60, 30), ("c.pkl", 70, 10)] {
        fs::write(folder.path().join(name), recording(at_peak * MIB, held * MIB)).unwrap();
    }
    let first = snapshot(vec![segment(A, &[(100 * MIB, false)])], passing(A, "load", 90 * MIB));
    fs::write(folder.path().join("d.pkl"), pickle::write(&first, pickle::Options::default())).unwrap();
    let again = |second: &str| examined(folder.path(), &["a.pkl", "--again", second], &["again"]);
    assert_reads!(again("a.pkl") => str![[r#"
ok     again      both recordings have the same figures, and the same stacks at the peak, to the byte
fit to gate; weak points make reports less exact or less detailed
"#]]);
    assert_reads!(again("b.pkl") => str![[r#"
weak   again      device 1: end 10.00 MiB and 30.00 MiB (+200.0 %); most at the peak in step (train.py:7): -20.00 MiB
fit to gate only with limits above what differs between two runs of the same program
"#]]);
    assert_reads!(again("c.pkl") => str![[r#"
weak   again      device 1: peak 60.00 MiB and 70.00 MiB (+16.7 %); most in step (train.py:7): +10.00 MiB
fit to gate only with limits above what differs between two runs of the same program
"#]]);
    assert_reads!(again("d.pkl") => str![[r#"
unfit  again      device 1 is in one recording only
not fit to gate: mend what is unfit before you trust a verdict on the peak
"#]]);
}

#[test]
fn a_state_is_examined_at_the_dump() {
    let folder = tempfile::tempdir().unwrap();
    let state = file(vec![segment(A, &[(8 * MIB, true), (12 * MIB, false)])], Vec::new());
    fs::write(folder.path().join("state.pkl"), state).unwrap();
    assert_reads!(examined(folder.path(), &["state.pkl"], &["stacks"]) => str![[r#"
weak   stacks     8.00 MiB of 8.00 MiB at the dump have none (100.0 %)
not fit to gate: mend what is unfit before you trust a verdict on the peak
"#]]);
}

/// As where the ring buffer was made smaller or larger while it was full.
#[test]
fn events_out_of_order_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = passing(A, "load", 4 * MIB);
    events.push(event("alloc", A, 4 * MIB).with("time_us", 1_000_u64));
    let held = vec![segment(A, &[(4 * MIB, true), (96 * MIB, false)])];
    fs::write(folder.path().join("mixed.pkl"), file(held, events)).unwrap();
    assert_reads!(examined(folder.path(), &["mixed.pkl"], &["beginning", "clock", "figures"]) => str![[r#"
unfit  beginning  events may be missing: they contradict each other (time-backwards)
weak   clock      events are out of order, or the clock went back
weak   figures    events contradict each other, so figures are estimates
not fit to gate: mend what is unfit before you trust a verdict on the peak
"#]]);
}
