//! Labels are distinct, are the same in every format, and can be pasted into limits, `[[accept]]` and `--focus`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::edit::Edited;
use crate::support::program::Program;
use crate::support::tool::{ptmem, text, verdict};

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in ["before", "after"] {
        fs::copy(fixtures.join(format!("{name}.pkl")), folder.path().join(format!("{name}.pkl"))).unwrap();
    }
    folder
}

fn json(folder: &TempDir, arguments: &[&str]) -> Json {
    let output = ptmem(folder.path(), &[arguments, &["--format", "json", "--top", "0"]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

const DIFF: [&str; 6] = ["diff", "before.pkl", "after.pkl", "--all", "--min-delta", "0B"];

/// A row of a table.
struct Row {
    label: String,
    /// The labels of the lines that it sums.
    lines: Vec<String>,
}

fn rows(report: &Json) -> Vec<Row> {
    let label = |of: &Json| of["label"].as_str().unwrap().to_owned();
    let stacks = report["devices"][0]["stacks"].as_array().unwrap();
    let listed = stacks.iter().filter(|stack| stack["bucket"] != "others");
    listed
        .map(|stack| Row { label: label(stack), lines: stack["lines"].as_array().unwrap().iter().map(label).collect() })
        .collect()
}

/// Every text that somebody may paste: labels, as they stand in tables, and those of the lines that a row sums.
fn pasted(rows: &[Row]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for row in rows {
        all.insert(row.label.clone());
        all.insert(format!("{} (+{} more lines)", row.label, row.lines.len()));
        all.extend(row.lines.iter().cloned());
    }
    all
}

#[test]
fn labels_are_told_apart_and_the_same_in_every_format() {
    let folder = folder();
    for command in [&DIFF[..], &["show", "after.pkl"]] {
        let rows = rows(&json(&folder, command));
        let labels: BTreeSet<&str> = rows.iter().map(|row| &*row.label).collect();
        assert!(labels.len() == rows.len() && rows.len() > 10, "{command:?}");
        assert!(rows.iter().any(|row| row.lines.len() > 1), "{command:?}");
        for format in ["table", "markdown", "csv"] {
            let more = ["--top", "0", "--format", format];
            let report = text(&ptmem(folder.path(), &[command, &more].concat()).stdout);
            for label in &labels {
                // Only rows that hold something are listed for people.
                let is_there = report.contains(label) || command[0] == "show";
                assert!(is_there, "{format} lacks {label}: {report}");
            }
        }
    }
}

#[test]
fn pasted_labels_match_in_limits() {
    let folder = folder();
    let growth: Vec<String> =
        pasted(&rows(&json(&folder, &DIFF))).iter().map(|label| format!("stack:{label}=1TiB")).collect();
    let limits: Vec<&str> = growth.iter().flat_map(|limit| ["--max-growth", limit]).collect();
    let (code, line) = verdict(&ptmem(folder.path(), &[&DIFF[..], &limits].concat()));
    assert_eq!(code, 0, "{line}");
    let absolute: Vec<String> = pasted(&rows(&json(&folder, &["show", "after.pkl"])))
        .iter()
        .map(|label| format!("stack:{label}=1TiB"))
        .collect();
    let limits: Vec<&str> = absolute.iter().flat_map(|limit| ["--max", limit]).collect();
    let (code, line) = verdict(&ptmem(folder.path(), &[&["check", "after.pkl"], &limits[..]].concat()));
    assert_eq!(code, 0, "{line}");
    // A label with another line is another one.
    let (code, line) =
        verdict(&ptmem(folder.path(), &["check", "after.pkl", "--max", "stack:forward (model.py:1)=1TiB"]));
    assert!(code == 3 && line.contains("; the nearest stacks are 'forward (model.py:"), "{line}");
}

#[test]
fn pasted_labels_match_in_accepted_growth() {
    let folder = folder();
    let mut config = String::new();
    for label in pasted(&rows(&json(&folder, &DIFF))) {
        config +=
            &format!("[[accept]]\npattern = '{label}'\nbytes = '1MiB'\nreason = 'agreed'\nexpires = 2027-02-01\n");
    }
    fs::write(folder.path().join("ptmem.toml"), &config).unwrap();
    let output = ptmem(folder.path(), &["diff", "before.pkl", "after.pkl"]);
    let report = text(&output.stdout);
    assert!(!report.contains("unused-rule"), "{report}{}", text(&output.stderr));
    fs::write(folder.path().join("ptmem.toml"), config.replacen("pattern = '", "pattern = 'no ", 1)).unwrap();
    let report = text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl"]).stdout);
    assert!(report.contains("unused-rule"), "{report}");
}

#[test]
fn pasted_labels_match_in_searches() {
    let folder = folder();
    let mut rows = rows(&json(&folder, &["show", "after.pkl"]));
    rows.retain(|row| !row.label.starts_with('<'));
    rows.truncate(6);
    for label in pasted(&rows) {
        let report = text(&ptmem(folder.path(), &["show", "after.pkl", "--focus", &label]).stdout);
        assert!(!report.contains("no frame matches") && report.contains("of it through"), "{label}: {report}");
    }
}

/// A checkout with a package in `src`, and two snapshots that were recorded elsewhere with the package installed.
fn checkout() -> TempDir {
    let folder = folder();
    for path in [".git", "src/ourlib", "scripts", "inputs"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    for path in ["src/ourlib/__init__.py", "src/ourlib/model.py", "scripts/train.py"] {
        fs::write(folder.path().join(path), "").unwrap();
    }
    for name in ["before.pkl", "after.pkl"] {
        let mut snapshot = Edited::open(&folder.path().join(name));
        snapshot.each_frame(|frame| {
            if frame.file == "/workspace/train/model.py" {
                frame.file = "/opt/venv/lib/python3.11/site-packages/ourlib/model.py".to_owned();
            } else if frame.file == "/workspace/train/train.py" {
                frame.file = "/gpu/box/scripts/train.py".to_owned();
            }
        });
        snapshot.write(&folder.path().join("inputs").join(name));
    }
    folder
}

#[test]
fn files_are_named_from_the_root_of_the_checkout_on() {
    let folder = checkout();
    let labels = |place: &str, command: &[&str]| {
        let output = ptmem(&folder.path().join(place), &[command, &["--format", "json", "--top", "0"]].concat());
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        rows(&report).into_iter().map(|row| row.label).collect::<Vec<_>>().join("\n")
    };
    // Also from a folder within.
    for (place, input) in [(".", "inputs/after.pkl"), ("scripts", "../inputs/after.pkl")] {
        let all = labels(place, &["show", input]);
        assert!(all.contains("attention (src/ourlib/model.py:"), "{all}");
        assert!(all.contains("train_step (scripts/train.py:"), "{all}");
    }
    let diff = ["diff", "inputs/before.pkl", "inputs/after.pkl", "--max-growth", "stack=1MiB"];
    assert_reads!(text(&ptmem(folder.path(), &[&diff[..], &["--format", "github"]].concat()).stdout) => str!["::error file=src/ourlib/model.py,line=40,title=GPU memory%3A stack::stack attention (src/ourlib/model.py:40) aten::_softmax (+3 more lines) grew 53.74 MiB (+126.0 %25), allowed 1.00 MiB"]);
    // A package that only the environment has stays there.
    fs::remove_file(folder.path().join("src/ourlib/model.py")).unwrap();
    let all = labels(".", &["show", "inputs/after.pkl"]);
    assert!(all.contains("> attention (ourlib/model.py:") && !all.contains("src/"), "{all}");
}

/// Two functions allocate through the same line: `main` directly, and `block` as one of the two lines that its row
/// sums. A third row lies in a file whose name opens a bracket.
fn sharing_a_line() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::default();
    for name in ["always there", "also there"] {
        program.alloc_under(name, &["/work/train.py:main:4"], 5 << 10);
    }
    fs::write(folder.path().join("before.pkl"), program.snapshot()).unwrap();
    let main = "/work/train.py:main:5";
    program.alloc_under("direct", &["/work/model.py:forward:10", main], 100 << 10);
    program.alloc_under("larger line", &["/work/model.py:forward:12", "/work/model.py:block:30", main], 200 << 10);
    program.alloc_under("shared line", &["/work/model.py:forward:10", "/work/model.py:block:31", main], 50 << 10);
    program.alloc_under("bracket", &["/work/old[1.py:run:3", main], 80 << 10);
    fs::write(folder.path().join("after.pkl"), program.snapshot()).unwrap();
    folder
}

/// The stacks that exceed a limit.
fn exceeding(folder: &TempDir, arguments: &[&str]) -> Vec<String> {
    let report = json(folder, arguments);
    let checks = report["checks"].as_array().unwrap().iter();
    let exceeded = checks.filter(|check| check["result"] == "exceeded");
    exceeded.map(|check| check["scope"].as_str().unwrap().to_owned()).collect()
}

const DIRECT: &str = "forward (model.py:10)";
const BLOCK: &str = "forward (model.py:12)";
const BRACKET: &str = "run (old[1.py:3)";

#[test]
fn a_label_stands_for_its_row_alone() {
    let folder = sharing_a_line();
    let listed = rows(&json(&folder, &["show", "after.pkl"]));
    let labels: Vec<&str> = listed.iter().map(|row| &*row.label).collect();
    assert_eq!(labels, [BLOCK, DIRECT, BRACKET, "main (train.py:4)"]);
    assert_eq!(listed[0].lines, [BLOCK, DIRECT]);
    fs::write(folder.path().join("ptmem.toml"), "allow-partial = true\n").unwrap();
    let diff = ["diff", "before.pkl", "after.pkl", "--min-delta", "0"];
    for label in [BLOCK, DIRECT, BRACKET] {
        for pasted in [label.to_owned(), format!("{label} (+1 more line)")] {
            let limit = format!("stack:{pasted}=0");
            assert_eq!(exceeding(&folder, &["check", "after.pkl", "--max", &limit]), [label], "{pasted}");
            let growth = [&diff[..], &["--max-growth", &limit]].concat();
            assert_eq!(exceeding(&folder, &growth), [label], "{pasted}");
            let report = text(&ptmem(folder.path(), &["show", "after.pkl", "--focus", &pasted]).stdout);
            let held = if label == BLOCK {
                "250.00 KiB"
            } else if label == DIRECT {
                "100.00 KiB"
            } else {
                "80.00 KiB"
            };
            assert!(report.contains(&format!("{held} of it through '{pasted}'")), "{report}");
        }
    }
    // A limit of its own takes one row out of the limit for all.
    let own = format!("stack:{DIRECT}=1GiB");
    assert_eq!(exceeding(&folder, &["check", "after.pkl", "--max", "stack=20KiB", "--max", &own]), [BLOCK, BRACKET]);
    let growth = [&diff[..], &["--max-growth", "stack=0", "--max-growth", &own]].concat();
    assert_eq!(exceeding(&folder, &growth), [BLOCK, BRACKET]);
}

#[test]
fn an_agreement_covers_the_row_of_its_label_alone() {
    let folder = sharing_a_line();
    let agreement = |pattern: &str| {
        format!(
            "allow-partial = true\n[[accept]]\npattern = '{pattern}'\nbytes = '1GiB'\nreason = 'agreed'\nexpires = 2027-02-01\n"
        )
    };
    let diff = ["diff", "before.pkl", "after.pkl", "--min-delta", "0", "--max-growth", "stack=0"];
    for (label, others) in [(DIRECT, [BLOCK, BRACKET]), (BLOCK, [DIRECT, BRACKET]), (BRACKET, [BLOCK, DIRECT])] {
        fs::write(folder.path().join("ptmem.toml"), agreement(label)).unwrap();
        assert_eq!(exceeding(&folder, &diff), others, "{label}");
    }
}

#[test]
fn labels_that_no_line_has_room_for_go_on_below() {
    let folder = sharing_a_line();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder.path()).env_clear().env("COLUMNS", "30");
    let report = text(&command.args(["show", "after.pkl"]).output().unwrap().stdout);
    assert!(!report.contains(BRACKET) && report.replace("\n              ", " ").contains(BRACKET), "{report}");
}

#[test]
fn the_proposed_entries_cover_the_growth_once() {
    let folder = folder();
    let diff = ["diff", "before.pkl", "after.pkl", "--max-growth", "5%", "--max-growth", "stack=1MiB"];
    let report = text(&ptmem(folder.path(), &diff).stdout);
    let proposed =
        report.split_once("add to ptmem.toml (bytes beyond the limit):\n").unwrap().1.split_once("\n\n").unwrap().0;
    // The entry of the stack covers the peak as well, as far as the stack raised it.
    assert!(proposed.matches("[[accept]]").count() == 1 && proposed.contains("pattern = "), "{report}");
    fs::write(folder.path().join("ptmem.toml"), proposed).unwrap();
    let (code, line) = verdict(&ptmem(folder.path(), &diff));
    assert_eq!(code, 0, "{line}");
}
