//! The configuration file, gates of files, and growth that was agreed to.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::tool::{judged, proposed, ptmem, text, verdict};
use tempfile::TempDir;

/// The verdict on the fixtures where no limit holds.
const UNGATED: &str = "PASS nothing was gated (no limit was given): peak grew 53.80 MiB (+19.2 %), most by attention \
                       (model.py:40) aten::_softmax (+53.74 MiB)";

/// A folder with some of the fixtures.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in ["before", "after", "moved", "two-devices-before", "two-devices-after", "state-only"] {
        fs::copy(fixtures.join(format!("{name}.pkl")), folder.path().join(format!("{name}.pkl"))).unwrap();
    }
    folder
}

const DIFF: [&str; 3] = ["diff", "before.pkl", "after.pkl"];

#[test]
fn limits_come_from_the_file_and_flags_win() {
    let folder = folder();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    assert_eq!(verdict(&ptmem(folder.path(), &DIFF)).1, UNGATED);
    at(".github/ptmem.toml", "max-growth = \"5%\"\n");
    let fails = (
        1,
        "FAIL peak grew 53.80 MiB (+19.2 %), allowed 5 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB)"
            .to_owned(),
    );
    assert_eq!(verdict(&ptmem(folder.path(), &DIFF)), fails);
    // The one in the working directory comes first.
    at("ptmem.toml", "[max-growth]\npeak = \"30%\"\nend = \"1%\"\n");
    let end = "FAIL end grew 1.77 MiB (+1.4 %), allowed 1 % (largest growth there: backward: AddmmBackward0 (aten::mm) +1.77 MiB)";
    let end = (1, end.to_owned());
    assert_eq!(verdict(&ptmem(folder.path(), &DIFF)), end);
    // A flag takes the place of the same limit, and of no other.
    let flags = |more: &[&str]| verdict(&ptmem(folder.path(), &[&DIFF[..], more].concat()));
    assert_eq!(flags(&["--max-growth", "end=2%"]).0, 0);
    assert_eq!(
        flags(&["--max-growth", "1%"]).1,
        "FAIL peak grew 53.80 MiB (+19.2 %), allowed 1 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB); 1 more check fails"
    );
    assert_eq!(flags(&["--config", "none"]).1, UNGATED);
    assert_eq!(flags(&["--config", ".github/ptmem.toml"]), fails);
    // One snapshot takes absolute limits from it.
    at("ptmem.toml", "max-growth = \"0\"\n[max]\nreserved = \"300MiB\"\n");
    let check = ptmem(folder.path(), &["check", "before.pkl"]);
    assert_eq!(verdict(&check), (1, "FAIL reserved is 306.00 MiB, allowed 300.00 MiB".to_owned()));
    let check = ptmem(folder.path(), &["check", "before.pkl", "--max", "reserved=400MiB"]);
    assert_eq!(verdict(&check).0, 0);
}

#[test]
fn a_configuration_that_means_nothing_is_an_error() {
    let folder = folder();
    for (config, expected) in [
        ("max-grwth = \"5%\"", "ptmem.toml: line 1: unknown key 'max-grwth', expected one of"),
        ("max-grwth = \"5%\"", "did you mean 'max-growth'?"),
        ("[max-growth]\npaek = \"5%\"", "did you mean 'peak'?"),
        ("this is no TOML", "ptmem.toml: line 1"),
        ("\u{0}", "ptmem.toml: line 1"),
    ] {
        fs::write(folder.path().join("ptmem.toml"), config).unwrap();
        for command in [&DIFF[..], &["show", "before.pkl"], &["check", "before.pkl"], &["profile", "before.pkl"]] {
            let output = ptmem(folder.path(), command);
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{config}: {stderr}");
            assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{config}: {stderr}");
            assert!(output.stdout.is_empty());
        }
    }
    let missing = ptmem(folder.path(), &[&DIFF[..], &["--config", "nope.toml"]].concat());
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("nope.toml: no such file"));
    fs::write(folder.path().join("ptmem.toml"), [0xff, 0xfe, 0x00]).unwrap();
    assert!(text(&ptmem(folder.path(), &DIFF).stderr).contains("is not text"));
}

#[test]
fn a_configuration_that_cannot_be_read_is_not_ignored() {
    let folder = folder();
    fs::create_dir(folder.path().join("ptmem.toml")).unwrap();
    let output = ptmem(folder.path(), &DIFF);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("ptmem.toml: is a directory"), "{}", text(&output.stderr));
    fs::remove_dir(folder.path().join("ptmem.toml")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/no/such/ptmem.toml", folder.path().join("ptmem.toml")).unwrap();
        assert_eq!(ptmem(folder.path(), &DIFF).status.code(), Some(2));
    }
}

#[test]
fn a_gate_without_a_limit_allows_five_percent() {
    let folder = folder();
    let gate = "[gate.one]\nbefore = \"before.pkl\"\nafter = \"after.pkl\"\n";
    fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
    let fails =
        "FAIL peak grew 53.80 MiB (+19.2 %), allowed 5 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB)";
    assert_eq!(verdict(&ptmem(folder.path(), &["gate"])), (1, fails.to_owned()));
}

#[test]
fn a_pattern_finds_a_stack_by_its_name_on_either_side() {
    let folder = folder();
    // The line of the before, which the after has moved, and another line of the same row.
    for pattern in
        ["stack:attention (model.py:39)*=0", "stack:attention (model.py:40)*=0", "stack:attention (model.py:41)*=0"]
    {
        let output = ptmem(folder.path(), &[&DIFF[..], &["--max-growth", pattern]].concat());
        assert_eq!(output.status.code(), Some(1), "{pattern}: {}", text(&output.stdout));
    }
    let output = ptmem(folder.path(), &[&DIFF[..], &["--max-growth", "stack:attention (model.py:43)*=0"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
}

#[test]
fn warnings_alone_are_inconclusive_where_nothing_can_be_told_strictly() {
    let folder = folder();
    let warn = ["diff", "before.pkl", "state-only.pkl", "--warn-growth", "1%"];
    assert_eq!(ptmem(folder.path(), &warn).status.code(), Some(0));
    assert_eq!(ptmem(folder.path(), &[&warn[..], &["--strict"]].concat()).status.code(), Some(3));
}

#[test]
fn gates_have_one_verdict() {
    let folder = folder();
    let config = |more: &str| {
        let text = format!(
            "max-growth = \"30%\"\nmin-delta = \"4MiB\"\n\
             [gate.one]\nbefore = \"before.pkl\"\nafter = \"after.pkl\"\n\
             [gate.two]\nbefore = \"two-devices-before.pkl\"\nafter = \"two-devices-after.pkl\"\n{more}"
        );
        fs::write(folder.path().join("ptmem.toml"), text).unwrap();
    };
    let gate = |more: &[&str]| ptmem(folder.path(), &[&["gate"], more].concat());
    config("");
    let fails = "FAIL two: device 1: peak grew 41.10 MiB (+61.7 %), allowed 30 %, most by train_step (train.py:26) \
                 aten::_to_copy (+16.00 MiB)";
    assert_eq!(verdict(&gate(&[])), (1, fails.to_owned()));
    config("max-growth = \"70%\"\n");
    let passes = "PASS all 2 comparisons; most on one: peak grew 53.80 MiB (+19.2 %), \
                  allowed 30 %";
    assert_eq!(verdict(&gate(&[])), (0, passes.to_owned()));
    assert_eq!(verdict(&gate(&["--max-growth", "1%"])).0, 1, "flags win over all of them");
    // A pass does not hide an inconclusive check, and that does not hide a failure.
    let third = "max-growth = \"70%\"\n[gate.three]\nbefore = \"before.pkl\"\nafter = \"state-only.pkl\"\n";
    config(third);
    let (code, line) = verdict(&gate(&[]));
    assert_eq!((code, line.starts_with("INCONCLUSIVE three: ")), (3, true), "{line}");
    config(&third.replace("70%", "60%"));
    assert_eq!(verdict(&gate(&[])).0, 1);
    assert_eq!(verdict(&gate(&["--exit-zero"])).0, 0);
    let json = gate(&["--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["schema"], "ptmem.suite/1");
    assert_eq!(report["verdict"], "regression");
    let names: Vec<_> = report["comparisons"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["one", "three", "two"]);
    // A file that is missing is an error, not a comparison less.
    fs::remove_file(folder.path().join("after.pkl")).unwrap();
    let output = gate(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("comparison 'one': after.pkl: no such file"), "{}", text(&output.stderr));
}

/// Where gates have reports of their own, the last line has the verdict and the gate that decides it.
#[test]
fn the_last_line_names_the_gate_that_decides() {
    let folder = folder();
    let series = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/leak-series");
    let gates = |limit: &str, leak: &str| {
        let text = format!(
            "[gate.files]\nbefore = 'before.pkl'\nafter = 'after.pkl'\nmax-growth = '{limit}'\n\
             [gate.nightly]\nleak = '{leak}'\ndevice-memory = '1GiB'\ndevice-overhead = '1MiB'\n"
        );
        fs::write(folder.path().join("ptmem.toml"), text).unwrap();
        let output = text_of(&ptmem(folder.path(), &["gate"]));
        output.trim_end().lines().last().unwrap_or_default().to_owned()
    };
    let leaks = series.display().to_string();
    assert_reads!(gates("30%", &leaks) => str!["FAIL nightly: train_step (train.py:30) (+1 more line) grows 850.00 KiB per snapshot, 2 of 2 times, allowed 0 B per snapshot"]);
    assert_reads!(gates("5%", &leaks) => str!["FAIL files: peak grew 53.80 MiB (+19.2 %), allowed 5 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB)"]);
    assert_reads!(gates("30%", "before.pkl") => str!["INCONCLUSIVE nightly: leak: no steps were found in the history: it seems to be shorter than a few steps; record more. Annotate the steps (torch.profiler.record_function), or give two or more snapshots; --step finds steps by the names of annotations"]);
    // Of the memory of the device, nothing is known.
    let text = "[gate.nightly]\nleak = 'before.pkl'\ndevice-overhead = '1MiB'\n";
    fs::write(folder.path().join("ptmem.toml"), text).unwrap();
    assert_reads!(text_of(&ptmem(folder.path(), &["gate"])) => str!["error: [gate.nightly] has 'device-overhead', which a search for leaks uses only with 'device-memory'"]);
    assert_eq!(ptmem(folder.path(), &["gate", "--device-memory", "1GiB"]).status.code(), Some(3));
}

/// The report, or the error where there is none.
fn text_of(output: &Output) -> String {
    text(if output.stdout.is_empty() { &output.stderr } else { &output.stdout })
}

#[test]
fn growth_may_be_accepted_until_a_day() {
    let folder = folder();
    let run = |accept: &str, more: &[&str]| {
        fs::write(folder.path().join("ptmem.toml"), format!("max-growth = \"5%\"\n{accept}")).unwrap();
        ptmem(folder.path(), &[&DIFF[..], more].concat())
    };
    let accept = |pattern: &str, bytes: &str, expires: &str| {
        format!("[[accept]]\n{pattern}\nbytes = \"{bytes}\"\nreason = \"a longer context\"\nexpires = {expires}\n")
    };
    let attention = "pattern = \"attention (model.py*\"";
    // 53.80 MiB of growth, of which 14.01 MiB are allowed and 53.74 MiB are attention's.
    let output = run(&accept(attention, "40MiB", "2027-01-15"), &[]);
    let expected =
        "PASS peak grew 53.80 MiB (+19.2 %), allowed 5 % (39.79 MiB accepted until 2027-01-15: a longer context)";
    assert_eq!(verdict(&output), (0, expected.to_owned()));
    assert!(!text(&output.stdout).contains("note[accepted-growth]"), "{}", text(&output.stdout));
    // A long reason is in a line of its own.
    let long = accept(attention, "40MiB", "2027-01-15").replace("a longer context", &"longer contexts ".repeat(10));
    assert_reads!(judged(verdict(&run(&long, &[]))) => str!["0: PASS peak grew 53.80 MiB (+19.2 %), allowed 5 %, accepted"]);
    let all = run(&accept(attention, "40MiB", "2027-01-15"), &["-v"]);
    assert!(text(&all.stdout).contains("note[accepted-growth]"), "{}", text(&all.stdout));
    let report: serde_json::Value =
        serde_json::from_slice(&run(&accept(attention, "40MiB", "2027-01-15"), &["--format", "json"]).stdout).unwrap();
    assert_eq!(report["checks"][0]["accepted"], true);
    // Too little, too late, something else.
    assert_eq!(verdict(&run(&accept(attention, "39MiB", "2027-01-15"), &[])).0, 1);
    assert_reads!(judged(verdict(&run(&accept(attention, "40MiB", "2027-01-14"), &[]))) => str!["1: FAIL peak grew 53.80 MiB (+19.2 %), allowed 5 % (40.00 MiB were accepted until 2027-01-14, which has passed: a longer context)"]);
    assert_eq!(verdict(&run(&accept("pattern = \"feed_forward*\"", "1GiB", "2027-12-31"), &[])).0, 1);
    let part = run(&accept("pattern = \"attention\"", "1GiB", "2027-12-31"), &[]);
    assert_eq!(verdict(&part).0, 1);
    assert!(
        text(&part.stdout).contains("'*attention*' would match 'attention (model.py:40)"),
        "{}",
        text(&part.stdout)
    );
    assert_eq!(verdict(&run(&accept("metric = \"reserved\"", "1GiB", "2027-12-31"), &[])).0, 1);
    assert_eq!(verdict(&run(&accept("metric = \"peak\"", "1GiB", "2027-12-31"), &[])).0, 0);
    // The same growth is not accepted twice: two agreements cover no more of a stack than it grew.
    let twice = accept(attention, "30MiB", "2027-12-31") + &accept("pattern = \"*model.py*\"", "30MiB", "2027-12-31");
    assert_eq!(verdict(&run(&twice, &[])).0, 0);
    let twice = accept(attention, "1GiB", "2027-12-31") + &accept("pattern = \"attention*\"", "1GiB", "2027-12-31");
    assert_eq!(verdict(&run(&twice, &["--max-growth", "0"])).0, 1, "60.50 KiB are not attention's");
    // A limit on stacks takes it from the same budget, the largest first.
    let stacks = ["--max-growth", "100%", "--max-growth", "stack=1MiB"];
    assert_eq!(verdict(&run("", &stacks)).0, 1);
    assert_eq!(verdict(&run(&accept(attention, "53MiB", "2027-12-31"), &stacks)).0, 0);
    assert_eq!(verdict(&run(&accept(attention, "52MiB", "2027-12-31"), &stacks)).0, 1);
}

#[test]
fn what_a_report_proposes_to_accept_covers_all_that_fails() {
    let folder = folder();
    for file in ["cache-plain.pkl", "phases-before.pkl", "phases-after.pkl"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(file), folder.path().join(file)).unwrap();
    }
    let limits = "[max-growth]\npeak = \"5%\"\nend = \"5%\"\nstack = \"4MiB\"\n";
    let diff = |phase: &str, accept: &str, [before, after]: [&str; 2]| {
        fs::write(folder.path().join("ptmem.toml"), format!("{limits}\"{phase}\" = \"5%\"\n{accept}")).unwrap();
        ptmem(folder.path(), &["diff", before, after, "--phases"])
    };
    // Few checks fail; one phase alone, inside of another; more stacks than anybody pastes one by one.
    for (pair, phase, entries) in [
        (["before.pkl", "after.pkl"], "phase", 1),
        (["phases-before.pkl", "phases-after.pkl"], "phase:forward", 1),
        (["cache-plain.pkl", "after.pkl"], "phase", 1),
    ] {
        let output = diff(phase, "", pair);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let proposed = proposed(&told);
        assert_eq!(proposed.matches("[[accept]]").count(), entries, "{proposed}");
        let (code, line) = verdict(&diff(phase, &proposed, pair));
        assert_eq!(code, 0, "{line}\n{proposed}");
    }
}

#[test]
fn a_limit_for_certain_stacks_takes_the_place_of_that_for_all() {
    let folder = folder();
    let run = |limits: &[&str]| {
        let limits = limits.iter().flat_map(|limit| ["--max-growth", limit]);
        verdict(&ptmem(folder.path(), &DIFF.into_iter().chain(limits).collect::<Vec<_>>()))
    };
    assert_eq!(run(&["stack=1MiB"]).0, 1);
    assert_eq!(run(&["stack=1MiB", "stack:attention*=60MiB"]).0, 0);
    assert_eq!(run(&["stack=60MiB", "stack:attention*=1MiB"]).0, 1);
}

#[test]
fn rules_about_frames_come_from_the_file() {
    let folder = folder();
    let show = |config: &str, more: &[&str]| {
        fs::write(folder.path().join("ptmem.toml"), config).unwrap();
        text(&ptmem(folder.path(), &[&["show", "before.pkl", "--top", "0"], more].concat()).stdout)
    };
    let plain = show("", &[]);
    assert!(plain.contains("forward (model.py:51) aten::native_layer_norm"), "{plain}");
    let own = show("own = \"*/torch/nn/modules/*\"", &[]);
    assert!(own.contains("forward (torch/nn/modules/normalization.py:217) aten::native_layer_norm"), "{own}");
    let foreign = show("foreign = [\"*/model.py\"]", &[]);
    assert!(foreign.contains("  train_step (train.py:25) > forward (/workspace/train/model.py:51)"), "{foreign}");
    assert!(!foreign.contains("  forward (model.py:"), "{foreign}");
    let category = "group-by = \"category\"\n[[category]]\nname = \"attention\"\nframes = [\"attention (model.py*\"]\n\
                    [[category]]\nname = \"norms\"\nframes = \"aten::native_layer_norm\"\n";
    let categories = show(category, &[]);
    for name in ["attention", "norms", "forward"] {
        assert!(categories.lines().any(|line| line.ends_with(&format!("  {name}"))), "{name}: {categories}");
    }
    assert!(show(category, &["--group-by", "stack"]).contains("aten::native_layer_norm"), "a flag wins");
}

#[test]
fn the_configuration_is_found_upwards_to_the_root_of_the_repository() {
    let folder = folder();
    let sub = folder.path().join("a/b");
    fs::create_dir_all(&sub).unwrap();
    let gate = "max-growth = \"5%\"\n[gate.x]\nbefore = \"before.pkl\"\nafter = \"after.pkl\"\n";
    fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
    let diff = ["diff", "../../before.pkl", "../../after.pkl"];
    // Outside a repository, folders above do not count.
    assert_eq!(verdict(&ptmem(&sub, &diff)).1, UNGATED);
    fs::create_dir(folder.path().join(".git")).unwrap();
    let fails = (
        1,
        "FAIL peak grew 53.80 MiB (+19.2 %), allowed 5 %, most by attention (model.py:40) aten::_softmax (+53.74 MiB)"
            .to_owned(),
    );
    assert_eq!(verdict(&ptmem(&sub, &diff)), fails);
    // Paths of a gate begin where the file lies.
    assert_eq!(ptmem(&sub, &["gate"]).status.code(), Some(1));
    // The nearest one counts, and nothing above the root.
    fs::write(folder.path().join("a/ptmem.toml"), "max-growth = \"30%\"").unwrap();
    assert_eq!(verdict(&ptmem(&sub, &diff)).0, 0);
    fs::remove_file(folder.path().join("a/ptmem.toml")).unwrap();
    fs::create_dir(folder.path().join("a/.git")).unwrap();
    assert_eq!(verdict(&ptmem(&sub, &diff)).1, UNGATED);
}

#[test]
fn rules_that_match_nothing_are_a_warning() {
    let folder = folder();
    let config = "foreign = [\"*/vendored/*\"]\n[[category]]\nname = \"unknown\"\nframes = [\"no_such_function\"]\n\
                  [[accept]]\npattern = \"atention\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2027-12-31\n";
    fs::write(folder.path().join("ptmem.toml"), config).unwrap();
    let output = ptmem(folder.path(), &[&DIFF[..], &["--format", "json"]].concat());
    let report = text(&output.stdout);
    for expected in ["'*/vendored/*'", "[[category]] 'unknown'", "'atention'", "the nearest stacks are 'attention"] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    assert_eq!(report.matches("\"unused-rule\"").count(), 3);
    let used = "[[category]]\nname = \"attention\"\nframes = [\"attention\"]\n";
    fs::write(folder.path().join("ptmem.toml"), used).unwrap();
    let output = ptmem(folder.path(), &[&DIFF[..], &["--format", "json"]].concat());
    assert!(!text(&output.stdout).contains("unused-rule"));
    // One comparison that uses a rule is enough.
    let gates = format!(
        "max-growth = \"0\"\n{used}[gate.one]\nbefore = \"state-only.pkl\"\nafter = \"state-only.pkl\"\n\
         [gate.two]\nbefore = \"two-devices-before.pkl\"\nafter = \"two-devices-after.pkl\"\n"
    );
    for (config, unused) in [(gates.clone(), 0), (gates.replace("[\"attention\"]", "[\"widen\"]"), 1)] {
        fs::write(folder.path().join("ptmem.toml"), config).unwrap();
        let output = ptmem(folder.path(), &["gate", "--format", "json"]);
        assert_eq!(text(&output.stdout).matches("\"unused-rule\"").count(), unused, "{}", text(&output.stderr));
    }
}

#[test]
fn headroom_needs_the_memory_of_the_device() {
    let folder = folder();
    let check = |more: &[&str]| ptmem(folder.path(), &[&["check", "before.pkl"], more].concat());
    let output = check(&["--min-headroom", "8MiB"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--device-memory"), "{}", text(&output.stderr));
    assert_eq!(check(&["--device-memory", "320MiB", "--min-headroom", "8MiB"]).status.code(), Some(0));
    fs::write(folder.path().join("ptmem.toml"), "device-memory = \"310MiB\"\n").unwrap();
    let line = verdict(&check(&["--min-headroom", "8MiB"]));
    assert!(line.0 == 1 && line.1.starts_with("FAIL headroom is 4.00 MiB"), "{line:?}");
    fs::write(folder.path().join("ptmem.toml"), "device-memory = \"400MiB\"\ndevice-overhead = \"500MiB\"\n").unwrap();
    assert_reads!(text(&check(&["--min-headroom", "1MiB"]).stderr) => str!["error: a minimum headroom of 1.00 MiB cannot be left on a device with 400.00 MiB, of which 500.00 MiB are overhead; give less to --min-headroom, or to device-overhead"]);
}
