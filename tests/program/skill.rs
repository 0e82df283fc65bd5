//! The skill for agents: its commands for fixtures run with the pages, this asks questions, and records.

use std::path::Path;

use serde::Deserialize;

use crate::support::tool::{ptmem, text};

const SKILL: &str = include_str!("../../python/ptmem_gate/SKILL.md");
const QUESTIONS: &str = include_str!("../../python/ptmem_gate/skill_questions.toml");

#[derive(Deserialize)]
struct Evaluation {
    question: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    asks: String,
    command: String,
    exit: i32,
    answer: String,
}

#[test]
fn the_commands_of_the_skill_answer_questions() {
    let Evaluation { question: questions } = toml::from_str(QUESTIONS).unwrap();
    assert_eq!(questions.len(), 10);
    for Question { asks, command, exit, answer } in questions {
        let words: Vec<&str> = command.split(' ').collect();
        for word in words[1..].iter().filter(|word| !word.contains('/')) {
            let taught = word.split('=').next().unwrap();
            assert!(SKILL.contains(taught) || word.parse::<u64>().is_ok(), "the skill does not teach '{word}': {asks}");
        }
        let output = ptmem(Path::new(env!("CARGO_MANIFEST_DIR")), &words[1..]);
        let report = text(&output.stdout);
        assert_eq!(output.status.code(), Some(exit), "{asks}\n{report}");
        assert_eq!(report.lines().filter(|line| line.trim() == answer).count(), 1, "{asks}\n{report}");
    }
}

#[cfg(target_os = "linux")]
mod recording {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::SKILL;
    use crate::support::tool::{ptmem, python, text};

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
}
