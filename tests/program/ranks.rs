//! The ranks of a distributed job: directories and globs from the command line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::edit::{Edited, Frame};
use crate::support::tool::{judged, ptmem, text, verdict};
use ptmem::report::Format;
use serde_json::{Value, json};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The error of the tool where it cannot run.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = ptmem(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(output.stdout.is_empty());
    text(&output.stderr)
}

fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    let output = ptmem(folder, &[arguments, &["--format", "json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// A folder with files of the job before and after: `b/rank0.pkl`, …
fn job() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (side, from) in [("b", "ranks-before"), ("a", "ranks-after")] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for rank in 0..4 {
            let from = fixture(from).join(format!("snapshot_rank{rank}.pkl"));
            fs::copy(from, folder.path().join(side).join(format!("rank{rank}.pkl"))).unwrap();
        }
    }
    folder
}

#[test]
fn the_worst_rank_decides() {
    let folder = job();
    let diff = |more: &[&str]| ptmem(folder.path(), &[&["diff", "b", "a"], more].concat());
    assert_reads!(judged(verdict(&diff(&["--max-growth", "60%"]))) => str!["1: FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed 60 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB)"]);
    assert_reads!(judged(verdict(&diff(&["--max-growth", "500%"]))) => str!["0: PASS all 4 ranks; most on rank 3: peak grew 25.25 MiB (+464.8 %), allowed 500 %"]);
    assert_reads!(judged(verdict(&diff(&["--max-growth", "5%"]))) => str!["1: FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed 5 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB); and 3 more ranks"]);
    // A glob on one side, a directory on the other; and other names.
    for glob in ["a/*.pkl", "a/rank[0-9].pkl", "{a}/rank*", "**/a/rank*.pkl"] {
        let (code, line) = verdict(&ptmem(folder.path(), &["diff", "b", glob, "--max-growth", "60%"]));
        assert_eq!(
            (code, &*line),
            (
                1,
                "FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed 60 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB)"
            ),
            "{glob}"
        );
    }
    let (_, line) =
        verdict(&ptmem(folder.path(), &["diff", "b/rank[01].pkl", "a/rank[01].pkl", "--max-growth", "60%"]));
    assert_reads!(line => str!["PASS all 2 ranks; most on rank 0: peak grew 2.75 MiB (+50.6 %), allowed 60 %"]);
}

#[test]
fn the_stacks_of_the_worst_rank_stand_beside_the_median() {
    let folder = job();
    let report = json_of(folder.path(), &["diff", "b", "a", "--max-growth", "5%"]);
    let ranks = &report["ranks"][0];
    assert_eq!(
        (&report["schema"], &ranks["worst"], &ranks["median"]),
        (&json!("ptmem.suite/1"), &json!("rank 3"), &json!("rank 1"))
    );
    let row = |at: usize| {
        let row = &ranks["stacks"][at];
        (row["delta"].as_i64().unwrap(), row["median"].as_i64().unwrap(), row["ranks"].as_u64().unwrap())
    };
    assert_eq!(row(0), (24 << 20, 3 << 19, 1));
    assert_eq!(row(1), (5 << 18, 5 << 18, 4));
    let numbers: Vec<_> =
        report["comparisons"].as_array().unwrap().iter().map(|c| c["devices"][0]["rank"].clone()).collect();
    assert_eq!(numbers, [0, 1, 2, 3].map(|rank| json!(rank)));
    assert_eq!(ranks["table"][0]["peak"]["delta"], json!(101 << 18));
    // Every rank agrees with the comparison of its two files.
    for rank in 0..4 {
        let (before, after) = (format!("b/rank{rank}.pkl"), format!("a/rank{rank}.pkl"));
        let alone = json_of(folder.path(), &["diff", &before, &after, "--max-growth", "5%"]);
        assert_eq!(alone["devices"][0]["metrics"], report["comparisons"][rank]["devices"][0]["metrics"]);
        assert_eq!(alone["devices"][0]["stacks"], report["comparisons"][rank]["devices"][0]["stacks"]);
    }
}

#[test]
fn stacks_are_reported_of_as_many_ranks_as_asked_for() {
    let folder = job();
    let report = json_of(folder.path(), &["diff", "b", "a", "--top", "1"]);
    let listed: Vec<_> = report["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["devices"][0]["stacks"].as_array().unwrap().len())
        .collect();
    assert_eq!(listed[..3], [0, 0, 0]);
    assert!(listed[3] > 0);
    assert_eq!(report["ranks"][0]["table"].as_array().unwrap().len(), 4);
    let table = text(&ptmem(folder.path(), &["diff", "b", "a", "--top", "1"]).stdout);
    assert!(table.contains("[3 others]"), "{table}");
}

#[test]
fn growth_comes_before_an_improvement_that_is_larger() {
    let folder = job();
    let [before, after] = ["b/rank0.pkl", "a/rank0.pkl"].map(|path| folder.path().join(path));
    fs::copy(fixture("ranks-after/snapshot_rank3.pkl"), before).unwrap();
    fs::copy(fixture("ranks-before/snapshot_rank3.pkl"), after).unwrap();
    let diff = |limits: &[&str]| judged(verdict(&ptmem(folder.path(), &[&["diff", "b", "a"], limits].concat())));
    assert_reads!(diff(&["--max-growth", "±20%"]) => str!["1: FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed ±20 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB); and 3 more ranks"]);
}

#[test]
fn the_verdict_counts_the_warnings_of_all_ranks() {
    let folder = job();
    let diff = |limits: &[&str]| judged(verdict(&ptmem(folder.path(), &[&["diff", "b", "a"], limits].concat())));
    assert_reads!(diff(&["--max-growth", "500%", "--warn-growth", "peak=5%"]) => str!["0: PASS all 4 ranks; most on rank 3: peak grew 25.25 MiB (+464.8 %), allowed 500 %; 4 warnings"]);
    assert_reads!(diff(&["--max-growth", "500%", "--warn-growth", "imbalance=22MiB"]) => str!["0: PASS all 4 ranks; most on rank 3: peak grew 25.25 MiB (+464.8 %), allowed 500 %; 1 warning"]);
    assert_reads!(diff(&["--warn-growth", "peak=5%", "--warn-growth", "imbalance=22MiB"]) => str!["0: PASS all 4 ranks; most on rank 3: only warnings were requested: peak grew 25.25 MiB (+464.8 %), allowed 5 %; 4 more warnings"]);
    assert_reads!(diff(&["--max-growth", "5%", "--warn-growth", "imbalance=22MiB"]) => str!["1: FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed 5 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB); 1 warning; and 3 more ranks"]);
}

#[test]
fn results_of_ranks_and_of_levels_have_fingerprints_of_their_own() {
    let folder = job();
    let limits = ["--max-growth", "stack=0", "--warn-growth", "stack=0", "--warn-growth", "peak=1%"];
    let output = ptmem(folder.path(), &[&["diff", "b", "a", "--format", "sarif"], &limits[..]].concat());
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let prints = results.iter().map(|result| result["partialFingerprints"]["ptmem/v1"].as_str().unwrap());
    let prints: BTreeSet<_> = prints.collect();
    assert_eq!((results.len(), prints.len()), (5, 5));
}

#[test]
fn a_missing_rank_is_never_a_pass() {
    let folder = job();
    fs::remove_file(folder.path().join("a/rank2.pkl")).unwrap();
    let diff = |more: &[&str]| ptmem(folder.path(), &[&["diff", "b", "a"], more].concat());
    let missing = "INCONCLUSIVE rank 2 is missing in the after";
    for more in [&["--max-growth", "500%"][..], &[], &["--max", "peak=1GiB"]] {
        assert_eq!(verdict(&diff(more)), (3, missing.to_owned()), "{more:?}");
    }
    assert_reads!(judged(verdict(&diff(&["--max-growth", "60%"]))) => str!["1: FAIL rank 3: peak grew 25.25 MiB (+464.8 %), allowed 60 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB); rank 2 is missing in the after"]);
    let report = json_of(folder.path(), &["diff", "b", "a"]);
    assert_eq!(
        report["ranks"][0]["missing"],
        json!([{"name": "rank 2", "rank": 2, "node": null, "side": "after", "path": "b/rank2.pkl"}])
    );
    // The other way round.
    assert_eq!(verdict(&ptmem(folder.path(), &["diff", "a", "b"])).0, 3);
    for format in Format::ALL.iter().copied() {
        let output = ptmem(folder.path(), &["diff", "b", "a", "--format", format.name()]);
        assert_eq!(output.status.code(), Some(3), "{format}");
    }
}

#[test]
fn the_imbalance_is_gated() {
    let folder = job();
    let diff = |more: &[&str]| verdict(&ptmem(folder.path(), &[&["diff", "b", "a"], more].concat()));
    // Peaks of the after in 1/32 MiB are 982 and three times 262.
    let within = diff(&["--max-growth", "imbalance=22.5MiB"]);
    assert_eq!(within, (0, "PASS all 4 ranks: imbalance grew 22.50 MiB, allowed 22.50 MiB".to_owned()));
    assert_reads!(judged(diff(&["--max-growth", "imbalance=22MiB"])) => str!["1: FAIL imbalance grew 22.50 MiB, allowed 22.00 MiB (rank 3 peaks at 30.68 MiB, the median of the ranks is 8.18 MiB)"]);
    assert_eq!(diff(&["--max", "imbalance=23MiB"]).0, 0);
    assert_eq!(diff(&["--max", "imbalance=22MiB"]).0, 1);
    assert_eq!(diff(&["--warn-growth", "imbalance=22MiB"]).0, 0);
    fs::write(folder.path().join("ptmem.toml"), "[max-growth]\nimbalance = \"1MiB\"\n").unwrap();
    assert_eq!(diff(&[]).0, 1);
    fs::write(folder.path().join("ptmem.toml"), "[max]\nimbalance = \"1GiB\"\n").unwrap();
    assert_eq!(diff(&[]).0, 0);
    fs::remove_file(folder.path().join("ptmem.toml")).unwrap();
    // One rank has nothing to be out of balance with.
    for inputs in [["b/rank0.pkl", "a/rank0.pkl"], ["b/rank0*", "a/rank0*"]] {
        let output = ptmem(folder.path(), &["diff", inputs[0], inputs[1], "--max-growth", "imbalance=1GiB"]);
        let (code, line) = verdict(&output);
        assert!(code == 3 && line.contains("only one rank"), "{line}");
    }
    let check = |more: &[&str]| verdict(&ptmem(folder.path(), &[&["check"], more].concat()));
    assert_eq!(check(&["a", "--max", "imbalance=23MiB"]).0, 0);
    let (code, line) = check(&["a", "--max", "imbalance=22MiB", "--max", "peak=20MiB"]);
    assert_eq!(code, 1);
    assert_eq!(line, "FAIL rank 3: peak is 30.68 MiB, allowed 20.00 MiB; imbalance is 22.50 MiB, allowed 22.00 MiB");
    assert_eq!(check(&["a/rank0.pkl", "--max", "imbalance=22MiB"]).0, 3);
}

/// A limit for stacks that no rank has checks nothing, so it is never green; on one rank they are enough.
#[test]
fn a_limit_on_stacks_that_no_rank_has_is_inconclusive() {
    let folder = job();
    for command in [&["check", "a"][..], &["diff", "b", "a"]] {
        let run = |limit: &str| verdict(&ptmem(folder.path(), &[command, &["--max", limit]].concat()));
        let (code, line) = run("stack:nowhere*=1GiB");
        assert_eq!(code, 3, "{line}");
        assert!(line.contains("matches no stack of any rank"), "{line}");
        assert_eq!(run("stack:*=1TiB").0, 0);
    }
}

#[test]
fn a_pattern_has_to_match_on_some_rank() {
    let folder = job();
    // Grew on all ranks; and is in the before of none.
    let diff = |limit: &str| verdict(&ptmem(folder.path(), &["diff", "b", "a", "--max-growth", limit]));
    assert_eq!(diff("stack:*widen*=2MiB").0, 0);
    assert_eq!(diff("stack:*widen*=1MiB").0, 1);
    assert_reads!(judged(diff("stack:*nothing*=1MiB")) => str!["3: INCONCLUSIVE stack:*nothing*: the pattern matches no stack of any rank; the nearest stacks are 'backward: AddmmBackward0 (aten::mm)', 'backward: AddmmBackward0 (aten::sum)' and 'backward: ReluBackward0 (aten::threshold_backward)'"]);
    // One rank alone has another program.
    for side in ["a", "b"] {
        fs::copy(fixture("before.pkl"), folder.path().join(side).join("rank0.pkl")).unwrap();
    }
    assert_eq!(diff("stack:*attention*=0").0, 0);
}

/// The last stage of a pipeline has a loss, and the others have none.
#[test]
fn a_phase_need_not_be_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for (side, last) in [("b", "phases-before.pkl"), ("a", "phases-after.pkl")] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for (rank, from) in ["before.pkl", last].into_iter().enumerate() {
            fs::copy(fixture(from), folder.path().join(side).join(format!("rank{rank}.pkl"))).unwrap();
        }
    }
    let diff = |limit: &str| judged(verdict(&ptmem(folder.path(), &["diff", "b", "a", "--max-growth", limit])));
    assert_reads!(diff("phase:forward=8MiB") => str!["0: PASS all 2 ranks: no phase:forward grew by more than 8.00 MiB"]);
    assert_reads!(diff("phase:forward=1MiB") => str!["1: FAIL rank 1: phase forward #0 grew 4.00 MiB (+22.2 %), allowed 1.00 MiB"]);
    assert_reads!(diff("phase:forwrd=1MiB") => str!["3: INCONCLUSIVE phase:forwrd: the pattern matches no phase of any rank; the nearest phases are 'forward', 'backward' and 'reduce'"]);
}

/// The sentence about the worst rank is not one about all.
#[test]
fn a_pass_of_all_ranks_does_not_hide_that_some_improved() {
    let folder = job();
    fs::copy(folder.path().join("a/rank0.pkl"), folder.path().join("b/rank0.pkl")).unwrap();
    let line = |after: &str| judged(verdict(&ptmem(folder.path(), &["diff", "a", after, "--max-growth", "5%"])));
    assert_reads!(line("b") => str!["0: PASS all 4 ranks; most on rank 0: peak did not change, allowed 5 %"]);
    assert_reads!(line("a") => str!["0: PASS all 4 ranks: peak did not change, allowed 5 %"]);
}

/// What is said of a job in every format, with this number of workers.
fn reports_of_job(job: &Path, workers: &str) -> Vec<(String, String)> {
    let mut reports = Vec::new();
    for (command, code) in [(&["diff", "b", "a", "--max-growth", "5%"][..], 1), (&["show", "a"], 0)] {
        let folder = tempfile::tempdir().unwrap();
        let exports: Vec<_> = Format::ALL
            .iter()
            .copied()
            .map(|format| format!("{format}={}", folder.path().join(format.name()).display()))
            .collect();
        let mut arguments = [command, &["--jobs", workers]].concat();
        exports.iter().for_each(|export| arguments.extend(["--export", export]));
        let output = ptmem(job, &arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        for format in Format::ALL.iter().copied() {
            let report = fs::read_to_string(folder.path().join(format.name())).unwrap();
            reports.push((format!("{} {format}", command[0]), report));
        }
    }
    reports
}

#[test]
fn the_order_of_the_work_changes_nothing() {
    let folder = job();
    let one = reports_of_job(folder.path(), "1");
    for _ in 0..3 {
        assert!(reports_of_job(folder.path(), "8") == one);
    }
    let none = ptmem(folder.path(), &["diff", "b", "a", "--jobs", "0"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn profiles_stand_in_for_snapshots() {
    let folder = job();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    for rank in 0..4 {
        let (from, to) = (format!("b/rank{rank}.pkl"), format!("profiles/rank{rank}.ptmem.json"));
        assert!(ptmem(folder.path(), &["profile", &from, "-o", &to]).status.success());
    }
    // Other files there are left alone.
    fs::write(folder.path().join("profiles/README.md"), "rank 0").unwrap();
    fs::write(folder.path().join("profiles/rank0.json"), "{\"devices\": []}").unwrap();
    let of = |before: &str| {
        let report = json_of(folder.path(), &["diff", before, "a", "--max-growth", "5%"]);
        let mut table = report["ranks"][0]["table"].clone();
        table.as_array_mut().unwrap().push(report["ranks"][0]["stacks"].clone());
        table
    };
    assert_eq!(of("profiles"), of("b"));
}

#[test]
fn what_cannot_be_paired_is_refused() {
    let folder = job();
    let diff = |before: &str, after: &str| refused(folder.path(), &["diff", before, after]);
    let error = diff("b", "a/rank0.pkl");
    assert_reads!(error => str!["error: b stands for several files or cases, but a/rank0.pkl for one; expected several on both sides (a directory, a glob, or a file with cases), or one on each"]);
    assert!(diff("-", "a/*.pkl").contains("but - for one"));
    assert!(
        diff("b", "none").starts_with("error: none: no such file or directory; expected the snapshots of the ranks")
    );
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(diff("b", "empty").contains("empty: the directory has no snapshots"));
    assert!(diff("b", "a/*.none").contains("a/*.none: the glob matches no file"));
    // Two steps in one directory.
    for step in ["step_1", "step_2"] {
        fs::create_dir_all(folder.path().join("steps").join(step)).unwrap();
        for rank in 0..4 {
            let to = folder.path().join(format!("steps/{step}/rank{rank}.pkl"));
            fs::copy(folder.path().join(format!("a/rank{rank}.pkl")), to).unwrap();
        }
    }
    assert_reads!(diff("b", "steps") => str!["error: steps: 2 files are of rank 0: step_1/rank0.pkl, step_2/rank0.pkl (3 more ranks with several files); expected one for each rank. Choose them with a glob, such as 'steps/step_2/rank*.pkl'"]);
    assert_eq!(verdict(&ptmem(folder.path(), &["diff", "b", "steps/step_2/rank*.pkl"])).0, 0);
    // A copy of a file beside it.
    for (copy, glob) in [("copy_rank3.pkl", "steps/step_2/rank*.pkl"), ("rank3_old.pkl", "steps/step_2/rank*_old.pkl")]
    {
        let copy = folder.path().join("steps/step_2").join(copy);
        fs::copy(folder.path().join("a/rank3.pkl"), &copy).unwrap();
        for after in ["steps/step_2", "steps/*_2/*.pkl"] {
            let error = diff("b", after);
            assert!(error.contains(&format!("with a glob, such as '{glob}'")), "{error}");
        }
        fs::remove_file(copy).unwrap();
    }
    assert!(refused(folder.path(), &["show", "steps"]).contains("2 files are of rank 0"));
    fs::write(folder.path().join("ptmem.toml"), "[gate.job]\nbefore = 'b'\nafter = 'a'\n").unwrap();
    assert_reads!(refused(folder.path(), &["gate", "--update"]) => str!["error: b/rank0.pkl: is not a saved profile; write the first with: ptmem profile [..]rank0.pkl[..]-o FILE"]);
    assert_reads!(refused(folder.path(), &["diff", "b", "a", "--export", "json=a/rank3.pkl"]) => str!["error: a/rank3.pkl: is an input; expected another file to write to"]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = job();
    fs::write(folder.path().join("a/rank2.pkl"), "").unwrap();
    for jobs in ["1", "8"] {
        for arguments in [&["diff", "b", "a"][..], &["show", "a"], &["check", "a", "--max", "peak=1GiB"]] {
            let error = refused(folder.path(), &[arguments, &["--jobs", jobs]].concat());
            assert!(error.contains("a/rank2.pkl") && error.contains("the file is empty"), "{error}");
        }
    }
    // The first of several by rank.
    fs::write(folder.path().join("a/rank1.pkl"), "text\n").unwrap();
    assert_reads!(refused(folder.path(), &["diff", "b", "a", "--jobs", "4"]) => str!["error: a/rank1.pkl: this looks like text; expected a pickle from torch.cuda.memory._dump_snapshot()"]);
}

#[cfg(unix)]
#[test]
fn links_and_pipes_do_not_hang() {
    use std::os::unix::fs::symlink;
    let folder = job();
    symlink(".", folder.path().join("a/loop")).unwrap();
    symlink("..", folder.path().join("a/up")).unwrap();
    let pipe = folder.path().join("b/rank9.pkl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The link upwards leads to the before as well: its ranks are there twice then.
    assert_reads!(refused(folder.path(), &["diff", "b", "a"]) => str!["error: a: 2 files are of rank 0: rank0.pkl, up/b/rank0.pkl (3 more ranks with several files); expected one for each rank. Choose them with a glob, such as 'a/up/b/rank*.pkl'"]);
    fs::remove_file(folder.path().join("a/up")).unwrap();
    assert_eq!(verdict(&ptmem(folder.path(), &["diff", "b", "a"])).0, 0);
    // A link to nothing is a rank that cannot be read.
    symlink("gone.pkl", folder.path().join("a/rank5.pkl")).unwrap();
    symlink("gone.pkl", folder.path().join("b/rank5.pkl")).unwrap();
    assert_reads!(refused(folder.path(), &["diff", "b", "a"]) => str!["error: b/rank5.pkl: no such file; expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile"]);
}

/// In the folder where the command runs, too: the first name in order would be that of the link.
#[cfg(unix)]
#[test]
fn a_glob_names_files_by_their_folders_and_not_by_links() {
    let folder = job();
    std::os::unix::fs::symlink("b", folder.path().join("a-link")).unwrap();
    fs::remove_dir_all(folder.path().join("a")).unwrap();
    let shown = text(&ptmem(folder.path(), &["show", "*/rank*.pkl", "--format", "json"]).stdout);
    assert!(shown.contains("b/rank0.pkl") && !shown.contains("a-link/"), "{shown}");
}

#[test]
fn gates_hold_ranks() {
    let folder = job();
    let fixture = |name: &str| fs::copy(fixture(name), folder.path().join(name)).unwrap();
    fixture("before.pkl");
    fixture("moved.pkl");
    fs::write(
        folder.path().join("ptmem.toml"),
        "max-growth = \"60%\"\n\
         [gate.job]\nbefore = \"b\"\nafter = \"a/*.pkl\"\nmax = { imbalance = \"1MiB\" }\n\
         [gate.one]\nbefore = \"before.pkl\"\nafter = \"moved.pkl\"\n",
    )
    .unwrap();
    let gate = ["gate"];
    let (code, line) = verdict(&ptmem(folder.path(), &gate));
    assert_eq!(code, 1);
    assert_eq!(
        line,
        "FAIL job: rank 3: peak grew 25.25 MiB (+464.8 %), allowed 60 %, most by dispatch (model.py:133) aten::new_empty (+24.00 MiB); imbalance is 22.50 MiB, allowed 1.00 MiB"
    );
    let report = json_of(folder.path(), &gate);
    let names: Vec<_> = report["comparisons"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["job: rank 0", "job: rank 1", "job: rank 2", "job: rank 3", "one"].map(|name| json!(name)));
    assert_eq!(
        (&report["ranks"][0]["name"], &report["ranks"][0]["checks"][0]["result"]),
        (&json!("job"), &json!("exceeded"))
    );
    fs::remove_file(folder.path().join("b/rank3.pkl")).unwrap();
    assert_reads!(judged(verdict(&ptmem(folder.path(), &gate))) => str!["1: FAIL job: imbalance is 22.50 MiB, allowed 1.00 MiB (rank 3 peaks at 30.68 MiB, the median of the ranks is 8.18 MiB)"]);
    let error = {
        fs::remove_dir_all(folder.path().join("b")).unwrap();
        refused(folder.path(), &gate)
    };
    assert_reads!(error => str!["error: comparison 'job': b: no such file or directory; expected the snapshots of the ranks, as a/*.pkl has"]);
}

#[test]
fn annotations_tell_once_what_ranks_have_in_common() {
    let folder = job();
    let github =
        text(&ptmem(folder.path(), &["diff", "b", "a", "--max-growth", "stack=1MiB", "--format", "github"]).stdout);
    let widened: Vec<_> = github.lines().filter(|line| line.contains("widen")).collect();
    assert_eq!(widened.len(), 1, "{github}");
    assert!(widened[0].contains("the like on ranks "), "{github}");
    let junit =
        text(&ptmem(folder.path(), &["diff", "b", "a", "--max-growth", "stack=1MiB", "--format", "junit"]).stdout);
    assert_eq!(junit.matches("<testsuite ").count(), 4, "{junit}");
}

/// Growth of the imbalance needs both sides of all ranks.
#[test]
fn the_imbalance_of_a_side_is_of_all_its_ranks() {
    let folder = job();
    let place = folder.path();
    for side in ["b/rank1.pkl", "b/rank2.pkl"] {
        fs::remove_file(place.join(side)).unwrap();
    }
    let diff = |limit: [&str; 2]| judged(verdict(&ptmem(place, &[&["diff", "b", "a"], &limit[..]].concat())));
    assert_reads!(diff(["--max", "imbalance=22MiB"]) => str!["1: FAIL imbalance is 22.50 MiB, allowed 22.00 MiB (rank 3 peaks at 30.68 MiB, the median of the ranks is 8.18 MiB)"]);
    assert_reads!(diff(["--max", "imbalance=23MiB"]) => str!["3: INCONCLUSIVE ranks 1, 2 are missing in the before"]);
    assert_reads!(diff(["--max-growth", "imbalance=22MiB"]) => str!["3: INCONCLUSIVE ranks 1, 2 are missing in the before"]);
}

#[test]
fn devices_of_a_rank_have_their_own_rows() {
    let folder = tempfile::tempdir().unwrap();
    for (side, name) in [("b", "two-devices-before.pkl"), ("a", "two-devices-after.pkl")] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for rank in 0..2 {
            fs::copy(fixture(name), folder.path().join(format!("{side}/snapshot_{rank}.pickle"))).unwrap();
        }
    }
    let report = json_of(folder.path(), &["diff", "b", "a", "--max-growth", "5%"]);
    let names: Vec<_> =
        report["ranks"][0]["table"].as_array().unwrap().iter().map(|line| line["name"].clone()).collect();
    let expected = ["rank 0 device 1", "rank 1 device 1", "rank 0 device 0", "rank 1 device 0"];
    assert_eq!(names, expected.map(|name| json!(name)));
    // The same stack has the same bytes on both devices: it is on as many ranks as there are.
    let report = json_of(folder.path(), &["show", "a"]);
    let names: Vec<_> = report["table"].as_array().unwrap().iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names, expected.map(|name| json!(name)));
    assert_eq!(report["stacks"][0]["bytes"], report["stacks"][0]["median"]);
    let counts = report["stacks"].as_array().unwrap().iter().filter_map(|stack| stack["ranks"].as_u64());
    assert_eq!(counts.max(), Some(2));
    let table = text(&ptmem(folder.path(), &["show", "a"]).stdout);
    assert!(table.contains("  all  ") && !table.contains(" of 2  "), "{table}");
}

#[test]
fn a_stack_that_grew_on_two_devices_of_a_rank_grew_on_one_rank() {
    let folder = tempfile::tempdir().unwrap();
    let base = Edited::open(&fixture("two-devices-before.pkl"));
    let allocating = base.allocating();
    let mut on_both = allocating.keys().filter(|(device, stack)| {
        *device == 0 && stack.iter().any(Frame::is_user) && allocating.contains_key(&(1, stack.clone()))
    });
    let [worst, other] = [on_both.next().unwrap(), on_both.next_back().unwrap()].map(|(_, stack)| stack);
    let grown = |by: &[(usize, &[Frame], u64)]| {
        let mut after = Edited::open(&fixture("two-devices-before.pkl"));
        by.iter().for_each(|(device, stack, mib)| after.grow(*device, stack, mib << 20));
        after
    };
    let first = grown(&[(1, worst, 64), (0, other, 32)]);
    let second = grown(&[(0, other, 32), (1, other, 32)]);
    for side in ["b", "a"] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for (rank, after) in [&first, &second].into_iter().enumerate() {
            let written = if side == "a" { after } else { &base };
            written.write(&folder.path().join(format!("{side}/rank{rank}.pkl")));
        }
    }
    let table = text(&ptmem(folder.path(), &["diff", "b", "a", "--max-growth", "5%"]).stdout);
    let (_, elsewhere) = table.split_once("stacks that grew only on other devices\n").expect(&table);
    let row: Vec<_> = elsewhere.lines().nth(1).unwrap().split_whitespace().take(6).collect();
    assert_eq!(row[1..], ["MiB", "2", "rank", "0", "device"], "{table}");
}
