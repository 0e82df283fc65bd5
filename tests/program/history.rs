//! `ptmem history` over a folder, and over the versions of a stored profile.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::history::{A, MIB, Tensors, event, oom, segment, snapshot, train};
use crate::support::pickle;
use crate::support::readers::{check_json, check_markdown};
use crate::support::tool::text;

/// With the `PATH`, which `git` is found by.
fn ptmem(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.args(arguments).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = ptmem(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let report: Value = serde_json::from_str(&succeed(folder, &[arguments, &["--format", "json"]].concat())).unwrap();
    check_json(&report);
    report
}

fn store(folder: &Path, fixture: &str, name: &str) {
    let fixture = fixtures::folder().join(fixture).display().to_string();
    succeed(folder, &["profile", &fixture, "-o", name]);
}

/// Nights without a change, one that grows, and one that cannot be read; their times are those of the fixtures.
fn nights() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (night, fixture) in ["before", "moved", "before", "after", "after"].iter().enumerate() {
        store(place.path(), &format!("{fixture}.pkl"), &format!("night-{:02}.json", night + 9));
    }
    let whole = fs::read_to_string(place.path().join("night-09.json")).unwrap();
    fs::write(place.path().join("night-20.json"), &whole[..whole.len() / 2]).unwrap();
    place
}

#[test]
fn the_page_has_a_bar_for_each_night_and_a_line_for_each_large_stack() {
    let place = nights();
    let page = succeed(place.path(), &["history", ".", "--order", "given", "--format", "html"]);
    assert_eq!(page.matches("class=\"bar\"").count(), 5, "{page}");
    assert!(page.contains("class=\"line grows c0\"") && page.contains("Largest stacks, up to "), "{page}");
    assert!(page.contains("+53.80 MiB") && page.contains("attention (model.py:40)"), "{page}");
    assert!(page.contains("default-src 'none'"), "{page}");
}

#[test]
fn the_night_of_a_step_is_named_with_its_stack() {
    let place = nights();
    let report = json(place.path(), &["history", ".", "--order", "given"]);
    let names: Vec<&str> = report["profiles"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names[0].ends_with("night-09.json") && names[4].ends_with("night-13.json"), "{names:?}");
    let device = &report["devices"][0];
    let steps = device["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(steps[0]["profile"], 3);
    assert_eq!(steps[0]["delta"].as_i64(), Some(56_415_232));
    assert!(steps[0]["stacks"][0]["label"].as_str().unwrap().contains("attention (model.py:40)"), "{steps:?}");
    assert!(report["skipped"][0]["path"].as_str().unwrap().ends_with("night-20.json"));
    // The rows of every profile add up to its peak.
    for (index, figures) in device["figures"].as_array().unwrap().iter().enumerate() {
        let stacks = device["stacks"].as_array().unwrap();
        let sum: u64 = stacks.iter().map(|stack| stack["bytes"][index].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), figures["peak"].as_u64());
    }
    let last = json(place.path(), &["history", ".", "--order", "given", "--last", "3"]);
    // The broken one counts as one of the three.
    assert_eq!(last["profiles"].as_array().unwrap().len(), 2);
}

#[test]
fn steady_growth_says_when_the_device_is_full() {
    let place = tempfile::tempdir().unwrap();
    let series = fixtures::folder().join("leak-series").display().to_string();
    let report = json(place.path(), &["history", &series, "--device-memory", "100MiB"]);
    let outlook = &report["devices"][0]["outlook"];
    assert_eq!(outlook["grows"], true);
    let pace = outlook["per_profile"].as_u64().unwrap();
    let [left, peak] = [&outlook["headroom"], &report["devices"][0]["figures"][2]["peak"]];
    let [left, peak] = [left, peak].map(|bytes| bytes.as_u64().unwrap());
    let reserved = report["devices"][0]["figures"][2]["reserved"].as_u64().unwrap();
    assert_eq!(left, (100 << 20) - reserved);
    // The pool has room in which the peak grows.
    assert_eq!(outlook["full_after"].as_u64(), Some(((100 << 20) - peak).div_ceil(pace)));
    let of_leak = json(place.path(), &["leak", &series, "--device-memory", "100MiB", "--exit-zero"]);
    assert_eq!(of_leak["totals"]["runs_out_after"], outlook["full_after"], "{of_leak:#}");
    let table = succeed(place.path(), &["history", &series]);
    assert!(table.contains("no single change of the peak stands out from the trend\n"), "{table}");
    let flat = fixtures::folder().join("no-leak-series").display().to_string();
    let table = succeed(place.path(), &["history", &flat]);
    assert!(table.contains("no single change of the peak stands out\n"), "{table}");
    let report = json(place.path(), &["history", &flat, "--device-memory", "100MiB"]);
    assert_eq!(report["devices"][0]["outlook"]["full_after"], Value::Null);
}

/// One change is no trend, and the memory of the device counts without one.
#[test]
fn few_profiles_are_no_steady_growth() {
    let series = fixtures::folder().join("leak-series");
    let mut files: Vec<_> = fs::read_dir(&series).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let files: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    assert_reads!(outlook(&files[..1], "100MiB") => str!["  device memory   98.00 MiB of 100.00 MiB left"]);
    assert_reads!(outlook(&files[..1], "1MiB") => str!["  device memory   1.00 MiB is full"]);
    assert_reads!(outlook(&files[..2], "100MiB") => str![[r#"
  trend           +850.00 KiB per profile
  device memory   96.00 MiB of 100.00 MiB left, no steady growth
"#]]);
    assert_reads!(outlook(&files[..3], "100MiB") => str![[r#"
  trend           +850.00 KiB per profile, steadily
  device memory   96.00 MiB of 100.00 MiB left, full after 118 more profiles
"#]]);
}

/// Growth is many small changes.
#[test]
fn a_larger_least_step_hides_no_growth() {
    let series = fixtures::folder().join("leak-series").display().to_string();
    assert_reads!(outlook(&[&*series, "--min-step", "20MiB"], "100MiB") => str![[r#"
  trend           +850.00 KiB per profile, steadily
  device memory   96.00 MiB of 100.00 MiB left, full after 118 more profiles
"#]]);
}

/// Figures have no stacks, which is not the same as stacks of 0 B.
#[test]
fn stacks_of_figures_are_unknown() {
    let place = tempfile::tempdir().unwrap();
    store(place.path(), "before.pkl", "night-1.json");
    fs::write(place.path().join("night-2.json"), r#"{"max_memory_allocated": 300000000}"#).unwrap();
    let report = json(place.path(), &["history", "night-1.json", "night-2.json"]);
    let device = &report["devices"][0];
    assert_eq!((device["steps"].as_array().unwrap().len(), &device["steps"][0]["stacks"]), (1, &Value::Array(vec![])));
    let stack = &device["stacks"][0];
    assert!(stack["bytes"][0].is_u64() && stack["bytes"][1].is_null() && stack["blocks"][1].is_null(), "{stack}");
    let table = succeed(place.path(), &["history", "night-1.json", "night-2.json"]);
    let row = table.lines().skip_while(|line| !line.contains("largest stacks")).nth(2).unwrap();
    assert_eq!(row.matches("unknown").count(), 2, "{table}");
}

/// A night of unknown figures has no bar, and lines have a gap there.
#[test]
fn what_is_unknown_is_not_drawn_as_nothing() {
    let place = tempfile::tempdir().unwrap();
    let nights = ["night-1.json", "night-2.json", "night-3.json", "night-4.json"];
    nights.iter().for_each(|night| store(place.path(), "before.pkl", night));
    fs::write(place.path().join("night-3.json"), r#"{"max_memory_reserved": 300000000}"#).unwrap();
    let page = succeed(place.path(), &[&["history", "--format", "html"], &nights[..]].concat());
    assert_eq!(page.matches("class=\"bar\"").count(), 3, "{page}");
    let line = page.split("class=\"line grows c0\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_reads!(line.to_owned() => str!["M0.0 76.9L333.3 76.9M1000.0 76.9m-2 0h4"]);
}

fn outlook(files: &[&str], memory: &str) -> String {
    let report = succeed(Path::new("."), &[&["history", "--device-memory", memory], files].concat());
    let lines: Vec<&str> =
        report.lines().filter(|line| ["  trend", "  device m"].iter().any(|of| line.starts_with(of))).collect();
    lines.join("\n")
}

#[test]
fn every_format_has_the_steps() {
    let place = nights();
    let csv = succeed(place.path(), &["history", ".", "--order", "given", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let column = |name: &str| reader.headers().unwrap().iter().position(|head| head == name).unwrap();
    let [table, peak, profile] = ["table", "peak", "profile"].map(column);
    let rows: Vec<_> = reader.records().map(Result::unwrap).filter(|row| &row[table] == "profiles").collect();
    let report = json(place.path(), &["history", ".", "--order", "given"]);
    let figures = report["devices"][0]["figures"].as_array().unwrap();
    assert_eq!(rows.len(), figures.len());
    for (row, figures) in rows.iter().zip(figures) {
        assert_eq!(row[peak], figures["peak"].to_string(), "{}", &row[profile]);
    }
    let markdown =
        succeed(place.path(), &["history", ".", "--order", "given", "--format", "markdown", "--export", "csv=out.csv"]);
    check_markdown(&markdown, 1 << 20);
    assert!(markdown.contains("Changes of the peak"), "{markdown}");
    assert_eq!(fs::read_to_string(place.path().join("out.csv")).unwrap(), csv);
    let table = succeed(place.path(), &["history", ".", "--order", "given"]);
    assert!(table.contains("changes of the peak"), "{table}");
    assert!(table.contains("night-12.json"), "{table}");
    // A row that sums several lines says so, and its name in other formats is that of the largest.
    let sums = "attention (model.py:40) aten::_softmax (+3 more lines)";
    assert_eq!(table.matches(sums).count(), 2, "{table}");
    assert_eq!(markdown.matches("(+3 more lines)").count(), 2, "{markdown}");
    assert!(csv.lines().any(|row| row.ends_with(",attention (model.py:40) aten::_softmax")), "{csv}");
}

#[test]
fn the_peak_of_a_state_is_not_known() {
    let place = tempfile::tempdir().unwrap();
    for (number, fixture) in ["before", "state-only", "after"].iter().enumerate() {
        store(place.path(), &format!("{fixture}.pkl"), &format!("{number}.json"));
    }
    let report = json(place.path(), &["history", ".", "--order", "given"]);
    let figures = &report["devices"][0]["figures"];
    assert_eq!((&figures[1]["peak"], &figures[1]["reserved"]), (&Value::Null, &Value::Null), "{figures:#}");
    assert!(figures[1]["end"].is_u64(), "{figures:#}");
    assert_eq!(report["devices"][0]["steps"][0]["delta"].as_i64(), Some(56_415_232));
    for (file, title) in [("0.json", "largest stacks at the peak\n"), ("1.json", "largest stacks\n")] {
        let table = succeed(place.path(), &["history", file]);
        assert!(table.contains(&format!("\n  {title}")), "{table}");
    }
}

#[test]
fn the_commit_of_a_step_is_named() {
    let place = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(place.path()).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.args(arguments).output().ok().filter(|output| output.status.success())
    };
    git(&["init", "-q", "."]).unwrap();
    for (day, fixture, subject) in [(0, "before", "store it"), (2, "after", "a larger\nmodel"), (4, "after", "none")] {
        store(place.path(), &format!("{fixture}.pkl"), "stored profile.json");
        git(&["add", "-A"]).unwrap();
        let date = format!("2026-01-{:02}T00:00:00Z", day + 1);
        let mut commit = Command::new("git");
        commit.current_dir(place.path()).env("GIT_COMMITTER_DATE", &date).env("GIT_CONFIG_GLOBAL", "/dev/null");
        commit.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            subject,
        ]);
        assert!(commit.status().unwrap().success());
    }
    let report = json(place.path(), &["history", "--git", "stored profile.json"]);
    let profiles = report["profiles"].as_array().unwrap();
    // The last commit left the file alone.
    assert_eq!(profiles.len(), 2);
    assert_eq!(profiles[1]["subject"], "a larger model");
    assert_eq!(profiles[1]["time"].as_i64(), Some(1_767_398_400));
    assert_eq!(report["devices"][0]["steps"][0]["profile"], 1);
    let table = succeed(place.path(), &["history", "--git", "stored profile.json"]);
    assert!(table.contains("a larger model"), "{table}");
    // A version that cannot be read is not one of the latest two.
    fs::write(place.path().join("stored profile.json"), "broken").unwrap();
    git(&["commit", "-q", "-a", "-m", "break it"]).unwrap();
    let report = json(place.path(), &["history", "--git", "stored profile.json", "--last", "2"]);
    assert_eq!(["profiles", "skipped"].map(|list| report[list].as_array().unwrap().len()), [2, 1]);
    let unknown = ptmem(place.path(), &["history", "--git", "other.json"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no commit has this file"), "{}", text(&unknown.stderr));
}

#[test]
fn mistakes_are_named() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    for (arguments, expected) in [
        (&["history"][..], "required"),
        (&["history", "empty"], "empty"),
        (&["history", "missing.json"], "no such file"),
        (&["history", "--git", "nowhere/x.json"], "git log:"),
        (&["history", "a", "--git", "b"], "cannot be used with"),
        (&["history", "a", "--export", "sarif=x"], "unknown format 'sarif'"),
    ] {
        let output = ptmem(place.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn every_run_that_failed_is_named() {
    let place = tempfile::tempdir().unwrap();
    let whole = train(Tensors { batch: MIB, loss: MIB, sum: MIB, sums: "add" });
    let facts = serde_json::json!({"format": 1, "ending": {"kind": "exception", "message": "E: no file"}});
    let failed = train(Tensors { batch: MIB, loss: MIB, sum: MIB, sums: "add" }).with("ptmem", facts);
    for (name, run) in [("1.pkl", &whole), ("2.pkl", &failed), ("3.pkl", &whole)] {
        fs::write(place.path().join(name), pickle::write(run, pickle::Options::default())).unwrap();
    }
    let report = succeed(place.path(), &["history", "1.pkl", "2.pkl", "3.pkl"]);
    assert!(report.contains("warning[run-incomplete] 2.pkl: the program failed: E: no file"), "{report}");
    assert_eq!(report.matches("run-incomplete").count(), 1, "{report}");
    // Each in its own words.
    let facts = serde_json::json!({"format": 1, "ending": {"kind": "exception", "message": "E: no room"}});
    let failed = train(Tensors { batch: MIB, loss: MIB, sum: MIB, sums: "add" }).with("ptmem", facts);
    fs::write(place.path().join("3.pkl"), pickle::write(&failed, pickle::Options::default())).unwrap();
    let report = succeed(place.path(), &["history", "1.pkl", "2.pkl", "3.pkl"]);
    for expected in ["2.pkl: the program failed: E: no file", "3.pkl: the program failed: E: no room"] {
        assert!(report.contains(&format!("warning[run-incomplete] {expected}")), "{report}");
    }
}

/// A program that catches the error of a failed request and reaches its end is whole.
#[test]
fn a_run_that_goes_on_without_memory_is_whole() {
    let place = tempfile::tempdir().unwrap();
    for (kind, is_told) in [("whole", false), ("oom", true)] {
        let events = vec![event("segment_alloc", A, 2 * MIB), event("alloc", A, MIB), oom(64 * MIB)];
        let segments = vec![segment(A, &[(MIB, true), (MIB, false)])];
        let facts = serde_json::json!({"format": 1, "ending": {"kind": kind, "message": "E"}});
        let run = snapshot(segments, events).with("ptmem", facts);
        fs::write(place.path().join("1.pkl"), pickle::write(&run, pickle::Options::default())).unwrap();
        let told = warnings(place.path(), &["1.pkl"]);
        assert_eq!(told.contains("run-incomplete"), is_told, "{kind}: {told}");
    }
}

#[test]
fn one_profile_has_headroom() {
    let before = fixtures::folder().join("before.pkl").display().to_string();
    let report = json(&fixtures::folder(), &["history", &before, "--device-memory", "1GiB"]);
    let device = &report["devices"][0];
    let reserved = device["figures"][0]["reserved"].as_u64().unwrap();
    assert_eq!((&device["outlook"], device["headroom"].as_u64()), (&Value::Null, Some((1 << 30) - reserved)));
}

fn warnings(folder: &Path, names: &[&str]) -> String {
    let report = succeed(folder, &[&["history", "--order", "given"], names].concat());
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("warning[")).collect();
    lines.join("\n")
}

/// A profile in the middle that says little about its night is named, whatever the latest one is.
#[test]
fn the_warnings_of_every_profile_are_told() {
    let place = tempfile::tempdir().unwrap();
    let names = ["1.pkl", "2.pkl", "3.pkl", "4.pkl", "5.pkl"];
    for (name, fixture) in names.iter().zip(["before.pkl", "wrapped.pkl", "oom.pkl", "wrapped.pkl", "before.pkl"]) {
        fs::copy(fixtures::folder().join(fixture), place.path().join(name)).unwrap();
    }
    assert_reads!(warnings(place.path(), &names) => str![[r#"
warning[history-truncated] 2.pkl, 4.pkl: the ring buffer was probably full: of the history, the last 1000 events are left. Peak means the peak within the recorded window; record with a larger max_entries
warning[run-incomplete] 3.pkl: the program ran out of memory; the figures are not those of a whole run
"#]]);
    assert_reads!(warnings(place.path(), &["1.pkl", "5.pkl"]) => str![""]);
    fs::write(place.path().join("ptmem.toml"), "allow-oom = true\n").unwrap();
    assert_reads!(warnings(place.path(), &["1.pkl", "3.pkl", "5.pkl"]) => str![""]);
}
