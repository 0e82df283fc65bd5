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
        assert_eq!(outputs["must-tell"], "true", "{}", finished.log);
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
        (&*gate, &*gate, "a workflow of the base has this gate"),
        (&*other, &*gate, "the change edits or removes a gate of the base"),
        (&*matrix, &*both, "expressions decide what workflows of the base record"),
        (empty, empty, "no workflow below .github has the command of this gate as it ran"),
    ] {
        let mut job = bringing(&[(WORKFLOW, base)], &[here, bash, (WORKFLOW, change)]);
        let finished = job.run("run.sh");
        finished.says(0, "growth since the base is not judged: record: on the base ");
        finished.says(0, &format!("not taken for the first recording: {doubt}"));
        assert_eq!(verdict(&mut job), 3, "{}", finished.log);
    }
    // A second gate beside the first, which stays as it is.
    let mut job = bringing(&[(WORKFLOW, &other)], &[here, (WORKFLOW, &both)]);
    let finished = job.run("run.sh");
    assert_eq!((verdict(&mut job), &*job.outputs()["must-tell"]), (0, "true"), "{}", finished.log);
    // One that fails on the checkout as well is no command.
    let mut job = bringing(&[], &[("work/record.sh", "exit 3"), (WORKFLOW, &gate)]);
    says_that_it_could_not_run(&mut job, "record: on the checkout the command ended with exit code 3");
}
