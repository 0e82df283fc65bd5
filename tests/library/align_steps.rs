//! Different numbers of equal steps, and what precedes or follows them.

use ptmem::align::End;
use ptmem::profile::{self, Moment, Profile, ReadOptions};
use ptmem::sides::Side;

use crate::align::{compare, missing, unclear};
use crate::support::program::Program;

/// A model, steps that each keep a block of `kept` KiB, and an evaluation of `evaluation` KiB.
fn steps(count: usize, kept: u64, evaluation: u64) -> Profile {
    steps_that_keep(&vec![kept; count], 6, evaluation)
}

/// A model of so many weights, a step for each number of KiB, which it keeps, and an evaluation of `evaluation` KiB.
fn steps_that_keep(kept: &[u64], weights: usize, evaluation: u64) -> Profile {
    let mut program = Program::default();
    (0..weights).for_each(|layer| program.alloc(format!("weight {layer}"), "load:3", 512 * 2000));
    for (step, kept) in kept.iter().enumerate() {
        for layer in 0..20 {
            program.alloc(format!("activation {layer}"), &format!("layer_{layer}:{}", 10 + layer), 512 * 500);
        }
        (0..20).rev().for_each(|layer| program.free(&format!("activation {layer}")));
        if *kept > 0 {
            program.alloc(format!("kept {step}"), "log:70", 1024 * kept);
        }
    }
    (0..evaluation / 1000).for_each(|batch| program.alloc(format!("batch {batch}"), "evaluate:80", 1024 * 1000));
    (0..evaluation / 1000).for_each(|batch| program.free(&format!("batch {batch}")));
    let options = ReadOptions { at: Moment::Aligned, ..ReadOptions::default() };
    profile::read(&*program.snapshot(), "snapshot", options).unwrap()
}

/// The side that lacks the last steps of the other, with its share of the other's allocations in percent.
fn lacking(before: Profile, after: Profile) -> Option<(Side, u64)> {
    let parts = missing(&compare(before, after));
    assert!(parts.len() < 2 && parts.iter().all(|part| part.end == End::Tail), "{parts:?}");
    parts.first().map(|part| (part.side, (part.share + 5) / 10))
}

#[test]
fn steps_that_leave_memory_behind_are_lacked_where_a_side_makes_fewer() {
    for (fewer, gone) in [(1, 19 * 21), (2, 18 * 21), (3, 17 * 21), (6, 14 * 21)] {
        let share = (gone * 1000 / (20 * 21 + 6) + 5) / 10;
        // The same if each step of the shorter side keeps more, which makes the peaks similar.
        for kept in [400, 900] {
            let (longer, shorter) = (steps(20, 400, 0), steps(fewer, kept, 0));
            assert_eq!(lacking(longer, shorter), Some((Side::After, share)), "{fewer} steps");
            let (longer, shorter) = (steps(20, 400, 0), steps(fewer, kept, 0));
            assert_eq!(lacking(shorter, longer), Some((Side::Before, share)), "{fewer} steps");
        }
    }
    let parts = missing(&compare(steps(20, 400, 0), steps(6, 400, 0)));
    assert_eq!(parts[0].part(), "14 of 20 equal steps");
}

#[test]
fn steps_are_not_lacked_where_memory_does_not_depend_on_their_number() {
    for (before, after) in [(20, 6), (6, 20), (20, 2), (1, 20)] {
        let nearly_nothing = lacking(steps(before, 1, 0), steps(after, 1, 0));
        assert_eq!(nearly_nothing, None, "{before} and {after} steps");
        // The evaluation is the peak, and both sides have it.
        assert_eq!(lacking(steps(before, 1, 9000), steps(after, 1, 12000)), None, "{before} and {after} steps");
    }
    assert_eq!(lacking(steps(20, 400, 0), steps(20, 900, 0)), None, "as many steps");
    // More steps of the side that leaves nothing behind would hold no more.
    assert_eq!(lacking(steps(20, 1, 0), steps(22, 900, 0)), None, "a new leak");
    assert_eq!(lacking(steps(24, 900, 0), steps(20, 1, 0)), None, "a leak that was mended");
    // One of few steps keeps more by chance.
    assert_eq!(lacking(steps_that_keep(&[1, 30, 1], 6, 0), steps(50, 1, 0)), None, "few steps");
}

#[test]
fn few_steps_that_leave_nothing_behind_do_not_show_what_later_ones_leave() {
    // Caches fill from the fifth step on.
    let warm = |count: usize| steps_that_keep(&[[1; 4].as_slice(), &[400; 16]].concat()[..count], 6, 0);
    assert_eq!(lacking(warm(20), warm(4)), Some((Side::After, 79)));
    assert_eq!(lacking(warm(4), warm(20)), Some((Side::Before, 79)));
    assert_eq!(lacking(steps(4, 1, 0), steps(20, 400, 0)), Some((Side::Before, 79)));
}

#[test]
fn steps_are_lacked_where_new_ones_leave_memory_behind() {
    // Beside many weights, few steps are not nearly all of a history.
    for (fewer, weights) in [(2, 6), (3, 6), (4, 6), (5, 6), (7, 6), (3, 60), (4, 60), (7, 60)] {
        let compared = |kept: u64| {
            let before = steps_that_keep(&[0; 20], weights, 0);
            compare(before, steps_that_keep(&vec![kept; fewer], weights, 0))
        };
        let diff = compared(400);
        let found: Vec<_> = missing(&diff).iter().map(|part| (part.side, part.part())).collect();
        assert_eq!(found, [(Side::After, format!("{} of 20 equal steps", 20 - fewer))], "{fewer} steps, {weights}");
        // The same place of a step is compared.
        let rows = diff.devices[0].rows.iter().filter(|row| row.delta() != 0);
        let rows: Vec<_> = rows.map(|row| (&*row.label, row.delta())).collect();
        assert_eq!(rows, [("log (job.py:70)", 400 * 1024 * (fewer as i128 - 1))], "{fewer} steps, {weights}");
        assert_eq!(missing(&compared(0)), [], "{fewer} steps, {weights}");
    }
}

/// A model, and steps of which the first creates states of an optimizer, in `calls` for each weight. They end with updates.
fn optimized(calls: u64, steps: u64, update: &str) -> Profile {
    let mut program = Program::default();
    (0..12).for_each(|weight| program.alloc(format!("weight {weight}"), "load:3", 512 * 800));
    for step in 0..steps {
        for layer in 0..6 {
            program.alloc(format!("activation {layer}"), &format!("layer_{layer}:{}", 10 + layer), 512 * 500);
        }
        (0..6).rev().for_each(|layer| program.free(&format!("activation {layer}")));
        let states = if step == 0 { 12 * calls } else { 0 };
        (0..states).for_each(|state| program.alloc(format!("state {state}"), "step:50", 512 * 800));
        (0..12).for_each(|weight| program.alloc(format!("update {weight}"), update, 512 * 800));
        (0..12).for_each(|weight| program.free(&format!("update {weight}")));
    }
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn what_has_a_partner_behind_new_allocations_is_not_gone() {
    assert_eq!(missing(&compare(optimized(1, 3, "update:60"), optimized(2, 3, "update:60"))), []);
    assert_eq!(missing(&compare(optimized(2, 3, "update:60"), optimized(1, 3, "update:60"))), []);
}

#[test]
fn more_of_a_loop_over_parameters_is_no_missing_step() {
    assert_eq!(missing(&compare(optimized(1, 1, "step:50"), optimized(2, 1, "step:50"))), []);
    assert_eq!(missing(&compare(optimized(2, 1, "step:50"), optimized(1, 1, "step:50"))), []);
}

/// A loop whose rounds grow, stopped in one of them, beside so many weights.
fn growing(weights: u64, stop: u64) -> Profile {
    let mut program = Program::default();
    (0..weights)
        .for_each(|weight| program.alloc(format!("weight {weight}"), &format!("load_{weight}:{weight}"), 512 * 100));
    for round in 0..stop {
        for stage in 0..6 {
            program.alloc(
                format!("stage {stage}"),
                &format!("stage_{0}:{0}", 50 + stage / 2),
                512 * (400 + 50 * round),
            );
        }
        (0..6).for_each(|stage| program.free(&format!("stage {stage}")));
    }
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn few_stacks_make_steps_where_they_are_most() {
    let found = |weights: u64| {
        let diff = compare(growing(weights, 20), growing(weights, 10));
        (missing(&diff).iter().map(|part| part.side).collect::<Vec<_>>(), unclear(&diff))
    };
    assert_eq!(found(2), (vec![Side::After], vec![]));
    // Beside other stacks it may be a loop over parameters.
    assert_eq!(found(6), (vec![], vec![Side::After]));
}

/// A model, and steps whose last allocation has the stack of the first, and is kept if the program leaks.
fn kept_beside_the_batch(steps: u64, leaked: u64) -> Profile {
    let mut program = Program::default();
    for step in 0..steps {
        program.alloc("batch", "train:40", 512 * 1000);
        for layer in 0..8 {
            program.alloc(format!("activation {layer}"), &format!("layer_{layer}:{}", 10 + layer), 512 * 500);
        }
        (0..8).for_each(|layer| program.free(&format!("activation {layer}")));
        program.free("batch");
        if leaked > 0 {
            program.alloc(format!("kept {step}"), "train:40", 512 * leaked);
        }
    }
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn a_leak_that_repeats_the_first_stack_of_a_step_is_no_missing_part() {
    for steps in [4, 5, 6, 8, 20] {
        for leaked in [200, 1000] {
            let compared = compare(kept_beside_the_batch(steps, 0), kept_beside_the_batch(steps, leaked));
            assert_eq!((missing(&compared), unclear(&compared)), (vec![], vec![]), "{steps} steps, {leaked}");
            let compared = compare(kept_beside_the_batch(steps, leaked), kept_beside_the_batch(steps, 0));
            assert_eq!((missing(&compared), unclear(&compared)), (vec![], vec![]), "{steps} steps, {leaked}");
        }
    }
    // The after makes fewer steps, not the before.
    assert_eq!(
        lacking(kept_beside_the_batch(20, 0), kept_beside_the_batch(5, 200)).map(|(side, _)| side),
        Some(Side::After)
    );
}

/// A model of few weights, equal steps without the first `cut` and all before them, and an evaluation after them if they are all made.
fn trained(cut: usize, steps: usize) -> Profile {
    let mut program = Program::default();
    (0..3).for_each(|weight| program.alloc(format!("weight {weight}"), "load:3", 512 * 2000));
    let mut begin = 0;
    for step in 0..steps {
        begin = if step == cut { program.events.len() } else { begin };
        for layer in 0..30 {
            program.alloc(format!("activation {layer}"), &format!("layer_{layer}:{}", 10 + layer), 512 * 500);
        }
        (0..30).for_each(|layer| program.free(&format!("activation {layer}")));
    }
    if steps == 20 {
        for batch in 0..40 {
            program.alloc(format!("batch {batch}"), &format!("evaluate_{batch}:{}", 50 + batch), 512 * 1500);
        }
        (0..40).for_each(|batch| program.free(&format!("batch {batch}")));
    }
    program.events.drain(..if cut > 0 { begin } else { 0 });
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn a_small_setup_is_lacked_beside_steps() {
    for cut in [1, 3, 17, 18] {
        let parts = missing(&compare(trained(0, 20), trained(cut, 20)));
        let found: Vec<_> = parts.iter().map(|part| (part.side, part.end)).collect();
        assert_eq!(found, [(Side::After, End::Head)], "{cut} steps");
    }
    assert_eq!(missing(&compare(trained(0, 20), trained(0, 20))), []);
}

#[test]
fn what_follows_steps_may_be_lacked_where_steps_are() {
    for steps in [2, 10, 19] {
        let found = compare(trained(0, 20), trained(0, steps));
        assert!(!missing(&found).is_empty() || unclear(&found) == [Side::After], "{steps} steps");
    }
    // Both evaluate.
    let found = compare(trained(0, 20), trained(0, 20));
    assert_eq!((missing(&found), unclear(&found)), (vec![], vec![]));
}

/// A checkpoint that is read, a model, and equal steps, without the first `cut` of them, and without all before them if that is
/// cut as well.
fn resumed(is_begun: bool, cut: usize) -> Profile {
    let mut program = Program::default();
    for shard in 0..8 {
        program.alloc("shard", "read:2", 512 * 3000);
        program.alloc(format!("weight {shard}"), "load:3", 512 * 2000);
        program.free("shard");
    }
    let mut begin = if is_begun { 0 } else { program.events.len() };
    for step in 0..6 {
        begin = if step == cut && cut > 0 { program.events.len() } else { begin };
        for layer in 0..20 {
            program.alloc(format!("activation {layer}"), &format!("layer_{layer}:{}", 10 + layer), 512 * 500);
        }
        (0..20).rev().for_each(|layer| program.free(&format!("activation {layer}")));
    }
    program.events.drain(..begin);
    profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
}

#[test]
fn more_than_steps_is_lacked_however_many_steps_are_left() {
    for cut in 0..4 {
        let parts = missing(&compare(resumed(true, 0), resumed(false, cut)));
        let found: Vec<_> = parts.iter().map(|part| (part.side, part.end)).collect();
        assert_eq!(found, [(Side::After, End::Head)], "{cut} steps");
        let parts = missing(&compare(resumed(false, cut), resumed(true, 0)));
        let found: Vec<_> = parts.iter().map(|part| (part.side, part.end)).collect();
        assert_eq!(found, [(Side::Before, End::Head)], "{cut} steps");
        // Equal steps alone.
        assert_eq!(missing(&compare(resumed(false, 0), resumed(false, cut))), [], "{cut} steps");
    }
}

#[test]
fn layers_are_no_steps() {
    let model = |layers: u64| {
        let mut program = Program::default();
        program.alloc("embed", "embed:3", 512 * 1000);
        for at in 0..layers * 8 {
            program.alloc(format!("weight {at}"), &format!("linear_{}:{}", at % 8, 10 + at % 8), 512 * 500);
        }
        program.alloc("head", "head:40", 512 * 1000);
        profile::read(&*program.snapshot(), "snapshot", ReadOptions::default()).unwrap()
    };
    assert_eq!(missing(&compare(model(12), model(24))), []);
    assert_eq!(missing(&compare(model(24), model(12))), []);
}
