//! Loops of inference without names: each round is one call of a model, which calls its layers.

use crate::support::program::Program;
use ptmem::leak::{Options, Search};
use ptmem::verdict::{Verdict, judge_leaks};

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
        self.program().search(&Options::default())
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
            for wrappers in [0, 2] {
                // A call around a single layer looks like a layer itself.
                if layers > 1 || wrappers == 0 {
                    loops.push(Inference { layers, rounds, wrappers, ..PLAIN });
                }
            }
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
