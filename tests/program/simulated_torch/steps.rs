//! Recordings of some steps, and what is searched from step to step.

use std::fs;
use std::process::Command;

use ptmem::units::Size;
use tempfile::TempDir;

use super::{PROGRAMS, PTMEM, Story, TRAIN, figures_of, python_since, record_script, run};
use crate::recorded::figures;
use crate::support::tool::{self, python};

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
fn several_optimizers_make_up_a_step() {
    for name in ["adversarial", "ensemble"] {
        let Some(line) = leak_of(name) else { return };
        assert!(line.contains("leaks 512 B per step, in 6 of 6 steps"), "{line}");
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn weights_that_are_converted_one_by_one_are_no_leak() {
    let Some(line) = leak_of("converted") else { return };
    assert!(line.contains("much of the memory that they allocate stays"), "{line}");
}

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
