//! What compilers take to measure kernels is not the program's: with it or without, the figures are the same.

use ptmem::diagnostic::Code;
use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::replay::Position;
use serde_json::json;

use crate::support::history::{A, MIB, event, frame, free, oom, segment, snapshot};
use crate::support::pickle::{self, Value};

const TRITON: &str = "/env/lib/python3.11/site-packages/torch/_inductor/runtime/triton_heuristics.py";

/// A tensor of the program.
fn tensor(at: u64, size: u64) -> Value {
    event("alloc", A + at, size)
}

/// A block that a function takes on behalf of the program.
fn taken(function: &str, file: &str, at: u64, size: u64) -> Value {
    let stack = vec![frame("empty", "??", 0), frame(function, file, 1), frame("forward", "/repo/model.py", 3)];
    tensor(at, size).with("frames", stack)
}

/// Reads a segment of 100 MiB of which the first 4 are in use at the end.
fn read(events: impl IntoIterator<Item = Value>, counted: Option<u64>) -> Profile {
    let all = [event("segment_alloc", A, 100 * MIB)].into_iter().chain(events).collect();
    let settings = Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into())]);
    let made = snapshot(vec![segment(A, &[(4 * MIB, true), (96 * MIB, false)])], all);
    let mut value = made.with("allocator_settings", settings);
    if let Some(peak) = counted {
        let at = |now: u64, peak: u64| json!({"current": {"allocated_bytes": now}, "peak": {"allocated_bytes": peak}, "calls": [0, 0]});
        let counters = json!([{"device": 0, "start": at(0, 0), "dump": at(4 * MIB, peak)}]);
        value = value.with("ptmem", json!({"format": 1, "counters": counters}));
    }
    let bytes = pickle::write(&value, pickle::Options::default());
    profile::read(&bytes[..], "made.pkl", ReadOptions::default()).unwrap()
}

fn has(profile: &Profile, code: Code) -> bool {
    profile.diagnostics.iter().any(|found| found.code == code)
}

/// A step of the program: 4 MiB that stay, and 10 that go. In between something else may happen.
fn step(between: Vec<Value>) -> Vec<Value> {
    let own = [tensor(0, 4 * MIB), tensor(4 * MIB, 10 * MIB)];
    own.into_iter().chain(between).chain(free(A + 4 * MIB, 10 * MIB)).collect()
}

/// A buffer, and a copy of an argument.
fn measurement() -> Vec<Value> {
    let buffer = taken("benchmark_all_configs", TRITON, 20 * MIB, 40 * MIB);
    let copy = taken("bench", TRITON, 60 * MIB, 2 * MIB);
    let ends = [free(A + 60 * MIB, 2 * MIB), free(A + 20 * MIB, 40 * MIB)];
    [buffer, copy].into_iter().chain(ends.into_iter().flatten()).collect()
}

#[test]
fn a_cold_and_a_warm_cache_give_the_same_figures() {
    let (warm, cold) = (read(step(Vec::new()), None), read(step(measurement()), None));
    let [without, with] = [&warm, &cold].map(|profile| &profile.devices[0]);
    let mut figures = with.figures.clone();
    figures.timeline = without.figures.timeline.clone();
    assert_eq!(figures, without.figures);
    assert_eq!(figures.allocated.peak, Some(14 * MIB));
    assert_eq!(with.stacks.len(), without.stacks.len());
    assert!(has(&cold, Code::KernelBenchmarks) && !has(&warm, Code::KernelBenchmarks));
    let told = cold.diagnostics.iter().find(|found| found.code == Code::KernelBenchmarks).unwrap();
    assert!(told.message.contains("took up to 42.00 MiB (2 allocations)"), "{}", told.message);
}

/// PyTorch counted the benchmarks, too.
#[test]
fn the_counters_of_pytorch_are_compared_with_all() {
    for (counted, contradicts) in [(56 * MIB, false), (57 * MIB, true)] {
        let profile = read(step(measurement()), Some(counted));
        assert_eq!(has(&profile, Code::CountersDisagree), contradicts, "{counted}");
        assert_eq!(profile.devices[0].figures.allocated.peak, Some(14 * MIB));
    }
}

/// What stays, what is held where memory runs out, and what a program measures itself is the program's.
#[test]
fn other_memory_counts() {
    let mut failed = measurement();
    failed.insert(2, oom(64 * MIB));
    let own = |function: &str, file: &str| {
        let taken = taken(function, file, 20 * MIB, 40 * MIB);
        [taken].into_iter().chain(free(A + 20 * MIB, 40 * MIB)).collect::<Vec<_>>()
    };
    let run = own("run", TRITON);
    for (between, peak) in [
        (failed, 56),
        (own("bench", "/repo/triton/bench.py"), 54),
        (run, 54),
        (own("do_bench", "/env/lib/python3.11/site-packages/triton/testing.py"), 14),
    ] {
        let profile = read(step(between), None);
        assert_eq!(profile.devices[0].figures.allocated.peak, Some(peak * MIB));
        assert_eq!(has(&profile, Code::KernelBenchmarks), peak == 14);
    }
    let kept = taken("benchmark_gpu", TRITON, 0, 4 * MIB);
    let profile = read([kept], None);
    assert_eq!(profile.devices[0].figures.allocated.peak, Some(4 * MIB));
}

/// A saved profile keeps the note, and the blocks that the history ends are those of the program.
#[test]
fn blocks_keep_their_lives() {
    let profile = read(step(measurement()), None);
    let lives = profile.devices[0].trace.lives();
    let sizes: Vec<(u64, bool)> = lives
        .iter()
        .map(|life| {
            let class = &profile.devices[0].trace.classes[life.class as usize];
            (class.bytes / MIB, life.freed == Position::NEVER)
        })
        .collect();
    assert_eq!(sizes, [(4, true), (10, false)]);
    let saved = profile::saved::text_of(&profile, &[]).unwrap();
    let read = profile::read(saved.as_bytes(), "saved", ReadOptions::default()).unwrap();
    assert!(has(&read, Code::KernelBenchmarks));
    assert_eq!(read.devices[0].figures.allocated, profile.devices[0].figures.allocated);
}
