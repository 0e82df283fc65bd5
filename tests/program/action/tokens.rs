//! What recorded code leaves behind, and steps with a token after it.

use std::fs;
use std::os::unix::fs::symlink;

use super::comment::commenting;
use super::profiles::{fetch, kept, push, push_kept};
use super::record::{PROGRAM, VENV, installing, merged, no_git};
use super::server::{Server, pull_request};
use super::{Job, find, pictures, skipped};

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
    symlink(find("cp").unwrap(), job.path("bin/cp")).ok();
    for folder in ["home", "settings"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    symlink(find("chmod").unwrap(), job.path("bin/chmod")).unwrap();
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
    let mut job = merged(1);
    attacked(&mut job);
    let commit = job.git("origin", &["rev-parse", "change"]);
    push(&mut job, &commit);
    // A branch to fetch, and code that ran in an earlier step of the job.
    job.git("origin", &["update-ref", "refs/heads/ptmem-profiles", "main"]);
    let script = job.path("attack.sh");
    fs::write(&script, ATTACK).unwrap();
    assert_eq!(job.run_file(&script).log, "");
    job.set("PTMEM_RECORD", format!("{ATTACK}\n{PROGRAM}")).set("PTMEM_TOKEN", TOKEN);
    fetch(&mut job).is_quiet();
    job.variables.remove("PTMEM_TOKEN");
    job.run("run.sh").says(0, "the profile of this commit is kept");
    job.set("PTMEM_TOKEN", TOKEN);
    push_kept(&mut job).says(0, "the profile is kept in the branch ptmem-profiles");
    nothing_is_stolen(&job);
    assert_eq!(kept(&job), [&*commit]);
    // A profile that became a link to another file is not read.
    let outputs = job.outputs();
    fs::remove_file(&outputs["profile"]).unwrap();
    symlink(job.path("event.json"), &outputs["profile"]).unwrap();
    push_kept(&mut job).says(0, "::warning::ptmem: the profile is not kept: ");
}

#[test]
fn settings_of_the_user_get_no_token_with_a_picture() {
    if no_git() {
        return;
    }
    let mut job = pictures::pictured("someone/model");
    attacked(&mut job);
    let script = job.path("attack.sh");
    fs::write(&script, format!("git init --quiet\n{ATTACK}")).unwrap();
    assert_eq!(job.run_file(&script).log, "");
    pictures::keep(&mut job, "9").says(0, "the picture is kept in the branch pictures/all");
    nothing_is_stolen(&job);
}

#[test]
fn the_way_to_the_server_is_read_before_recorded_code_runs() {
    if no_git() {
        return;
    }
    let mut job = merged(1);
    attacked(&mut job);
    // A proxy in place of the server: it refuses, and keeps what it was asked.
    let proxy = Server::start(|_| (403, Vec::new()));
    let settings = format!("[http]\n\tproxy = {}\n\tsslCAInfo = ~/authorities.pem\n\tcookieFile = x\n", proxy.url);
    fs::write(job.path("home/.gitconfig"), settings).unwrap();
    let address = "http://git.example";
    job.set("GITHUB_SERVER_URL", address).set("PTMEM_PROFILES", "");
    job.run("fetch.sh").is_quiet();
    let outputs = job.outputs();
    assert_eq!(outputs["proxy"], proxy.url);
    assert_eq!(outputs["authorities"], job.path("home/authorities.pem").display().to_string());
    // Recorded code changes them.
    fs::write(job.path("home/.gitconfig"), "[http]\n\tproxy = http://127.0.0.1:1\n").unwrap();
    let profile = job.path("profile.json");
    fs::write(&profile, "{}").unwrap();
    job.set("PTMEM_PROXY", &outputs["proxy"]).set("PTMEM_PROFILES", "ptmem-profiles").set("PTMEM_RETRY_DELAY", "0");
    job.set("PTMEM_PROFILE", profile).set("PTMEM_PROFILE_PATH", "a.json").set("PTMEM_PROFILE_COMMIT", "a 1 b");
    job.set("PTMEM_TOKEN", TOKEN).run("keep.sh").says(0, "::warning::ptmem: the profile is not kept");
    let asked = &proxy.requests()[0];
    assert!(asked.path.starts_with(&format!("{address}/someone/model/info/refs")), "{asked:?}");
    assert!(asked.authorization.as_deref().is_some_and(|value| value.starts_with("basic ")), "{asked:?}");
}

#[test]
fn a_program_that_the_project_installs_under_our_name_is_not_ours() {
    if no_git() {
        return;
    }
    let mut job = installing(VENV);
    let theirs = "printf '#!/bin/sh\\nexit 0\\n' > \"$VIRTUAL_ENV/bin/ptmem\"\nchmod +x \"$VIRTUAL_ENV/bin/ptmem\"";
    let install = format!("{}\n{theirs}", job.variables["PTMEM_INSTALL"].to_str().unwrap());
    let simulate = format!(
        "#!/bin/sh\n[ \"$1\" = simulate ] || exec '{}' \"$@\"\necho ours >> \"$RUNNER_TEMP/../simulated\"\n\
         while [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n",
        env!("CARGO_BIN_EXE_ptmem")
    );
    // By the name of the package, which install.sh puts on the path as ptmem.
    job.without("ptmem").program("ptmem-gate", &simulate.replace("#!/bin/sh\n", VERSION_OR_MORE));
    job.run("install.sh").says(0, "on the path as ptmem-gate");
    let first = job.read("path").trim_end().to_owned();
    let path = format!("{first}:{}", job.path("bin").display());
    job.set("PATH", path).set("PTMEM_INSTALL", install).set("PTMEM_GPU", "t4");
    let finished = job.run("run.sh");
    assert_eq!(job.outputs()["verdict"], "regression", "{}", finished.log);
    assert_eq!(job.read("simulated"), "ours\nours\n");
}

/// The begin of a program that says what it is.
const VERSION_OR_MORE: &str = "#!/bin/sh\n[ \"$1\" != --version ] || { echo ptmem-gate 1.0.0; exit; }\n";

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
    assert_eq!(server.requests().last().unwrap().text(), job.read("report.md"));
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
        job.run("later.sh").is_quiet();
        assert!(!job.outputs().contains_key("file"));
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
    let report = "### FAIL @all `a@b` &#64;all &commat;all &#X40;all\n/approve\n  /azp run\r/a\u{2028}\u{a0}/b\n![x](http://a/b.png) a/b\n\
                  <img src=x> <IMG\nsrc=x> <!-- x --> <details open onclick=x> <details><summary>1 < 2</summary></details> \
                  &#95;<sub>a</sub> <code>b</code>\n";
    fs::write(job.path("report.md"), format!("<!-- ptmem:default -->\n{report}")).unwrap();
    job.set("PTMEM_FOREIGN", "true").run("comment.sh").is_quiet();
    let text = server.requests().last().unwrap().text();
    let shown = "### FAIL @~all `a@~b` &#64;~all &commat;~all &#X40;~all\n~/approve\n~  /azp run\r~/a\u{2028}\u{a0}~/b\n!~[x](http://a/b.png) a/b\n\
                 <~img src=x> <~IMG\nsrc=x> <~!-- x --> <~details open onclick=x> <details><summary>1 < 2</summary></details> \
                 &#95;<sub>a</sub> <code>b</code>\n";
    let shown = shown.replace("~  /azp", "  ~/azp").replace('~', "\u{200b}");
    assert_eq!(text, format!("<!-- ptmem:default -->\n{shown}"));
    // Our own is posted as it is, with its picture.
    job.set("PTMEM_FOREIGN", "false").run("comment.sh").is_quiet();
    assert!(server.requests().last().unwrap().text().ends_with(report));
}

/// Runs the step that writes the comment for another job, and that job. Gives the text of a new comment.
fn posted_later(mode: &str, verdict: &str, tell: &str) -> Option<String> {
    let server = pull_request(vec![]);
    let mut job = commenting(&server.url);
    fs::write(job.path("brief.md"), "<!-- ptmem:default -->\n### ✅ PASS\n").unwrap();
    let brief = job.path("brief.md");
    job.set("PTMEM_BRIEF", brief).set("PTMEM_COMMENT", mode).set("PTMEM_VERDICT", verdict);
    job.set("PTMEM_CHANGED", "false").set("PTMEM_ANNOUNCE", tell).set("PTMEM_TOKEN", "");
    job.run("later.sh").is_quiet();
    let file = job.outputs().get("file").cloned()?;
    for variable in ["PTMEM_BRIEF", "PTMEM_VERDICT", "PTMEM_ANNOUNCE", "PTMEM_CHANGED"] {
        job.variables.remove(variable);
    }
    job.set("PTMEM_COMMENT", "always").set("PTMEM_FOREIGN", "true").set("PTMEM_REPORT", file);
    job.set("PTMEM_TOKEN", TOKEN).run("comment.sh").is_quiet();
    server.requests().iter().find(|request| request.method == "POST").map(super::server::Request::text)
}

#[test]
fn another_job_posts_what_the_gate_wrote() {
    if skipped() {
        return;
    }
    assert!(posted_later("auto", "regression", "false").unwrap().contains("\"Peak\" grew"));
    assert_eq!(posted_later("auto", "pass", "false"), None);
    assert_eq!(posted_later("never", "regression", "true"), None);
    let brief = "<!-- ptmem:default -->\n### ✅ PASS\n".to_owned();
    assert_eq!(posted_later("auto", "pass", "true"), Some(brief.clone()));
    assert_eq!(posted_later("always", "pass", "false"), Some(brief));
    // A comment that is there is updated all the same.
    let server = pull_request(vec![super::server::comment(5, "<!-- ptmem:default -->\n")]);
    let mut job = commenting(&server.url);
    fs::write(job.path("report.md"), "<!-- ptmem:default only-update -->\n### ✅ PASS\n").unwrap();
    job.set("PTMEM_COMMENT", "always").run("comment.sh").is_quiet();
    assert_eq!(server.requests().last().unwrap().method, "PATCH");
}

#[test]
fn secrets_of_the_environment_are_masked() {
    if no_git() {
        return;
    }
    let secret = "hf_a-b*c[d]e\\f^g&h<i>";
    let mut job = merged(2);
    job.set("HF_TOKEN", secret)
        .set("PTMEM_RECORD", "printf '%s\\n' \"not found: $HF_TOKEN\" \"it is short: $API_KEY\"; false");
    job.set("API_KEY", "is");
    let finished = job.run("run.sh");
    let report = fs::read_to_string(&job.outputs()["report-markdown"]).unwrap();
    assert!(report.contains("not found: ***\nit is short: is\n"), "{report}");
    assert!(!job.read("summary").contains(secret));
    let annotation = finished.log.lines().find(|line| line.starts_with("::error::")).unwrap();
    assert!(annotation.contains("not found: ***"), "{annotation}");
    // In the reports of the tool, each with its escapes.
    let report = r#"for word; do case $word in
        markdown=*) echo 'a `hf_a<b"c\d`' > "${word#*=}" ;;
        html=*) echo 'hf_a&lt;b&quot;c\d hf_a\u003cb"c\d' > "${word#*=}" ;;
        json=*) echo '"hf_a<b\"c\\d"' > "${word#*=}" ;;
        sarif=*) echo 'hf_a&#x3C;b&#34;c\d' > "${word#*=}" ;;
        github=*) echo '::error::hf_a%3Cb"c\d' > "${word#*=}" ;;
        github-output=*) echo verdict=pass > "${word#*=}" ;;
        esac; done"#;
    let mut job = super::run::recorded(report);
    let sarif = job.path("a.sarif");
    job.set("HF_TOKEN", "hf_a<b\"c\\d").set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b");
    job.set("PTMEM_PAGE", "true").set("PTMEM_SARIF", &sarif);
    job.run("run.sh").says(0, "::error::***\n");
    let outputs = job.outputs();
    let read = |path: &str| fs::read_to_string(path).unwrap();
    assert_eq!(read(&outputs["report-markdown"]), "a `***`\n");
    assert_eq!(read(&outputs["report-page"]), "*** ***\n");
    assert_eq!(read(&outputs["report-json"]), "\"***\"\n");
    assert_eq!(read(sarif.to_str().unwrap()), "***\n");
}
