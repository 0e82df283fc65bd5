//! Memory that a change to the code moved to another group is neither added nor removed, and growth keeps its line.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::history::{A, MIB, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{ptmem, text};

const MODEL: &str = "/repo/tower/modeling.py";
const WRAPPERS: &str = "/env/lib/python3.11/site-packages/tower/generic.py";

type Frames = Vec<(&'static str, &'static str, u64)>;

/// A block that is held to the end: its size, and its frames, innermost first.
struct Block {
    size: u64,
    frames: Frames,
}

fn alloc(action: &str, address: u64, block: &Block) -> Value {
    let frame = |&(name, file, line): &(&str, &str, u64)| {
        Value::dict([("name", name.into()), ("filename", file.into()), ("line", line.into())])
    };
    let frames: Vec<Value> = block.frames.iter().map(frame).collect();
    Value::dict([
        ("action", action.into()),
        ("addr", address.into()),
        ("size", block.size.into()),
        ("stream", 0.into()),
        ("frames", frames.into()),
    ])
}

/// A recording in which all blocks are held at once, and freed.
fn recording(blocks: &[Block]) -> Value {
    let total = 2 * blocks.iter().map(|block| block.size).sum::<u64>();
    let whole = Block { size: total, frames: Vec::new() };
    let mut events = vec![alloc("segment_alloc", A, &whole)];
    let mut address = A;
    let mut frees = Vec::new();
    for block in blocks {
        events.push(alloc("alloc", address, block));
        frees.extend(free(address, block.size));
        address += block.size;
    }
    events.extend(frees);
    snapshot(vec![segment(A, &[(total, false)])], events)
}

fn of_run(recording: Value, functions: &[(u64, u64, &str)]) -> Value {
    recording.with("ptmem", json!({"format": 1, "functions": [[MODEL, functions]]}))
}

const TRAIN: (&str, &str, u64) = ("<module>", "/repo/train.py", 8);

/// Attention is decorated.
fn before() -> Value {
    recording(&[
        Block {
            size: 32 * MIB,
            frames: vec![("forward", MODEL, 122), ("wrapper", WRAPPERS, 17), ("forward", MODEL, 203), TRAIN],
        },
        Block { size: 6 * MIB, frames: vec![("forward", MODEL, 163), ("forward", MODEL, 206), TRAIN] },
    ])
}

const BEFORE: [(u64, u64, &str); 3] =
    [(110, 125, "Attention.forward"), (155, 170, "Mlp.forward"), (200, 210, "Layer.forward")];

/// Without the decorator, three lines higher.
fn after(of_mlp: u64) -> Value {
    recording(&[
        Block { size: 32 * MIB, frames: vec![("forward", MODEL, 119), ("forward", MODEL, 200), TRAIN] },
        Block { size: of_mlp, frames: vec![("forward", MODEL, 160), ("forward", MODEL, 203), TRAIN] },
    ])
}

const AFTER: [(u64, u64, &str); 3] =
    [(108, 122, "Attention.forward"), (152, 167, "Mlp.forward"), (197, 207, "Layer.forward")];

fn diff(folder: &Path, before: &Value, after: &Value) -> (Option<i32>, Json) {
    diff_by(folder, before, after, "stack")
}

fn diff_by(folder: &Path, before: &Value, after: &Value, by: &str) -> (Option<i32>, Json) {
    for (name, recording) in [("before.pkl", before), ("after.pkl", after)] {
        fs::write(folder.join(name), pickle::write(recording, pickle::Options::default())).unwrap();
    }
    let options = ["--max-growth", "0", "--max-growth", "stack=1%", "--min-delta", "0", "--format", "json"];
    let output = ptmem(folder, &[&["diff", "before.pkl", "after.pkl", "--group-by", by], &options[..]].concat());
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    (output.status.code(), report["devices"][0]["stacks"].clone())
}

#[test]
fn a_decorator_that_went_leaves_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let names = [(before(), after(6 * MIB)), (of_run(before(), &BEFORE), of_run(after(6 * MIB), &AFTER))];
    let one_sided = [(before(), of_run(after(6 * MIB), &AFTER)), (of_run(before(), &BEFORE), after(6 * MIB))];
    for (before, after) in names.into_iter().chain(one_sided) {
        assert_eq!(diff(folder.path(), &before, &after), (Some(0), json!([])));
    }
}

/// A line that went to a function in a file of its own.
#[test]
fn what_moved_is_followed_by_line_function_and_file_too() {
    let folder = tempfile::tempdir().unwrap();
    const LAYER: (&str, &str, u64) = ("forward", MODEL, 206);
    let stays = || Block { size: 6 * MIB, frames: vec![("forward", MODEL, 163), LAYER, TRAIN] };
    let loss = || Block { size: 8 * MIB, frames: vec![("loss", "/repo/train.py", 12), TRAIN] };
    let inner = Block { size: 4 * MIB, frames: vec![("forward", MODEL, 164), LAYER, TRAIN] };
    let before = recording(&[stays(), inner, loss()]);
    let file = "/repo/tower/activations.py";
    let moved = Block { size: 4 * MIB, frames: vec![("activate", file, 103), ("forward", MODEL, 164), LAYER, TRAIN] };
    let after = recording(&[stays(), moved, loss()]);
    for by in ["stack", "line", "function", "file"] {
        let (code, rows) = diff_by(folder.path(), &before, &after, by);
        assert_eq!((code, &rows), (Some(0), &json!([])), "{by}: {rows}");
    }
}

#[test]
fn growth_beside_what_moved_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let names = [(before(), after(8 * MIB)), (of_run(before(), &BEFORE), of_run(after(8 * MIB), &AFTER))];
    for (before, after) in names {
        let (code, rows) = diff(folder.path(), &before, &after);
        assert_eq!((code, rows.as_array().unwrap().len()), (Some(1), 1), "{rows}");
        assert_eq!(rows[0]["delta"], 2 * MIB, "{rows}");
        let label = rows[0]["label"].as_str().unwrap();
        assert!(label.contains("forward (tower/modeling.py:160)"), "{label}");
    }
}

/// Two classes of a file with a `forward` each are two rows where their names are known, also in a saved profile.
#[test]
fn functions_of_one_name_are_told_apart_by_their_classes() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = of_run(after(6 * MIB), &AFTER);
    fs::write(folder.path().join("a.pkl"), pickle::write(&recorded, pickle::Options::default())).unwrap();
    assert!(ptmem(folder.path(), &["profile", "a.pkl", "-o", "a.json"]).status.success());
    for input in ["a.pkl", "a.json"] {
        let output = ptmem(folder.path(), &["show", input, "--format", "json"]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        let stacks = report["devices"][0]["stacks"].as_array().unwrap();
        let held: Vec<_> = stacks.iter().map(|stack| stack["peak"].as_u64().unwrap() / MIB).collect();
        assert_eq!(held, [32, 6], "{input}");
        let output = ptmem(folder.path(), &["show", input, "--group-by", "function"]);
        let table = text(&output.stdout);
        assert!(table.contains("Attention.forward") && table.contains("Mlp.forward"), "{input}: {table}");
    }
}
