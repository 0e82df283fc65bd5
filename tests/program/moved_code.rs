//! Memory that a change to the code moved to another group is neither added nor removed, and growth keeps its line.

use std::fs;
use std::path::Path;

use ptmem::sides::Sides;
use serde_json::{Value as Json, json};

use crate::support::history::{A, MIB, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{ptmem, text};

const MODEL: &str = "/repo/tower/modeling.py";
const WRAPPERS: &str = "/env/lib/python3.11/site-packages/tower/generic.py";

type Frame = (&'static str, &'static str, u64);
type Frames = Vec<Frame>;

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
    recording_after(&[], blocks)
}

/// The same where other blocks were held one after another before.
fn recording_after(earlier: &[Block], blocks: &[Block]) -> Value {
    let total = 2 * blocks.iter().map(|block| block.size).sum::<u64>();
    let whole = Block { size: total, frames: Vec::new() };
    let mut events = vec![alloc("segment_alloc", A, &whole)];
    for block in earlier {
        events.push(alloc("alloc", A, block));
        events.extend(free(A, block.size));
    }
    let mut address = A;
    let mut frees = Vec::new();
    for block in blocks {
        events.push(alloc("alloc", address, block));
        frees.extend(free(address, block.size));
        address += block.size.next_multiple_of(512);
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

/// A call of a function by a line of the step.
fn called_by(line: u64, size: u64) -> Block {
    Block { size, frames: vec![GELU, ("forward", MODEL, 7), ("step", "/repo/train.py", line), TRAIN] }
}

/// The frame of the step that a report shows of what grew from calls by lines 29 and 47.
fn explained_by_step(after: &[Block]) -> String {
    let folder = tempfile::tempdir().unwrap();
    diff(folder.path(), &recording(&[called_by(29, MIB), called_by(47, 4 * MIB)]), &recording(after));
    let options = ["diff", "before.pkl", "after.pkl", "--explain", "--max-growth", "0", "--min-delta", "0"];
    let report = text(&ptmem(folder.path(), &options).stdout);
    let frames = report.lines().filter(|line| line.contains("step (train.py"));
    frames.map(str::trim).collect::<Vec<_>>().join("\n")
}

/// What one line called before, another one calls now, and the first one more; or a line was added.
#[test]
fn calls_by_the_same_lines_are_the_same_calls() {
    let more_of_both = explained_by_step(&[called_by(29, 4 * MIB), called_by(47, 6 * MIB)]);
    assert_reads!(more_of_both => str!["step (train.py:29)"]);
    let one_added = explained_by_step(&[called_by(29, MIB), called_by(36, 6 * MIB), called_by(47, 4 * MIB)]);
    assert_reads!(one_added => str!["step (train.py:36)"]);
}

/// What a report with explanations shows of the rows of recordings.
fn explained(before: &[Block], after: &[Block]) -> String {
    let folder = tempfile::tempdir().unwrap();
    diff(folder.path(), &recording(before), &recording(after));
    let report = text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--explain"]).stdout);
    report.split("\n\n").filter(|part| part.contains("    <module>")).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn other_operators_of_a_function_are_other_calls() {
    let stays = || Block { size: 300 * MIB, frames: vec![ADD, ("loss", MODEL, 3), TRAIN] };
    let of =
        |operator, line, mib: u64| Block { size: mib * MIB, frames: vec![operator, ("forward", MODEL, line), TRAIN] };
    let both = || vec![of(GELU, 20, 100), of(ADD, 21, 50), stays()];
    // A line was added.
    assert_reads!(explained(&[of(GELU, 20, 100), stays()], &both()) => str![[r#"
  +50.00 MiB  forward (tower/modeling.py:21) aten::add (+1 more line)
    +50.00 MiB  forward (tower/modeling.py:21) aten::add
           0 B  forward (tower/modeling.py:20) aten::gelu
     <module> (train.py:8)
     forward (tower/modeling.py:21)
     aten::add
"#]]);
    // A line went.
    assert_reads!(explained(&both(), &[of(GELU, 20, 100), stays()]) => str![[r#"
  -50.00 MiB  forward (tower/modeling.py:21) aten::add (+1 more line)
    -50.00 MiB  forward (tower/modeling.py:21) aten::add
           0 B  forward (tower/modeling.py:20) aten::gelu
     <module> (train.py:8)
     forward (tower/modeling.py:21)
     aten::add
"#]]);
    // Lines changed places, and one of them grew.
    assert_reads!(explained(&both(), &[of(ADD, 20, 50), of(GELU, 21, 160), stays()]) => str![[r#"
  +60.00 MiB  forward (tower/modeling.py:21) aten::gelu (+1 more line)
    +60.00 MiB  forward (tower/modeling.py:21) aten::gelu
           0 B  forward (tower/modeling.py:20) aten::add
     <module> (train.py:8)
     forward (tower/modeling.py:21), was line 20
     aten::gelu
"#]]);
    // A line does something else.
    assert_reads!(explained(&both(), &[of(MUL, 20, 160), of(ADD, 21, 50), stays()]) => str![[r#"
  +60.00 MiB  forward (tower/modeling.py:20) aten::mul (+1 more line)
    +60.00 MiB  forward (tower/modeling.py:20) aten::mul
           0 B  forward (tower/modeling.py:21) aten::add
    --- before
    +++ after
    @@ … @@
     <module> (train.py:8)
     forward (tower/modeling.py:20)
    -aten::gelu
    +aten::mul
"#]]);
}

/// The same operator on three lines of a function. That a line is the one that went is no more than a guess.
#[test]
fn a_line_beside_others_that_kept_their_order_did_not_move() {
    let of = |line, mib: u64| Block { size: mib * MIB, frames: vec![GELU, ("forward", MODEL, line), TRAIN] };
    let before = [of(20, 100), of(21, 50), of(22, 75)];
    assert_reads!(explained(&before, &[of(20, 100), of(22, 75), of(23, 120)]) => str![[r#"
  +70.00 MiB  forward (tower/modeling.py:23) aten::gelu (+2 more lines)
    +70.00 MiB  forward (tower/modeling.py:23) aten::gelu
           0 B  forward (tower/modeling.py:20) aten::gelu
           0 B  forward (tower/modeling.py:22) aten::gelu
     <module> (train.py:8)
     forward (tower/modeling.py:23)
     aten::gelu
"#]]);
    let folder = tempfile::tempdir().unwrap();
    for after in [vec![of(20, 100), of(22, 75), of(23, 120)], vec![of(20, 100), of(21, 50), of(22, 75), of(23, 9)]] {
        let (_, rows) = diff(folder.path(), &recording(&before), &recording(&after));
        assert_eq!((&rows[0]["frames"][1]["line"], &rows[0]["before_frames"]), (&json!(23), &json!([])), "{rows}");
    }
}

/// What calls the function has another name.
#[test]
fn a_line_that_went_is_in_the_tree_where_its_function_is_now() {
    let of = |caller, operator, line, mib: u64| Block {
        size: mib * MIB,
        frames: vec![operator, ("forward", MODEL, line), (caller, "/repo/train.py", 5), TRAIN],
    };
    let inner = vec![of("step", GELU, 12, 64), of("step", MUL, 14, 33)];
    let (before, after) = Parts { stay: SAME, inner, moved: vec![of("fit", MUL, 13, 33)] }.recordings();
    let folder = tempfile::tempdir().unwrap();
    diff(folder.path(), &before, &after);
    let options = ["diff", "before.pkl", "after.pkl", "--tree", "--min-delta", "0"];
    let report = text(&ptmem(folder.path(), &options).stdout);
    let tree = report.split_once("call tree").and_then(|(_, tree)| tree.split_once("\n\n")).unwrap().0;
    assert_reads!(tree => str![[r#"
 at the peak (-64.00 MiB)
      change      before      after  frame
  -64.00 MiB  111.00 MiB  47.00 MiB  <module> (train.py:8)
  -64.00 MiB   97.00 MiB  33.00 MiB    fit (train.py:5) > forward (tower/modeling.py)
  -64.00 MiB   64.00 MiB        0 B      aten::gelu
         0 B   33.00 MiB  33.00 MiB      [1 other]
         0 B   14.00 MiB  14.00 MiB    [2 others]
"#]]);
}

/// A line that went to a function in a file of its own.
#[test]
fn what_moved_is_followed_by_line_and_function_too() {
    let folder = tempfile::tempdir().unwrap();
    let stays = || Block { size: 6 * MIB, frames: vec![("forward", MODEL, 163), LAYER, TRAIN] };
    let loss = || Block { size: 8 * MIB, frames: vec![("loss", "/repo/train.py", 12), TRAIN] };
    let inner = Block { size: 4 * MIB, frames: vec![("forward", MODEL, 164), LAYER, TRAIN] };
    let before = recording(&[stays(), inner, loss()]);
    let file = "/repo/tower/activations.py";
    let moved = Block { size: 4 * MIB, frames: vec![("activate", file, 103), ("forward", MODEL, 164), LAYER, TRAIN] };
    let after = recording(&[stays(), moved, loss()]);
    for by in ["stack", "line", "function"] {
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

/// The memory of a function: of a line that both sides have, and of others. Those of the after may be in other functions.
struct Parts {
    stay: Sides<u64>,
    inner: Vec<Block>,
    moved: Vec<Block>,
}

const LAYER: (&str, &str, u64) = ("forward", MODEL, 206);
const INNER: (&str, &str, u64) = ("forward", MODEL, 164);
const ACTIVATE: (&str, &str, u64) = ("activate", "/repo/tower/activations.py", 103);
const GELU: (&str, &str, u64) = ("at::_ops::gelu::call(at::Tensor const&)", "??", 0);
const ADD: (&str, &str, u64) = ("at::_ops::add_Tensor::call(at::Tensor const&)", "??", 0);
const MUL: (&str, &str, u64) = ("at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0);
const NODE: (&str, &str, u64) = ("torch::autograd::generated::GeluBackward0::apply(X)", "??", 0);

fn inner(size: u64) -> Block {
    Block { size, frames: vec![GELU, INNER, LAYER, TRAIN] }
}

fn moved(size: u64) -> Block {
    Block { size, frames: vec![GELU, ACTIVATE, INNER, LAYER, TRAIN] }
}

/// In a function that the layer calls.
fn called(size: u64, line: u64) -> Block {
    Block { size, frames: vec![GELU, ("activate", "/repo/tower/activations.py", line), LAYER, TRAIN] }
}

/// Another line of the function.
fn kept(size: u64) -> Block {
    Block { size, frames: vec![GELU, ("forward", MODEL, 165), LAYER, TRAIN] }
}

impl Parts {
    fn recordings(self) -> (Value, Value) {
        let stays = |size| Block { size, frames: vec![GELU, ("forward", MODEL, 163), LAYER, TRAIN] };
        let loss = || Block { size: 8 * MIB, frames: vec![("loss", "/repo/train.py", 12), TRAIN] };
        let [before, after] = [(self.stay.before, self.inner), (self.stay.after, self.moved)]
            .map(|(size, others)| recording(&others.into_iter().chain([stays(size), loss()]).collect::<Vec<_>>()));
        (before, after)
    }

    /// Bytes that each row gained, the largest change first.
    fn gained(self) -> Vec<i64> {
        let (before, after) = self.recordings();
        let (_, rows) = diff(tempfile::tempdir().unwrap().path(), &before, &after);
        rows.as_array().unwrap().iter().map(|row| row["delta"].as_i64().unwrap()).collect()
    }
}

const SAME: Sides<u64> = Sides { before: 6 * MIB, after: 6 * MIB };

/// Stacks are the same ones elsewhere if nothing is different but some of their functions.
#[test]
fn what_only_has_the_same_size_did_not_move() {
    const SIZE: u64 = 4 * MIB;
    let gained = |inner: Vec<Block>, moved: Vec<Block>| Parts { stay: SAME, inner, moved }.gained();
    assert!(gained(vec![inner(SIZE)], vec![moved(SIZE)]).is_empty());
    // In a new function, which copies what was kept before.
    let copy = Block { size: SIZE, frames: vec![ADD, ACTIVATE, INNER, LAYER, TRAIN] };
    assert!(gained(vec![inner(SIZE)], vec![copy]).is_empty());
    // In a new function that asks for less, for which the allocator rounds up.
    assert!(gained(vec![inner(SIZE)], vec![moved(SIZE - 300)]).is_empty());
    let both = [4 << 20, -4 << 20];
    let others = [
        // Other functions.
        vec![Block {
            size: SIZE,
            frames: vec![GELU, ("noise", "/repo/sample.py", 9), ("sample", "/repo/sample.py", 4), TRAIN],
        }],
        // Another operator, in a function of both sides.
        vec![Block { size: SIZE, frames: vec![ADD, ("forward", MODEL, 166), INNER, LAYER, TRAIN] }],
        // The backward pass, where checkpoints run the forward pass again.
        vec![Block { size: SIZE, frames: vec![GELU, ACTIVATE, INNER, LAYER, TRAIN, NODE] }],
        // As many bytes in more blocks.
        vec![moved(SIZE / 2), moved(SIZE / 2)],
    ];
    for (case, other) in others.into_iter().enumerate() {
        assert_eq!(gained(vec![inner(SIZE)], other), both, "{case}");
    }
}

#[test]
fn what_changed_in_place_did_not_move() {
    // A line shrank, another one stayed, and one is new.
    let stay = Sides { before: 6 * MIB, after: 2 * MIB };
    let (one, other) = (vec![kept(4 * MIB)], vec![kept(4 * MIB), moved(4 * MIB)]);
    assert_eq!(Parts { stay, inner: one, moved: other }.gained(), [4 << 20, -4 << 20]);
    // The line grew: had it moved, both would change more.
    let stay = Sides { before: 4 * MIB, after: 6 * MIB };
    assert_eq!(Parts { stay, inner: vec![], moved: vec![moved(4 * MIB)] }.gained(), [4 << 20, 2 << 20]);
}

#[test]
fn the_most_similar_stack_is_the_one_that_moved() {
    let other = Block { size: 4 * MIB, frames: vec![GELU, ("a", "/repo/tower/activations.py", 9), LAYER, TRAIN] };
    let parts = Parts { stay: SAME, inner: vec![inner(4 * MIB)], moved: vec![other, moved(4 * MIB)] };
    let (before, after) = parts.recordings();
    let (_, rows) = diff(tempfile::tempdir().unwrap().path(), &before, &after);
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    let label = rows[0]["label"].as_str().unwrap();
    assert!(label.starts_with("a (tower/activations.py:9)"), "{label}");
}

/// The rows of what a step held before and holds after, beside a line that stays: their labels with the number of lines that they
/// sum, and the MiB of both sides.
fn rows_of(before: Vec<Block>, after: Vec<Block>) -> String {
    let (before, after) = Parts { stay: SAME, inner: before, moved: after }.recordings();
    rows_of_recordings(&before, &after)
}

fn rows_of_recordings(before: &Value, after: &Value) -> String {
    let (_, rows) = diff(tempfile::tempdir().unwrap().path(), before, after);
    let text = |row: &Json| {
        let [before, after] = ["before", "after"].map(|side| row[side].as_u64().unwrap() / MIB);
        let lines = row["lines"].as_array().map_or(1, |lines| lines.len().max(1));
        format!("{} ({lines}) {before} -> {after}", row["label"].as_str().unwrap())
    };
    rows.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join("\n")
}

/// A line of the function, and a call of a new one by such a line.
fn line(line: u64, mib: u64) -> Block {
    Block { size: mib * MIB, frames: vec![GELU, ("forward", MODEL, line), LAYER, TRAIN] }
}

fn extracted(name: &'static str, line: u64, mib: u64) -> Block {
    let frames = vec![GELU, (name, MODEL, 9), ("forward", MODEL, line), LAYER, TRAIN];
    Block { size: mib * MIB, frames }
}

#[test]
fn functions_that_were_extracted_together_are_told_apart_by_their_sizes_and_lines() {
    let both = || vec![line(170, 10), line(171, 100)];
    assert_reads!(rows_of(both(), vec![extracted("weigh", 170, 11), extracted("expand", 171, 104)]) => str![[r#"
expand (tower/modeling.py:9) aten::gelu (1) 100 -> 104
weigh (tower/modeling.py:9) aten::gelu (1) 10 -> 11
"#]]);
    // In another order.
    assert_reads!(rows_of(both(), vec![extracted("expand", 170, 104), extracted("weigh", 171, 11)]) => str![[r#"
expand (tower/modeling.py:9) aten::gelu (1) 100 -> 104
weigh (tower/modeling.py:9) aten::gelu (1) 10 -> 11
"#]]);
    // One of the lines went.
    assert_reads!(rows_of(both(), vec![extracted("expand", 170, 104)]) => str![[r#"
expand (tower/modeling.py:9) aten::gelu (1) 100 -> 104
forward (tower/modeling.py:170) aten::gelu (2) 16 -> 6
"#]]);
    // About as large: by their lines.
    let alike = || vec![line(170, 100), line(171, 100)];
    assert_reads!(rows_of(alike(), vec![extracted("one", 170, 110), extracted("other", 171, 104)]) => str![[r#"
one (tower/modeling.py:9) aten::gelu (1) 100 -> 110
other (tower/modeling.py:9) aten::gelu (1) 100 -> 104
"#]]);
    // In another order, or with another size each: known only together.
    let after = vec![extracted("one", 170, 111), extracted("other", 171, 104)];
    assert_reads!(rows_of(vec![line(170, 100), line(171, 101)], after) => str!["one (tower/modeling.py:9) aten::gelu (2) 201 -> 215"]);
    // Inlined.
    let inlined = vec![extracted("weigh", 170, 11), extracted("expand", 171, 104)];
    assert_reads!(rows_of(inlined, both()) => str!["forward (tower/modeling.py:171) aten::gelu (3) 121 -> 116"]);
}

/// A lambda that became a comprehension: CPython runs its bytecode through several functions of C.
#[test]
fn stacks_that_differ_by_frames_of_c_move_together() {
    let of = |name: &'static str, from: &'static str, mib: u64| Block {
        size: mib * MIB,
        frames: vec![GELU, (from, "??", 0), (name, MODEL, 170), ("forward", MODEL, 170), LAYER, TRAIN],
    };
    let (generic, special) = ("_PyObject_Call", "_PyEval_EvalFrameDefault");
    // Both sides have another lambda and another comprehension.
    let others = || {
        [("<lambda>", 2), ("<listcomp>", 3)].map(|(name, mib)| Block {
            size: mib * MIB,
            frames: vec![GELU, (name, MODEL, 171), ("forward", MODEL, 171), LAYER, TRAIN],
        })
    };
    let before = || {
        let loops = [of("<lambda>", generic, 10), of("<lambda>", special, 20), of("<lambda>", special, 20)];
        loops.into_iter().chain(others()).collect::<Vec<_>>()
    };
    let after = |last: u64| {
        let loops = [20, 20, last].map(|mib| of("<listcomp>", special, mib));
        loops.into_iter().chain(others()).collect::<Vec<_>>()
    };
    assert_reads!(rows_of(before(), after(10)) => str![]);
    // More blocks, or larger ones.
    let more = after(10).into_iter().chain([of("<listcomp>", special, 20)]).collect();
    assert_reads!(rows_of(before(), more) => str![[r#"
forward.<listcomp> (tower/modeling.py:170) aten::gelu (2) 3 -> 73
forward.<lambda> (tower/modeling.py:170) aten::gelu (2) 52 -> 2
"#]]);
    assert_reads!(rows_of(before(), after(14)) => str![[r#"
forward.<listcomp> (tower/modeling.py:170) aten::gelu (2) 3 -> 57
forward.<lambda> (tower/modeling.py:170) aten::gelu (2) 52 -> 2
"#]]);
}

/// Weights that are moved to the device, and converted there by a change.
#[test]
fn weights_that_a_change_converts_are_those_of_before() {
    const MODULE: &str = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py";
    let by = |function: &'static str, called: &'static str, line: u64, mib: u64| Block {
        size: mib * MIB,
        frames: vec![
            ADD,
            (function, MODULE, 9),
            ("_apply", MODULE, 7),
            (called, MODULE, 5),
            ("build", MODEL, line),
            TRAIN,
        ],
    };
    let moved = |mib: u64| by("cuda.<lambda>", "cuda", 30, mib);
    let converted = |mib: u64| by("convert", "to", 30, mib);
    // Both sides have both functions.
    let others = || [by("cuda.<lambda>", "cuda", 31, 1), by("convert", "to", 31, 1)];
    let of = |blocks: Vec<Block>| blocks.into_iter().chain(others()).collect::<Vec<_>>();
    assert_reads!(rows_of(of(vec![moved(32), moved(8)]), of(vec![converted(16), converted(4)])) => str!["build (tower/modeling.py:30) aten::add (2) 41 -> 21"]);
    // More is growth.
    assert_reads!(rows_of(of(vec![moved(32)]), of(vec![converted(36)])) => str![[r#"
build (tower/modeling.py:30) > convert (torch/nn/modules/module.py:9) aten::add (2) 1 -> 37
build (tower/modeling.py:30) > cuda.<lambda> (torch/nn/modules/module.py:9) aten::add (2) 33 -> 1
"#]]);
    assert_reads!(rows_of(of(vec![moved(32)]), of(vec![converted(16), converted(4)])) => str![[r#"
build (tower/modeling.py:30) > convert (torch/nn/modules/module.py:9) aten::add (2) 1 -> 21
build (tower/modeling.py:30) > cuda.<lambda> (torch/nn/modules/module.py:9) aten::add (2) 33 -> 1
"#]]);
    // In another function.
    let teacher = Block {
        size: 16 * MIB,
        frames: vec![
            ADD,
            ("convert", MODULE, 9),
            ("_apply", MODULE, 7),
            ("to", MODULE, 5),
            ("teach", MODEL, 40),
            TRAIN,
        ],
    };
    assert_reads!(rows_of(of(vec![moved(32)]), of(vec![teacher])) => str![[r#"
teach (tower/modeling.py:40) aten::add (1) 0 -> 16
build (tower/modeling.py:30) aten::add (2) 33 -> 1
"#]]);
    // By another operator.
    let mut multiplied = converted(16);
    multiplied.frames[0] = MUL;
    assert_reads!(rows_of(of(vec![moved(32)]), of(vec![multiplied])) => str![[r#"
build (tower/modeling.py:30) aten::mul (2) 1 -> 17
build (tower/modeling.py:30) aten::add (2) 33 -> 1
"#]]);
}

/// What a function of PyTorch holds that a line of a function calls.
fn by_torch(operator: Frame, function: &'static str, line: u64, mib: u64) -> Block {
    let function = (function, "/env/lib/python3.11/site-packages/torch/nn/functional.py", 9);
    Block { size: mib * MIB, frames: vec![operator, function, ("forward", MODEL, line), LAYER, TRAIN] }
}

fn normalized(mib: u64) -> Block {
    by_torch(ADD, "batch_norm", 30, mib)
}

fn activated(mib: u64) -> Block {
    by_torch(GELU, "gelu", 31, mib)
}

/// A recording of blocks, and of others that were held earlier. Both sides have both functions of PyTorch.
fn beside_torch(earlier: &[Block], blocks: Vec<Block>) -> Value {
    let others = [("batch_norm", ADD), ("gelu", GELU)].map(|(function, operator)| {
        let mut other = by_torch(operator, function, 50, 1);
        other.frames[2] = ("head", MODEL, 50);
        other
    });
    recording_after(earlier, &blocks.into_iter().chain(others).collect::<Vec<_>>())
}

/// The same with other lines of the function that call both.
fn beside_lines(earlier: &[Block], block: Block) -> Value {
    beside_torch(earlier, vec![block, by_torch(GELU, "gelu", 32, 4), by_torch(ADD, "batch_norm", 29, 4)])
}

/// With `inplace=True`, the result of an activation is the memory of what it is computed from.
#[test]
fn results_in_place_are_the_same_memory() {
    let plain = beside_torch(&[normalized(16), normalized(8)], vec![activated(16), activated(8)]);
    let in_place = beside_torch(&[], vec![normalized(16), normalized(8)]);
    assert_reads!(rows_of_recordings(&plain, &in_place) => str![]);
    assert_reads!(rows_of_recordings(&in_place, &plain) => str![]);
    // Other lines hold results of both on both sides.
    let plain_beside = beside_lines(&[normalized(16)], activated(16));
    let in_place_beside = beside_lines(&[], normalized(16));
    assert_reads!(rows_of_recordings(&plain_beside, &in_place_beside) => str![]);
    assert_reads!(rows_of_recordings(&in_place_beside, &plain_beside) => str![]);
    // As much by other lines is growth.
    let multiplied = [16, 8].map(|mib| by_torch(MUL, "gelu", 31, mib));
    let beside_growth = beside_torch(&[], [normalized(16), normalized(8)].into_iter().chain(multiplied).collect());
    assert_reads!(rows_of_recordings(&plain, &beside_growth) => str!["forward (tower/modeling.py:31) aten::mul (1) 0 -> 24"]);
    // More is growth.
    let larger = beside_torch(&[normalized(16)], vec![activated(20), activated(8)]);
    assert_reads!(rows_of_recordings(&in_place, &larger) => str![[r#"
forward (tower/modeling.py:31) aten::gelu (1) 0 -> 28
forward (tower/modeling.py:30) aten::add (1) 24 -> 0
"#]]);
    // Another function allocated.
    let mut other = normalized(16);
    other.frames[2] = ("encode", MODEL, 12);
    let encoded = beside_torch(&[normalized(16)], vec![other, normalized(8)]);
    assert_reads!(rows_of_recordings(&plain, &encoded) => str![[r#"
encode (tower/modeling.py:12) aten::add (1) 0 -> 16
forward (tower/modeling.py:31) aten::gelu (1) 24 -> 0
forward (tower/modeling.py:30) aten::add (1) 0 -> 8
"#]]);
    // Neither frees anything.
    assert_reads!(rows_of_recordings(&beside_lines(&[], activated(16)), &in_place_beside) => str![[r#"
forward (tower/modeling.py:30) aten::add (2) 4 -> 20
forward (tower/modeling.py:31) aten::gelu (2) 20 -> 4
"#]]);
    // The line that frees its block does so on both sides.
    let temporary = [by_torch(GELU, "gelu", 33, 2)];
    let other_line = beside_lines(&temporary, by_torch(ADD, "batch_norm", 60, 16));
    assert_reads!(rows_of_recordings(&beside_lines(&temporary, activated(16)), &other_line) => str![[r#"
forward (tower/modeling.py:60) aten::add (2) 4 -> 20
forward (tower/modeling.py:31) aten::gelu (2) 20 -> 4
"#]]);
    // What one side frees is smaller.
    let smaller = beside_lines(&[by_torch(ADD, "batch_norm", 33, 2)], activated(16));
    assert_reads!(rows_of_recordings(&smaller, &in_place_beside) => str![[r#"
forward (tower/modeling.py:30) aten::add (2) 4 -> 20
forward (tower/modeling.py:31) aten::gelu (2) 20 -> 4
"#]]);
    assert_reads!(rows_of_recordings(&in_place_beside, &smaller) => str![[r#"
forward (tower/modeling.py:31) aten::gelu (2) 4 -> 20
forward (tower/modeling.py:33) aten::add (2) 20 -> 4
"#]]);
    // Neither side runs both.
    let alone = beside_torch(&[], vec![activated(16), activated(8)]);
    assert_reads!(rows_of_recordings(&in_place, &alone) => str![[r#"
forward (tower/modeling.py:31) aten::gelu (1) 0 -> 24
forward (tower/modeling.py:30) aten::add (1) 24 -> 0
"#]]);
}

/// What functions hold that the layer calls.
fn of_layer(frames: &[(&'static str, &'static str, u64)], mib: u64) -> Block {
    Block { size: mib * MIB, frames: [&[GELU], frames, &[LAYER, TRAIN]].concat() }
}

/// The same beside other lines of two functions.
fn beside_others(mib: u64, blocks: impl IntoIterator<Item = Block>) -> Vec<Block> {
    let others = [of_layer(&[("encode", MODEL, 12)], mib), of_layer(&[("decode", MODEL, 22)], mib)];
    others.into_iter().chain(blocks).collect()
}

/// The same where both functions multiply.
fn beside_calls(blocks: impl IntoIterator<Item = Block>) -> Vec<Block> {
    let mut all = beside_others(1, blocks);
    all[..2].iter_mut().for_each(|other| other.frames[0] = MUL);
    all
}

const TEACHER: (&str, &str, u64) = ("forward", "/repo/tower/teacher.py", 7);
const STUDENT: (&str, &str, u64) = ("forward", "/repo/tower/student.py", 7);

/// A change extracts lines of two functions, and doubles all sizes.
#[test]
fn sizes_that_are_equal_by_chance_are_not_the_same_memory() {
    let encode = ("encode", MODEL, 10);
    let decode = ("decode", MODEL, 20);
    let inline = [of_layer(&[encode], 64), of_layer(&[decode], 128)];
    let new = [of_layer(&[("expand", MODEL, 40), encode], 128), of_layer(&[("widen", MODEL, 50), decode], 256)];
    assert_reads!(rows_of(beside_others(1, inline), beside_others(2, new)) => str![[r#"
widen (tower/modeling.py:50) aten::gelu (1) 128 -> 256
expand (tower/modeling.py:40) aten::gelu (1) 64 -> 128
decode (tower/modeling.py:22) aten::gelu (1) 1 -> 2
encode (tower/modeling.py:12) aten::gelu (1) 1 -> 2
"#]]);
    // Two lines of one function.
    let doubled = vec![extracted("expand", 170, 40), extracted("widen", 171, 80)];
    assert_reads!(rows_of(vec![line(170, 20), line(171, 40)], doubled) => str![[r#"
widen (tower/modeling.py:9) aten::gelu (1) 40 -> 80
expand (tower/modeling.py:9) aten::gelu (1) 20 -> 40
"#]]);
    // One function holds what another one held.
    let [before, after] = [decode, encode].map(|own| beside_others(1, [of_layer(&[own], 128)]));
    assert_reads!(rows_of(before, after) => str![[r#"
encode (tower/modeling.py:10) aten::gelu (2) 1 -> 129
decode (tower/modeling.py:20) aten::gelu (2) 129 -> 1
"#]]);
    // Of one name, in two files.
    let [before, after] =
        [TEACHER, STUDENT].map(|own| vec![of_layer(&[TEACHER], 1), of_layer(&[STUDENT], 1), of_layer(&[own], 70)]);
    assert_reads!(rows_of(before, after) => str![[r#"
forward (tower/student.py:7) aten::gelu (1) 1 -> 71
forward (tower/teacher.py:7) aten::gelu (1) 71 -> 1
"#]]);
    // A copy in a new function of the name of its callers.
    let caller = ("forward", "/repo/tower/teacher.py", 8);
    let mut copy = of_layer(&[("forward", "/repo/tower/new.py", 3), caller], 70);
    copy.frames[0] = ADD;
    let before = vec![of_layer(&[TEACHER], 1), of_layer(&[caller], 70)];
    assert_reads!(rows_of(before, vec![of_layer(&[TEACHER], 1), copy]) => str![]);
}

/// A line moves from one function to another, which both sides have.
#[test]
fn a_line_may_move_between_functions_that_stay() {
    let [encode, decode] = ["encode", "decode"].map(|name| (name, MODEL, 10));
    let act = ("act", MODEL, 3);
    let callers = [encode, decode].map(|own| [own, (if own == encode { "first" } else { "second" }, MODEL, 50)]);
    // The line, or a call of it, or one from other callers.
    for (inner, depth) in [(&[][..], 1), (&[act], 1), (&[act], 2)] {
        let [before, after] = callers.map(|own| {
            let moved = of_layer(&[inner, &own[..depth]].concat(), 128);
            let others = callers.map(|own| Block { frames: [&[ADD], &own[..], &[LAYER, TRAIN]].concat(), size: MIB });
            others.into_iter().chain([moved]).collect()
        });
        assert_reads!(rows_of(before, after) => str![]);
    }
    // It is followed beside growth of the function that it left, too, unless that is as large: then another line may be new in decode.
    let grown = [64, 128, 256].map(|mib| {
        let mut own = of_layer(&[encode], mib);
        own.frames[0] = ADD;
        let after = [of_layer(&[("decode", MODEL, 22)], 128), own];
        rows_of(beside_calls([of_layer(&[encode], 128)]), beside_calls(after))
    });
    assert_reads!(grown.join("\n") => str![[r#"
encode (tower/modeling.py:10) aten::add (2) 1 -> 65
decode (tower/modeling.py:22) aten::gelu (2) 1 -> 129
encode (tower/modeling.py:10) aten::add (2) 1 -> 257
"#]]);
    // Unless growth of the other function may be hidden by that.
    let other = [of_layer(&[("decode", MODEL, 22)], 128), of_layer(&[("decode", MODEL, 23)], 64)];
    let mut own = of_layer(&[encode], 128);
    own.frames[0] = ADD;
    let rows = rows_of(beside_calls([of_layer(&[encode], 128)]), beside_calls(other.into_iter().chain([own])));
    assert_reads!(rows => str!["decode (tower/modeling.py:22) aten::gelu (3) 1 -> 193"]);
    // Another caller of a function that allocated so before.
    let [before, after] = [&[encode][..], &[act, decode]].map(|own| {
        let mut blocks = beside_others(1, []);
        blocks.iter_mut().for_each(|other| other.frames[0] = ADD);
        blocks.extend([of_layer(&[act, ("other", MODEL, 70)], 2), of_layer(own, 128)]);
        blocks
    });
    assert_reads!(rows_of(before, after) => str![[r#"
act (tower/modeling.py:3) aten::gelu from decode (tower/modeling.py:10) (1) 0 -> 128
encode (tower/modeling.py:10) aten::gelu (2) 129 -> 1
"#]]);
    // The function that it left still has such a call.
    let [before, after] =
        [encode, decode].map(|own| beside_others(1, [of_layer(&[act, encode], 2), of_layer(&[act, own], 128)]));
    assert_reads!(rows_of(before, after) => str![[r#"
act (tower/modeling.py:3) aten::gelu from decode (tower/modeling.py:10) (1) 0 -> 128
act (tower/modeling.py:3) aten::gelu from encode (tower/modeling.py:10) (1) 130 -> 2
"#]]);
    // A new function is called, by another operator.
    let mut gate = of_layer(&[("gate", MODEL, 60), decode], 128);
    gate.frames[0] = ADD;
    assert_reads!(rows_of(beside_others(1, [of_layer(&[encode], 128)]), beside_others(1, [gate])) => str![[r#"
gate (tower/modeling.py:60) aten::add (1) 0 -> 128
encode (tower/modeling.py:10) aten::gelu (2) 129 -> 1
"#]]);
    // Whatever that function is called.
    let [before, after] = [(act, encode), (("activate", MODEL, 3), decode)]
        .map(|(inner, own)| beside_others(1, [of_layer(&[inner, encode], 2), of_layer(&[inner, own], 128)]));
    assert_reads!(rows_of(before, after) => str![[r#"
activate (tower/modeling.py:3) aten::gelu from decode (tower/modeling.py:10) (1) 0 -> 128
activate (tower/modeling.py:3) aten::gelu from encode (tower/modeling.py:10) (1) 130 -> 2
"#]]);
}

#[test]
fn what_other_functions_hold_was_not_extracted() {
    // Both sides have both callers.
    let [before, after] = [(&[TEACHER][..], 300), (&[("positions", MODEL, 5), STUDENT], 304)].map(|(frames, mib)| {
        let callers = [TEACHER, STUDENT].map(|caller| of_layer(&[("act", MODEL, 3), caller], 2));
        callers.into_iter().chain([of_layer(frames, mib)]).collect()
    });
    assert_reads!(rows_of(before, after) => str![[r#"
positions (tower/modeling.py:5) aten::gelu (1) 0 -> 304
forward (tower/teacher.py:7) aten::gelu (1) 300 -> 0
"#]]);
    // Less than half of the functions are the same.
    let deep = ["allocate", "collect", "cache"].map(|name| (name, MODEL, 5));
    let held = Block { size: 300 * MIB, frames: [&[GELU], &deep[..], &[TRAIN]].concat() };
    let holds = Block { size: 310 * MIB, frames: vec![GELU, TRAIN] };
    assert_reads!(rows_of(vec![held], vec![holds]) => str![[r#"
<module> (train.py:8) aten::gelu (1) 0 -> 310
allocate (tower/modeling.py:5) aten::gelu (1) 300 -> 0
"#]]);
    // Three times as large.
    assert_reads!(rows_of(vec![line(170, 10)], vec![extracted("one", 170, 30)]) => str![[r#"
one (tower/modeling.py:9) aten::gelu (1) 0 -> 30
forward (tower/modeling.py:170) aten::gelu (2) 16 -> 6
"#]]);
}

/// By frames a stack is what was recorded, and what memory is tagged with is not a place in the code.
#[test]
fn frames_and_tags_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let inner = vec![inner(4 * MIB), called(2 * MIB, 100)];
    let new = ("new", MODEL, 9);
    let moved = Block { size: 4 * MIB, frames: vec![GELU, new, ACTIVATE, INNER, LAYER, TRAIN] };
    let moved = vec![called(2 * MIB, 100), moved];
    let (before, after) = Parts { stay: SAME, inner, moved }.recordings();
    for (by, count) in [("stack", 0), ("frames", 2)] {
        let (_, rows) = diff_by(folder.path(), &before, &after, by);
        assert_eq!(rows.as_array().unwrap().len(), count, "{by}: {rows}");
    }
    let tagged = |tag: &str| {
        let event = alloc("alloc", A, &Block { size: 4 * MIB, frames: vec![INNER, TRAIN] }).with("user_metadata", tag);
        let rest = Block { size: 8 * MIB, frames: Vec::new() };
        snapshot(
            vec![segment(A, &[(8 * MIB, false)])],
            [vec![alloc("segment_alloc", A, &rest), event], free(A, 4 * MIB).into()].concat(),
        )
    };
    let (_, rows) = diff_by(folder.path(), &tagged("one"), &tagged("other"), "metadata");
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
}

/// Attention and the MLP of a file, under one name each, go to two files while the batch grows.
#[test]
fn classes_that_went_to_files_of_their_own_grow_as_one_row() {
    let frames = |file: &'static str, line| vec![GELU, ("forward", file, line), LAYER, TRAIN];
    let of_layer = |size| Block { size, frames: vec![ADD, ("forward", MODEL, 206), TRAIN] };
    let side = |files: [&'static str; 2], unit: u64| {
        let [attention, mlp] = files;
        let blocks = [(2, attention, 122), (2, attention, 123), (8, mlp, 163)];
        let blocks = blocks.map(|(size, file, line)| Block { size: size * unit, frames: frames(file, line) });
        recording(&blocks.into_iter().chain([of_layer(2 * unit)]).collect::<Vec<_>>())
    };
    let before = side([MODEL, MODEL], MIB);
    let after = side(["/repo/tower/attention.py", "/repo/tower/mlp.py"], 2 * MIB);
    let (_, rows) = diff(tempfile::tempdir().unwrap().path(), &before, &after);
    let gained: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["delta"].as_u64().unwrap() / MIB).collect();
    assert_eq!(gained, [12, 2], "{rows}");
}

/// Of stacks that differ in C++ frames alone, a saved profile has the Python frames once.
#[test]
fn in_a_saved_profile_the_same_part_of_a_stack_moves_as_in_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let variant = |cpp: &'static str| Block { size: 4 * MIB, frames: vec![(cpp, "??", 0), GELU, INNER, LAYER, TRAIN] };
    let inner = vec![variant("at::native::one(X)"), variant("at::native::other(X)")];
    let (before, after) = Parts { stay: SAME, inner, moved: vec![kept(4 * MIB), moved(4 * MIB)] }.recordings();
    fs::write(folder.path().join("a.pkl"), pickle::write(&before, pickle::Options::default())).unwrap();
    fs::write(folder.path().join("after.pkl"), pickle::write(&after, pickle::Options::default())).unwrap();
    assert!(ptmem(folder.path(), &["profile", "a.pkl", "-o", "a.json"]).status.success());
    let rows = |before| {
        let output = ptmem(folder.path(), &["diff", before, "after.pkl", "--min-delta", "0", "--format", "json"]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        report["devices"][0]["stacks"].clone()
    };
    let of_snapshot = rows("a.pkl");
    assert_eq!(of_snapshot, json!([]));
    assert_eq!(rows("a.json"), of_snapshot);
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

/// A recording with the shapes of its tensors.
fn shaped(blocks: &[Block], shapes: &[&str]) -> Value {
    let names = [&[""], shapes].concat();
    let empty = vec![""; names.len()];
    let allocations: Vec<_> = (1..names.len()).map(|number| (1, number)).collect();
    recording(blocks).with("ptmem", json!({
        "format": 1,
        "modules": [{
            "device": 0, "names": empty, "purposes": empty, "shapes": names, "allocations": allocations, "blocks": [],
        }],
    }))
}

/// A line grew, and another one moved to a function of its own.
#[test]
fn rows_beside_what_moved_have_the_shapes_of_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let before = shaped(&[inner(4 * MIB), kept(6 * MIB)], &["f32 [1024, 1024]", "f32 [1536, 1024]"]);
    let after = shaped(&[moved(4 * MIB), kept(8 * MIB)], &["f32 [1024, 1024]", "f32 [2048, 1024]"]);
    let (_, rows) = diff(folder.path(), &before, &after);
    let explained = text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--explain"]).stdout);
    let shapes: Vec<_> = explained.lines().filter(|line| line.contains("f32")).collect();
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_reads!(shapes.join("\n") => str![[r#"
    +8.00 MiB  f32 [2048, 1024] × 1
    -6.00 MiB  f32 [1536, 1024] × 1
"#]]);
}
