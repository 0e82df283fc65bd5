//! Snapshots that PyTorch writes in unusual ways, and snapshots that are damaged.

mod damage;
mod reading;
mod refused;
mod repeated;

use crate::support::pickle::{Batch, Memo, Options, Value, write};
use ptmem::profile::{self, InputKind, Profile, Source};
use ptmem::snapshot::{self, Event, Snapshot};

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

fn frame(name: &str, line: impl Into<Value>) -> Value {
    Value::dict([("name", name.into()), ("filename", "/repo/train.py".into()), ("line", line.into())])
}

fn event(action: &str, addr: u64, size: u64) -> Value {
    Value::dict([
        ("action", action.into()),
        ("addr", addr.into()),
        ("size", size.into()),
        ("stream", 0.into()),
        ("time_us", 1_700_000_000_000_000_i64.into()),
        ("frames", list([frame("step", 3), frame("main", 9)])),
    ])
}

fn block(address: u64, size: u64, state: &str) -> Value {
    Value::dict([
        ("address", address.into()),
        ("size", size.into()),
        ("requested_size", size.into()),
        ("state", state.into()),
        ("frames", list([frame("step", 3)])),
    ])
}

fn segment(address: u64, size: u64) -> Value {
    Value::dict([
        ("device", 0.into()),
        ("address", address.into()),
        ("total_size", size.into()),
        ("allocated_size", 512.into()),
        ("active_size", 512.into()),
        ("stream", 0.into()),
        ("segment_type", "small".into()),
        ("segment_pool_id", Value::Tuple(vec![0.into(), 0.into()])),
        ("is_expandable", false.into()),
        ("frames", list([])),
        ("blocks", list([block(address, 512, "active_allocated"), block(address + 512, size - 512, "inactive")])),
    ])
}

fn snapshot_of(segments: Value, traces: Value) -> Value {
    Value::dict([("segments", segments), ("device_traces", traces)])
}

/// One segment, one event on device 0.
fn ordinary() -> Value {
    snapshot_of(list([segment(4096, 2 << 20)]), list([list([event("alloc", 4096, 512)])]))
}

fn of_event(event: Value) -> Value {
    snapshot_of(list([segment(4096, 2 << 20)]), list([list([event])]))
}

fn of_block(block: Value) -> Value {
    snapshot_of(list([segment(4096, 2 << 20).with("blocks", list([block]))]), list([]))
}

/// The styles of Python, of C++ (`_memory_snapshot_pickled`), and some that no writer has.
fn styles() -> Vec<Options> {
    let plain = Options::default();
    vec![
        plain,
        Options { share: true, ..plain },
        Options { share: true, protocol: 5, ..plain },
        Options { protocol: 2, memo: Memo::BinPut, share: true, frame: None, batch: Batch::All, memo_first: false },
        Options { protocol: 2, memo: Memo::BinPut, share: true, frame: None, ..plain },
        Options { batch: Batch::One, share: true, ..plain },
        Options { frame: Some(1), share: true, ..plain },
    ]
}

/// Reads what every style of writing gives; the results agree as far as `look` looks.
fn read_with<T: PartialEq + std::fmt::Debug>(value: &Value, look: impl Fn(&Snapshot) -> T) -> T {
    let mut seen = styles().into_iter().map(|style| {
        let snapshot = snapshot::read(&write(value, style)[..]).unwrap_or_else(|error| panic!("{style:?}: {error}"));
        (style, look(&snapshot))
    });
    let (_, first) = seen.next().unwrap();
    for (style, other) in seen {
        assert_eq!(other, first, "{style:?}");
    }
    first
}

/// The message, which no style of writing changes.
fn error_of(value: &Value) -> String {
    let mut seen = styles().into_iter().map(|style| match snapshot::read(&write(value, style)[..]) {
        Ok(_) => panic!("{style:?}: was read"),
        Err(error) => error.to_string(),
    });
    let first = seen.next().unwrap();
    seen.for_each(|other| assert_eq!(other, first));
    first
}

fn stack_of(snapshot: &Snapshot, event: &Event) -> Option<Vec<(String, i128)>> {
    let frames = snapshot.tables.stack(event.stack?).iter().map(|&id| {
        let frame = snapshot.tables.frame(id);
        (snapshot.tables.string(frame.name).to_owned(), frame.line)
    });
    Some(frames.collect())
}

fn profile_of(snapshot: Snapshot) -> Result<Profile, profile::ProfileError> {
    profile::measure(
        snapshot,
        Source { path: "test.pkl".to_owned(), bytes: 0, kind: InputKind::Snapshot },
        profile::ReadOptions::default(),
    )
}
