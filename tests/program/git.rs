//! Rows that changed through lines of the change, in real repositories.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program::Program;
use crate::support::tool::{explanation, git, text, verdict};

pub(super) const MIB: u64 = 1 << 20;

/// The file before the change: one call on line 4, one over lines 6 to 9, one on line 11.
pub(super) const BEFORE: &str = "\
import torch

def forward(x):
    h = layer(x)

    y = torch.cat(
        [x,
         h],
    )

    z = torch.relu(y)
    return z
";

/// A repository with a commit on `main`, and the change on the branch that is checked out.
pub(super) struct Checkout {
    folder: TempDir,
}

impl Checkout {
    /// One without the change.
    pub(super) fn new(path: &str) -> Self {
        let checkout = Self { folder: tempfile::tempdir().unwrap() };
        checkout.git(&["init", "--quiet", "--initial-branch", "main"]);
        checkout.write(path, BEFORE);
        checkout.commit("the code as it was");
        checkout.git(&["switch", "--quiet", "--create", "change"]);
        checkout
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        git(self.path(), arguments)
    }

    pub(super) fn commit(&self, message: &str) {
        self.git(&["add", "--all", "--", "*.py"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Writes what both sides hold, each as frames and MiB.
    pub(super) fn record(&self, before: &[(&[&str], u64)], after: &[(&[&str], u64)]) {
        for (name, held) in [("before.pkl", before), ("after.pkl", after)] {
            let mut program = Program::default();
            for (at, (frames, mib)) in held.iter().enumerate() {
                for part in 0..*mib {
                    program.alloc_under(format!("{at}.{part}"), frames, MIB);
                }
            }
            fs::write(self.path().join(name), program.snapshot()).unwrap();
        }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(self.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("PTMEM_TODAY", "2027-01-15").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    }

    pub(super) fn ptmem(&self, arguments: &[&str]) -> Output {
        self.command().args(["diff", "before.pkl", "after.pkl"]).args(arguments).output().unwrap()
    }

    /// Runs it outside of the checkout, with this path to programs.
    fn ptmem_elsewhere(&self, folder: &Path, path: &OsStr) -> Output {
        let mut command = self.command();
        command.current_dir(folder).env("PATH", path).arg("diff");
        command.args(["before.pkl", "after.pkl"].map(|name| self.path().join(name)));
        command.args(["--git", "main"]).output().unwrap()
    }

    fn json(&self) -> Value {
        let output = self.ptmem(&["--git", "main", "--format", "json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The lines of the edits that growth leads to, with how, and the MiB.
    fn led(&self) -> Vec<(u64, String, u64)> {
        let report = self.json();
        let edits = report["devices"][0]["cause"]["edits"].as_array().unwrap();
        let of = |edit: &Value| {
            let how: Vec<&str> = edit["how"].as_object().unwrap().keys().map(String::as_str).collect();
            (edit["line"].as_u64().unwrap(), how.join(" "), edit["bytes"].as_u64().unwrap() / MIB)
        };
        edits.iter().map(of).collect()
    }
}

fn led(line: u64, how: &str, mib: u64) -> (u64, String, u64) {
    (line, how.to_owned(), mib)
}

/// `layer` grows on line 4, which the change replaces, and `relu` on line 11, which it leaves alone.
fn grown() -> Checkout {
    let checkout = Checkout::new("src/net/model.py");
    checkout.write("src/net/model.py", BEFORE.replace("layer(x)", "wider(x)"));
    checkout.commit("wider");
    let frames: [&[&str]; 2] = [
        &["/ci/work/src/net/model.py:layer:4", "/ci/work/src/net/model.py:forward:90"],
        &["/ci/work/src/net/model.py:relu:11", "/ci/work/src/net/model.py:forward:90"],
    ];
    checkout.record(&[(frames[0], 10), (frames[1], 10)], &[(frames[0], 17), (frames[1], 17)]);
    checkout
}

#[cfg(unix)]
#[test]
fn git_starts_no_program_of_the_configuration() {
    use std::os::unix::fs::PermissionsExt;

    let checkout = Checkout::new("model.py");
    checkout.record(&[(&["model.py:forward:4"], 4)], &[(&["model.py:forward:4"], 8)]);
    let script = checkout.path().join("script");
    fs::write(&script, "#!/bin/sh\necho started >> \"$(dirname \"$0\")/started\"\ncat\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    checkout.write(".gitattributes", "*.py filter=own=name diff=own\n");
    checkout.write("model.py", BEFORE.replace("layer", "other"));
    for key in
        ["core.fsmonitor", "filter.own=name.clean", "filter.own=name.process", "diff.own.textconv", "diff.own.command"]
    {
        checkout.git(&["config", key, script]);
    }
    checkout.git(&["config", "filter.own=name.required", "true"]);
    checkout.git(&["config", "core.hooksPath", checkout.path().to_str().unwrap()]);
    let output = checkout.ptmem(&["--git", "main"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("forward (model.py:4)"), "{}", text(&output.stdout));
    assert!(!checkout.path().join("started").exists());
}

/// In a partial clone, git fetches missing objects from a remote, which may be a program.
#[cfg(unix)]
#[test]
fn git_starts_no_remote_of_the_configuration() {
    let checkout = Checkout::new("model.py");
    checkout.record(&[(&["moved.py:forward:4"], 4)], &[(&["moved.py:forward:4"], 8)]);
    checkout.git(&["mv", "model.py", "moved.py"]);
    checkout.write("moved.py", BEFORE.replace("layer", "other"));
    checkout.commit("moved");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", "ext::touch started"),
        ("remote.evil.promisor", "true"),
        ("protocol.ext.allow", "always"),
    ] {
        checkout.git(&["config", key, value]);
    }
    for file in ["main:model.py", "change:moved.py"] {
        let blob = checkout.git(&["rev-parse", file]).trim().to_owned();
        fs::remove_file(checkout.path().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    }
    let commands = [
        "diff before.pkl after.pkl --git main",
        "show after.pkl --format html",
        "check after.pkl --format sarif",
        "history --git moved.py",
    ];
    for line in commands {
        let output = checkout.command().args(line.split(' ')).output().unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{line}: {}", text(&output.stderr));
        assert!(!checkout.path().join("started").exists(), "{line}");
    }
    let output = text(&checkout.ptmem(&["--git", "main"]).stderr);
    assert!(output.contains("this is a partial clone: if you trust its remotes, set GIT_NO_LAZY_FETCH=0"), "{output}");
    let mut command = checkout.command();
    command.args(commands[3].split(' ')).env("GIT_NO_LAZY_FETCH", "0").output().unwrap();
    assert!(checkout.path().join("started").exists());
}

/// A change without renames is listed without the texts of files.
#[test]
fn texts_that_a_partial_clone_lacks_are_no_changed_lines() {
    let checkout = Checkout::new("model.py");
    checkout.record(&[(&["model.py:forward:4"], 4)], &[(&["model.py:forward:4"], 8)]);
    checkout.write("model.py", BEFORE.replace("layer", "other"));
    checkout.commit("changed");
    checkout.git(&["config", "remote.origin.promisor", "true"]);
    let blob = checkout.git(&["rev-parse", "main:model.py"]).trim().to_owned();
    fs::remove_file(checkout.path().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    for line in ["diff before.pkl after.pkl --git main", "history --git model.py"] {
        let output = checkout.command().args(line.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stdout));
        let remedy = "model.py; this is a partial clone: if you trust its remotes, set GIT_NO_LAZY_FETCH=0";
        assert!(text(&output.stderr).contains(remedy), "{line}: {}", text(&output.stderr));
    }
}

/// Code that a job ran before may have written anything into the checkout.
#[test]
fn reports_of_ci_jobs_show_committed_lines_alone() {
    let checkout = grown();
    let frames = [&["/ci/work/src/net/model.py:forward:4"][..], &["/ci/work/src/net/new.py:<module>:1"]];
    checkout.record(&frames.map(|frames| (frames, 10)), &frames.map(|frames| (frames, 17)));
    checkout.write("src/net/model.py", BEFORE.replace("layer(x)", "wider(x, 'not committed')"));
    checkout.write("src/net/new.py", "token = wider('not tracked')\n");
    for (job, is_shown) in [(None, true), (Some("CI"), false), (Some("GITHUB_ACTIONS"), false)] {
        let mut command = checkout.command();
        command.args(["diff", "before.pkl", "after.pkl", "--git", "main", "--format", "json"]);
        job.into_iter().for_each(|name| _ = command.env(name, "true"));
        let report = text(&command.output().unwrap().stdout);
        assert!(report.contains("h = wider(x"), "{report}");
        assert_eq!(report.contains("not committed"), is_shown, "{job:?}: {report}");
        assert_eq!(report.contains("not tracked"), is_shown, "{job:?}: {report}");
    }
}

#[test]
fn rows_say_that_they_lead_to_an_edit_and_the_headline_how_much() {
    let checkout = grown();
    let output = checkout.ptmem(&["--git", "main", "--max-growth", "5%"]);
    let through = "passes through forward, where this change writes";
    let lead = format!(
        "All of the growth at the peak {through} `h = wider(x)` (src/net/model.py:4). Largest: layer (src/net/model.py:4) (more \
         allocations)."
    );
    let report = text(&output.stdout);
    assert_eq!(explanation(&report), lead);
    let line = "FAIL peak grew 14.00 MiB (+70.0 %), allowed 5 %, most by layer (src/net/model.py:4) (+7.00 MiB)";
    assert_eq!(verdict(&output), (1, line.to_owned()));
    let rows: Vec<_> = report.lines().filter(|line| line.contains("grew") && line.contains("model.py")).collect();
    assert!(rows[0].contains("grew, leads to edit  layer (") && rows[1].contains("relu ("), "{report}");
    assert_eq!(checkout.led(), [led(4, "line scope", 14)]);

    let output = checkout.ptmem(&["--git", "main", "--max-growth", "5%", "--format", "markdown"]);
    let report = text(&output.stdout);
    assert!(report.contains(through) && report.contains("| grew, leads to edit | `layer ("), "{report}");
    assert!(report.contains("writes `h = wider(x)` (src/net/model.py:4)"), "{report}");
    let output = checkout.ptmem(&["--git", "main", "--max-growth", "5%", "--format", "github"]);
    let report = text(&output.stdout);
    assert_reads!(report => str!["::error file=src/net/model.py,line=4,title=GPU memory%3A peak::peak grew 14.00 MiB (+70.0 %25), allowed 5 %25. All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (src/net/model.py:4). Largest: layer (src/net/model.py:4) (more allocations).%0A   +7.00 MiB    10.00 MiB ->   17.00 MiB  layer (src/net/model.py:4), leads to edit%0A   +7.00 MiB    10.00 MiB ->   17.00 MiB  relu (src/net/model.py:11), leads to edit"]);
    // Without the option the report does not mention it.
    let plain = text(&checkout.ptmem(&["--max-growth", "5%"]).stdout);
    assert!(!plain.contains("leads to edit") && !plain.contains("this change"), "{plain}");
}

#[test]
fn of_several_edits_of_a_function_the_one_above_most_growth_is_named() {
    let checkout = Checkout::new("src/net/model.py");
    let wider = BEFORE.replace("layer(x)", "wider(x)");
    let other = wider.replace("relu(y)", "gelu(y)");
    // What is returned from below keeps nothing longer.
    let returned = wider.replace("return z", "return z * 2");
    let calls: [&[&str]; 2] = [&["/ci/src/net/model.py:cat:6"], &["/ci/src/net/model.py:pool:12"]];
    let mut said = Vec::new();
    for (code, blocks) in [(&other, [6, 4]), (&other, [6, 7]), (&returned, [6, 4])] {
        checkout.write("src/net/model.py", code);
        checkout.record(&calls.map(|call| (call, 4)), &[(calls[0], blocks[0]), (calls[1], blocks[1])]);
        said.push(explanation(&text(&checkout.ptmem(&["--git", "main", "--max-growth", "5%"]).stdout)));
    }
    assert_reads!(said.join("\n") => str![[r#"
All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (src/net/model.py:4), and makes 1 other edit there. Largest: cat (src/net/model.py:6) (more allocations). The change has other edits that can matter: src/net/model.py:11 (now `z = torch.gelu(y)`).
60 % of the growth at the peak (3.00 MiB of 5.00 MiB) passes through forward, where this change writes `z = torch.gelu(y)` (src/net/model.py:11), and makes 1 other edit there. Largest: pool (src/net/model.py:12) (more allocations). The change has other edits that can matter: 40 %: src/net/model.py:4 (now `h = wider(x)`).
All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (src/net/model.py:4), and makes 1 other edit there. Largest: cat (src/net/model.py:6) (more allocations). The change has other edits that can matter: src/net/model.py:12 (now `return z * 2`).
"#]]);
}

#[test]
fn ranks_and_gates_are_marked_as_well() {
    let checkout = grown();
    for side in ["before", "after"] {
        let snapshot = fs::read(checkout.path().join(format!("{side}.pkl"))).unwrap();
        for rank in 0..2 {
            checkout.write(&format!("{side}.pkl-ranks/rank{rank}.pkl"), &snapshot);
        }
    }
    let mut command = checkout.command();
    command.args(["diff", "before.pkl-ranks", "after.pkl-ranks", "--git", "main", "--max-growth", "5%"]);
    let report = text(&command.output().unwrap().stdout);
    assert!(report.contains("grew, leads to edit"), "{report}");
    assert!(report.contains("where this change writes `h = wider(x)`"), "{report}");

    checkout.write("ptmem.toml", "[gate.one]\nbefore = 'before.pkl'\nafter = 'after.pkl'\n");
    let output = checkout.command().args(["gate", "--base", "main"]).output().unwrap();
    let report = text(&output.stdout) + &text(&output.stderr);
    assert!(report.contains("where this change writes `h = wider(x)`"), "{report}");
}

#[test]
fn a_call_over_several_lines_changes_with_each_of_them() {
    let call: &[&str] = &["/ci/src/net/model.py:cat:6"];
    let other: &[&str] = &["/ci/src/net/model.py:relu:11"];
    for change in [
        ("         h],", "         h, h],"),
        ("        [x,\n", "        [x,\n         x,\n"),
        ("        [x,\n", "        ["),
    ] {
        let checkout = Checkout::new("src/net/model.py");
        checkout.write("src/net/model.py", BEFORE.replace(change.0, change.1));
        checkout.commit("one argument");
        checkout.record(&[(call, 4), (other, 2)], &[(call, 6), (other, 3)]);
        // The whole statement was there before: only its growth counts. So does that elsewhere in the function.
        let all = checkout.led();
        assert!(matches!(&all[..], [(6..=8, how, 3)] if how == "line scope"), "{change:?}: {all:?}");
    }
}

#[test]
fn lines_that_moved_are_not_changed_and_new_ones_are() {
    let checkout = Checkout::new("model.py");
    // Two lines more at the top; the file moves to a folder; nothing else changes.
    checkout.git(&["mv", "model.py", "net.py"]);
    checkout.write("net.py", format!("# a\n# b\n{BEFORE}"));
    checkout.commit("moved");
    let before: &[&str] = &["/ci/model.py:relu:11", "/ci/train.py:step:7", "/ci/train.py:main:9"];
    let after: &[&str] = &["/ci/net.py:relu:13", "/ci/train.py:step:7", "/ci/train.py:main:9"];
    checkout.record(&[(before, 4)], &[(after, 6)]);
    assert_eq!(checkout.led(), []);
    // Not committed yet, and not even known to git.
    checkout.write("net.py", format!("# a\n# b\n{}", BEFORE.replace("relu", "gelu")));
    checkout.write("extra/new file.py", "def g(x):\n    return x\n");
    checkout.record(&[(before, 4)], &[(after, 6), (&["/ci/extra/new file.py:g:2"], 2)]);
    assert_eq!(checkout.led(), [led(13, "line", 2), led(2, "line", 2)]);
    let report = checkout.ptmem(&["--git", "main", "--max-growth", "0"]);
    let lead = "50 % of the growth at the peak (2.00 MiB of 4.00 MiB) passes through net.py:13, where this change writes \
                `z = torch.gelu(y)`. Largest: relu (net.py:13) (more allocations). The change has other edits that can \
                matter: 50 %: extra/new file.py:2 (added `return x`).";
    assert_eq!(explanation(&text(&report.stdout)), lead);
    let line = verdict(&report).1;
    assert_eq!(line, "FAIL peak grew 4.00 MiB (+100.0 %), allowed 0 B, most by relu (net.py:13) (+2.00 MiB)");
}

#[test]
fn the_base_branch_may_have_gone_on() {
    let checkout = grown();
    checkout.git(&["switch", "--quiet", "main"]);
    checkout.write("src/net/model.py", BEFORE.replace("relu", "gelu"));
    checkout.commit("somebody else's change");
    checkout.git(&["switch", "--quiet", "change"]);
    assert_eq!(checkout.led(), [led(4, "line scope", 14)]);
    // Settings of the user change nothing.
    for (key, value) in
        [("diff.noprefix", "true"), ("diff.external", "false"), ("color.ui", "always"), ("diff.context", "9")]
    {
        checkout.git(&["config", key, value]);
    }
    // Nor does the folder in which it runs.
    fs::rename(checkout.path().join("before.pkl"), checkout.path().join("src/before.pkl")).unwrap();
    fs::rename(checkout.path().join("after.pkl"), checkout.path().join("src/after.pkl")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(checkout.path().join("src")).env_remove("GITHUB_WORKSPACE");
    let output = command.args(["diff", "before.pkl", "after.pkl", "--git", "main"]).output().unwrap();
    assert!(text(&output.stdout).contains("leads to edit"), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn without_git_or_a_repository_it_says_what_is_missing() {
    let checkout = grown();
    for (base, message) in [
        ("nowhere", "error: --git nowhere: there is no such commit, branch or tag here"),
        ("main..HEAD", "error: --git main..HEAD: a range of commits; expected the commit or the branch of the before"),
        ("--all", "error: --git --all: there is no such commit, branch or tag here"),
        ("main:src/net/model.py", "there is no such commit, branch or tag here"),
    ] {
        let output = checkout.ptmem(&[&format!("--git={base}")]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    // The commit of a message.
    checkout.git(&["commit", "--quiet", "--allow-empty", "--message", "widen a..b"]);
    for base in [":/widen a..b", "HEAD^{/widen a..b}"] {
        let output = checkout.ptmem(&["--git", base]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    checkout.git(&["switch", "--quiet", "--orphan", "other"]);
    checkout.git(&["commit", "--quiet", "--allow-empty", "--message", "unrelated"]);
    let output = checkout.ptmem(&["--git", "main"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--git main: shares no commit with the checkout"),
        "{}",
        text(&output.stderr)
    );

    let elsewhere = tempfile::tempdir().unwrap();
    let output = checkout.ptmem_elsewhere(elsewhere.path(), &std::env::var_os("PATH").unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--git: the working directory is in no Git repository"),
        "{}",
        text(&output.stderr)
    );
    let output = checkout.ptmem_elsewhere(elsewhere.path(), elsewhere.path().as_os_str());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the program git cannot be run"), "{}", text(&output.stderr));
}

/// Three classes with a `forward` each; that of the first is decorated.
const MODEL: &str = "\
import functools

def traced(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

class Attention(Module):
    @traced
    def forward(self, x):
        return torch.softmax(x)

class Mlp(Module):
    def forward(self, x):
        return torch.gelu(x)

class Layer(Module):
    def forward(self, x):
        return self.mlp(self.attention(x))
";

/// Recordings without facts, as PyTorch writes them: the decorator went, the attention shrank from 10 to 4 MiB, and the MLP
/// grew from 10 to 16. `above` stands above the model at the base alone.
fn undecorated(above: &str) -> Checkout {
    const ATTENTION: [&str; 3] =
        ["/ci/net/model.py:forward:12", "/ci/net/model.py:wrapper:6", "/ci/net/model.py:forward:20"];
    const MLP: [&str; 2] = ["/ci/net/model.py:forward:16", "/ci/net/model.py:forward:20"];
    const ATTENTION_AFTER: [&str; 2] = ["/ci/net/model.py:forward:11", "/ci/net/model.py:forward:19"];
    const MLP_AFTER: [&str; 2] = ["/ci/net/model.py:forward:15", "/ci/net/model.py:forward:19"];
    let checkout = Checkout::new("net/model.py");
    checkout.git(&["switch", "--quiet", "main"]);
    checkout.write("net/model.py", format!("{above}{MODEL}"));
    checkout.commit("a model");
    checkout.git(&["switch", "--quiet", "--create", "undecorated"]);
    checkout.write("net/model.py", MODEL.replace("    @traced\n", ""));
    checkout.commit("no decorator");
    checkout.record(&[(&ATTENTION, 10), (&MLP, 10)], &[(&ATTENTION_AFTER, 4), (&MLP_AFTER, 16)]);
    checkout
}

/// Changes of rows in MiB, by their labels.
fn changes(output: &Output) -> Vec<(String, i64)> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["devices"][0]["stacks"].as_array().unwrap().iter();
    rows.map(|row| (row["label"].as_str().unwrap().to_owned(), row["delta"].as_i64().unwrap() >> 20)).collect()
}

#[test]
fn the_checkout_tells_functions_of_one_name_apart() {
    let json = ["--git", "main", "--format", "json"];
    let apart = undecorated("").ptmem(&json);
    let rows = [("forward (net/model.py:15)".to_owned(), 6), ("forward (net/model.py:11)".to_owned(), -6)];
    assert_eq!(changes(&apart), rows);
    // Where the before is not of the base, the lines say so, and the checkout tells nothing.
    let checkout = undecorated("# A remark.\n\n\n");
    let unlike = checkout.ptmem(&json);
    assert_ne!(changes(&unlike), rows);
    assert_eq!(changes(&unlike), changes(&checkout.ptmem(&json[2..])));
}

#[test]
fn a_change_of_more_text_than_is_looked_at_says_so() {
    let checkout = grown();
    let made = format!("x = 1  # {}\n", "y".repeat(900)).repeat(1_000);
    for at in 0..50 {
        checkout.write(&format!("made/part{at}.py"), &made);
    }
    let output = checkout.ptmem(&["--git", "main"]);
    let told = "note: --git: 35 of 51 changed files are not read: the files before them have 8.00 MiB of text, or 50,000 edits, or more";
    assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
}

/// Each edit takes far more memory than its text.
#[test]
fn a_change_of_more_edits_than_are_looked_at_says_so() {
    let checkout = grown();
    let made: String = (0..3_200).map(|at| format!("def f{at}(): pass\n")).collect();
    for at in 0..30 {
        checkout.write(&format!("made/part{at}.py"), &made);
    }
    let output = checkout.ptmem(&["--git", "main"]);
    let told = "note: --git: 14 of 31 changed files are not read";
    assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
}

#[test]
fn checks_of_one_edit_are_one_finding_and_one_entry_accepts_them() {
    let checkout = grown();
    let limits = ["--git", "main", "--max-growth", "5%", "--max-growth", "stack=0", "--max-growth", "reserved=1%"];
    let report = text(&checkout.ptmem(&limits).stdout);
    let mut lines = report
        .lines()
        .skip_while(|line| !line.ends_with("more checks are put down to the same edit (src/net/model.py:4):"))
        .skip(1);
    assert!(lines.next().is_some_and(|line| line.starts_with("        stack layer (")), "{report}");
    assert!(report.contains("through = \"h = wider(x)\"") && !report.contains("pattern ="), "{report}");
    let bytes = report.lines().find_map(|line| line.trim().strip_prefix("bytes = ")).unwrap().to_owned();

    let accept = |through: &str, bytes: &str| {
        let rest = format!("bytes = {bytes}\nreason = 'worth it'\nexpires = 2999-12-31\n");
        checkout.write("ptmem.toml", format!("[[accept]]\nthrough = '{through}'\n{rest}"));
        verdict(&checkout.ptmem(&limits))
    };
    assert_eq!(accept("h = wider(x)", &bytes).0, 0);
    assert_eq!(accept("src/net/model.py:*", &bytes).0, 0);
    // Another edit, a part of its line, or less than it takes.
    assert_eq!(accept("h = narrower(x)", &bytes).0, 1);
    assert_eq!(accept("wider", &bytes).0, 1);
    assert_eq!(accept("h = wider(x)", "'1MiB'").0, 1);
    // All there is: nobody would have looked at what is accepted.
    checkout.write("ptmem.toml", "[[accept]]\nthrough = '*'\nbytes = '1GiB'\nreason = 'x'\nexpires = 2999-12-31\n");
    assert_eq!(checkout.ptmem(&limits).status.code(), Some(2));

    let mut github = limits.to_vec();
    github.extend(["--format", "github"]);
    fs::remove_file(checkout.path().join("ptmem.toml")).unwrap();
    let report = text(&checkout.ptmem(&github).stdout);
    let errors: Vec<_> = report.lines().filter(|line| line.starts_with("::error")).collect();
    assert!(errors[0].starts_with("::error file=src/net/model.py,line=4,"), "{report}");
    assert!(errors[0].contains("put down to the same edit: stack layer ("), "{report}");
    assert!(errors.iter().skip(1).all(|line| !line.contains("stack layer")), "{report}");
}
