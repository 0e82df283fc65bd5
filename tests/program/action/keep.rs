//! The branch that keeps the profiles of pushes, and the trend that it draws.

use std::fs;

use serde_json::json;

use super::{Finished, Job, find, root, skipped};
use crate::support::tool::{ptmem, say};

/// Whether this machine lacks what these tests need; it then says so.
pub(super) fn no_git() -> bool {
    if !skipped() && find("git").is_none() {
        say("skipped: no git to keep profiles with");
        return true;
    }
    skipped()
}

/// A push of a commit to the branch main of a repository, whose gate wrote a profile.
pub(super) fn pushed() -> Job {
    let mut job = Job::new();
    fs::create_dir_all(job.path("report/profiles")).unwrap();
    fs::create_dir(job.path("origin")).unwrap();
    job.git("origin", &["init", "--quiet", "--bare"]);
    let report = job.path("report");
    job.serve("origin").set("PTMEM_FOLDER", report).set("PTMEM_RETRY_DELAY", "0");
    job.set("GITHUB_REF", "refs/heads/main").set("GITHUB_EVENT_NAME", "push");
    push(&mut job, "before", 'a');
    job
}

/// Lets the job be the one of a push of a commit, of which every digit is the same.
fn push(job: &mut Job, recording: &str, digit: char) {
    let profile = job.path("report/profiles/train.ptmem.json");
    let recording = root().join(format!("fixtures/{recording}.pkl"));
    let output = ptmem(&job.path("report"), &["profile", recording.to_str().unwrap(), "-o", profile.to_str().unwrap()]);
    assert!(output.status.success());
    let commit = digit.to_string().repeat(40);
    let head = json!({"message": format!("change {digit}\n\nmore"), "timestamp": "2026-11-01T10:00:00+01:00"});
    job.event(&json!({"ref": "refs/heads/main", "head_commit": head})).set("GITHUB_SHA", commit);
}

/// The commits whose profiles the branch keeps, the newest first.
pub(super) fn kept(job: &Job) -> Vec<String> {
    let format = "--format=%s %(trailers:key=Recorded-commit,valueonly,separator=) %ct";
    let listed = job.git("origin", &["log", format, "ptmem-profiles", "--", "main/train.ptmem.json"]);
    listed.lines().map(|line| line.replace(&"a".repeat(40), "A").replace(&"b".repeat(40), "B")).collect()
}

fn keep(job: &Job) -> Finished {
    job.run("keep.sh")
}

#[test]
fn pushes_keep_their_profiles_and_draw_the_trend() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    keep(&job).says(0, "the profiles are kept in the branch ptmem-profiles");
    assert_eq!(kept(&job), ["change a A 1793523600"]);
    // The same again is no further commit.
    keep(&job).says(0, "the profiles are kept");
    assert_eq!(kept(&job).len(), 1);
    push(&mut job, "after", 'b');
    keep(&job).says(0, "the profiles are kept");
    assert_eq!(kept(&job), ["change b B 1793523600", "change a A 1793523600"]);
    let tool = env!("CARGO_BIN_EXE_ptmem");
    job.program("ptmem", &format!("#!/bin/sh\nexec '{tool}' \"$@\"\n")).run("trend.sh");
    let outputs = job.outputs();
    job.set("PTMEM_TREND", &outputs["trend"]).run("trend.sh").is_quiet();
    let summary = job.read("summary");
    assert!(summary.contains("333.95 MiB, +53.80 MiB"), "{summary}");
    // Commits are those of the code, not those that keep their profiles.
    assert!(summary.contains("aaaaaaaaaa") && summary.contains("bbbbbbbbbb"), "{summary}");
}

/// In a repository with several projects, gates of each can have the same name.
#[test]
fn gates_of_another_folder_have_a_trend_of_their_own() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    keep(&job).says(0, "the profiles are kept");
    push(&mut job, "after", 'a');
    job.set("PTMEM_SECTION", "pkg2");
    keep(&job).says(0, "the profiles are kept");
    let files = job.git("origin", &["ls-tree", "-r", "--name-only", "ptmem-profiles"]);
    assert_eq!(files, "main/pkg2/train.ptmem.json\nmain/train.ptmem.json");
    let tool = env!("CARGO_BIN_EXE_ptmem");
    job.program("ptmem", &format!("#!/bin/sh\nexec '{tool}' \"$@\"\n"));
    job.set("PTMEM_TREND", &job.outputs()["trend"]).run("trend.sh").is_quiet();
    assert!(
        job.read("summary").contains("333.95 MiB") && !job.read("summary").contains("280.14"),
        "{}",
        job.read("summary")
    );
}

#[test]
fn a_profile_goes_on_top_of_what_others_pushed_meanwhile() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    keep(&job).is_quiet();
    job.git("", &["clone", "--quiet", "--branch", "ptmem-profiles", "origin", "other"]);
    fs::write(job.path("other/other.ptmem.json"), "{}").unwrap();
    job.git("other", &["add", "--all"]);
    job.git("other", &["commit", "--quiet", "--message", "another gate"]);
    // Somebody pushes between the look at the branch and the push: git is asked for the first time.
    let git = find("git").unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = push ] && [ ! -e '{0}/done' ]; then touch '{0}/done'\n\
         GIT_CONFIG_COUNT=0 '{1}' -C '{0}' push --quiet origin ptmem-profiles || exit 9\nfi\nexec '{1}' \"$@\"\n",
        job.path("other").display(),
        git.display()
    );
    std::os::unix::fs::symlink(find("touch").unwrap(), job.path("bin/touch")).unwrap();
    push(&mut job, "after", 'b');
    job.program("git", &script);
    keep(&job).says(0, "the profiles are kept");
    assert_eq!(kept(&job).len(), 2);
    assert_eq!(job.git("origin", &["show", "ptmem-profiles:other.ptmem.json"]), "{}");
}

#[test]
fn a_branch_that_cannot_be_pushed_is_a_notice() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    job.set("GITHUB_REPOSITORY", "someone/missing");
    keep(&job).says(0, "::notice::ptmem: the profiles are not kept: the branch ptmem-profiles cannot be pushed");
    assert!(!job.outputs().contains_key("trend"));
    fs::remove_file(job.path("report/profiles/train.ptmem.json")).unwrap();
    keep(&job).is_quiet();
}
