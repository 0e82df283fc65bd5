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

/// Sizes of the tensors that [`train`] makes in one step.
#[derive(Clone, Copy)]
pub struct Tensors {
    /// Copied to the device.
    pub batch: u64,
    /// Converted in the loss, after the modules have run.
    pub loss: u64,
    /// Added up by the function that copies, or copied as well.
    pub sum: u64,
    /// The operator that makes it.
    pub sums: &'static str,
}

/// A recording of one step, whose weights were there before.
pub fn train(tensors: Tensors) -> Value {
    let Tensors { batch, loss, sum, sums } = tensors;
    let [copied, summed, converted] = [("_to_copy", 12), (sums, 13), ("_to_copy", 14)].map(|(operator, line)| {
        let cpp = format!("at::_ops::{operator}::call(at::Tensor const&)");
        vec![frame(&cpp, "??", 0), frame("step", "/repo/train.py", line)]
    });
    let module = "/usr/lib/python3.12/site-packages/torch/nn/modules/module.py";
    let ran = vec![frame("forward", "/repo/model.py", 3), frame("_call_impl", module, 9), copied[1].clone()];
    let weights = segment(A, &[(20 * MIB, true)]);
    let room = segment(B, &[(200 * MIB, false)]);
    let blocks = [(batch, copied), (sum, summed), (MIB, ran), (loss, converted)];
    let mut events = vec![event("segment_alloc", B, 200 * MIB)];
    for (at, (size, stack)) in (B..).step_by(50 << 20).zip(&blocks) {
        events.push(event("alloc", at, *size).with("frames", stack.clone()));
    }
    for (at, (size, _)) in (B..).step_by(50 << 20).zip(&blocks) {
        events.extend(free(at, *size));
    }
    snapshot(vec![weights, room], events)
}

pub fn frame(name: &str, file: &str, line: u64) -> Value {
    Value::dict([("name", name.into()), ("filename", file.into()), ("line", line.into())])
}
