//! The run of the tool, and what becomes of its results.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::comment::commenting;
use super::server::{comment, pull_request};
use super::{Job, root, skipped};

/// A job with the real tool on the path and the fixtures in its workspace.
pub(super) fn gate(before: &str, after: &str) -> Job {
    let mut job = Job::new();
    symlink(env!("CARGO_BIN_EXE_ptmem"), job.path("bin/ptmem")).unwrap();
    for name in [before, after] {
        let _ = fs::copy(root().join("fixtures").join(name), job.path("workspace").join(name));
    }
    job.set("PTMEM_BEFORE", before).set("PTMEM_AFTER", after).set("PTMEM_MAX_GROWTH", "5%");
    job
}

/// A job with a tool that writes down its arguments, one per line, and then does what the script says.
pub(super) fn recorded(script: &str) -> Job {
    let job = Job::new();
    let first = "#!/bin/sh\nprintf '[%s]\\n' \"$@\" > \"$RUNNER_TEMP/../arguments\"\n";
    job.program("ptmem", &format!("{first}{script}\n"));
    job
}

/// The arguments up to the first export.
pub(super) fn arguments(job: &Job) -> String {
    let arguments = job.read("arguments");
    arguments.split("[--export]").next().unwrap().replace('\n', "")
}

/// The exit code that the last step makes of the outputs.
pub(super) fn verdict(job: &mut Job) -> i32 {
    let outputs = job.outputs();
    job.set("PTMEM_APPROVED", outputs.get("approved").cloned().unwrap_or_default());
    job.set("PTMEM_EXIT_CODE", outputs["exit-code"].clone()).run("verdict.sh").code
}

#[test]
fn the_verdict_goes_to_outputs_summary_and_exit_code() {
    if skipped() {
        return;
    }
    for (before, after, name, code) in [
        ("before.pkl", "after.pkl", "regression", 1),
        ("after.pkl", "before.pkl", "pass", 0),
        ("before.pkl", "state-only.pkl", "inconclusive", 3),
    ] {
        let mut job = gate(before, after);
        let finished = job.run("run.sh");
        finished.says(0, "device 0");
        let outputs = job.outputs();
        assert_eq!(outputs["verdict"], name);
        assert_eq!(outputs["exit-code"], code.to_string());
        for output in ["peak-before", "peak-after", "delta", "percent", "changed"] {
            assert!(outputs.contains_key(output), "{outputs:?}");
        }
        assert!(job.read("summary").starts_with("<!-- ptmem:default -->\n"), "{}", job.read("summary"));
        assert_eq!(job.read("summary"), fs::read_to_string(&outputs["report-markdown"]).unwrap() + "\n");
        let report: Value = serde_json::from_str(&fs::read_to_string(&outputs["report-json"]).unwrap()).unwrap();
        assert!(report.is_object());
        let annotated = finished.log.lines().any(|line| line.starts_with("::error "));
        assert!(name == "inconclusive" || annotated == (name == "regression"), "{}", finished.log);
        assert_eq!(verdict(&mut job), code);
    }
}

#[test]
fn exit_zero_reports_and_only_errors_fail() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_EXIT_ZERO", "true").run("run.sh").says(0, "device 0");
    assert_eq!((job.outputs()["verdict"].as_str(), job.outputs()["exit-code"].as_str()), ("regression", "1"));
    assert_eq!(verdict(&mut job), 0);
    let mut job = gate("before.pkl", "missing.pkl");
    job.set("PTMEM_EXIT_ZERO", "true").run("run.sh").says(0, "::error::ptmem: missing.pkl: no such file");
    assert_eq!(verdict(&mut job), 2);
}

#[test]
fn what_could_not_run_says_so() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "missing.pkl");
    let finished = job.run("run.sh");
    finished.says(0, "::error::ptmem: missing.pkl: no such file; expected a snapshot");
    could_not_run(&job);
    let summary = job.read("summary");
    assert!(summary.contains("\n### ⚠️ could not run\n\n```text\nmissing.pkl: no such file; expected"), "{summary}");
    assert_eq!(summary, fs::read_to_string(&job.outputs()["report-markdown"]).unwrap());
    assert_eq!(verdict(&mut job), 2);
    // A limit that means nothing, a file that is cut off, too: in the words of the tool.
    let mut job = gate("before.pkl", "after.pkl");
    let limit = "::error::ptmem: invalid value 'a lot' for '--max-growth <[METRIC=]LIMIT>'";
    job.set("PTMEM_MAX_GROWTH", "a lot").run("run.sh").says(0, limit);
    assert_eq!(verdict(&mut job), 2);
    let job = gate("before.pkl", "after.pkl");
    let whole = fs::read(root().join("fixtures/after.pkl")).unwrap();
    fs::write(job.path("workspace/after.pkl"), &whole[..whole.len() / 2]).unwrap();
    job.run("run.sh").says(0, "::error::ptmem: after.pkl: byte ");
    assert!(job.read("summary").contains("\nafter.pkl: byte "), "{}", job.read("summary"));
}

/// The outputs of a run without a verdict.
#[track_caller]
pub(super) fn could_not_run(job: &Job) {
    let outputs = job.outputs();
    assert_eq!((outputs["verdict"].as_str(), outputs["exit-code"].as_str()), ("error", "2"));
    assert!(!outputs.contains_key("peak-after"), "{outputs:?}");
}

#[test]
fn a_run_that_could_not_run_takes_the_place_of_the_old_verdict() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![comment(70, "<!-- ptmem:large/v2 -->\n### ✅ PASS")]);
    let mut job = commenting(&server.url);
    let event = json!({"pull_request": {"number": 7, "head": {"sha": "abc1234def567890"}}});
    fs::write(job.path("event.json"), event.to_string()).unwrap();
    let message = "before\\n\\033[31merror\\033[0m: a ``` @b: bad <i>\\nmore\\n";
    job.program("ptmem", &format!("#!/bin/sh\nprintf '{message}' >&2\nexit 2\n"));
    job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").set("PTMEM_COMMENT_KEY", "large/v2");
    job.set("GITHUB_RUN_ID", "55").set("GITHUB_RUN_ATTEMPT", "2").set("GITHUB_SHA", "merge00");
    job.run("run.sh").says(0, "::error::ptmem: a ``` @b: bad <i>%0Amore");
    let report = job.outputs()["report-markdown"].clone();
    job.set("PTMEM_REPORT", report).set("PTMEM_VERDICT", "error").run("comment.sh").is_quiet();
    let requests = server.requests();
    assert_eq!(requests.last().unwrap().line(), "PATCH /repos/someone/model/issues/comments/70");
    let text = requests.last().unwrap().text();
    let shown: Vec<&str> = text.lines().filter(|line| !line.starts_with("<!-- ptmem-run:55.2 ")).collect();
    assert_eq!(
        shown.join("\n") + "\n",
        "<!-- ptmem:large/v2 -->\n### ⚠️ `large/v2` could not run at abc1234\n\n\
         ```text\na ''' @b: bad <i>\nmore\n```\n\nThere is no verdict on this commit. \
         [Log of the run](https://github.com/someone/model/actions/runs/55/attempts/2)\n"
    );
}

#[test]
fn the_label_lets_growth_pass_and_the_report_says_who_set_it() {
    if skipped() {
        return;
    }
    let approved = |before: &str, after: &str, action: &str, labels: &[&str]| {
        let mut job = gate(before, after);
        let labels: Vec<_> = labels.iter().map(|name| json!({"name": name})).collect();
        let event = json!({
            "action": action,
            "label": labels.first(),
            "sender": {"login": "ann"},
            "pull_request": {"number": 7, "labels": labels, "head": {"sha": "abc1234def567890"}},
        });
        fs::write(job.path("event.json"), event.to_string()).unwrap();
        let event = job.path("event.json");
        job.set("GITHUB_EVENT_PATH", event).set("PTMEM_APPROVE_LABEL", "memory ok").run("run.sh").says(0, "device 0");
        let outputs = job.outputs();
        (outputs["verdict"].clone(), outputs["approved"].clone(), verdict(&mut job), job.read("summary"))
    };
    let (name, is_approved, code, report) = approved("before.pkl", "after.pkl", "labeled", &["memory ok"]);
    assert_eq!((name.as_str(), is_approved.as_str(), code), ("regression", "true", 0));
    assert!(report.contains("label memory ok on the pull request, which @\u{200b}ann set"), "{report}");
    let (_, is_approved, code, report) = approved("before.pkl", "after.pkl", "synchronize", &["memory ok"]);
    assert_eq!((is_approved.as_str(), code), ("true", 0));
    assert!(report.contains("which was set before this run") && !report.contains("ann"), "{report}");
    let (_, is_approved, code, report) = approved("before.pkl", "after.pkl", "labeled", &["other"]);
    assert_eq!((is_approved.as_str(), code), ("false", 1));
    assert!(report.contains("n this pull request, set the label memory ok"), "{report}");
    let (name, is_approved, code, _) = approved("before.pkl", "state-only.pkl", "labeled", &["memory ok"]);
    assert_eq!((name.as_str(), is_approved.as_str(), code), ("inconclusive", "false", 3));
}

#[test]
fn the_report_names_its_gate_its_commit_and_its_run() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    let event = json!({"pull_request": {"number": 7, "head": {"sha": "abc1234def567890"}}});
    fs::write(job.path("event.json"), event.to_string()).unwrap();
    let event = job.path("event.json");
    fs::write(job.path("workspace/model.py"), "").unwrap();
    job.set("GITHUB_EVENT_PATH", event).set("GITHUB_SERVER_URL", "https://github.com").set("GITHUB_RUN_ID", "55");
    job.set("GITHUB_SHA", "merge00").set("PTMEM_COMMENT_KEY", "large/v2").run("run.sh").says(0, "device 0");
    let report = job.read("summary");
    assert!(report.starts_with("<!-- ptmem:large/v2 -->\n### ❌ FAIL `large/v2`: peak grew"), "{report}");
    let links = "GPU memory at commit [`abc1234`](https://github.com/someone/model/commit/abc1234def567890), \
                 [log of the run](https://github.com/someone/model/actions/runs/55)";
    assert!(report.contains(links), "{report}");
    let line = "](https://github.com/someone/model/blob/abc1234def567890/model.py#L40)";
    assert!(report.contains(line), "{report}");
    // The row of the table leads there as well, the metrics above it nowhere.
    let row = "| grew | [`attention (model.py:40) aten::_softmax`](https://github.com/";
    assert!(report.contains(row) && report.contains("#L40) (+3 more lines) |"), "{report}");
    assert_eq!(report.matches("/blob/").count(), 2, "{report}");
}

#[test]
fn check_and_leak_run_as_well() {
    if skipped() {
        return;
    }
    let mut job = gate("", "after.pkl");
    job.set("PTMEM_COMMAND", "check").set("PTMEM_MAX_GROWTH", "").set("PTMEM_ARGS", "--max peak=100MiB");
    let finished = job.run("run.sh");
    finished.says(0, "::error ");
    assert_eq!(job.outputs()["verdict"], "regression");
    assert!(job.read("summary").contains("❌ FAIL"), "{}", job.read("summary"));
    assert_eq!(verdict(&mut job), 1);
    let mut job = recorded("exit 2");
    job.set("PTMEM_COMMAND", "leak").set("PTMEM_AFTER", "\n nightly/*.pkl \n-last.pkl\n").run("run.sh");
    assert_eq!(arguments(&job), "[leak][nightly/*.pkl][./-last.pkl]");
    for (name, value, message) in [
        ("PTMEM_BEFORE", "a", "before: ptmem leak compares with no before"),
        ("PTMEM_MAX_GROWTH", " 5% ", "max-growth: is a limit of ptmem diff; give those of ptmem leak in args"),
        ("PTMEM_AFTER", " ", "after: this input is required"),
        ("PTMEM_COMMAND", "show", "command: 'show' is not accepted; expected one of: diff, check, leak"),
    ] {
        let mut job = recorded("exit 0");
        job.set("PTMEM_COMMAND", "leak").set("PTMEM_AFTER", "a").set(name, value);
        job.run("run.sh").says(0, &format!("::error::ptmem: {message}"));
        could_not_run(&job);
    }
}

#[test]
fn a_tool_that_gives_no_verdict_is_an_error() {
    if skipped() {
        return;
    }
    for script in ["exit 0", "exit 1", "exit 3", "exit 101", "kill -9 $$"] {
        let mut job = recorded(script);
        job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").run("run.sh").says(0, "::error::ptmem: ");
        could_not_run(&job);
        assert_eq!(verdict(&mut job), 2);
    }
    let job = Job::new();
    assert_eq!(job.run("verdict.sh").code, 2);
}
