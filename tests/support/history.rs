//! Small histories, written down event by event.

#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use super::pickle::{self, Value};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Addresses of segments: far apart.
pub const A: u64 = 0x7f00_0000_0000;
pub const B: u64 = 0x7f10_0000_0000;
pub const C: u64 = 0x7f20_0000_0000;

/// An event on the default stream, allocated by `main` alone.
pub fn event(action: &str, addr: u64, size: u64) -> Value {
    Value::dict([
        ("action", action.into()),
        (if action == "oom" { "device_free" } else { "addr" }, addr.into()),
        ("size", size.into()),
        ("stream", 0.into()),
        ("time_us", 1_700_000_000_000_000_u64.into()),
        ("frames", frames("main")),
    ])
}

pub fn frames(function: &str) -> Value {
    vec![Value::dict([("name", function.into()), ("filename", "/repo/train.py".into()), ("line", 7.into())])].into()
}

pub fn oom(size: u64) -> Value {
    event("oom", 3 * MIB, size)
}

pub fn free(addr: u64, size: u64) -> [Value; 2] {
    ["free_requested", "free_completed"].map(|action| event(action, addr, size))
}

/// A segment at the dump, of blocks in use and free ones: size, and whether it is in use.
pub fn segment(address: u64, blocks: &[(u64, bool)]) -> Value {
    let total: u64 = blocks.iter().map(|(size, _)| size).sum();
    let mut next = address;
    let blocks: Vec<Value> = blocks
        .iter()
        .map(|&(size, used)| {
            let block = Value::dict([
                ("address", next.into()),
                ("size", size.into()),
                ("requested_size", size.into()),
                ("state", if used { "active_allocated" } else { "inactive" }.into()),
                ("frames", Value::List(vec![])),
            ]);
            next += size;
            block
        })
        .collect();
    Value::dict([
        ("device", 0.into()),
        ("address", address.into()),
        ("total_size", total.into()),
        ("stream", 0.into()),
        ("segment_type", if total == 2 * MIB { "small" } else { "large" }.into()),
        ("segment_pool_id", pool(0)),
        ("is_expandable", false.into()),
        ("blocks", blocks.into()),
    ])
}

pub fn pool(number: u64) -> Value {
    Value::Tuple(vec![number.into(), 0.into()])
}

/// A snapshot with the history of device 0.
pub fn file(segments: Vec<Value>, events: Vec<Value>) -> Vec<u8> {
    pickle::write(&snapshot(segments, events), pickle::Options::default())
}

/// The same before it is written.
pub fn snapshot(segments: Vec<Value>, events: Vec<Value>) -> Value {
    Value::dict([("segments", segments.into()), ("device_traces", vec![events.into()].into())])
}

/// A recording of a batch of this size that is copied to the device.
pub fn input_of(size: u64) -> Value {
    let cpp = |name: &str| Value::dict([("name", name.into()), ("filename", "??".into()), ("line", 0.into())]);
    let Value::List(mut stack) = frames("load") else { unreachable!() };
    stack.insert(0, cpp("at::_ops::_to_copy::call(at::Tensor const&)"));
    stack.insert(1, cpp("at::_ops::to_dtype::call(at::Tensor const&)"));
    let batch = event("alloc", A, size).with("frames", stack);
    let mut events = vec![event("segment_alloc", A, 20 * MIB), batch];
    events.extend(free(A, size));
    snapshot(vec![segment(A, &[(20 * MIB, false)])], events)
}
