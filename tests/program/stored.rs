//! The stored before, and reports in files.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

use crate::support::history::{A, MIB, event, file, frames, free, segment};
use crate::support::tool::{judged, text, verdict, verdict_line};

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in ["before", "after", "moved", "oom"] {
        fs::copy(fixtures.join(format!("{name}.pkl")), folder.path().join(format!("{name}.pkl"))).unwrap();
    }
    folder
}

/// The program in a folder, without the variables of this machine.
fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder).env_clear();
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

fn succeeds(folder: &Path, arguments: &[&str]) -> Output {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_profile_is_printed_or_written() {
    let folder = folder();
    let printed = succeeds(folder.path(), &["profile", "before.pkl"]).stdout;
    let written = succeeds(folder.path(), &["profile", "before.pkl", "-o", "base.json"]);
    assert!(written.stdout.is_empty() && stderr(&written).contains("note: base.json: wrote "), "{}", stderr(&written));
    assert_eq!(fs::read(folder.path().join("base.json")).unwrap(), printed);
    // It replaces itself as well as it is read.
    succeeds(folder.path(), &["profile", "base.json", "-o", "base.json"]);
    assert_eq!(fs::read(folder.path().join("base.json")).unwrap(), printed);
    for command in [&["show", "base.json"][..], &["check", "base.json", "--max", "peak=1GiB"]] {
        let shown = String::from_utf8(succeeds(folder.path(), command).stdout).unwrap();
        assert!(shown.contains("280.14 MiB"), "{shown}");
    }
    let at = run(folder.path(), &["show", "base.json", "--at", "time:0.001"]);
    assert_eq!(at.status.code(), Some(2));
    assert!(stderr(&at).contains("base.json: a saved profile keeps the times of few events"), "{}", stderr(&at));
}

/// A gate that compares files with a stored before.
fn gate(folder: &Path, before: &str, after: &str, rules: &str) {
    let text = format!("[gate.stored]\nbefore = \"{before}\"\nafter = \"{after}\"\n{rules}");
    fs::write(folder.join("ptmem.toml"), text).unwrap();
}

#[test]
fn an_improvement_is_reported_with_the_command_that_records_it() {
    let folder = folder();
    succeeds(folder.path(), &["profile", "after.pkl", "-o", "the base.json"]);
    gate(folder.path(), "the base.json", "before.pkl", "");
    let better = succeeds(folder.path(), &["gate"]);
    let shown = String::from_utf8(better.stdout).unwrap().replace("\n  ", " ");
    assert!(shown.contains("note[improved]") && shown.contains("ptmem gate stored --update"), "{shown}");
    succeeds(folder.path(), &["gate", "stored", "--update"]);
    // Not where the before is a snapshot, which is not kept, and not where nothing improved.
    for [before, after] in [["after.pkl", "before.pkl"], ["the base.json", "before.pkl"]] {
        gate(folder.path(), before, after, "");
        let shown = String::from_utf8(succeeds(folder.path(), &["gate"]).stdout).unwrap();
        assert!(!shown.contains("improved"), "{shown}");
    }
}

#[test]
fn an_improvement_beyond_a_limit_on_both_sides_fails_until_it_is_recorded() {
    let folder = folder();
    succeeds(folder.path(), &["profile", "after.pkl", "-o", "base.json"]);
    gate(folder.path(), "base.json", "before.pkl", "max-growth = \"±5%\"");
    let improved = "peak improved by 53.80 MiB (-16.1 %), allowed ±5 %: update the before";
    for format in ["table", "markdown", "html", "junit", "sarif", "github", "gitlab", "brief"] {
        let output = run(folder.path(), &["gate", "--format", format]);
        assert_eq!(output.status.code(), Some(1), "{format}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.replace("\n  ", " ").replace("%25", "%").contains(improved), "{format}: {shown}");
        assert!(!shown.contains("--allow-raise"), "{format}: {shown}");
    }
    let shown = String::from_utf8(run(folder.path(), &["gate"]).stdout).unwrap();
    assert!(shown.contains("to accept it for good, record it as the new before:\n  ptmem gate stored --update\n"));
    let output = succeeds(folder.path(), &["gate", "--update"]);
    assert!(stderr(&output).contains("base.json updated: device 0 peak -53.80 MiB (-16.1 %)"), "{}", stderr(&output));
    succeeds(folder.path(), &["gate"]);
    // Growth is worded, and recorded, as with other limits.
    gate(folder.path(), "base.json", "after.pkl", "max-growth = [\"+-5%\"]");
    let output = run(folder.path(), &["gate", "--update"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("To accept the growth: --allow-raise"), "{}", stderr(&output));
    let shown = String::from_utf8(run(folder.path(), &["gate"]).stdout).unwrap();
    assert!(shown.contains("FAIL peak grew 53.80 MiB (+19.2 %), allowed ±5 %"), "{shown}");
}

#[test]
fn an_improvement_can_be_accepted() {
    let folder = folder();
    let accept = "[[accept]]\nmetric = \"peak\"\nbytes = \"60MiB\"\nreason = \"x\"\nexpires = 9999-12-31\n";
    fs::write(folder.path().join("ptmem.toml"), accept).unwrap();
    succeeds(folder.path(), &["diff", "after.pkl", "before.pkl", "--max-growth", "±5%"]);
    // The edit that growth leads to is not that of an improvement, nor do stacks lower the peak by growth.
    fs::write(folder.path().join("ptmem.toml"), accept.replace("metric = \"peak\"", "pattern = \"*\"")).unwrap();
    let output = run(folder.path(), &["diff", "after.pkl", "before.pkl", "--max-growth", "+-5%"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_run_that_runs_out_of_memory_is_recorded_as_the_report_says() {
    let folder = folder();
    let fails = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/recorded/out-of-memory-2.15.0.pkl.zst");
    succeeds(folder.path(), &["profile", "before.pkl", "-o", "base.json"]);
    gate(folder.path(), "base.json", fails, "");
    let update = || run(folder.path(), &["gate", "--update", "--allow-raise", "why not"]);
    let said = stderr(&update());
    let (_, way) = said.trim_end().split_once("To record the after in any case: ptmem ").unwrap();
    succeeds(folder.path(), &way.split(' ').collect::<Vec<_>>());
    let shown = String::from_utf8(succeeds(folder.path(), &["show", "base.json"]).stdout).unwrap();
    assert!(shown.contains("out of memory"), "{shown}");
}

#[test]
fn the_stored_before_only_falls_unless_a_reason_is_given() {
    let folder = folder();
    let path = folder.path().join("base.json");
    succeeds(folder.path(), &["profile", "after.pkl", "-o", "base.json"]);
    let high = fs::read_to_string(&path).unwrap();
    let update = |after: &str, rules: &str, reason: &[&str]| {
        gate(folder.path(), "base.json", after, rules);
        let output = run(folder.path(), &[&["gate", "stored", "--update"], reason].concat());
        let code = output.status.code().unwrap();
        (judged((code, stderr(&output))), fs::read_to_string(&path).unwrap())
    };
    let (said, low) = update("before.pkl", "", &[]);
    assert_reads!(said => str!["0: note: base.json updated: device 0 peak -53.80 MiB (-16.1 %), device 0 end -1.77 MiB (-1.4 %), device 0 active -53.80 MiB (-16.1 %), device 0 requested -51.50 MiB (-15.6 %), device 0 reserved -68.00 MiB (-18.2 %), device 0 reserved-end -68.00 MiB (-18.2 %), device 0 fragmentation -67.47 MiB (-34.7 %)"]);
    assert_ne!(low, high);
    assert!(low.contains("\"raises\": []"));
    // Within the limit, but higher.
    let (said, now) = update("after.pkl", "max-growth = \"30%\"", &[]);
    assert_reads!(said => str!["0: note: base.json stays as it is: figures do not improve (device 0 peak +53.80 MiB (+19.2 %), device 0 end +1.77 MiB (+1.4 %), device 0 active +53.80 MiB (+19.2 %), device 0 requested +51.50 MiB (+18.5 %), device 0 reserved +68.00 MiB (+22.2 %), device 0 reserved-end +68.00 MiB (+22.2 %), device 0 fragmentation +67.47 MiB (+53.2 %)). To record them: --allow-raise REASON"]);
    assert_eq!(now, low);
    // A regression, without a reason, and with one beyond an absolute limit.
    let (said, now) = update("after.pkl", "", &[]);
    assert_reads!(said => str!["1: note: base.json stays as it is: the verdict is regression. To accept the growth: --allow-raise REASON"]);
    assert_eq!(now, low);
    let reason = ["--allow-raise", "why not"];
    let (said, now) = update("after.pkl", "max = \"1MiB\"", &reason);
    assert_reads!(said => str!["1: note: base.json stays as it is: the verdict is regression. To record the after in any case: ptmem profile after.pkl -o base.json"]);
    assert_eq!(now, low);
    let (said, now) = update("after.pkl", "", &reason);
    assert_reads!(said => str!["0: note: base.json updated: device 0 peak +53.80 MiB (+19.2 %), device 0 end +1.77 MiB (+1.4 %), device 0 active +53.80 MiB (+19.2 %), device 0 requested +51.50 MiB (+18.5 %), device 0 reserved +68.00 MiB (+22.2 %), device 0 reserved-end +68.00 MiB (+22.2 %), device 0 fragmentation +67.47 MiB (+53.2 %)"]);
    assert!(now.contains("\"reason\":\"why not\""));
    fs::write(&path, &low).unwrap();
    let (_, raised) = update("after.pkl", "max-growth = \"30%\"", &["--allow-raise", "a \"larger\" model"]);
    assert!(
        raised.contains("\"reason\":\"a \\\"larger\\\" model\",\"changes\":[\"device 0 peak +53.80 MiB (+19.2 %)\"")
    );
    let (said, now) = update("after.pkl", "", &[]);
    assert_reads!(said => str!["0: note: base.json stays as it is: nothing has changed"]);
    assert_eq!(now, raised);
    // The reason stays when figures fall again.
    assert!(update("before.pkl", "", &[]).1.contains("larger"));
}

/// A program whose evaluation needs this many MiB, less than its steps do.
fn evaluating(mib: u64) -> Vec<u8> {
    let needing = |function: &str, size: u64| {
        let alloc = event("alloc", A, size).with("frames", frames(function));
        [vec![alloc], free(A, size).to_vec()].concat()
    };
    let events =
        [vec![event("segment_alloc", A, 200 * MIB)], needing("step", 200 * MIB), needing("evaluate", mib * MIB)];
    file(vec![segment(A, &[(200 * MIB, false)])], events.concat())
}

#[test]
fn a_stack_that_rises_below_the_peak_is_recorded() {
    let folder = folder();
    for (name, mib) in [("low.pkl", 30), ("high.pkl", 150)] {
        fs::write(folder.path().join(name), evaluating(mib)).unwrap();
    }
    succeeds(folder.path(), &["profile", "low.pkl", "-o", "base.json"]);
    gate(folder.path(), "base.json", "high.pkl", "max-growth = { stack-highest = \"1MiB\" }");
    assert_reads!(judged(verdict(&run(folder.path(), &["gate"]))) => str!["1: FAIL the most held by stack evaluate (train.py:7) grew 120.00 MiB (+400.0 %), allowed 1.00 MiB"]);
    let output = succeeds(folder.path(), &["gate", "stored", "--update", "--allow-raise", "why not"]);
    assert_reads!(stderr(&output) => str!["note: base.json updated: device 0 the most held by stack evaluate (train.py:7) +120.00 MiB"]);
    assert!(fs::read_to_string(folder.path().join("base.json")).unwrap().contains("\"reason\":\"why not\""));
    succeeds(folder.path(), &["gate"]);
    // Without a limit, it is a change of stacks.
    gate(folder.path(), "base.json", "low.pkl", "");
    let output = succeeds(folder.path(), &["gate", "stored", "--update"]);
    assert_reads!(stderr(&output) => str!["note: base.json updated: only stacks changed"]);
}

#[test]
fn what_a_server_states_is_recorded() {
    let folder = folder();
    let log = |tokens, weights| {
        format!("INFO model.py] Model loading took {weights} GiB memory\nINFO: GPU KV cache size: {tokens} tokens\n")
    };
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("a.log", log("60,000", "3.0"));
    let limits = "max-growth = { kv-cache-tokens = \"±5%\", weights = \"±1%\" }";
    gate(folder.path(), "b.log", "a.log", limits);
    let update = |more: &[&str]| {
        write("b.log", log("100,000", "2.5"));
        let output = run(folder.path(), &[&["gate", "stored", "--update"], more].concat());
        judged((output.status.code().unwrap(), stderr(&output)))
    };
    assert_reads!(update(&[]) => str!["1: note: b.log stays as it is: the verdict is regression. To accept the growth: --allow-raise REASON"]);
    assert_reads!(update(&["--allow-raise", "why not"]) => str!["0: note: b.log updated: kv-cache-tokens 100,000 tokens -> 60,000 tokens, weights 2.50 GiB -> 3.00 GiB"]);
    succeeds(folder.path(), &["gate"]);
    // More room and smaller weights are improvements.
    write("a.log", log("120,000", "2.0"));
    write("b.log", log("100,000", "2.5"));
    assert_reads!(judged(verdict(&run(folder.path(), &["gate"]))) => str!["1: FAIL weights shrank from 2.50 GiB to 2.00 GiB (-20.0 %, line 1 of the output), allowed ±1 %: update the before; 1 more check fails"]);
    assert_reads!(update(&[]) => str!["0: note: b.log updated: kv-cache-tokens 100,000 tokens -> 120,000 tokens, weights 2.50 GiB -> 2.00 GiB"]);
    // Tokens alone, of which there may be more or fewer.
    gate(folder.path(), "b.log", "a.log", "max-growth = { kv-cache-tokens = \"5%\" }");
    write("a.log", log("120,000", "2.5"));
    write("b.log", log("100,000", "2.5"));
    let output = succeeds(folder.path(), &["gate"]);
    assert!(
        text(&output.stdout)
            .contains("better than the stored before: kv-cache-tokens 100,000 tokens -> 120,000 tokens. Record it"),
        "{output:?}"
    );
    write("a.log", log("99,999", "2.5"));
    assert_reads!(update(&[]) => str!["0: note: b.log stays as it is: figures do not improve (kv-cache-tokens 100,000 tokens -> 99,999 tokens). To record them: --allow-raise REASON"]);
}

#[test]
fn what_is_no_stored_before_is_not_updated() {
    let folder = folder();
    succeeds(folder.path(), &["profile", "before.pkl", "-o", "base.json"]);
    for (before, arguments, expected) in [
        ("before.pkl", &["gate", "--update"][..], "is not a saved profile"),
        ("nope.json", &["gate"], "ptmem profile after.pkl -o nope.json"),
        ("base.json", &["gate", "--update", "--device", "0"], "cannot be used with"),
        ("base.json", &["gate", "--update", "--allow-raise"], "a value is required"),
        ("base.json", &["gate", "--update", "--allow-raise", " "], "expected a reason in words"),
        ("base.json", &["gate", "--allow-raise", "x"], "--update"),
        ("base.json", &["diff", "--update", "base.json", "after.pkl"], "--update is an option of 'ptmem gate'"),
    ] {
        gate(folder.path(), before, "after.pkl", "");
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn words_of_other_tools_lead_to_the_right_command() {
    let folder = folder();
    for (arguments, hint) in [
        (&["before.pkl", "after.pkl"][..], "note: to compare two snapshots: ptmem diff before.pkl after.pkl"),
        (&["before.pkl"], "note: to look at a snapshot: ptmem show before.pkl"),
        (&["compare", "a", "b"], "note: to compare two snapshots: ptmem diff BEFORE AFTER"),
        (&["diff", "before.pkl", "after.pkl", "--threshold", "5%"], "--max-growth 5%"),
        (&["show", "before.pkl", "--json"], "--format json"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
    }
    let output = run(folder.path(), &["nothing"]);
    assert!(!stderr(&output).contains("note: "), "{}", stderr(&output));
}

#[test]
fn options_of_the_tree_show_one_and_md_is_markdown() {
    let folder = folder();
    let tree = succeeds(folder.path(), &["show", "before.pkl", "--tree", "--focus", "attention"]).stdout;
    assert_eq!(succeeds(folder.path(), &["show", "before.pkl", "--focus", "attention"]).stdout, tree);
    let long = succeeds(folder.path(), &["show", "before.pkl", "--format", "markdown", "--export", "md=a.md"]).stdout;
    assert_eq!(succeeds(folder.path(), &["show", "before.pkl", "--format", "md"]).stdout, long);
    assert_eq!(fs::read(folder.path().join("a.md")).unwrap(), long);
    assert_ne!(
        run(folder.path(), &["diff", "before.pkl", "after.pkl", "--explain", "--focus", "a"]).status.code(),
        Some(0)
    );
}

#[test]
fn a_failing_report_ends_with_what_accepts_the_growth() {
    let folder = folder();
    succeeds(folder.path(), &["profile", "before.pkl", "-o", "base.json"]);
    gate(folder.path(), "base.json", "after.pkl", "max-growth = [\"5%\", \"stack=1MiB\"]\n");
    let judged = |format: &str| {
        let arguments = ["gate", "--format", format];
        let output = command(folder.path()).args(arguments).env("PTMEM_TODAY", "2026-11-21").output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    for format in ["table", "markdown"] {
        let (code, report) = judged(format);
        assert_eq!(code, 1);
        let update = "ptmem gate stored --update --allow-raise \"why it is worth it\"";
        assert!(report.contains(update), "{report}");
    }
    // Pasted as it is, the block is enough; the day after, it is no longer.
    let (_, report) = judged("markdown");
    let block = report.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    // The growth of the stack is that of the peak: one entry covers both.
    assert!(block.contains("expires = 2026-12-05") && block.contains("pattern = \"attention"), "{block}");
    assert!(block.matches("[[accept]]").count() == 1 && block.contains("metric = \"peak\""), "{block}");
    let limits = fs::read_to_string(folder.path().join("ptmem.toml")).unwrap();
    fs::write(folder.path().join("ptmem.toml"), limits + block).unwrap();
    assert_eq!(judged("table").0, 0, "{}", judged("table").1);
    let mut late = command(folder.path());
    late.arg("gate").env("PTMEM_TODAY", "2026-12-06");
    assert_eq!(late.output().unwrap().status.code(), Some(1));
    // Nothing of it where nothing fails, or where nothing is to be accepted.
    let pass = String::from_utf8(succeeds(folder.path(), &["diff", "after.pkl", "before.pkl"]).stdout).unwrap();
    assert!(!pass.contains("[[accept]]"), "{pass}");
    fs::write(folder.path().join("ptmem.toml"), "max-growth = \"5%\"\naccept = []\n").unwrap();
    let fails = run(folder.path(), &["diff", "before.pkl", "after.pkl"]);
    assert!(fails.status.code() == Some(1) && !String::from_utf8_lossy(&fails.stdout).contains("ptmem.toml"));
}

#[test]
fn several_reports_come_from_one_run() {
    let folder = folder();
    let formats = ["table", "json", "markdown", "github", "junit", "sarif", "csv", "github-output"];
    let mut arguments: Vec<String> =
        ["diff", "before.pkl", "after.pkl", "--max-growth", "5%", "--color", "always"].map(str::to_owned).to_vec();
    for format in formats {
        arguments.extend(["--export".to_owned(), format!("{format}=out.{format}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for format in formats {
        let file = fs::read_to_string(folder.path().join(format!("out.{format}"))).unwrap();
        let alone = run(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "5%", "--format", format]);
        let printed = String::from_utf8(alone.stdout).unwrap();
        // The terminal is as wide for both; a file has no colours.
        assert_eq!(file, printed, "{format}");
        assert!(!file.is_empty() && !file.contains('\u{1b}'), "{format}");
    }
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = folder();
    let before = names(folder.path());
    for (export, expected) in [
        ("json=no/such/folder/x.json", "there is no folder no/such/folder"),
        ("json=.", "is a directory"),
        ("json=before.pkl", "before.pkl: is an input"),
        ("json=./after.pkl", "./after.pkl: is an input"),
        ("jsn=x.json", "unknown format 'jsn'"),
        ("json", "expected FORMAT=PATH"),
        ("json=", "expected FORMAT=PATH"),
    ] {
        let output = run(folder.path(), &["diff", "before.pkl", "after.pkl", "--export", export]);
        assert_eq!(output.status.code(), Some(2), "{export}");
        assert!(stderr(&output).contains(expected), "{export}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{export}");
        assert_eq!(names(folder.path()), before, "{export}");
    }
    for (path, expected) in [("no/such/folder/x.json", "there is no folder"), ("before.pkl", "is the snapshot itself")]
    {
        let output = run(folder.path(), &["profile", "before.pkl", "-o", path]);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let twice = ["diff", "before.pkl", "after.pkl", "--export", "json=x", "--export", "csv=x"];
    assert!(stderr(&run(folder.path(), &twice)).contains("x: is the file of two exports"));
    assert_eq!(names(folder.path()), before);
    // An input that cannot be read leaves an older report as it was.
    fs::write(folder.path().join("report.json"), "old").unwrap();
    let output = run(folder.path(), &["diff", "before.pkl", "nope.pkl", "--export", "json=report.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path().join("report.json")).unwrap(), "old");
}

#[cfg(unix)]
#[test]
fn links_of_a_checkout_are_refused_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("real.json"), "old").unwrap();
    fs::set_permissions(path("real.json"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.json", path("link.json")).unwrap();
    symlink(".", path("linked")).unwrap();
    symlink("/dev/null", path("device.json")).unwrap();
    symlink("gone.json", path("gone-link.json")).unwrap();
    for linked in ["link.json", "linked/new.json", "device.json", "gone-link.json"] {
        for option in [
            &["profile", "before.pkl", "-o", linked][..],
            &["show", "before.pkl", "--export", &format!("json={linked}")],
        ] {
            let output = run(folder.path(), option);
            assert_eq!(output.status.code(), Some(2), "{option:?}");
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains(" is a link, and may lead to any file"), "{error}");
        }
    }
    assert_eq!(fs::read_to_string(path("real.json")).unwrap(), "old");
    assert!(!path("new.json").exists() && !path("gone.json").exists());
    // Elsewhere, links are the user's own.
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.json");
    symlink(path("real.json"), &link).unwrap();
    succeeds(folder.path(), &["profile", "before.pkl", "-o", link.to_str().unwrap()]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(path("real.json")).unwrap().starts_with('{'));
    assert_eq!(fs::metadata(path("real.json")).unwrap().permissions().mode() & 0o777, 0o640);
    let device = succeeds(folder.path(), &["show", "before.pkl", "--export", "github-output=/dev/stdout"]);
    assert!(String::from_utf8(device.stdout).unwrap().starts_with("verdict=none\n"));
}

#[test]
fn when_memory_ran_out_is_kept_without_being_asked_for() {
    let folder = folder();
    let diff = |arguments: &[&str]| {
        let output = run(folder.path(), &[&["diff"], arguments].concat());
        let line = verdict_line(&String::from_utf8(output.stdout).unwrap());
        (output.status.code().unwrap(), line + &String::from_utf8(output.stderr).unwrap())
    };
    succeeds(folder.path(), &["profile", "oom.pkl", "-o", "oom.json"]);
    succeeds(folder.path(), &["show", "oom.json", "--at", "event:900"]);
    fs::write(folder.path().join("oom.toml"), "allow-oom = true\n").unwrap();
    for limit in ["stack=0", "peak=0"] {
        for after in ["oom.pkl", "oom.json"] {
            let allowing = ["oom.json", after, "--at", "oom", "--config", "oom.toml", "--max-growth", limit];
            assert_eq!(diff(&allowing).0, 0, "{limit}");
        }
    }
    assert_reads!(judged(diff(&["oom.json", "after.pkl", "--at", "oom"])) => str!["2: error: after.pkl: no device has the moment 'oom' (--at); memory did not run out"]);
}

#[test]
fn the_same_file_on_both_sides_is_remarked() {
    let folder = folder();
    let output = succeeds(folder.path(), &["diff", "before.pkl", "./before.pkl", "--max-growth", "0"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("warning[same-input]"));
    // Nothing about it is in doubt.
    succeeds(folder.path(), &["diff", "before.pkl", "before.pkl", "--max-growth", "0", "--strict"]);
}
