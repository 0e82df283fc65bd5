//! How fast snapshots are read and compared, in bytes of their files.
//!
//! `walk` only walks over the opcodes; it is the floor to which `decode` is compared. The input is made
//! up in memory: 20 MB, or as many MB as the variable `PTMEM_BENCH_MB` says.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark may fail loudly")]

mod large;
mod walk;

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use large::Plan;
use ptmem::profile::{Options, Profile, Source, profile};
use ptmem::verdict::{Growth, Level, Thresholds, judge_diff};
use ptmem::{diff, report, snapshot};

fn input(bytes: u64, ramp: bool) -> Vec<u8> {
    let mut file = Vec::new();
    large::write(&Plan { ramp, ..Plan::of_size(bytes, Plan::DEPTH) }, &mut file).expect("a vector takes all bytes");
    file
}

fn profile_of(file: &[u8]) -> Profile {
    let snapshot = snapshot::read(file).expect("the input is a snapshot");
    let source = Source { path: "large.pkl".to_owned(), bytes: file.len() as u64 };
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
        maximum: Vec::new(),
        min_delta: 1 << 20,
        strict: false,
    };
    let judgement = judge_diff(&diff, &thresholds);
    let options = report::Options { min_delta: 1 << 20, ..report::Options::default() };
    report::table::diff(&diff, &judgement, &options)
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

criterion_group!(benches, pipeline);
criterion_main!(benches);
