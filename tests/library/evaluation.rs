//! Evaluation is told from training by what call stacks and backward passes show.

use ptmem::diff::{self, DiffOptions, PhaseOptions};
use ptmem::phase::PhaseSource;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::verdict::{Judgement, Thresholds, Verdict, judge_diff};

use crate::support::program::Program;

const MODULE: &str = "/env/site-packages/torch/nn/modules/module.py:_call_impl:9";
const WRAPPED: &str = "/env/site-packages/torch/nn/modules/module.py:_wrapped_call_impl:4";
const SGD: &str = "/env/site-packages/torch/optim/sgd.py:step:5";
const KIB: u64 = 1 << 10;

/// A program that trains three steps, and evaluates after the second.
#[derive(Clone, Copy, Default)]
struct Training {
    /// Batches that validation keeps until its end.
    kept: u64,
    /// True for a function that trains and evaluates by the same lines.
    by_one_line: bool,
    /// True for a teacher that every step calls first.
    has_teacher: bool,
    /// True for a program that annotates its forward pass.
    names_forward: bool,
}

impl Training {
    fn record(self) -> Profile {
        let mut program = Program::default();
        program.alloc("weights", "build:1", 900 * KIB);
        for step in 0..3 {
            self.step(&mut program);
            if step == 1 {
                self.validate(&mut program);
            }
        }
        profile::read(&*program.snapshot(), "run.pkl", ReadOptions::default()).unwrap()
    }

    fn step(self, program: &mut Program) {
        program.alloc("batch", "step:10", 100 * KIB);
        if self.has_teacher {
            let frames = ["/repo/teacher.py:forward:2", MODULE, "/repo/train.py:step:9", "/repo/train.py:main:20"];
            program.alloc_under("wide", &frames, 50 * KIB);
            program.alloc_under("target", &frames, 10 * KIB);
            program.free("wide");
        }
        if self.names_forward {
            program.mark("START", "forward");
        }
        let line = if self.by_one_line { "/repo/train.py:run:40" } else { "/repo/train.py:step:11" };
        call(program, line, 900 * KIB);
        if self.names_forward {
            program.mark("END", "forward");
        }
        program.alloc("loss", "step:12", 512);
        program.alloc_under("gradient", &[], 200 * KIB);
        program.free("activation");
        program.free("loss");
        program.alloc_under("gradient of inputs", &[], 100 * KIB);
        program.free("gradient of inputs");
        program.alloc_under("buffer", &[SGD, "/repo/train.py:step:14", "/repo/train.py:main:20"], 100 * KIB);
        program.free("buffer");
        program.free("gradient");
        program.free("batch");
        if self.has_teacher {
            program.free("target");
        }
    }

    fn validate(self, program: &mut Program) {
        let line = if self.by_one_line { "/repo/train.py:run:40" } else { "/repo/train.py:validate:31" };
        for batch in 0..4 {
            program.alloc(format!("batch {batch}"), "validate:30", 100 * KIB);
            call(program, line, 300 * KIB);
            program.alloc("correct", "validate:32", 512);
            program.free("activation");
            program.free("correct");
            if batch >= self.kept {
                program.free(&format!("batch {batch}"));
            }
        }
        (0..self.kept).for_each(|batch| program.free(&format!("batch {batch}")));
    }
}

/// A module is called from a line of `main`.
fn call(program: &mut Program, line: &str, bytes: u64) {
    call_for("activation", program, line, bytes);
}

/// The same, for a block of this name.
fn call_for(name: &str, program: &mut Program, line: &str, bytes: u64) {
    let frames = ["/repo/model.py:forward:3", MODULE, WRAPPED, line, "/repo/train.py:main:20"];
    program.alloc_under(name, &frames, bytes);
}

/// The passes that are found, in order.
fn passes(profile: &Profile) -> Vec<&str> {
    let passes = profile.devices[0].phases.all.iter().filter(|phase| phase.source == PhaseSource::Pass);
    passes.map(|phase| &*phase.name).collect()
}

fn judge(before: Profile, after: Profile, limit: &str) -> Judgement {
    let phases = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    let diff = diff::compare(before, after, DiffOptions { phases, ..DiffOptions::default() });
    judge_diff(&diff, &Thresholds { min_delta: 0, ..Thresholds::default() }.max_growth(limit).unwrap())
}

const STEP: [&str; 4] = ["step", "forward", "backward", "optimizer"];

#[test]
fn modules_that_run_without_a_backward_pass_are_evaluation() {
    let profile = Training::default().record();
    let expected = [&["setup"][..], &STEP, &STEP, &["evaluation"], &STEP].concat();
    assert_eq!(passes(&profile), expected);
    let evaluation = profile.devices[0].phases.all.iter().find(|phase| &*phase.name == "evaluation").unwrap();
    assert_eq!(evaluation.held.peak.allocated, 1300 * KIB + 512, "weights, a batch, its activation, the count");
    let saved = text_of(&profile, &[]).unwrap();
    let read = profile::read(saved.as_bytes(), "run.json", ReadOptions::default()).unwrap();
    assert_eq!(read.devices[0].phases.all, profile.devices[0].phases.all);
}

#[test]
fn a_batch_that_validation_keeps_is_seen_by_a_limit_on_evaluation_alone() {
    let kept = Training { kept: 2, ..Training::default() };
    let judge = |limit: &str| judge(Training::default().record(), kept.record(), limit);
    for limit in ["0", "end=0", "active=0", "requested=0", "phase:step=0", "phase:forward=0"] {
        assert_eq!(judge(limit).verdict, Verdict::Pass, "{limit}");
    }
    let judged = judge("phase:evaluation=5%");
    assert_eq!(judged.verdict, Verdict::Regression);
    assert_reads!(judged.headline().to_string() => str!["FAIL phase evaluation grew 200.00 KiB (+15.4 %), allowed 5 %. phase evaluation is known to within 280.00 KiB, which reaches across the limit; largest growth there: validate (job.py:30) +200.00 KiB."]);
}

#[test]
fn the_same_lines_cannot_be_told_apart() {
    let one_line = Training { by_one_line: true, ..Training::default() };
    assert!(!passes(&one_line.record()).contains(&"evaluation"));
    let judged = judge(one_line.record(), one_line.record(), "phase:evaluation=5%");
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(
        judged.headline().sentence.contains("evaluation is told by lines that call modules"),
        "{}",
        judged.headline()
    );
}

#[test]
fn what_every_step_calls_is_a_part_of_it() {
    let profile = Training { has_teacher: true, ..Training::default() }.record();
    assert_eq!(passes(&profile), [&["setup"][..], &STEP, &STEP, &["evaluation"], &STEP].concat());
}

/// A generator whose graph a list keeps: of each step, two backward passes follow other modules, and free nothing of it.
#[test]
fn a_generator_whose_graph_is_kept_does_not_evaluate() {
    let mut program = Program::default();
    for step in 0..4 {
        call(&mut program, "/repo/train.py:step:10", 300 * KIB);
        for line in ["/repo/train.py:step:11", "/repo/train.py:step:14"] {
            program.alloc_under("score", &["/repo/critic.py:forward:5", MODULE, line, "/repo/train.py:main:20"], KIB);
            program.alloc_under("gradient", &[], 200 * KIB);
            program.free("score");
            program.alloc_under("buffer", &[SGD, "/repo/train.py:step:16", "/repo/train.py:main:20"], KIB);
            program.free("buffer");
            program.free("gradient");
        }
        if step == 2 {
            call(&mut program, "/repo/train.py:validate:31", 300 * KIB);
        }
    }
    let profile = profile::read(&*program.snapshot(), "run.pkl", ReadOptions::default()).unwrap();
    assert_eq!(passes(&profile).into_iter().filter(|pass| *pass == "evaluation").count(), 1);
}

/// A forward and a backward pass and a step of the optimizer, of one of two networks that are trained in turn.
fn train(program: &mut Program, function: &str) {
    call(program, &format!("/repo/train.py:{function}:12"), 300 * KIB);
    program.alloc_under("gradient", &[], 200 * KIB);
    program.free("activation");
    program.alloc_under("buffer", &[SGD, &format!("/repo/train.py:{function}:14"), "/repo/train.py:main:20"], KIB);
    program.free("buffer");
    program.free("gradient");
}

/// The number of times that a program evaluates which calls a module from a line before it trains the first of two networks. It may
/// keep the result until the end of the step.
fn count_evaluation(line: &str, is_kept: bool) -> usize {
    let mut program = Program::default();
    for _ in 0..4 {
        call_for("result", &mut program, line, 300 * KIB);
        if !is_kept {
            program.free("result");
        }
        train(&mut program, "train_generator");
        train(&mut program, "train_critic");
        if is_kept {
            program.free("result");
        }
    }
    let profile = profile::read(&*program.snapshot(), "run.pkl", ReadOptions::default()).unwrap();
    passes(&profile).into_iter().filter(|pass| *pass == "evaluation").count()
}

#[test]
fn validation_before_one_of_two_backward_passes_is_evaluation() {
    assert_eq!(count_evaluation("/repo/train.py:validate:31", false), 4);
    // The step uses what another function returns.
    assert_eq!(count_evaluation("/repo/train.py:targets:31", true), 0);
    // The function that trains calls a target network, and keeps only what it computes from that.
    assert_eq!(count_evaluation("/repo/train.py:train_generator:10", false), 0);
}

#[test]
fn evaluation_is_found_whatever_a_program_annotates() {
    let profile = Training { names_forward: true, ..Training::default() }.record();
    let own = STEP.map(|name| if name == "forward" { "" } else { name });
    let own: Vec<&str> = own.into_iter().filter(|name| !name.is_empty()).collect();
    assert_eq!(passes(&profile), [&["setup"][..], &own, &own, &["evaluation"], &own].concat());
}
