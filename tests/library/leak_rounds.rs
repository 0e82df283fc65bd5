//! Steps among the calls of one optimizer: rounds with more in every Nth of them train another model, or are followed by validation.

use crate::support::program::Program;
use ptmem::leak::LeakOptions;
use ptmem::phase::steps::FoundBy;

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

/// The way in which steps are found, with the bytes that each leaves behind, and in how many.
fn found(program: &Program) -> String {
    let search = program.search(&LeakOptions::default());
    let [device] = &search.devices[..] else { panic!("{:#?}", search.devices) };
    let Some(FoundBy::Named(how)) = &device.how else { panic!("{:?}", device.how) };
    let [leak] = &device.leaks[..] else { panic!("{:#?}", device.leaks) };
    format!("{} by {how}: {} in {} of {}", device.points.len(), leak.bytes_per_step, leak.grew, leak.judged)
}

const TWO_TO_A_STEP: &str = "12 by Optimizer.step#*, 2 to a step: 2048 in 10 of 10";
const MAYBE_TWO: &str =
    "12 by Optimizer.step#*, 2 to a step; if each call is a step, use --step Optimizer.step: 2048 in 10 of 10";

#[test]
fn a_teacher_of_one_of_two_models_is_no_validation() {
    // Gradients that the next pass frees may be those of the same model.
    for (second, expected) in [("b", TWO_TO_A_STEP), ("a", MAYBE_TWO)] {
        let mut program = Program::default();
        for _ in 0..12 {
            for (model, teacher) in [("a", Some("teach")), (second, None)] {
                replace(&mut program, "batch", "train:5");
                train(&mut program, model, 3, teacher);
            }
            program.alloc("leak", "main:60", 2048);
        }
        assert_eq!(found(&program), expected);
    }
}

/// Fakes are drawn before the forward pass of one of two models, and freed after it.
#[test]
fn an_input_of_one_of_two_models_is_no_validation() {
    let mut program = Program::default();
    for _ in 0..12 {
        for draws in [true, false] {
            replace(&mut program, "batch", "train:5");
            if draws {
                evaluate(&mut program, "draw", "fakes");
            }
            train(&mut program, "a", 3, None);
            zero_grad(&mut program, "a");
            if draws {
                program.free("fakes");
            }
        }
        program.alloc("leak", "main:60", 2048);
    }
    assert_eq!(found(&program), MAYBE_TWO);
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
    assert_eq!(found(&program), "24 by Optimizer.step#*: 2048 in 22 of 22");
}

/// What is held from one evaluation to the next may be an input of two models. It is a result of validation if passes of one model
/// have inputs of their own.
#[test]
fn what_several_passes_hold_is_a_result_if_each_has_its_own_input() {
    for (models, has_input, expected) in [
        (["a", "a"], true, "24 by Optimizer.step#*: 1024 in 11 of 22"),
        (["a", "a"], false, MAYBE_TWO),
        (["a", "b"], true, TWO_TO_A_STEP),
        (["a", "b"], false, TWO_TO_A_STEP),
    ] {
        let mut program = Program::default();
        for _ in 0..12 {
            evaluate(&mut program, "evaluate", "temporary");
            program.free("temporary");
            replace(&mut program, "result", "evaluate:50");
            for model in models {
                if has_input {
                    replace(&mut program, "batch", "train:5");
                }
                train(&mut program, model, 3, None);
            }
            program.alloc("leak", "main:60", 2048);
        }
        assert_eq!(found(&program), expected, "{models:?} {has_input}");
    }
}

/// Two models, and validation of both after every second step.
#[test]
fn two_models_with_validation_are_two_calls_to_a_step() {
    for first_teacher in [Some("teach"), None] {
        let mut program = Program::default();
        for step in 0..16 {
            for (model, teacher) in [("a", first_teacher), ("b", None)] {
                replace(&mut program, "batch", "train:5");
                train(&mut program, model, 3, teacher);
            }
            program.alloc("leak", "main:60", 2048);
            if step % 2 == 1 {
                evaluate(&mut program, "validate", "score");
                program.free("score");
            }
        }
        let expected = "16 by Optimizer.step#*, 2 to a step: 2048 in 14 of 14";
        assert_eq!(found(&program), expected, "{first_teacher:?}");
    }
}

/// Their gradients are freed before the next pass.
#[test]
fn models_of_different_widths_are_told_by_their_gradients() {
    let mut program = Program::default();
    for _ in 0..12 {
        for model in ["a", "wide"] {
            replace(&mut program, "batch", "train:5");
            train(&mut program, model, 3, None);
            zero_grad(&mut program, model);
        }
        program.alloc("leak", "main:60", 2048);
        validate(&mut program);
    }
    assert_eq!(found(&program), TWO_TO_A_STEP);
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
    assert_eq!(found(&program), "24 by Optimizer.step#*: 15360 in 21 of 21");
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
    assert_eq!(found(&program), "24 by Optimizer.step#*: 2048 in 22 of 22");
}
