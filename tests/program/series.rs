//! The order of a series: that of the recorded times, which the shell does not know.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::history::{A, MIB, event, segment, snapshot};
use crate::support::pickle;
use crate::support::program::Program;
use crate::support::readers::check_json;
use crate::support::tool::{judged, ptmem, text, verdict};

/// The leaking series, under other names in the order of its steps.
fn named(names: [&str; 3]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, step) in names.iter().zip([100, 200, 300]) {
        let from = fixtures::folder().join(format!("leak-series/step-{step}.pkl"));
        fs::copy(from, place.path().join(name)).unwrap();
    }
    place
}

/// The exit code, the names of the steps, and the codes of the remarks.
fn searched(place: &Path, arguments: &[&str]) -> (Option<i32>, Vec<String>, Vec<String>) {
    let output = ptmem(place, &[&["leak", "--format", "json"], arguments].concat());
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let texts = |list: &str, key: &str| {
        let all = report[list].as_array().unwrap().iter();
        all.map(|one| one[key].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    (output.status.code(), texts("steps", "name"), texts("diagnostics", "code"))
}

#[test]
fn files_in_the_order_of_the_shell_are_sorted() {
    let place = named(["step-80.pkl", "step-90.pkl", "step-100.pkl"]);
    let (exit, steps, remarks) = searched(place.path(), &["step-100.pkl", "step-80.pkl", "step-90.pkl"]);
    assert_eq!((exit, steps), (Some(1), ["step-80.pkl", "step-90.pkl", "step-100.pkl"].map(str::to_owned).to_vec()));
    assert!(remarks.contains(&"series-sorted".to_owned()), "{remarks:?}");
    let (exit, _, remarks) = searched(place.path(), &["step-80.pkl", "step-90.pkl", "step-100.pkl"]);
    assert_eq!(exit, Some(1));
    assert!(!remarks.contains(&"series-sorted".to_owned()), "{remarks:?}");
}

#[test]
fn names_without_an_order_leave_it_to_the_times() {
    let place = named(["start.pkl", "middle.pkl", "end.pkl"]);
    let (exit, steps, _) = searched(place.path(), &["."]);
    assert_eq!((exit, steps), (Some(1), ["./start.pkl", "./middle.pkl", "./end.pkl"].map(str::to_owned).to_vec()));
}

/// With one file of figures, only totals could be compared.
#[test]
fn figures_among_snapshots_count_if_they_are_named() {
    let place = named(["step-1.pkl", "step-2.pkl", "step-3.pkl"]);
    fs::write(place.path().join("timing.json"), "{\"start\": 1732180000, \"end\": 1732180100}").unwrap();
    fs::write(place.path().join("step-3.json"), "{\"end\": 1732180100}").unwrap();
    let (exit, steps, remarks) = searched(place.path(), &["."]);
    assert_eq!((exit, steps.len()), (Some(1), 3), "{remarks:?}");
    fs::write(place.path().join("stats.json"), "{\"memory_allocated\": 1}").unwrap();
    let (exit, steps, remarks) = searched(place.path(), &["."]);
    assert_eq!((exit, steps.len()), (Some(1), 3), "{remarks:?}");
    assert!(remarks.contains(&"files-skipped".to_owned()), "{remarks:?}");
    let (exit, steps, remarks) = searched(place.path(), &["*.pkl", "stats.json"]);
    assert_eq!((exit, steps.len()), (Some(0), 4), "{remarks:?}");
    assert!(remarks.contains(&"stacks-not-compared".to_owned()), "{remarks:?}");
    // Most of a series are not left out.
    for night in 1..=4 {
        let figures = format!("{{\"memory_allocated\": {}}}", night * 1_000_000_000_u64);
        fs::write(place.path().join(format!("step-1{night}.json")), figures).unwrap();
    }
    let (exit, steps, remarks) = searched(place.path(), &["."]);
    assert_eq!((exit, steps.len()), (Some(1), 8), "{remarks:?}");
}

/// A date behind a word for a process is not a rank, of which each would have one snapshot.
/// A saved profile without usable steps begins a series, but not if steps are asked for.
#[test]
fn steps_that_are_asked_for_are_looked_for_in_a_saved_profile() {
    let place = tempfile::tempdir().unwrap();
    fs::copy(fixtures::folder().join("leak.pkl"), place.path().join("leak.pkl")).unwrap();
    let saved = ptmem(place.path(), &["profile", "leak.pkl", "-o", "leak.ptmem.json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    for options in [["--step", "nosuch"], ["--windows", "3"]] {
        let [expected, found] = ["leak.pkl", "leak.ptmem.json"]
            .map(|file| verdict(&ptmem(place.path(), &[&["leak", file], &options[..]].concat())));
        assert_eq!(expected.0, 3, "{options:?}: {}", expected.1);
        assert_eq!(found, expected, "{options:?}");
    }
}

/// Recordings that end together are of ranks, whatever their names are, and not a series in which nothing grows.
#[test]
fn recordings_that_end_together_are_of_ranks() {
    let verdict_on = |names: [&str; 2], arguments: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        for name in names {
            fs::copy(fixtures::folder().join("leak.pkl"), place.path().join(name)).unwrap();
        }
        judged(verdict(&ptmem(place.path(), &[&["leak"], arguments].concat())))
    };
    let words = verdict_on(["snapshot_rank0.pickle", "snapshot_rank1.pickle"], &["."]);
    assert_reads!(words => str!["1: FAIL rank 0: train_step (train.py:30) aten::sqrt (+1 more line) leaks 320.50 KiB per step, in 10 of 10 steps, allowed 0 B per step; and 1 more rank"]);
    let bare = ["snapshot_0.pickle", "snapshot_1.pickle"];
    assert_eq!(verdict_on(bare, &["."]), words);
    assert_reads!(verdict_on(["dp_rank0_tp_rank0.pkl", "dp_rank0_tp_rank1.pkl"], &["*.pkl"]) => str!["1: FAIL rank 0: train_step (train.py:30) aten::sqrt (+1 more line) leaks 320.50 KiB per step, in 10 of 10 steps, allowed 0 B per step; and 1 more rank"]);
    assert_reads!(verdict_on(bare, &[".", "--order", "given"]) => str!["0: PASS nothing leaks: no stack grows steadily by a total of 1.00 MiB or more"]);
    assert_reads!(verdict_on(bare, &bare) => str!["1: FAIL snapshot_0: train_step (train.py:30) aten::sqrt (+1 more line) leaks 320.50 KiB per step, in 10 of 10 steps, allowed 0 B per step; and 1 more case"]);
}

/// Cases have no rank, and ranks of several nodes have the same ones.
#[test]
fn json_names_the_process_of_everything() {
    let place = tempfile::tempdir().unwrap();
    let names = ["snapshot_0.pickle", "snapshot_1.pickle"];
    for name in names {
        fs::copy(fixtures::folder().join("leak.pkl"), place.path().join(name)).unwrap();
    }
    let output = ptmem(place.path(), &[&["leak", "--format", "json"], &names[..]].concat());
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    check_json(&report);
    for list in ["sources", "leaks", "devices", "checks", "diagnostics"] {
        let of_list = report[list].as_array().unwrap().iter();
        let mut named: Vec<&str> = of_list.map(|one| one["name"].as_str().unwrap()).collect();
        named.dedup();
        assert_eq!(named, ["snapshot_0", "snapshot_1"], "{list}");
    }
    let output = ptmem(place.path(), &["leak", "--format", "json", names[0]]);
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(report["leaks"][0]["name"], Value::Null);
}

/// A terminal lists the first and the last ones of many.
#[test]
fn csv_has_every_snapshot_of_a_series() {
    let place = tempfile::tempdir().unwrap();
    for night in 10..40 {
        fs::write(place.path().join(format!("night-{night}.json")), r#"{"memory_allocated": 1048576}"#).unwrap();
    }
    let table = text(&ptmem(place.path(), &["leak", "."]).stdout);
    assert_eq!((table.matches("night-").count(), table.contains("18 others")), (12, true), "{table}");
    for arguments in [["--format", "csv"], ["--top", "0"]] {
        let listed = text(&ptmem(place.path(), &[&["leak", "."], &arguments[..]].concat()).stdout);
        assert_eq!((listed.matches("night-").count(), listed.contains("others")), (30, false), "{listed}");
    }
}

/// They end together, too, where it ran for long before, but they begin at the same time.
#[test]
fn later_snapshots_of_one_process_are_a_series() {
    let place = tempfile::tempdir().unwrap();
    let mut program = Program::default();
    (0..100).for_each(|_| program.work());
    for number in 0..6 {
        program.work();
        program.alloc(format!("leak {number}"), "train:30", 512 << 10);
        fs::write(place.path().join(format!("epoch-{number}.pickle")), program.snapshot()).unwrap();
    }
    assert_reads!(judged(verdict(&ptmem(place.path(), &["leak", "."]))) => str!["1: FAIL train (job.py:30) grows 512.00 KiB per snapshot, 5 of 5 times, allowed 0 B per snapshot"]);
}

/// Two ranks that begin and end at nearly the same times, as later snapshots of one process do whose history is cut.
pub(crate) fn write_ranks(folder: &Path) {
    for rank in 0..2 {
        let mut program = Program::default();
        program.clock = 20 * rank;
        for step in 0..12 {
            program.work();
            program.alloc(format!("leak {step}"), "train:30", 2048);
        }
        fs::write(folder.join(format!("snapshot_{rank}.pickle")), program.snapshot()).unwrap();
    }
}

#[test]
fn what_may_be_of_ranks_is_told() {
    let place = tempfile::tempdir().unwrap();
    write_ranks(place.path());
    let output = ptmem(place.path(), &["leak", "."]);
    let told = text(&output.stdout);
    let warning = "warning[series-assumed] the snapshots begin and end at nearly the same times: they may be of ranks, but are \
                   compared as a series. Name those of ranks so (rank0.pkl), or state with --order of `ptmem leak` that they are a series\n";
    assert!(told.contains("PASS nothing leaks: no stack grows steadily by a total of 1.00 MiB or more\n"), "{told}");
    assert!(told.contains(warning), "{told}");
    assert_eq!(ptmem(place.path(), &["leak", ".", "--strict"]).status.code(), Some(3));
    // They are of one process, as its user says, or of ranks, as their names do.
    let (code, _, remarks) = searched(place.path(), &[".", "--order", "recorded", "--strict"]);
    assert_eq!((code, remarks.contains(&"series-assumed".to_owned())), (Some(0), false));
    for rank in 0..2 {
        let [from, to] = ["snapshot_", "rank"].map(|name| place.path().join(format!("{name}{rank}.pickle")));
        fs::rename(from, to).unwrap();
    }
    assert_reads!(judged(verdict(&ptmem(place.path(), &["leak", "."]))) => str!["1: FAIL rank 0: train (job.py:30) leaks 2.00 KiB per step, in 10 of 10 steps, allowed 0 B per step; and 1 more rank"]);
}

#[test]
fn recorders_state_the_ranks() {
    let verdict_on = |ranks: [[u64; 2]; 2]| {
        let place = tempfile::tempdir().unwrap();
        for (number, rank) in ranks.iter().enumerate() {
            let events = vec![event("segment_alloc", A, 2 * MIB), event("alloc", A, 2 * MIB)];
            let run = snapshot(vec![segment(A, &[(2 * MIB, true)])], events);
            let run = run.with("ptmem", json!({"format": 1, "rank": rank}));
            let run = pickle::write(&run, pickle::Options::default());
            fs::write(place.path().join(format!("snapshot_{number}.pickle")), run).unwrap();
        }
        judged(verdict(&ptmem(place.path(), &["leak", "."])))
    };
    assert_reads!(verdict_on([[0, 2], [1, 2]]) => str!["3: INCONCLUSIVE rank 0: leak: the history has 2 steps, of which none count (warm-up and the last one do not). 3 are needed; record more steps, or give two or more snapshots; and 1 more rank"]);
    assert_reads!(verdict_on([[0, 2], [0, 4]]) => str!["0: PASS nothing leaks: no stack grows steadily by a total of 1.00 MiB or more"]);
}

#[test]
fn dates_are_not_ranks() {
    for names in [
        ["dev-20261110.pkl", "dev-20261120.pkl", "dev-20261130.pkl"],
        ["gpu-2026-12-30.pkl", "gpu-2026-12-31.pkl", "gpu-2027-01-01.pkl"],
    ] {
        let (exit, steps, _) = searched(named(names).path(), &["."]);
        assert_eq!((exit, steps.len()), (Some(1), 3), "{names:?}");
    }
}

#[test]
fn numbers_that_contradict_the_times_are_refused() {
    let place = named(["step-3.pkl", "step-2.pkl", "step-1.pkl"]);
    for command in ["leak", "history"] {
        let output = ptmem(place.path(), &[command, "."]);
        let problem = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{problem}");
        assert!(problem.contains("./step-2.pkl was recorded before ./step-1.pkl, against the numbers"), "{problem}");
    }
    let recorded = searched(place.path(), &[".", "--order", "recorded"]);
    assert_eq!((recorded.0, &*recorded.1[0]), (Some(1), "./step-3.pkl"));
    let given = searched(place.path(), &[".", "--order", "given"]);
    assert_eq!((given.0, &*given.1[0]), (Some(0), "./step-1.pkl"));
}

/// The latest of them are known once all are sorted.
#[test]
fn history_sorts_before_it_takes_the_latest() {
    let place = named(["step-80.pkl", "step-90.pkl", "step-100.pkl"]);
    for name in ["step-80", "step-90", "step-100"] {
        let saved = ptmem(place.path(), &["profile", &format!("{name}.pkl"), "-o", &format!("{name}.json")]);
        assert!(saved.status.success(), "{}", text(&saved.stderr));
    }
    let arguments = ["history", "step-100.json", "step-80.json", "step-90.json", "--last", "2", "--format", "json"];
    let report: Value = serde_json::from_str(&text(&ptmem(place.path(), &arguments).stdout)).unwrap();
    let names: Vec<&str> =
        report["profiles"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["step-90.json", "step-100.json"], "{report:#}");
}

/// Names without numbers, such as hashes of commits, do not state which are the latest.
#[test]
fn history_takes_the_latest_of_names_without_an_order() {
    let place = named(["f00d.pkl", "beef.pkl", "abba.pkl"]);
    let names = |more: &[&str]| {
        let arguments = [&["history", ".", "--last", "2", "--format", "json"], more].concat();
        let report: Value = serde_json::from_str(&text(&ptmem(place.path(), &arguments).stdout)).unwrap();
        let names = report["profiles"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_reads!(names(&[]) => str!["./beef.pkl ./abba.pkl"]);
    assert_reads!(names(&["--order", "given"]) => str!["./beef.pkl ./f00d.pkl"]);
}

#[test]
fn history_is_of_one_rank() {
    let place = named(["n1-rank0.pkl", "n1-rank1.pkl", "n2-rank0.pkl"]);
    fs::write(place.path().join("cases.csv"), "case,peak\na,1MiB\nb,2MiB\n").unwrap();
    let refused = |path: &str| {
        let output = ptmem(place.path(), &["history", path]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    assert_reads!(refused(".") => str!["error: ./n1-rank0.pkl and ./n1-rank1.pkl are of different ranks or cases; expected the profiles of one: a quoted glob such as '*rank0*', or FILE#CASE; if the names state something else, name each file or give --order given"]);
    assert_reads!(refused("cases.csv") => str!["error: cases.csv#a and cases.csv#b are of different ranks or cases; expected the profiles of one: a quoted glob such as '*rank0*', or FILE#CASE; if the names state something else, name each file or give --order given"]);
    for passes in [&["*rank0*"][..], &[".", "--order", "given"], &["n1-rank0.pkl", "n1-rank1.pkl"]] {
        assert_eq!(ptmem(place.path(), &[&["history"], passes].concat()).status.code(), Some(0), "{passes:?}");
    }
}
