//! The branch that keeps timelines as pictures, for comments.

use std::fs;

use serde_json::json;

use super::Job;
use super::record::no_git;
use super::run::gate;

const TOKEN: &str = "ghs_0123456789abcdefSECRET";

/// A run of a pull request from a repository, with a place for pictures.
pub(super) fn pictured(from: &str) -> Job {
    let mut job = gate("before.pkl", "after.pkl");
    job.git(".", &["init", "--quiet", "--bare", "--initial-branch", "main", "origin"]);
    job.event(&json!({"pull_request": {"number": 7, "head": {"repo": {"full_name": from}}}}));
    job.set("PTMEM_RETRY_DELAY", "0");
    job.set("PTMEM_PICTURES", "pictures/all").set("PTMEM_BASE", "none");
    job
}

/// Runs both steps, and gives the log of the second.
pub(super) fn keep(job: &mut Job, run: &str) -> super::Finished {
    job.set("GITHUB_RUN_ID", run).run("run.sh").says(0, "FAIL peak grew");
    let outputs = job.outputs();
    for (variable, output) in
        [("PICTURE", "picture"), ("PICTURE_REPORT", "picture-report"), ("REPORT", "report-markdown")]
    {
        job.set(&format!("PTMEM_{variable}"), &outputs[output]);
    }
    let finished = job.serve("origin").set("PTMEM_TOKEN", TOKEN).run("picture.sh");
    job.variables.remove("GITHUB_SERVER_URL");
    assert!(!finished.log.contains("SECRET"), "{}", finished.log);
    finished
}

fn report(job: &Job) -> String {
    fs::read_to_string(&job.outputs()["report-markdown"]).unwrap()
}

fn kept(job: &Job) -> Vec<String> {
    job.git("origin", &["ls-tree", "--name-only", "pictures/all"]).lines().map(str::to_owned).collect()
}

#[test]
fn the_comment_shows_a_picture_that_a_branch_keeps() {
    if no_git() {
        return;
    }
    let mut job = pictured("someone/model");
    for (run, count) in [("9", 1), ("10", 2)] {
        keep(&mut job, run).says(0, "the picture is kept in the branch pictures/all");
        let names = kept(&job);
        assert_eq!(names.len(), count);
        let name = names.iter().find(|name| name.starts_with(&format!("{run}-1-"))).unwrap();
        let address = format!("](https://github.com/someone/model/blob/pictures/all/{name}?raw=true)");
        let report = report(&job);
        assert!(report.contains(&address) && !report.contains("mermaid"), "{report}");
        assert!(job.git("origin", &["show", &format!("pictures/all:{name}")]).starts_with("<svg"));
        // The summary, which is written before, has the chart.
        assert!(job.read("summary").contains("mermaid"));
    }
    assert_eq!(job.git("origin", &["rev-list", "--count", "pictures/all"]), "1");
}

#[test]
fn a_branch_keeps_the_newest_pictures_and_nothing_else_is_replaced() {
    if no_git() {
        return;
    }
    let mut job = pictured("someone/model");
    keep(&mut job, "1000").says(0, "the picture is kept");
    let mut tree = String::new();
    let blob = job.git("origin", &["rev-parse", &format!("pictures/all:{}", kept(&job)[0])]);
    for run in 1..=250 {
        tree.push_str(&format!("100644 blob {blob}\t{run}-1-x.svg\n"));
    }
    fs::write(job.path("tree"), tree).unwrap();
    let many = "git mktree < ../tree | xargs -I{} git -c user.name=a -c user.email=a@b.c commit-tree {} -m 'Pictures of ptmem' \
                | xargs git update-ref refs/heads/pictures/all";
    let script = job.path("many.sh");
    fs::write(&script, format!("cd ../origin && {many}\n")).unwrap();
    job.run_file(&script).is_quiet();
    keep(&mut job, "1001").says(0, "the picture is kept");
    let names = kept(&job);
    let has = |name: &str| names.iter().any(|kept| kept.starts_with(name));
    assert_eq!((names.len(), has("51-1"), has("52-1"), has("250-1"), has("1001-1")), (200, false, true, true, true));
    // A branch with anything else stays as it is.
    let code = job.git("origin", &["commit-tree", "pictures/all^{tree}", "-m", "code"]);
    job.git("origin", &["update-ref", "refs/heads/pictures/all", &code]);
    keep(&mut job, "1002").says(0, "::warning::ptmem: the picture is not kept, so the comment has a chart: the branch");
    assert_eq!(job.git("origin", &["rev-parse", "pictures/all"]), code);
    assert!(report(&job).contains("mermaid"));
}

#[test]
fn a_picture_that_cannot_be_pushed_leaves_the_chart() {
    if no_git() {
        return;
    }
    let mut job = pictured("someone/model");
    let hook = job.path("origin/hooks/pre-receive");
    job.program("refuse", "#!/bin/sh\necho 'this token may only read' >&2\nexit 1\n");
    fs::create_dir_all(job.path("origin/hooks")).unwrap();
    fs::copy(job.path("bin/refuse"), &hook).unwrap();
    let finished = keep(&mut job, "1");
    finished.says(
        0,
        "::warning::ptmem: the picture is not kept, so the comment has a chart: the branch pictures/all cannot",
    );
    finished.says(0, "this token may only read");
    assert!(report(&job).contains("mermaid"));
    // As where another run was faster.
    fs::write(&hook, "#!/bin/sh\n[ -e tried ] || { : > tried; exit 1; }\n").unwrap();
    keep(&mut job, "2").says(0, "the picture is kept");
    assert!(!report(&job).contains("mermaid"));
}

#[test]
fn only_a_comment_with_the_whole_report_has_a_picture() {
    if no_git() {
        return;
    }
    let has_picture = |from: &str, settings: &[(&str, &str)]| {
        let mut job = pictured(from);
        for (name, value) in settings {
            job.set(name, *value);
        }
        job.run("run.sh").says(0, "device 0");
        job.outputs().contains_key("picture")
    };
    assert!(has_picture("someone/model", &[]));
    assert!(!has_picture("somebody/model", &[]), "a fork");
    assert!(!has_picture("someone/model", &[("PTMEM_COMMENT", "never")]));
    assert!(!has_picture("someone/model", &[("PTMEM_MAX_GROWTH", "90%")]), "the comment has one line");
    assert!(has_picture("someone/model", &[("PTMEM_MAX_GROWTH", "90%"), ("PTMEM_COMMENT", "on-change")]));
    assert!(!has_picture("someone/model", &[("PTMEM_PICTURES", "")]));
}
