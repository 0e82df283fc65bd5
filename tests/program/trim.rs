//! `ptmem trim` as its users run it, and PyTorch's own `_memory_viz.py` on the result.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fixtures;
use crate::support::tool::{ptmem, python, text};

fn fixture(name: &str) -> String {
    fixtures::folder().join(name).display().to_string()
}

#[test]
fn a_cut_snapshot_is_a_snapshot() {
    let place = tempfile::tempdir().unwrap();
    let cut = ptmem(place.path(), &["trim", &fixture("before.pkl"), "--between", "..peak", "-o", "small.pickle"]);
    assert_eq!(cut.status.code(), Some(0), "{}", text(&cut.stderr));
    assert!(text(&cut.stderr).contains("device 0: 113 of 1129 events, from 0 to 113"), "{}", text(&cut.stderr));
    assert!(cut.stdout.is_empty());
    let diff = ptmem(place.path(), &["diff", "small.pickle", &fixture("before.pkl"), "--allow-partial"]);
    assert_eq!(diff.status.code(), Some(0), "{}", text(&diff.stdout));
    let to_stdout = ptmem(place.path(), &["trim", &fixture("before.pkl"), "--between", "..peak", "-o", "-"]);
    assert_eq!(to_stdout.stdout, std::fs::read(place.path().join("small.pickle")).unwrap());
}

#[test]
fn mistakes_are_named_and_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    let before = fixture("before.pkl");
    let profile = ptmem(place.path(), &["profile", &before, "-o", "profile.json"]);
    assert_eq!(profile.status.code(), Some(0));
    for (arguments, expected) in [
        (&["trim", &before, "--between", "oom..", "-o", "x"][..], "no device has the moment 'oom'"),
        (&["trim", &before, "--between", "noon..", "-o", "x"], "invalid window 'noon..'"),
        (&["trim", &before, "--between", "end..peak", "-o", "x"], "the window ends before it begins"),
        (
            &["trim", &before, "--between", "event:9..event:4", "-o", "x"],
            "on device 0, event:4 is after 5 events, event:9 after 10",
        ),
        (&["trim", &before, "--device", "3", "-o", "x"], "there is no device 3 in the snapshot; it has device 0"),
        (&["trim", &before, "--max-bytes", "1KiB", "-o", "x"], "the state at the peak takes"),
        (&["trim", &before, "-o", &before], "is the snapshot itself"),
        (&["trim", &before], "--output <FILE>"),
        (&["trim", "profile.json", "-o", "x"], "is a saved profile, which has no history to cut"),
        (&["trim", "missing.pkl", "-o", "x"], "no such file"),
        (&["trim", &before, "-o", "nowhere/x"], "there is no folder nowhere"),
    ] {
        let output = ptmem(place.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
        assert!(!place.path().join("x").exists(), "{arguments:?}");
    }
}

/// PyTorch's script that reads snapshots.
fn memory_viz(python: &Path) -> PathBuf {
    let where_is = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])";
    let found = Command::new(python).args(["-c", where_is]).output().unwrap();
    Path::new(text(&found.stdout).trim()).join("cuda/_memory_viz.py")
}

/// The lines about blocks. The script prints events that it does not know as they are, and their keys differ.
fn told(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('{')).collect()
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_script_of_pytorch_reads_it_as_the_whole() {
    let python = python();
    let script = memory_viz(&python);
    let place = tempfile::tempdir().unwrap();
    let viz = |command: &str, snapshot: &str| {
        let output = Command::new(&python).arg(&script).args([command, snapshot]).output().unwrap();
        assert!(output.status.success(), "{command} {snapshot}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for name in ["before.pkl", "expandable.pkl", "two-devices-before.pkl", "ranks/rank0.pkl"] {
        let whole = fixture(name);
        let small = place.path().join("small.pickle").display().to_string();
        let cut = ptmem(place.path(), &["trim", &whole, "-o", &small]);
        assert_eq!(cut.status.code(), Some(0), "{name}: {}", text(&cut.stderr));
        assert_eq!(told(&viz("trace", &small)), told(&viz("trace", &whole)), "{name}");
        let cut = ptmem(place.path(), &["trim", &whole, "--between", "10..60", "-o", &small]);
        assert_eq!(cut.status.code(), Some(0), "{name}: {}", text(&cut.stderr));
        assert!(viz("trace", &small).contains("TOTAL MEM"), "{name}");
        let page = place.path().join("page.html").display().to_string();
        let output = Command::new(&python).arg(&script).args(["trace_plot", &small, "-o", &page]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
}
