//! The step that runs `ptmem gate`, with a program in its place that writes what it is given, and the steps around it.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::server::{Server, answer, comment};
use super::{Finished, Job, skipped};

/// In place of the tool: keeps its arguments and its environment, and writes the files of a run.
const GATE: &str = r#"#!/bin/sh
{ pwd; printf '[%s]' "$@"; } > "$RUNNER_TEMP/../arguments"
env > "$RUNNER_TEMP/../seen"
echo 'words ::error::of the program' >&2
[ "$1/${2%%=*}" = gate/--ci ] || exit 9
set -- "$1" --ci "${2#*=}"
mkdir -p "$3"
WRITES
"#;

const REGRESSION: &str = r#"
printf '<!-- ptmem:default -->\n### ❌ FAIL\n' | tee "$3/comment.md" > "$3/report.md"
printf '::error file=a.py::peak grew\n' > "$3/annotations.txt"
printf 'verdict=regression\nexit-code=1\napproved=false\npeak-after=7\nLD_PRELOAD=x\n' > "$3/outputs.txt"
exit 1
"#;

/// A job whose tool writes this.
fn gate(writes: &str) -> Job {
    let mut job = Job::new();
    job.program("ptmem", &GATE.replace("WRITES", writes));
    job.set("GITHUB_ACTIONS", "true");
    job
}

fn verdict(job: &mut Job) -> i32 {
    let outputs = job.outputs();
    for (variable, output) in [("PTMEM_EXIT_CODE", "exit-code"), ("PTMEM_APPROVED", "approved")] {
        job.set(variable, outputs.get(output).cloned().unwrap_or_default());
    }
    job.run("verdict.sh").code
}

#[test]
fn what_the_gate_writes_goes_to_the_runner() {
    if skipped() {
        return;
    }
    let mut job = gate(REGRESSION);
    let finished = job.run("gate.sh");
    finished.says(0, "\n::error file=a.py::peak grew\n");
    // Words of the program are no commands.
    let (off, rest) = finished.log.split_once("words ::error").unwrap();
    let word = off.trim().strip_prefix("::stop-commands::").unwrap();
    assert!(word.len() > 30 && rest.contains(&format!("\n::{word}::\n")), "{}", finished.log);
    assert_eq!(job.read("summary"), "<!-- ptmem:default -->\n### ❌ FAIL\n\n");
    let outputs = job.outputs();
    assert_eq!((&*outputs["verdict"], &*outputs["exit-code"], &*outputs["peak-after"]), ("regression", "1", "7"));
    assert!(!outputs.contains_key("LD_PRELOAD") && !outputs.contains_key("pages"));
    assert_eq!(verdict(&mut job), 1);
    for (exit_zero, approved, code, expected) in [
        ("true", "false", "1", 0),
        ("true", "false", "3", 0),
        ("true", "false", "2", 2),
        ("false", "true", "1", 0),
        ("false", "false", "3", 3),
        ("false", "false", "0", 0),
        ("false", "true", "2", 2),
        ("false", "false", "", 2),
    ] {
        job.set("PTMEM_EXIT_ZERO", exit_zero).set("PTMEM_APPROVED", approved).set("PTMEM_EXIT_CODE", code);
        assert_eq!(job.run("verdict.sh").code, expected, "{exit_zero} {approved} {code}");
    }
}

#[test]
fn inputs_are_arguments_and_nothing_in_them_is_evaluated() {
    if skipped() {
        return;
    }
    let mut job = gate(REGRESSION);
    job.run("gate.sh");
    let folder = job.outputs()["folder"].clone();
    let workspace = job.path("workspace").canonicalize().unwrap();
    assert_eq!(job.read("arguments"), format!("{}\n[gate][--ci={folder}][--comment=auto]", workspace.display()));
    fs::create_dir(job.path("workspace/examples")).unwrap();
    job.set("PTMEM_GATES", "train 'nightly-*'\n$(id)")
        .set("PTMEM_ARGS", "--max-growth 'stack:a b=0' \\\n  `id` \"x\"")
        .set("PTMEM_BASE", "origin/main")
        .set("PTMEM_WORKING_DIRECTORY", "examples")
        .set("PTMEM_COMMENT", "always")
        .set("PTMEM_APPROVE_LABEL", "grows; id");
    job.run("gate.sh");
    let folder = job.outputs()["folder"].clone();
    let expected = format!(
        "{}/examples\n[gate][--ci={folder}][--comment=always][--base=origin/main][--approve-label=grows; id]\
         [train][nightly-*][$(id)][--max-growth][stack:a b=0][`id`][x]",
        workspace.display()
    );
    assert_eq!(job.read("arguments"), expected);
}

/// Recorded code has the environment of the program that records it.
#[test]
fn the_program_meets_no_token_and_no_file_of_the_runner() {
    if skipped() {
        return;
    }
    let job = gate(REGRESSION);
    job.run("gate.sh");
    let seen = job.read("seen");
    for name in ["OUTPUT", "ENV", "PATH", "STEP_SUMMARY", "STATE"] {
        assert!(!seen.contains(&format!("GITHUB_{name}=")), "{seen}");
    }
    let action = fs::read_to_string(super::root().join("action.yml")).unwrap();
    let step = action.split("    - name: ").find(|step| step.starts_with("Gate\n")).unwrap();
    assert!(step.contains("action/gate.sh") && !step.to_lowercase().contains("token }}"), "{step}");
}

#[test]
fn gates_have_sections_of_the_comment_and_artifacts_of_their_own() {
    if skipped() {
        return;
    }
    for (gates, folder, section) in [
        ("", ".", ""),
        ("train", ".", "train"),
        ("train infer", ".", "train_infer"),
        ("nightly-* > $(id)\n", ".", "nightly-_id"),
        ("", "examples/gpt", "examples-gpt"),
        ("train", "./a", "a-train"),
        ("../x", ".", "x"),
    ] {
        let mut job = gate(&format!("touch \"$3/report.html\"\n{REGRESSION}"));
        symlink(super::find("touch").unwrap(), job.path("bin/touch")).unwrap();
        fs::create_dir_all(job.path("workspace").join(folder)).unwrap();
        job.set("PTMEM_GATES", gates).set("PTMEM_WORKING_DIRECTORY", folder).set("PTMEM_COMMENT_ARTIFACT", "c");
        job.run("gate.sh");
        let outputs = job.outputs();
        let end = if section.is_empty() { String::new() } else { format!("-{section}") };
        assert_eq!((&*outputs["section"], &*outputs["comment-artifact"]), (section, &*format!("c{end}")), "{gates}");
        assert!(outputs["page-artifact"].starts_with(&format!("ptmem-page{end}-")), "{outputs:?}");
        assert_eq!(outputs["pages"], format!("{}/*.html", outputs["folder"]));
    }
}

#[test]
fn jobs_of_a_matrix_with_the_same_gates_have_sections_of_their_own() {
    if skipped() {
        return;
    }
    for (gates, matrix, section) in [
        ("", "null", ""),
        ("train", "{\n  \"gate\": \"train\",\n  \"os\": \"ubuntu-24.04\"\n}", "train-ubuntu-24.04"),
        (
            "",
            "{\n  \"python\": 3.1,\n  \"pair\": {\n    \"deep\": true\n  },\n  \"list\": [\n    1\n  ]\n}",
            "3.1-true",
        ),
        ("a b", "{\n  \"gates\": \"a b\",\n  \"note\": \"a \\\"quoted\\\", word\"\n}", "a_b-a_quoted_word"),
    ] {
        let mut job = gate(REGRESSION);
        job.set("PTMEM_GATES", gates).set("PTMEM_MATRIX", matrix).run("gate.sh");
        assert_eq!(job.outputs()["section"], section, "{matrix}");
    }
}

#[track_caller]
fn could_not_run(job: &mut Job, finished: &Finished, message: &str) {
    finished.says(0, &format!("::error::ptmem: {message}"));
    assert_eq!(job.outputs()["verdict"], "error");
    assert!(
        job.read("summary").starts_with("<!-- ptmem:default -->\n### ⚠️ could not run\n"),
        "{}",
        job.read("summary")
    );
    let comment = fs::read_to_string(format!("{}/comment.md", job.outputs()["folder"])).unwrap();
    assert!(comment.contains(message), "{comment}");
    assert_eq!(verdict(job), 2);
}

#[test]
fn a_run_without_results_is_an_error() {
    if skipped() {
        return;
    }
    for (writes, status) in [("exit 0", 0), ("exit 1", 1), ("exit 101", 101), ("kill -9 $$", 137)] {
        let mut job = gate(writes);
        let finished = job.run("gate.sh");
        could_not_run(&mut job, &finished, &format!("ptmem gate ended with exit code {status} and wrote no results"));
    }
    for (name, value, message) in [
        ("PTMEM_GATES", "train --exit-zero", "gates: '--exit-zero' is not accepted"),
        ("PTMEM_ARGS", "--exit-zero", "args: --exit-zero is not accepted here"),
        ("PTMEM_ARGS", "'a", "args: cannot be split into words; is a quote not closed?"),
        ("PTMEM_EXIT_ZERO", "yes", "exit-zero: 'yes' is not accepted; expected one of: true, false"),
        ("PTMEM_WORKING_DIRECTORY", "missing", "working-directory: the folder 'missing' does not exist"),
    ] {
        let mut job = gate(REGRESSION);
        let finished = job.set(name, value).run("gate.sh");
        could_not_run(&mut job, &finished, message);
    }
    // A link that recorded code left in place of a result is not followed.
    let job = gate("ln -s \"$RUNNER_TEMP/../secret\" \"$3/report.md\"; printf 'verdict=pass\\n' > \"$3/outputs.txt\"");
    symlink(super::find("ln").unwrap(), job.path("bin/ln")).unwrap();
    fs::write(job.path("secret"), "secret").unwrap();
    assert_eq!(job.run("gate.sh").code, 0);
    assert_eq!(job.read("summary"), "");
}

/// The tool itself, on a pull request that edits the limit of a stored before in its own favor.
#[test]
fn the_tool_and_the_scripts_agree() {
    if super::keep::no_git() {
        return;
    }
    let mut job = Job::new();
    job.program("ptmem", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_ptmem")));
    let rules = "[max-growth]\npeak = \"5%\"\n[gate.server]\nbefore = \"before.pkl\"\nafter = \"after.pkl\"\n";
    job.git("workspace", &["init", "--quiet", "--initial-branch", "main"]);
    for side in ["before", "after"] {
        let name = format!("{side}.pkl");
        fs::copy(super::root().join("fixtures").join(&name), job.path("workspace").join(&name)).unwrap();
    }
    fs::write(job.path("workspace/ptmem.toml"), rules).unwrap();
    job.git("workspace", &["add", "--all"]);
    job.git("workspace", &["commit", "--quiet", "--message", "base"]);
    let base = job.git("workspace", &["rev-parse", "HEAD"]);
    let pull_request = json!({"number": 7, "base": {"sha": base}, "head": {"sha": base}, "labels": []});
    job.event(&json!({"pull_request": pull_request})).set("GITHUB_EVENT_NAME", "pull_request");
    let home = job.path("temp");
    job.set("HOME", home).set("GIT_CONFIG_GLOBAL", "/dev/null");
    job.run("gate.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", job.read("summary"));
    assert_eq!(verdict(&mut job), 1);
    assert!(job.read("summary").starts_with("<!-- ptmem:default -->\n### ❌ FAIL"), "{}", job.read("summary"));
    fs::write(job.path("workspace/ptmem.toml"), rules.replace("5%", "50%")).unwrap();
    job.git("workspace", &["commit", "--quiet", "--all", "--message", "looser"]);
    let finished = job.run("gate.sh");
    let outputs = job.outputs();
    assert_eq!(outputs["verdict"], "pass", "{}", finished.log);
    let comment = fs::read_to_string(format!("{}/comment.md", outputs["folder"])).unwrap();
    assert!(comment.starts_with("<!-- ptmem:default -->\n"), "{comment}");
    assert!(comment.contains("-peak = \"5%\"\n+peak = \"50%\""), "{comment}");
    assert!(outputs.contains_key("pages"), "{outputs:?}");
}

/// A job after a gate that wrote a comment.
fn linking(address: &str) -> Job {
    let mut job = Job::new();
    let folder = job.path("report");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("comment.md"), "the comment\n").unwrap();
    job.set("PTMEM_FOLDER", folder).set("PTMEM_PAGE_ADDRESS", address);
    job
}

const ADDRESS: &str = "https://example.com/someone/model/actions/runs/7/artifacts/9";

#[test]
fn an_uploaded_page_is_linked_in_the_comment_and_the_summary() {
    if skipped() {
        return;
    }
    let mut job = linking(ADDRESS);
    job.run("link.sh").is_quiet();
    let posted = job.outputs()["file"].clone();
    assert!(posted.ends_with("/comment.md"), "{posted}");
    assert!(fs::read_to_string(posted).unwrap().contains(&format!("]({ADDRESS}): ")));
    assert_eq!(job.read("summary").matches(ADDRESS).count(), 1);
    // A comment that is full already does not grow.
    fs::write(job.path("report/comment.md"), "x".repeat(65_000)).unwrap();
    job.set("PTMEM_SECTION", "train").run("link.sh").is_quiet();
    let posted = job.outputs()["file"].clone();
    assert!(posted.ends_with("/train.md") && fs::read(posted).unwrap().len() == 65_000);
    for address in ["", "javascript:alert(1)", "https://a b", "https://example.com/) <script>"] {
        let job = linking(address);
        job.run("link.sh").is_quiet();
        assert_eq!((job.read("report/comment.md").as_str(), job.read("summary").as_str()), ("the comment\n", ""));
    }
    // Without a comment, and with a link in its place, there is none to post.
    let job = linking(ADDRESS);
    fs::remove_file(job.path("report/comment.md")).unwrap();
    job.run("link.sh").is_quiet();
    symlink(job.path("event.json"), job.path("report/comment.md")).unwrap();
    job.run("link.sh").is_quiet();
    assert!(!job.outputs().contains_key("file"));
}

#[test]
fn jobs_of_a_matrix_share_one_comment() {
    if skipped() {
        return;
    }
    let body = std::sync::Mutex::new(None::<String>);
    let server = Server::start(move |request| {
        let mut body = body.lock().unwrap();
        if request.method != "GET" {
            *body = Some(request.text());
        }
        answer(200, &body.iter().map(|body| comment(5, body)).collect::<Vec<_>>().into())
    });
    for gates in ["train", "infer"] {
        let mut job = gate(REGRESSION);
        job.event(&json!({"pull_request": {"number": 7}}));
        job.set("PTMEM_GATES", gates).run("gate.sh");
        let outputs = job.outputs();
        job.set("PTMEM_FOLDER", &outputs["folder"]).set("PTMEM_SECTION", &outputs["section"]).run("link.sh").is_quiet();
        job.set("PTMEM_REPORT", &job.outputs()["file"]).set("GITHUB_API_URL", &server.url);
        job.set("PTMEM_TOKEN", "ghs_1").set("GITHUB_RUN_ID", "1").set("PTMEM_RETRY_DELAY", "0");
        job.run("comment.sh").is_quiet();
    }
    let text = server.requests().iter().rfind(|request| request.method != "GET").unwrap().text();
    let section = |name: &str| format!("<!-- ptmem-section:{name} Memory 1.1 -->\n### ❌ FAIL");
    assert_eq!(text, format!("<!-- ptmem:default -->\n{}\n{}", section("train"), section("infer")));
}

/// The run of a merge queue whose pull request has these labels.
fn queued(labels: serde_json::Value) -> (Job, Server) {
    let server = Server::start(move |request| {
        assert_eq!(request.line(), "GET /repos/someone/model/issues/7/labels?per_page=100");
        answer(200, &labels)
    });
    let mut job = gate("cat \"$GITHUB_EVENT_PATH\" > \"$RUNNER_TEMP/../event-seen\"");
    let head = format!("refs/heads/gh-readonly-queue/main/pr-7-{}", "a".repeat(40));
    job.event(&json!({"merge_group": {"base_sha": "b", "head_ref": head}}));
    job.set("GITHUB_EVENT_NAME", "merge_group").set("PTMEM_APPROVE_LABEL", "memory-growth-approved");
    job.set("GITHUB_API_URL", &server.url).set("PTMEM_TOKEN", "ghs_0123456789abcdefSECRET");
    (job, server)
}

#[test]
fn the_labels_of_a_queued_pull_request_are_in_the_event_that_the_gate_reads() {
    if skipped() {
        return;
    }
    let (mut job, server) = queued(json!([{"name": "memory-growth-approved"}]));
    let fetched = job.run("before.sh");
    fetched.is_quiet();
    assert!(!fetched.log.contains("SECRET"), "{}", fetched.log);
    let event = job.outputs()["event"].clone();
    job.set("PTMEM_QUEUED_EVENT", event).run("gate.sh");
    let seen: serde_json::Value = serde_json::from_str(&job.read("event-seen")).unwrap();
    assert_eq!(seen["pull_request"]["labels"][0]["name"], "memory-growth-approved");
    assert_eq!((&seen["merge_group"]["base_sha"], server.lines().len()), (&json!("b"), 1));
    // Where they cannot be read, and where the event names no pull request, no label counts.
    let (mut job, _) = queued(json!([]));
    job.event(&json!({"merge_group": {"head_ref": "refs/heads/queue"}}));
    job.run("before.sh").says(0, "::notice::ptmem: no label counts in the merge queue");
    let (mut job, _) = queued(json!([]));
    job.set("GITHUB_API_URL", super::server::nowhere()).run("before.sh").says(0, "::notice::ptmem: no label counts");
    assert!(!job.outputs().contains_key("event"));
}
