//! The source below rows, from the checkout in which the report is made.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::json;
use tempfile::TempDir;

use crate::support::pickle::{self, Value};
use crate::support::program::Program;
use crate::support::tool::{commit, git, ptmem, text};

const MIB: u64 = 1 << 20;

const MODEL: &str = "\
import torch

def forward(x):
    # \u{1b}[31mred
    return torch.cat([x, x])
";

/// A checkout with a model, and recordings of it from elsewhere: `forward` on line 5 grows.
fn checkout() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("net")).unwrap();
    fs::write(folder.path().join("net/model.py"), MODEL).unwrap();
    commit(folder.path(), &["net/model.py"]);
    for (name, mib) in [("before.pkl", 4), ("after.pkl", 8)] {
        let mut program = Program::default();
        for part in 0..mib {
            program.alloc_under(part.to_string(), &["/ci/repo/net/model.py:forward:5", "/ci/repo/main.py:main:9"], MIB);
        }
        fs::write(folder.path().join(name), program.snapshot()).unwrap();
    }
    folder
}

fn diff(folder: &Path, arguments: &[&str]) -> Output {
    ptmem(folder, &[&["diff", "before.pkl", "after.pkl"], arguments].concat())
}

const EXCERPT: [&str; 3] = ["  3  def forward(x):", "  4      # \\u{1b}[31mred", "> 5      return torch.cat([x, x])"];

#[test]
fn the_source_stands_below_its_row_where_it_is_asked_for() {
    let folder = checkout();
    let plain = text(&diff(folder.path(), &[]).stdout);
    assert!(!plain.contains("torch.cat"), "{plain}");
    let report = text(&diff(folder.path(), &["--source"]).stdout);
    let lines: Vec<_> = report.lines().skip_while(|line| !line.contains("grew  forward (")).skip(2).take(3).collect();
    let below: Vec<_> = lines.iter().map(|line| line.strip_prefix("             ").unwrap_or(line)).collect();
    assert_eq!(below, EXCERPT, "{report}");
    let leaks = ptmem(folder.path(), &["leak", "before.pkl", "after.pkl", "--source"]);
    assert!(text(&leaks.stdout).contains(EXCERPT[2]), "{}", text(&leaks.stdout));
    let shown = ptmem(folder.path(), &["show", "after.pkl", "--source"]);
    assert!(text(&shown.stdout).contains(EXCERPT[2]), "{}", text(&shown.stdout));
}

/// Snapshots of torch-snapkit of the same program, recorded elsewhere, with these source files.
fn snapkit(folder: &Path, files: &[(&str, &str)]) {
    for (name, mib) in [("before.pkl", 4), ("after.pkl", 8)] {
        let mut program = Program::default();
        for part in 0..mib {
            program.alloc_under(part.to_string(), &["/gone/net/model.py:forward:5", "/gone/main.py:main:9"], MIB);
        }
        let files = files.iter().map(|&(path, text)| (path.into(), text.into())).collect();
        let state = program.value().with("source_code", Value::Dict(files)).with("shape_data", Value::List(vec![]));
        fs::write(folder.join(name), pickle::write(&state, pickle::Options::shared())).unwrap();
    }
}

#[test]
fn the_snapshot_brings_source_that_no_checkout_has() {
    let long = format!("{MODEL}{}", "# more\n".repeat(4000));
    for source in [MODEL, &long] {
        let folder = tempfile::tempdir().unwrap();
        snapkit(folder.path(), &[("/gone/net/model.py", source), ("/gone/other.py", "pass\n")]);
        for arguments in [&["--source"][..], &["--source", "--format", "markdown"], &["--source", "--format", "html"]] {
            let report = text(&diff(folder.path(), arguments).stdout);
            let line = if arguments.contains(&"html") { "return torch.cat([x, x])" } else { EXCERPT[2] };
            assert!(report.contains(line), "{report}");
            assert!(!report.contains("source_code") && !report.contains("shape_data"), "they are known: {report}");
        }
        for command in ["leak before.pkl after.pkl", "show after.pkl", "check after.pkl --max peak=1GiB"] {
            let arguments: Vec<_> = command.split(' ').chain(["--source"]).collect();
            let report = text(&ptmem(folder.path(), &arguments).stdout);
            assert!(report.contains(EXCERPT[2]), "{report}");
        }
        for format in ["table", "markdown", "html"] {
            let report = text(&diff(folder.path(), &["--format", format]).stdout);
            assert!(report.contains("forward (") && !report.contains("torch.cat"), "nobody asked for it: {report}");
        }
    }
}

#[test]
fn source_in_a_snapshot_is_shown_only_as_it_was_recorded() {
    let folder = checkout();
    fs::write(folder.path().join("net/model.py"), MODEL.replace("forward", "backward")).unwrap();
    snapkit(folder.path(), &[("/gone/net/model.py", MODEL)]);
    assert!(
        text(&diff(folder.path(), &["--source"]).stdout).contains(EXCERPT[2]),
        "the file of the checkout is another"
    );
    // Two long files that begin alike are not told apart, and a file of more than a mebibyte is not kept.
    let long = format!("{MODEL}{}", "# more\n".repeat(4000));
    let longer = format!("{long}# end\n");
    let longest = format!("{MODEL}{}", "# more\n".repeat(200_000));
    for files in
        [&[("/gone/net/model.py", &*long), ("/gone/other.py", &*longer)][..], &[("/gone/net/model.py", &*longest)]]
    {
        snapkit(folder.path(), files);
        let report = text(&diff(folder.path(), &["--source"]).stdout);
        assert!(report.contains("forward (") && !report.contains("torch.cat"), "{report}");
    }
}

#[test]
fn markdown_has_it_among_the_call_stacks() {
    let folder = checkout();
    let report = text(&diff(folder.path(), &["--format", "markdown"]).stdout);
    let block = format!("```python\n{}\n```\n```diff\n main", EXCERPT.join("\n"));
    assert!(report.split("<summary>Call stacks</summary>").nth(1).unwrap().contains(&block), "{report}");
}

#[test]
fn a_file_that_is_not_the_recorded_one_says_nothing() {
    let folder = checkout();
    let model = folder.path().join("net/model.py");
    for other in ["def forward(x):\n    return x\n", "\n\n\n\n# nothing\n", &MODEL.replace("forward", "backward")] {
        fs::write(&model, other).unwrap();
        let output = diff(folder.path(), &["--source"]);
        assert!(output.status.success());
        assert!(!text(&output.stdout).contains("> 5"), "{}", text(&output.stdout));
    }
    fs::remove_file(&model).unwrap();
    assert!(diff(folder.path(), &["--source"]).status.success());
}

/// The function is still there, but its lines have other numbers than at the commit of the recording.
#[test]
fn a_file_that_was_committed_since_the_recording_says_nothing() {
    let folder = checkout();
    let place = folder.path();
    let commit = git(place, &["rev-parse", "HEAD"]).trim().to_owned();
    for (name, mib) in [("before.pkl", 4), ("after.pkl", 8)] {
        let mut program = Program::default();
        program.alloc_under("x".to_owned(), &["/ci/repo/net/model.py:forward:5"], mib * MIB);
        let recorded = program.value().with("ptmem", json!({"format": 1, "commit": commit}));
        fs::write(place.join(name), pickle::write(&recorded, pickle::Options::default())).unwrap();
    }
    let [show, leak] = [&["show", "after.pkl", "--source"][..], &["leak", "before.pkl", "after.pkl", "--source"]];
    for arguments in [show, leak] {
        assert!(text(&ptmem(place, arguments).stdout).contains(EXCERPT[2]));
    }
    fs::write(place.join("net/model.py"), MODEL.replace("    return", "    x = 2 * x\n    return")).unwrap();
    git(place, &["commit", "--quiet", "--all", "--message", "longer"]);
    for output in
        [ptmem(place, show), ptmem(place, leak), diff(place, &["--source"]), diff(place, &["--format", "html"])]
    {
        let report = text(&output.stdout);
        assert!(report.contains("forward (") && !report.contains("2 * x"), "{report}");
    }
    assert_reads!(text(&ptmem(place, show).stderr) => str!["note: the source of net/model.py is left out: git does not have it like that at the recorded commit"]);
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_checkout() {
    let folder = checkout();
    let elsewhere = tempfile::tempdir().unwrap();
    let model = folder.path().join("net/model.py");
    fs::rename(&model, elsewhere.path().join("model.py")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("model.py"), &model).unwrap();
    for arguments in [&["--source"][..], &["--format", "markdown"]] {
        let report = text(&diff(folder.path(), arguments).stdout);
        assert!(report.contains("forward (") && !report.contains("torch.cat"), "{report}");
    }
}

/// Every report that shows source, without `--source`.
fn reports(folder: &Path) -> Vec<String> {
    let formats = ["markdown", "html"];
    let diffs = formats.map(|format| diff(folder, &["--format", format]));
    let shown = formats.map(|format| ptmem(folder, &["show", "after.pkl", "--format", format]));
    let checked =
        formats.map(|format| ptmem(folder, &["check", "after.pkl", "--max", "peak=1MiB", "--format", format]));
    [diffs, shown, checked].concat().iter().map(|output| text(&output.stdout)).collect()
}

/// Records an allocation at a line of a file, on both sides of a comparison.
fn record(folder: &Path, file: &str, line: u32) {
    for (name, mib) in [("before.pkl", 4), ("after.pkl", 8)] {
        let mut program = Program::default();
        for part in 0..mib {
            program.alloc_under(part.to_string(), &[&format!("{file}:<lambda>:{line}")], MIB);
        }
        fs::write(folder.join(name), program.snapshot()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_snapshot_chooses_no_file_to_read() {
    use std::os::unix::fs::symlink;

    let folder = checkout();
    let place = folder.path();
    git(place, &["config", "http.extraheader", "AUTHORIZATION: basic c2VjcmV0"]);
    for path in [".env", "untracked.py", "config.ini", ".git/hooks/hook.py"] {
        fs::create_dir_all(place.join(path).parent().unwrap()).unwrap();
        fs::write(place.join(path), "TOKEN = 'c2VjcmV0'\n".repeat(20)).unwrap();
    }
    fs::create_dir(place.join(".ssh")).unwrap();
    fs::write(place.join(".ssh/key.py"), "TOKEN = 'c2VjcmV0'\n".repeat(20)).unwrap();
    symlink(".git/config", place.join("linked.py")).unwrap();
    symlink(".git/hooks", place.join("linked")).unwrap();
    symlink("untracked.py", place.join("other.py")).unwrap();
    git(place, &["add", "config.ini", "linked.py", "linked", "other.py"]);
    git(place, &["commit", "--quiet", "--message", "links"]);
    for file in [
        ".git/config",
        "/ci/repo/.git/config",
        "net/../.git/config",
        ".env",
        "untracked.py",
        "config.ini",
        "linked.py",
        "linked/hook.py",
        ".git/hooks/hook.py",
        "other.py",
        ".ssh/key.py",
    ] {
        for line in [7, 9] {
            record(place, file, line);
            for report in reports(place) {
                assert!(!report.contains("c2VjcmV0"), "{file}: {report}");
            }
            let asked = text(&diff(place, &["--source"]).stdout);
            assert!(!asked.contains("c2VjcmV0"), "{file}: {asked}");
        }
    }
}

#[test]
fn what_is_not_committed_is_shown_to_whoever_asks() {
    let folder = checkout();
    let model = folder.path().join("net/model.py");
    assert!(reports(folder.path()).iter().all(|report| report.contains("torch.cat")));
    fs::write(&model, MODEL.replace("cat([x, x])", "cat([x, x, x])")).unwrap();
    assert!(reports(folder.path()).iter().all(|report| !report.contains("torch.cat")));
    assert!(text(&diff(folder.path(), &["--source"]).stdout).contains("torch.cat([x, x, x])"));
    // Lines that end as those of another system are the same ones.
    fs::write(&model, MODEL.replace('\n', "\r\n")).unwrap();
    assert!(reports(folder.path()).iter().all(|report| report.contains("torch.cat")));
}

#[cfg(unix)]
#[test]
fn without_git_nothing_is_read_unless_the_source_is_asked_for() {
    let folder = checkout();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(folder.path()).env_clear().env("PATH", "/nowhere");
        text(&command.args(["diff", "before.pkl", "after.pkl"]).args(arguments).output().unwrap().stdout)
    };
    assert!(!run(&["--format", "markdown"]).contains("torch.cat"));
    assert!(run(&["--source"]).contains("torch.cat"));
    fs::rename(folder.path().join(".git"), folder.path().join("no-repository")).unwrap();
    assert!(!text(&diff(folder.path(), &["--format", "markdown"]).stdout).contains("torch.cat"));
    assert!(text(&diff(folder.path(), &["--source"]).stdout).contains("torch.cat"));
}

/// As without the variable: the verdict of a job is that of a laptop, and links begin at the root of the repository.
#[test]
fn in_a_folder_of_a_workspace_paths_begin_at_the_root_of_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("deep/repo");
    fs::create_dir_all(repository.parent().unwrap()).unwrap();
    fs::rename(checkout().keep(), &repository).unwrap();
    record(&repository, "/ci/work/deep/repo/net/model.py", 5);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(&repository).env_clear().env("GITHUB_WORKSPACE", folder.path());
    let output = command.args(["diff", "before.pkl", "after.pkl", "--format", "markdown"]).output().unwrap();
    let report = text(&output.stdout);
    assert!(report.contains("torch.cat"), "{report}");
    assert_eq!(report, text(&diff(&repository, &["--format", "markdown"]).stdout));
    assert!(report.contains("(net/model.py:5)") && !report.contains("deep/repo"), "{report}");
}

#[test]
fn in_a_job_of_gitlab_rows_lead_to_lines_of_its_commit() {
    let folder = checkout();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder.path()).env_clear().env("CI_PROJECT_URL", "https://gitlab.com/some/model");
    command.env("CI_COMMIT_SHA", "abc1234def").env("CI_JOB_URL", "https://gitlab.com/some/model/-/jobs/5");
    let output = command.args(["diff", "before.pkl", "after.pkl", "--format", "markdown"]).output().unwrap();
    let report = text(&output.stdout);
    let commit = "GPU memory at commit [`abc1234`](https://gitlab.com/some/model/-/commit/abc1234def)";
    assert!(report.contains(commit), "{report}");
    assert!(report.contains("](https://gitlab.com/some/model/-/blob/abc1234def/net/model.py#L5) |"), "{report}");
    assert!(report.contains("[log of the run](https://gitlab.com/some/model/-/jobs/5)"), "{report}");
}
