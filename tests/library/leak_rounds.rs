//! Steps among the calls of optimizers: several may make up one, and rounds with more in every Nth of them train another model, or are
//! followed by validation.

use crate::support::pickle;
use crate::support::program::Program;
use ptmem::leak::{self, LeakOptions};
use ptmem::profile;
use ptmem::verdict::judge_leaks;
use serde_json::json;

const BACKWARD: [&str; 2] = ["/usr/lib/torch/autograd/__init__.py:backward:374", "/work/job.py:train:12"];

/// Twelve temporary tensors, of which a lasting one is made.
fn evaluate(program: &mut Program, function: &str, lasting: &str) {
    for line in 20..32 {
        program.alloc("temporary", &format!("{function}:{line}"), 1024);
        program.free("temporary");
    }
    program.alloc(lasting, &format!("{function}:40"), 1024);
}

fn validate(program: &mut Program) {
    evaluate(program, "validate", "score");
    program.free("score");
}

fn replace(program: &mut Program, name: &str, place: &str) {
    let is_held = program.held.iter().any(|held| held.0 == name);
    program.alloc("new", place, 512 * 8);
    if is_held {
        program.free(name);
    }
    program.held.last_mut().unwrap().0 = name.to_owned();
}

/// Frees the gradients of a model, which its last pass left.
fn zero_grad(program: &mut Program, model: &str) {
    let names = program.held.iter().map(|held| held.0.clone());
    let gradients: Vec<String> = names.filter(|name| *name == format!("gradient of {model}")).collect();
    gradients.iter().for_each(|name| program.free(name));
}

/// A forward pass that saves a tensor of each layer, and a backward pass.
fn train(program: &mut Program, model: &str, layers: usize, teacher: Option<&str>) {
    train_on(program, model, layers, teacher, 512 * 40);
}

/// The same on a batch of which a layer returns these bytes.
fn train_on(program: &mut Program, model: &str, layers: usize, teacher: Option<&str>, batch: u64) {
    zero_grad(program, model);
    for layer in 0..layers {
        program.alloc(format!("saved {layer}"), "forward:10", batch);
        program.alloc("lost", "forward:11", batch);
        program.free("lost");
    }
    if let Some(teacher) = teacher {
        evaluate(program, teacher, "target");
    }
    program.alloc("loss", "train:11", 512);
    if teacher.is_some() {
        program.free("target");
    }
    for layer in (0..layers).rev() {
        program.alloc_under("gradient of a result", &BACKWARD, batch);
        program.free("gradient of a result");
        let size = if model == "wide" { 512 * 60 } else { 512 * 30 };
        program.alloc_under(format!("gradient of {model}"), &BACKWARD, size);
        program.free(&format!("saved {layer}"));
    }
    program.free("loss");
    program.mark("START", "Optimizer.step#SGD.step");
    program.mark("END", "Optimizer.step#SGD.step");
}

/// The way in which steps are found where nothing says which optimizer is called, and where the recorder notes that these are called
/// in turn, with the bytes that each step leaves behind, and in how many. A saved profile gives the same.
fn found(program: &Program, in_turn: &[u64]) -> [String; 2] {
    let plain = program.value();
    let calls = in_turn.iter().cycle().take(24).copied().collect::<Vec<u64>>();
    let noted = program.value().with("ptmem", json!({"format": 1, "optimizers": calls}));
    [plain, noted].map(|value| {
        let options = LeakOptions::default();
        let snapshot = pickle::write(&value, pickle::Options::shared());
        let profile = profile::read(&*snapshot, "program.pkl", options.reading()).unwrap();
        let saved = profile::saved::text_of(&profile, &[]).unwrap();
        let saved = profile::read(saved.as_bytes(), "program.ptmem.json", options.reading()).unwrap();
        let [search, of_saved] = [profile, saved].map(|profile| leak::search(&profile, &options));
        assert_eq!(format!("{:?}", search.devices), format!("{:?}", of_saved.devices));
        let [device] = &search.devices[..] else { panic!("{:#?}", search.devices) };
        let calls = device.calls_of_step().unwrap();
        let leaks: Vec<String> = device
            .leaks
            .iter()
            .map(|leak| format!("{} in {} of {}", leak.bytes_per_step, leak.grew, leak.judged))
            .collect();
        format!("{} by {calls}: {}", device.points.len(), leaks.join(", "))
    })
}

const TWO_TO_A_STEP: [&str; 2] = [
    "12 by Optimizer.step#*, at least 2 to a step: 2048 in 10 of 10",
    "12 by Optimizer.step#*, 2 to a step: 2048 in 10 of 10",
];

/// Where gradients are freed before the next call, nothing shows that a step has two.
const AFTER_EACH_CALL: [&str; 2] = ["24 by Optimizer.step#*, at least 1 to a step: 1024 in 11 of 22", TWO_TO_A_STEP[1]];

const ONE_TO_A_STEP: [&str; 2] =
    ["24 by Optimizer.step#*, at least 1 to a step: 2048 in 22 of 22", "24 by Optimizer.step#*: 2048 in 22 of 22"];

/// Twelve steps that train two models on a batch each, and what else one of them does.
fn two_models(models: [&str; 2], teachers: [Option<&str>; 2], frees_after: bool) -> Program {
    let mut program = Program::default();
    for _ in 0..12 {
        for (model, teacher) in models.into_iter().zip(teachers) {
            replace(&mut program, "batch", "train:5");
            train(&mut program, model, 3, teacher);
            if frees_after {
                zero_grad(&mut program, model);
            }
        }
        program.alloc("leak", "main:60", 2048);
    }
    program
}

/// A function trains two models, of which none, one or both have a teacher or another width.
#[test]
fn models_are_told_by_their_optimizers() {
    for teachers in [[None; 2], [Some("teach"), None], [Some("teach"); 2]] {
        assert_eq!(found(&two_models(["a", "b"], teachers, false), &[0, 1]), TWO_TO_A_STEP, "{teachers:?}");
        assert_eq!(found(&two_models(["a", "wide"], teachers, true), &[0, 1]), AFTER_EACH_CALL, "{teachers:?}");
        // Of one model, each call is a step, whatever comes in every second.
        let one = [
            "24 by Optimizer.step#*, at least 1 to a step: 1024 in 11 of 22",
            "24 by Optimizer.step#*: 1024 in 11 of 22",
        ];
        assert_eq!(found(&two_models(["a", "a"], teachers, false), &[7]), one, "{teachers:?}");
    }
}

/// A program that frees gradients before its first pass does so before each.
#[test]
fn gradients_that_are_freed_first_show_which_calls_are_of_one_model() {
    let told = |models: [&str; 2], penalty: bool, frees_last: bool| {
        let mut program = Program::default();
        let free = |program: &mut Program| {
            ["START", "END"].iter().for_each(|stage| program.mark(stage, "Optimizer.zero_grad#SGD.zero_grad"));
        };
        for _ in 0..12 {
            for model in models {
                free(&mut program);
                if penalty {
                    program.alloc_under("penalty", &BACKWARD, 512 * 600);
                }
                train(&mut program, model, 3, None);
                if penalty {
                    program.free("penalty");
                }
            }
            program.alloc("leak", "main:60", 2048);
        }
        if frees_last {
            free(&mut program);
        }
        found(&program, &[0])[0].clone()
    };
    assert_eq!(told(["a", "b"], false, false), "12 by Optimizer.step#*, 2 to a step: 2048 in 10 of 10");
    assert_eq!(told(["a", "b"], false, true), TWO_TO_A_STEP[0]);
    assert_eq!(told(["a", "a"], false, false), "24 by Optimizer.step#*: 1024 in 11 of 22");
    // Gradients of inputs, which end with the function that trains a model, show nothing.
    assert_eq!(told(["a", "b"], true, false), AFTER_EACH_CALL[0]);
    assert_eq!(told(["a", "a"], true, false), "24 by Optimizer.step#*: 1024 in 11 of 22");
}

/// A limit above what a call leaks may be below what a step does.
#[test]
fn steps_that_may_have_more_calls_do_not_pass() {
    let search = two_models(["a", "b"], [None; 2], true).search(&LeakOptions::default());
    let told = |limit| judge_leaks(&search, limit, false).headline().to_string();
    assert_reads!(told(1023) => str!["FAIL main (job.py:60) leaks 1.00 KiB per step, in 11 of 22 steps, allowed 1023 B per step"]);
    assert_reads!(told(2047) => str!["INCONCLUSIVE leak: 1.00 KiB leak per call of an optimizer, and the recording leaves open if a step has more"]);
}

/// Layers are dropped by chance, and the number of those in a backward pass differs.
#[test]
fn steps_of_different_length_may_have_validation() {
    let mut program = Program::default();
    for step in 0..24 {
        replace(&mut program, "batch", "train:5");
        train(&mut program, "a", 2 + step * 7 % 5, None);
        program.alloc("leak", "main:60", 2048);
        if step % 2 == 1 {
            validate(&mut program);
        }
    }
    assert_eq!(found(&program, &[0]), ONE_TO_A_STEP);
}

/// Two models, and validation of both after every second step.
#[test]
fn two_models_with_validation_are_two_calls_to_a_step() {
    let mut program = Program::default();
    for step in 0..12 {
        for model in ["a", "b"] {
            replace(&mut program, "batch", "train:5");
            train(&mut program, model, 3, None);
        }
        program.alloc("leak", "main:60", 2048);
        if step % 2 == 1 {
            validate(&mut program);
        }
    }
    assert_eq!(found(&program, &[0, 1]), TWO_TO_A_STEP);
}

/// Gradients that are kept for good are no sign of another model.
#[test]
fn a_leak_in_the_backward_pass_is_no_other_model() {
    let mut program = Program::default();
    for step in 0..24 {
        replace(&mut program, "batch", "train:5");
        train(&mut program, "a", 3, None);
        // Of its last layer.
        program.held.last_mut().unwrap().0 = "kept".to_owned();
        if step % 2 == 1 {
            validate(&mut program);
        }
    }
    let kept = [
        "24 by Optimizer.step#*, at least 1 to a step: 15360 in 21 of 21",
        "24 by Optimizer.step#*: 15360 in 21 of 21",
    ];
    assert_eq!(found(&program, &[0]), kept);
}

/// The last batch of an epoch of two steps is smaller.
#[test]
fn a_smaller_batch_is_no_other_model() {
    let mut program = Program::default();
    for step in 0..24 {
        replace(&mut program, "batch", "train:5");
        train_on(&mut program, "a", 3, None, if step % 2 == 1 { 512 * 20 } else { 512 * 40 });
        program.alloc("leak", "main:60", 2048);
        if step % 2 == 1 {
            validate(&mut program);
        }
    }
    assert_eq!(found(&program, &[0]), ONE_TO_A_STEP);
}
