//! Throughput of reading and comparing snapshots, in bytes of their files.
//!
//! `stages` times each stage alone; its `walk` only steps over the opcodes and is the floor for the others. `pipeline`
//! times the work of `ptmem show` and `ptmem diff`. The input is made up in memory: 20 MB, or `PTMEM_BENCH_MB` MB.
//!
//! `pairing` times the matching of stacks, with equal numbers on both sides: all changed, or none with a partner.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark may fail loudly")]

#[path = "../tests/support/large/mod.rs"]
mod large;
mod walk;

use std::collections::HashMap;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use large::Plan;
use ptmem::diff;
use ptmem::profile::{InputKind, Profile, ReadOptions, Source, measure};
use ptmem::replay::{self, Origin, Replay};
use ptmem::report::{self, Format, Report};
use ptmem::sides::Sides;
use ptmem::snapshot::{self, Frame, FrameId, Snapshot, StackId, Tables};
use ptmem::stack::{ComparedFunctions, GroupBy, GroupFigures, Grouper, Rules, StackGroup, pair};
use ptmem::verdict::{Comparison, Gate, GrowthLimit, Level, Thresholds, judge_diff};

fn input(bytes: u64, ramp: bool) -> Vec<u8> {
    let mut file = Vec::new();
    large::write(&Plan { ramp, ..Plan::of_size(bytes, Plan::DEPTH) }, &mut file).expect("a vector takes all bytes");
    file
}

fn profile_of(file: &[u8]) -> Profile {
    let snapshot = snapshot::read(file).expect("the input is a snapshot");
    let source = Source { path: "large.pkl".to_owned(), bytes: file.len() as u64, kind: InputKind::Snapshot };
    measure(snapshot, source, ReadOptions::default()).expect("the input can be replayed")
}

/// Two files, read at the same time, compared and judged.
fn gate(before: &[u8], after: &[u8]) -> Gate {
    let (before, after) = thread::scope(|scope| {
        let before = scope.spawn(|| profile_of(before));
        let after = profile_of(after);
        (before.join().expect("the thread ends well"), after)
    });
    let diff = diff::compare(before, after, diff::DiffOptions::default());
    let thresholds = Thresholds {
        growth: vec![GrowthLimit::parse("5%", Level::Fail).expect("a threshold")],
        min_delta: 1 << 20,
        ..Thresholds::default()
    };
    let judgement = judge_diff(&diff, &thresholds);
    let comparison = Comparison { name: None, member: None, diff, judgement, min_delta: thresholds.min_delta };
    Gate::from(comparison)
}

/// Size of the input in MB.
fn megabytes() -> u64 {
    match std::env::var("PTMEM_BENCH_MB") {
        Ok(text) => text.parse().expect("PTMEM_BENCH_MB is a whole number"),
        Err(_) => 20,
    }
}

/// The stacks of all events, put together frame by frame: what reading would cost without recognising a stack by the
/// bytes of its list.
fn intern(snapshot: &Snapshot) -> Tables {
    let mut tables = Tables::default();
    let frames: Vec<_> = (0..).zip(snapshot.tables.frames()).map(|(line, _)| frame(&mut tables, line)).collect();
    let mut stack = Vec::new();
    for id in snapshot.events.iter().filter_map(|event| event.stack) {
        stack.clear();
        stack.extend(snapshot.tables.stack(id).iter().map(|frame| frames[frame.index()]));
        black_box(tables.intern_stack(&stack));
    }
    tables
}

fn frame(tables: &mut Tables, line: i128) -> FrameId {
    let (name, filename) = (tables.intern_string("forward"), tables.intern_string("model.py"));
    tables.intern_frame(Frame { name, filename, line, original: None })
}

fn replayed(snapshot: &Snapshot) -> Vec<Replay> {
    let devices = snapshot.devices.iter();
    devices.map(|(&id, device)| replay::run(snapshot, id, device).expect("the input can be replayed")).collect()
}

/// The bytes that each stack holds at the allocated peak.
fn live_set(snapshot: &Snapshot, replays: &[Replay]) -> HashMap<Origin, u64> {
    let mut held = HashMap::new();
    for replay in replays {
        let peak = replay.figures.allocated.peak_at.expect("the history is recorded");
        for allocation in replay.allocations.iter().filter(|allocation| allocation.allocated_at(peak)) {
            *held.entry(allocation.origin(snapshot)).or_default() += allocation.bytes;
        }
    }
    held
}

/// Every stage alone, on what the one before leaves. The throughput is that of the file in all of them, so that they
/// can be compared.
fn stages(criterion: &mut Criterion) {
    let before = input(megabytes() * 1_000_000, false);
    let after = input(megabytes() * 1_000_000, true);
    let snapshot = snapshot::read(&before[..]).expect("the input is a snapshot");
    let replays = replayed(&snapshot);

    let mut group = criterion.benchmark_group("stages");
    group.sample_size(20).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Bytes(before.len() as u64));
    group.bench_function("walk", |b| b.iter(|| walk::walk(black_box(&before[..])).expect("a slice can be read")));
    group.bench_function("decode", |b| b.iter(|| snapshot::read(black_box(&before[..])).expect("a snapshot")));
    group.bench_function("intern", |b| b.iter(|| intern(black_box(&snapshot))));
    group.bench_function("replay", |b| b.iter(|| replayed(black_box(&snapshot))));
    group.bench_function("live_set", |b| b.iter(|| live_set(black_box(&snapshot), black_box(&replays))));
    drop((snapshot, replays));

    group.throughput(Throughput::Bytes((before.len() + after.len()) as u64));
    group.bench_function("match", |b| {
        b.iter_batched(
            || (profile_of(&before), profile_of(&after)),
            |(before, after)| diff::compare(before, after, diff::DiffOptions::default()),
            BatchSize::PerIteration,
        );
    });
    let gate = gate(&before, &after);
    for format in [Format::Table, Format::Json] {
        let options = report::RenderOptions::default();
        let render = || format.render(black_box(&gate), &options).expect("a report holds anything");
        group.bench_function(format!("render/{}", format.name()), |b| b.iter(render));
    }
    group.finish();
}

/// The work of the commands between opening files and printing.
fn pipeline(criterion: &mut Criterion) {
    let before = input(megabytes() * 1_000_000, false);
    let after = input(megabytes() * 1_000_000, true);
    let table = |report: &dyn Report| Format::Table.render(report, &report::RenderOptions::default()).expect("a table");

    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(20).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(8));
    group.throughput(Throughput::Bytes(before.len() as u64));
    group.bench_function("show", |b| b.iter(|| table(&profile_of(black_box(&before)))));
    group.throughput(Throughput::Bytes((before.len() + after.len()) as u64));
    group.bench_function("diff", |b| b.iter(|| table(&gate(black_box(&before), black_box(&after)))));
    group.finish();
}

/// Stacks of 20 frames that share their outer ones, as those of a program do. `change` is a new name for one
/// function in ten, and a wrapper around the model.
fn stacks(count: usize, name: &str, change: bool) -> Tables {
    let mut tables = Tables::default();
    for number in 0..count {
        let mut frames = Vec::new();
        for depth in (0..20).rev() {
            // The deeper, the more functions there are.
            let function = number % (1 << depth.min(16)) + number / 97 * usize::from(depth == 19);
            let renamed = change && function % 10 == 3;
            let called = format!("{}_{name}_{depth}_{function}", if renamed { "renamed" } else { "function" });
            frames.push((called, format!("/home/me/repo/{name}/part{}.py", function % 50), 7 + function));
            if change && depth == 12 {
                frames.push(("wrapper".to_owned(), "/home/me/repo/decorators.py".to_owned(), 3));
            }
        }
        let ids: Vec<_> = frames
            .iter()
            .map(|(name, file, line)| {
                let frame = Frame {
                    name: tables.intern_string(name),
                    filename: tables.intern_string(file),
                    line: *line as i128,
                    original: None,
                };
                tables.intern_frame(frame)
            })
            .collect();
        tables.intern_stack(&ids);
    }
    tables
}

fn groups<'t>(grouper: &'t Grouper<'t>) -> Vec<StackGroup<'t>> {
    let group = |(number, stack): (usize, StackId)| {
        let number = number as u64;
        let figures =
            GroupFigures { allocations: number % 64 + 1, blocks: number % 16, bytes: number << 12, allocated_total: 0 };
        grouper.group(grouper.key(stack), stack, figures)
    };
    grouper.code().tables().stacks().enumerate().map(group).collect()
}

fn pairing(criterion: &mut Criterion) {
    let mut criterion = criterion.benchmark_group("pairing");
    criterion.sample_size(10).sampling_mode(SamplingMode::Flat);
    for count in [2_500, 5_000, 10_000] {
        for (kind, name, change) in [("changed", "model", true), ("unrelated", "other", false)] {
            let (before, after) = (stacks(count, "model", false), stacks(count, name, change));
            let by = GroupBy::Stack;
            let (before, after) =
                (Grouper::new(&before, by, &Rules::default()), Grouper::new(&after, by, &Rules::default()));
            let (old, new) = (groups(&before), groups(&after));
            criterion.bench_function(format!("{kind}/{count}"), |b| {
                b.iter(|| {
                    let functions = ComparedFunctions::new(Sides { before: before.code(), after: after.code() });
                    pair(black_box(Sides { before: &old, after: &new }), &functions, 0.75)
                });
            });
        }
    }
    criterion.finish();
}

criterion_group!(benches, stages, pipeline, pairing);
criterion_main!(benches);
