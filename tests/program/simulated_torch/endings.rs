//! Programs and processes that end, fail or are ended.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::{PROGRAMS, PTMEM, TRAIN, figures_of, record_script};
use crate::recorded::figures;
use crate::support::tool::python;

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

/// Python ended before a thread of the backward pass had given an object back in two of five runs.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_can_end_right_after_a_backward_pass() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--"]).arg(python()).arg(PROGRAMS).arg("backward_last");
    let output = command.arg(folder.path().join("counters.json")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
    let both = ["out.pkl", "out.json"];
    for (end, status, told, names) in [
        ("async def leave():\n    sys.exit(3)\nasyncio.run(leave())", 3, "exit status 3", &both[..1]),
        (
            "try:\n    sys.exit(4)\nexcept SystemExit as error:\n    kept = error\n    raise",
            4,
            "exit status 4",
            &both[..1],
        ),
        ("raise SystemExit(5)", 5, "exit status 5", &both[..]),
        ("atexit._run_exitfuncs()\nos._exit(6)", 6, "exit status 6", &both[..1]),
        ("raise ValueError('a bad batch')", 1, "ValueError: a bad batch", &both[..]),
        ("atexit.register(sys.exit, 3)", 0, "", &both[..1]),
        ("sys.exit(256)", 0, "", &both[..1]),
    ] {
        let child = format!("{TRAIN}\nimport asyncio, atexit, os, sys\ntrain(1)\n{end}\n");
        fs::write(place.path().join("child.py"), child).unwrap();
        for name in names {
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
