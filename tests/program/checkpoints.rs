//! Memory that moves between the forward pass and its recomputation by a checkpoint is not growth of its code.

use std::fs;
use std::process::Output;

use serde_json::Value as Json;

use crate::support::fixtures;
use crate::support::history::{A, B, MIB, event, file, frame, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

const CHECKPOINT: &str = "/env/lib/python3.11/site-packages/torch/utils/checkpoint.py";
const GRAPH: &str = "/env/lib/python3.11/site-packages/torch/autograd/graph.py";
const AUTOGRAD: &str = "/env/lib/python3.11/site-packages/torch/autograd/__init__.py";
const FUNCTION: &str = "/env/lib/python3.11/site-packages/torch/autograd/function.py";
const MM: (&str, &str, u64) = ("at::_ops::mm::call(at::Tensor const&)", "??", 0);
const GELU: (&str, &str, u64) = ("at::_ops::gelu::call(at::Tensor const&)", "??", 0);
const NODE: (&str, &str, u64) = ("torch::autograd::generated::MmBackward0::apply(X)", "??", 0);
const ENGINE: (&str, &str, u64) = ("torch::autograd::Engine::evaluate_function(X)", "??", 0);
const BLOCK: (&str, &str, u64) = ("forward", "/repo/block.py", 12);
const ENCODER: (&str, &str, u64) = ("encode", "/repo/net.py", 30);
const DECODER: (&str, &str, u64) = ("decode", "/repo/net.py", 50);
const TRAIN: (&str, &str, u64) = ("<module>", "/repo/train.py", 8);
const STEP: (&str, &str, u64) = ("step", "/repo/train.py", 20);
const CALL: (&str, &str, u64) = ("checkpoint", CHECKPOINT, 500);

type Frames = &'static [(&'static str, &'static str, u64)];

/// A block of the encoder, one within a checkpoint, and its recomputation.
const PLAIN: Frames = &[GELU, BLOCK, ENCODER, TRAIN];
const WITHIN: Frames = &[GELU, BLOCK, CALL, ENCODER, TRAIN];
const AGAIN: Frames =
    &[GELU, BLOCK, ("recompute_fn", CHECKPOINT, 1607), NODE, ENGINE, ("unpack_hook", CHECKPOINT, 1173)];
/// A block within a checkpoint of its own and one around the encoder, and its recomputation by the outer one.
const WITHIN_BOTH: Frames = &[GELU, BLOCK, CALL, ENCODER, CALL, TRAIN];
const AGAIN_BY_OUTER: Frames =
    &[GELU, BLOCK, CALL, ENCODER, ("recompute_fn", CHECKPOINT, 1607), NODE, ENGINE, ("unpack_hook", CHECKPOINT, 1173)];
/// The same block of the decoder.
const OTHER: Frames = &[GELU, BLOCK, DECODER, TRAIN];
/// An autograd node, and one that a checkpoint with re-entry runs.
const NODE_PLAIN: Frames = &[MM, NODE, ENGINE];
const NODE_AGAIN: Frames = &[
    MM,
    NODE,
    ENGINE,
    ("_engine_run_backward", GRAPH, 869),
    ("backward", AUTOGRAD, 381),
    ENGINE,
    ("backward", CHECKPOINT, 325),
    ("apply", FUNCTION, 317),
];

/// Held when the backward pass begins.
const LOSS: (Frames, u64, bool) = (&[("loss", "/repo/train.py", 12), TRAIN], 6, true);

/// A recording of allocations of so many MiB: those that stay are held at the end, the others are freed right away.
fn recording(allocations: &[(Frames, u64, bool)]) -> Vec<u8> {
    file(vec![segment(A, &[(400 * MIB, false)])], events(allocations, A))
}

/// Its events. Recomputed blocks have addresses above the others.
fn events(allocations: &[(Frames, u64, bool)], recomputed: u64) -> Vec<Value> {
    let mut events = vec![event("segment_alloc", A, 400 * MIB)];
    let mut frees = Vec::new();
    let all = [(&[STEP, TRAIN][..], 20, true)].into_iter().chain(allocations.iter().copied());
    for (address, (frames, size, stays)) in (A..).step_by(20 << 20).zip(all) {
        let address = if frames == AGAIN { recomputed.max(address) } else { address };
        let frames: Vec<Value> = frames.iter().map(|(name, file, line)| frame(name, file, *line)).collect();
        events.push(event("alloc", address, size * MIB).with("frames", frames));
        if stays { &mut frees } else { &mut events }.extend(free(address, size * MIB));
    }
    events.extend(frees);
    events
}

/// The comparison of two recordings.
fn compare(before: &[(Frames, u64, bool)], after: &[(Frames, u64, bool)], options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), recording(before)).unwrap();
    fs::write(folder.path().join("after.pkl"), recording(after)).unwrap();
    ptmem(folder.path(), &[&["diff", "before.pkl", "after.pkl"], options].concat())
}

/// What a limit on stacks says of a change.
fn of_change(before: &[(Frames, u64, bool)], after: &[(Frames, u64, bool)], limit: &str) -> String {
    judged(verdict(&compare(before, after, &["--max-growth", limit])))
}

#[test]
fn a_checkpoint_that_was_added_moves_memory_into_the_recomputation() {
    let [after, before] =
        ["before", "after"].map(|side| format!("recorded/changes/checkpoint-removed-{side}-2.11.0.pkl.zst"));
    let arguments = ["--max-growth", "stack=1MiB", "--max-growth", "stack-highest=1MiB", "--max-growth", "end=2MiB"];
    let report = text(&ptmem(&fixtures::folder(), &[&["diff", &before, &after], &arguments[..]].concat()).stdout);
    // The table shows both rows.
    let rows = report.lines().filter(|line| line.contains("attend (model.py:29)")).collect::<Vec<_>>().join("\n");
    assert_reads!(rows => str![[r#"
   +5.02 MiB        0 B   5.02 MiB  0 -> 4  added         backward: attend (model.py:29) aten::softmax (+2 more lines)
   -5.02 MiB   5.02 MiB        0 B  4 -> 0  held earlier  attend (model.py:29) aten::softmax (+2 more lines)
"#]]);
    let checks = report.lines().filter(|line| line.starts_with("ok ")).collect::<Vec<_>>().join("\n");
    assert_reads!(checks => str![[r#"
ok    no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints
ok    no stack-highest grew by more than 1.00 MiB, except by what moved into or out of checkpoints
ok    end grew 1.00 MiB (+5.8 %), allowed 2.00 MiB
"#]]);
}

#[test]
fn what_code_holds_in_both_passes_together_is_judged() {
    let layers = [(PLAIN, 4, true), (PLAIN, 4, true), LOSS];
    let checkpointed = |again| [(WITHIN, 4, false), (WITHIN, 4, false), LOSS, (AGAIN, again, true)];
    assert_reads!(of_change(&layers, &checkpointed(4), "stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints"]);
    // A layer is left as it was.
    let half = [(PLAIN, 4, true), (WITHIN, 4, false), LOSS, (AGAIN, 4, true)];
    assert_reads!(of_change(&layers, &half, "stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints"]);
    assert_reads!(of_change(&layers, &half, "stack=±1MiB") => str!["0: PASS no stack changed by more than ±1.00 MiB, except by what moved into or out of checkpoints and 1 whose highest did not"]);
    // And back.
    let gradient = (NODE_PLAIN, 4, true);
    let whole = [(PLAIN, 4, true), (PLAIN, 4, true), LOSS, gradient];
    let first = [(WITHIN, 4, false), (PLAIN, 4, true), LOSS, (AGAIN, 4, true), gradient];
    assert_reads!(of_change(&first, &whole, "stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints"]);
    // The recomputation needs more than both layers did.
    assert_reads!(of_change(&layers, &checkpointed(12), "stack=1MiB") => str!["1: FAIL stack backward: forward (block.py:12) aten::gelu grew 12.00 MiB, allowed 1.00 MiB"]);
    assert_reads!(of_change(&layers, &checkpointed(12), "stack-highest=1MiB") => str!["1: FAIL the most held by stack backward: forward (block.py:12) aten::gelu grew 12.00 MiB, allowed 1.00 MiB"]);
    // A temporary of the layer is never held twice at once, unless it stays.
    let before = [(PLAIN, 4, false), LOSS];
    let [freed, held] = [false, true].map(|stays| [(WITHIN, 4, stays), LOSS, (AGAIN, 4, false)]);
    assert_reads!(of_change(&before, &freed, "stack-highest=1MiB") => str!["0: PASS no stack-highest grew by more than 1.00 MiB, except by what moved into or out of checkpoints, but peak grew 4.00 MiB (+15.4 %)"]);
    assert_reads!(of_change(&before, &held, "stack-highest=1MiB") => str!["1: FAIL the most held by stack backward: forward (block.py:12) aten::gelu grew 4.00 MiB, allowed 1.00 MiB"]);
}

/// What is recomputed is alone in a segment of 16 MiB, and may have filled it.
#[test]
fn an_uncertain_size_of_what_is_recomputed_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let layers = [(PLAIN, 4, true), (PLAIN, 4, true), LOSS];
    let checkpointed = [(WITHIN, 4, false), (WITHIN, 4, false), LOSS, (AGAIN, 4, true)];
    let all =
        [vec![event("segment_alloc", B, 16 * MIB)], events(&checkpointed, B), vec![event("segment_free", B, 16 * MIB)]];
    let settings = [("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("graph_capture_record_stream_reuse", false.into())];
    let after = snapshot(vec![segment(A, &[(400 * MIB, false)])], all.concat());
    let after = after.with("allocator_settings", Value::dict(settings));
    fs::write(folder.path().join("before.pkl"), recording(&layers)).unwrap();
    fs::write(folder.path().join("after.pkl"), pickle::write(&after, pickle::Options::default())).unwrap();
    for (limit, code) in [("stack=1MiB", 3), ("stack=9MiB", 0), ("stack-highest=1MiB", 3), ("stack-highest=13MiB", 0)] {
        let output = ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--strict", "--max-growth", limit]);
        let report = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{report}");
        assert_eq!(report.contains("within-error"), code == 3, "{report}");
    }
}

#[test]
fn growth_beside_what_moved_is_judged_alone() {
    let before = [(PLAIN, 4, true), (PLAIN, 4, true), (OTHER, 4, true), LOSS];
    let after = [(WITHIN, 4, false), (WITHIN, 4, false), (OTHER, 7, true), LOSS, (AGAIN, 4, true)];
    // The decoder calls the same block without a checkpoint.
    assert_reads!(of_change(&before, &after, "stack=1MiB") => str!["1: FAIL stack forward (block.py:12) aten::gelu from decode (net.py:50) grew 3.00 MiB (+75.0 %), allowed 1.00 MiB"]);
    // As much is recomputed as before: nothing moved.
    let checkpointed = |kept, again| [(WITHIN, 4, false), (WITHIN, kept, true), LOSS, (AGAIN, again, true)];
    assert_reads!(of_change(&checkpointed(8, 4), &checkpointed(4, 8), "stack=1MiB") => str!["1: FAIL stack backward: forward (block.py:12) aten::gelu grew 4.00 MiB (+100.0 %), allowed 1.00 MiB"]);
}

#[test]
fn checkpoints_within_each_other_share_what_the_forward_pass_held() {
    let before = [(PLAIN, 4, true), (PLAIN, 4, true), LOSS];
    let nested = |outer, inner| [(WITHIN_BOTH, 4, false), LOSS, (AGAIN_BY_OUTER, outer, true), (AGAIN, inner, true)];
    assert_reads!(of_change(&before, &nested(4, 4), "stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints"]);
    assert_reads!(of_change(&before, &nested(8, 6), "stack=1MiB") => str!["1: FAIL stack backward: forward (block.py:12) aten::gelu from encode (net.py:30) grew 8.00 MiB, allowed 1.00 MiB; 1 more check fails"]);
}

#[test]
fn nodes_within_a_checkpoint_with_re_entry_are_compared_where_autograd_runs_them_itself() {
    let gradients = |of: [Frames; 4]| of.map(|frames| (frames, 4, true));
    let [plain, again] = [NODE_PLAIN, NODE_AGAIN];
    let half = [again, again, plain, plain];
    for (before, after) in [([plain; 4], half), (half, [again; 4]), (half, [plain; 4])] {
        let output = compare(&gradients(before), &gradients(after), &["--format", "json"]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        let rows = report["devices"][0]["stacks"].as_array().unwrap();
        let gained: Vec<i64> = rows.iter().map(|row| row["delta"].as_i64().unwrap()).collect();
        assert_eq!((gained.len(), gained.iter().sum::<i64>()), (2, 0), "{report:#}");
    }
}

#[test]
fn autograd_nodes_within_a_checkpoint_with_re_entry_are_the_same_nodes() {
    let gradients = |of: [Frames; 4], size| of.map(|frames| (frames, size, true));
    let [plain, again] = [NODE_PLAIN, NODE_AGAIN];
    let half = [again, again, plain, plain];
    for (before, after) in [([plain; 4], half), (half, [again; 4]), (half, [plain; 4])] {
        let larger = of_change(&gradients(before, 4), &gradients(after, 6), "stack=1MiB");
        assert!(larger.starts_with("1: FAIL stack backward: MmBackward0"), "{larger}");
        let same = of_change(&gradients(before, 4), &gradients(after, 4), "stack=1MiB");
        assert_reads!(same => str!["0: PASS no stack grew by more than 1.00 MiB, except by what moved into or out of checkpoints"]);
    }
}
