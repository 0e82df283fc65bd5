//! Changes that loosen their own limits, in real repositories: what passes by the configuration of the change and not by that of
//! its base is told, whatever the change did.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::program::Program;
use crate::support::tool::{git, text};

const MIB: u64 = 1 << 20;

/// A checkout whose base has some files, and recordings that no commit has.
struct Checkout {
    folder: TempDir,
}

/// What a run said of the change.
struct Said {
    code: i32,
    announce: bool,
    report: String,
}

impl Checkout {
    fn new(base: &[(&str, &str)]) -> Self {
        let checkout = Self { folder: tempfile::tempdir().unwrap() };
        checkout.git(&["init", "--quiet", "--initial-branch", "main"]);
        checkout.commit(base);
        checkout.git(&["switch", "--quiet", "--create", "change"]);
        checkout
    }

    fn git(&self, arguments: &[&str]) {
        git(self.folder.path(), arguments);
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
        self.git(&["add", "--all", "--", ".", ":!*.pkl"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "files"]);
    }

    fn rename(&self, from: &str, to: &str) {
        fs::create_dir_all(self.folder.path().join(to).parent().unwrap()).unwrap();
        self.git(&["mv", from, to]);
    }

    /// Writes a recording of what is held, each as frames and MiB.
    fn record(&self, path: &str, held: &[(&[&str], u64)]) {
        let mut program = Program::default();
        for (at, (frames, mib)) in held.iter().enumerate() {
            for part in 0..*mib {
                program.alloc_under(format!("{at}.{part}"), frames, MIB);
            }
        }
        self.write(path, program.snapshot());
    }

    /// Writes the profile of a recording.
    fn store(&self, recording: &str, path: &str) {
        fs::create_dir_all(self.folder.path().join(path).parent().unwrap()).unwrap();
        let output = self.command("").args(["profile", recording, "-o", path]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// Makes what is there the base of a new change.
    fn base(&self) {
        self.git(&["switch", "--quiet", "main"]);
        self.commit(&[]);
        self.git(&["switch", "--quiet", "--create", "another"]);
    }

    fn command(&self, folder: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(self.folder.path().join(folder)).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("PTMEM_TODAY", "2027-01-15").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    }

    /// Runs a command in a folder of the checkout, against the base.
    fn ptmem(&self, folder: &str, arguments: &[&str]) -> Said {
        let mut command = self.command(folder);
        let outputs = self.folder.path().join(".git/outputs");
        command.args(arguments).args(["--format", "json", "--git", "main", "--export"]);
        let output = command.arg(format!("github-output={}", outputs.display())).output().unwrap();
        let outputs = fs::read_to_string(outputs).unwrap_or_default();
        Said {
            code: output.status.code().unwrap(),
            announce: outputs.contains("announce=true"),
            report: (text(&output.stdout) + &text(&output.stderr)).replace('\\', ""),
        }
    }
}

const LAYER: [&str; 2] = ["/ci/net/model.py:layer:4", "/ci/net/model.py:forward:90"];
const MLP: [&str; 2] = ["/ci/net/model.py:mlp:14", "/ci/net/model.py:forward:91"];

/// A layer that grows from 10 to 20 MiB beside 100 MiB that stay: the peak grows by 9 %.
fn grown(base: &[(&str, &str)]) -> Checkout {
    let checkout = Checkout::new(base);
    checkout.record("before.pkl", &[(&LAYER, 10), (&MLP, 100)]);
    checkout.record("after.pkl", &[(&LAYER, 20), (&MLP, 100)]);
    checkout
}

const DIFF: [&str; 3] = ["diff", "before.pkl", "after.pkl"];
const SUITE: [&str; 3] = ["diff", "--suite", "all"];

/// A suite of two comparisons; the layer of both grows.
const OF_SUITE: &str = "\
[max-growth]
peak = \"5%\"
[[suite.all.compare]]
name = \"one\"
before = \"before.pkl\"
after = \"after.pkl\"
[[suite.all.compare]]
name = \"two\"
before = \"before.pkl\"
after = \"before.pkl\"
max = \"peak=1GiB\"
";

/// Without the change of the configuration, the recordings fail.
#[track_caller]
fn fails_by_the_base(checkout: &Checkout, folder: &str, arguments: &[&str]) {
    let said = checkout.ptmem(folder, arguments);
    assert_eq!((said.code, said.announce), (1, false), "{}", said.report);
}

/// With it, they pass, and that is told with both rules.
#[track_caller]
fn passes_and_is_told(checkout: &Checkout, folder: &str, arguments: &[&str], told: &[&str]) {
    let said = checkout.ptmem(folder, arguments);
    assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
    let report = said.report;
    assert!(report.contains("this change loosens its own limits: with "), "{report}");
    for words in told {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn a_file_that_hides_that_of_the_base_is_told() {
    let checkout = grown(&[(".github/ptmem.toml", "max-growth = \"5%\"\n")]);
    fails_by_the_base(&checkout, "", &DIFF);
    checkout.commit(&[("ptmem.toml", "max-growth = \"50%\"\n")]);
    let told = [
        "with .github/ptmem.toml of the base FAIL peak grew 10.00 MiB (+9.1 %)",
        "with ptmem.toml of the change PASS peak grew 10.00 MiB (+9.1 %)",
        "max-growth is \"50%\", was \"5%\"",
    ];
    passes_and_is_told(&checkout, "", &DIFF, &told);

    let below = ["diff", "../before.pkl", "../after.pkl"];
    let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n"), ("train/run.py", "")]);
    fails_by_the_base(&checkout, "train", &below);
    checkout.write("train/ptmem.toml", "max-growth = \"50%\"\n");
    passes_and_is_told(
        &checkout,
        "train",
        &below,
        &["with ../ptmem.toml of the base FAIL", "with ptmem.toml of the change"],
    );
}

#[test]
fn every_report_tells_of_looser_limits() {
    let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n")]);
    checkout.write("ptmem.toml", "max-growth = \"50%\"\n");
    for (format, told) in [
        ("table", "warning[limits-loosened] this change loosens its own limits"),
        ("markdown", "this change loosens its own limits"),
        ("github", "::warning title=ptmem%3A limits-loosened::this change loosens its own limits"),
    ] {
        let output = checkout.command("").args(DIFF).args(["--git", "main", "--format", format]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(told), "{told}: {}", text(&output.stdout));
    }
}

/// What a change writes is at most a part of the comment, and the remark is the first.
#[test]
fn a_remark_is_not_pushed_out_of_a_comment() {
    let base = "max-growth = \"5%\"\n";
    let long = "A".repeat(9_000);
    let reason = format!(
        "[[accept]]\nmetric = \"end\"\nbytes = \"1KiB\"\nreason = \"{}\"\nexpires = 2999-12-31\n",
        long.repeat(9)
    );
    let unused: String = (0..20).map(|n| format!("[[category]]\nname = \"{n}{long}\"\nframes = [\"x\"]\n")).collect();
    for more in [reason, unused] {
        let checkout = grown(&[("ptmem.toml", base)]);
        checkout.write("ptmem.toml", format!("max-growth = \"50%\"\n{more}"));
        let mut command = checkout.command("");
        command.args(DIFF).args(["--git", "main", "--max-bytes", "20000"]);
        for format in ["brief", "markdown", "github"] {
            command.args(["--export", &format!("{format}={format}.txt")]);
        }
        assert_eq!(command.output().unwrap().status.code(), Some(0));
        for format in ["brief", "markdown", "github"] {
            let output = fs::read_to_string(checkout.folder.path().join(format!("{format}.txt"))).unwrap();
            let parts = ["this change loosens its own limits", "of the base FAIL"];
            assert!(parts.iter().all(|part| output.contains(part)), "{format}: {output}");
            assert!(format != "github" || output.lines().next().unwrap().contains("limits-loosened"), "{output}");
        }
        let said = checkout.ptmem("", &DIFF);
        assert!(
            said.report.contains("max-growth is \"50%\", was \"5%\"") || more.contains("category"),
            "{}",
            said.report
        );
    }
}

#[test]
fn a_file_that_is_removed_is_told() {
    let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n"), ("train/run.py", "")]);
    fs::remove_file(checkout.folder.path().join("ptmem.toml")).unwrap();
    let told = ["with ../ptmem.toml of the base FAIL", "with no ptmem.toml of the change PASS"];
    passes_and_is_told(&checkout, "train", &["diff", "../before.pkl", "../after.pkl"], &told);
    // The working directory is a link of the change to a folder of another depth.
    #[cfg(unix)]
    {
        checkout.commit(&[("ptmem.toml", "max-growth = \"5%\"\n"), ("a/b/ptmem.toml", "max-growth = \"50%\"\n")]);
        fs::remove_dir_all(checkout.folder.path().join("train")).unwrap();
        std::os::unix::fs::symlink("a/b", checkout.folder.path().join("train")).unwrap();
        let script = "cd train && exec \"$0\" diff ../../before.pkl ../../after.pkl --git main";
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_ptmem")]).current_dir(checkout.folder.path());
        let output = command.env_remove("GITHUB_WORKSPACE").output().unwrap();
        assert!(text(&output.stdout).contains("loosens its own limits"), "{}", text(&output.stdout));
    }
}

#[test]
fn a_pattern_that_takes_the_place_of_a_limit_is_told() {
    for (base, own, arguments) in [
        ("[max-growth]\nstack = \"0\"\n", "[max-growth]\nstack = \"0\"\n\"stack:*\" = \"999GiB\"\n", &DIFF[..]),
        ("[max]\nstack = \"50MiB\"\n", "[max]\nstack = \"50MiB\"\n\"stack:*\" = \"999GiB\"\n", &DIFF[..]),
        ("[max]\nstack = \"50MiB\"\n", "[max]\n\"stack:*\" = \"999GiB\"\n", &["check", "after.pkl"][..]),
    ] {
        let checkout = grown(&[("ptmem.toml", base)]);
        fails_by_the_base(&checkout, "", arguments);
        checkout.write("ptmem.toml", own);
        passes_and_is_told(&checkout, "", arguments, &["\"stack:*\""]);
    }
}

#[test]
fn a_grouping_that_splits_a_stack_is_told() {
    let checkout = Checkout::new(&[("ptmem.toml", "[max-growth]\nstack = \"6MiB\"\n")]);
    let one = ["/x/site-packages/torch/nn/functional.py:linear:10", LAYER[0], LAYER[1]];
    let other = ["/x/site-packages/torch/nn/functional.py:linear:20", LAYER[0], LAYER[1]];
    checkout.record("before.pkl", &[(&one, 2), (&other, 2)]);
    checkout.record("after.pkl", &[(&one, 7), (&other, 7)]);
    fails_by_the_base(&checkout, "", &DIFF);
    checkout.write("ptmem.toml", "group-by = \"frames\"\n[max-growth]\nstack = \"6MiB\"\n");
    passes_and_is_told(&checkout, "", &DIFF, &["group-by is \"frames\", was not set"]);
}

#[test]
fn more_memory_of_the_device_and_accepted_growth_are_told() {
    let base = "device-memory = \"5GiB\"\ndevice-overhead = \"0\"\nmin-headroom = \"2GiB\"\n";
    for arguments in [&DIFF[..], &["check", "after.pkl"]] {
        let checkout = grown(&[("ptmem.toml", base)]);
        fails_by_the_base(&checkout, "", arguments);
        checkout.write("ptmem.toml", base.replace("5GiB", "80GiB"));
        passes_and_is_told(&checkout, "", arguments, &["device-memory is \"80GiB\", was \"5GiB\""]);
    }

    let base = "max-growth = \"5%\"\n";
    let checkout = grown(&[("ptmem.toml", base)]);
    let accept = "[[accept]]\nmetric = \"peak\"\nbytes = \"999GiB\"\nreason = \"x\"\nexpires = 2999-12-31\n";
    checkout.write("ptmem.toml", format!("{base}{accept}"));
    passes_and_is_told(&checkout, "", &DIFF, &["accept.1.bytes is \"999GiB\", was not set"]);
}

#[test]
fn a_suite_that_checks_less_is_told() {
    let one = "name = \"one\"\n";
    for (from, to) in [
        // A limit of one comparison, and limits of the suite in place of those of the file.
        (one, "name = \"one\"\nmax-growth = \"50%\"\n"),
        (
            "[[suite.all.compare]]\nname = \"one\"",
            "[suite.all]\nmax-growth = \"50%\"\n[[suite.all.compare]]\nname = \"one\"",
        ),
        ("after = \"after.pkl\"", "after = \"before.pkl\""),
        ("[[suite.all.compare]]\nname = \"one\"\nbefore = \"before.pkl\"\nafter = \"after.pkl\"\n", ""),
    ] {
        let checkout = grown(&[("ptmem.toml", OF_SUITE)]);
        fails_by_the_base(&checkout, "", &SUITE);
        checkout.write("ptmem.toml", OF_SUITE.replacen(from, to, 1));
        passes_and_is_told(&checkout, "", &SUITE, &["of the base FAIL one: peak grew 10.00 MiB"]);
    }
    // A limit of a comparison that is raised.
    let base = OF_SUITE.replacen(one, "name = \"one\"\nmax-growth = \"2%\"\n", 1);
    let checkout = grown(&[("ptmem.toml", &base)]);
    checkout.write("ptmem.toml", base.replace("2%", "50%"));
    passes_and_is_told(&checkout, "", &SUITE, &["suite.all.compare.one.max-growth is \"50%\", was \"2%\""]);
}

#[test]
fn limits_on_leaks_are_those_of_the_base_too() {
    let checkout = Checkout::new(&[("ptmem.toml", "allow-oom = false\n")]);
    for name in ["no-leak.pkl", "oom.pkl"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        fs::copy(fixture, checkout.folder.path().join(name)).unwrap();
    }
    let arguments = ["leak", "no-leak.pkl", "oom.pkl"];
    fails_by_the_base(&checkout, "", &arguments);
    checkout.write("ptmem.toml", "allow-oom = true\n");
    passes_and_is_told(&checkout, "", &arguments, &["allow-oom is true, was false"]);
}

/// What honest changes do: they pass, and are told of only where the limits of the base would not let them.
#[test]
fn honest_changes_pass() {
    let rules = "[max-growth]\npeak = \"50%\"\n";
    for place in [".github/ptmem.toml", "conf/limits.toml"] {
        let checkout = grown(&[("ptmem.toml", rules)]);
        checkout.rename("ptmem.toml", place);
        let config = ["--config", place];
        let options = if place.starts_with('.') { &[] } else { &config[..] };
        let said = checkout.ptmem("", &[&DIFF, options].concat());
        assert_eq!((said.code, said.announce), (0, false), "{}", said.report);
        // The same, and with less strict limits.
        checkout.write(place, rules.replace("50", "90"));
        let said = checkout.ptmem("", &[&DIFF, options].concat());
        assert_eq!((said.code, said.announce), (0, false), "{}", said.report);
        checkout.git(&["reset", "--quiet", "--hard", "main"]);
        checkout.commit(&[("ptmem.toml", "[max-growth]\npeak = \"5%\"\n")]);
        checkout.git(&["branch", "--force", "main"]);
        checkout.rename("ptmem.toml", place);
        checkout.write(place, "[max-growth]\npeak = \"50%\"\n");
        passes_and_is_told(&checkout, "", &[&DIFF, options].concat(), &["max-growth.peak is \"50%\", was \"5%\""]);
    }
}

#[test]
fn a_function_and_its_pattern_are_renamed() {
    let checkout = Checkout::new(&[(
        "ptmem.toml",
        "[max-growth]\n\"stack:layer*\" = \"0\"\n\"phase:layer\" = \"0\"\n[max]\n\"stack:layer*\" = \"1GiB\"\n",
    )]);
    let wide = ["/ci/net/model.py:wide:4", LAYER[1]];
    checkout.record("before.pkl", &[(&wide, 10)]);
    checkout.record("after.pkl", &[(&wide, 10)]);
    checkout.write("ptmem.toml", "[max-growth]\n\"stack:wide*\" = \"0\"\n");
    let said = checkout.ptmem("", &DIFF);
    assert_eq!((said.code, said.announce), (0, false), "{}", said.report);
}

#[test]
fn rules_of_the_base_that_cannot_be_applied_are_told() {
    let gone = OF_SUITE.replace("two", "gone").replace("after = \"before.pkl\"", "after = \"gone.pkl\"");
    for (base, own, arguments, told) in [
        ("max-grwth = \"5%\"\n", "max-growth = \"50%\"\n", &DIFF, "ptmem.toml: line 1: unknown key 'max-grwth'"),
        (&*gone, &*OF_SUITE.replace("5%", "50%"), &SUITE, "comparison 'gone': gone.pkl: no such file"),
        ("", &*OF_SUITE.replace("5%", "50%"), &SUITE, "the configuration has no suite 'all'"),
    ] {
        let checkout = grown(&[("ptmem.toml", base)]);
        checkout.write("ptmem.toml", own);
        let said = checkout.ptmem("", arguments);
        assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
        let known = "whether this change loosens its own limits is not known";
        let report = said.report;
        assert!(report.contains(known) && report.contains(told), "{told}: {report}");
        // What can be compared is.
        assert_eq!(report.contains("of the base FAIL one: peak grew"), base == gone, "{report}");
    }
    // A file of the change alone, in a place that the base does not know.
    let checkout = grown(&[("model.py", "")]);
    checkout.write("conf/limits.toml", "max-growth = \"50%\"\n");
    let said = checkout.ptmem("", &[&DIFF[..], &["--config", "conf/limits.toml"]].concat());
    assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
    assert!(said.report.contains("it has no conf/limits.toml"), "{}", said.report);
}

#[test]
fn a_gate_of_a_workflow_that_is_edited_is_told() {
    let workflow = "on: pull_request\njobs:\n  memory:\n    steps:\n      - uses: owner/ptmem@v0\n        with:\n          max-growth: 5%\n";
    let path = ".github/workflows/memory.yml";
    for arguments in [&DIFF[..], &["check", "after.pkl", "--max", "1TiB"], &["leak", "before.pkl", "after.pkl"]] {
        let checkout = grown(&[(path, workflow)]);
        assert!(!checkout.ptmem("", arguments).announce);
        checkout.commit(&[(path, &workflow.replace("5%", "50%"))]);
        let said = checkout.ptmem("", arguments);
        assert!(
            said.announce && said.report.contains("'max-growth: 50%' instead of 'max-growth: 5%'"),
            "{}",
            said.report
        );
        // Another file for the same gate, and a newer version.
        checkout.git(&["mv", path, ".github/workflows/gates.yaml"]);
        checkout.commit(&[(".github/workflows/gates.yaml", &workflow.replace("v0", "v1"))]);
        let said = checkout.ptmem("", arguments);
        assert!(!said.announce, "{}", said.report);
    }
}

#[test]
fn a_stored_before_that_the_change_rewrites_is_told() {
    let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n")]);
    checkout.store("before.pkl", "stored.json");
    checkout.base();
    let diff = ["diff", "stored.json", "after.pkl"];
    fails_by_the_base(&checkout, "", &diff);
    checkout.store("after.pkl", "stored.json");
    let told = |report: &str| {
        report.contains("this change raises figures of stored.json without a reason: device 0 peak +10.00 MiB")
    };
    let said = checkout.ptmem("", &diff);
    assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
    let rewritten = "this change rewrites stored.json without a reason: with that of the base FAIL peak grew 10.00 MiB";
    assert!(said.report.contains(rewritten) && told(&said.report), "{}", said.report);
    // Within the limits, too: a before must not creep upwards.
    checkout.write("ptmem.toml", "max-growth = \"50%\"\n");
    checkout.git(&["commit", "--quiet", "--all", "--message", "raised"]);
    let said = checkout.ptmem("", &diff);
    assert!(said.announce && told(&said.report), "{}", said.report);
    assert!(said.report.contains("with ptmem.toml and stored.json of the base FAIL"), "{}", said.report);
    // With a reason, as --update keeps it, or back to lower figures: nothing to tell.
    checkout.git(&["checkout", "--quiet", "main", "--", "."]);
    let update = ["diff", "--update", "stored.json", "after.pkl", "--allow-raise", "worth it"];
    let output = checkout.command("").args(update).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = checkout.ptmem("", &diff);
    assert_eq!((said.code, said.announce), (0, false), "{}", said.report);
}

#[test]
fn a_stored_before_that_the_change_removes_is_that_of_the_base() {
    let of_suite = |name: &str, before: &str, after: &str| {
        format!(
            "[max-growth]\npeak = \"5%\"\n[[suite.all.compare]]\nname = \"{name}\"\nbefore = \"{before}\"\nafter = \"{after}\"\n"
        )
    };
    for (after, is_told) in [("after.pkl", true), ("before.pkl", false)] {
        let checkout = grown(&[("ptmem.toml", &of_suite("one", "stored.json", after))]);
        checkout.store("before.pkl", "stored.json");
        checkout.base();
        // The comparison has another name and another before.
        checkout.git(&["rm", "--quiet", "stored.json"]);
        checkout.store(after, "other.json");
        checkout.commit(&[("ptmem.toml", &of_suite("two", "other.json", after))]);
        let said = checkout.ptmem("", &SUITE);
        assert_eq!((said.code, said.announce), (0, is_told), "{}", said.report);
        let told = "with ptmem.toml and stored.json of the base FAIL one: peak grew 10.00 MiB";
        assert_eq!(said.report.contains(told), is_told, "{}", said.report);
    }
}

#[cfg(unix)]
#[test]
fn a_stored_before_that_other_paths_lead_to_is_that_of_the_base() {
    use std::os::unix::fs::symlink;
    type Change = fn(&Checkout);
    let changes: [Change; 4] = [
        // The folder becomes a link, the target of a link changes, a link gets another target.
        |checkout| {
            checkout.git(&["rm", "--quiet", "stored/a.json"]);
            checkout.store("after.pkl", "other/a.json");
            symlink("other", checkout.folder.path().join("stored")).unwrap();
        },
        |checkout| checkout.store("after.pkl", "v1/a.json"),
        |checkout| {
            fs::remove_file(checkout.folder.path().join("linked")).unwrap();
            symlink("v2", checkout.folder.path().join("linked")).unwrap();
        },
        // Git does not know the file that takes its place.
        |checkout| {
            checkout.git(&["rm", "--quiet", "stored/a.json"]);
            checkout.commit(&[(".gitignore", "stored\n")]);
            checkout.store("after.pkl", "stored/a.json");
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n")]);
        for (recording, path) in
            [("before.pkl", "stored/a.json"), ("before.pkl", "v1/a.json"), ("after.pkl", "v2/a.json")]
        {
            checkout.store(recording, path);
        }
        symlink("v1", checkout.folder.path().join("linked")).unwrap();
        checkout.base();
        let before = if [0, 3].contains(&number) { "stored/a.json" } else { "linked/a.json" };
        let diff = ["diff", before, "after.pkl"];
        fails_by_the_base(&checkout, "", &diff);
        change(&checkout);
        checkout.commit(&[]);
        let said = checkout.ptmem("", &diff);
        let told = format!("this change rewrites {before} without a reason: with that of the base FAIL");
        assert_eq!((said.code, said.announce), (0, true), "{number}: {}", said.report);
        assert!(said.report.contains(&told), "{number}: {}", said.report);
    }
}

#[test]
fn a_stored_rank_that_the_change_removes_is_told() {
    for before in ["stored", "stored/*.json"] {
        let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n")]);
        for rank in ["rank0", "rank1"] {
            checkout.store("before.pkl", &format!("stored/{rank}.json"));
        }
        checkout.store("before.pkl", "now/rank0.json");
        checkout.store("after.pkl", "now/rank1.json");
        checkout.base();
        let diff = ["diff", before, "now"];
        fails_by_the_base(&checkout, "", &diff);
        // A new name is nothing to tell.
        checkout.rename("stored/rank0.json", "stored/rank_0.json");
        checkout.git(&["rm", "--quiet", "stored/rank1.json", "now/rank1.json"]);
        let said = checkout.ptmem("", &diff);
        assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
        let told = format!("this change removes files of {before}: stored/rank1.json\"");
        assert!(said.report.contains(&told), "{}", said.report);
    }
}

#[test]
fn a_stored_before_of_ranks_that_the_change_rewrites_is_told() {
    let checkout = grown(&[("ptmem.toml", "max-growth = \"5%\"\n")]);
    for rank in ["rank0", "rank1"] {
        checkout.store("before.pkl", &format!("stored/{rank}.json"));
        let grown = if rank == "rank1" { "after.pkl" } else { "before.pkl" };
        checkout.store(grown, &format!("now/{rank}.json"));
    }
    checkout.base();
    let diff = ["diff", "stored", "now"];
    fails_by_the_base(&checkout, "", &diff);
    checkout.store("after.pkl", "stored/rank1.json");
    let said = checkout.ptmem("", &diff);
    assert_eq!((said.code, said.announce), (0, true), "{}", said.report);
    for told in [
        "this change rewrites stored without a reason: with that of the base FAIL",
        "this change raises figures of stored without a reason: rank 1: device 0 peak +10.00 MiB",
    ] {
        assert!(said.report.contains(told), "{told}: {}", said.report);
    }
    // One of them with a reason.
    checkout.git(&["checkout", "--quiet", "--", "stored"]);
    let update = ["diff", "--update", "stored/rank1.json", "after.pkl", "--allow-raise", "worth it"];
    assert!(checkout.command("").args(update).output().unwrap().status.success());
    let said = checkout.ptmem("", &diff);
    assert_eq!((said.code, said.announce), (0, false), "{}", said.report);
}
