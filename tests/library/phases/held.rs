//! Limits on phases that allocate nothing, such as `Optimizer.zero_grad`: their peaks are what other code holds.

use super::limits::judge;
use super::{alloc, free, profile_of};
use ptmem::diff::{Occurrences, PhaseOptions};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Profile, ReadOptions};

/// Two rounds in which other code holds memory around a phase, which allocates some of its own, after it frees some of what is held:
/// all in MiB.
fn rounds(held: i64, freed: i64, own: [i64; 2]) -> Profile {
    let (mut events, mut marks, mut blocks) = (Vec::new(), Vec::new(), 0);
    for (start, own) in (0_i64..).step_by(1000).zip(own) {
        marks.extend([("START", "next", start + 100), ("END", "next", start + 200)]);
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
fn a_limit_on_all_phases_is_not_about_those_that_allocate_nothing() {
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0; 2]), "phase=5%") => str!["INCONCLUSIVE phase: no phase that both name holds more than at its beginning"]);
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0; 2]), "phase:next=5%") => str!["FAIL phase next #0 grew 10.00 MiB (+50.0 %), allowed 5 % (2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +10.00 MiB)"]);
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(10, 0, [0; 2]), "phase=5%") => str!["INCONCLUSIVE phase: no phase that both name holds more than at its beginning"]);
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
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(10, 0, [3; 2]), "phase=5%") => str!["FAIL phase next #0 grew 3.00 MiB (+15.0 %), allowed 5 % (2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +3.00 MiB)"]);
    assert_reads!(judged(rounds(10, 0, [1; 2]), rounds(20, 0, [1; 2]), "phase=5%") => str!["FAIL phase next #0 grew 10.00 MiB (+47.6 %), allowed 5 % (2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +10.00 MiB)"]);
    // Each occurrence counts for itself.
    assert_reads!(judged(rounds(10, 0, [0; 2]), rounds(20, 0, [0, 1]), "phase=5%") => str!["FAIL phase next #1 grew 11.00 MiB (+55.0 %), allowed 5 % (largest growth there: f (a.py:7) +11.00 MiB)"]);
    // It allocates nothing any more, which is a change.
    assert_reads!(judged(rounds(10, 0, [8; 2]), rounds(20, 0, [0; 2]), "phase=5%") => str!["FAIL phase next #0 grew 2.00 MiB (+7.1 %), allowed 5 % (2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +2.00 MiB)"]);
    assert_reads!(judged(rounds(10, 0, [8; 2]), rounds(10, 0, [0; 2]), "phase=±5%") => str!["FAIL phase next #0 improved by 8.00 MiB (-28.6 %), allowed ±5 %: update the before (2 of 2 occurrences exceed it)"]);
    // What fits into the room of what it frees is below what other code held.
    assert_reads!(judged(rounds(10, 4, [3; 2]), rounds(20, 4, [4; 2]), "phase=5%") => str!["INCONCLUSIVE phase: no phase that both name holds more than at its beginning"]);
    assert_reads!(judged(rounds(10, 4, [3; 2]), rounds(20, 4, [5; 2]), "phase=5%") => str!["FAIL phase next #0 grew 11.00 MiB (+55.0 %), allowed 5 % (2 of 2 occurrences exceed it; largest growth there: f (a.py:7) +11.00 MiB)"]);
}

#[test]
fn the_check_of_other_phases_names_what_other_code_holds() {
    let [before, after] = [rounds(10, 0, [0, 4]), rounds(15, 0, [0, 0])];
    assert_reads!(judged(before, after, "phase=2MiB") => str!["PASS no other outermost named phase grew by more than 2.00 MiB (next grew 5.00 MiB, which other code holds), but reserved grew 6.00 MiB (+13.6 %)"]);
}

#[test]
fn of_the_highest_occurrences_one_that_allocates_is_enough() {
    assert_reads!(judged_by_highest([0; 2]) => str!["INCONCLUSIVE phase: no phase that both name holds more than at its beginning"]);
    assert_reads!(judged_by_highest([0, 1]) => str!["FAIL phase next #0 -> #1 grew 11.00 MiB (+55.0 %), allowed 5 % (largest growth there: f (a.py:7) +11.00 MiB)"]);
}
