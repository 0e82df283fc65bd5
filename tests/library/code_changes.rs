//! A change to the code that leaves the memory alone gives no row, and one that grows a stack gives that row alone.
//!
//! The changes are edits of the frames of snapshots, and changes of a program that PyTorch was recorded with.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::support::edit::{self, Edited, Frame};
use crate::support::program::Program;
use assert_cmd::Command;
use ptmem::ReadOptions;
use ptmem::diff::{self, DiffOptions, Row};
use ptmem::profile::{self, Moment, Profile};
use serde_json::Value;

const FIXTURES: [&str; 8] = [
    "before.pkl",
    "torch-2.10.pkl",
    "expandable.pkl",
    "two-devices-before.pkl",
    "recorded/transformer-2.11.0.pkl.zst",
    "recorded/transformer-2.2.2.pkl.zst",
    "recorded/graph-2.15.0.pkl.zst",
    "recorded/changes/scores-kept-after-2.11.0.pkl.zst",
];

/// With the state at the dump alone.
const STATES: [&str; 1] = ["torch-1.13.pkl"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn snapshots() -> Vec<PathBuf> {
    FIXTURES.iter().map(|name| fixture(name)).collect()
}

/// Exit code and rows of `ptmem diff` where nothing may grow at all.
fn compare(before: &Path, after: &Path, options: &[&str]) -> (i32, Vec<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command
        .arg("diff")
        .args([before, after])
        .args(["--min-delta", "0", "--top", "0", "--format", "json"])
        .args(options);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let rows = report["devices"].as_array().unwrap().iter().flat_map(|device| device["stacks"].as_array().unwrap());
    (output.status.code().unwrap(), rows.cloned().collect())
}

const NO_GROWTH: [&str; 6] = [
    "--max-growth",
    "0",
    "--max-growth",
    "stack=0",
    "--config",
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/out-of-memory.toml"),
];

/// Whatever the edit is called, it must leave no row.
fn changes_nothing(before: &Path, name: &str, edit: impl FnOnce(&mut Edited)) {
    let folder = tempfile::tempdir().unwrap();
    let after = folder.path().join("after.pkl");
    let mut edited = Edited::open(before);
    let history = edited.has_events();
    edit(&mut edited);
    edited.write(&after);
    let limits: &[&str] = if history { &NO_GROWTH } else { &["--at", "end", "--max-growth", "end=0"] };
    let (code, rows) = compare(before, &after, limits);
    let file = before.display();
    assert!(rows.is_empty(), "{file}: {name}: {}", serde_json::to_string_pretty(&summary(&rows)).unwrap());
    assert_eq!(code, 0, "{file}: {name}");
}

fn summary(rows: &[Value]) -> Vec<String> {
    let short = |row: &Value| format!("{} {} {}", row["change"], row["delta"], row["label"]);
    rows.iter().take(8).map(short).collect()
}

/// At most `count` items, spread over all.
fn sample<T: Clone>(items: &[T], count: usize) -> Vec<T> {
    let step = items.len().div_ceil(count).max(1);
    items.iter().step_by(step).cloned().collect()
}

#[test]
fn an_edited_snapshot_keeps_its_figures() {
    for path in snapshots() {
        let folder = tempfile::tempdir().unwrap();
        let show = |path: &Path| -> Value {
            let options = ["--format", "json", "--top", "0", "--group-by", "frames"];
            let output =
                Command::new(env!("CARGO_BIN_EXE_ptmem")).arg("show").arg(path).args(options).output().unwrap();
            let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["source"] = Value::Null;
            report
        };
        let copy = folder.path().join("copy.pkl");
        Edited::open(&path).write(&copy);
        let original = show(&path);
        assert!(original == show(&copy), "{}: writing changes it", path.display());
        let mut edited = Edited::open(&path);
        everything(&mut edited, 1);
        edited.write(&copy);
        let after = show(&copy);
        for (before, after) in original["devices"].as_array().unwrap().iter().zip(after["devices"].as_array().unwrap())
        {
            for figure in ["events", "allocated", "active", "requested", "reserved", "allocations", "checks"] {
                assert_eq!(before[figure], after[figure], "{}: {figure}", path.display());
            }
            assert_ne!(before["stacks"], after["stacks"], "{}: the edits changed no frame", path.display());
        }
    }
}

#[test]
fn moved_lines_are_no_change() {
    for path in snapshots() {
        for file in sample(&Edited::open(&path).user_files(), 3) {
            changes_nothing(&path, &format!("lines of {file}"), |snapshot| edit::move_lines(snapshot, &file, 3));
        }
    }
}

#[test]
fn other_folders_are_no_change() {
    for path in snapshots() {
        changes_nothing(&path, "checkout", edit::check_out_elsewhere);
        if let Some(file) = Edited::open(&path).user_files().first() {
            changes_nothing(&path, &format!("folder of {file}"), |snapshot| edit::move_folder(snapshot, file));
        }
    }
}

#[test]
fn other_environments_builds_and_runs_are_no_change() {
    for path in snapshots() {
        changes_nothing(&path, "environment", edit::renew_environment);
        changes_nothing(&path, "C++", edit::drift_cpp);
        changes_nothing(&path, "run", edit::run_again);
    }
}

#[test]
fn generated_code_is_no_change() {
    for path in snapshots() {
        let folder = tempfile::tempdir().unwrap();
        let before = folder.path().join("before.pkl");
        let mut compiled = Edited::open(&path);
        let file = compiled.user_files().remove(0);
        edit::compile(&mut compiled, &file);
        compiled.write(&before);
        changes_nothing(&before, "inductor", edit::generate_again);
    }
}

#[test]
fn a_renamed_function_is_no_change() {
    for path in snapshots() {
        for (file, function) in sample(&Edited::open(&path).user_functions(), 3) {
            let name = format!("{function} in {file}");
            let edit = |snapshot: &mut Edited| edit::rename_function(snapshot, &file, &function, "entirely_different");
            changes_nothing(&path, &name, edit);
        }
    }
}

#[test]
fn a_moved_file_is_no_change() {
    for path in snapshots() {
        for file in sample(&Edited::open(&path).user_files(), 2) {
            let (folder, name) = file.rsplit_once('/').unwrap();
            for new in [format!("{folder}/deeper/still/{name}"), format!("{folder}/pkg/other_name.py")] {
                changes_nothing(&path, &new, |snapshot| edit::move_file(snapshot, &file, &new));
            }
        }
    }
}

#[test]
fn a_decorator_is_no_change() {
    for path in snapshots() {
        for file in sample(&Edited::open(&path).user_files(), 2) {
            changes_nothing(&path, &format!("decorated {file}"), |snapshot| edit::decorate(snapshot, &file));
        }
    }
}

/// All changes at once, with other targets for other numbers.
fn everything(snapshot: &mut Edited, number: usize) {
    let (files, functions) = (snapshot.user_files(), snapshot.user_functions());
    let (Some(file), Some((renamed_in, function))) =
        (files.get(number % files.len().max(1)), functions.get(number * 7 % functions.len().max(1)))
    else {
        panic!("no code of the user");
    };
    edit::move_lines(snapshot, file, 3);
    edit::rename_function(snapshot, renamed_in, function, "entirely_different");
    edit::decorate(snapshot, &files[(number + 1) % files.len()]);
    let moved = &files[(number + 2) % files.len()];
    let folder = moved.rsplit_once('/').unwrap().0;
    edit::move_file(snapshot, moved, &format!("{folder}/pkg/other_name.py"));
    edit::check_out_elsewhere(snapshot);
    edit::renew_environment(snapshot);
    edit::drift_cpp(snapshot);
    edit::generate_again(snapshot);
    edit::run_again(snapshot);
}

#[test]
fn all_changes_at_once_are_no_change() {
    for path in snapshots().into_iter().chain(STATES.map(fixture)) {
        for number in 0..2 {
            changes_nothing(&path, &format!("everything {number}"), |snapshot| everything(snapshot, number));
        }
    }
}

/// The function and the new line that the label of a stack must contain.
fn expected_label(stack: &[Frame]) -> Option<(String, String)> {
    // A workspace belongs to no line.
    let is_workspace = stack.iter().any(|frame| frame.name.contains("getCurrentCUDABlas"));
    let site = stack.iter().find(|frame| frame.is_user()).filter(|_| !is_workspace)?;
    let file = site.file.rsplit('/').next().unwrap();
    // PyTorch writes the largest integer for a line that it does not know.
    let line = if site.line < 1 << 31 { format!(":{}", site.line) } else { String::new() };
    Some((format!("{} (", site.name), format!("{file}{line})")))
}

/// One more allocation on top of all changes is the only row.
fn grows(before: &Path, number: usize, choose: impl Fn(&[((usize, Vec<Frame>), i128)]) -> Vec<usize>) {
    const BYTES: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let after = folder.path().join("after.pkl");
    let mut model = Edited::open(before);
    everything(&mut model, number);
    let mut stacks: Vec<_> = model.allocating().into_iter().collect();
    stacks.sort_by_key(|(stack, bytes)| (std::cmp::Reverse(*bytes), stack.clone()));
    for chosen in choose(&stacks) {
        let (device, stack) = &stacks[chosen].0;
        let mut edited = Edited::open(before);
        everything(&mut edited, number);
        edited.grow(*device, stack, BYTES);
        edited.write(&after);
        let (code, rows) = compare(before, &after, &NO_GROWTH);
        let place = format!("{}: everything {number}, stack {chosen}", before.display());
        assert_eq!(code, 1, "{place}");
        assert_eq!(rows.len(), 1, "{place}: {:?}", summary(&rows));
        assert_eq!(rows[0]["delta"], BYTES, "{place}");
        let label = rows[0]["label"].as_str().unwrap();
        if let Some((function, line)) = expected_label(stack) {
            assert!(label.contains(&function) && label.contains(&line), "{place}: {label}, not {function}{line}");
        }
    }
}

#[test]
fn growth_on_top_of_all_changes_is_the_only_row() {
    for (number, path) in snapshots().into_iter().enumerate() {
        // The largest, the smallest, one in between, and one without Python.
        grows(&path, number, |stacks| {
            let cpp = stacks.iter().position(|((_, stack), _)| !stack.iter().any(Frame::is_python));
            [0, stacks.len() / 2, stacks.len() - 1].into_iter().chain(cpp).collect()
        });
    }
}

#[test]
fn similar_stacks_are_not_swapped() {
    for (number, path) in snapshots().into_iter().enumerate() {
        // Those that differ from another one in a single frame of the user, of the same depth.
        grows(&path, number, |stacks| {
            let functions = |stack: &[Frame]| -> Vec<(String, String)> {
                stack.iter().filter(|frame| frame.is_user()).map(|f| (f.file.clone(), f.name.clone())).collect()
            };
            let users: Vec<_> = stacks.iter().map(|((_, stack), _)| functions(stack)).collect();
            let differ = |a: &[(String, String)], b: &[(String, String)]| {
                a.len() == b.len() && a.len() > 1 && a.iter().zip(b).filter(|(a, b)| a != b).count() == 1
            };
            let pair =
                (0..users.len()).find_map(|i| Some((i, (i + 1..users.len()).find(|&j| differ(&users[i], &users[j]))?)));
            pair.map(|(i, j)| vec![i, j]).unwrap_or_default()
        });
    }
}

#[test]
fn a_removed_and_an_unrelated_added_stack_are_not_paired() {
    unrelated_stacks_are_not_paired(2);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn removed_and_unrelated_added_stacks_are_exhaustively_not_paired() {
    unrelated_stacks_are_not_paired(6);
}

/// Removes one and adds another of `stacks_of_each` stacks of each snapshot, in every combination.
fn unrelated_stacks_are_not_paired(stacks_of_each: usize) {
    let mut compared = 0;
    for path in snapshots() {
        let mut stacks: Vec<_> = Edited::open(&path).allocating().into_iter().collect();
        stacks.sort_by_key(|(stack, bytes)| (std::cmp::Reverse(*bytes), stack.clone()));
        // One exact stack for every function of the user that allocates.
        let site =
            |stack: &[Frame]| stack.iter().find(|frame| frame.is_user()).map(|f| (f.file.clone(), f.name.clone()));
        let mut seen = std::collections::BTreeSet::new();
        stacks.retain(|((_, stack), _)| site(stack).is_some_and(|site| seen.insert(site)));
        let [((_, largest), _), others @ ..] = &stacks[..] else { continue };
        let others = sample(others, stacks_of_each);
        for removed in &others {
            for added in others.iter().filter(|other| other.0.1 != removed.0.1) {
                let folder = tempfile::tempdir().unwrap();
                let (before, after) = (folder.path().join("before.pkl"), folder.path().join("after.pkl"));
                for (file, gone) in [(&before, added), (&after, removed)] {
                    let mut edited = Edited::open(&path);
                    edited.reattribute(&gone.0.1, largest);
                    edited.write(file);
                }
                for moment in ["peak", "event:20", "event:60"] {
                    let (_, rows) = compare(&before, &after, &["--at", moment]);
                    let moved: Vec<_> = rows.iter().filter(|row| row["moved"] == true).cloned().collect();
                    assert!(moved.is_empty(), "{}: {:?}", path.display(), summary(&moved));
                    compared += rows.len();
                }
            }
        }
    }
    assert!(compared > 20, "only {compared} rows");
}

/// A file was split in two, classes and functions were renamed, and the attention was fused: memory falls, and no stack
/// is new.
#[test]
fn a_refactoring_together_with_another_change_fails_no_limit_on_stacks() {
    let side = |side: &str| fixture(&format!("recorded/changes/moved-and-fused-{side}-2.11.0.pkl.zst"));
    let (code, rows) = compare(&side("before"), &side("after"), &["--max-growth", "stack=5MiB"]);
    assert_eq!(code, 0, "{rows:#?}");
    let large = |row: &&Value| row["delta"].as_i64().unwrap().abs() > 5 << 20;
    let changes: Vec<_> = rows.iter().filter(large).map(|row| row["change"].as_str().unwrap()).collect();
    assert_eq!(changes, ["shrank"]);
}

/// What moved is followed by the history: where a caller dropped it, rows keep their memory.
#[test]
fn rows_add_up_where_the_history_was_dropped() {
    let read = |name: &str| {
        let file = File::open(fixture(&format!("recorded/changes/{name}-2.11.0.pkl.zst"))).unwrap();
        let mut profile = ptmem::read(file, name, ReadOptions::default()).unwrap();
        profile.forget_history();
        profile
    };
    let diff = diff::compare(read("graphs-kept-after"), read("moved-and-fused-after"), DiffOptions::default());
    let grown = diff.profiles.map(|profile| profile.devices[0].allocated_at()).delta();
    assert_eq!(diff.devices[0].rows.iter().map(Row::delta).sum::<i128>(), grown);
}

/// Steps of two blocks of layers, of which the last lines of `forward` are in a function of their own where it is extracted.
fn blocks(extracted_from: Option<usize>) -> Profile {
    let (mut program, caller) = (Program::default(), "/work/train.py:step:50");
    for step in 0..3 {
        let name = |block: usize, line: usize| format!("{step} {block} {line}");
        ["load:7", "embed:8"].iter().for_each(|place| program.alloc(*place, place, 512 * 100));
        for (block, line) in (0..2).flat_map(|block| (0..4).map(move |line| (block, line))) {
            let (own, inner) =
                (format!("/work/model.py:forward:{}", 40 + line), format!("/work/model.py:mlp:{}", 60 + line));
            let frames = match extracted_from.filter(|&from| line >= from) {
                Some(_) => vec![&*inner, "/work/model.py:forward:42", caller],
                None => vec![&*own, caller],
            };
            program.alloc_under(name(block, line), &frames, 512 * [900, 700, 1000, 800][line]);
        }
        (0..8).rev().for_each(|at| program.free(&name(at / 4, at % 4)));
        program.alloc("loss", "loss:70", 512 * 300);
        ["loss", "load:7", "embed:8"].iter().for_each(|name| program.free(name));
    }
    let options = ReadOptions { at: Moment::Aligned, ..ReadOptions::default() };
    profile::read(&*program.snapshot(), "snapshot", options).unwrap()
}

#[test]
fn a_function_that_was_extracted_or_inlined_is_no_change() {
    for from in 1..4 {
        for (before, after) in [(None, Some(from)), (Some(from), None)] {
            let diff = diff::compare(blocks(before), blocks(after), DiffOptions::default());
            let changed: Vec<&Row> = diff.devices[0].rows.iter().filter(|row| row.delta() != 0).collect();
            assert!(changed.is_empty(), "{before:?} -> {after:?}: {changed:#?}");
        }
    }
}

#[test]
fn functions_of_both_sides_do_not_exchange_what_they_hold() {
    let holding = |encode: u64, decode: u64| {
        let mut program = Program::default();
        program.alloc("encode", "encode:10", 512 * encode);
        program.alloc("decode", "decode:20", 512 * decode);
        profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
    };
    let diff = diff::compare(holding(1600, 400), holding(400, 1600), DiffOptions::default());
    let rows: Vec<(&str, i128)> = diff.devices[0].rows.iter().map(|row| (&*row.label, row.delta())).collect();
    assert_eq!(rows, [("decode (job.py:20)", 512 * 1200), ("encode (job.py:10)", -512 * 1200)]);
}

#[test]
fn a_function_that_was_extracted_or_inlined_may_hold_more_or_less() {
    let (caller, step) = ("/work/env.py:step:20", "/work/train.py:step:50");
    let holding = |is_extracted: bool, blocks: u64, bytes: u64| {
        let mut program = Program::default();
        for block in 0..blocks {
            let frames = if is_extracted { vec!["/work/env.py:frames:5", caller, step] } else { vec![caller, step] };
            program.alloc_under(format!("frames {block}"), &frames, 512 * bytes);
            program.alloc_under(format!("reward {block}"), &["/work/env.py:step:21", step], 512);
        }
        profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
    };
    for (blocks, bytes) in [(4, 900), (4, 1010), (12, 1000)] {
        let more = 512 * (i128::from(blocks * bytes) - 4 * 1000);
        for is_inlined in [false, true] {
            let (before, after) = (holding(is_inlined, 4, 1000), holding(!is_inlined, blocks, bytes));
            let diff = diff::compare(before, after, DiffOptions::default());
            // The row of what is extracted may hold the rewards, too.
            let rewards = 512 * i128::from(blocks - 4);
            let deltas: Vec<i128> = diff.devices[0].rows.iter().map(Row::delta).filter(|delta| *delta != 0).collect();
            let is_told = deltas == [more + rewards] || deltas.contains(&more) && deltas.len() == 2;
            assert!(is_told, "{blocks} of {bytes}, {is_inlined}: {deltas:?}");
        }
    }
}

#[test]
fn a_new_function_that_holds_something_else_has_its_own_row() {
    let holding = |frames: &[&str], blocks: u64, bytes: u64| {
        let mut program = Program::default();
        program.alloc_under("first", &["/work/model.py:forward:10", "/work/train.py:step:50"], 512 * 900);
        for block in 0..blocks {
            program.alloc_under(format!("{block}"), frames, 512 * bytes);
        }
        profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
    };
    let (caller, step) = ("/work/model.py:forward:11", "/work/train.py:step:50");
    let before = holding(&[caller, step], 1, 1000);
    let after = holding(&["/work/mask.py:mask:5", caller, step], 2, 300);
    let diff = diff::compare(before, after, DiffOptions::default());
    let mask = diff.devices[0].rows.iter().find(|row| row.label.starts_with("mask"));
    assert_eq!(mask.map(Row::delta), Some(512 * 600));
}
