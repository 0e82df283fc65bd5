//! Searches and gates record modules and shapes where a limit or a grouping needs them.

#![cfg(all(feature = "simulate", target_os = "linux"))]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::tool::{commit, git, python, text};

/// A repository with two commits, of which the last has a larger batch.
fn repository() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("repo");
    fs::create_dir(&root).unwrap();
    for rows in [1024, 2048] {
        let program = format!(
            "import torch\nmodel = torch.nn.Linear(1024, 1024).cuda()\n\
             optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(3):\n    \
             model(torch.randn({rows}, 1024, device='cuda')).relu().sum().backward()\n    optimizer.step()\n"
        );
        fs::write(root.join("train.py"), program).unwrap();
        commit(&root, &["train.py"]);
    }
    place
}

fn run(place: &Path, arguments: &[&str], command: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    program.current_dir(place.join("repo")).env("XDG_CACHE_HOME", place.join("cache")).env_remove("CI");
    program.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    program.args(arguments).arg("--").args(command).output().unwrap()
}

/// `ptmem simulate` passes on what to record in an environment variable of the program.
#[test]
fn only_what_a_limit_or_a_grouping_needs_is_recorded() {
    let place = repository();
    let of_module = "module:*=5%";
    for (arguments, group_by, watched) in [
        (&["fit", "batch=1..2"][..], None, ""),
        (&["fit", "batch=1..2", "--group-by", "module"], None, "modules"),
        (&["fit", "batch=1..2"], Some("purpose"), "modules"),
        (&["bisect", "HEAD~1..HEAD", "--max-growth", "5%"], None, ""),
        (&["bisect", "HEAD~1..HEAD", "--max-growth", of_module], None, "modules"),
        (&["bisect", "HEAD~1..HEAD", "--max-growth", "5%", "--group-by", "shape"], None, "shapes"),
        (&["gate", "--base", "HEAD~1", "--max-growth", "5%"], None, ""),
        (&["gate", "--base", "HEAD~1", "--warn-growth", of_module], None, "modules"),
        (&["gate", "--base", "HEAD~1", "--max", "module:*=1GiB"], Some("shape"), "shapes"),
    ] {
        let config = group_by.map(|by| format!("group-by = \"{by}\"\n")).unwrap_or_default();
        fs::write(place.path().join("repo/ptmem.toml"), config).unwrap();
        let script = "echo watches \"[$PTMEM_SIMULATE_WATCH]\" >&2; exit 3";
        let error = text(&run(place.path(), arguments, &["sh", "-c", script, "{batch}"]).stderr);
        assert!(error.contains(&format!("watches [{watched}]")), "{arguments:?} {group_by:?}: {error}");
    }
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn torch_limits_on_modules_are_judged_in_gates_and_searches() {
    let place = repository();
    let python = python();
    let command = [python.to_str().unwrap(), "train.py"];
    let base = git(&place.path().join("repo"), &["rev-parse", "HEAD~1"]);
    // Its kept recordings have no modules.
    let arguments = ["--max-growth", "end=0"];
    for (command_line, expected) in [
        (&["gate", "--base", base.trim()][..], "PASS end did not change"),
        (&["bisect", "HEAD~1..HEAD"], "both ends of the range are within the limits"),
    ] {
        let output = run(place.path(), &[command_line, &arguments].concat(), &command);
        assert!(text(&output.stdout).contains(expected), "{}{}", text(&output.stdout), text(&output.stderr));
    }
    let arguments = ["--max-growth", "end=0", "--max-growth", "module:*=5%"];
    for command_line in [&["gate", "--base", base.trim()][..], &["bisect", "HEAD~1..HEAD"]] {
        let output = run(place.path(), &[command_line, &arguments].concat(), &command);
        let report = text(&output.stdout);
        assert!(report.contains("FAIL module Linear grew"), "{report}{}", text(&output.stderr));
    }
}
