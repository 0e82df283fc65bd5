//! One rank of a job without the others: `ptmem simulate --world-size 8 --rank 3`.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::simulated_torch::{figures_of, python_since, record_script_with};
use crate::support::tool::say;

const PTMEM: &str = env!("CARGO_BIN_EXE_ptmem");
const MESHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch/meshes.py");

/// First release 2.x of which all that the program uses is there in this form.
const SINCE: u32 = 11;

/// A Python with a PyTorch that can run the program. None where there is none.
fn suitable_python() -> Option<PathBuf> {
    python_since(SINCE, "one rank alone")
}

fn run(options: &[&str], words: &[&str], names: &[&str], place: &Path) -> Output {
    let mut command = Command::new(PTMEM);
    command.arg("simulate").args(options).args(["--memory", "4GiB", "--"]).args(words);
    command.arg(MESHES).arg(place.join("counters.json")).args(names).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn counters(place: &Path, rank: u32) -> Json {
    let path = place.join(format!("counters_rank{rank}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The counters without those that differ from run to run: whether the last bucket of DDP is still held at the end is up to a
/// thread of PyTorch's.
fn settled(mut counters: Json) -> Json {
    let of_ddp = counters["data_parallel"].as_object_mut().unwrap();
    of_ddp.retain(|name, _| name.ends_with(".peak") || name.starts_with("reserved"));
    assert_eq!(of_ddp.len(), 5, "{of_ddp:?}");
    counters
}

/// Data, fully sharded, hybrid, tensor, pipeline, context and expert parallel, and a GPT of Megatron-core where
/// `PTMEM_TEST_MEGATRON` names its folder: PyTorch's own counters, to the byte.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn each_rank_alone_has_the_counters_of_torch_that_it_has_among_all() {
    let Some(python) = suitable_python() else { return };
    let python = python.to_str().unwrap();
    let has_megatron = std::env::var("PTMEM_TEST_MEGATRON").is_ok_and(|folder| !folder.is_empty());
    if !has_megatron {
        say("skipped: Megatron-core as one of the ways, which PTMEM_TEST_MEGATRON names");
    }
    let together = TempDir::new().unwrap();
    let torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8"];
    run(&["--gpus", "8"], &torchrun, &[], together.path());
    let alone = TempDir::new().unwrap();
    // One of each stage of the pipeline: each hears shapes from the one before it.
    run(&["--world-size", "8", "--rank", "1,3,5,7", "--jobs", "4"], &[python], &[], alone.path());
    for rank in [1, 3, 5, 7] {
        let expected = settled(counters(together.path(), rank));
        assert_eq!(expected.as_object().unwrap().len(), 8 + usize::from(has_megatron), "{expected}");
        assert_eq!(settled(counters(alone.path(), rank)), expected, "rank {rank}");
    }
}

fn peak(counters: &Json) -> u64 {
    counters["steered_by_rank_0"]["requested.peak"].as_u64().unwrap()
}

/// Rank 0 sends flags and a size. A rank that runs alone does not know them, and says so; what is given, or what rank 0
/// said in a run before, is taken.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn what_only_rank_0_of_torchrun_knows_is_given_heard_or_counted() {
    let Some(python) = suitable_python() else { return };
    let words = [python.to_str().unwrap()];
    let name = ["steered_by_rank_0"];
    let place = TempDir::new().unwrap();
    let [report, after] = ["report.json", "after.pkl"].map(|file| place.path().join(file));
    let files = ["--report", report.to_str().unwrap(), "--record", after.to_str().unwrap()];
    let unknown: Vec<&str> = ["--world-size", "512", "--rank", "300"].into_iter().chain(files).collect();
    let output = run(&unknown, &words, &name, place.path());
    assert!(after.exists(), "one rank writes the file that was asked for");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("rank 300 of 512: recorded "), "{stderr}");
    assert!(stderr.contains("values that only other ranks know were taken from this one 2 times"), "{stderr}");
    let report: Json = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let told: Vec<&str> =
        report["peer_values"].as_array().unwrap().iter().map(|value| value["place"].as_str().unwrap()).collect();
    assert_eq!(told.len(), 2, "{report}");
    assert!(told[0].starts_with("broadcast from rank 0 in read_flags (meshes.py:"), "{report}");
    assert!(told[1].starts_with("object from rank 0 in read_width (meshes.py:"), "{report}");

    let given = ["--world-size", "512", "--rank", "300", "--peer-value", "read_flags=[1, 1, 0]"];
    let given: Vec<&str> = given.into_iter().chain(["--peer-value", "read_w*=500000"]).collect();
    let other = TempDir::new().unwrap();
    let output = run(&given, &words, &name, other.path());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("other ranks know"));
    assert_eq!(peak(&counters(other.path(), 300)), 4_000 + 400_000 + 2_000_000);
    assert!(peak(&counters(place.path(), 300)) < 5_000);

    let heard = TempDir::new().unwrap();
    let record = heard.path().join("after.pkl");
    let several = ["--world-size", "512", "--rank", "0,300", "--jobs", "2", "--record", record.to_str().unwrap()];
    run(&several, &words, &name, heard.path());
    assert!(["after_rank0.pkl", "after_rank300.pkl"].iter().all(|file| heard.path().join(file).exists()));
    assert_eq!(counters(heard.path(), 300), counters(other.path(), 300));
    assert_eq!(peak(&counters(heard.path(), 0)), peak(&counters(heard.path(), 300)));
}

const STATIC_GRAPH: &str = "
import os, time, torch
from torch import distributed, nn
distributed.init_process_group('nccl')
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))).cuda()
parallel = nn.parallel.DistributedDataParallel(model, static_graph=True, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
for step in range(4):
    time.sleep(SECONDS)
    parallel(torch.randn(64, 512, device='cuda')).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
";

/// Whether the first buckets are gone when there are new ones does not depend on the speed of the machine.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn buckets_of_a_static_graph_are_replaced_as_in_slow_steps() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    for (seconds, name) in [("0", "fast.pkl"), ("0.5", "slow.pkl")] {
        let script = STATIC_GRAPH.replace("SECONDS", seconds);
        let output = record_script_with(&python, place.path(), &script, name, &["--world-size", "2", "--rank", "0"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [fast, slow] = ["fast.pkl", "slow.pkl"].map(|name| figures_of(place.path(), name)["allocated"].clone());
    assert_eq!(fast["peak"], slow["peak"]);
}

#[test]
fn a_command_that_starts_ranks_itself_is_refused() {
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--world-size", "8", "--", "torchrun", "train.py"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("torchrun starts its own; expected the program itself"), "{stderr}");
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_that_starts_ranks_itself_is_told_to_be_one() {
    let script = "
import torch

def work(rank, barrier):
    torch.zeros(1000, device='cuda')
    barrier.wait()

if __name__ == '__main__':
    barrier = torch.multiprocessing.get_context('spawn').Barrier(2)
    torch.multiprocessing.spawn(work, (barrier,), nprocs=2)
";
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), script, "x.pkl", &["--world-size", "2", "--rank", "0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr
            .contains("at the same time: with --world-size, or ranks of a gate, the command must be one rank, in one"),
        "{stderr}"
    );
    assert!(!output.status.success());
}

/// Files of ranks have names of their own, and a rank that fails ends the run.
#[test]
fn ranks_run_in_order_until_one_fails() {
    let place = TempDir::new().unwrap();
    let mut command = Command::new(PTMEM);
    command.args(["simulate", "--world-size", "64", "--rank", "one-per-stage=4", "--report"]);
    command.arg(place.path().join("run.json"));
    let script = "echo $RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE; [ $RANK -lt 32 ]";
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 0 0 64\n16 0 2 64\n32 0 4 64\n");
    for rank in [0, 16, 32] {
        let report = fs::read_to_string(place.path().join(format!("run_rank{rank}.json"))).unwrap();
        let report: Json = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["rank"], &report["world_size"]), (&rank.into(), &64.into()));
    }
    assert!(!place.path().join("run_rank48.json").exists());
}
