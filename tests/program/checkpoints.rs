//! What checkpoints run is compared with what autograd runs without them.

use std::fs;
use std::process::Output;

use serde_json::Value as Json;

use crate::support::history::{A, MIB, event, file, frame, free, segment};
use crate::support::pickle::Value;
use crate::support::tool::ptmem;

const CHECKPOINT: &str = "/env/lib/python3.11/site-packages/torch/utils/checkpoint.py";
const GRAPH: &str = "/env/lib/python3.11/site-packages/torch/autograd/graph.py";
const AUTOGRAD: &str = "/env/lib/python3.11/site-packages/torch/autograd/__init__.py";
const FUNCTION: &str = "/env/lib/python3.11/site-packages/torch/autograd/function.py";
const MM: (&str, &str, u64) = ("at::_ops::mm::call(at::Tensor const&)", "??", 0);
const NODE: (&str, &str, u64) = ("torch::autograd::generated::MmBackward0::apply(X)", "??", 0);
const ENGINE: (&str, &str, u64) = ("torch::autograd::Engine::evaluate_function(X)", "??", 0);
const TRAIN: (&str, &str, u64) = ("<module>", "/repo/train.py", 8);
const STEP: (&str, &str, u64) = ("step", "/repo/train.py", 20);

type Frames = &'static [(&'static str, &'static str, u64)];

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

/// A recording of allocations of so many MiB: those that stay are held at the end, the others are freed right away.
fn recording(allocations: &[(Frames, u64, bool)]) -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 400 * MIB)];
    let mut frees = Vec::new();
    let all = [(&[STEP, TRAIN][..], 20, true)].into_iter().chain(allocations.iter().copied());
    for (address, (frames, size, stays)) in (A..).step_by(20 << 20).zip(all) {
        let frames: Vec<Value> = frames.iter().map(|(name, file, line)| frame(name, file, *line)).collect();
        events.push(event("alloc", address, size * MIB).with("frames", frames));
        if stays { &mut frees } else { &mut events }.extend(free(address, size * MIB));
    }
    events.extend(frees);
    file(vec![segment(A, &[(400 * MIB, false)])], events)
}

/// The comparison of two recordings.
fn compare(before: &[(Frames, u64, bool)], after: &[(Frames, u64, bool)], options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), recording(before)).unwrap();
    fs::write(folder.path().join("after.pkl"), recording(after)).unwrap();
    ptmem(folder.path(), &[&["diff", "before.pkl", "after.pkl"], options].concat())
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
