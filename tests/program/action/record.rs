//! The base of a pull request, and recordings of both commits.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::run::{could_not_run, verdict};
use super::{Finished, Job, find, root, skipped};
use crate::support::history::{A, MIB, event, segment, snapshot};
use crate::support::pickle::{self, Value as Pickle};
use crate::support::tool::text;

/// A program of the code under test: it takes the snapshot of its commit for its own.
pub(super) const PROGRAM: &str = "cp \"recorded $(cat which).pkl\" \"$PTMEM_SNAPSHOT\"";

/// A job of pull request 7 whose workspace is the merge that GitHub makes for it, with as many commits as the checkout
/// fetched. The snapshot of the base is `before.pkl`, that of the change `after.pkl`.
pub(super) fn merged(depth: u32) -> Job {
    let mut job = Job::new();
    symlink(env!("CARGO_BIN_EXE_ptmem"), job.path("bin/ptmem")).unwrap();
    symlink(find("cp").unwrap(), job.path("bin/cp")).unwrap();
    fs::create_dir_all(job.path("origin/work")).unwrap();
    job.serve("origin");
    job.git("origin", &["init", "--quiet", "--initial-branch", "main"]);
    job.git("origin", &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    for name in ["before", "after"] {
        let copy = job.path("origin/work").join(format!("recorded {name}.pkl"));
        fs::copy(root().join(format!("fixtures/{name}.pkl")), copy).unwrap();
    }
    commit(&job, &[("work/which", "before"), ("model.py", &"x\n".repeat(60))]);
    let base = job.git("origin", &["rev-parse", "HEAD"]);
    job.git("origin", &["switch", "--quiet", "--create", "change"]);
    let changed = format!("{}y\n{}", "x\n".repeat(39), "x\n".repeat(20));
    commit(&job, &[("work/which", "after"), ("model.py", &changed)]);
    let head = job.git("origin", &["rev-parse", "HEAD"]);
    // Somebody else's change came to the base branch meanwhile.
    job.git("origin", &["switch", "--quiet", "main"]);
    commit(&job, &[("other.py", "z\n")]);
    job.git("origin", &["switch", "--quiet", "--create", "merge"]);
    job.git("origin", &["merge", "--quiet", "--no-edit", "change"]);
    fs::remove_dir(job.path("workspace")).unwrap();
    let url = format!("file://{}", job.path("origin").display());
    job.git(".", &["clone", "--quiet", &format!("--depth={depth}"), "--branch", "merge", &url, "workspace"]);
    job.event(&json!({"pull_request": {"number": 7, "base": {"sha": base}, "head": {"sha": head}}}));
    job.set("PTMEM_MAX_GROWTH", "5%").set("PTMEM_GPU", "real").set("PTMEM_RECORD", PROGRAM);
    let home = job.path("temp");
    job.set("PTMEM_WORKING_DIRECTORY", "work").set("HOME", home).set("GIT_CONFIG_NOSYSTEM", "1");
    job
}

pub(super) fn commit(job: &Job, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(job.path("origin").join(name), text).unwrap();
    }
    job.git("origin", &["add", "--all"]);
    job.git("origin", &["commit", "--quiet", "--message", "change"]);
}

pub(super) fn no_git() -> bool {
    let is_missing = find("git").is_none();
    if is_missing {
        crate::support::tool::say("skipped: no git to make repositories with");
    }
    is_missing || skipped()
}

/// The number of checkouts that share the repository of the workspace.
pub(super) fn worktrees(job: &Job) -> usize {
    job.git("workspace", &["worktree", "list", "--porcelain"]).matches("worktree ").count()
}

#[test]
fn the_command_runs_on_the_base_and_on_the_checkout() {
    if no_git() {
        return;
    }
    for depth in [1, 2, 100] {
        let mut job = merged(depth);
        let finished = job.run("run.sh");
        finished.says(0, "recording the base ");
        finished.says(0, "recording the checkout");
        let outputs = job.outputs();
        assert_eq!(outputs["verdict"], "regression", "{}", finished.log);
        assert!(outputs["before"].ends_with("/before/snapshot.pkl"), "{outputs:?}");
        assert!(outputs["after"].ends_with("/after/snapshot.pkl"), "{outputs:?}");
        assert_eq!(verdict(&mut job), 1);
        // The change touches line 40 of model.py, and the base branch another file.
        let report = job.read("summary");
        assert!(report.contains("passes through model.py:40, where this change writes"), "{report}");
        assert!(report.contains("grew, leads to edit"), "{report}");
        // The workspace is as it was.
        assert_eq!(worktrees(&job), 1);
        assert_eq!(job.git("workspace", &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_simulated_gpu_is_asked_for_the_card_and_the_steps() {
    if no_git() {
        return;
    }
    // In place of a simulated GPU: it writes down how it is called, and runs the command.
    let simulate = format!(
        r#"#!/bin/sh
[ "$1" = simulate ] || exec '{}' "$@"
while [ "$1" != -- ]; do printf '[%s]' "$1" >> "$RUNNER_TEMP/../simulated"; shift; done
shift
exec "$@"
"#,
        env!("CARGO_BIN_EXE_ptmem")
    );
    let mut job = merged(2);
    job.program("ptmem", &simulate);
    job.set("PTMEM_GPU", "t4")
        .set("PTMEM_RECORD_STEPS", "3..4")
        .set("PTMEM_SIMULATE_ARGS", "--gpus 2 --memory '8 GiB'");
    let finished = job.run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    let simulated = job.read("simulated");
    let called = "[simulate][--gpu][t4][--gpus][2][--memory][8 GiB][--record][";
    assert_eq!(simulated.matches(called).count(), 2, "{simulated}");
    assert_eq!(simulated.matches("/snapshot.pkl,steps=3..4]").count(), 2, "{simulated}");
    for (steps, records) in [("all", 2), ("3", 2), ("none", 0)] {
        fs::write(job.path("simulated"), "").unwrap();
        job.set("PTMEM_RECORD_STEPS", steps).run("run.sh").says(0, "recording the checkout");
        assert_eq!(job.read("simulated").matches("[--record]").count(), records, "{steps}");
    }
}

/// A job whose program writes the counters of its commit, and the snapshot only where one is asked for.
fn measuring(peak_after: &str) -> Job {
    let mut job = merged(2);
    let program = format!(
        r#"case $PTMEM_SNAPSHOT in
*.json) peak='280 MiB'; [ $(cat which) = before ] || peak='{peak_after}'; echo "{{\"peak\": \"$peak\"}}" > "$PTMEM_SNAPSHOT" ;;
*) {PROGRAM} ;;
esac"#
    );
    job.set("PTMEM_RECORD", program).set("PTMEM_RECORD_STEPS", "none,measure").set("PTMEM_EXIT_ZERO", "true");
    job
}

#[test]
fn both_sides_are_measured_and_recorded_only_where_a_limit_is_exceeded() {
    if no_git() {
        return;
    }
    let job = measuring("281 MiB");
    let finished = job.run("run.sh");
    finished.says(0, "measuring the checkout");
    assert!(!finished.log.contains("recording the"), "{}", finished.log);
    let outputs = job.outputs();
    assert_eq!(outputs["verdict"], "pass", "{}", finished.log);
    assert!(outputs["after"].ends_with("/after/snapshot.json"), "{outputs:?}");
    for (peak, limit) in [("333 MiB", "5%"), ("280 MiB", "stack=0")] {
        let mut job = measuring(peak);
        let finished = job.set("PTMEM_MAX_GROWTH", limit).run("run.sh");
        finished.says(0, "recording the base ");
        let outputs = job.outputs();
        assert_eq!(outputs["verdict"], "regression", "{limit}: {}", finished.log);
        assert!(outputs["before"].ends_with("/before/snapshot.pkl"), "{outputs:?}");
        assert!(job.read("summary").contains("attention"), "{limit}");
        assert_eq!(worktrees(&job), 1);
    }
}

#[test]
fn a_base_that_fails_when_it_is_measured_is_not_judged_either() {
    if no_git() {
        return;
    }
    let mut job = repairing();
    let finished = job.set("PTMEM_RECORD_STEPS", "none,measure").run("run.sh");
    finished.says(0, "::warning::ptmem: growth since the base is not judged: record: on the base ");
    assert_eq!(job.outputs()["verdict"], "inconclusive", "{}", finished.log);
}

#[test]
fn ranks_leave_a_file_each() {
    if no_git() {
        return;
    }
    let mut job = merged(2);
    let ranks = r#"for rank in 0 1; do
  cp "recorded $(cat which).pkl" "${PTMEM_SNAPSHOT%.pkl}_rank$rank.pkl"
done"#;
    let finished = job.set("PTMEM_RECORD", ranks).run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    assert!(finished.log.contains("rank 1"), "{}", finished.log);
}

#[track_caller]
pub(super) fn says_that_it_could_not_run(job: &mut Job, message: &str) -> Finished {
    let finished = job.run("run.sh");
    finished.says(0, &format!("::error::ptmem: {message}"));
    could_not_run(job);
    assert_eq!(verdict(job), 2);
    assert_eq!(worktrees(job), 1);
    finished
}

#[test]
fn a_command_that_fails_could_not_run() {
    if no_git() {
        return;
    }
    let mut job = merged(2);
    job.set("PTMEM_RECORD", "echo '::add-mask::x'\nfalse\necho never").set("GITHUB_ACTIONS", "true");
    let finished = says_that_it_could_not_run(&mut job, "record: on the checkout ");
    finished.says(0, "the command ended with exit code 1:%0A::add-mask::x");
    assert!(!finished.log.contains("never"), "{}", finished.log);
    assert!(finished.log.lines().any(|line| line.starts_with("::stop-commands::")), "{}", finished.log);
    // A program that raises by design must go; one that the change breaks stays.
    let advice = "the base could not be recorded, either; \
                  if the command cannot write a snapshot on a runner, record another one";
    finished.says(0, advice);
    let named = job.set("PTMEM_NAME", "Chapter01").run("run.sh");
    named.says(0, &format!("{advice} or remove Chapter01 from the matrices of the workflow"));
    let mut job = merged(2);
    job.set("PTMEM_RECORD", format!("{PROGRAM}\n[ $(cat which) = before ]"));
    let broken = says_that_it_could_not_run(&mut job, "record: on the checkout the command ended with exit code 1");
    assert!(!broken.log.contains(advice), "{}", broken.log);
    let mut job = merged(2);
    job.set("PTMEM_RECORD", "true");
    let silent = says_that_it_could_not_run(&mut job, "record: on the checkout ");
    silent.says(0, "the command wrote no snapshot");
    silent.says(0, advice);
}

/// A job whose base cannot be recorded: the change repairs it.
pub(super) fn repairing() -> Job {
    let mut job = merged(2);
    job.set(
        "PTMEM_RECORD",
        format!("{PROGRAM}\n[ $(cat which) = after ] || {{ echo no module named x >&2; exit 1; }}"),
    );
    job
}

#[test]
fn without_a_recording_of_the_base_growth_is_not_judged() {
    if no_git() {
        return;
    }
    let mut job = repairing();
    let finished = job.set("PTMEM_APPROVE_LABEL", "memory-growth-approved").run("run.sh");
    finished.says(0, "::warning::ptmem: growth since the base is not judged: record: on the base ");
    finished.says(0, "INCONCLUSIVE growth: not judged: record: on the base ");
    let outputs = job.outputs();
    assert_eq!((&*outputs["verdict"], &*outputs["exit-code"]), ("inconclusive", "3"), "{}", finished.log);
    assert_eq!(verdict(&mut job), 3);
    // The comment leads with what failed and the ways out, not with figures of the checkout.
    let summary = job.read("summary");
    let (unfolded, folded) = summary.split_once("<details>").unwrap();
    for part in [
        "the command ended with exit code 1",
        "no module named x",
        "the label `memory-growth-approved`",
        "run the job again",
    ] {
        assert!(unfolded.contains(part), "{part}: {summary}");
    }
    assert!(unfolded.lines().count() < 20 && folded.contains("#### device 0"), "{summary}");
    assert_eq!(worktrees(&job), 1);
    // Absolute limits hold all the same, and no label lifts them.
    for (limit, labels, expected) in [
        ("--max peak=300MiB", json!([{"name": "memory-growth-approved"}]), ("regression", "1", 1)),
        // Options of a comparison are no mistake.
        ("--max peak=400MiB --warn-growth end=1% --all", json!([]), ("inconclusive", "3", 3)),
        ("--max peak=400MiB", json!([{"name": "memory-growth-approved"}]), ("inconclusive", "3", 0)),
    ] {
        let mut job = repairing();
        let mut event: Value = serde_json::from_str(&job.read("event.json")).unwrap();
        event["pull_request"]["labels"] = labels;
        let finished = job
            .event(&event)
            .set("PTMEM_ARGS", limit)
            .set("PTMEM_APPROVE_LABEL", "memory-growth-approved")
            .run("run.sh");
        let outputs = job.outputs();
        assert_eq!((&*outputs["verdict"], &*outputs["exit-code"]), (expected.0, expected.1), "{}", finished.log);
        assert_eq!(verdict(&mut job), expected.2, "{limit} {outputs:?}");
    }
}

#[test]
fn the_code_under_test_cannot_write_the_verdict() {
    if no_git() {
        return;
    }
    let mut job = merged(2);
    let finds_nothing = "[ -z \"${GITHUB_OUTPUT:-}${GITHUB_ENV:-}${GITHUB_PATH:-}${GITHUB_STEP_SUMMARY:-}\" ]";
    job.set("PTMEM_RECORD", format!("{finds_nothing}\n{PROGRAM}")).run("run.sh").says(0, "recording the checkout");
    assert_eq!(job.outputs()["verdict"], "regression");
}

#[test]
fn inputs_that_do_not_go_with_record_are_errors() {
    if no_git() {
        return;
    }
    for (name, value, message) in [
        ("PTMEM_BEFORE", "a.pkl", "record: makes the before and the after itself"),
        ("PTMEM_ARGS", "--suite large", "record: makes the before and the after itself"),
        ("PTMEM_COMMAND", "leak", "record: records the base and the checkout for ptmem diff, not for ptmem leak"),
        ("PTMEM_RECORD_STEPS", "0", "record-steps: '0' is not accepted; expected steps such as 3 or 3..5, all or none"),
        ("PTMEM_SIMULATE_ARGS", "'", "simulate-args: cannot be split into words; is a quote not closed?"),
        ("PTMEM_BASE", "nowhere", "record: the checkout lacks the history back to nowhere"),
    ] {
        let mut job = merged(2);
        job.set(name, value);
        says_that_it_could_not_run(&mut job, message);
    }
    let mut job = merged(2);
    job.event(&json!({"ref": "refs/heads/main"}));
    let message = "record: this is not a run of a pull request or merge queue; name the commit in the input base";
    says_that_it_could_not_run(&mut job, message);
    job.set("PTMEM_BASE", "HEAD^1").run("run.sh").says(0, "recording the checkout");
    assert_eq!(job.outputs()["verdict"], "regression");
}

/// A comparison of two files in the checkout.
fn compared(depth: u32) -> Job {
    let mut job = merged(depth);
    job.set("PTMEM_RECORD", "").set("PTMEM_BEFORE", "recorded before.pkl").set("PTMEM_AFTER", "recorded after.pkl");
    job
}

#[test]
fn rows_are_marked_by_the_change_where_the_base_is_there() {
    if no_git() {
        return;
    }
    let mut job = compared(2);
    job.run("run.sh").says(0, "grew, leads to edit");
    let plain = job.set("PTMEM_BASE", "none").run("run.sh");
    assert!(!plain.log.contains("leads to edit") && !plain.log.contains("not marked"), "{}", plain.log);
    job.set("PTMEM_BASE", "HEAD^1").run("run.sh").says(0, "grew, leads to edit");
    job.set("PTMEM_BASE", "nowhere").run("run.sh").says(0, "::error::ptmem: base: the checkout lacks the history");

    let mut job = compared(1);
    job.git("workspace", &["remote", "remove", "origin"]);
    job.run("run.sh").says(0, "rows are not marked by the change: the checkout lacks the history back to ");
    assert_eq!(job.outputs()["verdict"], "regression");
    assert_eq!(job.outputs()["announce"], "true");
    fs::remove_dir_all(job.path("workspace/.git")).unwrap();
    job.run("run.sh").says(0, "rows are not marked by the change: the working directory is in no checkout");
    job.without("git").run("run.sh").says(0, "rows are not marked by the change: git is not installed on this machine");
    assert_eq!(job.outputs()["verdict"], "regression");
    assert_eq!(verdict(&mut job), 1);
}

/// What the comment is told of a change that names its own base: none, or the change itself.
#[test]
fn a_change_that_names_another_base_is_told() {
    if no_git() {
        return;
    }
    let told = "The limits may not be those of the base of this change";
    let mut job = compared(2);
    for base in ["none", "HEAD"] {
        job.set("PTMEM_BASE", base).run("run.sh");
        let outputs = job.outputs();
        let report = fs::read_to_string(&outputs["report-markdown"]).unwrap();
        assert!(outputs["announce"] == "false" && !report.contains(told), "{base}: {report}");
    }
    // The change edits the workflow, or an action that it may call.
    let parents: Vec<String> = ["HEAD^1", "HEAD^2"].map(|parent| job.git("workspace", &["rev-parse", parent])).to_vec();
    for (base, file) in [("none", ".github/workflows/memory.yml"), ("HEAD", "ci/gate/action.yml")] {
        job.git("workspace", &["reset", "--quiet", "--hard", &parents[1]]);
        let file = job.path("workspace").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "on: push\n").unwrap();
        job.git("workspace", &["add", "--all"]);
        let tree = job.git("workspace", &["write-tree"]);
        let merge = ["commit-tree", &tree, "-p", &parents[0], "-p", &parents[1], "-m", "merge"];
        let commit = job.git("workspace", &merge);
        job.git("workspace", &["reset", "--quiet", "--hard", &commit]);
        job.set("PTMEM_BASE", base).run("run.sh");
        let outputs = job.outputs();
        let report = fs::read_to_string(&outputs["report-markdown"]).unwrap();
        assert!(outputs["announce"] == "true" && report.contains(told), "{base}: {report}");
        assert!(report.contains(&format!("the input base is '{base}', and the")), "{report}");
    }
}

#[test]
fn a_checkout_of_the_change_itself_has_its_merge_base() {
    if no_git() {
        return;
    }
    let mut job = compared(100);
    job.git("workspace", &["fetch", "--quiet", "origin", "change"]);
    job.git("workspace", &["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    job.run("run.sh").says(0, "grew, leads to edit");
    // A pull request that changes no line of the stack: the other branch.
    job.git("workspace", &["switch", "--quiet", "--detach", "origin/merge"]);
    let head = job.git("workspace", &["rev-parse", "HEAD"]);
    let base = job.git("workspace", &["rev-parse", "HEAD^2"]);
    job.event(&json!({"pull_request": {"number": 7, "base": {"sha": base}, "head": {"sha": head}}}));
    let finished = job.run("run.sh");
    finished.says(0, "FAIL peak grew 53.80 MiB (+19.2 %)");
    assert!(!finished.log.contains("passes through model.py"), "{}", finished.log);
}

/// A training loop; the change makes its layer wider.
const TRAINING: &str = "\
import torch

layer = torch.nn.Linear(256, 1024, device='cuda')
optimizer = torch.optim.AdamW(layer.parameters())
for step in range(3):
    loss = layer(torch.zeros(8, 256, device='cuda')).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
";

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn pytorch_is_recorded_on_a_simulated_gpu_on_both_commits() {
    if no_git() {
        return;
    }
    let python = crate::support::tool::python();
    let mut job = merged(2);
    // PyTorch names C++ frames with it.
    if let Some(tool) = find("addr2line") {
        symlink(tool, job.path("bin/addr2line")).unwrap();
    }
    job.git("origin", &["switch", "--quiet", "main"]);
    commit(&job, &[("work/train.py", TRAINING)]);
    job.git("origin", &["switch", "--quiet", "--create", "wider"]);
    commit(&job, &[("work/train.py", &TRAINING.replace("1024", "4096"))]);
    job.git("workspace", &["fetch", "--quiet", "--depth=2", "origin", "wider"]);
    job.git("workspace", &["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    job.set("PYTHON", python).set("PTMEM_RECORD", "\"$PYTHON\" train.py").set("PTMEM_RECORD_STEPS", "2..3");
    job.set("PTMEM_GPU", "t4").set("PTMEM_BASE", "HEAD^1");
    let finished = job.run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    // The weight, its gradient and both states of the optimizer, of 256 times 4096 floats each and not of 256 times
    // 1024.
    let report = job.read("summary");
    let fits = "fits the numbers at work/train.py:3, where this change writes `layer = torch.nn.Linear(256, 4096, device='cuda')`";
    let passes = "20 % passes through work/train.py:3";
    assert!(report.contains(fits) && report.contains(passes), "{report}");
    assert!(report.contains("leads to edit | `<module> (work/train.py:3)"), "{report}");
    assert_eq!(worktrees(&job), 1);
}

#[test]
fn a_merge_queue_names_its_base() {
    if no_git() {
        return;
    }
    let mut job = merged(1);
    // The second of a group: the base is two merges behind.
    job.git("origin", &["switch", "--quiet", "merge"]);
    commit(&job, &[("more.py", "z\n")]);
    job.git("workspace", &["fetch", "--quiet", "--depth=1", "origin", "merge"]);
    job.git("workspace", &["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    let base = job.git("origin", &["rev-parse", "main~1"]);
    let head = job.git("origin", &["rev-parse", "merge"]);
    job.event(&json!({"merge_group": {"base_sha": base, "head_sha": head}})).set("GITHUB_EVENT_NAME", "merge_group");
    let finished = job.run("run.sh");
    finished.says(0, &format!("recording the base {}", &base[..7]));
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
}

/// A command that installs the code of its own side: the program takes the snapshot that was installed.
const INSTALL: &str = "cp \"recorded $(cat which).pkl\" \"$VIRTUAL_ENV/installed.pkl\"
printf '#!/bin/sh\\ncp \"$VIRTUAL_ENV/installed.pkl\" \"$1\"\\n' > \"$VIRTUAL_ENV/bin/program\"
chmod +x \"$VIRTUAL_ENV/bin/program\"";

/// A job that records what is installed, with an installer in place of Python's.
pub(super) fn installing(python: &str) -> Job {
    let mut job = merged(2);
    symlink(find("chmod").unwrap(), job.path("bin/chmod")).unwrap();
    job.program("python3", python);
    job.set("PTMEM_RECORD", "program \"$PTMEM_SNAPSHOT\"").set("PTMEM_INSTALL", INSTALL);
    job
}

/// A Python that makes an environment and does nothing else.
pub(super) const VENV: &str = "#!/bin/sh\n[ \"$1 $2\" = '-m venv' ] && mkdir -p \"$3/bin\"\n";

#[test]
fn each_side_runs_what_its_own_commit_installs() {
    if no_git() {
        return;
    }
    let job = installing(VENV);
    let finished = job.run("run.sh");
    finished.says(0, "installing the base ");
    finished.says(0, "installing the checkout");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    // Environments take gigabytes.
    let folder = Path::new(&job.outputs()["after"]).parent().unwrap().parent().unwrap().to_owned();
    assert!(!folder.join("before-environment").exists() && !folder.join("after-environment").exists());
    assert_eq!(worktrees(&job), 1);
    // uv makes them where it is there.
    let job = installing("#!/bin/sh\nexit 9\n");
    job.program("uv", "#!/bin/sh\n[ \"$1 $2 $3\" = 'venv --quiet --seed' ] && mkdir -p \"$4/bin\"\n");
    let finished = job.run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
}

#[test]
fn an_installation_that_fails_could_not_run() {
    if no_git() {
        return;
    }
    let mut job = installing(VENV);
    job.set("PTMEM_INSTALL", "echo no such package; exit 4");
    says_that_it_could_not_run(&mut job, "install: on the checkout ")
        .says(0, "ended with exit code 4:%0Ano such package");
    let mut job = installing("#!/bin/sh\necho no ensurepip\nexit 1\n");
    says_that_it_could_not_run(&mut job, "install: no virtual environment can be made: no ensurepip");
    let mut job = installing(VENV);
    job.set("PTMEM_RECORD", "");
    says_that_it_could_not_run(&mut job, "install: installs each side for record");
}

/// A program with imports of its own, of a module below it, of packages, and of what is there only sometimes.
const IMPORTING: &str = "\
import os
import model
import torchvision.models
try:
    import apex
except ImportError:
    apex = None
if os.environ.get('X'):
    import deepspeed
def later():
    import wandb
";

#[test]
fn modules_that_nobody_installed_are_named_before_anything_is_recorded() {
    let path = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output();
    let Some(python) = path.ok().filter(|_| !no_git()).map(|output| text(&output.stdout)) else { return };
    let mut job = installing(VENV);
    let install = format!("printf '#!/bin/sh\\nexec {python} -S \"$@\"\\n' > \"$VIRTUAL_ENV/bin/python\"");
    job.set("PTMEM_INSTALL", format!("{install}\nchmod +x \"$VIRTUAL_ENV/bin/python\""));
    fs::create_dir(job.path("workspace/work/tools")).unwrap();
    for (name, content) in
        [("tools/train.py", IMPORTING), ("tools/model.py", "import einops, json\nfrom . import near\n")]
    {
        fs::write(job.path("workspace/work").join(name), content).unwrap();
    }
    job.set("PTMEM_RECORD", "X=1 torchrun tools/train.py --steps 3");
    let finished = says_that_it_could_not_run(
        &mut job,
        "install: on the checkout the program imports what is not installed:\
         %0Aeinops (tools/model.py:1)%0Atorchvision (tools/train.py:3)\
         %0Aadd to install (a package may be called otherwise than its module): ptmem pip install einops torchvision\n",
    );
    assert!(!finished.log.contains("recording the checkout"), "{}", finished.log);
    // Other imports are found while the program runs.
    job.set("PTMEM_RECORD", "echo \"ModuleNotFoundError: No module named 'wandb.sdk'\"; exit 1");
    says_that_it_could_not_run(&mut job, "record: on the checkout").says(0, "its module): ptmem pip install wandb");
    // Where the program looks elsewhere, nothing is certain: it runs.
    for (content, command) in [
        (format!("import sys\nsys.path.append('x')\n{IMPORTING}"), "true tools/train.py"),
        (IMPORTING.to_owned(), "PYTHONPATH=x true tools/train.py"),
    ] {
        fs::write(job.path("workspace/work/tools/train.py"), content).unwrap();
        job.set("PTMEM_RECORD", command).run("run.sh").says(0, "recording the checkout");
    }
}

/// A recording in which a package allocates.
fn of_release(version: &str, size: u64) -> Vec<u8> {
    let frame =
        |name: &str, file: &str| Pickle::dict([("name", name.into()), ("filename", file.into()), ("line", 7.into())]);
    let frames = vec![
        frame("forward", "/e/lib/python3.11/site-packages/transformers/activations.py"),
        frame("train", "/repo/train.py"),
    ];
    let allocated = event("alloc", A + 40 * MIB, size).with("frames", frames);
    let blocks = segment(A, &[(40 * MIB, true), (size, true), (20 * MIB - size, false)]);
    let facts = json!({"format": 1, "versions": [["torch", "2.11.0"], ["transformers", version]]});
    pickle::write(
        &snapshot(vec![blocks], vec![event("segment_alloc", A, 60 * MIB), allocated]).with("ptmem", facts),
        pickle::Options::default(),
    )
}

#[test]
fn a_change_of_releases_alone_is_told_with_what_they_allocate() {
    if no_git() {
        return;
    }
    let mut job = compared(3);
    for (name, version, size) in [("before", "4.38.0", 2 * MIB), ("after", "4.39.0", 4 * MIB)] {
        fs::write(job.path(&format!("workspace/work/{name}.pkl")), of_release(version, size)).unwrap();
    }
    let base = job.git("workspace", &["rev-parse", "HEAD"]);
    job.set("PTMEM_BEFORE", "before.pkl").set("PTMEM_AFTER", "after.pkl");
    let words = "Only uv.lock changed. Releases that differ in the recordings: transformers 4.38.0 → 4.39.0\n(stacks through its code: +2.00 MiB)\n";
    for (changed, tells) in [("uv.lock", true), ("model.py", false)] {
        fs::write(job.path("workspace").join(changed), "new\n").unwrap();
        job.git("workspace", &["add", changed]);
        job.git("workspace", &["commit", "--quiet", "--message", "Update"]);
        let finished = job.set("PTMEM_BASE", &base).run("run.sh");
        let outputs = job.outputs();
        assert_eq!(outputs["verdict"], "pass", "{}", finished.log);
        assert_eq!(outputs["announce"] == "true", tells, "{}", finished.log);
        for output in ["report-markdown", "report-brief"] {
            let report = fs::read_to_string(&outputs[output]).unwrap();
            assert_eq!(report.contains(words), tells, "{report}");
        }
    }
}
