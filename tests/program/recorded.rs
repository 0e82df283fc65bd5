//! Snapshots that PyTorch itself wrote, with its own counters beside: every figure to the byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::fixtures;

const COUNTERS: [&str; 4] = ["allocated", "active", "requested", "reserved"];
/// Largest recording that is kept in the repository.
const LARGEST: u64 = 100 * 1024;

/// All that a snapshot says.
fn shown(snapshot: &Path, options: &[&str]) -> Value {
    let ptmem = env!("CARGO_BIN_EXE_ptmem");
    let output = Command::new(ptmem).args(["show", "--format", "json"]).args(options).arg(snapshot).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Figures of the one device that it says something of.
fn of_one_device(shown: &Value) -> Value {
    let devices = shown["devices"].as_array().unwrap();
    let mut used = devices.iter().filter(|device| device["allocations"] != 0);
    let device = used.next().unwrap().clone();
    assert!(used.next().is_none(), "one process uses one device");
    device
}

/// Figures of the one device that a snapshot says something of.
pub(crate) fn figures(snapshot: &Path, options: &[&str]) -> Value {
    of_one_device(&shown(snapshot, options))
}

/// Holds every counter of PyTorch against the figure of its snapshot. `options` are those of `ptmem show`.
pub(crate) fn assert_counters_equal(name: &str, snapshot: &Path, counters: &Path, options: &[&str]) {
    let shown = shown(snapshot, options);
    let figures = of_one_device(&shown);
    let diagnostics = shown["diagnostics"].as_array().unwrap();
    // PyTorch counts also what a compiler takes to measure kernels.
    let has_measured = diagnostics.iter().any(|diagnostic| diagnostic["code"] == "kernel-benchmarks");
    let counted: Value = serde_json::from_str(&fs::read_to_string(counters).unwrap()).unwrap();
    for counter in COUNTERS {
        let counted = &counted["counters"][counter];
        let told = &figures[counter];
        let [peak, counted_peak] = [told, counted].map(|of| of["peak"].as_u64().unwrap());
        let agrees = if has_measured && counter != "reserved" { peak < counted_peak } else { peak == counted_peak };
        assert!(agrees, "{name}: peak of {counter}: {peak}, counted {counted_peak}");
        assert_eq!(told["end"], counted["current"], "{name}: end of {counter}");
        assert_eq!(told["exact"], true, "{name}: {counter}");
    }
}

#[test]
fn committed_recordings_have_the_counters_that_pytorch_kept() {
    // Those at the corners, where not every figure is exact, are for `library/recorded`.
    let is_corner = |path: &Path| path.parent().unwrap().ends_with("corners");
    let snapshots = fixtures::recorded().into_iter().filter(|path| !is_corner(path));
    for snapshot in snapshots {
        assert!(fs::metadata(&snapshot).unwrap().len() < LARGEST, "{}", snapshot.display());
        let counters = snapshot.with_extension("").with_extension("json");
        assert_counters_equal(&snapshot.display().to_string(), &snapshot, &counters, &[]);
    }
}
