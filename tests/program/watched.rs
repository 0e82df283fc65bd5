//! Memory by module, purpose and shape, and passes of training, as a recorder writes them down.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::history::{A, B, MIB, event, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// Facts about a history of three allocations, of which the second is freed, and a block from before.
fn facts() -> Json {
    json!({
        "format": 1,
        "modules": [{
            "device": 0,
            "names": ["", "decoder.layers.0.mlp", "decoder.layers.1.mlp", "decoder.layers.1.mlp", "head"],
            "purposes": ["", "parameters", "activations", "temporary", "gradients"],
            "shapes": ["", "f32 [1024, 1024]", "bf16 [3, 1024, 1024]", "", "f32 [512, 1024]"],
            "allocations": [[1, 1], [1, 2], [1, 3]],
            "blocks": [[A + 16 * MIB, 4]],
        }],
    })
}

/// A history whose second allocation has this size.
fn history(size: u64) -> Value {
    snapshot(vec![at_dump()], events(size))
}

fn events(size: u64) -> Vec<Value> {
    let mut events = vec![event("alloc", A, 4 * MIB), event("alloc", A + 4 * MIB, size)];
    events.extend(free(A + 4 * MIB, size));
    events.push(event("alloc", A + 4 * MIB, MIB));
    events
}

fn at_dump() -> Value {
    segment(A, &[(4 * MIB, true), (MIB, true), (11 * MIB, false), (2 * MIB, true)])
}

/// Records it with facts.
fn record(folder: &Path, name: &str, size: u64) {
    write(folder, name, &history(size).with("ptmem", facts()));
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), pickle::write(value, pickle::Options::default())).unwrap();
}

fn recorded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "a.pkl", 6 * MIB);
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = ptmem(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn report(folder: &Path, file: &str, arguments: &[&str]) -> Json {
    let words = [&["show", file, "--format", "json", "--top", "0"], arguments].concat();
    let mut report: Json = serde_json::from_str(&run(folder, &words)).unwrap();
    report["devices"][0].take()
}

/// Labels and bytes at the peak of 12 MiB.
fn rows(folder: &Path, file: &str, arguments: &[&str]) -> Vec<(String, u64)> {
    let device = report(folder, file, arguments);
    let rows = device["stacks"].as_array().unwrap().iter().map(|row| {
        let bytes = row["peak"].as_u64().unwrap();
        (row["label"].as_str().unwrap().to_owned(), bytes / MIB)
    });
    rows.filter(|(_, bytes)| *bytes > 0).collect()
}

fn expected(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter().map(|(label, mib)| ((*label).to_owned(), *mib)).collect()
}

#[test]
fn memory_goes_by_module_purpose_and_shape() {
    let folder = recorded();
    // A saved profile keeps what the recorder saw.
    run(folder.path(), &["profile", "a.pkl", "-o", "a.json"]);
    for file in ["a.pkl", "a.json"] {
        let by = |grouping: &str| rows(folder.path(), file, &["--group-by", grouping]);
        assert_eq!(by("module"), expected(&[("decoder.layers.*.mlp", 10), ("head", 2)]), "{file}");
        assert_eq!(by("purpose"), expected(&[("activations", 6), ("parameters", 4), ("gradients", 2)]), "{file}");
        let shapes = [("bf16 [3, 1024, 1024]", 6), ("f32 [1024, 1024]", 4), ("f32 [512, 1024]", 2)];
        assert_eq!(by("shape"), expected(&shapes), "{file}");
        let shown = run(folder.path(), &["show", file, "--group-by", "module"]);
        assert!(shown.contains("decoder.layers.*.mlp (2 modules)"), "{shown}");
    }
}

#[test]
fn modules_that_a_side_lacks_are_not_compared() {
    let folder = recorded();
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/before.pkl");
    let plain = plain.to_str().unwrap();
    for (sides, lacks) in [([plain, "a.pkl"], "before"), (["a.pkl", plain], "after")] {
        let limit = ["--group-by", "module", "--max-growth", "stack=1%", "--min-delta", "0"];
        let output = ptmem(folder.path(), &[&["diff"], &sides[..], &limit].concat());
        assert_eq!(output.status.code(), Some(3));
        let report = text(&output.stdout);
        assert!(report.contains(&format!("stack: the {lacks} has no modules: record with")), "{report}");
    }
    let limit = ["diff", plain, plain, "--group-by", "module", "--max-growth", "stack=50%"];
    assert_reads!(judged(verdict_of(folder.path(), &limit)) => str!["3: INCONCLUSIVE stack: neither side has any modules: record with 'ptmem simulate --modules' or ptmem_gate.record(modules=True)"]);
}

#[test]
fn layers_are_unfolded_by_a_level() {
    let folder = recorded();
    fs::write(folder.path().join("unfold.toml"), "unfold = 1\n").unwrap();
    let by_module = ["--group-by", "module", "--config", "unfold.toml"];
    let unfolded = rows(folder.path(), "a.pkl", &by_module);
    assert_eq!(unfolded, expected(&[("decoder.layers.1.mlp", 6), ("decoder.layers.0.mlp", 4), ("head", 2)]));
    run(folder.path(), &["profile", "a.pkl", "-o", "a.json"]);
    let output = ptmem(folder.path(), &[&["show", "a.json"], &by_module[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("give the snapshot itself to unfold them"), "{}", text(&output.stderr));
}

#[test]
fn rows_say_which_tensors_they_consist_of() {
    let folder = recorded();
    record(folder.path(), "b.pkl", 9 * MIB);
    let device = report(folder.path(), "a.pkl", &["--group-by", "module"]);
    let shapes = &device["stacks"][0]["shapes"];
    assert_eq!(shapes[0], json!({"label": "bf16 [3, 1024, 1024]", "at": 6 * MIB, "at_blocks": 1}));
    assert_eq!(shapes[1]["label"], "f32 [1024, 1024]");
    let diff = ["diff", "a.pkl", "b.pkl", "--group-by", "module", "--explain"];
    let explained = run(folder.path(), &diff);
    assert!(explained.contains("+3.00 MiB  bf16 [3, 1024, 1024] × 1"), "{explained}");
    run(folder.path(), &[&diff[..], &["--export", "html=page.html"]].concat());
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("bf16 [3, 1024, 1024] × 1"));
    // The change by purpose is that of the recorder.
    assert!(explained.contains("activations +3.00 MiB"), "{explained}");
}

#[test]
fn the_tree_and_the_page_go_by_module() {
    let folder = recorded();
    let tree = run(folder.path(), &["show", "a.pkl", "--group-by", "module", "--tree"]);
    for module in ["decoder", "head"] {
        assert!(tree.contains(module), "{tree}");
    }
    assert!(!tree.contains("train.py"), "{tree}");
    run(folder.path(), &["show", "a.pkl", "--group-by", "module", "--export", "html=page.html"]);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("layers"), "the flame graph has modules as frames");
}

/// An event with this stack, innermost frame first: files of PyTorch lie among installed packages.
fn called(action: &str, addr: u64, size: u64, stack: &[(&str, &str)]) -> Value {
    let frames = stack.iter().map(|(name, file)| {
        let file =
            if file.starts_with("torch/") { format!("/e/lib/python3.11/site-packages/{file}") } else { (*file).into() };
        Value::dict([("name", (*name).into()), ("filename", file.as_str().into()), ("line", 7.into())])
    });
    let frames: Vec<Value> = frames.collect();
    event(action, addr, size).with("frames", frames)
}

/// A step of training as PyTorch records it without hooks; activations have this size.
fn step_of_training(size: u64) -> Value {
    let main = ("<module>", "/repo/train.py");
    let module = ("_call_impl", "torch/nn/modules/module.py");
    let optimizer = ("_single_tensor_adam", "torch/optim/adam.py");
    let engine = ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "??");
    let mut events = vec![
        called("alloc", A, 4 * MIB, &[("convert", "torch/nn/modules/module.py"), main]),
        called("alloc", A + 4 * MIB, MIB, &[main]), // data
        called("alloc", A + 5 * MIB, size, &[("forward", "/repo/model.py"), module, main]),
        called("alloc", A + 15 * MIB, MIB, &[("cross_entropy", "torch/nn/functional.py"), main]), // loss
        called("alloc", A + 16 * MIB, 4 * MIB, &[engine]),
    ];
    events.extend(free(A + 5 * MIB, size));
    events.extend(free(A + 15 * MIB, MIB));
    events.push(called("alloc", A + 20 * MIB, MIB, &[main])); // norm of the gradients
    events.push(called("alloc", A + 21 * MIB, 3 * MIB, &[optimizer, main]));
    events.extend(free(A + 21 * MIB, 3 * MIB));
    // The closure of the next step.
    events.push(called(
        "alloc",
        A + 21 * MIB,
        MIB,
        &[("closure", "/repo/train.py"), ("step", "torch/optim/adam.py"), main],
    ));
    events.extend(free(A + 21 * MIB, MIB));
    let blocks = [(4, true), (1, true), (11, false), (4, true), (1, true), (11, false)];
    snapshot(vec![segment(A, &blocks.map(|(size, is_used)| (size * MIB, is_used)))], events)
}

#[test]
fn passes_of_training_follow_from_call_stacks() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.pkl", &step_of_training(2 * MIB));
    write(folder.path(), "b.pkl", &step_of_training(3 * MIB));
    // What follows from call stacks is not kept, so files that older releases wrote have passes too.
    run(folder.path(), &["profile", "a.pkl", "-o", "a.json"]);
    assert!(!fs::read_to_string(folder.path().join("a.json")).unwrap().contains("\"pass\""));
    for file in ["a.pkl", "a.json"] {
        let device = report(folder.path(), file, &["--phases"]);
        let phases = device["phases"].as_array().unwrap().iter().map(|phase| {
            let bytes = ["start", "peak", "end"].map(|figure| phase[figure].as_u64().unwrap() / MIB);
            (phase["name"].as_str().unwrap().to_owned(), bytes, phase["depth"].as_u64().unwrap())
        });
        let expected = [
            ("setup", [0, 5, 5], 0),
            ("step", [5, 13, 10], 0),
            ("forward", [5, 8, 8], 1),
            ("backward", [8, 12, 9], 1),
            ("optimizer", [10, 13, 10], 1),
        ];
        assert_eq!(phases.collect::<Vec<_>>(), expected.map(|(name, bytes, depth)| (name.to_owned(), bytes, depth)));
        let gate = |limit: &str| verdict_of(folder.path(), &["diff", file, "b.pkl", "--max-growth", limit]);
        assert_eq!(gate("phase:optimizer=0").0, 0, "{file}");
        let (code, line) = gate("phase:forward=5%");
        assert!(code == 1 && line.contains("phase forward grew 1.00 MiB"), "{file}: {line}");
        // A limit on all phases is about those that the program names.
        let (code, line) = gate("phase=0");
        assert!(code == 3 && line.contains("neither side has any phases that the program names"), "{file}: {line}");
    }
    let shown = run(folder.path(), &["show", "a.json", "--at", "phase:backward:peak"]);
    assert!(shown.contains("at the peak of backward (12.00 MiB)"), "{shown}");
}

fn verdict_of(folder: &Path, arguments: &[&str]) -> (i32, String) {
    verdict(&ptmem(folder, arguments))
}

#[test]
fn limits_are_on_modules_with_all_their_parts() {
    let folder = recorded();
    record(folder.path(), "b.pkl", 9 * MIB);
    let gate = |limit: &str| verdict_of(folder.path(), &["diff", "a.pkl", "b.pkl", "--max-growth", limit]);
    // The mlp grew from 10 to 13 MiB; the decoder has it as its part. The rows are call stacks.
    for limit in ["module:decoder.layers.*.mlp=5%", "module:*.mlp=2MiB", "module:decoder=20%"] {
        let (code, line) = gate(limit);
        assert_eq!(code, 1, "{limit}: {line}");
        assert!(line.contains("grew 3.00 MiB"), "{line}");
    }
    // Only stacks must change by a least number of bytes.
    let limit = ["diff", "a.pkl", "b.pkl", "--max-growth", "module:decoder=20%", "--min-delta", "4MiB"];
    assert_eq!(verdict_of(folder.path(), &limit).0, 1);
    assert_eq!(gate("module:*=30%").0, 0);
    assert_eq!(gate("module:head=0").0, 0);
    let (code, line) = gate("module:decoder.mlp=0");
    assert_eq!((code, line.contains("the pattern matches no module on either side")), (3, true), "{line}");
    let max = |limit: &str| verdict_of(folder.path(), &["check", "a.pkl", "--max", limit]);
    assert_eq!([max("module:decoder=10MiB").0, max("module:decoder=9MiB").0, max("module:gone=9MiB").0], [0, 1, 3]);
    // They hold in the configuration, where growth can be accepted.
    let accepted = "[max-growth]\n\"module:*.mlp\" = \"0\"\n[[accept]]\nmetric = \"module:*.mlp\"\nbytes = \"3MiB\"\n\
                    reason = \"wider\"\nexpires = 2999-12-31\n";
    fs::write(folder.path().join("ptmem.toml"), accepted).unwrap();
    assert_eq!(verdict_of(folder.path(), &["diff", "a.pkl", "b.pkl"]).0, 0);
    fs::write(folder.path().join("ptmem.toml"), accepted.replace("3MiB", "2MiB")).unwrap();
    assert_eq!(verdict_of(folder.path(), &["diff", "a.pkl", "b.pkl"]).0, 1);
}

#[test]
fn a_limit_on_modules_needs_a_recording_with_modules() {
    let folder = recorded();
    write(folder.path(), "plain.pkl", &history(6 * MIB));
    let words = ["diff", "plain.pkl", "a.pkl", "--max-growth", "module:head=0"];
    let (code, line) = verdict_of(folder.path(), &words);
    assert_eq!(code, 3);
    assert!(line.contains("the before has no modules: record with"), "{line}");
}

#[test]
fn limits_on_modules_see_blocks_of_several_modules() {
    let folder = recorded();
    for (name, size) in [("a.pkl", 6 * MIB), ("b.pkl", 9 * MIB)] {
        let mut facts = facts();
        facts["modules"][0]["names"] = json!(["", "encoder", "<several modules>", "<optimizer>", "decoder"]);
        write(folder.path(), name, &history(size).with("ptmem", facts));
    }
    let gate = |limit: &str| judged(verdict_of(folder.path(), &["diff", "a.pkl", "b.pkl", "--max-growth", limit]));
    assert_reads!(gate("module:*=5%") => str!["1: FAIL module <several modules> grew 3.00 MiB (+50.0 %), allowed 5 %"]);
    assert_reads!(gate("module:<several modules>=5%") => str!["1: FAIL module <several modules> grew 3.00 MiB (+50.0 %), allowed 5 %"]);
    assert_reads!(gate("module:*coder=5%") => str!["0: PASS no module:*coder grew by more than 5 %"]);
    // Memory of no module.
    assert_reads!(gate("module:<optimizer>=5%") => str!["3: INCONCLUSIVE module:<optimizer>: the pattern matches no module on either side; the nearest modules are '<several modules>', 'decoder' and 'encoder'"]);
}

/// Records it with an allocation of 3 MiB on a second device, of this module if there is one.
fn record_on_two(folder: &Path, name: &str, module: Option<&str>) {
    let mut facts = facts();
    let on_second = module.map(|module| {
        json!({
            "device": 1, "names": ["", module], "purposes": ["", "parameters"], "shapes": ["", ""],
            "allocations": [[1, 1]], "blocks": [],
        })
    });
    facts["modules"].as_array_mut().unwrap().extend(on_second);
    let segments = vec![at_dump(), segment(B, &[(3 * MIB, true)]).with("device", 1)];
    let traces: Vec<Value> = vec![events(6 * MIB).into(), vec![event("alloc", B, 3 * MIB)].into()];
    let both = snapshot(segments, Vec::new()).with("device_traces", traces);
    write(folder, name, &both.with("ptmem", facts));
}

#[test]
fn a_limit_on_a_module_is_about_all_devices_and_ranks_together() {
    let folder = recorded();
    record_on_two(folder.path(), "both.pkl", Some("tail"));
    record_on_two(folder.path(), "first.pkl", None);
    let check = |file: &str, limit: &str| judged(verdict_of(folder.path(), &["check", file, "--max", limit]));
    assert_reads!(check("both.pkl", "module:tail=3MiB") => str!["0: PASS device 0: no module:tail is larger than 3.00 MiB"]);
    assert_reads!(check("both.pkl", "module:tail=2MiB") => str!["1: FAIL device 1: module tail is 3.00 MiB, allowed 2.00 MiB"]);
    assert_reads!(check("both.pkl", "module:gone=2MiB") => str!["3: INCONCLUSIVE module:gone: the pattern matches no module; the nearest modules are 'decoder', 'decoder.layers' and 'decoder.layers.*'"]);
    // A batch alone is of no module.
    assert_reads!(check("first.pkl", "module:head=2MiB") => str!["0: PASS device 0: no module:head is larger than 2.00 MiB"]);
    let growth =
        |limit: &str| judged(verdict_of(folder.path(), &["diff", "first.pkl", "both.pkl", "--max-growth", limit]));
    assert_reads!(growth("module:*=3MiB") => str!["0: PASS device 0: no module:* grew by more than 3.00 MiB"]);
    assert_reads!(growth("module:*=2MiB") => str!["1: FAIL device 1: module tail grew 3.00 MiB, allowed 2.00 MiB"]);
    // Each rank of a pipeline has modules of its own.
    fs::create_dir(folder.path().join("job")).unwrap();
    record(folder.path(), "job/rank0.pkl", 6 * MIB);
    let mut of_last = facts();
    of_last["modules"][0]["names"] = json!(["", "tail", "tail", "tail", "tail"]);
    write(folder.path(), "job/rank1.pkl", &history(6 * MIB).with("ptmem", of_last));
    assert_reads!(check("job", "module:tail=12MiB") => str!["0: PASS all 2 ranks: no module:tail is larger than 12.00 MiB"]);
    assert_reads!(check("job", "module:tail=11MiB") => str!["1: FAIL rank 1: module tail is 12.00 MiB, allowed 11.00 MiB"]);
    assert_reads!(check("job", "module:gone=11MiB") => str!["3: INCONCLUSIVE module:gone: the pattern matches no module of any rank"]);
}
