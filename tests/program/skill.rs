//! The skill for agents: its commands for fixtures run with the pages, and this records.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::tool::{ptmem, python, text};

const SKILL: &str = include_str!("../../python/ptmem_gate/SKILL.md");
const PROGRAM: &str = "
import torch
layer = torch.nn.Linear(1 << 10, 1 << 10).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(4):
    layer(torch.randn(64, 1 << 10, device='cuda')).sum().backward()
    optimizer.step()
";

/// Needs the Python of `.ci/torch`.
#[test]
#[ignore = "needs PyTorch"]
fn the_command_of_the_skill_records_with_torch() {
    let command = SKILL.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.py"), PROGRAM).unwrap();
    let programs = [Path::new(env!("CARGO_BIN_EXE_ptmem")).to_owned(), python()];
    let mut path = std::env::join_paths(programs.iter().map(|program| program.parent().unwrap())).unwrap();
    path.push(":/usr/bin:/bin");
    let output =
        Command::new("sh").args(["-ec", command]).current_dir(folder.path()).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = ptmem(folder.path(), &["leak", "after.pkl"]);
    assert!(text(&shown.stdout).contains("by Optimizer.step"), "{}", text(&shown.stdout));
}
