//! The first recording of a gate: nothing is compared, and whoever reviews the change is told.

use std::fs;

use super::Job;
use super::record::{PROGRAM, commit, merged, no_git, says_that_it_could_not_run, worktrees};
use super::run::verdict;

/// The command of a gate.
const GATE: &str = "bash ./record.sh --steps 3";

/// The step of a workflow that records by a command.
fn workflow(command: &str) -> String {
    format!("jobs:\n  memory:\n    steps:\n      - uses: owner/ptmem@v0\n        with:\n          record: {command}\n")
}

/// A job whose base has these files, and whose change brings those, and records by [`GATE`].
fn bringing(base: &[(&str, &str)], change: &[(&str, &str)]) -> Job {
    let mut job = merged(2);
    job.git("origin", &["switch", "--quiet", "--create", "new", "main"]);
    for files in [base, change] {
        for (path, _) in files {
            fs::create_dir_all(job.path("origin").join(path).parent().unwrap()).unwrap();
        }
        commit(&job, &[files, &[("count", &*files.len().to_string())]].concat());
    }
    job.git("workspace", &["fetch", "--quiet", "--depth=2", "origin", "new"]);
    job.git("workspace", &["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    job.set("PTMEM_RECORD", GATE).set("PTMEM_BASE", "HEAD^1");
    job
}

const WORKFLOW: &str = ".github/workflows/memory.yml";

#[test]
fn a_change_that_brings_the_gate_passes_and_is_told_of() {
    if no_git() {
        return;
    }
    let folder = format!("cd ../work\n{PROGRAM}");
    let cases = [
        ("work/record.sh", "work", PROGRAM, "the command ended with exit code 127"),
        ("bench/record.sh", "bench", &*folder, "has no folder 'bench/'"),
    ];
    for (path, working_directory, program, message) in cases {
        let mut job = bringing(&[], &[(path, program), (WORKFLOW, &workflow(GATE))]);
        let finished = job.set("PTMEM_WORKING_DIRECTORY", working_directory).run("run.sh");
        finished.says(0, "::warning::ptmem: growth since the base is not judged: ");
        finished.says(0, message);
        let outputs = job.outputs();
        assert_eq!((&*outputs["verdict"], &*outputs["exit-code"]), ("pass", "0"), "{}", finished.log);
        assert_eq!(outputs["announce"], "true", "{}", finished.log);
        assert!(outputs["after"].ends_with("/after/snapshot.pkl"), "{outputs:?}");
        assert_eq!(verdict(&mut job), 0);
        let report = fs::read_to_string(&outputs["report-markdown"]).unwrap();
        assert!(report.starts_with("<!-- ptmem:default -->\n### ✅ PASS: nothing to compare with yet: "), "{report}");
        for part in ["this gate is new", "this change adds a gate to the workflows", "stacks at the peak"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert_eq!((job.read("summary"), worktrees(&job)), (format!("{report}\n"), 1));
        // Absolute limits hold from the first recording on.
        let finished = job.set("PTMEM_ARGS", "--max peak=200MiB --warn-growth end=1%").run("run.sh");
        assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    }
}

/// The base's command fails, whatever the reason; files of the change do not make the gate a new one.
#[test]
fn a_gate_that_the_base_has_is_not_new() {
    if no_git() {
        return;
    }
    let gate = workflow(GATE);
    let (here, bash, empty) = (("work/record.sh", PROGRAM), ("work/bash/x", ""), "jobs: {}\n");
    let other = workflow("python ./other.py");
    let matrix = workflow("${{ matrix.command }}");
    let both = [&*gate, other.split_once("steps:\n").unwrap().1].concat();
    for (base, change, doubt) in [
        (&*gate, &*gate, "the change edits work/record.sh, which the gate runs"),
        (&*other, &*gate, "the change edits or removes a gate of the base"),
        (&*matrix, &*both, "expressions decide what workflows of the base record"),
        (empty, empty, "no workflow below .github has the command of this gate as it ran"),
    ] {
        let mut job = bringing(&[(WORKFLOW, base)], &[here, bash, (WORKFLOW, change)]);
        let finished = job.run("run.sh");
        finished.says(0, "growth since the base is not judged: record: on the base ");
        finished.says(0, &format!("(not excused: {doubt}"));
        assert_eq!(verdict(&mut job), 3, "{}", finished.log);
    }
    // A second gate beside the first, which stays as it is.
    let mut job = bringing(&[(WORKFLOW, &other)], &[here, (WORKFLOW, &both)]);
    let finished = job.run("run.sh");
    assert_eq!((verdict(&mut job), &*job.outputs()["announce"]), (0, "true"), "{}", finished.log);
    // One that fails on the checkout as well is no command.
    let mut job = bringing(&[], &[("work/record.sh", "exit 3"), (WORKFLOW, &gate)]);
    says_that_it_could_not_run(&mut job, "record: on the checkout the command ended with exit code 3");
}

/// A program of which the gate runs a part: the base fails there, and the change repairs it.
const RUNS_A_PART: &str = "bash ./part.sh && cp 'recorded after.pkl' \"$PTMEM_SNAPSHOT\"";

fn repairing_part(failure: &str, change: &[(&str, &str)]) -> Job {
    let gate = workflow(GATE);
    let base = [(WORKFLOW, &*gate), ("work/record.sh", RUNS_A_PART), ("work/part.sh", failure)];
    let mut job = bringing(&base, &[&[("work/part.sh", "true")], change].concat());
    job.set("PTMEM_ARGS", "--max peak=400MiB");
    job
}

const FAILURE: &str = "echo no module named x >&2; exit 1";

#[test]
fn a_change_that_repairs_a_broken_base_passes_and_is_told_of() {
    if no_git() {
        return;
    }
    let mut job = repairing_part(FAILURE, &[]);
    let finished = job.run("run.sh");
    let outputs = job.outputs();
    assert_eq!((&*outputs["verdict"], &*outputs["announce"]), ("pass", "true"), "{}", finished.log);
    assert_eq!(verdict(&mut job), 0);
    for output in ["report-markdown", "report-brief"] {
        let report = fs::read_to_string(&outputs[output]).unwrap();
        let title = "<!-- ptmem:default -->\n### ✅ PASS: growth is not judged, because the base is broken: record: on the base ";
        assert!(report.starts_with(title) || output == "report-brief", "{report}");
        assert!(report.contains("the base is broken, so growth is not judged: "), "{report}");
    }
    let report = fs::read_to_string(&outputs["report-markdown"]).unwrap();
    let (unfolded, _) = report.split_once("<details>").unwrap();
    assert!(unfolded.contains("no module named x") && unfolded.lines().count() < 20, "{report}");
    assert!(!unfolded.contains("lets it pass"), "{report}");
    // Absolute limits hold.
    job.set("PTMEM_ARGS", "--max peak=200MiB").run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression");
}

#[test]
fn a_base_that_may_not_be_broken_by_its_code_stays_inconclusive() {
    if no_git() {
        return;
    }
    let edited = workflow(GATE).replace("jobs:", "env: { X: 1 }\njobs:");
    for (failure, change, set, doubt) in [
        (FAILURE, None, ("PTMEM_ARGS", ""), "no absolute limit is set"),
        (FAILURE, None, ("PTMEM_ARGS", "--max peak=400MiB --strict"), "limits are strict"),
        (FAILURE, None, ("PTMEM_PROFILES", "ptmem-profiles"), "growth: not judged"),
        (FAILURE, None, ("PTMEM_INSTALL", "true"), "no workflow of the base has the scripts of this gate as they ran"),
        (FAILURE, Some((WORKFLOW, &*edited)), ("X", ""), "the change edits workflows"),
        (FAILURE, Some(("work/record.sh", PROGRAM)), ("X", ""), "the change edits work/record.sh, which the gate runs"),
        ("echo OSError: No space left on device; exit 1", None, ("X", ""), "its log says 'No space left on device'"),
        ("exit 124", None, ("X", ""), "it was stopped, with exit code 124"),
    ] {
        let mut job = repairing_part(failure, &Vec::from_iter(change));
        job.program("uv", "#!/bin/sh\n[ \"$1 $2 $3\" = 'venv --quiet --seed' ] && mkdir -p \"$4/bin\"\n");
        let finished = job.set(set.0, set.1).run("run.sh");
        finished.says(0, doubt);
        assert_eq!(verdict(&mut job), 3, "{doubt}: {}", finished.log);
    }
    // Another version of Python than the base's own.
    let mut job = repairing_part(FAILURE, &[]);
    job.set("PTMEM_PYTHON_FOUND", "true").set("PTMEM_PYTHON_VERSION", "3.9");
    job.run("run.sh").says(0, "(not excused: it asks for Python ");
    assert_eq!(verdict(&mut job), 3);
}
