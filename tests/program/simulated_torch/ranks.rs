//! Ranks that run together.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::{PTMEM, Story, TRAIN, assert_told_truly, figures_of, record_script};
use crate::support::tool::python;

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
fn fully_sharded_on_two_ranks() {
    assert_told_truly(&Story { name: "fully_sharded", ranks: 2, since: 1, ..Story::default() });
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
