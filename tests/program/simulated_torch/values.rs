//! Values that the host computes, and what follows from those that are not known.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::{PROGRAMS, PTMEM, Story, assert_counters_of_ranks_equal, assert_told_truly, record_script, run};
use crate::support::tool::{self, python};

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn sizes_and_positions_on_the_device_are_those_of_the_host() {
    assert_told_truly(&Story { name: "values", options: &["--fill", "90"], ..Story::default() });
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_default_device_is_not_that_of_the_values_on_the_host() {
    assert_told_truly(&Story { name: "default_devices", ..Story::default() });
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

/// A program given with `-c` has no file.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_place_of_a_guess_in_code_without_a_file_is_not_the_backward_pass() {
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--"]).arg(python());
    command.args(["-c", "import torch; numbers = torch.empty(5, device='cuda'); numbers[numbers > 0]"]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("1 size followed from values that are not known, first at <string>:1"), "{stderr}");
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

/// Sizes of sparse results that only the device's libraries count are not called exact.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_elements_of_a_product_of_sparse_matrices_are_a_guess() {
    assert!(is_guessed(&run(&python(), &Story { name: "sparse_product", ..Story::default() }).1));
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

/// Weights of a model alone can reach the limit.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_mask_of_unknown_numbers_is_true_for_the_share_beyond_the_limit() {
    let script = "
import torch
weights = torch.ones(1 << 20).cuda()
unknown = torch.empty(1000, device='cuda')
keep = unknown > 0
places = torch.arange(1000, device='cuda')
print(len(unknown[keep]), len(unknown[~keep]), len((keep & (unknown < 1)).nonzero()), len((places < 9).nonzero()))
";
    for (limit, known) in [("4MiB", 9), ("0", 500)] {
        let mut command = Command::new(PTMEM);
        command.args(["simulate", "--compute", limit, "--"]).arg(python()).args(["-c", script]);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(stdout, format!("500 500 500 {known}\n"), "{limit}: {stderr}");
    }
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

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn checks_of_values_pass() {
    assert_told_truly(&Story { name: "checks", ..Story::default() });
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
