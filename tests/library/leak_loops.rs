//! Loops of inference without names: each round is one call of a model, which calls its layers.

use crate::support::pickle;
use crate::support::program::Program;
use ptmem::leak::{self, LeakOptions, Search};
use ptmem::phase::steps::{FoundBy, WantedSteps};
use ptmem::profile;
use ptmem::verdict::{Verdict, judge_leaks};
use serde_json::json;

const CALL: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:_call_impl:1790";
const MAIN: &str = "/work/serve.py:main:20";

/// A model that runs round after round.
#[derive(Clone, Copy)]
struct Inference {
    layers: usize,
    rounds: usize,
    /// Modules that only call the model.
    wrappers: usize,
    /// Allocations of the first round that were not recorded.
    cut_first: usize,
    /// Allocations of the last round that were not recorded.
    cut_last: usize,
    /// Bytes that a round leaves behind, within the call of the model or outside of it.
    leak: u64,
    leaks_inside: bool,
    /// Every round works on a smaller size, and keeps a buffer of it.
    captures: bool,
}

const PLAIN: Inference = Inference {
    layers: 12,
    rounds: 7,
    wrappers: 0,
    cut_first: 0,
    cut_last: 0,
    leak: 0,
    leaks_inside: false,
    captures: false,
};

impl Inference {
    /// The frames of a line of the model, from the frames inside of it on.
    fn frames(self, inner: &[&'static str]) -> Vec<&'static str> {
        let mut frames = inner.to_vec();
        frames.push(CALL);
        for _ in 0..self.wrappers {
            frames.extend(["/work/wrap.py:forward:10", CALL]);
        }
        frames.push(MAIN);
        frames
    }

    /// The allocations of one round: frames, size, and whether it is the last in its layer.
    fn lines(self) -> Vec<(Vec<&'static str>, u64)> {
        const LAYER: [&str; 4] = [
            "/work/model.py:norm:102",
            "/work/model.py:attention:120",
            "/work/model.py:attention:121",
            "/work/model.py:mlp:140",
        ];
        let mut lines = vec![(self.frames(&["/work/model.py:forward:50"]), 4096)];
        for _ in 0..self.layers {
            for inner in LAYER {
                lines.push((self.frames(&[inner, CALL, "/work/model.py:forward:53"]), 8192));
            }
        }
        lines.push((self.frames(&["/work/model.py:forward:57"]), 16384));
        lines.push((self.frames(&["/work/model.py:forward:58"]), 65536));
        lines
    }

    fn program(self) -> Program {
        let mut program = Program::default();
        let lines = self.lines();
        for round in 0..self.rounds {
            let from = if round == 0 { self.cut_first } else { 0 };
            let to = lines.len() - if round + 1 == self.rounds { self.cut_last } else { 0 };
            let scale = if self.captures { (self.rounds - round) as u64 } else { 1 };
            for (index, (frames, bytes)) in lines[from..to].iter().enumerate() {
                program.alloc_under(format!("{index}"), frames, bytes * scale);
                if index > 0 {
                    program.free(&format!("{}", index - 1));
                }
            }
            program.free(&format!("{}", to - from - 1));
            if self.leak > 0 && self.leaks_inside {
                program.alloc_under("leak", &self.frames(&["/work/model.py:forward:56"]), self.leak);
            } else if self.leak > 0 {
                program.alloc_under("leak", &["/work/log.py:log:7", MAIN], self.leak);
            }
            if self.captures {
                program.alloc_under("static", &self.frames(&["/work/model.py:forward:56"]), 512 * scale);
            }
        }
        program
    }

    fn search(self) -> Search {
        self.program().search(&LeakOptions::default())
    }

    fn verdict(self) -> Verdict {
        judge_leaks(&self.search(), 0, false).verdict
    }
}

/// Loops of many shapes.
fn loops() -> Vec<Inference> {
    let mut loops = Vec::new();
    for layers in [1, 2, 5] {
        for rounds in [6, 9] {
            loops.push(Inference { layers, rounds, ..PLAIN });
        }
    }
    for (cut_first, cut_last) in [(10, 0), (0, 10), (30, 20), (45, 45)] {
        loops.push(Inference { cut_first, cut_last, ..PLAIN });
    }
    loops
}

#[test]
fn rounds_of_inference_without_a_leak_pass() {
    for (index, inference) in loops().into_iter().enumerate() {
        assert_eq!(inference.verdict(), Verdict::Pass, "loop {index}: {:#?}", inference.search().devices);
    }
}

#[test]
fn a_small_leak_of_rounds_of_inference_is_found() {
    for (index, inference) in loops().into_iter().enumerate() {
        // In turn, so that loops of each shape leak inside of the call and outside of it.
        let leaks_inside = index % 3 == 0;
        let search = Inference { leak: 512, leaks_inside, ..inference }.search();
        let leaks: Vec<_> = search.leaks().map(|(_, leak)| (&*leak.label, leak.bytes_per_step)).collect();
        let place = if leaks_inside { "forward (model.py:56)" } else { "log (log.py:7)" };
        assert_eq!(leaks, [(place, 512)], "loop {index}: {:#?}", search.devices);
    }
}

#[test]
fn the_layers_of_one_call_are_no_loop() {
    for rounds in [1, 2, 4] {
        for wrappers in [0, 2] {
            for cut_last in [0, 1, 20] {
                let few = Inference { rounds, wrappers, cut_last, leak: 512, ..PLAIN };
                assert_eq!(few.verdict(), Verdict::Inconclusive, "{rounds} {wrappers} {cut_last}");
            }
        }
    }
}

#[test]
fn graphs_that_are_captured_for_several_sizes_are_no_leak() {
    for rounds in [6, 12] {
        assert_eq!(Inference { rounds, captures: true, layers: 4, ..PLAIN }.verdict(), Verdict::Inconclusive);
    }
}

/// A loop that evaluates a model without an optimizer.
#[derive(Clone, Copy)]
struct Evaluation {
    /// Rows of each batch.
    batches: &'static [u64],
    /// Layers are modules, and each round copies a batch to the device.
    calls_modules: bool,
    copies_batch: bool,
    /// Layers keep what they compute.
    keeps: bool,
    /// A buffer holds a row of every round so far.
    fills_cache: bool,
}

const EVALUATION: Evaluation =
    Evaluation { batches: &[4; 12], calls_modules: true, copies_batch: true, keeps: false, fills_cache: false };

impl Evaluation {
    fn program(self) -> Program {
        let mut program = Program::default();
        program.alloc_under("weights", &["/work/model.py:load:3", MAIN], 65536);
        let layers = ["/work/model.py:embed:11", "/work/model.py:attend:12", "/work/model.py:project:13"];
        for (round, rows) in self.batches.iter().enumerate() {
            if self.copies_batch {
                program.alloc_under(format!("x {round}"), &["/work/serve.py:load:5", MAIN], 512 * rows);
            }
            for (at, layer) in layers.iter().enumerate() {
                let call = if self.calls_modules { CALL } else { "/work/model.py:run:30" };
                // The workspace of a library: a line allocates it in its first call.
                if round == 0 && at == 1 {
                    program.alloc_under("workspace", &["aten::addmm:??:0", layer, call, MAIN], 8192);
                }
                let more = if self.fills_cache && at == 1 { 512 * round as u64 } else { 0 };
                program.alloc_under(format!("y {round} {at}"), &[layer, call, MAIN], 1024 * rows + more);
                if self.fills_cache && at == 1 {
                    program.alloc_under(format!("row {round}"), &["/work/model.py:attend:14", call, MAIN], 512);
                }
                program.alloc_under("scratch", &["/work/model.py:act:20", call, MAIN], 512 * rows);
                program.free("scratch");
            }
            if self.keeps {
                continue;
            }
            (0..layers.len()).for_each(|at| program.free(&format!("y {round} {at}")));
            // The batch before is freed once the next one is there.
            if let Some(before) = round.checked_sub(1).filter(|_| self.copies_batch) {
                program.free(&format!("x {before}"));
            }
        }
        program
    }

    /// The verdict with its line.
    fn told(self) -> (Verdict, String) {
        let judgement = judge_leaks(&self.program().search(&LeakOptions::default()), 0, false);
        (judgement.verdict, judgement.headline().to_string())
    }
}

#[test]
fn equal_rounds_of_evaluation_that_keep_everything_leak() {
    assert_eq!(EVALUATION.told().0, Verdict::Pass);
    let (verdict, line) = Evaluation { keeps: true, ..EVALUATION }.told();
    assert_eq!(verdict, Verdict::Regression, "{line}");
    // The last batch is often smaller, and batches may have any length.
    for batches in [&[4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1], &[4, 7, 2, 5, 9, 3, 8, 2, 6, 4, 7, 3]] {
        let (verdict, line) = Evaluation { keeps: true, batches, ..EVALUATION }.told();
        assert_eq!(verdict, Verdict::Regression, "{line}");
    }
}

#[test]
fn what_is_built_or_filled_is_told_from_a_leak() {
    let kept = Evaluation { keeps: true, ..EVALUATION };
    for (built, reason) in [
        (Evaluation { calls_modules: false, ..kept }, "they call no module, as when weights are made or loaded"),
        (Evaluation { copies_batch: false, ..kept }, "they allocate only within calls of modules"),
        (Evaluation { fills_cache: true, ..EVALUATION }, "attend (model.py:12) requests more in each step than before"),
        (Evaluation { batches: &[1, 2, 3, 4, 5, 6, 7, 8, 9], ..kept }, "many sizes grow or shrink"),
        (Evaluation { batches: &[9, 8, 7, 6, 5, 4, 3, 2, 1], ..kept }, "many sizes grow or shrink"),
    ] {
        let (verdict, line) = built.told();
        assert_eq!(verdict, Verdict::Inconclusive, "{reason}: {line}");
        assert!(line.contains(reason), "{reason}: {line}");
    }
}

#[test]
fn batches_sorted_by_length_are_no_leak() {
    for batches in [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 1, 2, 2, 3, 3, 4, 4, 5, 5], &[9, 8, 7, 6, 5, 4, 3, 2, 2, 1]]
    {
        let (verdict, line) = Evaluation { batches, ..EVALUATION }.told();
        assert_eq!(verdict, Verdict::Pass, "{batches:?}: {line}");
        assert_eq!(line.contains("because sizes grow"), batches[0] == 1, "{line}");
    }
}

#[test]
fn sizes_that_grow_within_steps_are_not_said_to_be_there_at_their_end() {
    let mut program = Program::default();
    for round in 0..14_u64 {
        program.mark("START", &format!("ProfilerStep#{round}"));
        program.alloc_under("x", &["/work/train.py:load:5", MAIN], 512 * (round + 11));
        program.free("x");
        program.mark("END", &format!("ProfilerStep#{round}"));
    }
    let judgement = judge_leaks(&program.search(&LeakOptions::default()), 0, false);
    assert_reads!(judgement.headline().to_string() => str!["PASS nothing leaks: no stack leaves blocks behind in 12 steps"]);
}

/// The verdict on rounds that copy weights, compute with them, and keep a small part, which this function allocates.
fn quantized_by(place: &str) -> (Verdict, String) {
    let mut program = Program::default();
    for round in 0..24 {
        for (name, line) in [("w", "/work/load.py:read:5"), ("scaled", "/work/load.py:scale:6")] {
            program.alloc_under(name, &[line, MAIN], 16384);
        }
        program.alloc_under(format!("q {round}"), &[place, "/work/load.py:convert:7", MAIN], 512);
        program.free("w");
        program.free("scaled");
    }
    let judgement = judge_leaks(&program.search(&LeakOptions::default()), 0, false);
    (judgement.verdict, judgement.headline().to_string())
}

#[test]
fn objects_that_rounds_initialize_from_large_weights_are_no_leak() {
    for place in ["/work/q.py:__init__:9", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:_apply:9"]
    {
        let (verdict, line) = quantized_by(place);
        assert_eq!(verdict, Verdict::Inconclusive, "{line}");
        assert!(line.contains("allocated while objects are initialized or loaded"), "{line}");
    }
    assert_eq!(quantized_by("/work/q.py:encode:9").0, Verdict::Regression);
}

#[test]
fn training_on_batches_sorted_by_length_is_no_leak() {
    const BACKWARD: &str = "/opt/venv/lib/python3.11/site-packages/torch/autograd/__init__.py:backward:354";
    const OPTIMIZER: &str = "/opt/venv/lib/python3.11/site-packages/torch/optim/sgd.py:step:120";
    let mut program = Program::default();
    for round in 0..12_u64 {
        program.alloc_under(format!("x {round}"), &["/work/train.py:load:5", MAIN], 512 * (round + 1));
        if let Some(before) = round.checked_sub(1) {
            program.free(&format!("x {before}"));
        }
        program.alloc_under("y", &["/work/model.py:forward:6", CALL, MAIN], 1024 * (round + 1));
        let gradients = ["/work/a.py:loss:1", "/work/a.py:loss:2", "/work/a.py:loss:3", "/work/a.py:loss:4"];
        for gradient in gradients {
            program.alloc_under(gradient, &[BACKWARD, gradient, MAIN], 4096);
        }
        program.free("y");
        program.mark("START", "Optimizer.step#SGD.step");
        program.alloc_under("update", &[OPTIMIZER, MAIN], 4096);
        program.free("update");
        program.mark("END", "Optimizer.step#SGD.step");
        gradients.iter().for_each(|gradient| program.free(gradient));
    }
    let judgement = judge_leaks(&program.search(&LeakOptions::default()), 0, false);
    assert_reads!(judgement.headline().to_string() => str!["PASS nothing leaks: no stack leaves blocks behind in 10 steps; the last steps end with more memory because sizes grow"]);
}

/// Twenty calls of a model, in which alone anything is allocated; each keeps a block.
fn calls_alone(annotation: Option<&str>) -> Program {
    let model = ["/work/model.py:forward:11", CALL, "/work/job.py:main:18"];
    let mut program = Program::default();
    for call in 0..20 {
        annotation.iter().for_each(|name| program.mark("START", name));
        program.alloc_under(
            format!("kept {call}"),
            &[&["/work/embed.py:forward:3", CALL], &model[..]].concat(),
            512 * 8,
        );
        program.alloc_under("out", &[&["/work/keep.py:forward:7", CALL], &model[..]].concat(), 512 * 8);
        program.free("out");
        annotation.iter().for_each(|name| program.mark("END", name));
    }
    program
}

#[test]
fn calls_that_allocate_alone_are_steps_where_they_are_annotated() {
    let found = calls_alone(Some("call")).search(&LeakOptions::default());
    let [(device, leak)] = &found.leaks().collect::<Vec<_>>()[..] else { panic!("{:#?}", found.devices) };
    assert_eq!((device.how.clone(), leak.bytes_per_step), (Some(FoundBy::Named("call".to_owned())), 512 * 8));
    // Without names they may be the layers of one call.
    let judgement = judge_leaks(&calls_alone(None).search(&LeakOptions::default()), 0, false);
    let line = judgement.headline().to_string();
    assert_eq!(judgement.verdict, Verdict::Inconclusive, "{line}");
    assert_reads!(line => str!["INCONCLUSIVE leak: no steps were found in the history: forward (embed.py:3) allocates 20 times within calls of modules, which may be calls of the model, each a step, or layers of one call: recordings of ptmem_gate.record() and of simulated GPUs say which. Annotate the steps (torch.profiler.record_function), or give two or more snapshots"]);
}

/// The search in a program of 40 allocations whose recorder noted the outermost calls: which of these modules is called before
/// the allocation of which number. A saved profile gives the same.
fn search_of_calls(program: &Program, modules: &[&str], begins: &[[u64; 2]], steps: WantedSteps) -> Search {
    let calls = json!([{"device": 0, "modules": modules, "begins": begins, "allocated": 40}]);
    let value = program.value().with("ptmem", json!({"format": 1, "calls": calls}));
    let options = LeakOptions { steps, ..LeakOptions::default() };
    let snapshot = pickle::write(&value, pickle::Options::shared());
    let profile = profile::read(&*snapshot, "program.pkl", options.reading()).unwrap();
    let saved = profile::saved::text_of(&profile, &[]).unwrap();
    let saved = profile::read(saved.as_bytes(), "program.ptmem.json", options.reading()).unwrap();
    let search = leak::search(&profile, &options);
    assert_eq!(format!("{:?}", search.devices), format!("{:?}", leak::search(&saved, &options).devices));
    search
}

fn told(search: &Search) -> (Verdict, String) {
    let judgement = judge_leaks(search, 0, false);
    (judgement.verdict, judgement.headline().to_string())
}

#[test]
fn noted_calls_of_the_outermost_module_are_steps() {
    let begins: Vec<[u64; 2]> = (0..20).map(|call| [call * 2, 0]).collect();
    let found = search_of_calls(&calls_alone(None), &["Model"], &begins, WantedSteps::Any);
    let [(device, leak)] = &found.leaks().collect::<Vec<_>>()[..] else { panic!("{:#?}", found.devices) };
    assert_eq!((device.how.clone(), leak.bytes_per_step), (Some(FoundBy::Called("Model".to_owned())), 512 * 8));
    let parts = search_of_calls(&calls_alone(None), &["Model"], &begins, WantedSteps::Windows(5));
    assert_eq!(told(&parts).0, Verdict::Regression, "{parts:#?}");
}

#[test]
fn layers_of_noted_calls_are_no_steps() {
    for steps in [WantedSteps::Any, WantedSteps::Windows(5)] {
        let (verdict, line) = told(&search_of_calls(&calls_alone(None), &["Model"], &[[0, 0], [20, 0]], steps));
        assert_eq!(verdict, Verdict::Inconclusive, "{line}");
        assert!(line.contains("Model, the outermost module, is called 2 times; record more calls"), "{line}");
    }
    // A function calls each of the layers once.
    let once: Vec<[u64; 2]> = (0..20).map(|call| [call * 2, call]).collect();
    let (verdict, line) = told(&search_of_calls(&calls_alone(None), &["Layer"; 20], &once, WantedSteps::Any));
    assert_eq!(verdict, Verdict::Inconclusive, "{line}");
}

#[test]
fn a_step_of_training_is_more_than_a_call() {
    let mut program = calls_alone(None);
    program.alloc_under("gradient", &["/opt/torch/autograd/__init__.py:backward:354", MAIN], 4096);
    let begins: Vec<[u64; 2]> = (0..20).map(|call| [call * 2, 0]).collect();
    let found = search_of_calls(&program, &["Model"], &begins, WantedSteps::Any);
    assert_eq!(found.devices[0].how, Some(FoundBy::Windows));
}
