//! Profiles that a branch keeps: the trend of pushes, and the before of a base that cannot be recorded.

use std::fs;

use serde_json::{Value, json};

use super::comment::commenting;
use super::record::{PROGRAM, merged, no_git, repairing, worktrees};
use super::run::verdict;
use super::server::{Server, answer};
use super::{Finished, Job};

/// Lets a job be the run of a push of this commit to the branch main.
pub(super) fn push(job: &mut Job, commit: &str) {
    job.git("workspace", &["fetch", "--quiet", "--depth=1", "origin", commit]);
    job.git("workspace", &["switch", "--quiet", "--detach", commit]);
    job.event(&json!({"ref": "refs/heads/main"}));
    job.set("GITHUB_EVENT_NAME", "push").set("GITHUB_REF", "refs/heads/main").set("PTMEM_RETRY_DELAY", "0");
    job.set("PTMEM_RECORD", PROGRAM).set("PTMEM_PROFILES", "ptmem-profiles");
}

/// Runs the step that fetches what keeps profiles.
pub(super) fn fetch(job: &mut Job) -> Finished {
    let finished = job.run("fetch.sh");
    let profiles = job.outputs().get("profiles").cloned().unwrap_or_default();
    job.set("PTMEM_PROFILES_FETCHED", profiles);
    finished
}

/// Runs the steps of the action that such a run has.
pub(super) fn keep(job: &mut Job) -> Finished {
    fetch(job).is_quiet();
    let finished = job.run("run.sh");
    finished.says(0, "::notice::ptmem: the profile of this commit is kept in the branch ptmem-profiles");
    assert_eq!(verdict(job), 0, "{}", finished.log);
    push_kept(job)
}

pub(super) fn push_kept(job: &mut Job) -> Finished {
    let outputs = job.outputs();
    for (variable, output) in [("", "profile"), ("_PATH", "profile-path"), ("_COMMIT", "profile-commit")] {
        job.set(&format!("PTMEM_PROFILE{variable}"), &outputs[output]);
    }
    job.run("keep.sh")
}

/// The commits whose profiles the branch keeps, the newest first.
pub(super) fn kept(job: &Job) -> Vec<String> {
    let format = "--format=%(trailers:key=Recorded-commit,valueonly,separator=)";
    let listed = job.git("origin", &["log", format, "ptmem-profiles", "--", "main/default.ptmem.json"]);
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn pushes_keep_their_profiles_and_draw_the_trend() {
    if no_git() {
        return;
    }
    let mut job = merged(1);
    let before = job.git("origin", &["rev-parse", "main~1"]);
    let after = job.git("origin", &["rev-parse", "change"]);
    push(&mut job, &before);
    keep(&mut job).says(0, "the profile is kept in the branch ptmem-profiles");
    assert_eq!(kept(&job), [&*before]);
    push(&mut job, &after);
    job.set("PTMEM_PAGE", "true");
    keep(&mut job).is_quiet();
    assert_eq!(kept(&job), [&*after, &*before]);
    let summary = job.read("summary");
    assert!(summary.contains("333.95 MiB, +53.80 MiB"), "{summary}");
    // Commits are those of the code, not those that keep their profiles.
    assert!(summary.contains(&after[..10]) && summary.contains(&before[..10]), "{summary}");
    assert!(fs::read_to_string(&job.outputs()["report-page"]).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(worktrees(&job), 1);
    assert_eq!(job.git("workspace", &["status", "--porcelain"]), "");
}

#[test]
fn a_profile_goes_on_top_of_what_others_pushed_meanwhile() {
    if no_git() {
        return;
    }
    let mut job = merged(1);
    let before = job.git("origin", &["rev-parse", "main~1"]);
    let after = job.git("origin", &["rev-parse", "change"]);
    push(&mut job, &before);
    keep(&mut job).is_quiet();
    push(&mut job, &after);
    fetch(&mut job);
    job.run("run.sh");
    job.git("origin", &["worktree", "add", "--quiet", "../other", "ptmem-profiles"]);
    fs::write(job.path("other/other.ptmem.json"), "{}").unwrap();
    job.git("other", &["add", "--all"]);
    job.git("other", &["commit", "--quiet", "--message", "another gate"]);
    job.git("other", &["switch", "--quiet", "--detach"]);
    push_kept(&mut job).says(0, "the profile is kept");
    assert_eq!(kept(&job), [&*after, &*before]);
    assert_eq!(job.git("origin", &["show", "ptmem-profiles:other.ptmem.json"]), "{}");
    // A branch that cannot be written is a warning.
    job.git("origin", &["config", "receive.denyCurrentBranch", "refuse"]);
    job.git("origin", &["switch", "--quiet", "ptmem-profiles"]);
    push(&mut job, &before);
    keep(&mut job).says(0, "::warning::ptmem: the profile is not kept: the branch ptmem-profiles cannot be pushed");
}

/// A job of a pull request that repairs its base, of which a profile is kept.
fn repairing_with_profile() -> Job {
    let mut job = repairing();
    let command = job.variables["PTMEM_RECORD"].clone();
    let event: Value = serde_json::from_str(&job.read("event.json")).unwrap();
    let base = event["pull_request"]["base"]["sha"].as_str().unwrap().to_owned();
    push(&mut job, &base);
    keep(&mut job).is_quiet();
    job.git("workspace", &["fetch", "--quiet", "--depth=2", "origin", "merge"]);
    job.git("workspace", &["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    job.git("workspace", &["update-ref", "-d", "refs/ptmem/profiles"]);
    job.event(&event).set("PTMEM_RECORD", command).set("GITHUB_EVENT_NAME", "pull_request");
    job.set("GITHUB_BASE_REF", "main").set("GITHUB_REF", "refs/pull/7/merge");
    fetch(&mut job).is_quiet();
    job
}

#[test]
fn a_base_that_cannot_be_recorded_leaves_its_profile_to_compare_with() {
    if no_git() {
        return;
    }
    let mut job = repairing_with_profile();
    let fetched = job.outputs()["profiles"].clone();
    let format = "--format=%(trailers:key=Recorded-commit,valueonly)";
    let base = job.git(&fetched, &["log", "-1", format, "refs/ptmem/profiles"]);
    let finished = job.run("run.sh");
    let told = format!("; compared with the profile of {}, the newest that is kept", &base[..7]);
    finished.says(0, &told);
    finished.says(0, "FAIL peak grew 53.80 MiB (+19.2 %)");
    assert_eq!(verdict(&mut job), 1);
    assert!(job.read("summary").contains("growth since the base is not judged: record: on the base "));
    // Within the limits it passes, and reviewers are told all the same.
    job.set("PTMEM_MAX_GROWTH", "50%").run("run.sh");
    let outputs = job.outputs();
    assert_eq!((&*outputs["verdict"], &*outputs["announce"]), ("pass", "true"));
    let brief = fs::read_to_string(&outputs["report-brief"]).unwrap();
    assert!(
        brief.contains("PASS: peak grew 53.80 MiB") && brief.contains("growth since the base is not judged"),
        "{brief}"
    );
    // A branch of the code has profiles of its own.
    job.set("GITHUB_BASE_REF", "release").run("run.sh");
    assert_eq!(job.outputs()["verdict"], "inconclusive");
}

/// The run of a merge queue whose pull request has these labels.
fn queued(labels: Value, server: &mut Option<Server>) -> Job {
    let started = Server::start(move |request| {
        assert_eq!(request.line(), "GET /repos/someone/model/issues/7/labels?per_page=100");
        answer(200, &labels)
    });
    let mut job = merged(2);
    let base = job.git("origin", &["rev-parse", "main"]);
    let head = job.git("origin", &["rev-parse", "merge"]);
    let head_ref = format!("refs/heads/gh-readonly-queue/main/pr-7-{base}");
    job.event(&json!({"merge_group": {"base_sha": base, "head_sha": head, "head_ref": head_ref}}));
    job.set("GITHUB_EVENT_NAME", "merge_group").set("PTMEM_APPROVE_LABEL", "memory-growth-approved");
    job.set("GITHUB_API_URL", &started.url).set("PTMEM_TOKEN", "ghs_0123456789abcdefSECRET");
    *server = Some(started);
    job
}

#[test]
fn the_label_of_a_pull_request_counts_in_a_merge_queue() {
    if no_git() {
        return;
    }
    for (labels, expected) in [
        (json!([{"name": "memory-growth-approved"}]), 0),
        (json!([{"name": "other"}]), 1),
        (json!({"message": "no"}), 1),
    ] {
        let mut server = None;
        let mut job = queued(labels, &mut server);
        let fetched = job.run("fetch.sh");
        assert!(!fetched.log.contains("SECRET"), "{}", fetched.log);
        let event = job.outputs()["event"].clone();
        let finished = job.set("PTMEM_QUEUED_EVENT", event).run("run.sh");
        assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
        assert_eq!(verdict(&mut job), expected, "{}", finished.log);
    }
    // A queue whose event names no pull request.
    let mut server = None;
    let mut job = queued(json!([]), &mut server);
    job.event(&json!({"merge_group": {"head_ref": "refs/heads/queue"}}));
    job.run("fetch.sh").says(0, "::notice::ptmem: no label counts in the merge queue: its event names no pull request");
}

#[test]
fn a_comment_where_all_is_well_has_one_line() {
    if no_git() {
        return;
    }
    let text = |mode: &str, verdict: &str, changed: &str| {
        let server = super::server::pull_request(Vec::new());
        let mut job = commenting(&server.url);
        fs::write(job.path("brief.md"), "<!-- ptmem:default -->\n### ✅ PASS\n").unwrap();
        let brief = job.path("brief.md");
        job.set("PTMEM_BRIEF", brief)
            .set("PTMEM_COMMENT", mode)
            .set("PTMEM_VERDICT", verdict)
            .set("PTMEM_CHANGED", changed);
        job.run("comment.sh").is_quiet();
        server.requests().last().filter(|request| request.method == "POST").map(super::server::Request::text)
    };
    assert!(text("always", "pass", "true").unwrap().ends_with("\n### ✅ PASS\n"));
    assert!(text("always", "regression", "true").unwrap().contains("\"Peak\" grew"));
    assert!(text("on-change", "pass", "true").unwrap().contains("\"Peak\" grew"));
    assert_eq!(text("auto", "pass", "true"), None);
}
