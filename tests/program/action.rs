//! The scripts of the GitHub Action, run as it runs them, with a server on this machine in place of GitHub.

#![cfg(unix)]
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "ghs_0123456789abcdefSECRET";
const VERSION: &str = env!("CARGO_PKG_VERSION");

// --- A job -----------------------------------------------------------------------------------------------------

/// A runner's folders and environment. Nothing of the real environment gets in but the tools of the system.
struct Job {
    folder: TempDir,
    variables: BTreeMap<String, OsString>,
}

/// The programs that the scripts use. The others of the machine, `ptmem` and `cargo` above all, are not on the path.
const TOOLS: [&str; 24] = [
    "awk",
    "bash",
    "cat",
    "curl",
    "dirname",
    "env",
    "grep",
    "gzip",
    "head",
    "jq",
    "mkdir",
    "mktemp",
    "mv",
    "od",
    "printf",
    "rm",
    "sed",
    "sha256sum",
    "shasum",
    "sleep",
    "tar",
    "tee",
    "tr",
    "uname",
];

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Whether this machine lacks what the scripts need; it then says so.
fn skipped() -> bool {
    for tool in ["bash", "curl", "jq", "xargs"] {
        if find(tool).is_none() {
            let _ = writeln!(std::io::stderr(), "skipped: no {tool} to run the scripts of the action");
            return true;
        }
    }
    false
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Job {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "temp", "workspace"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut job = Self { folder, variables: BTreeMap::new() };
        for tool in TOOLS.into_iter().chain(["xargs"]) {
            if let Some(file) = find(tool) {
                symlink(file, job.path("bin").join(tool)).unwrap();
            }
        }
        for (name, file) in [("GITHUB_OUTPUT", "output"), ("GITHUB_STEP_SUMMARY", "summary"), ("GITHUB_PATH", "path")] {
            let file = job.path(file);
            fs::write(&file, "").unwrap();
            job.set(name, file);
        }
        job.set("PATH", job.path("bin"));
        job.set("RUNNER_TEMP", job.path("temp"));
        job.set("GITHUB_WORKSPACE", job.path("workspace"));
        job.set("GITHUB_ACTION_PATH", root());
        job.set("GITHUB_REPOSITORY", "someone/model");
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Puts a program of this text on the path, before all others.
    fn program(&self, name: &str, script: &str) -> &Self {
        let file = self.path("bin").join(name);
        let _ = fs::remove_file(&file);
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn without(&self, name: &str) -> &Self {
        fs::remove_file(self.path("bin").join(name)).unwrap();
        self
    }

    /// Runs a script of the action in the workspace.
    fn run(&self, script: &str) -> Finished {
        let output = Command::new(find("bash").unwrap())
            .arg(root().join("action").join(script))
            .current_dir(self.path("workspace"))
            .env_clear()
            .envs(&self.variables)
            .output()
            .unwrap();
        Finished::new(&output)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The outputs, the last of a name as GitHub takes it.
    fn outputs(&self) -> BTreeMap<String, String> {
        let text = self.read("output");
        text.lines()
            .map(|line| line.split_once('=').unwrap_or_else(|| panic!("{line}")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

#[derive(Debug)]
struct Finished {
    code: i32,
    /// Both streams, as the log of a step has them.
    log: String,
}

impl Finished {
    fn new(output: &Output) -> Self {
        let mut log = String::from_utf8(output.stdout.clone()).unwrap();
        log.push_str(std::str::from_utf8(&output.stderr).unwrap());
        Self { code: output.status.code().unwrap(), log }
    }

    #[track_caller]
    fn says(&self, code: i32, what: &str) {
        assert_eq!(self.code, code, "{}", self.log);
        assert!(self.log.contains(what), "{what:?} is missing:\n{}", self.log);
    }

    /// Nothing for the eye: no notice, no warning, no error.
    #[track_caller]
    fn is_quiet(&self) {
        assert_eq!(self.code, 0, "{}", self.log);
        assert!(!self.log.lines().any(|line| line.starts_with("::")), "{}", self.log);
    }
}

// --- A server --------------------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
struct Request {
    method: String,
    path: String,
    authorization: Option<String>,
    body: Vec<u8>,
}

impl Request {
    fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn text(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["body"].as_str().unwrap().to_owned()
    }
}

type Answer = (u16, Vec<u8>);

/// Answers requests until it is dropped, and keeps them.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(answer: impl Fn(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let mut stream = stream.unwrap();
                let request = receive(&stream);
                let (status, body) = answer(&request);
                kept.lock().unwrap().push(request);
                let head =
                    format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&body).unwrap();
            }
        });
        Self { url, requests, stop, thread: Some(thread) }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok(), "the server failed");
    }
}

fn receive(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut authorization, mut length) = (None, 0);
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Request { method, path, authorization, body }
}

/// An address that nobody answers. A port that was free a moment ago may be another test's by now.
fn nowhere() -> String {
    "http://127.0.0.1:1".to_owned()
}

// --- The comment -----------------------------------------------------------------------------------------------

const COMMENTS: &str = "/repos/someone/model/issues/7/comments";

fn answer(status: u16, body: &Value) -> Answer {
    (status, body.to_string().into_bytes())
}

fn comment(id: u64, body: &str) -> Value {
    json!({"id": id, "body": body, "user": {"login": "github-actions[bot]", "type": "Bot"}})
}

/// A pull request with these comments, which can be added to and changed.
fn pull_request(comments: Vec<Value>) -> Server {
    Server::start(move |request| match request.method.as_str() {
        "GET" => {
            let (path, page) = request.path.split_once("?per_page=100&page=").unwrap();
            assert_eq!(path, COMMENTS);
            let page: usize = page.parse().unwrap();
            let page: Vec<_> = comments.iter().skip((page - 1) * 100).take(100).cloned().collect();
            answer(200, &Value::from(page))
        }
        "POST" => answer(201, &json!({})),
        "PATCH" => answer(200, &json!({})),
        other => panic!("{other}"),
    })
}

/// A run of pull request 7 with a report whose verdict is a regression.
fn commenting(url: &str) -> Job {
    let mut job = Job::new();
    fs::write(job.path("event.json"), json!({"pull_request": {"number": 7}}).to_string()).unwrap();
    fs::write(job.path("report.md"), "<!-- ptmem:default -->\n## \"Peak\" grew\n\n$(id) `µ`\n").unwrap();
    let (event, report) = (job.path("event.json"), job.path("report.md"));
    job.set("GITHUB_API_URL", url)
        .set("GITHUB_EVENT_PATH", event)
        .set("PTMEM_REPORT", report)
        .set("PTMEM_TOKEN", TOKEN)
        .set("PTMEM_VERDICT", "regression")
        .set("PTMEM_CHANGED", "true")
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
    // Everything that curl is called with, as anybody on the machine could see it.
    let curl = fs::read_link(job.path("bin/curl")).unwrap();
    let arguments = job.path("arguments");
    job.program(
        "curl",
        &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\nexec '{}' \"$@\"\n", arguments.display(), curl.display()),
    );
    let finished = job.run("comment.sh");
    finished.is_quiet();
    assert_eq!(server.lines(), [format!("GET {COMMENTS}?per_page=100&page=1"), format!("POST {COMMENTS}")]);
    for request in server.requests() {
        assert_eq!(request.authorization.as_deref(), Some(format!("Bearer {TOKEN}").as_str()));
    }
    assert_eq!(server.requests()[1].text(), job.read("report.md"));
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
        ]
    );
    assert_eq!(server.requests()[2].text(), job.read("report.md"));
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
    assert_eq!(server.lines()[1..], [format!("POST {COMMENTS}")]);
    // A token of a person writes as a person.
    let server = pull_request(comments);
    commenting(&server.url).set("PTMEM_TOKEN", "github_pat_1").run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1..], ["PATCH /repos/someone/model/issues/comments/3"]);
}

#[test]
fn the_key_of_the_inputs_counts_and_not_that_of_the_report() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![comment(2, "<!-- ptmem:large -->\n")]);
    let mut job = commenting(&server.url);
    job.set("PTMEM_COMMENT_KEY", "large").run("comment.sh").is_quiet();
    let request = &server.requests()[1];
    assert_eq!(request.line(), "PATCH /repos/someone/model/issues/comments/2");
    assert_eq!(request.text(), "<!-- ptmem:large -->\n## \"Peak\" grew\n\n$(id) `µ`\n");
    // A report without a marker gets one.
    fs::write(job.path("report.md"), "# Hello").unwrap();
    job.run("comment.sh").is_quiet();
    assert_eq!(server.requests()[3].text(), "<!-- ptmem:large -->\n# Hello");
}

#[test]
fn every_mode_comments_when_it_says() {
    if skipped() {
        return;
    }
    // Mode, verdict, changed; whether a comment is created; whether one that exists is updated.
    let cases = [
        ("never", "regression", "true", false, false),
        ("always", "pass", "false", true, true),
        ("always", "regression", "true", true, true),
        ("auto", "pass", "true", false, true),
        ("auto", "regression", "true", true, true),
        ("auto", "inconclusive", "false", true, true),
        ("on-change", "pass", "false", false, true),
        ("on-change", "pass", "true", true, true),
        ("on-change", "inconclusive", "false", true, true),
    ];
    for (mode, verdict, changed, creates, updates) in cases {
        for (existing, expected) in [(vec![], creates), (vec![comment(5, "<!-- ptmem:default -->\n")], updates)] {
            let method = if existing.is_empty() { "POST" } else { "PATCH" };
            let server = pull_request(existing);
            let mut job = commenting(&server.url);
            job.set("PTMEM_COMMENT", mode).set("PTMEM_VERDICT", verdict).set("PTMEM_CHANGED", changed);
            job.run("comment.sh").is_quiet();
            let written: Vec<_> =
                server.requests().into_iter().map(|request| request.method).filter(|method| method != "GET").collect();
            let expected: &[&str] = if expected { &[method] } else { &[] };
            assert_eq!(written, expected, "{mode} {verdict} {changed} {method}");
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
    let created = AtomicBool::new(false);
    let server = Server::start(move |request| match request.method.as_str() {
        "GET" if created.load(Ordering::SeqCst) => answer(200, &json!([comment(8, "<!-- ptmem:default -->\n")])),
        "GET" => answer(200, &json!([])),
        "POST" => {
            created.store(true, Ordering::SeqCst);
            (502, vec![])
        }
        _ => answer(200, &json!({})),
    });
    commenting(&server.url).run("comment.sh").is_quiet();
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "POST", "GET", "PATCH"]);
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
        job.run("comment.sh").says(0, "::notice::ptmem: no comment: this is no run of a pull request");
    }
    fs::write(job.path("event.json"), "").unwrap();
    job.run("comment.sh").says(0, "this is no run of a pull request");
    fs::remove_file(job.path("event.json")).unwrap();
    job.run("comment.sh").says(0, "this is no run of a pull request");
    assert_eq!(server.lines(), [""; 0]);
    // A comment on a pull request is an event of an issue.
    let event = json!({"issue": {"number": 7, "pull_request": {"url": "https://example.com"}}});
    fs::write(job.path("event.json"), event.to_string()).unwrap();
    job.run("comment.sh").is_quiet();
    assert_eq!(server.lines()[1..], [format!("POST {COMMENTS}")]);
    // A number that is given counts more than the event.
    fs::write(job.path("event.json"), json!({"pull_request": {"number": 8}}).to_string()).unwrap();
    job.set("PTMEM_NUMBER", "7").run("comment.sh").is_quiet();
    assert_eq!(server.lines()[3..], [format!("POST {COMMENTS}")]);
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
    let cases = [
        ("PTMEM_COMMENT", "foo", "comment: 'foo' is not accepted; expected one of: auto, always, on-change, never"),
        ("PTMEM_COMMENT_KEY", "a --> b", "comment-key: 'a --> b' is not accepted; expected letters, digits and"),
        ("PTMEM_COMMENT_KEY", "-x", "comment-key: '-x' is not accepted"),
        ("PTMEM_NUMBER", "7/../8", "number: '7/../8' is not accepted; expected the number of a pull request"),
    ];
    for (name, value, message) in cases {
        let finished = commenting(&nowhere()).set(name, value).run("comment.sh");
        finished.says(2, &format!("::error::ptmem: {message}"));
    }
}

// --- The installation ------------------------------------------------------------------------------------------

/// The target whose binary this machine takes, or none.
fn target() -> Option<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some("x86_64-unknown-linux-musl"),
        ("linux", "aarch64") => Some("aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => Some("x86_64-apple-darwin"),
        ("macos", "aarch64") => Some("aarch64-apple-darwin"),
        _ => None,
    }
}

/// A cargo that writes down how it is called, and installs a program that says what it is.
const CARGO: &str = r#"#!/bin/sh
{ pwd; printf '%s\n' "$@"; } > "$RUNNER_TEMP/../cargo"
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
printf '#!/bin/sh\necho ptmem-gate built\n' > "$2/bin/ptmem"
chmod +x "$2/bin/ptmem"
"#;

fn installing(url: &str) -> Job {
    let mut job = Job::new();
    symlink(find("chmod").unwrap(), job.path("bin/chmod")).unwrap();
    job.program("cargo", CARGO);
    job.set("GITHUB_SERVER_URL", url).set("PTMEM_ACTION_REPOSITORY", "owner/ptmem");
    job
}

/// A program that prints its version, in an archive, and the line of its checksum.
fn release(version: &str) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ptmem-{version}-{}", target().unwrap());
    fs::create_dir(folder.path().join(&name)).unwrap();
    let program = folder.path().join(&name).join("ptmem");
    fs::write(&program, format!("#!/bin/sh\necho ptmem-gate {version}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = folder.path().join("archive.tar.gz");
    let status = Command::new("tar").arg("-C").arg(folder.path()).arg("-czf").arg(&archive).arg(&name).status();
    assert!(status.unwrap().success());
    let program: &[&str] = if find("sha256sum").is_some() { &["sha256sum"] } else { &["shasum", "-a", "256"] };
    let output = Command::new(program[0]).args(&program[1..]).arg(&archive).output().unwrap();
    let checksum = String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(checksum.len(), 64);
    (fs::read(&archive).unwrap(), format!("{checksum}  {name}.tar.gz\n"))
}

/// A server with the files of a release.
fn releases(version: &str, archive: Option<Vec<u8>>, checksum: Option<String>) -> Server {
    let path = format!("/owner/ptmem/releases/download/v{version}/ptmem-{version}-{}.tar.gz", target().unwrap());
    Server::start(move |request| {
        let content = match request.path.strip_prefix(path.as_str()) {
            Some("") => archive.clone(),
            Some(".sha256") => checksum.clone().map(String::into_bytes),
            _ => None,
        };
        content.map_or((404, vec![]), |content| (200, content))
    })
}

/// What the program prints that the following steps find.
fn installed(job: &Job) -> String {
    let folder = job.read("path");
    let output = Command::new(Path::new(folder.trim_end()).join("ptmem")).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_ptmem_on_the_path_is_used() {
    if skipped() {
        return;
    }
    let mut job = installing(&nowhere());
    job.program("ptmem", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    for version in ["", "7.8.9", "v7.8.9"] {
        job.set("PTMEM_VERSION", version);
        job.run("install.sh").says(0, "using ptmem-gate 7.8.9, which is on the path as ptmem");
    }
    assert_eq!(job.read("path"), "");
    assert!(!job.path("cargo").exists());
}

#[test]
fn another_tool_of_the_same_name_is_not_taken_for_this_one() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let server = releases(VERSION, Some(archive), Some(checksum));
    for other in ["echo ptmem 9.0.0", "echo ptmem-gate-other 1.0", "exit 2"] {
        let job = installing(&server.url);
        job.program("ptmem", &format!("#!/bin/sh\n{other}\n"));
        job.run("install.sh").says(0, "downloading");
        assert_eq!(installed(&job), format!("ptmem-gate {VERSION}\n"), "{other}");
    }
}

#[test]
fn the_name_of_the_python_package_leads_to_the_tool_where_another_has_the_short_one() {
    if skipped() {
        return;
    }
    let job = installing(&nowhere());
    job.program("ptmem", "#!/bin/sh\necho ptmem 9.0.0\n").program("ptmem-gate", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    job.run("install.sh").says(0, "using ptmem-gate 7.8.9, which is on the path as ptmem-gate");
    let folder = job.read("path");
    let program = Path::new(folder.trim_end()).join("ptmem");
    let output = Command::new(program).env("PATH", job.path("bin")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ptmem-gate 7.8.9\n");
    assert!(!job.path("cargo").exists());
}

#[test]
fn a_release_is_downloaded_and_checked() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let (bare, windows) = (checksum[..64].to_owned(), checksum.replace("  ", " *").replace('\n', "\r\n"));
    for checksum in [checksum, bare, windows] {
        let server = releases(VERSION, Some(archive.clone()), Some(checksum));
        let job = installing(&server.url);
        job.run("install.sh").says(0, "downloading");
        assert_eq!(installed(&job), format!("ptmem-gate {VERSION}\n"));
        assert!(!job.path("cargo").exists());
    }
}

#[test]
fn another_version_than_that_on_the_path_is_downloaded() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release("9.9.9-rc.1");
    let server = releases("9.9.9-rc.1", Some(archive), Some(checksum));
    let mut job = installing(&server.url);
    job.program("ptmem", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    job.set("PTMEM_VERSION", "v9.9.9-rc.1").run("install.sh").says(0, "ptmem-gate 9.9.9-rc.1");
    assert_eq!(installed(&job), "ptmem-gate 9.9.9-rc.1\n");
}

#[test]
fn a_release_with_another_checksum_is_an_error() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let zeros = format!("{}  ptmem.tar.gz\n", "0".repeat(64));
    for wrong in [zeros, checksum[..63].to_owned(), checksum.to_uppercase(), String::new(), "<html>\n".to_owned()] {
        let server = releases(VERSION, Some(archive.clone()), Some(wrong));
        let job = installing(&server.url);
        job.run("install.sh").says(2, "has not the checksum of its release");
        assert_eq!(job.read("path"), "");
        assert!(!job.path("cargo").exists());
    }
}

#[test]
fn an_archive_that_holds_something_else_is_no_verdict() {
    if skipped() || target().is_none() {
        return;
    }
    // The right checksum of a wrong archive: nothing may end with 1.
    let (archive, checksum) = release("1.2.3");
    let server = releases(VERSION, Some(archive), Some(checksum));
    let job = installing(&server.url);
    assert_eq!(job.run("install.sh").code, 2);
    assert_eq!(job.read("path"), "");
}

#[test]
fn where_there_is_no_release_the_source_is_built() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let nothing = releases(VERSION, None, None);
    let unchecked = releases(VERSION, Some(archive), None);
    let checksum = releases(VERSION, None, Some(checksum));
    for url in [nothing.url.clone(), unchecked.url.clone(), checksum.url.clone(), nowhere()] {
        let mut job = installing(&url);
        for version in ["", VERSION] {
            fs::write(job.path("path"), "").unwrap();
            job.set("PTMEM_VERSION", version).run("install.sh").says(0, "building it from the source of the action");
            assert_eq!(installed(&job), "ptmem-gate built\n");
            let called = job.read("cargo");
            let called: Vec<_> = called.lines().collect();
            let source = root().to_str().unwrap();
            assert_eq!(Path::new(called[0]).canonicalize().unwrap(), root().canonicalize().unwrap());
            assert_eq!(called[1..6], ["install", "--locked", "--path", source, "--root"]);
        }
    }
    // An action of the same repository has no releases to look at.
    let mut job = installing(&nothing.url);
    job.set("PTMEM_ACTION_REPOSITORY", "").run("install.sh").says(0, "ptmem-gate built");
}

#[test]
fn without_a_way_to_install_it_says_what_is_missing() {
    if skipped() {
        return;
    }
    let url = nowhere();
    let finished = installing(&url).set("PTMEM_VERSION", "9.9.9").run("install.sh");
    finished.says(2, "::error::ptmem: there is no release 9.9.9 to download for this machine, and the source of the");
    let finished = installing(&url).without("cargo").run("install.sh");
    finished.says(2, "no cargo to build it with");
    let job = installing(&url);
    job.program("cargo", "#!/bin/sh\nexit 101\n").run("install.sh").says(2, "could not be built");
    for version in ["latest", "../../x", "1.0 $(id)", "-1"] {
        let finished = installing(&url).set("PTMEM_VERSION", version).run("install.sh");
        finished.says(2, &format!("::error::ptmem: version: '{version}' is not accepted; expected a released version"));
    }
}

// --- The run ---------------------------------------------------------------------------------------------------

/// A job with the real tool on the path and the fixtures in its workspace.
fn gate(before: &str, after: &str) -> Job {
    let mut job = Job::new();
    symlink(env!("CARGO_BIN_EXE_ptmem"), job.path("bin/ptmem")).unwrap();
    for name in [before, after] {
        let _ = fs::copy(root().join("fixtures").join(name), job.path("workspace").join(name));
    }
    job.set("PTMEM_BEFORE", before).set("PTMEM_AFTER", after).set("PTMEM_MAX_GROWTH", "5%");
    job
}

/// A job with a tool that writes down its arguments, one per line, and then does what the script says.
fn recorded(script: &str) -> Job {
    let job = Job::new();
    let first = "#!/bin/sh\nprintf '[%s]\\n' \"$@\" > \"$RUNNER_TEMP/../arguments\"\n";
    job.program("ptmem", &format!("{first}{script}\n"));
    job
}

/// The arguments up to the first export.
fn arguments(job: &Job) -> String {
    let arguments = job.read("arguments");
    arguments.split("[--export]").next().unwrap().replace('\n', "")
}

/// What the last step makes of the outputs.
fn verdict(job: &mut Job) -> i32 {
    let code = job.outputs()["exit-code"].clone();
    job.set("PTMEM_EXIT_CODE", code).run("verdict.sh").code
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
fn could_not_run(job: &Job) {
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
    assert_eq!(
        requests.last().unwrap().text(),
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
        job.set("PTMEM_APPROVED", outputs["approved"].clone());
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
    assert!(report.contains("Approve it with the label `memory ok` on the pull request"), "{report}");
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
    let links = "Commit [`abc1234`](https://github.com/someone/model/commit/abc1234def567890), \
                 [log of the run](https://github.com/someone/model/actions/runs/55)";
    assert!(report.contains(links), "{report}");
    let line = "](https://github.com/someone/model/blob/abc1234def567890/model.py#L40)";
    assert!(report.contains(line), "{report}");
    // The row of the table leads there as well, the metrics above it nowhere.
    let row = "| grew | [`attention (model.py:40) aten::_softmax`](https://github.com/someone/model/blob/";
    assert!(report.contains(row), "{report}");
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

#[test]
fn every_input_becomes_one_argument() {
    if skipped() {
        return;
    }
    let mut job = recorded("exit 2");
    job.set("PTMEM_BEFORE", "main run/before.pkl")
        .set("PTMEM_AFTER", "--exit-zero")
        .set("PTMEM_MAX_GROWTH", "\n  5%\t\r\n\nreserved=5%+128MiB  \n stack:*a b*=0")
        .set("PTMEM_CONFIG", "a b.toml")
        .set("PTMEM_EXIT_ZERO", "true")
        .set("PTMEM_ARGS", "--strict --strip-prefix 'a  b' \\\n --strip-prefix \"it's\"\\ x\n--top 5 ''\r\n")
        .set("PTMEM_SARIF", "out/a b.sarif")
        .set("PTMEM_COMMENT_KEY", "large/v2");
    job.run("run.sh").says(0, "could not run");
    assert_eq!(
        arguments(&job),
        "[diff][main run/before.pkl][./--exit-zero][--max-growth][5%][--max-growth][reserved=5%+128MiB]\
         [--max-growth][stack:*a b*=0][--config][a b.toml][--exit-zero][--strict][--strip-prefix][a  b]\
         [--strip-prefix][it's x][--top][5][]"
    );
    let all = job.read("arguments");
    let exports: Vec<_> = all.lines().filter(|line| line.contains('=') && line.contains("/ptmem.")).collect();
    assert_eq!(exports.len(), 4, "{all}");
    assert!(all.ends_with("[--export]\n[sarif=out/a b.sarif]\n[--comment-key]\n[large/v2]\n"), "{all}");
}

#[test]
fn nothing_of_an_input_is_evaluated() {
    if skipped() {
        return;
    }
    let name = "a $(touch pwned) `touch pwned` ; touch pwned & \"q\" 'r' *.pkl";
    // The real tool reads a file of this name and finds the regression.
    let mut job = gate("before.pkl", "after.pkl");
    fs::rename(job.path("workspace/after.pkl"), job.path("workspace").join(name)).unwrap();
    job.set("PTMEM_AFTER", name).run("run.sh").says(0, "device 0");
    assert_eq!(job.outputs()["verdict"], "regression");
    assert!(!job.path("workspace/pwned").exists());
    // All inputs at once, as they reach the tool.
    let mut job = recorded("exit 2");
    let words = "--strip-prefix $(touch${IFS}pwned) `touch pwned` ; touch pwned & *";
    job.set("PTMEM_BEFORE", name).set("PTMEM_AFTER", name).set("PTMEM_MAX_GROWTH", name);
    job.set("PTMEM_CONFIG", name).set("PTMEM_SARIF", name).set("PTMEM_ARGS", words).run("run.sh");
    assert_eq!(
        arguments(&job),
        format!(
            "[diff][{name}][{name}][--max-growth][{name}][--config][{name}][--strip-prefix][$(touch${{IFS}}pwned)]\
             [`touch][pwned`][;][touch][pwned][&][*]"
        )
    );
    assert!(!job.path("workspace/pwned").exists());
}

#[test]
fn the_text_of_the_tool_commands_nothing() {
    if skipped() {
        return;
    }
    let script = "echo '::add-mask::out'\necho '::error::err' >&2\nprintf '::warning::no end of line'\nexit 2";
    let mut job = recorded(script);
    job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").set("GITHUB_ACTIONS", "true");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let finished = job.run("run.sh");
        let lines: Vec<_> = finished.log.lines().collect();
        let word = lines[0].strip_prefix("::stop-commands::").unwrap();
        assert_eq!(lines[1..4], ["::add-mask::out", "::error::err", "::warning::no end of line"]);
        assert_eq!(lines[4], format!("::{word}::"));
        assert!(word.len() > 32, "{word}");
        seen.push(word.to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn annotations_and_summary_can_be_left_out() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_ANNOTATIONS", "false").set("PTMEM_SUMMARY", "false").set("PTMEM_SARIF", "result.sarif");
    let finished = job.run("run.sh");
    finished.is_quiet();
    assert_eq!(job.read("summary"), "");
    assert_eq!(job.outputs()["verdict"], "regression");
    let sarif: Value = serde_json::from_str(&job.read("workspace/result.sarif")).unwrap();
    assert!(sarif.is_object());
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_WORKING_DIRECTORY", "sub folder").run("run.sh").says(0, "there is no folder 'sub folder'");
    assert_eq!(verdict(&mut job), 2);
    fs::create_dir(job.path("workspace/sub folder")).unwrap();
    for name in ["before.pkl", "after.pkl"] {
        fs::rename(job.path("workspace").join(name), job.path("workspace/sub folder").join(name)).unwrap();
    }
    job.run("run.sh").says(0, "device 0");
    assert_eq!(verdict(&mut job), 1);
}

#[test]
fn a_suite_takes_the_place_of_the_files() {
    if skipped() {
        return;
    }
    for words in ["--suite large", "--strict --suite=large"] {
        let mut job = recorded("exit 2");
        job.set("PTMEM_ARGS", words).run("run.sh").says(0, "its message is in the log");
        assert_eq!(arguments(&job), format!("[diff][{}]", words.replace(' ', "][")));
    }
}

#[test]
fn inputs_that_mean_nothing_say_what_is_accepted() {
    if skipped() {
        return;
    }
    let cases = [
        ("PTMEM_COMMENT", "foo", "comment: 'foo' is not accepted; expected one of: auto, always, on-change, never"),
        ("PTMEM_SUMMARY", "yes", "summary: 'yes' is not accepted; expected one of: true, false"),
        ("PTMEM_ANNOTATIONS", "1", "annotations: '1' is not accepted; expected one of: true, false"),
        ("PTMEM_EXIT_ZERO", "a%\n::b", "exit-zero: 'a%25%0A::b' is not accepted; expected one of: true, false"),
        ("PTMEM_COMMENT_KEY", "-->", "comment-key: '-->' is not accepted; expected letters, digits and"),
        ("PTMEM_ARGS", "--at 'peak", "args: cannot be split into words; is a quote not closed?"),
        ("PTMEM_BEFORE", "", "before and after: both are needed"),
    ];
    for (name, value, message) in cases {
        let mut job = recorded("exit 0");
        job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").set(name, value);
        job.run("run.sh").says(0, &format!("::error::ptmem: {message}"));
        could_not_run(&job);
        assert_eq!(job.outputs().contains_key("report-markdown"), name != "PTMEM_COMMENT_KEY");
        assert_eq!(verdict(&mut job), 2, "{name}");
        assert!(!job.path("arguments").exists(), "{name}");
    }
    let mut job = recorded("exit 0");
    job.run("run.sh").says(0, "before and after: these inputs are required, unless args holds --suite");
    assert_eq!(verdict(&mut job), 2);
}

// --- The definitions -------------------------------------------------------------------------------------------

/// The names below `section:` of a definition.
fn names(definition: &str, section: &str) -> Vec<String> {
    let lines = definition.lines().skip_while(|line| *line != format!("{section}:")).skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    lines
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|name| !name.starts_with(' '))
        .map(str::to_owned)
        .collect()
}

#[test]
fn inputs_reach_the_scripts_only_through_the_environment() {
    for file in ["action.yml", "comment/action.yml"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let runs: Vec<_> = text.lines().filter(|line| line.trim_start().starts_with("run:")).collect();
        assert!(!runs.is_empty());
        for line in runs {
            assert!(line.contains("bash \"$GITHUB_ACTION_PATH/") && !line.contains("${{"), "{line}");
        }
        let inputs = names(&text, "inputs");
        assert!(inputs.len() >= 4, "{inputs:?}");
        for input in inputs {
            assert!(text.contains(&format!(": ${{{{ inputs.{input} }}}}\n")), "{file}: {input} is not used");
        }
    }
}

#[test]
fn the_page_for_users_lists_every_input_and_output() {
    let page = fs::read_to_string(root().join("docs/github-action.md")).unwrap();
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let (inputs, outputs) = (names(&text, "inputs"), names(&text, "outputs"));
    assert_eq!((inputs.len(), outputs.len()), (16, 9));
    for name in inputs.iter().chain(&outputs) {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is missing");
    }
}
