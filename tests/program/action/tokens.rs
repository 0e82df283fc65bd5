//! What recorded code leaves behind, and steps with a token after it.

use std::fs;
use std::os::unix::fs::symlink;

use super::comment::{commenting, last_written};
use super::keep::{kept, no_git, pushed};
use super::server::{Server, pull_request};
use super::{Job, skipped};

const TOKEN: &str = "ghs_0123456789abcdefSECRET";

/// Recorded code that sets everything up through which git may start a program: it writes the environment to a file.
const ATTACK: &str = r#"
printf '#!/bin/sh\nenv >> "%s"\n' "$STOLEN" > "$HOME/thief"
chmod +x "$HOME/thief"
mkdir -p "$HOME/hooks" "$XDG_CONFIG_HOME/git"
for hook in pre-push reference-transaction post-checkout post-index-change; do cp "$HOME/thief" "$HOME/hooks/$hook"; done
cp "$HOME/hooks/"* "$(git rev-parse --git-dir)/hooks/"
for file in "$HOME/.gitconfig" "$XDG_CONFIG_HOME/git/config" "$(git rev-parse --git-dir)/config"; do
  git config -f "$file" core.hooksPath "$HOME/hooks"
  git config -f "$file" credential.helper "!$HOME/thief"
  git config -f "$file" core.fsmonitor "$HOME/thief"
  git config -f "$file" core.sshCommand "$HOME/thief"
  git config -f "$file" gpg.program "$HOME/thief"
  git config -f "$file" log.showSignature true
  git config -f "$file" protocol.ext.allow always
  git config -f "$file" "url.ext::$HOME/thief .pushInsteadOf" "$GITHUB_SERVER_URL"
  git config -f "$file" remote.origin.pushurl "ext::$HOME/thief"
done
"#;

/// Lets the job run that code with its own, in a home where it may write.
fn attacked(job: &mut Job) {
    let home = job.path("home");
    for folder in ["home", "settings"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    let stolen = job.path("stolen");
    let settings = job.path("settings");
    job.set("HOME", home).set("XDG_CONFIG_HOME", settings).set("STOLEN", stolen);
}

/// Nothing that the recorded code left behind ran with the token.
#[track_caller]
fn nothing_is_stolen(job: &Job) {
    let stolen = fs::read_to_string(job.path("stolen")).unwrap_or_default();
    assert!(!stolen.contains("GIT_CONFIG_VALUE") && !stolen.contains(TOKEN), "{stolen}");
}

#[test]
fn settings_that_recorded_code_leaves_behind_get_no_token() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    attacked(&mut job);
    // Code that ran in an earlier step of the job, in a checkout of its own.
    job.git("workspace", &["init", "--quiet"]);
    let script = job.path("attack.sh");
    fs::write(&script, ATTACK).unwrap();
    assert_eq!(job.run_file(&script).log, "");
    job.run("before.sh").is_quiet();
    job.set("PTMEM_TOKEN", TOKEN).run("keep.sh").says(0, "the profiles are kept in the branch ptmem-profiles");
    nothing_is_stolen(&job);
    assert_eq!(kept(&job).len(), 1);
    // A profile that became a link to another file is not read.
    let profile = job.path("report/profiles/train.ptmem.json");
    fs::remove_file(&profile).unwrap();
    symlink(job.path("event.json"), &profile).unwrap();
    job.run("keep.sh").is_quiet();
    assert_eq!(kept(&job).len(), 1);
}

/// Lets the job be a later step: it has what an earlier one wrote to the environment.
fn next_step(job: &mut Job) {
    let text = job.read("environment");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.split_once("<<") {
            Some((name, end)) => {
                let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                job.set(name, value.join("\n"));
            }
            None => {
                let (name, value) = line.split_once('=').unwrap();
                job.set(name, value);
            }
        }
    }
}

#[test]
fn the_way_to_the_server_is_read_once_before_recorded_code_runs() {
    if no_git() {
        return;
    }
    let mut job = pushed();
    attacked(&mut job);
    // A proxy in place of the server: it refuses, and keeps what it was asked.
    let proxy = Server::start(|_| (403, Vec::new()));
    let settings = format!("[http]\n\tproxy = {}\n\tsslCAInfo = ~/authorities.pem\n\tcookieFile = x\n", proxy.url);
    fs::write(job.path("home/.gitconfig"), settings).unwrap();
    // The checkout is one of the change: its settings do not count.
    job.git("workspace", &["init", "--quiet"]);
    job.git("workspace", &["config", "http.proxy", "http://127.0.0.1:1"]);
    let address = "http://git.example";
    job.set("GITHUB_SERVER_URL", address).run("before.sh").is_quiet();
    next_step(&mut job);
    assert_eq!(job.variables["PTMEM_PROXY"].to_str(), Some(&*proxy.url));
    assert_eq!(job.variables["PTMEM_AUTHORITIES"], job.path("home/authorities.pem").into_os_string());
    // Recorded code changes them, and the second gate of the job does not read them again.
    fs::write(job.path("home/.gitconfig"), "[http]\n\tproxy = http://127.0.0.1:1\n").unwrap();
    job.run("before.sh").is_quiet();
    next_step(&mut job);
    job.variables.remove("PTMEM_AUTHORITIES");
    job.set("PTMEM_TOKEN", TOKEN).run("keep.sh").says(0, "::notice::ptmem: the profiles are not kept");
    let asked = &proxy.requests()[0];
    assert!(asked.path.starts_with(&format!("{address}/someone/model/info/refs")), "{asked:?}");
    assert!(asked.authorization.as_deref().is_some_and(|value| value.starts_with("basic ")), "{asked:?}");
}

#[test]
fn settings_of_the_user_do_not_change_the_comment() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    let home = job.path("workspace");
    fs::write(home.join(".jq"), "def split($by): [env.PTMEM_TOKEN];\n").unwrap();
    job.set("HOME", home).run("comment.sh").is_quiet();
    assert!(last_written(&server).ends_with(job.read("report.md").split_once('\n').unwrap().1.trim_end()));
}

#[test]
fn only_a_file_is_posted() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    for make in [
        |job: &Job| symlink(job.path("event.json"), job.path("workspace/report.md")).unwrap(),
        |job: &Job| fs::create_dir(job.path("workspace/report.md")).unwrap(),
    ] {
        let mut job = commenting(&server.url);
        make(&job);
        let report = job.path("workspace/report.md");
        job.set("PTMEM_REPORT", report).run("comment.sh").says(0, "::notice::ptmem: no comment: there is no report");
    }
    assert_eq!(server.lines(), [""; 0]);
}

#[test]
fn the_report_of_somebody_else_is_text_alone() {
    if skipped() {
        return;
    }
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    let report = "### FAIL @all `a@b` &#64;all &commat;all &#X40;all\n/approve\n  /azp run\r/a\u{2028}\u{a0}/b\u{b}/c\u{c} /d\u{1e}/e\n\u{feff}/f\n![x](http://a/b.png) a/b\n\
                  <img src=x> <IMG\nsrc=x> <!-- x --> <details open onclick=x> <details><summary>1 < 2</summary></details> \
                  &#95;<sub>a</sub> <code>b</code>\n";
    fs::write(job.path("report.md"), format!("<!-- ptmem:default -->\n{report}")).unwrap();
    job.set("PTMEM_FOREIGN", "true").run("comment.sh").is_quiet();
    let text = last_written(&server);
    let shown = "### FAIL @~all `a@~b` &#64;~all &commat;~all &#X40;~all\n~/approve\n~  /azp run\r~/a\u{2028}\u{a0}~/b\u{b}~/c\u{c} ~/d\u{1e}~/e\n\u{feff}~/f\n!~[x](http://a/b.png) a/b\n\
                 <~img src=x> <~IMG\nsrc=x> <~!-- x --> <~details open onclick=x> <details><summary>1 < 2</summary></details> \
                 &#95;<sub>a</sub> <code>b</code>\n";
    let shown = shown.replace("~  /azp", "  ~/azp").replace('~', "\u{200b}");
    assert!(
        text.starts_with("<!-- ptmem:default -->\n") && text.ends_with(&format!(" -->\n{}", shown.trim_end())),
        "{text}"
    );
    // Our own is posted as it is, with its picture.
    job.set("PTMEM_FOREIGN", "false").run("comment.sh").is_quiet();
    assert!(last_written(&server).ends_with(report.trim_end()));
}
