//! Several limits on things of one kind: what they share, which of them applies, and what reports say of the others.

use crate::support::program::Program;
use ptmem::diff::{self, DiffOptions};
use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::verdict::{Accepted, Judgement, Thresholds, judge_diff, judge_profile};

/// A program in which each function holds one block, with its size in KiB.
fn holding(stacks: &[(&str, u64)]) -> Profile {
    let mut program = Program::default();
    stacks.iter().for_each(|(function, kib)| program.alloc(*function, &format!("{function}:7"), 1024 * kib));
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

/// The verdict on two functions that grow by 100 KiB each, of which an agreement accepts a number of KiB together.
fn accepting(kib: u64, limits: &[&str], warnings: &[&str]) -> Judgement {
    let [before, after] = [400, 500].map(|kib| holding(&[("fa", kib), ("fb", kib), ("rest", 900)]));
    let accepted = Accepted {
        subjects: ["stack:fa*", "stack:fb*"].map(|subject| subject.parse().unwrap()).to_vec(),
        through: None,
        bytes: kib << 10,
        reason: "agreed".to_owned(),
        expires: "9999-12-31".parse().unwrap(),
    };
    let thresholds = Thresholds { min_delta: 0, accepted: vec![accepted], ..Thresholds::default() };
    let thresholds = limits.iter().fold(thresholds, |thresholds, limit| thresholds.max_growth(limit).unwrap());
    let thresholds = warnings.iter().fold(thresholds, |thresholds, limit| thresholds.warn_growth(limit).unwrap());
    judge_diff(&diff::compare(before, after, DiffOptions::default()), &thresholds)
}

#[test]
fn stacks_share_what_is_accepted_whatever_number_of_limits_is_on_them() {
    let line = |kib: u64, limits: &[&str]| accepting(kib, limits, &[]).headline().to_string();
    assert_reads!(line(199, &["stack=0"]) => str!["FAIL stack fb (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (99.00 KiB accepted until 9999-12-31: agreed)"]);
    assert_reads!(line(200, &["stack=0"]) => str!["PASS stack fa (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (100.00 KiB accepted until 9999-12-31: agreed), but peak grew 200.00 KiB (+11.8 %)"]);
    assert_reads!(line(199, &["stack=0", "stack:fa*=0"]) => str!["FAIL stack fa (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (99.00 KiB accepted until 9999-12-31: agreed)"]);
    assert_reads!(line(200, &["stack=0", "stack:fa*=0"]) => str!["PASS stack fb (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (100.00 KiB accepted until 9999-12-31: agreed), but peak grew 200.00 KiB (+11.8 %)"]);
    // The growth of one stack is covered once.
    assert_reads!(line(199, &["stack:f*=0", "stack:fa*=0"]) => str!["FAIL stack fb (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (99.00 KiB accepted until 9999-12-31: agreed)"]);
    assert_reads!(line(200, &["stack:f*=0", "stack:fa*=0"]) => str!["PASS stack fa (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (100.00 KiB accepted until 9999-12-31: agreed), but peak grew 200.00 KiB (+11.8 %)"]);
    // Limits that only warn take nothing from those that fail.
    let beside_warning = accepting(100, &["stack:fa*=0"], &["stack:fb*=0"]);
    assert_reads!(beside_warning.headline().to_string() => str!["PASS stack fa (job.py:7) grew 100.00 KiB (+25.0 %), allowed 0 B (100.00 KiB accepted until 9999-12-31: agreed), but peak grew 200.00 KiB (+11.8 %)"]);
}

/// A program with this peak and this end, in KiB.
fn peaking(peak: u64, end: u64) -> Profile {
    let mut program = Program::default();
    program.alloc("kept", "load:3", 1024 * end);
    program.alloc("freed", "step:7", 1024 * (peak - end));
    program.free("freed");
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn growth_comes_before_an_improvement() {
    let diff = diff::compare(peaking(900, 100), peaking(400, 200), DiffOptions::default());
    let thresholds = Thresholds::default().max_growth("±5%").unwrap().max_growth("end=5%").unwrap();
    assert_reads!(judge_diff(&diff, &thresholds).headline().to_string() => str!["FAIL end grew 100.00 KiB (+100.0 %), allowed 5 % (largest growth there: load (job.py:3) +100.00 KiB); 1 more check fails"]);
}

/// A program with a phase of each name, in which this number of KiB is held.
fn phases(phases: &[(&str, u64)]) -> Profile {
    let mut program = Program::default();
    for (name, kib) in phases {
        program.mark("START", name);
        program.alloc(*name, &format!("{name}:5"), 1024 * kib);
        program.free(name);
        program.mark("END", name);
    }
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn a_limit_on_all_phases_passes_where_each_has_a_limit_of_its_own() {
    let diff = diff::compare(
        phases(&[("forward", 100), ("backward", 900)]),
        phases(&[("forward", 200), ("backward", 900)]),
        DiffOptions::default(),
    );
    let judged = |limits: &[&str]| {
        let thresholds = Thresholds::default();
        let thresholds = limits.iter().fold(thresholds, |thresholds, limit| thresholds.max_growth(limit).unwrap());
        let judgement = judge_diff(&diff, &thresholds);
        let notes = judgement.diagnostics.iter().map(|note| format!("\n{}: {}", note.code, note.message));
        judgement.headline().to_string() + &notes.collect::<String>()
    };
    assert_reads!(judged(&["phase=5%", "phase:forward=500%"]) => str!["PASS no other outermost named phase grew by more than 5 %"]);
    assert_reads!(judged(&["phase=5%", "phase:forward=500%", "phase:backward=5%"]) => str!["PASS no other outermost named phase grew by more than 5 %"]);
    assert_reads!(judged(&["5%", "phase=5%", "phase:*=500%"]) => str!["PASS peak did not change, allowed 5 %"]);
    assert_reads!(judged(&["phase=±500%", "phase:forward=50%"]) => str![[r#"
FAIL phase forward grew 100.00 KiB (+100.0 %), allowed 50 %. phase forward is known to within 84.00 KiB, which reaches across the limit; largest growth there: forward (job.py:5) +100.00 KiB.
within-error: phase forward is known to within 84.00 KiB, which reaches across the limit
"#]]);
}

#[test]
fn an_absolute_limit_on_all_stacks_does_not_speak_of_those_with_a_limit_of_their_own() {
    let profile = holding(&[("fa", 500), ("rest", 100)]);
    let judged = |limits: &[&str]| {
        let thresholds = Thresholds::default();
        let thresholds = limits.iter().fold(thresholds, |thresholds, limit| thresholds.max(limit).unwrap());
        judge_profile(&profile, &thresholds).headline().to_string()
    };
    assert_reads!(judged(&["stack=200KiB", "stack:fa*=1MiB"]) => str!["PASS no other stack is larger than 200.00 KiB"]);
    assert_reads!(judged(&["stack=1MiB", "stack:fa*=1MiB"]) => str!["PASS no stack is larger than 1.00 MiB"]);
    assert_reads!(judged(&["stack=50KiB", "stack:fa*=1MiB"]) => str!["FAIL stack rest (job.py:7) is 100.00 KiB, allowed 50.00 KiB"]);
}
