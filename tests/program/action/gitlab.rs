//! The note of `docs/examples/gitlab.yml`, with a server on this machine in place of GitLab.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::server::{Server, answer, nowhere};
use super::{Finished, Job, find, root, skipped};
use crate::support::tool::{ptmem, text};

const NOTES: &str = "/projects/3/merge_requests/7/notes";

/// The script of the example that writes the note.
fn script() -> String {
    let text = fs::read_to_string(root().join("docs/examples/gitlab.yml")).unwrap();
    let lines =
        text.lines().skip_while(|line| *line != "  after_script:").skip_while(|line| *line != "    - |").skip(1);
    lines.map(|line| line.strip_prefix("      ").unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn note(url: &str) -> (Job, Finished) {
    let mut job = Job::new();
    job.set("CI_API_V4_URL", url).set("CI_PROJECT_ID", "3").set("CI_MERGE_REQUEST_IID", "7");
    job.set("MEMORY_NOTE_TOKEN", "glpat-SECRET");
    fs::write(job.path("workspace/memory.md"), "<!-- ptmem:default -->\n### ❌ FAIL & more\n").unwrap();
    let script = job.path("note.sh");
    fs::write(&script, format!("set -eo pipefail\n{}", self::script())).unwrap();
    let finished = job.run_file(&script);
    (job, finished)
}

/// A merge request with these notes.
fn merge_request(notes: Vec<Value>) -> Server {
    Server::start(move |request| match request.method.as_str() {
        "GET" => answer(200, &notes.clone().into()),
        "POST" | "PUT" => answer(201, &json!({})),
        other => panic!("{other}"),
    })
}

#[test]
fn the_first_report_is_a_note_and_the_next_takes_its_place() {
    if skipped() {
        return;
    }
    let others = vec![json!({"id": 4, "body": "> <!-- ptmem:default -->"}), json!({"id": 5, "body": "Nice!"})];
    let server = merge_request(others.clone());
    let (job, finished) = note(&server.url);
    assert_eq!(finished.code, 0, "{}", finished.log);
    assert_eq!(server.lines(), [format!("GET {NOTES}?sort=asc&per_page=100"), format!("POST {NOTES}")]);
    // Releases of curl write a space in one way or the other.
    let body = String::from_utf8(server.requests()[1].body.clone()).unwrap().replace('+', "%20");
    assert_eq!(body, "body=%3C%21--%20ptmem%3Adefault%20--%3E%0A%23%23%23%20%E2%9D%8C%20FAIL%20%26%20more%0A");
    assert!(!finished.log.contains("SECRET") && !job.path("workspace/note-header").exists());

    let mine = json!({"id": 6, "body": "<!-- ptmem:default -->\nold"});
    let server = merge_request(others.into_iter().chain([mine]).collect());
    assert_eq!(note(&server.url).1.code, 0);
    assert_eq!(server.lines()[1..], [format!("PUT {NOTES}/6")]);
}

#[test]
fn a_note_that_cannot_be_written_fails_the_script() {
    if skipped() {
        return;
    }
    assert_ne!(note(&nowhere()).1.code, 0);
    let server = Server::start(|_| answer(403, &json!({})));
    assert_ne!(note(&server.url).1.code, 0);
    assert_eq!(server.lines().len(), 1);
}

/// A Python that makes environments and records the program that is installed there.
const PYTHON: &str = r#"#!/bin/sh
case "$1 $2" in
  '-m venv') mkdir -p "$3/bin" && printf 'VIRTUAL_ENV=%s\nexport VIRTUAL_ENV\n' "$3" > "$3/bin/activate" ;;
  'record_memory.py '*) [ ! -f broken ] && cp "$VIRTUAL_ENV/installed.pkl" "$PTMEM_SNAPSHOT" ;;
  *) exit 9 ;;
esac
"#;

/// In place of the tool: installs the code of the folder, and runs commands as they are; else the tool itself.
const TOOL: &str = r#"#!/bin/sh
case "$1 $2" in
  'pip install') cp recorded.pkl "$VIRTUAL_ENV/installed.pkl" ;;
  'simulate --') shift 2; exec "$@" ;;
  *) exec 'TOOL' "$@" ;;
esac
"#;

/// Runs the job of init on a merge request whose commits have these files, beside a recording each.
fn run_job_of_init(files: [&[&str]; 2]) -> (Job, Finished) {
    let mut job = Job::new();
    for name in ["cp", "chmod"] {
        symlink(find(name).unwrap(), job.path("bin").join(name)).unwrap();
    }
    job.program("python", PYTHON).program("pip", "#!/bin/sh\n");
    job.program("ptmem", &TOOL.replace("TOOL", env!("CARGO_BIN_EXE_ptmem")));
    job.git("workspace", &["init", "--quiet", "--initial-branch", "main"]);
    for (side, files) in ["before", "after"].into_iter().zip(files) {
        fs::copy(root().join(format!("fixtures/{side}.pkl")), job.path("workspace/recorded.pkl")).unwrap();
        for file in ["broken", "record_memory.py"] {
            let _ = fs::remove_file(job.path("workspace").join(file));
        }
        for file in files.iter().chain(&[".gitlab-ci.yml"]) {
            fs::write(job.path("workspace").join(file), "").unwrap();
        }
        job.git("workspace", &["add", "--all"]);
        job.git("workspace", &["commit", "--quiet", "--message", side]);
    }
    let base = job.git("workspace", &["rev-parse", "HEAD^"]);
    let init = ptmem(&job.path("workspace"), &["init"]);
    assert!(init.status.success(), "{}", text(&init.stderr));
    let script = script_of(&job.read("workspace/.gitlab/ptmem.yml"));
    fs::write(job.path("script.sh"), format!("set -eo pipefail\n{script}")).unwrap();
    let workspace = job.path("workspace");
    job.set("CI_PROJECT_DIR", workspace).set("CI_MERGE_REQUEST_DIFF_BASE_SHA", base);
    let finished = job.run_file(&job.path("script.sh"));
    assert!(!job.path("workspace/.ptmem/environment").exists());
    (job, finished)
}

#[test]
fn the_job_of_init_records_each_side_with_its_own_code() {
    if skipped() || find("git").is_none() {
        return;
    }
    let (job, finished) = run_job_of_init([&["record_memory.py"]; 2]);
    finished.says(1, "FAIL peak grew 53.80 MiB (+19.2 %)");
    assert!(job.read("workspace/memory.md").contains("53.80 MiB"));
    // Beside the code, another copy of it would be found in its place, and be packed with it.
    let entries = fs::read_dir(job.path("workspace")).unwrap().map(Result::unwrap);
    let folders: Vec<_> = entries.filter(|entry| entry.path().is_dir()).map(|folder| folder.file_name()).collect();
    assert!(folders.iter().all(|name| name.to_string_lossy().starts_with('.')), "{folders:?}");
    // A runner that keeps the folder cleans it, but not the repository.
    job.git("workspace", &["clean", "-ffdx", "--quiet", "--exclude=ptmem.toml"]);
    job.run_file(&job.path("script.sh")).says(1, "FAIL peak grew 53.80 MiB (+19.2 %)");
}

#[test]
fn the_job_of_init_knows_a_base_that_cannot_be_recorded() {
    if skipped() || find("git").is_none() {
        return;
    }
    let (job, finished) = run_job_of_init([&["record_memory.py", "broken"], &["record_memory.py"]]);
    finished.says(3, "INCONCLUSIVE growth: not judged: the base cannot be recorded; the log of the job says why");
    assert!(job.read("workspace/memory.md").contains("not judged"));
    let (_, finished) = run_job_of_init([&["broken"], &["record_memory.py"]]);
    finished.says(0, "PASS nothing to compare with yet: the base has no record_memory.py");
}

/// The commands of a job, one after the other.
fn script_of(definition: &str) -> String {
    let lines = definition.lines().skip_while(|line| *line != "  script:").skip(1);
    let mut script = String::new();
    let mut folds = false;
    for line in lines.take_while(|line| line.starts_with("    ")) {
        match line.strip_prefix("    - ") {
            Some(">-") => folds = true,
            Some("|") => folds = false,
            Some(command) => script.push_str(&format!("{command}\n")),
            None if folds => script.push_str(&format!("{} ", line.trim())),
            None => script.push_str(&format!("{}\n", line.strip_prefix("      ").unwrap_or(line))),
        }
    }
    script
}
