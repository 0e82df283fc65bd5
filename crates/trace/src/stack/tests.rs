//! Keys, names and groups of stacks.

use std::collections::BTreeSet;

use ptmem_snapshot::snapshot::{Frame, StackId, Tables};

use super::group_by::tag_name;
use super::label::distinct_labels;
use super::*;

fn stack(tables: &mut Tables, frames: &[(&str, &str, i128)]) -> StackId {
    let ids: Vec<_> = frames
        .iter()
        .map(|&(name, file, line)| {
            let name = tables.intern_string(name);
            let filename = tables.intern_string(file);
            let frame = Frame { name, filename, line, original: None };
            tables.intern_frame(frame)
        })
        .collect();
    tables.intern_stack(&ids)
}

/// The keys of stacks, each in a snapshot of its own.
fn keys(by: GroupBy, stacks: &[&[(&str, &str, i128)]]) -> Vec<Key> {
    stacks.iter().map(|frames| key(by, frames)).collect()
}

fn key(by: GroupBy, frames: &[(&str, &str, i128)]) -> Key {
    let mut tables = Tables::default();
    let id = stack(&mut tables, frames);
    Grouper::new(&tables, by, &Rules::default()).key(id)
}

/// The label of a stack in a snapshot of its own.
fn label_by(by: GroupBy, frames: &[(&str, &str, i128)]) -> String {
    let mut tables = Tables::default();
    let id = stack(&mut tables, frames);
    Grouper::new(&tables, by, &Rules::default()).label(id)
}

fn label(frames: &[(&str, &str, i128)], strip_prefix: &[&str]) -> String {
    let mut tables = Tables::default();
    let id = stack(&mut tables, frames);
    let strip_prefix = strip_prefix.iter().map(|&prefix| prefix.to_owned()).collect();
    Grouper::new(&tables, GroupBy::Stack, &Rules { strip_prefix, ..Rules::default() }).label(id)
}

const LINEAR: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py";
const MODULE: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py";
const UNWIND: (&str, &str, i128) = ("torch::unwind::unwind()", "??", 0);
const MM: (&str, &str, i128) = ("at::_ops::mm::call(at::Tensor const&)", "??", 0);
const NODE: (&str, &str, i128) = ("torch::autograd::generated::MmBackward0::apply(std::vector<X>&&)", "??", 0);
const ENGINE: (&str, &str, i128) = ("torch::autograd::Engine::thread_main(X const&)", "??", 0);

#[test]
fn library_code_below_the_line_of_the_user_is_named_as_well() {
    const ACTIVATIONS: &str = "/opt/venv/lib/python3.11/site-packages/transformers/activations.py";
    const BERT: &str = "/opt/venv/lib/python3.11/site-packages/transformers/models/bert.py";
    let train = ("<module>", "/home/me/repo/train.py", 8);
    let frames = [UNWIND, MM, ("forward", LINEAR, 125), ("forward", ACTIVATIONS, 57), ("forward", BERT, 9), train];
    assert_eq!(label(&frames, &[]), "<module> (train.py:8) > forward (transformers/activations.py:57) aten::mm");
    // Library code that calls the user, such as a trainer, does not belong to it.
    let frames = [UNWIND, MM, train, ("fit", BERT, 9)];
    assert_eq!(label(&frames, &[]), "<module> (train.py:8) aten::mm");
}

#[test]
fn the_rest_of_a_function_behind_a_break_of_its_graph_is_that_function() {
    let resumed = |name: &'static str, line| {
        [MM, (name, "/home/me/repo/model.py", line), ("forward", "/home/me/repo/model.py", 7)]
    };
    let before = resumed("torch_dynamo_resume_in_forward_at_9", 9);
    assert_eq!(label(&before, &[]), "forward (model.py:9) aten::mm");
    assert_eq!(key(GroupBy::Stack, &before), key(GroupBy::Stack, &resumed("torch_dynamo_resume_in_forward_at_12", 12)));
}

#[test]
fn equal_labels_are_told_apart_by_their_callers() {
    let helper = ("forward", "/home/me/repo/model.py", 39);
    let main = ("<module>", "/home/me/repo/train.py", 3);
    let mut tables = Tables::default();
    let callers = [52, 53].map(|line| ("attention", "/home/me/repo/model.py", line));
    let mut stacks: Vec<_> = callers.iter().map(|&caller| stack(&mut tables, &[helper, caller, main])).collect();
    stacks.push(stack(&mut tables, &[helper, main]));
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    let all: Vec<_> = stacks.iter().map(|&stack| (&grouper, stack)).collect();
    let labels = distinct_labels(&grouper.label(stacks[0]), &all);
    assert_eq!(
        labels,
        [
            "forward (model.py:39) from attention (model.py:52)",
            "forward (model.py:39) from attention (model.py:53)",
            "forward (model.py:39) from <module> (train.py:3)",
        ]
    );
    // Stacks that do not differ in their frames are numbered.
    let labels = distinct_labels(&grouper.label(stacks[0]), &[all[0], all[0]]);
    assert_eq!(labels, ["forward (model.py:39)", "forward (model.py:39) #2"]);
}

#[test]
fn stacks_that_differ_in_what_they_call_say_so() {
    let step = ("step", "/home/me/repo/train.py", 9);
    let mut tables = Tables::default();
    let callees = [("_init_group", 114), ("_multi_tensor_adamw", 564)];
    let adam = "/e/lib/python3.11/site-packages/torch/optim/adamw.py";
    let stacks = callees.map(|(name, line)| stack(&mut tables, &[("zeros", LINEAR, 1), (name, adam, line), step]));
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    let labels = distinct_labels(&grouper.label(stacks[0]), &stacks.map(|stack| (&grouper, stack)));
    let expected = [
        "step (train.py:9) > _init_group (torch/optim/adamw.py:114)",
        "step (train.py:9) > _multi_tensor_adamw (torch/optim/adamw.py:564)",
    ];
    assert_eq!(labels, expected);
}

/// Each stack calls one more time: with all frames in which they differ, labels take memory with the square of their number.
#[test]
fn labels_of_nested_calls_are_bounded() {
    let call = ("walk", "/home/me/repo/tree.py", 7);
    let mut tables = Tables::default();
    let stacks: Vec<StackId> = (1..=400).map(|depth| stack(&mut tables, &vec![call; depth])).collect();
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    let all: Vec<_> = stacks.iter().map(|&stack| (&grouper, stack)).collect();
    let labels = distinct_labels(&grouper.label(stacks[0]), &all);
    assert_eq!(labels[2], "walk (tree.py:7) from walk (tree.py:7) from walk (tree.py:7)");
    assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), stacks.len());
    let longest = &labels[399];
    assert_eq!((longest.matches(" from ").count(), longest.rsplit(' ').next()), (32, Some("#368")));
    // Frames beyond the bound do not distinguish.
    let outermost = ["one", "other"].map(|name| {
        let mut frames = vec![call; 300];
        frames.push((name, "/home/me/repo/main.py", 1));
        stack(&mut tables, &frames)
    });
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    let labels = distinct_labels("walk (tree.py:7)", &outermost.map(|stack| (&grouper, stack)));
    assert_eq!(labels, ["walk (tree.py:7)", "walk (tree.py:7) #2"]);
}

#[test]
fn lambdas_and_comprehensions_are_named_after_the_function_around_them() {
    let model = "/home/me/repo/model.py";
    let helper = ("apply", model, 12);
    let frames = [("<lambda>", model, 41), ("map", "/home/me/repo/tools.py", 40), helper, ("forward", model, 40)];
    assert_eq!(label(&frames, &[]), "forward.<lambda> (model.py:41)");
    let frames = [("<listcomp>", model, 41), ("<genexpr>", model, 41), ("build", model, 39), ("main", model, 90)];
    assert_eq!(label(&frames, &[]), "build.<listcomp> (model.py:41)");
    assert_eq!(
        label(&[("<genexpr>", model, 41), ("main", "/home/me/repo/train.py", 3)], &[]),
        "<genexpr> (model.py:41)"
    );
}

#[test]
fn the_backward_pass_of_a_compiled_graph_is_named_after_that() {
    let files = [
        "_ops.py",
        "_dynamo/backends/cudagraphs.py",
        "_functorch/_aot_autograd/runtime_wrappers.py",
        "autograd/function.py",
    ];
    let [ops, cloner, wrappers, function] = files.map(|file| format!("/e/lib/python3.11/site-packages/torch/{file}"));
    let apply = ("apply", &*function, 317);
    let backward = ("backward", &*wrappers, 2748);
    let frames = [("__call__", &*ops, 865), ("cloner", &*cloner, 21), backward, apply];
    assert_eq!(label(&frames, &[]), "backward: compiled graph > cloner (torch/_dynamo/backends/cudagraphs.py:21)");
    let generated = [MM, ("call", "/tmp/torchinductor_me/ab/cab.py", 99), backward, apply];
    assert_eq!(label(&generated, &[]), "backward: compiled graph > call (<inductor>) aten::mm");
    let labels = [GroupBy::Category, GroupBy::Line].map(|by| label_by(by, &frames));
    assert_eq!(labels, ["backward", "backward: compiled graph"]);
    // A function of the user that autograd calls is the user's line.
    let own = [("backward", "/home/me/repo/ops.py", 12), apply];
    assert_eq!(label(&own, &[]), "backward: backward (ops.py:12)");
    // The same frames in the forward pass are called by a line of the user.
    let forward = [("__call__", &*ops, 865), backward, apply, ("step", "/home/me/repo/train.py", 9)];
    assert_eq!(label(&forward, &[]), "step (train.py:9)");
}

#[test]
fn the_label_is_the_innermost_line_of_the_user() {
    let forward = ("forward", "/home/me/repo/net/model.py", 54);
    let main = ("<module>", "/home/me/repo/train.py", 3);
    // On Python 3.11 and later, Python frames follow the C++ ones.
    let frames = [UNWIND, MM, ("_start", "??", 0), ("forward", LINEAR, 125), forward, main];
    assert_eq!(label(&frames, &[]), "forward (net/model.py:54) aten::mm");
    assert_eq!(label(&frames, &["/home/me/"]), "forward (repo/net/model.py:54) aten::mm");
    assert_eq!(label(&[UNWIND, ("forward", LINEAR, 125)], &[]), "forward (torch/nn/modules/linear.py:125)");
    assert_eq!(label(&[("call", "/tmp/torchinductor_me/ab/cab.py", 99)], &[]), "call (<inductor>)");
    assert_eq!(label(&[("f", "/a/b.py", (1 << 64) - 1)], &[]), "f (b.py)");
    assert_eq!(label(&[UNWIND, MM, NODE, ENGINE], &[]), "backward: MmBackward0");
    assert_eq!(label(&[MM, forward, ENGINE], &[]), "backward: forward (model.py:54) aten::mm");
}

#[test]
fn generated_code_is_named_after_what_it_was_generated_from() {
    let mut tables = Tables::default();
    let caller = stack(&mut tables, &[("main", "/r/train.py", 9)]);
    let original = stack(&mut tables, &[("forward", "/r/model.py", 54)]);
    let original = tables.stack(original)[0];
    let name = tables.intern_string("forward");
    let filename = tables.intern_string("fx_generated_0a.py");
    let generated = tables.intern_frame(Frame { name, filename, line: 3, original: Some(original) });
    let frames = [generated, tables.stack(caller)[0]];
    let id = tables.intern_stack(&frames);
    assert_eq!(Grouper::new(&tables, GroupBy::Stack, &Rules::default()).label(id), "forward (model.py:54)");
}

#[test]
fn a_prefix_can_make_installed_code_the_users() {
    let frames = [("f", "/env/lib/python3.11/site-packages/mine/core.py", 7), ("g", "/home/me/run.py", 1)];
    assert_eq!(label(&frames, &[]), "g (run.py:1) > f (mine/core.py:7)");
    assert_eq!(label(&frames, &["/env/lib/python3.11/site-packages/mine"]), "f (core.py:7)");
    // An environment within the prefix stays one.
    assert_eq!(label(&[("forward", LINEAR, 1), ("g", "/opt/run.py", 1)], &["/opt"]), "g (run.py:1)");
}

#[test]
fn lines_checkouts_and_releases_leave_the_key_alone() {
    let before: &[_] = &[("forward", LINEAR, 125), ("step", "/home/a/repo/train.py", 7)];
    let other = "D:\\env\\Lib\\site-packages\\torch\\nn\\modules\\linear.py";
    let after: &[_] = &[
        ("forward", other, 130),
        ("_call_impl", MODULE, 1),
        ("step", "C:\\checkout\\repo\\train.py", 10),
        ("_bootstrap", "/usr/lib/python3.12/threading.py", 9),
    ];
    let renamed: &[_] = &[("forward", LINEAR, 125), ("step2", "/home/a/repo/train.py", 7)];
    let stacks = keys(GroupBy::Stack, &[before, after, renamed]);
    assert_eq!(stacks[0], stacks[1]);
    assert_ne!(stacks[0], stacks[2]);
    let frames = keys(GroupBy::Frames, &[before, after]);
    assert_ne!(frames[0], frames[1]);
}

#[test]
fn groups_are_as_fine_as_asked_for() {
    let stacks: [&[_]; 4] = [
        &[("f", "/r/a.py", 1), ("main", "/r/m.py", 1)],
        &[("f", "/r/a.py", 2), ("main", "/r/m.py", 1)],
        &[("g", "/r/a.py", 3), ("main", "/r/m.py", 1)],
        &[("f", "/r/a.py", 1), ("h", "/r/m.py", 1)],
    ];
    for (by, expected) in [
        (GroupBy::Frames, [0, 1, 2, 3]),
        (GroupBy::Stack, [0, 0, 2, 3]),
        (GroupBy::Line, [0, 1, 2, 0]),
        (GroupBy::Function, [0, 0, 2, 0]),
    ] {
        let keys = keys(by, &stacks);
        let groups: Vec<_> = keys.iter().map(|key| keys.iter().position(|other| other == key).unwrap()).collect();
        assert_eq!(groups, expected, "{by}");
    }
}

#[test]
fn walks_through_nested_modules_are_one() {
    let apply = ("_apply", MODULE, 900);
    let to = ("to", MODULE, 1300);
    let user = ("main", "/r/m.py", 1);
    let keys = keys(GroupBy::Stack, &[&[apply, to, user], &[apply, apply, apply, to, user]]);
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn the_recorder_of_a_simulated_gpu_leaves_keys_and_labels_alone() {
    let [first, second] = ["aX1", "bY2"].map(|run| format!("/tmp/ptmem-simulate-{run}/python/ptmem_simulate_ranks.py"));
    let (around, train) = (("_pre_forward", MODULE, 9), ("<module>", "/home/me/train.py", 8));
    let frames = |file| [MM, around, ("prepare_settled", file, 100), train];
    let [first, second] = [frames(&*first), frames(&*second)];
    assert_eq!(key(GroupBy::Stack, &first), key(GroupBy::Stack, &second));
    assert_eq!(label(&first, &[]), "<module> (train.py:8) aten::mm");
}

#[test]
fn without_python_the_operation_counts_and_not_the_text() {
    let drifted = [("std::foo() [clone .cold]", "a.cpp", 7), MM, NODE, ENGINE];
    let keys = keys(GroupBy::Stack, &[&[UNWIND, MM, NODE, ENGINE], &drifted, &[UNWIND, MM, ENGINE]]);
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
}

#[test]
fn layers_are_not_told_apart_by_their_tags() {
    for (text, expected) in [
        ("layers.0.attention", "layers.*.attention"),
        ("layers.11", "layers.*"),
        ("blocks.3.7", "blocks.*.*"),
        ("lr=0.5", "lr=0.5"),
        ("", "<no metadata>"),
    ] {
        assert_eq!(tag_name(GroupBy::Metadata, Some(text)), expected);
    }
    assert_eq!(tag_name(GroupBy::CompileContext, Some("N/A")), "<not compiled>");
    assert_eq!(tag_name(GroupBy::CompileContext, Some("Torch-Compiled Region: 0/1")), "Torch-Compiled Region: 0/1");
}

#[test]
fn all_numbers_in_the_path_of_a_module_are_those_of_layers() {
    for (text, levels, expected) in [
        ("decoder.layers.3.mlp", 0, "decoder.layers.*.mlp"),
        ("decoder.layers.3.mlp", 1, "decoder.layers.3.mlp"),
        ("layer1.0.conv2", 0, "layer1.*.conv2"),
        ("0", 0, "*"),
        ("12.experts.3.0", 0, "*.experts.*.*"),
        ("12.experts.3.0", 1, "12.experts.*.*"),
        ("12.experts.3.0", 2, "12.experts.3.*"),
    ] {
        assert_eq!(folded_module(text, levels), expected);
    }
    assert_eq!(tag_name(GroupBy::Module, Some("")), "<no module>");
}

#[test]
fn the_backward_pass_of_a_checkpoint_is_named_by_its_nodes_and_by_what_is_computed_again() {
    const CHECKPOINT: &str = "/e/site-packages/torch/utils/checkpoint.py";
    let again = ("backward", CHECKPOINT, 325);
    let apply = ("apply", "/e/site-packages/torch/autograd/function.py", 317);
    let engine = ("_engine_run_backward", "/e/site-packages/torch/autograd/graph.py", 869);
    let autograd = ("backward", "/e/site-packages/torch/autograd/__init__.py", 381);
    let silu = ("torch::autograd::generated::SiluBackward0::apply(std::vector<X>&&)", "??", 0);
    let inner = |node| [MM, node, ENGINE, engine, autograd, ENGINE, again, apply];
    let recomputed = |file, line| [MM, ("linear", LINEAR, 1), ("forward", file, line), ENGINE, again, apply];
    let mut tables = Tables::default();
    let nodes = [NODE, silu].map(|node| stack(&mut tables, &inner(node)));
    stack(&mut tables, &recomputed("/r/block.py", 7));
    stack(&mut tables, &recomputed("/r/block.py", 9));
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    assert_ne!(grouper.key(nodes[0]), grouper.key(nodes[1]));
    assert_eq!(
        nodes.map(|node| grouper.label(node)),
        [
            "backward: MmBackward0 from checkpointed forward (block.py)",
            "backward: SiluBackward0 (aten::mm) from checkpointed forward (block.py)",
        ]
    );
    // Of several functions, which one it is does not show.
    stack(&mut tables, &recomputed("/r/head.py", 7));
    let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
    assert_eq!(grouper.label(nodes[0]), "backward: MmBackward0 from backward (torch/utils/checkpoint.py)");
}

#[test]
fn categories_say_what_memory_is_for() {
    const ADAM: &str = "/e/site-packages/torch/optim/adam.py";
    const AVERAGES: &str = "/e/site-packages/torch/optim/swa_utils.py";
    const BASE: &str = "/e/site-packages/torch/optim/optimizer.py";
    const C10D: &str = "/e/site-packages/torch/distributed/c10d.py";
    const ELASTIC: &str = "/e/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py";
    const SHARDED: &str = "/e/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py";
    const TENSOR: &str = "/e/site-packages/torch/distributed/tensor/_dispatch.py";
    const FUNCTIONAL: &str = "/e/site-packages/torch/nn/functional.py";
    const LBFGS: &str = "/e/site-packages/torch/optim/lbfgs.py";
    let user = ("main", "/r/m.py", 1);
    let call = ("_call_impl", MODULE, 1);
    let accumulate = ("torch::autograd::AccumulateGrad::apply(std::vector<X>&&)", "??", 0);
    let cases: [(&[_], &str); 17] = [
        (&[MM, accumulate, ENGINE], "gradients"),
        (&[MM, NODE, ENGINE], "backward"),
        (&[("f", ADAM, 1), user], "optimizer"),
        // Lightning's training step is the closure of the optimizer.
        (&[("linear", FUNCTIONAL, 1), ("forward", LINEAR, 1), call, user, ("step", ADAM, 1), user], "forward"),
        (&[("mse_loss", FUNCTIONAL, 1), user, ("step", ADAM, 1), user], "forward"),
        (&[user, ("_directional_evaluate", LBFGS, 1), ("step", LBFGS, 1), ("wrapper", BASE, 1), user], "other"),
        (&[("step", "/r/m.py", 1), ("wrapper", BASE, 1), user], "optimizer"),
        (&[("update_parameters", AVERAGES, 1), user], "other"),
        (&[("f", C10D, 1), user], "communication"),
        (&[user, ("wrapper", ELASTIC, 1)], "other"),
        (&[("linear", FUNCTIONAL, 1), ("forward", SHARDED, 1), user], "forward"),
        (&[("dispatch", TENSOR, 1), ("forward", LINEAR, 1), user], "forward"),
        (&[("all_gather", SHARDED, 1), ("forward", SHARDED, 1), user], "communication"),
        (&[("shard", SHARDED, 1), ("__init__", SHARDED, 1), user], "parameters"),
        (&[("_apply", MODULE, 1), user], "parameters"),
        (&[("forward", LINEAR, 1), user], "forward"),
        (&[user], "other"),
    ];
    for (frames, category) in cases {
        assert_eq!(label_by(GroupBy::Category, frames), category);
    }
}

/// An average of the model (EMA) is updated after the optimizer: it would end another step.
#[test]
fn averages_and_schedules_are_no_pass_of_the_optimizer() {
    let user = ("main", "/r/m.py", 1);
    for (file, pass) in [("adam", Some(Pass::Optimizer)), ("swa_utils", None), ("lr_scheduler", None)] {
        let mut tables = Tables::default();
        let file = format!("/e/site-packages/torch/optim/{file}.py");
        let id = stack(&mut tables, &[("update", &*file, 1), user]);
        assert_eq!(SnapshotCode::new(&tables, &Rules::default(), &[]).pass(id), pass, "{file}");
    }
}

#[test]
fn the_kernel_around_the_cells_of_a_notebook_is_not_shown() {
    let kernel = ("run_code", "/e/lib/python3.11/site-packages/IPython/core/interactiveshell.py", 3577);
    let cell = ("<module>", "/tmp/ipykernel_114/3105878423.py", 2);
    let mut tables = Tables::default();
    let id = stack(&mut tables, &[("forward", "/home/me/net/model.py", 7), cell, kernel]);
    let code = SnapshotCode::new(&tables, &Rules::default(), &[]);
    let shown: Vec<String> = code.shown_frames(id).into_iter().map(|frame| code.text(frame)).collect();
    assert_eq!(shown, ["forward (model.py:7)", "<module> (cell 3105878423:2)"]);
    assert_eq!(code.identifying_frames(id).len(), 3);
}

#[test]
fn frames_get_their_digests_once_for_all_devices() {
    let mut tables = Tables::default();
    stack(&mut tables, &[("step", "/home/me/repo/train.py", 9)]);
    let code = SnapshotCode::new(&tables, &Rules::default(), &[]);
    let again = SnapshotCode::with(&tables, &code.facts());
    assert!(ExactKeys::new(&code).shares_frames(&ExactKeys::new(&again)));
}
