//! Programs that use what the recorder uses as well: the allocator's history, several optimizers.

#![cfg(target_os = "linux")]

use tempfile::TempDir;

use crate::gate::Checkout;
use crate::simulated_torch::{TRAIN, figures_of, record_script};
use crate::support::tool::{ptmem, python, text, verdict};

/// A program that turns the history on and off itself, and writes a snapshot of its own. Its peak comes before it does so.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_that_records_its_own_history_does_not_cut_that_of_the_recorder() {
    let place = TempDir::new().unwrap();
    let own = "
torch.empty(96 << 20, device='cuda')
torch.cuda.memory._record_memory_history(max_entries=100)
torch.cuda.memory._record_memory_history(True)
train(2)
torch.cuda.memory._dump_snapshot('own.pickle')
torch.cuda.memory._record_memory_history(enabled=None)
train(2)
print(torch.cuda.max_memory_allocated())
";
    let output = record_script(&python(), place.path(), &format!("{TRAIN}{own}"), "out.pkl");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let peak: u64 = text(&output.stdout).trim().parse().unwrap();
    let figures = figures_of(place.path(), "out.pkl");
    assert_eq!(figures["allocated"]["peak"], peak);
    assert_eq!(figures["allocated"]["baseline_error"], 0);
    assert_eq!(figures_of(place.path(), "own.pickle")["allocated"]["peak"], peak);
}

/// Paths of which the command says nothing: the base reads the edits that it is compared with.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_base_that_reads_edited_files_of_the_working_tree_is_inconclusive() {
    let checkout = Checkout::new("before.pkl");
    let root = checkout.root();
    let read = format!("width = int(open('{}/width').read())", root.display());
    let import = format!("import sys\nsys.path.insert(0, '{}')\nfrom size import width", root.display());
    for (file, edit, program) in [("width", "2048", read), ("size.py", "width = 2048\n", import)] {
        checkout.write("width", "512");
        checkout.write("size.py", "width = 512\n");
        checkout.write("train.py", &format!("{program}\n{}\ntrain(1)\n", TRAIN.replace("512, 512", "512, width")));
        checkout.commit(file);
        checkout.write(file, edit);
        let output = checkout.run(&["--steps", "all", "--", python().to_str().unwrap(), "train.py"]);
        let (code, line) = verdict(&output);
        let reason = format!("it read files of the working tree that differ from those of the base ({file})");
        assert!(code == 3 && line.contains(&reason), "{line}\n{}", text(&output.stderr));
    }
}

/// A probe that trains on the host with features of the device, before the device trains.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn steps_are_those_of_the_first_optimizer_on_the_device() {
    let place = TempDir::new().unwrap();
    let host = "
features = torch.ones(8, 512, device='cuda').cpu()
head = torch.nn.Linear(512, 2)
probe = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(3):
    head(features).sum().backward()
    probe.step()
";
    let script = format!("{TRAIN}{host}train(4)\ntorch.empty(96 << 20, device='cuda')\n");
    let output = record_script(&python(), place.path(), &script, "out.pkl,steps=2..3");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let peak = figures_of(place.path(), "out.pkl")["allocated"]["peak"].as_u64().unwrap();
    assert!((2 << 20..32 << 20).contains(&peak), "{peak}");
    // Where the device trains later, nothing else tells of it.
    let offloaded = host
        .replace("    head(features)", "    features = torch.ones(8, 512, device='cuda').cpu()\n    head(features)");
    let output = record_script(&python(), place.path(), &format!("{TRAIN}{offloaded}train(4)\n"), "out.pkl,steps=1..2");
    let told = "the recorded steps are those of an optimizer on the host\n";
    assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    // An optimizer that is gone leaves its address to the next one.
    let output = record_script(&python(), place.path(), &format!("{TRAIN}train(2)\ntrain(5)\n"), "out.pkl,steps=3..3");
    let told = "the optimizer made 2 steps and others 5; expected 3, the last of those to record";
    assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
}

/// A program that goes on from its own checkpoint, as the run before left it.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_gate_names_ignored_files_that_only_the_working_tree_has() {
    let checkout = Checkout::new("before.pkl");
    let resume = "
import os, torch
held = torch.load('last.pt') if os.path.exists('last.pt') else None
torch.save(torch.ones(1 << 20, device='cuda'), 'last.pt')
torch.load('last.pt')
";
    checkout.write("train.py", resume);
    checkout.write(".gitignore", "*.pt\n");
    checkout.commit("resume");
    let note = "working tree: read last.pt, which git ignores and the base lacks";
    for (code, is_told) in [(0, false), (1, true)] {
        let output = checkout.run(&["--steps", "all", "--", python().to_str().unwrap(), "train.py"]);
        let stderr = text(&output.stderr);
        assert_eq!((verdict(&output).0, stderr.contains(note)), (code, is_told), "{stderr}{}", text(&output.stdout));
    }
}

/// The base has what its own command fetches, though the working tree had it before.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_gate_names_no_ignored_files_that_the_base_fetches() {
    let checkout = Checkout::new("before.pkl");
    checkout.write("fetch.py", "import os\nif not os.path.exists('w'): open('w', 'w').write('1')\n");
    checkout.write("train.py", &format!("{TRAIN}open('w').read()\ntrain(1)\n"));
    checkout.write(".gitignore", "w\n");
    checkout.commit("fetch");
    checkout.write("w", "1");
    let python = python().display().to_string();
    let script = format!("{python} fetch.py && {python} train.py");
    let output = checkout.run(&["--steps", "all", "--", "bash", "-c", &script]);
    assert_eq!(verdict(&output).0, 0, "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("which git ignores"), "{}", text(&output.stderr));
}

/// Settings under which PyTorch's allocator has no history.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn an_allocator_without_a_history_is_an_error_that_names_its_setting() {
    let place = TempDir::new().unwrap();
    for (name, value, told) in [
        (
            "PYTORCH_CUDA_ALLOC_CONF",
            "backend:cudaMallocAsync",
            "the allocator is cudaMallocAsync, which records no history",
        ),
        (
            "PYTORCH_NO_CUDA_MEMORY_CACHING",
            "1",
            "PYTORCH_NO_CUDA_MEMORY_CACHING is set: PyTorch's allocator then counts",
        ),
    ] {
        let script = format!("import os\nos.environ['{name}'] = '{value}'\n{TRAIN}train(2)\nprint('trained')\n");
        for record in ["out.pkl", "out.json"] {
            let output = record_script(&python(), place.path(), &script, record);
            let stderr = text(&output.stderr);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), "trained\n".to_owned()), "{stderr}");
            assert!(stderr.contains(&format!("error: {record}: not recorded as requested: {told}")), "{stderr}");
        }
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_process_without_an_optimizer_is_named() {
    let place = TempDir::new().unwrap();
    for (arguments, told) in [
        ("sys.argv", "script.py: the optimizer made 0"),
        ("[1]", "1: the optimizer"),
        ("[]", "requested: the optimizer"),
    ] {
        let child = format!(
            "
import subprocess, sys
if sys.argv[1:]:
    torch.ones(1, device='cuda')
    sys.argv = {arguments}
    sys.exit()
subprocess.run([sys.executable, __file__, '--token=secret'], check=True)
train(3)
"
        );
        let output = record_script(&python(), place.path(), &format!("{TRAIN}{child}"), "out.pkl,steps=1..3");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(told) && !stderr.contains("secret"), "{stderr}");
    }
}

/// The generator of a pair steps after five steps of the critic, of which three are recorded.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn an_optimizer_that_made_no_recorded_step_is_a_warning() {
    let pair = "
import torch
generator, critic = (torch.nn.Linear(64, 64).cuda() for _ in range(2))
of_generator, of_critic = (torch.optim.SGD(of.parameters(), lr=0.1) for of in (generator, critic))
# One for the same parameters, as a wrapper has them, is not idle.
again = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(1, 13):
    critic(generator(torch.randn(8, 64, device='cuda'))).sum().backward()
    of_critic.step()
    if step % 5 == 0:
        of_generator.step()
";
    let place = TempDir::new().unwrap();
    for (steps, is_idle) in [("1..3", true), ("3..6", false), ("7..9", true)] {
        let output = record_script(&python(), place.path(), pair, &format!("out.pkl,steps={steps}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = text(&ptmem(place.path(), &["show", "out.pkl"]).stdout);
        let warning = "warning[optimizers-idle] 1 optimizer on the device made no step in the recorded part";
        assert_eq!(shown.contains(warning), is_idle, "{steps}: {shown}");
    }
}
