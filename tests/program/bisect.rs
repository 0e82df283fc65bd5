//! `ptmem bisect` with a command that needs no GPU: it copies a fixture.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fixtures::folder;
use crate::support::history::{A, MIB, event, file, segment};
use crate::support::tool::{git, ptmem, text};

/// A repository with eight commits, of which the fifth makes memory grow and the sixth cannot be run. None can where
/// another has compiled.
pub(super) struct History {
    folder: TempDir,
}

impl History {
    pub(super) fn new() -> Self {
        let recordings: [Option<&str>; 8] = std::array::from_fn(|at| match at + 1 {
            6 => None,
            number => Some(if number < 5 { "before.pkl" } else { "after.pkl" }),
        });
        Self::of(&recordings.map(|name| name.map(|name| folder().join(name))))
    }

    /// A commit for each recording; none where it cannot be run.
    fn of(recordings: &[Option<PathBuf>]) -> Self {
        let history = Self { folder: tempfile::tempdir().unwrap() };
        let root = history.root();
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch", "main"]);
        for (number, recording) in (1..).zip(recordings) {
            let end = match recording {
                Some(path) => format!("cp '{}' \"$PTMEM_SNAPSHOT\"", path.display()),
                None => "echo no module >&2; exit 7".to_owned(),
            };
            fs::write(
                root.join("run.sh"),
                format!(
                    "# {number}\necho {number} >> '{}'\nwhile [ -e '{}' ]; do sleep 0.1; done\n\
                     mkdir -p $TORCHINDUCTOR_CACHE_DIR; mkdir $TORCHINDUCTOR_CACHE_DIR/kernel || exit 8\n{end}\n",
                    history.runs().display(),
                    history.hold().display(),
                ),
            )
            .unwrap();
            git(&root, &["add", "run.sh"]);
            git(&root, &["commit", "--quiet", "--message", &format!("Change {number}")]);
        }
        history
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("code")
    }

    /// The file to which each run adds a line.
    fn runs(&self) -> PathBuf {
        self.folder.path().join("runs")
    }

    /// The file that keeps runs from ending.
    fn hold(&self) -> PathBuf {
        self.folder.path().join("hold")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_command(arguments, &["sh", "run.sh"])
    }

    fn run_command(&self, arguments: &[&str], recorded: &[&str]) -> Output {
        self.command(arguments, recorded).output().unwrap()
    }

    fn command(&self, arguments: &[&str], recorded: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(self.root()).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("TORCHINDUCTOR_CACHE_DIR", self.folder.path().join("kernels"));
        command.args(["bisect"]).args(arguments).args(["--steps", "none", "--"]).args(recorded);
        command
    }

    pub(super) fn report(&self, range: &str) -> Value {
        let output = self.run(&[range, "--max-growth", "5%", "--format", "json"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn runs_of(&self) -> Vec<String> {
        let mut runs: Vec<String> = fs::read_to_string(self.runs()).unwrap().lines().map(str::to_owned).collect();
        runs.sort();
        runs
    }
}

#[test]
fn commits_need_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(&folder).args(["bisect", "v1..HEAD", "--max-growth", "5%", "--", "true"]);
    let expected =
        "error: v1..HEAD: the working directory is in no Git repository; run this in the checkout of the code\n";
    assert_eq!(text(&command.output().unwrap().stderr), expected);
}

/// `git bisect run` stops at that.
#[test]
fn options_of_a_simulated_card_are_refused_on_a_real_one() {
    let place = tempfile::tempdir().unwrap();
    let good = folder().join("before.pkl");
    for (range, code) in [("v1..HEAD", 2), (good.to_str().unwrap(), 128)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(&place).args(["bisect", range, "--max-growth", "5%", "--steps", "none"]);
        let output = command.args(["--compute", "all", "--", "true"]).output().unwrap();
        let expected =
            "error: --compute: not used, because --steps none runs the command on the real card; leave it out\n";
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(code), expected));
    }
}

/// All commits would be recorded with the script of the checkout.
#[test]
fn an_absolute_path_into_the_checkout_is_refused() {
    let history = History::new();
    let script = history.root().canonicalize().unwrap().join("run.sh").display().to_string();
    for recorded in [vec!["sh", &script], vec!["sh", "-c", &format!("sh {script}")]] {
        let output = history.run_command(&["main~1..main", "--max-growth", "5%"], &recorded);
        assert_eq!(output.status.code(), Some(2));
        let expected =
            format!("error: {script}: is of the checkout, which all commits would read; name it by a relative path\n");
        assert_eq!(text(&output.stderr), expected);
    }
}

#[test]
fn the_first_bad_commit_is_compared_with_the_one_before_it() {
    let history = History::new();
    let report = history.report("main~7..main");
    let report = report.to_string();
    let found = "\\\"Change 5\\\" is the first commit that exceeds the limits compared with";
    assert!(
        report.contains(found) && report.contains("compared with ") && report.contains("\\\"Change 4\\\""),
        "{report}"
    );
    // Each was run once, in a worktree that is gone.
    let runs = history.runs_of();
    assert!(runs.windows(2).all(|two| two[0] != two[1]), "{runs:?}");
    let recorded = runs.iter().filter(|run| *run != "6").count();
    assert!(report.contains(&format!("; {recorded} were judged, and this is")), "{runs:?}: {report}");
    assert_eq!(git(&history.root(), &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&history.root(), &["status", "--short"]), "");
    // What was recorded is not recorded again.
    history.report("main~7..main");
    let again = history.runs_of();
    assert_eq!(
        again.iter().filter(|run| *run != "6").count(),
        runs.iter().filter(|run| *run != "6").count(),
        "{again:?}"
    );
}

/// A program that reads a variable is another one with another value.
#[test]
fn commits_are_recorded_again_with_other_variables() {
    let history = History::new();
    for runs in [["1", "4"].as_slice(), &["1", "1", "4", "4"]] {
        let mut command = history.command(&["main~7..main~4", "--max-growth", "5%"], &["sh", "run.sh"]);
        let output = command.env("SCALE", runs.len().to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(history.runs_of(), runs);
    }
}

/// Two searches of the same command would remove each other's worktrees and recordings.
#[cfg(unix)]
#[test]
fn a_search_waits_for_another_of_the_same_command() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;
    use std::thread;
    use std::time::Duration;

    let history = History::new();
    fs::write(history.hold(), "").unwrap();
    let start = || {
        let mut command = history.command(&["main~7..main", "--max-growth", "5%"], &["sh", "run.sh"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start();
    while !history.runs().exists() {
        assert!(first.try_wait().unwrap().is_none(), "the first search ended before it recorded");
        thread::sleep(Duration::from_millis(20));
    }
    let mut second = start();
    let mut notes = BufReader::new(second.stderr.take().unwrap());
    let mut note = String::new();
    notes.read_line(&mut note).unwrap();
    fs::remove_file(history.hold()).unwrap();
    assert_reads!(note => str!["note: waiting for another ptmem that records in [..]/cache/ptmem/search/[..]"]);
    let mut rest = String::new();
    notes.read_to_string(&mut rest).unwrap();
    let [first, second] = [first, second].map(|search| search.wait_with_output().unwrap());
    assert_eq!(first.status.code(), Some(1), "{}", text(&first.stderr));
    assert_eq!(second.status.code(), Some(1), "{rest}");
    assert_eq!(text(&first.stdout), text(&second.stdout));
    // The second one records only the commit that cannot be.
    let mut runs = history.runs_of();
    runs.retain(|run| run != "6");
    assert!(runs.windows(2).all(|two| two[0] != two[1]), "{runs:?}");
}

#[test]
fn a_range_without_growth_is_reported_as_it_is() {
    let history = History::new();
    let output = history.run(&["main~7..main~4", "--max-growth", "5%"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for expected in [
        "both ends of the range are within the limits, so no commit between them was recorded: from ",
        "\"Change 1\" to ",
        "\"Change 4\", peak did not change, allowed 5 %. To search, name a range whose last commit exceeds the limit",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    let output = history.run(&["main~7..main", "--max-growth", "200%"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    let expected = "allowed 200 %. To search, lower the limit below that growth, or name a range";
    assert!(report.contains("\"Change 8\", peak grew ") && report.contains(expected), "{report}");
    assert_eq!(history.runs_of(), ["1", "4", "8"]);
    // Nor does a lower limit that only warns help.
    let output = history.run(&["main~7..main", "--warn-growth", "5%"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    let line = report.lines().find(|line| line.starts_with("warning[bisected]"));
    assert_reads!(line.unwrap_or_default() => str![[r#"warning[bisected] a limit that is exceeded only warns, so no commit between the ends was recorded: from [..] "Change 1" to [..] "Change 8", only warnings were requested: peak grew 53.80 MiB (+19.2 %), allowed 5 %. To search, give it as --max-growth, or as max-growth in ptmem.toml"#]]);
    // Where an agreement decides, no lower limit helps.
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agreed.toml");
    let agreed = "[[accept]]\nmetric = 'peak'\nbytes = '1GiB'\nreason = 'x'\nexpires = 2999-12-31\n";
    fs::write(&config, agreed).unwrap();
    let output = history.run(&["main~7..main", "--max-growth", "0", "--config", config.to_str().unwrap()]);
    let report = text(&output.stdout);
    assert!(report.contains("To search, give the limits without the accepted growth (--config none"), "{report}");
    assert!(!report.contains("lower the limit"), "{report}");
}

/// Several warnings are cut to a line each, but not the answer.
#[test]
fn the_answer_is_read_whole_beside_warnings() {
    let history = History::new();
    let copied = format!("cp '{}' \"$PTMEM_SNAPSHOT\"", folder().join("wrapped.pkl").display());
    let mut command = history.command(&["main~7..main", "--max-growth", "5%"], &["sh", "-c", &copied]);
    let report = text(&command.env("COLUMNS", "80").output().unwrap().stdout);
    let words: Vec<&str> = report.split_whitespace().collect();
    assert!(words.join(" ").contains("To search, name a range whose last commit exceeds the limit"), "{report}");
    assert!(report.contains(" …\n"), "{report}");
}

/// An environment without PyTorch ends the search with the first commit, and `git bisect run` as well.
#[test]
fn nothing_is_searched_without_pytorch() {
    let history = History::new();
    let broken = "echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1";
    let good = folder().join("before.pkl");
    for (range, code) in [("main~7..main", 2), (&*good.to_string_lossy(), 128)] {
        let output = history.run_command(&[range, "--max-growth", "5%"], &["sh", "-c", broken]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let error = text(&output.stderr);
        let expected = "error: nothing can be recorded here: the Python of the command has no PyTorch; install it there \
                        (ptmem pip install torch), or give the command another Python\n";
        assert!(error.ends_with(expected) && error.matches("note: ").count() <= 1, "{error}");
    }
    let output = history.run_command(&["main~7..main", "--max-growth", "5%"], &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert_reads!(text(&output.stderr) => str![[r#"
note: trying [..] "Change 1"
error: [..] "Change 1": cannot be recorded: the command wrote no snapshot to the file that PTMEM_SNAPSHOT names (its output: [..]/cache/ptmem/search/[..]/[..]/log)
"#]]);
}

#[test]
fn mistakes_end_with_what_to_do() {
    let history = History::new();
    for (arguments, words) in [
        (&["main..main~3", "--max-growth", "5%"][..], "give the older commit first"),
        (&["main..main", "--max-growth", "5%"], "give an older commit first"),
        (&["nonsense", "--max-growth", "5%"], "nonsense: is neither a range nor a snapshot"),
        (&["main~2..main", "--max-growth", "5%"], "cannot be recorded: the command failed with exit code 7: no module"),
        (&["main~2..main", "--max-growth", "5%"], "/log); give another end of the range"),
        (&["six==1.17..1.16", "--max-growth", "5%"], "expected a package and two of its releases, the older first"),
        (
            &["main~7..main", "--max-growth", "5%", "--gpu", "a1000"],
            "did you mean 'a100'?; 'ptmem simulate --gpu list' prints all",
        ),
    ] {
        let output = history.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

#[test]
fn nothing_is_recorded_without_limits_or_a_place_for_the_report() {
    let history = History::new();
    for (arguments, words) in [
        (&["main~7..main"][..], "expected one, such as --max-growth 5%"),
        (&["main~7..main", "--max-growth", "5%", "--export", "json=/none/a.json"], "there is no folder /none"),
    ] {
        let output = history.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    assert!(!history.runs().exists());
}

/// Each commit grows within the limits, and together they exceed them: the report says so, in any format.
#[test]
fn growth_in_small_steps_is_a_regression_in_the_report_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [100, 104, 108, 112];
    let recordings = sizes.map(|size| {
        let path = folder.path().join(format!("{size}.pkl"));
        let events = vec![event("segment_alloc", A, 200 * MIB), event("alloc", A, size * MIB)];
        let segments = vec![segment(A, &[(size * MIB, true), ((200 - size) * MIB, false)])];
        fs::write(&path, file(segments, events)).unwrap();
        Some(path)
    });
    let history = History::of(&recordings);
    let report = history.report("main~3..main");
    assert_eq!(report["verdict"], "regression", "{report}");
    let output = history.run(&["main~3..main", "--max-growth", "5%"]);
    let report = text(&output.stdout);
    let lines: Vec<&str> =
        report.lines().filter(|line| line.starts_with("FAIL") || line.contains("bisected")).collect();
    assert_reads!(lines.join("\n") => str![[r#"
FAIL peak grew 8.00 MiB (+8.0 %), allowed 5 %, most by main (train.py:7) (+8.00 MiB)
warning[bisected] [..] "Change 3" is the first commit that exceeds the limits compared with [..] "Change 1"; 4 were judged, and this is [..] "Change 3" compared with [..] "Change 1". The growth since [..] "Change 2" is within the limits: earlier commits grew as well
"#]]);
}

/// A commit without the working directory is named, and leaves no worktree behind.
#[test]
fn a_bad_commit_without_the_folder_is_named() {
    let history = History::new();
    let folder = history.root().join("sub");
    fs::create_dir(&folder).unwrap();
    let mut command = history.command(&["main~7..main", "--max-growth", "5%"], &["sh", "run.sh"]);
    let output = command.current_dir(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_reads!(text(&output.stderr) => str![[r#"error: [..] "Change 8": cannot be recorded: it has no folder sub/"#]]);
    assert_eq!(git(&history.root(), &["worktree", "list"]).lines().count(), 1);
}

/// No commit of the range is to blame for a limit that the good one exceeds.
#[test]
fn a_good_commit_is_within_absolute_limits() {
    let history = History::new();
    fs::write(history.root().join("ptmem.toml"), "[max]\npeak = '10MiB'\n[max-growth]\npeak = '5%'\n").unwrap();
    let output = history.run(&["main~7..main"]);
    assert_eq!(output.status.code(), Some(2));
    assert_reads!(text(&output.stderr) => str![[r#"
note: trying [..] "Change 1"
error: [..] "Change 1": the good end itself exceeds a limit: peak is 280.14 MiB, allowed 10.00 MiB; give an older one, or leave out the absolute limits (max)
"#]]);
    assert_eq!(history.runs_of(), ["1"]);
    let good = folder().join("before.pkl");
    assert_eq!(history.run(&[good.to_str().unwrap()]).status.code(), Some(128));
}

#[test]
fn releases_that_pip_does_not_list_are_no_ends() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    fs::write(&python, "#!/bin/sh\necho 'Available versions: 1.17.0, 1.16.0, 1.15.0'\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    for range in ["six==1.14..1.17", "six==1.15..1.18"] {
        let python = python.to_str().unwrap();
        let output = ptmem(folder.path(), &["bisect", range, "--max-growth", "5%", "--", python, "train.py"]);
        assert_eq!(output.status.code(), Some(2));
        assert_reads!(text(&output.stderr) => str!["error: six==1.1[..]: pip lists only 1.15.0 to 1.17.0 in this range for this Python; expected releases that it lists"]);
    }
}

#[test]
fn git_bisect_run_is_told_what_to_make_of_a_commit() {
    let history = History::new();
    let good = folder().join("before.pkl");
    for (commit, code) in [("main~7", 0), ("main", 1), ("main~2", 125)] {
        git(&history.root(), &["checkout", "--quiet", commit]);
        let output = history.run(&[&good.to_string_lossy(), "--max-growth", "5%"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("earlier search"), "each checkout is recorded anew");
    }
}

/// Git reads each code below 125 but 0 as that of a bad commit.
#[test]
fn no_error_is_a_bad_commit_for_git() {
    let history = History::new();
    git(&history.root(), &["bisect", "start", "main~1", "main~7"]);
    let good = folder().join("before.pkl");
    let good = good.to_str().unwrap();
    for (arguments, code, words) in [
        (&["typo.pkl", "--max-growth", "5%"][..], 128, "typo.pkl: is neither a range nor a snapshot"),
        (&["../typo.pkl", "--max-growth", "5%"], 128, "there is no such commit"),
        (&[good, "--max-grow", "5%"], 128, "unexpected argument '--max-grow'"),
        (&[good], 128, "no limit is given, here or in ptmem.toml"),
        (&[good, "--warn-growth", "5%"], 128, "each limit only warns, so no commit could be bad"),
        (&[good, "--max-growth", "5%", "--exit-zero"], 128, "--exit-zero would call each commit good"),
        (&[good, "--max-growth", "5%", "--config", "none.toml"], 128, "none.toml"),
    ] {
        let output = history.run(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(history.root()).args(["--color", "never", "bisect", "typo.pkl", "--", "true"]);
    assert_eq!(command.output().unwrap().status.code(), Some(128), "a global option before the command");
    assert!(!history.runs().exists(), "nothing was recorded");
    git(&history.root(), &["bisect", "reset"]);
    assert_eq!(history.run(&["typo.pkl", "--max-growth", "5%"]).status.code(), Some(2), "nobody bisects");
}

/// Where commits have a configuration, what one lacks is its own fault; one that none has is the same for all.
#[test]
fn a_commit_without_limits_of_its_own_is_skipped() {
    let history = History::new();
    let good = folder().join("before.pkl");
    let good = good.to_str().unwrap();
    fs::write(history.root().join("ptmem.toml"), "unknown = 1\n").unwrap();
    assert_eq!(history.run(&[good, "--max-growth", "5%"]).status.code(), Some(128), "of no commit");
    fs::write(history.root().join("ptmem.toml"), "[max-growth]\npeak = '5%'\n").unwrap();
    git(&history.root(), &["add", "ptmem.toml"]);
    git(&history.root(), &["commit", "--quiet", "--message", "Limits"]);
    git(&history.root(), &["checkout", "--quiet", "main~1"]);
    for (arguments, code) in [
        (&[good][..], 125),
        (&[good, "--config", "ptmem.toml"], 125),
        (&[good, "--config", "none"], 128),
        (&[good, "--max", "10MiB"], 128),
        (&[good, "--config", "../ptmem.toml"], 128),
    ] {
        let output = history.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(!history.runs().exists(), "nothing was recorded");
}

#[test]
fn the_checkout_is_reported_as_a_range_is() {
    let history = History::new();
    git(&history.root(), &["checkout", "--quiet", "main"]);
    let good = folder().join("before.pkl");
    let export = history.folder.path().join("report.md");
    let export_argument = format!("markdown={}", export.display());
    let good = good.to_str().unwrap();
    let output = history.run(&[good, "--max-growth", "5%", "--format", "json", "--export", &export_argument]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "regression", "{report}");
    assert!(fs::read_to_string(export).unwrap().contains("peak grew"));
}
