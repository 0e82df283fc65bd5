//! Memory by module: `ptmem simulate --modules` and `--group-by module`.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::recorded::{assert_counters_equal, figures};
use crate::simulated_torch::python_since;

const PTMEM: &str = env!("CARGO_BIN_EXE_ptmem");
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torch/programs.py");

/// First release 2.x whose allocator keeps metadata.
const SINCE: u32 = 10;

fn suitable_python() -> Option<PathBuf> {
    python_since(SINCE, "memory by module")
}

/// Records a program, and gives the snapshot and PyTorch's counters.
fn record(python: &Path, name: &str, options: &[&str], steps: &str, place: &TempDir) -> (PathBuf, PathBuf) {
    let snapshot = place.path().join(format!("{name}{}.pkl", options.len()));
    let counters = snapshot.with_extension("json");
    let mut command = Command::new(PTMEM);
    command.arg("simulate").args(options).arg(format!("--record={}{steps}", snapshot.display()));
    let output = command.arg("--").arg(python).arg(PROGRAMS).arg(name).arg(&counters).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (snapshot, counters)
}

/// Bytes at the peak by label, and of all.
fn at_peak(snapshot: &Path, grouping: &str) -> (Vec<(String, u64)>, u64) {
    let figures: Json = figures(snapshot, &["--group-by", grouping, "--top", "0"]);
    let rows = figures["stacks"].as_array().unwrap().iter();
    let rows = rows.map(|row| (row["label"].as_str().unwrap().to_owned(), row["peak"].as_u64().unwrap())).collect();
    (rows, figures["allocated"]["peak"].as_u64().unwrap())
}

fn bytes_of(rows: &[(String, u64)], label: &str) -> u64 {
    rows.iter().filter(|(other, _)| other == label).map(|(_, bytes)| bytes).sum()
}

/// Weights, activations, gradients and the state of the optimizer belong to modules, and naming them changes no size.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_belongs_to_modules() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    for name in ["transformer", "checkpointed", "convolutional", "recurrent"] {
        let (plain, _) = record(&python, name, &[], "", &place);
        let (named, counters) = record(&python, name, &["--modules"], "", &place);
        assert_counters_equal(name, &named, &counters, &[]);
        let mut diff = Command::new(PTMEM);
        let diff =
            diff.arg("diff").args([&plain, &named]).args(["--max-growth", "0", "--min-delta", "0"]).output().unwrap();
        assert_eq!(diff.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&diff.stdout));
        let (rows, peak) = at_peak(&named, "module");
        let nameless = bytes_of(&rows, "<no module>");
        assert!(nameless * 20 <= peak, "{name}: {nameless} of {peak} bytes have no module: {rows:?}");
        assert_eq!(rows.iter().map(|(_, bytes)| bytes).sum::<u64>(), peak);
    }
}

/// What is older than the recorded step has its module too: two layers, each with a matrix of 1024 x 256 and 1024
/// biases in two bytes each, their gradients, momenta and squares.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn blocks_from_before_the_recorded_step_belong_to_modules() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let (snapshot, _) = record(&python, "transformer", &["--modules"], ",steps=2..2", &place);
    let figures = figures(&snapshot, &["--group-by", "module", "--top", "0"]);
    let rows = figures["stacks"].as_array().unwrap();
    let up = rows.iter().find(|row| row["label"] == "*.up").unwrap();
    assert_eq!(up["end"], 2 * 4 * (1024 * 256 * 2 + 1024 * 2));
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn metadata_of_the_program_stays() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let (snapshot, _) = record(&python, "metadata_of_user", &["--modules"], "", &place);
    let (mut rows, _) = at_peak(&snapshot, "metadata");
    rows.sort();
    let labels: Vec<&str> = rows.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["<no metadata>", "mine"]);
    let (rows, _) = at_peak(&snapshot, "module");
    assert!(bytes_of(&rows, "Linear") >= 64 * 64 * 4, "{rows:?}");
}
