//! The note of `docs/examples/gitlab.yml`, with a server on this machine in place of GitLab.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::server::{Server, answer, nowhere};
use super::{Finished, Job, root, skipped};

const NOTES: &str = "/projects/3/merge_requests/7/notes";

/// The script of the example that writes the note.
fn script() -> String {
    let text = fs::read_to_string(root().join("docs/examples/gitlab.yml")).unwrap();
    let lines = text.lines().skip_while(|line| *line != "memory-note:").skip_while(|line| *line != "    - |").skip(1);
    lines.map(|line| line.strip_prefix("      ").unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn note(url: &str) -> (Job, Finished) {
    note_of(url, "<!-- ptmem:default -->\n### ❌ FAIL & more\n")
}

/// Runs it after a gate that wrote a comment.
fn note_of(url: &str, comment: &str) -> (Job, Finished) {
    let mut job = Job::new();
    job.set("CI_API_V4_URL", url).set("CI_PROJECT_ID", "3").set("CI_MERGE_REQUEST_IID", "7");
    job.set("MEMORY_NOTE_TOKEN", "glpat-SECRET");
    fs::create_dir(job.path("workspace/memory")).unwrap();
    fs::write(job.path("workspace/memory/comment.md"), comment).unwrap();
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
    let (_, finished) = note(&server.url);
    assert_eq!(finished.code, 0, "{}", finished.log);
    assert_eq!(server.lines(), [format!("GET {NOTES}?sort=asc&per_page=100"), format!("POST {NOTES}")]);
    // Releases of curl write a space in one way or the other.
    let body = String::from_utf8(server.requests()[1].body.clone()).unwrap().replace('+', "%20");
    assert_eq!(body, "body=%3C%21--%20ptmem%3Adefault%20--%3E%0A%23%23%23%20%E2%9D%8C%20FAIL%20%26%20more%0A");
    assert!(!finished.log.contains("SECRET"), "{}", finished.log);

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

#[test]
fn a_note_that_only_takes_the_place_of_one_is_no_new_one() {
    if skipped() {
        return;
    }
    let text = "<!-- ptmem:default only-update -->\n### ✅ PASS\n";
    let server = merge_request(vec![json!({"id": 5, "body": "Nice!"})]);
    assert_eq!(note_of(&server.url, text).1.code, 0);
    assert_eq!(server.lines(), [format!("GET {NOTES}?sort=asc&per_page=100")]);
    let server = merge_request(vec![json!({"id": 6, "body": "<!-- ptmem:default -->\nold"})]);
    assert_eq!(note_of(&server.url, text).1.code, 0);
    assert_eq!(server.lines()[1..], [format!("PUT {NOTES}/6")]);
}

/// The text of the note that was posted.
fn posted(server: &Server) -> String {
    let body = server.requests().into_iter().rfind(|request| request.method == "POST").unwrap().body;
    let fields = String::from_utf8(body).unwrap().replace('+', "%20");
    let mut bytes = Vec::new();
    let mut parts = fields.strip_prefix("body=").unwrap().split('%');
    bytes.extend(parts.next().unwrap().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

/// Recorded code may have written the comment.
#[test]
fn nothing_in_a_note_is_a_command_a_mention_or_a_link() {
    if skipped() {
        return;
    }
    let server = merge_request(Vec::new());
    let text = "<!-- ptmem:default -->\n/close\r\n  /assign @all\na/b\n";
    let (job, finished) = note_of(&server.url, text);
    assert_eq!(finished.code, 0, "{}", finished.log);
    let space = '\u{200b}';
    let expected = format!("<!-- ptmem:default -->\n{space}/close\n  {space}/assign @{space}all\na/b\n");
    assert_eq!(posted(&server), expected);
    // Files of the merge request beside it are not written to, and not read.
    let names: Vec<_> = fs::read_dir(job.path("workspace")).unwrap().flatten().map(|file| file.file_name()).collect();
    assert_eq!(names, ["memory"]);
    fs::remove_file(job.path("workspace/memory/comment.md")).unwrap();
    symlink(job.path("note.sh"), job.path("workspace/memory/comment.md")).unwrap();
    job.run_file(&job.path("note.sh")).says(0, "no note");
}
