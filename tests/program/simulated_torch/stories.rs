//! What programs of many kinds allocate, and how they are recorded.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{
    CHECKPOINTED, COMPILED, PROGRAMS, PTMEM, Story, TRAIN, assert_counters_of_ranks_equal, assert_told_truly,
    figures_of, python_since, record_script, run,
};
use crate::recorded::figures;
use crate::support::tool::{self, python};

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_transformer_in_expandable_segments() {
    let variables = &[("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")];
    assert_told_truly(&Story { name: "transformer", variables, since: 1, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn scratch_memory_that_follows_from_registers() {
    assert_told_truly(&Story { name: "scratch", options: &["--gpu", "a100"], since: 1, ..Story::default() });
}

/// The snapshot and the counters are of one moment: Python's collector runs before both or after both.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn reference_cycles_that_hold_memory() {
    let (_, place) = run(&python(), &Story { name: "cycles", ..Story::default() });
    let told = tool::ptmem(place.path(), &["show", "snapshot.pkl"]);
    let told = String::from_utf8_lossy(&told.stdout);
    assert!(told.contains("96.00 MiB") && !told.contains("counters-disagree"), "{told}");
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn an_encoder_that_leaves_out_the_padding() {
    assert_told_truly(&Story { name: "padded_encoder", ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn steps_that_are_counted_on_the_device() {
    assert_told_truly(&Story { name: "default_device", ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn mixed_precision_with_a_scaler_and_late_events() {
    assert_told_truly(&Story { name: "mixed_precision", options: &["--events", "late"], ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn gradient_checkpointing() {
    assert_counters_of_ranks_equal(&Story { name: "checkpointed", ..Story::default() }, &CHECKPOINTED);
}

/// PyTorch 2.11 fails where the stacks of frees are recorded. The annotations of all steps stay.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recomputation_that_an_exception_stops() {
    let story = Story { name: "recomputation_stopped", since: 5, ..Story::default() };
    let Some(python) = python_since(story.since, story.name) else { return };
    let place = run(&python, &story).1;
    assert_counters_of_ranks_equal(&story, place.path());
    let figures = figures(&place.path().join("snapshot.pkl"), &["--phases"]);
    let phases = figures["phases"].as_array().unwrap().iter();
    assert_eq!(phases.filter(|phase| phase["name"] == "Optimizer.step#AdamW.step").count(), 3, "{figures}");
}

/// On a real GPU, the Python package records it.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recomputation_that_an_exception_stops_is_recorded_by_the_python_package_too() {
    let place = TempDir::new().unwrap();
    let program = format!(
        "import sys; sys.path[:0] = [{:?}, {:?}]; import ptmem_gate, programs\n\
         with ptmem_gate.record('out.pkl'): programs.recomputation_stopped()",
        concat!(env!("CARGO_MANIFEST_DIR"), "/python"),
        concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch"),
    );
    let mut command = Command::new(PTMEM);
    command.current_dir(place.path()).args(["simulate", "--"]).arg(python()).args(["-c", &program]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = figures(&place.path().join("out.pkl"), &["--phases"]);
    let phases = figures["phases"].as_array().unwrap().iter();
    assert_eq!(phases.filter(|phase| phase["name"] == "Optimizer.step#AdamW.step").count(), 3, "{figures}");
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn convolutions_with_a_workspace() {
    let options = &["--cudnn-workspace", "8MiB"];
    assert_told_truly(&Story { name: "convolutional", options, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recurrent_network() {
    assert_told_truly(&Story { name: "recurrent", ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_that_runs_out() {
    assert_told_truly(&Story { name: "out_of_memory", ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_graph() {
    assert_told_truly(&Story { name: "graph", ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_compiled_model() {
    let story = Story { name: "compiled", since: 1, ..Story::default() };
    if python_since(story.since, story.name).is_some() {
        assert_counters_of_ranks_equal(&story, &COMPILED);
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn addresses_downwards_change_no_size() {
    assert_told_truly(&Story { name: "transformer", options: &["--addresses", "down"], ..Story::default() });
}

/// As in slim container images.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn frames_have_names_without_addr2line() {
    assert_told_truly(&Story { name: "transformer", variables: &[("PATH", "/nowhere")], since: 1, ..Story::default() });
}

/// An operator that runs between two compiled parts calls functions of ours: PyTorch would compile them, and fail.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_functions_of_operators_are_not_compiled() {
    let script = "
import torch

@torch.compile(backend='eager')
def compiled(boxes):
    torch._dynamo.graph_break()
    return torch.add(boxes, 1), boxes.tolist(), torch.add(boxes.max().item(), 1)

assert compiled(torch.arange(6.0, device='cuda').reshape(2, 3))[1] == [[0, 1, 2], [3, 4, 5]]
";
    let place = TempDir::new().unwrap();
    let output = record_script(&python(), place.path(), script, "out.pkl");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("Dynamo does not know how to trace"), "{stderr}");
}

/// The profiler reads a local variable of the function that calls modules.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_whose_profiler_records_stacks_is_recorded() {
    let profiled = "from torch.profiler import profile\nwith profile(with_stack=True):\n    train(2)\n";
    let by_package = "import ptmem_gate\nfrom torch.profiler import profile\n\
                      with ptmem_gate.record('out.pkl'), profile(with_stack=True):\n    train(2)\n";
    for (program, options) in [(profiled, &["--record", "out.pkl"][..]), (by_package, &[])] {
        let place = TempDir::new().unwrap();
        fs::write(place.path().join("script.py"), format!("{TRAIN}\n{program}")).unwrap();
        let mut command = Command::new(PTMEM);
        command.current_dir(place.path()).arg("simulate").args(options).arg("--").arg(python()).arg("script.py");
        let output = command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(figures_of(place.path(), "out.pkl")["allocated"]["peak"].as_u64().unwrap() > 0);
    }
}

/// What a release writes with each option of its recorder is read: no key and no action is unknown.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn all_that_each_option_of_the_recorder_writes_is_known() {
    let Some(python) = python_since(1, "the options of the recorder") else { return };
    let place = TempDir::new().unwrap();
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--"]).arg(python).arg(PROGRAMS.replace("programs.py", "recorder_options.py"));
    let output = command.arg(place.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files: Vec<PathBuf> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 6, "{files:?}");
    for file in files {
        let told = tool::ptmem(place.path(), &["show", file.to_str().unwrap(), "--format", "json"]);
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.contains("\"ptmem.profile/") && !told.contains("\"not-read\""), "{}: {told}", file.display());
    }
}
