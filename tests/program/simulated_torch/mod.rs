//! PyTorch itself on simulated GPUs: what its allocator counted is held against what `ptmem show` says of the
//! recording.
//!
//! `PTMEM_TEST_PYTHON` names a Python with PyTorch: `.ci/torch` lays one out. The tests are run by `cargo test --
//! --ignored`, and by `.ci/run`.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use ptmem::units::Size;
use tempfile::TempDir;

use crate::recorded::{assert_counters_equal, figures};
use crate::support::tool::{self, python, say};

const PTMEM: &str = env!("CARGO_BIN_EXE_ptmem");
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch/programs.py");

/// A program of crates/simulate/tests/torch/programs.py, and how it is run.
#[derive(Default)]
struct Story {
    name: &'static str,
    /// Processes that torchrun starts; 0 is the program alone.
    ranks: u32,
    options: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// Minor number of the first release 2.x that can do it. 2.0 records one device, and compiles for no Python from
    /// 3.11 on. Of kernels that write to every other element, 2.0 and 2.1 have others, which are not computed.
    since: u32,
}

impl Story {
    /// The settings that it runs with, which snapshots of releases before 2.3 do not state.
    fn allocator_settings(&self) -> &'static str {
        let settings = self.variables.iter().find(|(name, _)| *name == "PYTORCH_CUDA_ALLOC_CONF");
        settings.map_or("", |(_, settings)| settings)
    }
}

/// Runs a story and gives its output and the folder with snapshots and counters.
fn run(python: &Path, story: &Story) -> (Output, TempDir) {
    let place = TempDir::new().unwrap();
    (run_in(place.path(), python, story), place)
}

fn run_in(place: &Path, python: &Path, story: &Story) -> Output {
    let snapshot = place.join("snapshot.pkl");
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--memory", "4GiB", "--gpus", &story.ranks.max(1).to_string()]).args(story.options);
    command.arg("--record").arg(snapshot).arg("--").arg(python);
    if story.ranks > 0 {
        command.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", &story.ranks.to_string()]);
    }
    command.arg(PROGRAMS).arg(story.name).arg(place.join("counters.json"));
    command.envs(story.variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", story.name, String::from_utf8_lossy(&output.stderr));
    output
}

/// Minor number of the release 2.x that a Python has.
fn minor_release(python: &Path) -> u32 {
    let ask = "import importlib.metadata as m; print(m.version('torch').split('.')[1])";
    let output = Command::new(python).args(["-c", ask]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// A Python with this release 2.x of PyTorch or a later one. None where it is older.
pub(crate) fn python_since(minor: u32, program: &str) -> Option<PathBuf> {
    let python = python();
    if minor_release(&python) < minor {
        say(&format!("skipped: {program} needs PyTorch 2.{minor}"));
        return None;
    }
    Some(python)
}

/// Folders of stories that tests of modules compare with: each is run once.
pub(crate) static CHECKPOINTED: LazyLock<PathBuf> = LazyLock::new(|| run_once("checkpointed"));
pub(crate) static COMPILED: LazyLock<PathBuf> = LazyLock::new(|| run_once("compiled"));

fn run_once(name: &'static str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&place).unwrap();
    run_in(&place, &python(), &Story { name, ..Story::default() });
    place
}

fn assert_told_truly(story: &Story) {
    let Some(python) = python_since(story.since, story.name) else { return };
    assert_counters_of_ranks_equal(story, run(&python, story).1.path());
}

fn assert_counters_of_ranks_equal(story: &Story, place: &Path) {
    let of_rank = |stem: &str, rank: u32, ending: &str| {
        let rank = if story.ranks > 0 { format!("_rank{rank}") } else { String::new() };
        place.join(format!("{stem}{rank}.{ending}"))
    };
    let settings = place.join("settings.toml");
    fs::write(&settings, format!("allocator-settings = \"{}\"\n", story.allocator_settings())).unwrap();
    for rank in 0..story.ranks.max(1) {
        let snapshot = of_rank("snapshot", rank, "pkl");
        let counters = of_rank("counters", rank, "json");
        assert_counters_equal(story.name, &snapshot, &counters, &["--config", settings.to_str().unwrap()]);
    }
}

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

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn sizes_and_positions_on_the_device_are_those_of_the_host() {
    assert_told_truly(&Story { name: "values", options: &["--fill", "90"], ..Story::default() });
}

/// True if a report warns that a story went on by conditions that nothing computed.
fn is_guessed(place: &TempDir) -> bool {
    let told = tool::ptmem(place.path(), &["show", "snapshot.pkl"]);
    String::from_utf8_lossy(&told.stdout).contains("guessed on simulated GPUs")
}

/// What followed from values that are not known is told with the line that was the first.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn where_values_are_not_known_a_program_takes_its_usual_course_and_that_is_told() {
    let python = python();
    let story = Story { name: "supposed", ..Story::default() };
    let (_, place) = run(&python, &story);
    assert_counters_of_ranks_equal(&story, place.path());
    assert!(is_guessed(&place));
    let (output, _) = run(&python, &Story { options: &["--keep", "75%"], variables: &[("KEPT", "75")], ..story });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("2 sizes followed from values that are not known, first at programs.py:"), "{stderr}");
    assert!(!is_guessed(&run(&python, &Story { name: "finite", ..Story::default() }).1));
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn values_that_are_not_known_are_finite_and_a_mask_of_them_is_true_for_the_share_however_it_is_written() {
    for (options, variables) in [(&[][..], &[][..]), (&["--keep", "10%"], &[("KEPT", "10")])] {
        assert_told_truly(&Story { name: "unknown_values", since: 1, options, variables, ..Story::default() });
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn programs_that_decide_by_values_have_the_sizes_that_they_have_on_the_cpu() {
    let (output, place) =
        run(&python(), &Story { name: "decided", options: &["--compute", "all"], ..Story::default() });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("not known"), "{stderr}");
    assert!(!is_guessed(&place));
}

/// Memory follows from a supposed size through operators, and through numbers that the program reads.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_of_a_supposed_size_is_marked_and_decides_nothing() {
    let python = python();
    let record =
        |options, variables| run(&python, &Story { name: "supposed_sizes", options, variables, ..Story::default() }).1;
    let [half, most, large] =
        [record(&[][..], &[][..]), record(&["--keep", "60%"], &[]), record(&["--keep", "60%"], &[("LARGE", "400")])];
    let judge = |before: &TempDir, after: &TempDir| {
        let files = [before, after].map(|place| place.path().join("snapshot.pkl").display().to_string());
        tool::verdict(&tool::ptmem(before.path(), &["diff", &files[0], &files[1], "--max-growth", "1%"]))
    };
    let (code, line) = judge(&half, &most);
    assert_eq!((code, line.contains("--compute all")), (3, true), "{line}");
    assert_eq!(judge(&most, &half).0, 3);
    assert_eq!(judge(&half, &large).0, 1, "more than follows from the size");
}

/// The same mask written in three ways, of numbers beyond what was computed before: 1.2 % of its elements are true.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_mask_of_known_numbers_is_computed_within_the_limit() {
    let (output, place) = run(&python(), &Story { name: "masks", ..Story::default() });
    assert!(!is_guessed(&place), "{}", String::from_utf8_lossy(&output.stderr));
}

/// As servers end their engines: asked first, and killed before C++ frames have names.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_process_that_is_killed_while_it_ends_is_recorded() {
    let place = TempDir::new().unwrap();
    let script = r#"
import signal, sys, time, torch
from torch import multiprocessing

def serve(ready):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    held = torch.zeros(1 << 20, device="cuda")
    (torch.nn.Linear(8, 8).cuda()(held.view(-1, 8)) * 2).sum().backward()
    ready.set()
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    engine = context.Process(target=serve, args=(ready,))
    engine.start()
    ready.wait()
    engine.terminate()
    time.sleep(0.3)
    engine.kill()
    engine.join()
    assert engine.exitcode == -signal.SIGKILL, engine.exitcode
"#;
    let output = record_script(&python(), place.path(), script, "out.pkl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(figures_of(place.path(), "out.pkl")["allocated"]["peak"].as_u64().unwrap() > 1 << 22);
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

/// A value that is not known to be right is counted.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn values_that_kernels_may_have_changed_are_counted() {
    let python = python();
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--report"]).arg(&report).arg("--").arg(python);
    let output = command.arg(PROGRAMS).arg("doubtful").arg(folder.path().join("counters.json")).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("1 reads were of values that a kernel or another rank may have changed"), "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!((&report["reads"], &report["reads_of_doubtful_values"]), (&5.into(), &1.into()), "{report}");
}

/// Python ended before a thread of the backward pass had given an object back in two of five runs.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_can_end_right_after_a_backward_pass() {
    let python = python();
    for _ in 0..6 {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(PTMEM);
        command.args(["simulate", "--"]).arg(&python).arg(PROGRAMS).arg("backward_last");
        let output = command.arg(folder.path().join("counters.json")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
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
fn ranks_send_each_other_objects() {
    assert_told_truly(&Story { name: "objects", ranks: 2, since: 1, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn ranks_send_each_other_objects_over_the_host() {
    assert_told_truly(&Story { name: "objects_of_two_backends", ranks: 2, since: 1, ..Story::default() });
}

/// They train a model with DDP in the end.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn ranks_send_each_other_small_values() {
    assert_told_truly(&Story { name: "small_values", ranks: 2, since: 1, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn sharded_within_replicas_on_four_ranks() {
    assert_told_truly(&Story { name: "hybrid_sharded", ranks: 4, since: 6, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn checks_of_values_pass() {
    assert_told_truly(&Story { name: "checks", ..Story::default() });
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

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn fully_sharded_on_four_ranks() {
    assert_told_truly(&Story { name: "fully_sharded", ranks: 4, since: 1, ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_same_program_twice_passes_a_gate_without_growth_and_a_larger_one_does_not() {
    let python = python();
    let story = Story { name: "transformer", ..Story::default() };
    let (_, before) = run(&python, &story);
    assert_counters_of_ranks_equal(&story, before.path());
    let (_, after) = run(&python, &story);
    let (_, larger) = run(&python, &Story { name: "fused", ..Story::default() });
    let verdict = |other: &TempDir| {
        let snapshot = |place: &TempDir| place.path().join("snapshot.pkl");
        let mut diff = Command::new(PTMEM);
        diff.arg("diff").args([snapshot(&before), snapshot(other)]).args(["--max-growth", "0", "--strict"]);
        diff.output().unwrap().status.code()
    };
    assert_eq!(verdict(&after), Some(0));
    assert_eq!(verdict(&larger), Some(1));
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recording_of_steps_names_the_blocks_from_before_them() {
    let python = python();
    let place = TempDir::new().unwrap();
    let snapshot = place.path().join("snapshot.pkl");
    let mut command = Command::new(PTMEM);
    command.arg("simulate").arg(format!("--record={},steps=2..2", snapshot.display())).arg("--").arg(python);
    let output = command.arg(PROGRAMS).arg("transformer").arg(place.path().join("counters.json")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = figures(&snapshot, &[]);
    let baseline = figures["allocated"]["baseline"].as_u64().unwrap();
    assert!(baseline > 0);
    let unknown = figures["stacks"].as_array().unwrap().iter().filter(|stack| !stack["bucket"].is_null());
    let bytes: u64 = unknown.map(|stack| stack["baseline"].as_u64().unwrap()).sum();
    // Only the blocks that the step frees have left no stack: the gradients before it.
    assert!(bytes < baseline / 2, "{bytes} of {baseline} bytes from before the step have no stack");
}

/// The verdict of a search for leaks in a program. None without a PyTorch that can run it.
fn leak_of(name: &'static str) -> Option<String> {
    let (_, place) = run(&python_since(5, name)?, &Story { name, ..Story::default() });
    Some(tool::verdict(&tool::ptmem(place.path(), &["leak", "snapshot.pkl"])).1)
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn two_optimizers_make_up_a_step() {
    let Some(line) = leak_of("adversarial") else { return };
    assert!(line.contains("leaks 512 B per step, in 6 of 6 steps"), "{line}");
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn weights_that_are_converted_one_by_one_are_no_leak() {
    let Some(line) = leak_of("converted") else { return };
    assert!(line.contains("much of the memory that they allocate stays"), "{line}");
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_that_runs_out_before_the_steps_to_record_is_recorded() {
    let python = python();
    let place = TempDir::new().unwrap();
    let snapshot = place.path().join("snapshot.pkl");
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--memory", "498MiB"]).arg(format!("--record={},steps=9..9", snapshot.display()));
    command.arg("--").arg(python).arg(PROGRAMS).arg("transformer").arg(place.path().join("counters.json"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = figures(&snapshot, &[]);
    assert!(!figures["ooms"].as_array().unwrap().is_empty());
}

/// Runs a script on simulated GPUs in a folder of its own, and records it.
pub(crate) fn record_script(python: &Path, place: &Path, script: &str, record: &str) -> Output {
    record_script_with(python, place, script, record, &[])
}

pub(crate) fn record_script_with(python: &Path, place: &Path, script: &str, record: &str, options: &[&str]) -> Output {
    fs::write(place.join("script.py"), script).unwrap();
    let mut command = Command::new(PTMEM);
    command.current_dir(place).args(["simulate", "--memory", "4GiB", "--gpus", "2", "--record", record]).args(options);
    command.arg("--").arg(python).arg("script.py").stdin(Stdio::null()).output().unwrap()
}

/// What the recorder said of a run.
pub(crate) fn figures_of(place: &Path, name: &str) -> serde_json::Value {
    figures(&place.join(name), &[])
}

/// Steps of a small model, of which the argument of `train` is the number.
pub(crate) const TRAIN: &str = "
import torch

def train(steps):
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(64, 512, device='cuda')).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn fewer_steps_than_asked_for_fail_the_run_and_leave_no_earlier_file() {
    let python = python();
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("out.pkl"), "of last week").unwrap();
    fs::write(place.path().join("out_rank1.pkl"), "of last week").unwrap();
    let output = record_script(&python, place.path(), &format!("{TRAIN}\ntrain(2)\n"), "out.pkl,steps=3..3");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the optimizer made 2 steps; expected 3"), "{stderr}");
    assert!(!place.path().join("out.pkl").exists() && !place.path().join("out_rank1.pkl").exists());
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn steps_on_the_host_before_the_device_is_used_are_not_those_to_record() {
    let python = python();
    let place = TempDir::new().unwrap();
    let host = TRAIN.replace("def train", "def train_on_host").replace(".cuda()", "").replace("'cuda'", "'cpu'");
    let script = format!("{host}\n{TRAIN}\ntrain_on_host(5)\ntrain(3)\n");
    let output = record_script(&python, place.path(), &script, "out.pkl,steps=1..2");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.path().join("out.pkl").exists());
}

/// A limit on the size of files stands for a disk that is full.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recording_that_has_no_room_leaves_no_half_a_file() {
    let python = python();
    let place = TempDir::new().unwrap();
    let limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n";
    let output = record_script(&python, place.path(), &format!("{TRAIN}\n{limit}train(2)\n"), "out.pkl");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("out.pkl: cannot be written: "), "{stderr}");
    let left = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("out")).count(), 0);
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_that_fails_is_told_by_its_recording() {
    let python = python();
    let place = TempDir::new().unwrap();
    let sound = record_script(&python, place.path(), &format!("{TRAIN}\ntrain(3)\n"), "sound.pkl");
    assert!(sound.status.success(), "{}", String::from_utf8_lossy(&sound.stderr));
    for (failure, told) in [
        ("ValueError('a bad batch')", "ValueError: a bad batch"),
        ("SystemExit(7)", "exit status 7"),
        ("__import__('sys').exit('a bad batch')", "exit status 1: a bad batch"),
    ] {
        let script = format!("{TRAIN}\ntrain(1)\nraise {failure}\n");
        assert_ne!(record_script(&python, place.path(), &script, "failed.pkl").status.code(), Some(0));
        let mut diff = Command::new(PTMEM);
        diff.current_dir(place.path()).args(["diff", "sound.pkl", "failed.pkl", "--max-growth", "5%"]);
        let output = diff.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{stdout}");
        assert!(stdout.contains(&format!("the program failed: {told}")), "{stdout}");
    }
}

/// `sys.exit` raises an exception: it can be caught, or end a thread alone.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_that_goes_on_after_an_exit_has_not_failed() {
    let python = python();
    let place = TempDir::new().unwrap();
    for exit in [
        "try:\n    sys.exit(2)\nexcept SystemExit as error:\n    held = error",
        "thread = threading.Thread(target=sys.exit, args=(1,))\nthread.start()\nthread.join()",
    ] {
        let script = format!("{TRAIN}\nimport sys, threading\ntrain(1)\n{exit}\ntrain(1)\n");
        let recorded = record_script(&python, place.path(), &script, "out.pkl");
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let mut check = Command::new(PTMEM);
        let output = check.current_dir(place.path()).args(["check", "out.pkl", "--max", "peak=1GiB"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{exit}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A new process gets its function by name, also one that the recording replaces.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_process_can_run_sys_exit() {
    let script = "
import multiprocessing, sys, torch
if __name__ == '__main__':
    torch.zeros(1000, device='cuda')
    process = multiprocessing.get_context('spawn').Process(target=sys.exit, args=(3,))
    process.start()
    process.join()
    print(process.exitcode)
";
    let place = TempDir::new().unwrap();
    let output = record_script(&python(), place.path(), script, "out.pkl");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// The program itself succeeds: only the recording of the process that failed may say so.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_process_that_fails_within_a_program_is_told_by_its_recording() {
    let python = python();
    let place = TempDir::new().unwrap();
    for (failure, told) in
        [("sys.exit(5)", "exit status 5"), ("raise ValueError('a bad batch')", "ValueError: a bad batch")]
    {
        let script = format!(
            "{TRAIN}\nimport multiprocessing, sys\ndef work():\n    train(1)\n    {failure}\n\
             process = multiprocessing.get_context('fork').Process(target=work)\nprocess.start()\nprocess.join()\n"
        );
        let recorded = record_script(&python, place.path(), &script, "out.pkl");
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let mut check = Command::new(PTMEM);
        let output = check.current_dir(place.path()).args(["check", "out.pkl", "--max", "peak=1GiB"]).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{stdout}");
        assert!(stdout.contains(&format!("the program failed: {told}")), "{stdout}");
    }
}

/// Python writes the recording before it knows its exit status, and does not keep each exception that ends it.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_exit_status_of_each_process_decides_whether_it_failed() {
    let python = python();
    let place = TempDir::new().unwrap();
    let parent = "import subprocess, sys\nprint(subprocess.call([sys.executable, 'child.py']))\n";
    for (end, status, told) in [
        ("async def leave():\n    sys.exit(3)\nasyncio.run(leave())", 3, "exit status 3"),
        ("try:\n    sys.exit(4)\nexcept SystemExit as error:\n    kept = error\n    raise", 4, "exit status 4"),
        ("raise SystemExit(5)", 5, "exit status 5"),
        ("atexit._run_exitfuncs()\nos._exit(6)", 6, "exit status 6"),
        ("raise ValueError('a bad batch')", 1, "ValueError: a bad batch"),
        ("atexit.register(sys.exit, 3)", 0, ""),
        ("sys.exit(256)", 0, ""),
    ] {
        let child = format!("{TRAIN}\nimport asyncio, atexit, os, sys\ntrain(1)\n{end}\n");
        fs::write(place.path().join("child.py"), child).unwrap();
        for name in ["out.pkl", "out.json"] {
            let recorded = record_script(&python, place.path(), parent, name);
            let stderr = String::from_utf8_lossy(&recorded.stderr);
            assert_eq!(String::from_utf8_lossy(&recorded.stdout), format!("{status}\n"), "{stderr}");
            assert!(recorded.status.success(), "{stderr}");
            let mut check = Command::new(PTMEM);
            let output = check.current_dir(place.path()).args(["check", name, "--max", "peak=1GiB"]).output().unwrap();
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(if status == 0 { 0 } else { 3 }), "{name} {end}: {stdout}");
            assert_eq!(stdout.contains(&format!("the program failed: {told}")), status != 0, "{name} {end}: {stdout}");
        }
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_last_line_states_what_may_differ_from_a_real_run() {
    let script = "
import torch
scores = torch.empty(1000, device='cuda')
print(scores[0].item(), (scores > 0).float().mean().item())
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
torch.cuda.synchronize()
print(start.elapsed_time(end))
";
    let output = Command::new(PTMEM).args(["simulate", "--"]).arg(python()).args(["-c", script]).output().unwrap();
    assert_reads!(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)) => str![[r#"
0.0 0.5
100.0
ptmem simulate: ran on 1 simulated GPU (NVIDIA A100-SXM4-80GB, 79.25 GiB); 2 of 2 reads were of unknown values (losses, norms, conditions): they read as 0, or as what follows from assumed values; 1 elapsed times were all 100 ms: a choice by speed falls on the first candidate
"#]]);
}

/// Unknown gradients are not small, and unknown losses fall: the optimizer iterates until a bound of the program stops it.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn lbfgs_does_not_converge_on_unknown_values() {
    let script = "
import math, torch

def directions(line_search):
    torch.manual_seed(0)
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=8, line_search_fn=line_search)
    def closure():
        optimizer.zero_grad()
        loss = model(torch.randn(64, 512, device='cuda')).square().mean()
        loss.backward()
        return loss
    for _ in range(2):
        math.sqrt(optimizer.step(closure))  # The program does not see the losses that fall.
    return len(next(iter(optimizer.state.values()))['old_dirs'])

print(directions(None), directions('strong_wolfe'))
";
    let place = TempDir::new().unwrap();
    let output = record_script(&python(), place.path(), script, "out.pkl");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "15 15\n", "{}", String::from_utf8_lossy(&output.stderr));
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

/// Without the variables that torchrun sets, as `mp.spawn` and Lightning start ranks.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn ranks_that_only_torch_distributed_knows_write_files_of_their_own() {
    let python = python();
    let place = TempDir::new().unwrap();
    let script = format!(
        "{TRAIN}
import torch.distributed as dist

def work(rank):
    dist.init_process_group('gloo', init_method='file://{}/meeting', rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    train(2 + rank)
    dist.destroy_process_group()

if __name__ == '__main__':
    torch.multiprocessing.spawn(work, nprocs=2)
",
        place.path().display()
    );
    let output = record_script(&python, place.path(), &script, "out.pkl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (rank, steps) in [(0, "steps 1 to 2"), (1, "steps 1 to 3")] {
        let name = format!("out_rank{rank}.pkl");
        assert!(figures_of(place.path(), &name)["allocated"]["peak"].as_u64().unwrap() > 0);
        let shown = Command::new(PTMEM).current_dir(place.path()).args(["show", "-v", &name]).output().unwrap();
        let told = format!("rank {rank} of 2, {steps}");
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&told), "{}", String::from_utf8_lossy(&shown.stdout));
    }
    // Some releases leave the addresses of the first run in the file.
    let _ = fs::remove_file(place.path().join("meeting"));
    // The second rank makes the steps that are asked for, the first does not.
    let output = record_script(&python, place.path(), &script, "out.pkl,steps=3..3");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("rank 0: the optimizer made 2 steps; expected 3"), "{stderr}");
}

/// Also where the program catches all, and has workers.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_ends_after_the_last_recorded_step_unless_it_is_to_continue() {
    let python = python();
    let place = TempDir::new().unwrap();
    let script = format!(
        "{TRAIN}\nimport atexit\natexit.register(lambda: print('registered'))\n\
         workers = iter(torch.utils.data.DataLoader(range(99), num_workers=1))\nnext(workers)\n\
         try:\n    train(5)\nexcept BaseException:\n    pass\nprint('went on')\nraise SystemExit(7)\n"
    );
    let stopped = "; the program was stopped after them; ran on 2 simulated GPUs";
    for (record, status, printed, steps, rest) in [
        ("out.pkl,steps=2..3", 0, "registered\n", "steps 2 and 3 in ", stopped),
        ("out.pkl,steps=2..3,continue", 7, "went on\nregistered\n", "", "; ran on 2 simulated GPUs"),
    ] {
        let output = record_script(&python, place.path(), &script, record);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let size = Size(fs::metadata(place.path().join("out.pkl")).unwrap().len());
        let said = format!("ptmem simulate: recorded {steps}out.pkl ({size}){rest}");
        assert!(stderr.lines().any(|line| line.starts_with(&said)), "{said}: {stderr}");
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
        assert!(!stderr.contains("Traceback"), "{stderr}");
        assert!(figures_of(place.path(), "out.pkl")["allocated"]["peak"].as_u64().unwrap() > 0);
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_recorded_step_is_exact_by_the_counters_of_pytorch() {
    let python = python();
    let place = TempDir::new().unwrap();
    // Gradients of blocks that a large segment does not split are freed in the step.
    let script = TRAIN.replace("512, 512", "2500, 1700").replace("64, 512", "64, 2500") + "\ntrain(4)\n";
    let output = record_script(&python, place.path(), &script, "out.pkl,steps=3..3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = figures_of(place.path(), "out.pkl");
    assert_eq!(figures["allocated"]["baseline_error"], 0, "{}", figures["allocated"]);
}

/// Steps that leave reference cycles behind. What the environment brings makes more objects in the first step, after which
/// the garbage collector runs at another time.
const LEAVES_CYCLES: &str = "
import plugin, torch

class Node:
    def __init__(self):
        self.me = self
        self.x = torch.zeros(1 << 18, device='cuda')

def run():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        for _ in range(3):
            Node()
        if step == 0:
            plugin.made()
        model(torch.randn(64, 512, device='cuda')).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_same_commit_in_two_folders_and_two_environments_is_equal() {
    let python = python();
    let place = TempDir::new().unwrap();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let by_package = "import ptmem_gate\nwith ptmem_gate.record('out.pkl', steps=(2, 3)):\n    run()\n";
    for (name, rest, options) in
        [("simulate", "run()\n", &["--record", "out.pkl,steps=2..3"][..]), ("package", by_package, &[])]
    {
        let recorded = [("one", 0), ("another/folder", 100_000)].map(|(folder, objects)| {
            let folder = place.path().join(name).join(folder);
            let environment = folder.join("environment");
            fs::create_dir_all(&environment).unwrap();
            fs::write(folder.join("script.py"), format!("{LEAVES_CYCLES}\n{rest}")).unwrap();
            tool::commit(&folder, &["script.py"]);
            let plugin = format!("def made():\n    return [[] for _ in range({objects})]\n");
            fs::write(environment.join("plugin.py"), plugin).unwrap();
            let mut command = Command::new(PTMEM);
            command.current_dir(&folder).arg("simulate").args(options).arg("--").arg(&python).arg("script.py");
            let path = std::env::join_paths([environment.as_path(), Path::new(package)]).unwrap();
            let output = command.env("PYTHONPATH", path).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            figures_of(&folder, "out.pkl")
        });
        // The segments from before the steps differ, and with them their events.
        for figure in ["/allocated/baseline", "/allocated/peak", "/allocated/end", "/active/peak", "/allocations"] {
            assert_eq!(recorded[0].pointer(figure).unwrap(), recorded[1].pointer(figure).unwrap(), "{name}: {figure}");
        }
    }
}

/// What a program writes itself says where its code came from, also where its command sets `PYTHONPATH` anew.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn both_sides_that_import_one_package_are_inconclusive_also_by_snapshots_of_their_own() {
    let python = python();
    let place = TempDir::new().unwrap();
    let package = |folder: &str, elements: u32| {
        let folder = place.path().join(folder).join("tower");
        fs::create_dir_all(&folder).unwrap();
        let source = format!("import torch\n\ndef build():\n    return torch.zeros({elements}, device='cuda')\n");
        fs::write(folder.join("__init__.py"), source).unwrap();
    };
    package("installed", 2_000_000);
    let script = place.path().join("record.py");
    let dump = "torch.cuda.memory._record_memory_history()\nheld = tower.build()\ntorch.cuda.memory._dump_snapshot(sys.argv[1])";
    fs::write(&script, format!("import sys\nimport torch, tower\n{dump}\n")).unwrap();
    for (side, elements) in [("before", 1_000_000), ("after", 2_000_000)] {
        package(&format!("{side}/src"), elements);
        tool::commit(&place.path().join(side), &["src"]);
    }
    let gate = |path: &str| {
        for side in ["before", "after"] {
            let mut command = Command::new(PTMEM);
            command.current_dir(place.path().join(side)).args(["simulate", "--", "env", &format!("PYTHONPATH={path}")]);
            command.arg(&python).arg(&script).arg(format!("../{side}.pkl"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        tool::verdict(&tool::ptmem(place.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "5%"]))
    };
    let (code, line) = gate("../installed");
    assert_eq!((code, line.contains("both sides ran the same code of tower")), (3, true), "{line}");
    let (code, line) = gate("src");
    assert_eq!((code, line.contains("peak grew")), (1, true), "{line}");
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

/// A small program that trains and validates, and what of validation it keeps on the device.
const VALIDATES: &str = r#"
import sys, torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())

def batch(size):
    return torch.randn(size, 256).cuda(), torch.zeros(size, dtype=torch.long).cuda()

def train():
    inputs, labels = batch(4096)
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()

@torch.no_grad()
def validate():
    kept = []
    for _ in range(4):
        inputs, labels = batch(1024)
        model(inputs).argmax(-1).eq(labels).sum()
        kept.extend([inputs] if "keep" in sys.argv else [])

for step in range(4):
    train()
    if step == 1:
        validate()
"#;

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_batch_that_validation_keeps_is_seen_by_a_limit_on_evaluation_alone() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("train.py"), VALIDATES).unwrap();
    let python = python();
    let record = |name: &str, option: &str| {
        let command = [python.to_str().unwrap(), "train.py", option];
        let output = tool::ptmem(place.path(), &[&["simulate", "--record", name, "--"], &command[..]].concat());
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
    };
    record("before.pkl", "plain");
    record("after.pkl", "keep");
    let judge = |limit: &str| {
        let arguments = ["diff", "before.pkl", "after.pkl", "--max-growth", limit];
        tool::verdict(&tool::ptmem(place.path(), &arguments))
    };
    for limit in ["0", "end=0", "stack=0", "phase:step=0", "phase:forward=0"] {
        assert_eq!(judge(limit).0, 0, "{limit}");
    }
    let (code, line) = judge("phase:evaluation=5%");
    assert!(code == 1 && line.contains("phase evaluation grew 3.00 MiB"), "{line}");
}
