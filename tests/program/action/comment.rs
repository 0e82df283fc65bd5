//! The comment on the pull request.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::server::{COMMENTS, Server, answer, comment, nowhere, pull_request};
use super::{Job, skipped};

const TOKEN: &str = "ghs_0123456789abcdefSECRET";

/// A run of pull request 7 with a report whose verdict is a regression.
pub(super) fn commenting(url: &str) -> Job {
    let mut job = Job::new();
    fs::write(job.path("event.json"), json!({"pull_request": {"number": 7}}).to_string()).unwrap();
    fs::write(job.path("report.md"), "<!-- ptmem:default -->\n## \"Peak\" grew\n\n$(id) `µ`\n").unwrap();
    let (event, report) = (job.path("event.json"), job.path("report.md"));
    job.set("GITHUB_API_URL", url)
        .set("GITHUB_EVENT_PATH", event)
        .set("PTMEM_REPORT", report)
        .set("PTMEM_TOKEN", TOKEN)
        .set("PTMEM_RETRY_DELAY", "0");
    job
}

#[test]
fn the_first_report_creates_a_comment() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![comment(1, "Nice!"), comment(2, "> <!-- ptmem:default -->\nquoted")]);
    let job = commenting(&server.url);
    // The arguments of curl, which every user of the machine can see.
    let curl = fs::read_link(job.path("bin/curl")).unwrap();
    let arguments = job.path("arguments");
    job.program(
        "curl",
        &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\nexec '{}' \"$@\"\n", arguments.display(), curl.display()),
    );
    let finished = job.run("comment.sh");
    finished.is_quiet();
    let search = format!("GET {COMMENTS}?per_page=100&page=1");
    assert_eq!(server.lines(), [search.clone(), format!("POST {COMMENTS}"), search]);
    for request in server.requests() {
        assert_eq!(request.authorization.as_deref(), Some(format!("Bearer {TOKEN}").as_str()));
    }
    assert_eq!(last_written(&server), in_section(&job.read("report.md")));
    assert!(!finished.log.contains("SECRET"), "{}", finished.log);
    let arguments = job.read("arguments");
    assert!(arguments.contains(COMMENTS) && !arguments.contains("SECRET"), "{arguments}");
    // Nor is it left in a file.
    assert_eq!(fs::read_dir(job.path("temp")).unwrap().count(), 0);
}

#[test]
fn the_comment_is_found_on_any_page_and_updated() {
    if skipped() {
        return;
    }
    let mut comments: Vec<_> = (1..=103).map(|id| comment(id, "Nice!")).collect();
    comments[50]["body"] = Value::Null;
    comments.push(comment(9_007_199_254, "<!-- ptmem:default -->\r\n## Passed\r\n"));
    let server = pull_request(comments);
    let job = commenting(&server.url);
    job.run("comment.sh").is_quiet();
    assert_eq!(
        server.lines(),
        [
            format!("GET {COMMENTS}?per_page=100&page=1"),
            format!("GET {COMMENTS}?per_page=100&page=2"),
            "PATCH /repos/someone/model/issues/comments/9007199254".to_owned(),
            format!("GET {COMMENTS}?per_page=100&page=1"),
            format!("GET {COMMENTS}?per_page=100&page=2"),
        ]
    );
    assert_eq!(last_written(&server), in_section(&job.read("report.md")));
}

#[test]
fn comments_of_other_keys_and_of_people_are_left_alone() {
    if skipped() {
        return;
    }
    let mut person = comment(3, "<!-- ptmem:default -->\nPassed, trust me");
    person["user"]["type"] = "User".into();
    let comments = vec![comment(1, "<!-- ptmem:default2 -->\n"), comment(2, "<!-- ptmem:large -->\n"), person];
    let server = pull_request(comments.clone());
    commenting(&server.url).run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1], format!("POST {COMMENTS}"));
    // A token of a person writes as a person.
    let server = pull_request(comments);
    commenting(&server.url).set("PTMEM_TOKEN", "github_pat_1").run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1], "PATCH /repos/someone/model/issues/comments/3");
}

#[test]
fn a_comment_of_another_bot_is_left_alone() {
    if skipped() {
        return;
    }
    let mut other = comment(3, "<!-- ptmem:default -->\nPassed, trust me");
    other["user"]["login"] = "helpful[bot]".into();
    let server = pull_request(vec![other.clone()]);
    commenting(&server.url).run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1], format!("POST {COMMENTS}"));
    let server = pull_request(vec![other, comment(4, "<!-- ptmem:default -->\n")]);
    commenting(&server.url).run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1], "PATCH /repos/someone/model/issues/comments/4");
}

#[test]
fn a_report_of_any_length_makes_a_comment_that_is_accepted() {
    if skipped() {
        return;
    }
    for name in ["", "train"] {
        let server = pull_request(Vec::new());
        let mut job = commenting(&server.url);
        let section = "<!-- ptmem-section:infer Memory 1.1 -->\n";
        fs::write(job.path("report.md"), format!("### ✅ PASS\n{}", section.repeat(60_000))).unwrap();
        job.set("PTMEM_SECTION", name).run("comment.sh");
        let text = last_written(&server);
        assert!(text.len() < 65_536 && text.trim_end().ends_with("The rest is in the log of the run."), "{name}");
        assert!(!text.contains("section:infer") || !text.contains("ptmem-section:infer"), "{name}");
    }
}

#[test]
fn a_section_in_a_report_without_a_name_is_none() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let report = "### ✅\n<!-- ptmem-section:infer Memory 1.1 -->\n### ✅ `infer` PASS";
    post(&server, "1", "", report);
    assert_reads!(post(&server, "1", "train", "### ❌ `train` FAIL") => str![[r#"
<!-- ptmem:default -->
<!-- ptmem-section:comment Memory 1.1 -->
### ✅
<!-- ptmem section:infer Memory 1.1 -->
### ✅ `infer` PASS
<!-- ptmem-section:train Memory 1.1 -->
### ❌ `train` FAIL
"#]]);
}

#[test]
fn the_first_line_is_our_own_and_says_whether_a_comment_is_created() {
    if skipped() {
        return;
    }
    for (report, created) in [
        ("<!-- ptmem:large -->\n# Hello", true),
        ("# Hello", true),
        ("<!-- ptmem:default only-update -->\n# Hello", false),
    ] {
        for (existing, method) in [(vec![], "POST"), (vec![comment(5, "<!-- ptmem:default -->\n")], "PATCH")] {
            let server = pull_request(existing);
            let job = commenting(&server.url);
            fs::write(job.path("report.md"), report).unwrap();
            job.run("comment.sh").is_quiet();
            let written: Vec<_> = server.requests().into_iter().filter(|request| request.method != "GET").collect();
            assert_eq!(written.len(), usize::from(created || method == "PATCH"), "{report} {method}");
            let expected = in_section("<!-- ptmem:default -->\n# Hello");
            assert!(written.iter().all(|request| request.text() == expected), "{report}");
        }
    }
}

#[test]
fn a_token_that_may_not_write_is_a_notice() {
    if skipped() {
        return;
    }
    for status in [401, 403, 404] {
        for refused in ["GET", "POST"] {
            let server = Server::start(move |request| {
                let body = if request.method == "GET" { json!([]) } else { json!({"message": "no"}) };
                answer(if request.method == refused { status } else { 200 }, &body)
            });
            let finished = commenting(&server.url).run("comment.sh");
            finished.says(0, "::notice::ptmem: no comment: the token may not write to pull request 7");
            finished.says(0, &format!("status {status}"));
            finished.says(0, "pull-requests: write");
            assert_eq!(server.lines().len(), if refused == "GET" { 1 } else { 2 });
        }
    }
}

#[test]
fn a_server_that_fails_is_asked_three_times_and_then_a_warning() {
    if skipped() {
        return;
    }
    let server = Server::start(|_| (503, b"<html>busy</html>".to_vec()));
    let finished = commenting(&server.url).run("comment.sh");
    finished.says(0, "::warning::ptmem: no comment on pull request 7");
    finished.says(0, "503");
    assert_eq!(server.lines().len(), 3);
}

#[test]
fn a_failure_that_passes_leaves_one_comment() {
    if skipped() {
        return;
    }
    // The first POST creates the comment, and the answer gets lost.
    let created = std::sync::Mutex::new(None::<String>);
    let server = Server::start(move |request| {
        let mut created = created.lock().unwrap();
        match request.method.as_str() {
            "GET" => answer(200, &created.iter().map(|text| comment(8, text)).collect::<Vec<_>>().into()),
            "POST" => {
                *created = Some(request.text());
                (502, vec![])
            }
            _ => answer(200, &json!({})),
        }
    });
    commenting(&server.url).run("comment.sh").is_quiet();
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "POST", "GET", "PATCH", "GET"]);
}

#[test]
fn answers_that_make_no_sense_are_a_warning() {
    if skipped() {
        return;
    }
    for (status, body) in [(200, "<html>"), (200, "{\"message\": \"?\"}"), (422, "{}"), (429, "{}"), (301, "")] {
        let server = Server::start(move |_| (status, body.as_bytes().to_vec()));
        let finished = commenting(&server.url).run("comment.sh");
        finished.says(0, "::warning::ptmem: no comment on pull request 7");
        finished.says(0, &format!("answered {status}"));
        assert_eq!(server.lines().len(), 1);
    }
}

#[test]
fn no_connection_is_a_notice() {
    if skipped() {
        return;
    }
    let url = nowhere();
    let finished = commenting(&url).run("comment.sh");
    finished.says(0, &format!("::notice::ptmem: no comment: {url} does not answer"));
}

#[test]
fn only_pull_requests_get_comments() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    for event in [
        json!({"ref": "refs/heads/main"}),
        json!({"issue": {"number": 7}}),
        json!({"pull_request": {"number": "7; id"}}),
        json!([]),
    ] {
        fs::write(job.path("event.json"), event.to_string()).unwrap();
        job.run("comment.sh").says(0, "::notice::ptmem: no comment: this is not a run of a pull request");
    }
    fs::write(job.path("event.json"), "").unwrap();
    job.run("comment.sh").says(0, "this is not a run of a pull request");
    fs::remove_file(job.path("event.json")).unwrap();
    job.run("comment.sh").says(0, "this is not a run of a pull request");
    assert_eq!(server.lines(), [""; 0]);
    // A comment on a pull request is an event of an issue.
    let event = json!({"issue": {"number": 7, "pull_request": {"url": "https://example.com"}}});
    fs::write(job.path("event.json"), event.to_string()).unwrap();
    job.run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1], format!("POST {COMMENTS}"));
    // A number that is given counts more than the event.
    fs::write(job.path("event.json"), json!({"pull_request": {"number": 8}}).to_string()).unwrap();
    job.set("PTMEM_NUMBER", "7").run("comment.sh").is_quiet();
    assert_eq!(server.lines()[3], format!("GET {COMMENTS}?per_page=100&page=1"));
}

#[test]
fn a_comment_without_what_it_takes_is_a_notice() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    for tool in ["jq", "curl"] {
        let job = commenting(&server.url);
        job.without(tool).run("comment.sh").says(0, &format!("::notice::ptmem: no comment: there is no {tool}"));
    }
    for token in ["", "two\nlines", "a \"quote\""] {
        let finished = commenting(&server.url).set("PTMEM_TOKEN", token).run("comment.sh");
        finished.says(0, "::notice::ptmem: no comment: there is no token");
    }
    let finished = commenting(&server.url).set("PTMEM_REPORT", "missing.md").run("comment.sh");
    finished.says(0, "::notice::ptmem: no comment: there is no report");
    assert_eq!(server.lines(), [""; 0]);
}

#[test]
fn inputs_of_the_comment_that_mean_nothing_say_what_is_accepted() {
    if skipped() {
        return;
    }
    let cases = [("PTMEM_NUMBER", "7/../8", "number: '7/../8' is not accepted; expected the number of a pull request")];
    for (name, value, message) in cases {
        let finished = commenting(&nowhere()).set(name, value).run("comment.sh");
        finished.says(2, &format!("::error::ptmem: {message}"));
    }
}

/// Posts a report as the gate of a name, in a run, and gives the comment as it then is.
fn post(server: &Server, run: &str, name: &str, report: &str) -> String {
    let mut job = commenting(&server.url);
    fs::write(job.path("report.md"), format!("<!-- ptmem:{name} -->\n{report}\n")).unwrap();
    job.set("GITHUB_RUN_ID", run).set("PTMEM_SECTION", name).run("comment.sh").is_quiet();
    last_written(server)
}

/// The comment with a report of a job without gates, folder or matrix.
fn in_section(report: &str) -> String {
    report.trim_end().replacen('\n', "\n<!-- ptmem-section:comment Memory .1 -->\n", 1)
}

/// The text of the last request that wrote a comment.
pub(super) fn last_written(server: &Server) -> String {
    let requests = server.requests();
    requests.iter().rfind(|request| ["POST", "PATCH"].contains(&&*request.method)).unwrap().text()
}

/// A gate `train` of run 1.
fn training(server: &Server) -> Job {
    let mut job = commenting(&server.url);
    fs::write(job.path("report.md"), "<!-- ptmem:train -->\n### train\n").unwrap();
    job.set("GITHUB_RUN_ID", "1").set("PTMEM_SECTION", "train");
    job
}

const OF_TRAINING: &str = "<!-- ptmem-section:train Memory 1.1 -->\n### train";

/// The comment of another job of run 1, which wrote it without the section of this one.
const OF_ANOTHER: &str = "<!-- ptmem:default -->\n<!-- ptmem-section:infer Memory 1.1 -->\n### infer";

#[test]
fn a_section_that_another_job_overwrites_is_written_again() {
    if skipped() {
        return;
    }
    // The first text is replaced at once by what another job made of the comment as it was before.
    let body = std::sync::Mutex::new("<!-- ptmem:default -->\n".to_owned());
    let overwritten = AtomicBool::new(false);
    let server = Server::start(move |request| {
        let mut body = body.lock().unwrap();
        if request.method == "GET" {
            return answer(200, &json!([comment(5, &body)]));
        }
        *body = if overwritten.swap(true, Ordering::SeqCst) { request.text() } else { OF_ANOTHER.to_owned() };
        answer(200, &json!({}))
    });
    training(&server).run("comment.sh").is_quiet();
    assert_eq!(last_written(&server), format!("{OF_ANOTHER}\n{OF_TRAINING}"));
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "PATCH", "GET", "GET", "PATCH", "GET"]);
}

#[test]
fn of_two_comments_that_jobs_create_at_once_the_first_stays() {
    if skipped() {
        return;
    }
    let created = AtomicBool::new(false);
    let first = std::sync::Mutex::new(OF_ANOTHER.to_owned());
    let server = Server::start(move |request| match request.method.as_str() {
        "GET" if !created.load(Ordering::SeqCst) => answer(200, &json!([])),
        "GET" => answer(200, &json!([comment(8, &first.lock().unwrap()), comment(9, "<!-- ptmem:default -->\n")])),
        "POST" => {
            created.store(true, Ordering::SeqCst);
            answer(201, &json!({"id": 9}))
        }
        "DELETE" => (204, Vec::new()),
        _ => {
            *first.lock().unwrap() = request.text();
            answer(200, &json!({}))
        }
    });
    training(&server).run("comment.sh").is_quiet();
    let comments = COMMENTS.replace("/7", "");
    let written: Vec<_> = server.lines().into_iter().filter(|line| !line.starts_with("GET")).collect();
    assert_eq!(written, [format!("POST {COMMENTS}"), format!("DELETE {comments}/9"), format!("PATCH {comments}/8")]);
    assert_eq!(last_written(&server), format!("{OF_ANOTHER}\n{OF_TRAINING}"));
}

#[test]
fn jobs_that_always_overwrite_a_section_are_a_warning() {
    if skipped() {
        return;
    }
    let server = Server::start(|request| match request.method.as_str() {
        "GET" => answer(200, &json!([comment(5, OF_ANOTHER)])),
        _ => answer(200, &json!({})),
    });
    let finished = training(&server).run("comment.sh");
    finished.says(0, "::warning::ptmem: other jobs overwrite the section train of the comment");
}

#[test]
fn gates_with_names_share_a_comment() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let train = "### ❌ FAIL `train`\n\n| a | b |";
    let infer = "### ✅ PASS `infer-8`\n\n```text\nx\n```";
    assert_eq!(
        post(&server, "1", "train", train),
        format!("<!-- ptmem:default -->\n<!-- ptmem-section:train Memory 1.1 -->\n{train}")
    );
    let both = format!(
        "<!-- ptmem:default -->\n<!-- ptmem-section:train Memory 1.1 -->\n{train}\n<!-- ptmem-section:infer-8 Memory 1.1 -->\n{infer}"
    );
    assert_eq!(post(&server, "1", "infer-8", infer), both);
    // A gate that runs again takes its own place.
    assert_eq!(post(&server, "1", "train", "### again"), both.replace(train, "### again"));
    assert_eq!(server.requests().iter().filter(|request| request.method == "POST").count(), 1);
    // A section of the last run says nothing about this one.
    assert_eq!(
        post(&server, "2", "infer-8", infer),
        format!("<!-- ptmem:default -->\n<!-- ptmem-section:infer-8 Memory 2.1 -->\n{infer}")
    );
}

#[test]
fn sections_of_another_workflow_stay() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    fs::write(job.path("report.md"), "<!-- ptmem:default -->\n### on a GPU\n").unwrap();
    job.set("GITHUB_WORKFLOW", "Memory (GPU)").set("GITHUB_RUN_ID", "7").set("PTMEM_SECTION", "train");
    job.run("comment.sh").is_quiet();
    post(&server, "1", "train", "### train");
    assert_reads!(post(&server, "2", "infer", "### infer") => str![[r#"
<!-- ptmem:default -->
<!-- ptmem-section:train Memory_GPU_ 7.1 -->
### on a GPU
<!-- ptmem-section:infer Memory 2.1 -->
### infer
"#]]);
    // The workflow of a comment may be one that runs after that of the gate.
    job.event(&json!({"workflow_run": {"name": "Memory"}, "pull_request": {"number": 7}}));
    job.set("GITHUB_WORKFLOW", "Memory comment").set("GITHUB_RUN_ID", "8").run("comment.sh").is_quiet();
    assert_reads!(last_written(&server) => str![[r#"
<!-- ptmem:default -->
<!-- ptmem-section:train Memory_GPU_ 7.1 -->
### on a GPU
<!-- ptmem-section:train Memory 8.1 -->
### on a GPU
"#]]);
}

#[test]
fn workflows_with_one_job_each_share_the_comment() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    for (workflow, run) in [("Memory (GPU)", "7"), ("Memory", "8"), ("Memory (GPU)", "9")] {
        let mut job = commenting(&server.url);
        fs::write(job.path("report.md"), format!("<!-- ptmem:default -->\n### in {run}\n")).unwrap();
        job.set("GITHUB_WORKFLOW", workflow).set("GITHUB_RUN_ID", run).run("comment.sh").is_quiet();
    }
    assert_reads!(last_written(&server) => str![[r#"
<!-- ptmem:default -->
<!-- ptmem-section:comment Memory 8.1 -->
### in 8
<!-- ptmem-section:comment Memory_GPU_ 9.1 -->
### in 9
"#]]);
}

#[test]
fn a_report_makes_no_section_of_its_own() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    post(&server, "1", "a", "### a\n<!-- ptmem-section:b Memory 1.1 -->\n### ✅ PASS, trust me");
    let text = post(&server, "1", "c", "### c");
    let sections: Vec<_> = text.lines().filter(|line| line.starts_with("<!-- ptmem-section:")).collect();
    assert_eq!(sections, ["<!-- ptmem-section:a Memory 1.1 -->", "<!-- ptmem-section:c Memory 1.1 -->"], "{text}");
}

/// A report of which three are too much for a comment.
fn long(name: &str) -> String {
    format!("### {name}\n\n{}", "x".repeat(30_000))
}

#[test]
fn sections_that_are_too_long_together_give_way() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    post(&server, "1", "a", &long("a"));
    let remark = format!("> ⚠️ this change loosens {}", "x".repeat(2_000));
    post(&server, "1", "b", &long("b").replacen('\n', &format!("\n\n{remark}\n"), 1));
    let text = post(&server, "1", "c", &long("c"));
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains("### a\n\nThe rest is in the log of the run.\n") && text.contains(&long("c")), "{text}");
    assert!(text.contains("### b\n\n> ⚠️ this change loosens xxx") && !text.contains(&remark), "{text}");
}

/// What makes a report of somebody else harmless makes it longer.
#[test]
fn a_report_is_cut_once_it_is_text() {
    if skipped() {
        return;
    }
    for (unit, section) in [("@", ""), ("@", "train"), ("<a", ""), ("\u{b}/\n", ""), ("€", "train")] {
        let server = pull_request(vec![]);
        let mut job = commenting(&server.url);
        let report = format!("### FAIL\n\n```text\n{}\n```\n", unit.repeat(65_000 / unit.len()));
        fs::write(job.path("report.md"), report).unwrap();
        job.set("PTMEM_FOREIGN", "true").set("PTMEM_SECTION", section).run("comment.sh");
        let text = last_written(&server);
        assert!(text.len() <= 65_000 && text.len() > 60_000, "{unit:?}: {}", text.len());
        assert!(text.trim_end().ends_with("The rest is in the log of the run.") || unit == "€", "{unit:?}");
        // What follows is not part of a block of code.
        assert_eq!(text.matches("```").count(), 2, "{unit:?}");
    }
}

#[test]
fn a_folder_of_several_reports_is_a_comment_with_a_section_each() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    let folder = job.path("reports");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("comment.md"), "<!-- ptmem:default -->\n### ✅ one\n").unwrap();
    job.set("PTMEM_REPORT", &folder)
        .set("PTMEM_FOREIGN", "true")
        .set("GITHUB_RUN_ID", "1")
        .run("comment.sh")
        .is_quiet();
    assert_eq!(last_written(&server), "<!-- ptmem:default -->\n<!-- ptmem-section:comment Memory 1.1 -->\n### ✅ one");
    // A job with a gate of its own writes a file of that name.
    fs::rename(folder.join("comment.md"), folder.join("infer.md")).unwrap();
    job.set("GITHUB_RUN_ID", "2").run("comment.sh").is_quiet();
    assert_eq!(last_written(&server), "<!-- ptmem:default -->\n<!-- ptmem-section:infer Memory 2.1 -->\n### ✅ one");
    for (name, text) in [("infer", "### @infer"), ("train", "### train"), ("a b", "### none"), ("-->", "### none")] {
        fs::write(folder.join(format!("{name}.md")), format!("<!-- ptmem:default -->\n{text}\n")).unwrap();
    }
    std::os::unix::fs::symlink(job.path("event.json"), folder.join("link.md")).unwrap();
    job.run("comment.sh").says(0, "::notice::ptmem: no comment: there is no report");
    let expected = "<!-- ptmem:default -->\n<!-- ptmem-section:infer Memory 2.1 -->\n### @\u{200b}infer\n\
                    <!-- ptmem-section:train Memory 2.1 -->\n### train";
    assert_eq!(last_written(&server), expected);
}
