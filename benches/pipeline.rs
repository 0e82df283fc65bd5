//! How fast snapshots are read and compared, in bytes of their files.
//!
//! `walk` only walks over the opcodes; it is the floor to which `decode` is compared. The input is made
//! up in memory: 20 MB, or as many MB as the variable `PTMEM_BENCH_MB` says.
//!
//! `pairing` is about stacks alone, as many on both sides: every one has changed, or none has a partner.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark may fail loudly")]

mod large;
mod walk;

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use large::Plan;
use ptmem::profile::{Kind, Options, Profile, Source, profile};
use ptmem::snapshot::{Frame, StackId, Tables};
use ptmem::stack::{Figures, Group, GroupBy, Grouper, Rules, pair};
use ptmem::verdict::{Comparison, Gate, Growth, Level, Thresholds, judge_diff};
use ptmem::{diff, report, snapshot};

fn input(bytes: u64, ramp: bool) -> Vec<u8> {
    let mut file = Vec::new();
    large::write(&Plan { ramp, ..Plan::of_size(bytes, Plan::DEPTH) }, &mut file).expect("a vector takes all bytes");
    file
}

fn profile_of(file: &[u8]) -> Profile {
    let snapshot = snapshot::read(file).expect("the input is a snapshot");
    let source = Source { path: "large.pkl".to_owned(), bytes: file.len() as u64, kind: Kind::Snapshot };
    profile(snapshot, source, Options::default()).expect("the input can be replayed")
}

/// All that the command does between opening the files and printing.
fn whole_diff(before: &[u8], after: &[u8]) -> String {
    let (before, after) = thread::scope(|scope| {
        let before = scope.spawn(|| profile_of(before));
        let after = profile_of(after);
        (before.join().expect("the thread ends well"), after)
    });
    let diff = diff::diff(before, after, diff::Options::default());
    let thresholds = Thresholds {
        growth: vec![Growth::parse("5%", Level::Fail).expect("a threshold")],
        min_delta: 1 << 20,
        ..Thresholds::default()
    };
    let judgement = judge_diff(&diff, &thresholds);
    let comparison = Comparison { name: None, member: None, diff, judgement, min_delta: thresholds.min_delta };
    let gate = Gate { comparisons: vec![comparison], ranks: Vec::new() };
    let options = report::Options::default();
    report::Format::Table.render(report::Subject::Gate(&gate), &options).expect("a table holds anything")
}

fn pipeline(criterion: &mut Criterion) {
    let megabytes = match std::env::var("PTMEM_BENCH_MB") {
        Ok(text) => text.parse().expect("PTMEM_BENCH_MB is a whole number"),
        Err(_) => 20,
    };
    let before = input(megabytes * 1_000_000, false);
    let after = input(megabytes * 1_000_000, true);

    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(20).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(8));
    group.throughput(Throughput::Bytes(before.len() as u64));
    group.bench_function("walk", |b| b.iter(|| walk::walk(black_box(&before[..])).expect("a slice can be read")));
    group.bench_function("decode", |b| b.iter(|| snapshot::read(black_box(&before[..])).expect("a snapshot")));
    group.bench_function("decode_and_replay", |b| b.iter(|| profile_of(black_box(&before))));
    group.throughput(Throughput::Bytes((before.len() + after.len()) as u64));
    group.bench_function("whole_diff", |b| b.iter(|| whole_diff(black_box(&before), black_box(&after))));
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

fn groups(grouper: &Grouper<'_>) -> Vec<Group> {
    let group = |(number, stack): (usize, StackId)| {
        let number = number as u64;
        let figures =
            Figures { allocations: number % 64 + 1, blocks: number % 16, bytes: number << 12, allocated_total: 0 };
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
                    pair((black_box(&old), before.code().lines()), (black_box(&new), after.code().lines()), 0.75)
                });
            });
        }
    }
    criterion.finish();
}

criterion_group!(benches, pipeline, pairing);
criterion_main!(benches);
