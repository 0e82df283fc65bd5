//! Recordings that are compared with each other.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{PTMEM, Story, assert_counters_of_ranks_equal, figures_of, run};
use crate::support::tool::{self, python};

/// The exit code and the verdict of a comparison of two recordings.
fn compare(place: &TempDir, [before, after]: [&str; 2], limit: &str) -> (i32, String) {
    tool::verdict(&tool::ptmem(place.path(), &["diff", before, after, "--max-growth", limit]))
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_same_program_twice_passes_a_gate_without_growth_and_a_larger_one_does_not() {
    let python = python();
    let story = Story { name: "transformer", ..Story::default() };
    let (_, before) = run(&python, &story);
    assert_counters_of_ranks_equal(&story, before.path());
    let (_, after) = run(&python, &story);
    let (_, larger) = run(&python, &Story { name: "fused", ..Story::default() });
    let verdict = |other: &TempDir| {
        let snapshot = |place: &TempDir| place.path().join("snapshot.pkl");
        let mut diff = Command::new(PTMEM);
        diff.arg("diff").args([snapshot(&before), snapshot(other)]).args(["--max-growth", "0", "--strict"]);
        diff.output().unwrap().status.code()
    };
    assert_eq!(verdict(&after), Some(0));
    assert_eq!(verdict(&larger), Some(1));
}

/// Steps that leave reference cycles behind. What the environment brings makes more objects in the first step, after which
/// the garbage collector runs at another time.
const LEAVES_CYCLES: &str = "
import plugin, torch

class Node:
    def __init__(self):
        self.me = self
        self.x = torch.zeros(1 << 18, device='cuda')

def run():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        for _ in range(3):
            Node()
        if step == 0:
            plugin.made()
        model(torch.randn(64, 512, device='cuda')).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_same_commit_in_two_folders_and_two_environments_is_equal() {
    let python = python();
    let place = TempDir::new().unwrap();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let by_package = "import ptmem_gate\nwith ptmem_gate.record('out.pkl', steps=(2, 3)):\n    run()\n";
    for (name, rest, options) in
        [("simulate", "run()\n", &["--record", "out.pkl,steps=2..3"][..]), ("package", by_package, &[])]
    {
        let recorded = [("one", 0), ("another/folder", 100_000)].map(|(folder, objects)| {
            let folder = place.path().join(name).join(folder);
            let environment = folder.join("environment");
            fs::create_dir_all(&environment).unwrap();
            fs::write(folder.join("script.py"), format!("{LEAVES_CYCLES}\n{rest}")).unwrap();
            tool::commit(&folder, &["script.py"]);
            let plugin = format!("def made():\n    return [[] for _ in range({objects})]\n");
            fs::write(environment.join("plugin.py"), plugin).unwrap();
            let mut command = Command::new(PTMEM);
            command.current_dir(&folder).arg("simulate").args(options).arg("--").arg(&python).arg("script.py");
            let path = std::env::join_paths([environment.as_path(), Path::new(package)]).unwrap();
            let output = command.env("PYTHONPATH", path).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            figures_of(&folder, "out.pkl")
        });
        // The segments from before the steps differ, and with them their events.
        for figure in ["/allocated/baseline", "/allocated/peak", "/allocated/end", "/active/peak", "/allocations"] {
            assert_eq!(recorded[0].pointer(figure).unwrap(), recorded[1].pointer(figure).unwrap(), "{name}: {figure}");
        }
    }
}

/// What a program writes itself says where its code came from, also where its command sets `PYTHONPATH` anew.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn both_sides_that_import_one_package_are_inconclusive_also_by_snapshots_of_their_own() {
    let python = python();
    let place = TempDir::new().unwrap();
    let package = |folder: &str, elements: u32| {
        let folder = place.path().join(folder).join("tower");
        fs::create_dir_all(&folder).unwrap();
        let source = format!("import torch\n\ndef build():\n    return torch.zeros({elements}, device='cuda')\n");
        fs::write(folder.join("__init__.py"), source).unwrap();
    };
    package("installed", 2_000_000);
    let script = place.path().join("record.py");
    let dump = "torch.cuda.memory._record_memory_history()\nheld = tower.build()\ntorch.cuda.memory._dump_snapshot(sys.argv[1])";
    fs::write(&script, format!("import sys\nimport torch, tower\n{dump}\n")).unwrap();
    for (side, elements) in [("before", 1_000_000), ("after", 2_000_000)] {
        package(&format!("{side}/src"), elements);
        tool::commit(&place.path().join(side), &["src"]);
    }
    let gate = |path: &str| {
        for side in ["before", "after"] {
            let mut command = Command::new(PTMEM);
            command.current_dir(place.path().join(side)).args(["simulate", "--", "env", &format!("PYTHONPATH={path}")]);
            command.arg(&python).arg(&script).arg(format!("../{side}.pkl"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        compare(&place, ["before.pkl", "after.pkl"], "5%")
    };
    let (code, line) = gate("../installed");
    assert_eq!((code, line.contains("both sides ran the same code of tower")), (3, true), "{line}");
    let (code, line) = gate("src");
    assert_eq!((code, line.contains("peak grew")), (1, true), "{line}");
}

/// A small program that trains and validates, and what of validation it keeps on the device.
const VALIDATES: &str = r#"
import sys, torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())

def batch(size):
    return torch.randn(size, 256).cuda(), torch.zeros(size, dtype=torch.long).cuda()

def train():
    inputs, labels = batch(4096)
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()

@torch.no_grad()
def validate():
    kept = []
    for _ in range(4):
        inputs, labels = batch(1024)
        model(inputs).argmax(-1).eq(labels).sum()
        kept.extend([inputs] if "keep" in sys.argv else [])

for step in range(4):
    train()
    if step == 1:
        validate()
"#;

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_batch_that_validation_keeps_is_seen_by_a_limit_on_evaluation_alone() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("train.py"), VALIDATES).unwrap();
    let python = python();
    let record = |name: &str, option: &str| {
        let command = [python.to_str().unwrap(), "train.py", option];
        let output = tool::ptmem(place.path(), &[&["simulate", "--record", name, "--"], &command[..]].concat());
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
    };
    record("before.pkl", "plain");
    record("after.pkl", "keep");
    let sides = ["before.pkl", "after.pkl"];
    for limit in ["0", "end=0", "stack=0", "phase:step=0", "phase:forward=0"] {
        assert_eq!(compare(&place, sides, limit).0, 0, "{limit}");
    }
    let (code, line) = compare(&place, sides, "phase:evaluation=5%");
    assert!(code == 1 && line.contains("phase evaluation grew 3.00 MiB"), "{line}");
}

/// A program that puts some of its layers into checkpoints.
const CHECKPOINTS: &str = r#"
import ptmem_gate, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(512), nn.Linear(512, width), nn.Linear(width, 512)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

def train(checkpointed, reentrant=False, width=2048):
    layers = nn.ModuleList(Layer(width) for _ in range(6)).cuda()
    optimizer = torch.optim.SGD(layers.parameters())
    for _ in range(3):
        x = torch.randn(512, 512, device="cuda", requires_grad=True)
        for index, layer in enumerate(layers):
            x = checkpoint(layer, x, use_reentrant=reentrant) if index < checkpointed else layer(x)
        x.mean().backward()
        optimizer.step()
        optimizer.zero_grad()

def record(name, *how, **options):
    with ptmem_gate.record(name):
        train(*how, **options)

record("none.pkl", 0)
for reentrant, kind in enumerate(["plain", "reentrant"]):
    record(f"{kind}-half.pkl", 3, reentrant)
    record(f"{kind}-all.pkl", 6, reentrant)
    record(f"{kind}-wide.pkl", 6, reentrant, width=16384)
"#;

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn more_layers_in_checkpoints_pass_a_limit_on_stacks_and_wider_ones_do_not() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("train.py"), CHECKPOINTS).unwrap();
    let mut command = Command::new(PTMEM);
    command.current_dir(place.path()).args(["simulate", "--"]).arg(python()).arg("train.py");
    let output = command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for kind in ["plain", "reentrant"] {
        let [none, half, all, wide] =
            ["none.pkl", &format!("{kind}-half.pkl"), &format!("{kind}-all.pkl"), &format!("{kind}-wide.pkl")];
        for sides in [[none, half], [none, all], [half, all]] {
            let (code, line) = compare(&place, sides, "stack=1MiB");
            assert_eq!(code, 0, "{sides:?}: {line}");
        }
        assert_eq!(compare(&place, [none, wide], "stack=1MiB").0, 1, "{kind}");
    }
}
