//! Memory that reference cycles hold until Python's garbage collector runs is no leak.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::fixtures;
use crate::support::history::{A, MIB, event, frames, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// Steps, and the address of the block that each keeps.
const STEPS: u64 = 12;

fn kept(step: u64) -> u64 {
    A + 100 * MIB + step * 2 * MIB
}

/// The place and size of a buffer that each step replaces by a larger one.
fn buffer(step: u64) -> (u64, u64) {
    (kept(STEPS) + step * (step + 1) / 2 * MIB / 2, (step + 1) * MIB / 2)
}

/// Steps that keep a block each. After some of them, all blocks so far are freed, one of them in the program.
fn steps(freeing: &[u64]) -> Value {
    steps_beside(freeing, false)
}

/// The same steps, also with the growing buffer.
fn steps_beside(freeing: &[u64], has_buffer: bool) -> Value {
    let mut events = vec![event("segment_alloc", A, 200 * MIB)];
    let mut held = Vec::new();
    for step in 0..STEPS {
        for name in ["load", "forward", "loss", "backward"] {
            events.push(event("alloc", A, 2 * MIB).with("frames", frames(name)));
            events.extend(free(A, 2 * MIB));
        }
        events.push(event("alloc", kept(step), 2 * MIB).with("frames", frames("keep")));
        held.push(kept(step));
        if freeing.contains(&step) {
            events.extend(held.drain(..).flat_map(|place| free(place, 2 * MIB)));
        }
        if has_buffer {
            let (place, size) = buffer(step);
            events.push(event("alloc", place, size).with("frames", frames("append")));
            let before = step.checked_sub(1).map(buffer);
            events.extend(before.into_iter().flat_map(|(place, size)| free(place, size)));
        }
    }
    let blocks: Vec<(u64, bool)> = (0..STEPS).map(|step| (2 * MIB, held.contains(&kept(step)))).collect();
    let kept_until = kept(STEPS) - A;
    let (place, size) = buffer(STEPS - 1);
    let (place, size) = if has_buffer { (place - A, size) } else { (kept_until, 0) };
    let mut rest = vec![(place - kept_until, false), (size, true), (200 * MIB - place - size, false)];
    rest.retain(|(size, _)| *size > 0);
    snapshot(vec![segment(A, &[&[(100 * MIB, false)], &*blocks, &rest].concat())], events)
}

/// Numbers of frees before and after runs of the collector, blocks that it freed after the dump, and frees until then.
type Collected<'a> = (&'a [[u64; 2]], &'a [u64], u64);

/// The report on the steps, where the collector made these frees, by their numbers, and freed these blocks after the dump.
fn leaks(folder: &Path, program: Value, collected: Option<Collected<'_>>) -> Json {
    let facts = collected.map_or(json!({"format": 1}), |(frees, blocks, freed)| {
        json!({"format": 1, "collected": [{"device": 0, "blocks": blocks, "frees": frees, "freed": freed}]})
    });
    let program = pickle::write(&program.with("ptmem", facts), pickle::Options::default());
    fs::write(folder.join("run.pkl"), program).unwrap();
    let report: Json =
        serde_json::from_str(&text(&ptmem(folder, &["leak", "run.pkl", "--format", "json"]).stdout)).unwrap();
    report
}

fn verdict_and_metric(report: &Json) -> [&str; 2] {
    let metric = report["leaks"].get(0).map_or("none", |leak| leak["metric"].as_str().unwrap());
    [report["verdict"].as_str().unwrap(), metric]
}

fn says(report: &Json, code: &str) -> bool {
    report["diagnostics"].as_array().unwrap().iter().any(|found| found["code"] == code)
}

#[test]
fn what_came_back_after_the_dump_is_a_finding_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<u64> = (0..STEPS).map(kept).collect();
    let report = leaks(folder.path(), steps(&[]), Some((&[], &all, 4 * STEPS)));
    assert_eq!(verdict_and_metric(&report), ["pass", "cycles"], "{report:#}");
    assert_eq!(report["leaks"][0]["bytes_per_step"], 2 * MIB);
    let (exit, line) = verdict(&ptmem(folder.path(), &["leak", "run.pkl", "--max-leak", "cycles=1MiB"]));
    assert_eq!(exit, 1);
    assert_reads!(line => str!["FAIL keep (train.py:7): 2.00 MiB per step are held by reference cycles until Python's garbage collector runs, in 10 of 10 steps, allowed 1.00 MiB per step"]);
    assert_eq!(verdict(&ptmem(folder.path(), &["leak", "run.pkl", "--max-leak", "cycles=2MiB"])).0, 0);
    // A saved profile knows it, too.
    let saved = ptmem(folder.path(), &["profile", "run.pkl", "-o", "run.ptmem.json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    assert_eq!(verdict(&ptmem(folder.path(), &["leak", "run.ptmem.json"])).0, 0);
}

/// The limit on cycles allows nothing that grows beside them.
#[test]
fn growth_beside_cycles_is_not_decided() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<u64> = (0..STEPS).map(kept).collect();
    let collected: Collected<'_> = (&[], &all, 5 * STEPS - 1);
    let report = leaks(folder.path(), steps_beside(&[], true), Some(collected));
    assert_eq!(verdict_and_metric(&report), ["inconclusive", "cycles"], "{report:#}");
    let (exit, line) = verdict(&ptmem(folder.path(), &["leak", "run.pkl"]));
    assert_eq!(exit, 3);
    assert_reads!(line => str!["INCONCLUSIVE leak: allocated bytes grow beside what reference cycles hold; the stack that grew most is append (train.py:7)"]);
}

#[test]
fn what_the_collector_freed_while_the_program_ran_is_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let at_end = steps(&[STEPS - 1]);
    let [before, after] = [4 * STEPS, 5 * STEPS];
    let report = leaks(folder.path(), at_end.clone(), Some((&[[before, after]], &[], after)));
    assert_eq!(verdict_and_metric(&report), ["pass", "cycles"], "{report:#}");
    // The same frees by the program: it gives up what it kept when it ends.
    let report = leaks(folder.path(), at_end, Some((&[], &[], after)));
    assert_eq!(verdict_and_metric(&report), ["regression", "allocated"], "{report:#}");
    // A history that lacks its beginning.
    let report = leaks(folder.path(), steps(&[STEPS - 1]), Some((&[[before + 7, after + 7]], &[], after + 7)));
    assert_eq!(verdict_and_metric(&report), ["pass", "cycles"], "{report:#}");
}

/// The report on a program in which the collector happens to run.
pub(crate) fn collected_on_the_way(folder: &Path) -> Json {
    let frees: Vec<[u64; 2]> = (1..=3).map(|time| [time * 20 - 4, time * 20]).collect();
    leaks(folder, steps(&[3, 7, 11]), Some((&frees, &[], 60)))
}

#[test]
fn cycles_that_do_not_grow_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let report = collected_on_the_way(folder.path());
    assert_eq!(verdict_and_metric(&report), ["pass", "none"], "{report:#}");
    assert!(says(&report, "reference-cycles"), "{report:#}");
}

/// The collector runs once in the first steps, and then after the dump.
#[test]
fn growth_by_cycles_alone_is_not_unexplained() {
    let folder = tempfile::tempdir().unwrap();
    let after: Vec<u64> = (5..STEPS).map(kept).collect();
    let report = leaks(folder.path(), steps(&[4]), Some((&[[20, 25]], &after, 4 * STEPS + 5)));
    assert_eq!(verdict_and_metric(&report), ["pass", "none"], "{report:#}");
    assert!(says(&report, "reference-cycles") && !says(&report, "allocated-grows"), "{report:#}");
    // The same frees by the program.
    let report = leaks(folder.path(), steps(&[4]), Some((&[], &[], 4 * STEPS + 5)));
    assert!(says(&report, "allocated-grows"), "{report:#}");
}

#[test]
fn without_that_knowledge_a_leak_says_what_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = leaks(folder.path(), steps(&[]), None);
    assert_eq!(verdict_and_metric(&unknown), ["regression", "allocated"]);
    assert!(says(&unknown, "cycles-unknown"), "{unknown:#}");
    let known = leaks(folder.path(), steps(&[]), Some((&[], &[], 4 * STEPS)));
    assert_eq!(verdict_and_metric(&known), ["regression", "allocated"]);
    assert!(!says(&known, "cycles-unknown") && !says(&known, "reference-cycles"), "{known:#}");
}

/// One graph: several stacks whose blocks stay in the same steps.
#[test]
fn what_is_kept_together_is_one_finding_with_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = vec![event("segment_alloc", A, 200 * MIB)];
    let mut place = A + 100 * MIB;
    for step in 0..STEPS {
        for name in ["load", "forward", "loss", "backward"] {
            events.push(event("alloc", A, 2 * MIB).with("frames", frames(name)));
            events.extend(free(A, 2 * MIB));
        }
        let odd = if step % 5 == 0 { &["odd"][..] } else { &[] };
        for name in ["mm", "gelu", "gelu", "norm"].iter().chain(odd) {
            events.push(event("alloc", place, MIB / 2).with("frames", frames(name)));
            place += MIB / 2;
        }
    }
    let held = place - A - 100 * MIB;
    let segments = vec![segment(A, &[(100 * MIB, false), (held, true), (100 * MIB - held, false)])];
    let report = leaks(folder.path(), snapshot(segments, events), None);
    assert_eq!(report["leaks"].as_array().unwrap().len(), 3, "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!((checks.len(), &checks[0]["delta"]), (1, &json!(2 * MIB)), "{report:#}");
    let (_, line) = verdict(&ptmem(folder.path(), &["leak", "run.pkl"]));
    assert_reads!(line => str!["FAIL gelu (train.py:7) and 2 others together leak 2.00 MiB per step, in 10 of 10 steps, allowed 0 B per step"]);
    let junit = text(&ptmem(folder.path(), &["leak", "run.pkl", "--format", "junit"]).stdout);
    assert!(junit.contains("+512.00 KiB") && junit.matches("<failure").count() == 1, "{junit}");
}

#[test]
fn a_limit_on_what_cycles_hold_needs_to_know_that() {
    let line = |limit: &str| {
        let limits = ["--max-leak", "1GiB", "--max-leak", limit, "--config", "none"];
        judged(verdict(&ptmem(&fixtures::folder(), &[&["leak", "leak.pkl"], &limits[..]].concat())))
    };
    assert_reads!(line("cycles=320KiB") => str!["3: INCONCLUSIVE leak: the recording does not say how much of what leaks reference cycles hold"]);
    // It leaks no more than that.
    assert_reads!(line("cycles=321KiB") => str!["0: PASS train_step (train.py:30) aten::sqrt (+1 more line) leaks 320.50 KiB per step, in 10 of 10 steps, allowed 1.00 GiB per step"]);
}
