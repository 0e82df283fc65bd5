//! Memory by module and purpose, and passes of training: `ptmem simulate --modules`.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::recorded::{assert_counters_equal, figures};
use crate::simulated_torch::{CHECKPOINTED, COMPILED, python_since, record_script_with};
use crate::support::fixtures;
use crate::support::tool::{ptmem, text};

const PTMEM: &str = env!("CARGO_BIN_EXE_ptmem");
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch/programs.py");

/// First release 2.x whose allocator keeps metadata.
const SINCE: u32 = 10;

fn suitable_python() -> Option<PathBuf> {
    python_since(SINCE, "memory by module")
}

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch/models.py");

/// The beginning of rows for what code outside of all modules allocates.
const OUTSIDE: &str = "<outside of modules";

/// Records a program, and gives the snapshot and PyTorch's counters.
fn record(python: &Path, name: &str, options: &[&str], steps: &str, place: &TempDir) -> (PathBuf, PathBuf) {
    record_of(PROGRAMS, python, name, options, steps, place)
}

/// The same of one of several programs in a file.
fn record_of(
    file: &str,
    python: &Path,
    name: &str,
    options: &[&str],
    steps: &str,
    place: &TempDir,
) -> (PathBuf, PathBuf) {
    let snapshot = place.path().join(format!("{name}{}.pkl", options.len()));
    let counters = snapshot.with_extension("json");
    let mut command = Command::new(PTMEM);
    command.arg("simulate").args(options).arg(format!("--record={}{steps}", snapshot.display()));
    let output = command.arg("--").arg(python).arg(file).arg(name).arg(&counters).output().unwrap();
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
    assert_belongs_to_modules(&record(&python, "transformer", &["--modules"], "", &place));
    assert_belongs_to_modules(&record(&python, "recurrent", &["--modules"], "", &place));
    let named = record(&python, "checkpointed", &["--shapes"], "", &place);
    assert_belongs_to_modules(&named);
    assert_same_memory(&CHECKPOINTED.join("snapshot.pkl"), &named.0);
}

/// A minute of compilation, on the machines that test each release of PyTorch.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_of_compiled_programs_exhaustively_belongs_to_modules() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let named = record(&python, "compiled", &["--modules"], "", &place);
    assert_belongs_to_modules(&named);
    assert_same_memory(&COMPILED.join("snapshot.pkl"), &named.0);
}

fn assert_belongs_to_modules((named, counters): &(PathBuf, PathBuf)) {
    let name = named.display().to_string();
    assert_counters_equal(&name, named, counters, &[]);
    let (rows, peak) = at_peak(named, "module");
    let outside: u64 = rows.iter().filter(|(label, _)| label.starts_with(OUTSIDE)).map(|(_, bytes)| bytes).sum();
    let nameless = bytes_of(&rows, "<no module>") + outside;
    assert!(nameless * 20 <= peak, "{name}: {nameless} of {peak} bytes have no module: {rows:?}");
    assert_eq!(rows.iter().map(|(_, bytes)| bytes).sum::<u64>(), peak);
}

fn assert_same_memory(before: &Path, after: &Path) {
    let diff = Command::new(PTMEM).arg("diff").args([before, after]).args(["--max-growth=0", "--min-delta=0"]).output();
    let diff = diff.unwrap();
    assert_eq!(diff.status.code(), Some(0), "{}", String::from_utf8_lossy(&diff.stdout));
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

/// At most 5 % of the peak of a model has no purpose, or no module, and the passes of a step are there.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn memory_has_a_purpose_and_steps_have_passes() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    for name in ["closure", "resnet", "u_net", "experts"] {
        let (snapshot, _) = record_of(MODELS, &python, name, &["--modules"], ",steps=3..3", &place);
        assert_purposes_and_passes(name, &snapshot);
    }
}

fn assert_purposes_and_passes(name: &str, snapshot: &Path) {
    for (grouping, nameless) in [("purpose", &["other", "<no purpose>"][..]), ("module", &["<no module>"])] {
        let (rows, peak) = at_peak(snapshot, grouping);
        let is_unknown = |label: &str| nameless.contains(&label) || label.starts_with(OUTSIDE);
        let unknown: u64 = rows.iter().filter(|(label, _)| is_unknown(label)).map(|(_, bytes)| bytes).sum();
        assert!(unknown * 20 <= peak, "{name}: {unknown} of {peak} bytes have no {grouping}: {rows:?}");
    }
    let (modules, peak) = at_peak(snapshot, "module");
    assert!(!modules.iter().any(|(label, _)| label.starts_with("<optimizer>.")), "{name}: {modules:?}");
    let (rows, _) = at_peak(snapshot, "purpose");
    for purpose in ["parameters", "optimizer state", "activations"] {
        assert!(bytes_of(&rows, purpose) > 0 && bytes_of(&rows, purpose) < peak, "{name}: {purpose}: {rows:?}");
    }
    assert_passes(name, &figures(snapshot, &["--phases"]));
}

/// A model that only holds averages, state in lists, dictionaries and attributes, and a gradient of few rows.
const SCATTERED: &str = "
import copy, torch
from torch import nn

class Optimizer(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.shared = []

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]['params']:
            state = self.state[parameter]
            if not state:
                state['moments'] = [torch.zeros_like(parameter), {'second': torch.zeros_like(parameter)}]
                self.shared.append(torch.zeros_like(parameter))

model = nn.Sequential(nn.Embedding(1024, 64, sparse=True), nn.Linear(64, 64, bias=False)).cuda()
averages = copy.deepcopy(model)
optimizer = Optimizer(model.parameters())
for step in range(2):
    optimizer.zero_grad()
    model(torch.arange(512, device='cuda')).sum().backward()
    optimizer.step()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn scattered_tensors_have_their_purposes() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), SCATTERED, "out.pkl", &["--modules"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = figures(&place.path().join("out.pkl"), &["--group-by", "purpose", "--top", "0"]);
    let rows = figures["stacks"].as_array().unwrap();
    let weights = (1024 + 64) * 64 * 4;
    // Values and their indices, and the matrix.
    let gradients = 512 * 64 * 4 + 512 * 8 + 64 * 64 * 4;
    for (purpose, bytes) in [("parameters", 2 * weights), ("optimizer state", 3 * weights), ("gradients", gradients)] {
        let row = rows.iter().find(|row| row["label"] == purpose).unwrap();
        assert_eq!(row["end"], bytes, "{purpose}");
    }
}

/// A list of the parameters of the model that runs.
const SHARED: &str = "
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, batch):
        return self.head(self.body(batch))

model = Net().cuda()
held = nn.ParameterList(model.parameters())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(8, 64, device='cuda')).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn modules_that_never_run_do_not_own_what_others_run() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), SHARED, "out.pkl", &["--modules"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = figures(&place.path().join("out.pkl"), &["--group-by", "module", "--at", "end", "--top", "0"]);
    let labels: Vec<_> =
        figures["stacks"].as_array().unwrap().iter().map(|row| row["label"].as_str().unwrap()).collect();
    for (label, is_owner) in [("body", true), ("head", true), ("ParameterList", false), ("<several modules>", false)] {
        assert_eq!(labels.contains(&label), is_owner, "{label} of {labels:?}");
    }
}

/// An embedding whose matrix is that of the last layer.
const TIED: &str = "
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(512, 64), nn.Linear(64, 512, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, batch):
        return self.head(self.embed(batch))

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.arange(8, device='cuda')).sum().backward()
    optimizer.step()
";

/// Bytes by module at the end of a program.
fn at_end_of(program: &str) -> Option<Vec<(String, u64)>> {
    let python = suitable_python()?;
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), program, "out.pkl", &["--modules"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = figures(&place.path().join("out.pkl"), &["--group-by", "module", "--at", "end", "--top", "0"]);
    let rows = figures["stacks"].as_array().unwrap().iter();
    Some(rows.map(|row| (row["label"].as_str().unwrap().to_owned(), row["end"].as_u64().unwrap())).collect())
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn all_memory_of_a_shared_parameter_belongs_to_the_first_module_that_holds_it() {
    let Some(rows) = at_end_of(TIED) else { return };
    // The parameter, its gradient, and two moments.
    assert_eq!(bytes_of(&rows, "embed"), 4 * 512 * 64 * 4, "{rows:?}");
    assert_eq!(bytes_of(&rows, "<several modules>"), 0, "{rows:?}");
}

/// Parameters of two modules are views of one buffer.
const FLAT: &str = "
import torch
from torch import nn

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1024))

    def forward(self, batch):
        return batch * self.weight

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Scale(), Scale()

    def forward(self, batch):
        return self.decoder(self.encoder(batch))

model = Net().cuda()
flat = torch.ones(2048, device='cuda')
model.encoder.weight.data, model.decoder.weight.data = flat[:1024], flat[1024:]
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(8, 1024, device='cuda')).sum().backward()
    optimizer.step()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn parameters_in_one_buffer_keep_their_gradients_and_moments() {
    let Some(rows) = at_end_of(FLAT) else { return };
    // A gradient and two moments each, and the buffer.
    for (label, tensors) in [("encoder", 3), ("decoder", 3), ("<several modules>", 2)] {
        assert_eq!(bytes_of(&rows, label), tensors * 1024 * 4, "{label} of {rows:?}");
    }
}

/// Modules that never run, and cannot be walked: one without a hash, one that fails, and some that a thread builds.
const UNFINISHED: &str = "
import dataclasses, threading, torch
from torch import nn

@dataclasses.dataclass
class Loss(nn.Module):
    weight: float = 1.0

    def __post_init__(self):
        super().__init__()

class Wrapper(nn.Module):
    def modules(self):
        raise RuntimeError('load() first')

def build():
    while not done:
        layers = nn.ModuleList()
        for _ in range(300):
            layers.append(nn.Identity())

held, done = [Loss(), Wrapper()], False
builder = threading.Thread(target=build)
builder.start()
try:
    for _ in range(40):
        model = nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(8, 64, device='cuda')).sum().backward()
        optimizer.step()
finally:
    done = True
    builder.join()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn modules_that_cannot_be_walked_do_not_stop_a_program() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), UNFINISHED, "out.pkl", &["--modules"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(place.path().join("out.pkl").exists(), "{}", text(&output.stderr));
}

/// An optimizer for each parameter, one of them with a long list of numbers.
const MANY_OPTIMIZERS: &str = "
import gc, torch

searches = walks = 0
objects = gc.get_objects

def search(*arguments):
    global searches
    searches += 1
    return objects(*arguments)

class Numbers(list):
    def __iter__(self):
        global walks
        walks += 1
        return super().__iter__()

gc.get_objects = search
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(16))).cuda()
optimizers = [torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()]
optimizers[0].schedule = Numbers([0.1] * 200_000)
for step in range(2):
    model(torch.randn(4, 8, device='cuda')).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
print(searches, walks)
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn steps_of_many_optimizers_rarely_search_the_program() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let output = record_script_with(&python, place.path(), MANY_OPTIMIZERS, "out.pkl", &["--modules"]);
    assert_eq!(text(&output.stdout), "5 0\n", "{}", text(&output.stderr));
}

/// A step has its passes one after the other, and all of them end.
fn assert_passes(name: &str, figures: &Json) {
    let phases = figures["phases"].as_array().unwrap();
    let mut at = 0;
    for pass in ["forward", "backward", "optimizer"] {
        let found: Vec<&Json> = phases.iter().filter(|phase| phase["name"] == pass).collect();
        assert_eq!(found.len(), 1, "{name}: {pass}: {phases:?}");
        let first = found[0]["first_event"].as_u64().unwrap();
        assert!(at <= first, "{name}: {pass}");
        at = first + found[0]["events"].as_u64().unwrap();
    }
    let open: Vec<&Json> = phases.iter().filter(|phase| phase["ends"] == false).map(|phase| &phase["name"]).collect();
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// Under a dispatch mode, PyTorch does not compile unless it is asked to, and takes no lengths on the host.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_does_with_shapes_what_it_does_without() {
    let Some(python) = suitable_python() else { return };
    let script = "
import sys, torch

@torch.compile
def compiled(x):
    return (x.sin() * x.cos()).exp()

x = torch.ones(1 << 20, device='cuda', requires_grad=True)
compiled(x).sum().backward()
probabilities = torch.randn(50, 16, 20, device='cuda', requires_grad=True)
lengths = torch.full((16,), 50), torch.full((16,), 30)
loss = torch.nn.CTCLoss()(probabilities.log_softmax(2), torch.ones(16, 30, dtype=torch.long, device='cuda'), *lengths)
loss.backward()
named = dict(zip(('input_lengths', 'target_lengths'), lengths))
torch.ctc_loss(probabilities.log_softmax(2), torch.ones(16, 30, dtype=torch.long, device='cuda'), **named).sum().backward()
print(torch.cuda.max_memory_allocated(), torch.cuda.memory_stats()['allocation.all.allocated'])
";
    let place = TempDir::new().unwrap();
    let run = |record: &str, options: &[&str]| {
        let output = record_script_with(&python, place.path(), script, record, options);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    assert_eq!(run("plain.pkl", &[]), run("shapes.pkl", &["--shapes"]));
    let (rows, _) = at_peak(&place.path().join("shapes.pkl"), "module");
    assert!(rows.iter().any(|(label, _)| label == "<outside of modules: <module> in script>"), "{rows:?}");
    assert!(!rows.iter().any(|(label, _)| label.contains("__torch_dispatch__")), "{rows:?}");
}

/// Tensors have the types and shapes that the program gives them.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn tensors_have_shapes() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let (snapshot, _) = record(&python, "transformer", &["--shapes"], ",steps=2..2", &place);
    let (rows, peak) = at_peak(&snapshot, "shape");
    // The logits, and the weights of the embedding and of the last layer with the two moments of each.
    assert!(bytes_of(&rows, "bf16 [512, 4001]") >= 512 * 4001 * 2, "{rows:?}");
    assert!(bytes_of(&rows, "bf16 [4001, 256]") >= 6 * 4001 * 256 * 2, "{rows:?}");
    let workspaces = bytes_of(&rows, "<no tensor>");
    assert!(workspaces * 2 <= peak, "{workspaces} of {peak}: {rows:?}");
    // Stacks end with the operators that the program calls.
    let (stacks, _) = at_peak(&snapshot, "stack");
    assert!(stacks.iter().any(|(label, bytes)| label.ends_with(") aten::gelu") && *bytes > 0), "{stacks:?}");
}

/// The Python package names modules as `simulate --modules` does.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn the_python_package_records_modules_too() {
    let Some(python) = suitable_python() else { return };
    let place = TempDir::new().unwrap();
    let (other, _) = record_of(MODELS, &python, "transformer", &["--modules"], ",steps=3..3", &place);
    assert_purposes_and_passes("transformer", &other);
    // Releases before 2.10 keep no metadata.
    for hidden in ["", "import torch; del torch._C._cuda_setMemoryMetadata"] {
        let snapshot = record_with_package(&python, hidden, &place);
        for grouping in ["module", "purpose"] {
            assert_eq!(at_peak(&snapshot, grouping), at_peak(&other, grouping), "{hidden}");
        }
        assert_passes("recorded", &figures(&snapshot, &["--phases"]));
    }
}

/// Records a program by the Python package, after some lines.
fn record_with_package(python: &Path, lines: &str, place: &TempDir) -> PathBuf {
    let snapshot = place.path().join("recorded.pkl");
    let program = format!(
        "{lines}\nimport sys; sys.path[:0] = [{:?}, {:?}]; import ptmem_gate, models\n\
         with ptmem_gate.record({snapshot:?}, steps=3, modules=True): models.transformer()",
        concat!(env!("CARGO_MANIFEST_DIR"), "/python"),
        concat!(env!("CARGO_MANIFEST_DIR"), "/crates/simulate/tests/torch"),
    );
    let output = Command::new(PTMEM).args(["simulate", "--"]).arg(python).args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    snapshot
}

/// Timers of Megatron, as far as programs use them, in place of the package.
const TIMERS: &str = "
class Timer:
    def __init__(self, name):
        self.name = name
        self.runs = False

    def start(self, barrier=False):
        self.runs = True

    def stop(self, barrier=False):
        assert self.runs
        self.runs = False
";

const NAMED: &str = "
import torch
from megatron.core import timers

# The recording begins here.
torch.cuda.init()
timer = timers.Timer('forward-backward')
for step in range(2):
    with torch.cuda.nvtx.range('engine'):
        held = torch.empty(1 << 20, device='cuda')
        with torch.cuda.nvtx.range('layer'):
            more = torch.empty(1 << 20, device='cuda')
    timer.start(barrier=False)
    del held, more
    activations = torch.empty(1 << 21, device='cuda')
    timer.stop()
";

/// NVTX ranges, of which the outermost counts, and timers.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn parts_have_the_names_that_ranges_and_timers_give_them() {
    let Some(python) = python_since(5, "annotations") else { return };
    let place = TempDir::new().unwrap();
    let package = place.path().join("megatron/core");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("timers.py"), TIMERS).unwrap();
    std::fs::write(place.path().join("named.py"), NAMED).unwrap();
    let snapshot = place.path().join("named.pkl");
    let mut command = Command::new(PTMEM);
    command.arg("simulate").arg(format!("--record={}", snapshot.display())).arg("--").arg(python).arg("named.py");
    let output = command.current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = figures(&snapshot, &["--phases"]);
    let phases = figures["phases"].as_array().unwrap().iter();
    let named = phases.filter(|phase| phase["source"] == "annotation");
    let named: Vec<_> =
        named.map(|phase| (phase["name"].as_str().unwrap(), phase["change"].as_i64().unwrap())).collect();
    assert_eq!(
        named,
        [("engine", 8 << 20), ("forward-backward", 0), ("engine", 8 << 20), ("forward-backward", -8 << 20)]
    );
}

#[test]
fn a_grouping_that_the_recording_lacks_says_how_to_record_it() {
    let folder = fixtures::folder();
    for (by, expected) in [
        ("module", "the recording has no modules: record with 'ptmem simulate --modules'"),
        ("purpose", "the recording has no purposes: record with 'ptmem simulate --modules'"),
        ("shape", "the recording has no shapes: record with 'ptmem simulate --shapes'"),
    ] {
        let shown = ptmem(&folder, &["show", "phases-after.pkl", "--group-by", by]);
        assert!(text(&shown.stdout).contains(expected), "{by}: {}", text(&shown.stdout));
    }
}
