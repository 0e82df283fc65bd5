//! Limits on phases that allocate nothing. If PyTorch names them, such as `Optimizer.zero_grad`, their peaks are what other code holds.

use super::limits::judge;
use super::{alloc, free, profile_of};
use ptmem::diff::{Occurrences, PhaseOptions};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Profile, ReadOptions};

/// A phase that PyTorch names.
const CALL: &str = "Optimizer.zero_grad#SGD.zero_grad";

/// Two rounds in which other code holds memory around a phase, which allocates some of its own, after it frees some of what is held:
/// all in MiB.
fn rounds(held: i64, freed: i64, own: [i64; 2]) -> Profile {
    rounds_in(CALL, held, freed, own)
}

fn rounds_in(name: &str, held: i64, freed: i64, own: [i64; 2]) -> Profile {
    let (mut events, mut marks, mut blocks) = (Vec::new(), Vec::new(), 0);
    for (start, own) in (0_i64..).step_by(1000).zip(own) {
        marks.extend([("START", name, start + 100), ("END", name, start + 200)]);
        let round = [(10, 10 + held - freed, 300), (20, freed, 110), (120, own, 130)];
        for (from, mib, to) in round.into_iter().filter(|(_, mib, _)| *mib > 0) {
            blocks += 1;
            events.extend([alloc(start + from, mib), free(start + to, blocks)]);
        }
    }
    events.sort_by_key(|event| event.time);
    profile_of(&events, &marks)
}

/// The headline where the phase of both sides is judged.
fn judged(before: Profile, after: Profile, limit: &str) -> String {
    judge(before, after, PhaseOptions::default(), &[limit]).headline().to_string()
}

/// The same where it is judged by its highest occurrence, for which other code holds more in the after.
fn judged_by_highest(own: [i64; 2]) -> String {
    let phases = PhaseOptions { occurrences: Occurrences::Worst, ..PhaseOptions::default() };
    judge(rounds(10, 0, [0; 2]), rounds(20, 0, own), phases, &["phase=5%"]).headline().to_string()
}

#[test]
fn a_limit_on_all_phases_is_about_those_that_the_program_names() {
    for name in ["update", "Optimizer.step", "ProfilerStep#7"] {
        let [before, after] = [10, 20].map(|held| rounds_in(name, held, 0, [0; 2]));
        let told = judged(before, after, "phase=5%");
        assert!(told.starts_with("FAIL phase") && told.contains("grew 10.00 MiB"), "{told}");
    }
    for name in [CALL, "Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] {
        let [before, after] = [10, 20].map(|held| rounds_in(name, held, 0, [0; 2]));
        let told = judged(before, after, "phase=5%");
        assert!(told.starts_with("INCONCLUSIVE"), "{told}");
    }
}

#[test]
fn a_limit_on_all_phases_is_not_about_calls_of_pytorch_that_allocate_nothing() {
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0; 2]), "phase=5%") => str!["INCONCLUSIVE phase: the only phases on both sides are calls of PyTorch that allocate nothing"]);
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0; 2]), "phase:Optimizer*=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 grew 10.00 MiB (+50.0 %), allowed 5 %. 2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +10.00 MiB."]);
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(10, 0, [0; 2]), "phase=5%") => str!["INCONCLUSIVE phase: the only phases on both sides are calls of PyTorch that allocate nothing"]);
    let saved = text_of(&rounds(20, 0, [0; 2]), &[]).unwrap();
    let saved = profile::read(saved.as_bytes(), "x", ReadOptions::default()).unwrap();
    assert_eq!(
        judged(rounds(10, 0, [0; 2]), saved, "phase=5%"),
        judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0; 2]), "phase=5%")
    );
}

#[test]
fn a_phase_is_judged_if_a_side_allocates() {
    // It allocates something now.
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(10, 0, [3; 2]), "phase=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 grew 3.00 MiB (+15.0 %), allowed 5 %. 2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +3.00 MiB."]);
    assert_reads!(judged(rounds(10, 0, [1; 2]), rounds(20, 0, [1; 2]), "phase=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 grew 10.00 MiB (+47.6 %), allowed 5 %. 2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +10.00 MiB."]);
    // Each occurrence counts for itself.
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0, 1]), "phase=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #1 grew 11.00 MiB (+55.0 %), allowed 5 % (largest growth there: f (a.py:7) +11.00 MiB)"]);
    // It allocates nothing any more, which is a change.
    assert_reads!(judged(rounds(10, 0, [8; 2]), rounds(20, 0, [0; 2]), "phase=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 grew 2.00 MiB (+7.1 %), allowed 5 %. 2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +2.00 MiB."]);
    assert_reads!(judged(rounds(10, 0, [8; 2]), rounds(10, 0, [0; 2]), "phase=±5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 improved by 8.00 MiB (-28.6 %), allowed ±5 %: update the before (2 of 2 occurrences exceed it)"]);
    // What fits into the room of what it frees is below what other code held.
    assert_reads!(judged(rounds(10, 4, [3; 2]), rounds(20, 4, [4; 2]), "phase=5%") => str!["INCONCLUSIVE phase: the only phases on both sides are calls of PyTorch that allocate nothing"]);
    assert_reads!(judged(rounds(10, 4, [3; 2]), rounds(20, 4, [5; 2]), "phase=5%") => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 grew 11.00 MiB (+55.0 %), allowed 5 %. 2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +11.00 MiB."]);
}

#[test]
fn the_check_of_other_phases_excepts_those_that_it_is_not_about() {
    let [before, after] = [rounds(10, 0, [0, 4]), rounds(15, 0, [0, 0])];
    assert_reads!(judged(before, after, "phase=2MiB") => str!["PASS no outermost named phase grew by more than 2.00 MiB, except calls of PyTorch that allocate nothing, but reserved grew 6.00 MiB (+13.6 %)"]);
}

#[test]
fn of_the_highest_occurrences_one_that_allocates_is_enough() {
    assert_reads!(judged_by_highest([0; 2]) => str!["INCONCLUSIVE phase: the only phases on both sides are calls of PyTorch that allocate nothing"]);
    assert_reads!(judged_by_highest([0, 1]) => str!["FAIL phase Optimizer.zero_grad#SGD.zero_grad #0 -> #1 grew 11.00 MiB (+55.0 %), allowed 5 % (largest growth there: f (a.py:7) +11.00 MiB)"]);
}
