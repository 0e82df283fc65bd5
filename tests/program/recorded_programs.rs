//! Programs that use what the recorder uses as well: the allocator's history, several optimizers.

#![cfg(target_os = "linux")]

use tempfile::TempDir;

use crate::simulated_torch::{TRAIN, figures_of, record_script};
use crate::support::tool::{python, text};

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
