//! Verdicts in situations in which a gate must be neither green nor red for nothing: memory that ran out, figures that
//! are not known, bounds, devices that did nothing; and limits on stacks, fragmentation and headroom.

use crate::support::fixtures;
use crate::support::pickle::{self, Value};
use crate::support::program::Program;
use ptmem::budget::DeviceMemory;
use ptmem::device::DeviceId;
use ptmem::diagnostic::Code;
use ptmem::diff::{self, Diff};
use ptmem::leak::{self, LeakOptions};
use ptmem::profile::{self, Metric, Profile, ReadOptions};
use ptmem::report::{self, Format};
use ptmem::verdict::{
    Accepted, Comparison, Gate, GrowthLimit, Headroom, Judgement, LeakLimits, Level, Thresholds, Verdict, judge_diff,
    judge_leaks, judge_profile,
};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;

fn event(action: &str, addr: u64, size: u64) -> Value {
    event_of(action, addr, size, ("main", "/repo/train.py"))
}

/// An event of a function in a file.
fn event_of(action: &str, addr: u64, size: u64, (name, file): (&str, &str)) -> Value {
    let frame = [("name", name.into()), ("filename", file.into()), ("line", 7.into())];
    Value::dict([
        ("action", action.into()),
        (if action == "oom" { "device_free" } else { "addr" }, addr.into()),
        ("size", size.into()),
        ("stream", 0.into()),
        ("time_us", 1_700_000_000_000_000_u64.into()),
        ("frames", vec![Value::dict(frame)].into()),
    ])
}

fn oom() -> Value {
    event("oom", 3 * MIB, 50 * MIB)
}

/// A segment of 20 MiB at the dump, with one block in use at its start.
fn segment(device: u64, used: u64) -> Value {
    let block = |address: u64, size: u64, state: &str| {
        Value::dict([
            ("address", address.into()),
            ("size", size.into()),
            ("requested_size", size.into()),
            ("state", state.into()),
            ("frames", Value::List(vec![])),
        ])
    };
    let blocks = vec![block(A, used, "active_allocated"), block(A + used, 20 * MIB - used, "inactive")];
    Value::dict([
        ("device", device.into()),
        ("address", A.into()),
        ("total_size", (20 * MIB).into()),
        ("stream", 0.into()),
        ("segment_type", "large".into()),
        ("is_expandable", false.into()),
        ("blocks", blocks.into()),
    ])
}

fn read(segments: Vec<Value>, traces: Vec<Vec<Value>>) -> Profile {
    let traces: Vec<Value> = traces.into_iter().map(Value::from).collect();
    let value = Value::dict([("segments", segments.into()), ("device_traces", traces.into())]);
    profile::read(&*pickle::write(&value, pickle::Options::default()), "x.pkl", ReadOptions::default()).unwrap()
}

/// One device that allocates a block of `mib` MiB, followed by the given events.
fn allocating(mib: u64, then: Vec<Value>) -> Profile {
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, mib * MIB)];
    events.extend(then);
    read(vec![segment(0, mib * MIB)], vec![events])
}

fn growth(limits: &[&str]) -> Thresholds {
    let growth = limits.iter().map(|limit| GrowthLimit::parse(limit, Level::Fail).unwrap()).collect();
    Thresholds { growth, ..Thresholds::default() }
}

fn maximum(limits: &[&str]) -> Thresholds {
    Thresholds { maximum: limits.iter().map(|limit| limit.parse().unwrap()).collect(), ..Thresholds::default() }
}

fn compare(before: Profile, after: Profile) -> Diff {
    diff::compare(before, after, diff::DiffOptions::default())
}

/// The verdict and its line.
fn told(judgement: &Judgement) -> (Verdict, String) {
    (judgement.verdict, judgement.headline().to_string())
}

/// A device with 16 MiB of a workspace of cuBLAS, and beside it a block of this many bytes.
fn beside_workspace(bytes: u64) -> Profile {
    let workspace = event_of("alloc", A + 4 * MIB, 16 * MIB, ("at::cuda::getNewWorkspace()", "??"));
    let freed = ["free_requested", "free_completed"].map(|action| event(action, A + 4 * MIB, 16 * MIB));
    let events = [event("segment_alloc", A, 20 * MIB), workspace, event("alloc", A, bytes)];
    read(vec![segment(0, bytes)], vec![events.into_iter().chain(freed).collect()])
}

#[test]
fn a_workspace_of_cublas_hides_no_growth_of_a_small_program() {
    let thresholds = Thresholds { beside_workspaces: true, ..growth(&["peak=5%"]) };
    let judged = |after: u64| {
        let diff = compare(beside_workspace(MIB), beside_workspace(after));
        told(&judge_diff(&diff, &thresholds))
    };
    let line = "FAIL peak beside cuBLAS workspaces (16.00 MiB) grew 512.00 KiB (+50.0 %), allowed 5 %, \
                 most by main (train.py:7) (+512.00 KiB)";
    assert_eq!(judged(MIB * 3 / 2), (Verdict::Regression, line.to_owned()));
    assert_eq!(judged(MIB + (32 << 10)).0, Verdict::Pass);
    // Without the key, the limit is a percentage of the whole peak.
    let diff = compare(beside_workspace(MIB), beside_workspace(MIB * 3 / 2));
    assert_eq!(told(&judge_diff(&diff, &growth(&["peak=5%"]))).0, Verdict::Pass);
    // Growth of the workspace itself is limited to a percentage of the whole peak.
    let grown = judge_diff(&compare(allocating(4, vec![]), beside_workspace(4 * MIB)), &thresholds);
    assert!(told(&grown).1.starts_with("FAIL peak grew 16.00 MiB"), "{grown:?}");
}

/// A device that allocates and frees a block in a function, beside a block without a stack, if it has one.
fn beside_unnamed(unnamed: u64, bytes: u64, function: (&str, &str)) -> Profile {
    let freed = ["free_requested", "free_completed"].map(|action| event(action, A + unnamed, bytes));
    let room = |action: &str| (unnamed == 0).then(|| event(action, A, 20 * MIB));
    let allocated = event_of("alloc", A + unnamed, bytes, function);
    let events = room("segment_alloc").into_iter().chain([allocated]).chain(freed).chain(room("segment_free"));
    let segments = (unnamed > 0).then(|| segment(0, unnamed));
    read(segments.into_iter().collect(), vec![events.collect()])
}

/// A side without workspaces has 0 bytes of them, unless they would have no name.
#[test]
fn growth_beside_workspaces_is_known_without_any_and_not_without_names() {
    let judged = |before: Profile, after: Profile, strict: bool| {
        let thresholds = Thresholds { beside_workspaces: true, strict, ..growth(&["peak=5%"]) };
        judge_diff(&compare(before, after), &thresholds).headline().to_string()
    };
    let beside = |unnamed: u64, bytes: u64| beside_unnamed(unnamed, bytes, ("at::zeros()", "??"));
    assert_reads!(judged(beside_workspace(MIB), beside(0, 17 * MIB), false) => str!["FAIL the after has none of the before's 2 call stacks; peak beside cuBLAS workspaces (16.00 MiB) grew 16.00 MiB (17 times), allowed 5 %"]);
    assert_reads!(judged(beside(0, 17 * MIB), beside_workspace(MIB), false) => str!["PASS the after has none of the before's 1 call stack; peak did not change, allowed 5 %, but reserved-end grew 20.00 MiB. peak is known to within 3.00 MiB, which reaches across the limit."]);
    // A block without a stack may be a workspace.
    assert_reads!(judged(beside(16 * MIB, MIB), beside(16 * MIB, MIB * 3 / 2), false) => str!["PASS peak grew 512.00 KiB (+2.9 %), allowed 5 % (16.00 MiB without a stack may be cuBLAS workspaces: peak beside them reaches across the limit)"]);
    assert_reads!(judged(beside(16 * MIB, MIB), beside(16 * MIB, MIB * 3 / 2), true) => str!["INCONCLUSIVE a warning makes the result untrustworthy (within-error)"]);
    assert_reads!(judged(beside(16 * MIB, MIB), beside(16 * MIB, MIB), true) => str!["PASS peak did not change, allowed 5 %"]);
    // Python frames alone name no workspace.
    let unnameable = beside_unnamed(0, MIB, ("main", "/repo/train.py"));
    assert_reads!(judged(unnameable, beside(0, MIB), false) => str!["INCONCLUSIVE the after has none of the before's 1 call stack; peak: beside cuBLAS workspaces it is not known: the before has no C++ frames, which name workspaces"]);
}

/// The workspace and a first block are the peak; they are freed, and a last block follows.
fn peaking_with_workspace(workspace: u64, first: u64, bytes: u64) -> Profile {
    let allocated = event_of("alloc", A + 4 * MIB, workspace, ("at::cuda::getNewWorkspace()", "??"));
    let freed = |address, size| ["free_requested", "free_completed"].map(|action| event(action, address, size));
    let freed = [freed(A + 4 * MIB, workspace), freed(A, first)].concat();
    let first = [event("segment_alloc", A, 20 * MIB), allocated, event("alloc", A, first)];
    let events = first.into_iter().chain(freed).chain([event("alloc", A, bytes)]).collect();
    read(vec![segment(0, bytes)], vec![events])
}

#[test]
fn growth_beside_workspaces_fails_unless_it_is_accepted_although_the_peak_did_not_grow() {
    let judged = |after: Profile, bytes: u64| {
        let diff = compare(peaking_with_workspace(16 * MIB, 2 * MIB, MIB), after);
        let (reason, expires) = ("agreed".to_owned(), "9999-12-31".parse().unwrap());
        let accepted =
            vec![Accepted { subjects: vec!["peak".parse().unwrap()], through: None, bytes, reason, expires }];
        told(&judge_diff(&diff, &Thresholds { beside_workspaces: true, accepted, ..growth(&["peak=1MiB"]) }))
    };
    let line = "FAIL peak beside cuBLAS workspaces (16.00 MiB) grew 2.00 MiB (+100.0 %), allowed 1.00 MiB";
    let grown_later = || peaking_with_workspace(16 * MIB, 2 * MIB, 4 * MIB);
    assert_eq!(judged(grown_later(), 0), (Verdict::Regression, line.to_owned()));
    assert_eq!(judged(grown_later(), MIB - 1).0, Verdict::Regression);
    let more = ", accepted, but end grew 3.00 MiB (+300.0 %). 1.00 MiB accepted until 9999-12-31: agreed.";
    let line = line.replace("FAIL", "PASS") + more;
    assert_eq!(judged(grown_later(), MIB), (Verdict::Pass, line));
    // The peak grew by 1.5 MiB, and beside a smaller workspace by 2 MiB.
    let grown = || peaking_with_workspace(31 * MIB / 2, 4 * MIB, MIB);
    assert_eq!([MIB / 2, MIB].map(|bytes| judged(grown(), bytes).0), [Verdict::Regression, Verdict::Pass]);
}

#[test]
fn stacks_at_the_peak_neither_explain_nor_excuse_growth_beside_workspaces_elsewhere() {
    // The first block grew by 2 MiB, and with it the peak; the last one grew by more.
    let sides = [(2 * MIB, MIB), (4 * MIB, 6 * MIB)];
    let line = "FAIL peak beside cuBLAS workspaces (16.00 MiB) grew 4.00 MiB (+200.0 %), allowed 2.00 MiB";
    for bytes in [0, 2 * MIB] {
        let [before, after] = sides.map(|(first, last)| peaking_with_workspace(16 * MIB, first, last));
        let (reason, expires) = ("agreed".to_owned(), "9999-12-31".parse().unwrap());
        let subjects = vec!["stack:*".parse().unwrap()];
        let accepted = vec![Accepted { subjects, through: None, bytes, reason, expires }];
        let thresholds = Thresholds { beside_workspaces: true, accepted, ..growth(&["peak=2MiB"]) };
        assert_eq!(told(&judge_diff(&compare(before, after), &thresholds)), (Verdict::Regression, line.to_owned()));
    }
}

#[test]
fn accepted_stacks_cover_growth_beside_workspaces_also_where_the_before_has_its_peak_elsewhere() {
    // Beside the workspace, the before held most in its last block, and the after in its first one.
    let judged = |bytes: u64| {
        let [before, after] = [2, 6].map(|first| peaking_with_workspace(16 * MIB, first * MIB, 3 * MIB));
        let (reason, expires) = ("agreed".to_owned(), "9999-12-31".parse().unwrap());
        let subjects = vec!["stack:*".parse().unwrap()];
        let accepted = vec![Accepted { subjects, through: None, bytes, reason, expires }];
        let thresholds = Thresholds { beside_workspaces: true, accepted, ..growth(&["peak=2MiB"]) };
        told(&judge_diff(&compare(before, after), &thresholds)).0
    };
    assert_eq!([0, MIB, 2 * MIB].map(judged), [Verdict::Regression, Verdict::Regression, Verdict::Pass]);
}

#[test]
fn memory_that_ran_out_in_the_after_is_a_regression() {
    let ran_out = || compare(allocating(4, vec![]), allocating(4, vec![oom()]));
    let expected = "FAIL out of memory: 50.00 MiB requested by main (train.py:7). 4.00 MiB were allocated, 20.00 \
                    MiB reserved, 3.00 MiB free on the device, largest free block of its pool 16.00 MiB.";
    for limits in [&[][..], &["0"], &["end=0", "stack=0"]] {
        let (verdict, line) = told(&judge_diff(&ran_out(), &growth(limits)));
        assert_eq!((verdict, &*line), (Verdict::Regression, expected), "{limits:?}");
    }
    let allowed = Thresholds { allow_oom: true, ..growth(&["0", "stack=0"]) };
    assert_eq!(judge_diff(&ran_out(), &allowed).verdict, Verdict::Pass);
    // A program that no longer runs out of memory passes.
    let mended = compare(allocating(4, vec![oom()]), allocating(4, vec![]));
    assert_eq!(judge_diff(&mended, &growth(&["0"])).verdict, Verdict::Pass);
}

#[test]
fn memory_that_ran_out_on_both_sides_hides_the_peak() {
    let both = || compare(allocating(4, vec![oom()]), allocating(4, vec![oom()]));
    for limit in ["peak=5%", "active=5%", "reserved=0", "fragmentation=1GiB", "stack=1MiB", "stack:main*=1GiB"] {
        let (verdict, line) = told(&judge_diff(&both(), &growth(&[limit])));
        assert_eq!(verdict, Verdict::Inconclusive, "{limit}: {line}");
        assert!(line.contains("memory ran out on both sides"), "{line}");
        let allowed = Thresholds { allow_oom: true, ..growth(&[limit]) };
        assert_eq!(judge_diff(&both(), &allowed).verdict, Verdict::Pass, "{limit}");
    }
    for limit in ["end=0", "baseline=0"] {
        assert_eq!(judge_diff(&both(), &growth(&[limit])).verdict, Verdict::Pass, "{limit}");
    }
    assert_eq!(judge_diff(&both(), &maximum(&["peak=1GiB"])).verdict, Verdict::Inconclusive);
    assert_eq!(judge_diff(&both(), &maximum(&["peak=1MiB"])).verdict, Verdict::Regression);
}

#[test]
fn memory_that_ran_out_fails_the_check_of_one_snapshot() {
    let (verdict, line) = told(&judge_profile(&allocating(4, vec![oom(), oom()]), &maximum(&["peak=1GiB"])));
    assert_eq!(verdict, Verdict::Regression);
    assert_reads!(line => str!["FAIL out of memory: 50.00 MiB requested by main (train.py:7); 2 requests failed. 4.00 MiB were allocated, 20.00 MiB reserved, 3.00 MiB free on the device, largest free block of its pool 16.00 MiB."]);
    // Also where no allocations were recorded.
    let only_oom = read(vec![segment(0, 4 * MIB)], vec![vec![oom()]]);
    assert_eq!(judge_profile(&only_oom, &maximum(&["end=1GiB"])).verdict, Verdict::Regression);
    let allowed = Thresholds { allow_oom: true, ..maximum(&["end=1GiB"]) };
    assert_eq!(judge_profile(&only_oom, &allowed).verdict, Verdict::Pass);
    let before = read(vec![segment(0, 4 * MIB)], vec![vec![]]);
    let after = read(vec![segment(0, 4 * MIB)], vec![vec![oom()]]);
    assert_eq!(judge_diff(&compare(before, after), &growth(&["end=0"])).verdict, Verdict::Regression);
}

#[test]
fn a_figure_that_is_not_known_is_neither_gated_nor_exported() {
    let state_only = || read(vec![segment(0, 4 * MIB)], vec![vec![]]);
    let (verdict, line) = told(&judge_diff(&compare(allocating(8, vec![]), state_only()), &growth(&["0"])));
    assert!(verdict == Verdict::Inconclusive && line.contains("records no allocations"), "{line}");
    // The state is a lower bound of the peak: enough to fail.
    assert_eq!(judge_profile(&state_only(), &maximum(&["peak=1MiB"])).verdict, Verdict::Regression);
    assert_eq!(judge_profile(&state_only(), &maximum(&["peak=8MiB"])).verdict, Verdict::Inconclusive);
    let diff = compare(allocating(8, vec![]), state_only());
    let judgement = judge_diff(&diff, &growth(&["0"]));
    let gate = Gate::from(Comparison { name: None, member: None, diff, judgement, min_delta: 0 });
    let options = report::RenderOptions::default();
    let output = Format::GithubOutput.render(&gate, &options).unwrap();
    assert!(output.contains("peak-after=\n") && output.contains("percent=\n"), "{output}");
}

/// A history in which a block is freed that was allocated before it, so that its size is not known to the byte.
fn bounded(freed: u64, allocated: u64) -> Profile {
    let events = vec![
        event("free_requested", A + 8 * MIB, freed * MIB),
        event("free_completed", A + 8 * MIB, freed * MIB),
        event("alloc", A, allocated * MIB),
    ];
    read(vec![segment(0, allocated * MIB)], vec![events])
}

#[test]
fn a_bound_across_the_limit_warns_and_cancels_where_it_is_the_same() {
    let error = bounded(4, 2).devices[0].figures.allocated.peak_error;
    assert!(error.is_some_and(|error| error > 0), "{error:?}");
    for strict in [false, true] {
        let thresholds = Thresholds { strict, ..growth(&["peak=0", "baseline=0", "active=0"]) };
        let judgement = judge_diff(&compare(bounded(4, 2), bounded(4, 2)), &thresholds);
        assert_eq!(judgement.verdict, Verdict::Pass, "strict {strict}: {}", judgement.headline());
        assert!(judgement.diagnostics.is_empty(), "{:?}", judgement.diagnostics);
    }
    // Another block, another bound.
    let judgement = judge_diff(&compare(bounded(4, 2), bounded(3, 2)), &growth(&["peak=0"]));
    assert_eq!(judgement.verdict, Verdict::Pass);
    assert!(judgement.checks[0].reason.as_ref().unwrap().contains("reaches across the limit"), "{judgement:?}");
    let strict = Thresholds { strict: true, ..growth(&["peak=0"]) };
    assert_eq!(judge_diff(&compare(bounded(4, 2), bounded(3, 2)), &strict).verdict, Verdict::Inconclusive);
}

#[test]
fn devices_that_did_nothing_are_not_gated() {
    let events = || vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    let dump = || vec![event("snapshot", 0, 0)];
    let on_1 = |idle: Vec<Value>| read(vec![segment(1, 4 * MIB)], vec![idle, events()]);
    let limits = &["0", "reserved=0", "stack=0"];
    for (before, after) in [
        (on_1(dump()), on_1(dump())),
        (on_1(vec![]), on_1(dump())),
        (on_1([dump(), dump()].concat()), on_1(dump())),
        (on_1(dump()), allocating(4, vec![])),
    ] {
        let diff = compare(before, after);
        assert_eq!(diff.devices.len(), 1, "{:?}", diff.devices);
        let judgement = judge_diff(&diff, &growth(limits));
        assert_eq!(judgement.verdict, Verdict::Pass, "{}", judgement.headline());
        assert!(judgement.checks.iter().all(|check| !judgement.sentence(check).contains("device")));
    }
    // A device that did something and is gone is another matter.
    let both = read(vec![segment(0, 4 * MIB), segment(1, 4 * MIB)], vec![events(), events()]);
    assert_eq!(judge_diff(&compare(both, on_1(dump())), &growth(limits)).verdict, Verdict::Inconclusive);
}

/// A device that allocates and frees, and one beside it that only holds memory and has other events.
fn beside_held(held: u64, events: Vec<Value>) -> Profile {
    let freed = ["free_requested", "free_completed"].map(|action| event(action, A + 4 * MIB, 2 * MIB));
    let used = [event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB), event("alloc", A + 4 * MIB, 2 * MIB)];
    let held = (held > 0).then(|| segment(1, held));
    read([segment(0, 4 * MIB)].into_iter().chain(held).collect(), vec![[&used[..], &freed].concat(), events])
}

/// Weights from before the recording, or a request that fails, are no less than what another device allocates.
#[test]
fn devices_without_allocations_are_gated_if_they_hold_memory_or_run_out_of_it() {
    let diff =
        |before: Profile, after: Profile, limit: &str| told(&judge_diff(&compare(before, after), &growth(&[limit])));
    let check = |profile: Profile, limit: &str| told(&judge_profile(&profile, &maximum(&[limit])));
    let holding = |mib: u64| beside_held(mib * MIB, vec![]);
    for limit in ["peak=5%", "end=5%", "stack=5%"] {
        assert_eq!(diff(holding(4), holding(4), limit).0, Verdict::Pass, "{limit}");
    }
    assert_reads!(diff(holding(4), holding(6), "peak=5%").1 => str!["FAIL device 1: peak grew 2.00 MiB (+50.0 %), allowed 5 %, most by <before recording> (+2.00 MiB)"]);
    assert_reads!(diff(holding(4), holding(6), "end=5%").1 => str!["FAIL device 1: end grew 2.00 MiB (+50.0 %), allowed 5 % (largest growth there: <before recording> +2.00 MiB)"]);
    assert_reads!(diff(holding(0), holding(6), "end=5%").1 => str!["INCONCLUSIVE device 1: end: the device is missing in the before"]);
    assert_reads!(check(holding(6), "end=5MiB").1 => str!["FAIL device 1: end is 6.00 MiB, allowed 5.00 MiB"]);
    assert_reads!(check(holding(6), "peak=5MiB").1 => str!["FAIL device 0: peak is 6.00 MiB, allowed 5.00 MiB; 1 more check fails"]);
    // Of a request that failed, whatever else the device held.
    let failing = |mib: u64| beside_held(mib * MIB, vec![oom()]);
    assert_reads!(diff(holding(0), failing(0), "peak=5%").1 => str!["FAIL device 1: out of memory: 50.00 MiB requested by main (train.py:7). 0 B were allocated, 0 B reserved, 3.00 MiB free on the device, largest free block of its pool 0 B."]);
    assert_reads!(check(failing(6), "peak=1GiB").1 => str!["FAIL device 1: out of memory: 50.00 MiB requested by main (train.py:7). 6.00 MiB were allocated, 20.00 MiB reserved, 3.00 MiB free on the device, largest free block of its pool 14.00 MiB."]);
    let allowed = Thresholds { allow_oom: true, ..growth(&["peak=5%"]) };
    // An after that no longer uses the device needs no memory there.
    let marked = || beside_held(0, vec![event("snapshot", 0, 0)]);
    for (after, strict) in [(holding(0), false), (holding(0), true), (marked(), false), (marked(), true)] {
        let limits = Thresholds { strict, ..growth(&["peak=5%"]).max("peak=1GiB").unwrap() };
        let judgement = judge_diff(&compare(failing(0), after), &limits);
        assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    }
    assert_eq!(diff(failing(4), holding(0), "peak=5%").0, Verdict::Inconclusive);
    for (before, after) in [(holding(0), failing(0)), (failing(0), failing(0)), (failing(4), failing(4))] {
        assert_eq!(judge_diff(&compare(before, after), &allowed).verdict, Verdict::Pass);
    }
}

/// A segment of this many bytes at the dump, in which no block is in use.
fn cached(device: u64, bytes: u64) -> Value {
    let block =
        [("address", A.into()), ("size", bytes.into()), ("requested_size", 0.into()), ("state", "inactive".into())];
    Value::dict([
        ("device", device.into()),
        ("address", A.into()),
        ("total_size", bytes.into()),
        ("stream", 0.into()),
        ("segment_type", "large".into()),
        ("is_expandable", false.into()),
        ("blocks", vec![Value::dict(block)].into()),
    ])
}

/// Free memory that the allocator keeps is reserved, like any other.
#[test]
fn devices_that_only_keep_free_memory_are_gated() {
    let used = || {
        let freed = ["free_requested", "free_completed"].map(|action| event(action, A + 4 * MIB, 2 * MIB));
        let used = [event("alloc", A, 4 * MIB), event("alloc", A + 4 * MIB, 2 * MIB)];
        used.into_iter().chain(freed).collect::<Vec<Value>>()
    };
    let beside = |mib: u64| read(vec![segment(0, 4 * MIB), cached(1, mib * MIB)], vec![used(), vec![]]);
    let check = |profile: Profile, limit: &str| told(&judge_profile(&profile, &maximum(&[limit]))).1;
    assert_reads!(check(beside(40), "reserved=30MiB") => str!["FAIL device 1: reserved is 40.00 MiB, allowed 30.00 MiB"]);
    assert_reads!(check(beside(40), "peak=30MiB") => str!["PASS device 0: peak is 6.00 MiB, allowed 30.00 MiB"]);
    let grown = |limit: &str| told(&judge_diff(&compare(beside(1), beside(40)), &growth(&[limit]))).1;
    assert_reads!(grown("reserved=5%") => str!["FAIL device 1: reserved grew 39.00 MiB (40 times), allowed 5 %"]);
    assert_reads!(grown("reserved-end=5%") => str!["FAIL device 1: reserved-end grew 39.00 MiB (40 times), allowed 5 %"]);
    assert_reads!(grown("peak=5%") => str!["PASS device 0: peak did not change, allowed 5 %, but device 1: reserved grew 39.00 MiB (40 times)"]);
    // Given back within the recording.
    let given_back = read(vec![segment(0, 4 * MIB)], vec![used(), vec![event("segment_free", A, 40 * MIB)]]);
    assert_reads!(check(given_back, "reserved=30MiB") => str!["FAIL device 1: reserved is 40.00 MiB, allowed 30.00 MiB"]);
    // Alone, it may have been in use.
    let alone = || read(vec![cached(0, 40 * MIB)], vec![vec![]]);
    assert_reads!(check(alone(), "reserved=30MiB") => str!["FAIL reserved is 40.00 MiB, allowed 30.00 MiB"]);
    assert_reads!(check(alone(), "peak=30MiB") => str!["INCONCLUSIVE peak: the snapshot records no allocations, only the state at the dump; peak is not known"]);
}

#[test]
fn devices_without_allocations_are_recorded_like_those_with_some() {
    let holding = beside_held(4 * MIB, vec![]);
    let diff = compare(beside_held(4 * MIB, vec![]), beside_held(6 * MIB, vec![event("alloc", A, 6 * MIB)]));
    assert!(diff.diagnostics.iter().all(|found| found.code != Code::RecordingsDiffer), "{:?}", diff.diagnostics);
    assert_reads!(told(&judge_diff(&diff, &growth(&["stack=0"]))).1 => str!["FAIL device 1: stack main (train.py:7) grew 6.00 MiB, allowed 0 B"]);
    // Nothing can leak on it.
    let search = leak::search(&holding, &LeakOptions::default());
    assert_eq!(search.devices.iter().map(|found| found.device).collect::<Vec<_>>(), [DeviceId::FIRST]);
    let failing = leak::search(&beside_held(4 * MIB, vec![oom()]), &LeakOptions::default());
    assert_reads!(told(&judge_leaks(&failing, LeakLimits::default(), false)).1 => str!["FAIL device 1: out of memory: 50.00 MiB requested by main (train.py:7). 4.00 MiB were allocated, 20.00 MiB reserved, 3.00 MiB free on the device, largest free block of its pool 16.00 MiB."]);
}

#[test]
fn stacks_can_be_limited_absolutely() {
    let judge = |limits: &[&str]| told(&judge_profile(&allocating(4, vec![]), &maximum(limits)));
    assert_eq!(judge(&["stack=4MiB"]), (Verdict::Pass, "PASS no stack is larger than 4.00 MiB".to_owned()));
    let (verdict, line) = judge(&["stack=3MiB"]);
    assert_eq!(verdict, Verdict::Regression);
    assert_eq!(line, "FAIL stack main (train.py:7) is 4.00 MiB, allowed 3.00 MiB");
    // A limit for certain stacks takes the place of that for all.
    assert_eq!(judge(&["stack=3MiB", "stack:main*=4MiB"]).0, Verdict::Pass);
    assert_eq!(judge(&["stack:main*=3MiB"]).0, Verdict::Regression);
    let (verdict, line) = judge(&["stack:attention*=3MiB"]);
    assert!(verdict == Verdict::Inconclusive && line.contains("matches no stack"), "{line}");
}

#[test]
fn fragmentation_is_a_metric() {
    let diff = compare(allocating(8, vec![]), allocating(4, vec![]));
    let (verdict, line) = told(&judge_diff(&diff, &growth(&["fragmentation=1MiB"])));
    // The segment is reserved for the block that follows.
    let grown = "FAIL fragmentation grew 4.00 MiB (+33.3 %), allowed 1.00 MiB";
    assert_eq!((verdict, &*line), (Verdict::Regression, grown));
    assert_eq!(judge_profile(&allocating(4, vec![]), &maximum(&["fragmentation=16MiB"])).verdict, Verdict::Pass);
    let (verdict, line) = told(&judge_profile(&allocating(4, vec![]), &maximum(&["fragmentation=15MiB"])));
    assert_eq!((verdict, &*line), (Verdict::Regression, "FAIL fragmentation is 16.00 MiB, allowed 15.00 MiB"));
}

#[test]
fn the_peak_leads_the_line_where_other_figures_grew_more() {
    let read = |name: &str| {
        let file = std::fs::File::open(fixtures::folder().join(name)).unwrap();
        profile::read(file, name, ReadOptions::default()).unwrap()
    };
    let diff = compare(read("before.pkl"), read("after.pkl"));
    let judgement = judge_diff(&diff, &growth(&["reserved=5%", "stack=5%", "peak=5%"]));
    let (_, line) = told(&judgement);
    assert_reads!(line => str!["FAIL peak grew 53.80 MiB (+19.2 %), allowed 5 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB); 2 more checks fail"]);
    assert_eq!(judgement.checks[1].of.name(), "reserved");
}

/// One device whose peak is 4 MiB, and which holds `mib` MiB at the end.
fn ending_with(mib: u64) -> Profile {
    let first = [event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)];
    let freed = ["free_requested", "free_completed"].map(|action| event(action, A, 4 * MIB));
    let last = event("alloc", A, mib * MIB);
    let events = first.into_iter().chain(freed).chain([last]).collect();
    read(vec![segment(0, mib * MIB)], vec![events])
}

#[test]
fn a_comparison_without_limits_names_what_grew_beside_the_peak() {
    let diff = compare(ending_with(1), ending_with(3));
    let (verdict, line) = told(&judge_diff(&diff, &Thresholds::default()));
    let expected = "PASS nothing was gated (no limit was given): peak did not change, but end grew 2.00 MiB (+200.0 %)";
    assert_eq!((verdict, &*line), (Verdict::Pass, expected));
}

#[test]
fn of_devices_that_grew_alike_the_first_is_named() {
    let both = |mib: u64| {
        let events = || vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, mib * MIB)];
        read(vec![segment(0, mib * MIB), segment(1, mib * MIB)], vec![events(), events()])
    };
    let judged = judge_diff(&compare(both(1), both(3)), &Thresholds::default());
    assert_reads!(judged.headline().to_string() => str!["PASS nothing was gated (no limit was given): device 0: peak grew 2.00 MiB (+200.0 %), most by main (train.py:7) (+2.00 MiB)"]);
}

#[test]
fn a_limit_that_only_warns_keeps_nobody_from_agreeing_to_growth() {
    let fails_alone = |strict| {
        let mut limits = Thresholds { strict, ..growth(&["5%"]) };
        // No stack has this name, so the check is inconclusive.
        limits.growth.push(GrowthLimit::parse("stack:nowhere*=1MiB", Level::Warn).unwrap());
        judge_diff(&compare(allocating(1, vec![]), allocating(3, vec![])), &limits).fails_by_change_alone()
    };
    assert_eq!([false, true].map(fails_alone), [true, false]);
}

#[test]
fn a_pass_tells_what_grew_beside_the_limits() {
    let judged = |before: u64, after: u64, limits: &[&str]| {
        told(&judge_diff(&compare(ending_with(before), ending_with(after)), &growth(limits)))
    };
    let told_of = "PASS peak did not change, allowed 5 %, but end grew 2.00 MiB (+200.0 %)";
    assert_eq!(judged(1, 3, &["5%"]), (Verdict::Pass, told_of.to_owned()));
    // A limit on the end decides about it.
    let limited = "PASS peak did not change, allowed 5 %".to_owned();
    assert_eq!(judged(1, 3, &["5%", "end=3MiB"]), (Verdict::Pass, limited.clone()));
    assert_eq!(judged(1, 3, &["5%", "end=1MiB"]).0, Verdict::Regression);
    // What shrank is no growth, and further growth of the end than of the peak counts.
    assert_eq!(judged(3, 1, &["5%"]), (Verdict::Pass, limited));
    assert_eq!(judged(4, 6, &["60%"]).1, "PASS peak grew 2.00 MiB (+50.0 %), allowed 60 %");
}

/// A program in which each function holds one block, with its size in KiB.
fn holding(stacks: &[(&str, u64)]) -> Profile {
    let mut program = Program::default();
    stacks.iter().for_each(|(function, kib)| program.alloc(*function, &format!("{function}:7"), 1024 * kib));
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn a_pass_does_not_speak_of_stacks_that_are_not_checked() {
    let (before, after) = (&[("a", 1000), ("b", 800)], &[("a", 1000), ("b", 1000)]);
    let sentence = |before, after, limits: &[&str], min_delta| {
        let thresholds = Thresholds { min_delta, ..growth(limits) };
        told(&judge_diff(&compare(holding(before), holding(after)), &thresholds))
    };
    let pass = |words: &str| (Verdict::Pass, format!("PASS {words}"));
    let beside = ", but peak grew 200.00 KiB (+11.1 %)";
    let small = "no stack grew by more than 0 B and at least 1.00 MiB (min-delta)";
    assert_eq!(sentence(before, after, &["stack=0"], MIB), pass(small));
    let other = format!("no other stack grew by more than 0 B{beside}");
    assert_eq!(sentence(before, after, &["stack=0", "stack:b (*=50%"], 0), pass(&other));
    let highest = format!("no other stack-highest grew by more than 0 B{beside}");
    assert_eq!(sentence(before, after, &["stack-highest=0", "stack-highest:b (*=50%"], 0), pass(&highest));
    assert_eq!(sentence(after, before, &["stack=0"], MIB), pass("no stack grew by more than 0 B"));
}

#[test]
fn headroom_is_left_on_the_device() {
    let judge = |memory: u64, overhead: Option<u64>, least: u64| {
        let memory = DeviceMemory { bytes: memory * MIB, overhead: overhead.map(|bytes| bytes * MIB) };
        let headroom = Some(Headroom { memory, least: least * MIB });
        told(&judge_profile(&allocating(4, vec![]), &Thresholds { headroom, ..Thresholds::default() }))
    };
    assert_eq!(judge(24, None, 4).0, Verdict::Pass);
    let expected = "FAIL headroom is 4.00 MiB: 20.00 MiB of 24.00 MiB reserved at the peak, overhead unknown, \
                    at least 5.00 MiB must be left";
    assert_eq!(judge(24, None, 5), (Verdict::Regression, expected.to_owned()));
    assert!(judge(16, None, 0).1.starts_with("FAIL there is no headroom"));
    assert_eq!(judge(27, Some(3), 4).0, Verdict::Pass);
    let (verdict, line) = judge(24, Some(1), 4);
    assert_eq!(verdict, Verdict::Regression);
    assert_reads!(line => str!["FAIL headroom is 3.00 MiB: 20.00 MiB of 24.00 MiB reserved at the peak, 1.00 MiB overhead (given), at least 4.00 MiB must be left"]);
    assert!(judge(24, Some(5), 0).1.starts_with("FAIL there is no headroom"));
}

#[test]
fn categories_add_up_to_the_change() {
    let diff = compare(allocating(8, vec![]), allocating(4, vec![]));
    let categories: i128 = diff.devices[0].categories.iter().map(|of| of.held.delta()).sum();
    assert_eq!(Some(categories), diff.devices[0].metric(Metric::Peak).gained());
}

#[test]
fn the_library_compares_where_the_program_does_the_same() {
    let read = |name: &str| {
        let file = std::fs::File::open(fixtures::folder().join(name)).unwrap();
        ptmem::read(file, name, ReadOptions::default()).unwrap()
    };
    let gate = ptmem::compare(read("leak.pkl"), read("no-leak.pkl"), &Thresholds::default());
    let device = &gate.only().unwrap().diff.devices[0];
    let places = device.places.as_ref().unwrap();
    assert_eq!(places.reason, None);
    assert!(places.higher_elsewhere() > 0, "the leak has its peak in its last step");
    let rows: i128 = device.rows.iter().map(diff::Row::delta).sum();
    assert_eq!(Some(rows), device.metric(Metric::Peak).gained());
}
