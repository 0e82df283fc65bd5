//! Any bytes as a snapshot: the same whether they come at once or in pieces.

#![no_main]

mod trickle;

use std::fmt::Write;

use libfuzzer_sys::fuzz_target;
use ptmem::snapshot::{Snapshot, SnapshotError, read};
use trickle::Trickle;

fuzz_target!(|bytes: &[u8]| {
    let (whole, trickled) = (text(read(bytes)), text(read(Trickle::new(bytes))));
    assert!(whole == trickled, "pieces change the result:\n{whole}\n{trickled}");
});

/// The contents of a snapshot, or the error of reading it.
fn text(result: Result<Snapshot, SnapshotError>) -> String {
    let snapshot = match result {
        Ok(snapshot) => snapshot,
        Err(error) => return error.to_string(),
    };
    let Snapshot { tables, events, devices, settings, annotations, run, .. } = &snapshot;
    let flags = [snapshot.keeps_annotations, snapshot.has_traces, snapshot.lacks_block_addresses];
    let mut text = format!("{flags:?} {events:?} {devices:?} {settings:?} {annotations:?} {run:?}");
    for frame in tables.frames() {
        let names = [frame.name, frame.filename].map(|name| tables.string(name));
        let _ = write!(text, "{names:?} {frame:?}");
    }
    for stack in tables.stacks() {
        let _ = write!(text, "{:?} {:?}", tables.stack(stack), tables.forward(stack));
    }
    for event in events {
        let _ = write!(text, "{} {:?}", event.action_name(tables), tables.tags(event.tags));
    }
    text
}
