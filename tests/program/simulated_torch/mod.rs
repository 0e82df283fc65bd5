//! PyTorch itself on simulated GPUs: what its allocator counted is held against what `ptmem show` says of the
//! recording.
//!
//! `PTMEM_TEST_PYTHON` names a Python with PyTorch: `.ci/torch` lays one out. The tests are run by `cargo test --
//! --ignored`, and by `.ci/run`.

#![cfg(target_os = "linux")]

mod comparisons;
mod endings;
mod ranks;
mod steps;
mod stories;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::recorded::{assert_counters_equal, figures};
use crate::support::tool::{python, say};

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

/// Runs a script on simulated GPUs in a folder of its own, and records it.
pub(crate) fn record_script(python: &Path, place: &Path, script: &str, record: &str) -> Output {
    record_script_with(python, place, script, record, &[])
}

pub(crate) fn record_script_with(python: &Path, place: &Path, script: &str, record: &str, options: &[&str]) -> Output {
    // As frozen_torch.py does, within the same line.
    let frozen = "import gc; gc.disable(); import torch, torch._dynamo; gc.freeze(); gc.enable(); import torch";
    fs::write(place.join("script.py"), script.replacen("import torch", frozen, 1)).unwrap();
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
