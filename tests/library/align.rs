//! A part of the history that is missing on one side is found, and no change to the code is taken for one.

use std::fs::File;
use std::path::{Path, PathBuf};

use ptmem::align::{End, MissingPart};
use ptmem::diagnostic::Code;
use ptmem::diff::{self, Diff};
use ptmem::profile::{self, Moment, Profile, ReadOptions, saved};
use ptmem::sides::Side;

use crate::support::edit::{self, Edited};
use crate::support::program::Program;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn profile(path: &Path) -> Profile {
    profile::read(File::open(path).unwrap(), "snapshot", ReadOptions::default()).unwrap()
}

/// The profile as it is read back from the file that it was saved to.
fn saved(profile: &Profile) -> Profile {
    let text = saved::text_of(profile, &[]).unwrap();
    profile::read(text.as_bytes(), "saved", ReadOptions::default()).unwrap()
}

fn compare(before: Profile, after: Profile) -> Diff {
    diff::compare(before, after, diff::DiffOptions::default())
}

fn missing(diff: &Diff) -> Vec<MissingPart> {
    diff.devices.iter().flat_map(|device| device.missing.clone()).collect()
}

/// A snapshot with a part of its history, after an edit of its frames.
fn part_of(path: &Path, from: usize, to: usize, edit: impl FnOnce(&mut Edited)) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part.pkl");
    let mut edited = Edited::open(path);
    edit(&mut edited);
    edited.keep_events(from, to);
    edited.write(&file);
    profile(&file)
}

/// Cuts off each end by as much as is given, and finds it.
fn finds_cuts(path: &Path, heads: &[usize], tails: &[usize]) {
    let cuts = heads.iter().map(|&cut| (End::Head, cut)).chain(tails.iter().map(|&cut| (End::Tail, cut)));
    for (end, cut) in cuts {
        let (from, to) = if end == End::Head { (cut, 100) } else { (0, 100 - cut) };
        let name = format!("{}: {cut} % of the {end:?}", path.display());
        let rename = |edited: &mut Edited| {
            let (file, function) = edited.user_functions().into_iter().next().unwrap();
            edit::rename_function(edited, &file, &function, "another_name");
            edit::move_lines(edited, &file, 7);
        };
        let found = missing(&compare(profile(path), part_of(path, from, to, rename)));
        assert!(matches!(found[..], [part] if (part.side, part.end) == (Side::After, end)), "{name}: {found:?}");
        // The other way around, and with a saved profile.
        let found = missing(&compare(part_of(path, from, to, |_| {}), saved(&profile(path))));
        assert!(matches!(found[..], [part] if (part.side, part.end) == (Side::Before, end)), "{name}: {found:?}");
    }
}

#[test]
fn cuts_of_one_step_are_found() {
    finds_cuts(&fixture("mid-forward.pkl"), &[15, 40, 70, 90], &[70, 90]);
}

#[test]
fn no_code_change_is_a_missing_part() {
    for [before, after] in crate::support::fixtures::changes() {
        for (before, after) in [(&before, &after), (&after, &before)] {
            let name = format!("{} {}", before.display(), after.display());
            assert_eq!(missing(&compare(profile(before), profile(after))), [], "{name}");
            assert_eq!(missing(&compare(saved(&profile(before)), profile(after))), [], "{name}, saved");
        }
    }
}

#[test]
fn no_fixture_lacks_a_part_of_itself() {
    for path in crate::support::fixtures::snapshots() {
        assert_eq!(missing(&compare(profile(&path), saved(&profile(&path)))), [], "{}", path.display());
    }
    for [before, after] in
        [["before.pkl", "after.pkl"], ["phases-before.pkl", "phases-after.pkl"], ["leak.pkl", "no-leak.pkl"]]
    {
        assert_eq!(missing(&compare(profile(&fixture(before)), profile(&fixture(after)))), [], "{before}");
    }
}

#[test]
fn a_saved_profile_keeps_the_course_and_the_highest() {
    let path = fixture("before.pkl");
    let snapshot = profile(&path);
    let text = saved::text_of(&snapshot, &[]).unwrap();
    let read = profile::read(text.as_bytes(), "saved", ReadOptions::default()).unwrap();
    let lengths = [&snapshot, &read].map(|of| of.devices[0].trace.begun().len());
    assert_eq!(lengths, [400, 400]);
    let highest = [&snapshot, &read].map(|of| {
        let stacks = of.devices[0].stacks.iter();
        stacks.map(|stack| (stack.label.clone(), stack.highest)).collect::<Vec<_>>()
    });
    assert_eq!(highest[0], highest[1]);
    assert_eq!(saved::text_of(&read, &[]).unwrap(), text);
}

/// No stack ever holds more than its highest, and that of the device at its peak is the sum of what they hold then.
#[test]
fn the_highest_of_a_stack_bounds_every_moment() {
    for path in crate::support::fixtures::snapshots() {
        for device in profile(&path).devices {
            for stack in &device.stacks {
                let highest = stack.highest.unwrap().bytes;
                let moments = [stack.baseline, stack.peak, stack.end, stack.oom, stack.at].map(|held| held.bytes);
                let largest = moments.into_iter().max().unwrap();
                assert!(highest >= largest, "{}: {}", path.display(), stack.label);
                let most = stack.baseline.bytes.saturating_add(stack.allocated_total);
                assert!(highest <= most.max(largest), "{}: {}", path.display(), stack.label);
            }
        }
    }
}

/// A program whose stacks are all the same, as those of a recording without frames: activations, and gradients that
/// take their place.
fn of_one_stack(folder: &Path, scale: u64) -> PathBuf {
    let mut program = Program::default();
    for layer in 0..30 {
        program.alloc(format!("activation {layer}"), "run:1", 512 * (layer + 1) * scale);
    }
    for layer in (0..30).rev() {
        program.alloc(format!("gradient {layer}"), "run:1", 512 * (100 + layer) * scale);
        program.free(&format!("activation {layer}"));
    }
    let path = folder.join(format!("{scale}.pkl"));
    std::fs::write(&path, program.snapshot()).unwrap();
    path
}

#[test]
fn sizes_tell_what_is_missing_where_stacks_are_few() {
    let folder = tempfile::tempdir().unwrap();
    finds_cuts(&of_one_stack(folder.path(), 1), &[15, 40, 70, 90], &[]);
}

/// The sides that may lack a part, by a diagnostic.
fn unclear(diff: &Diff) -> Vec<Side> {
    let told = diff.diagnostics.iter().filter(|diagnostic| diagnostic.code == Code::PartsNotChecked).count();
    let unclear: Vec<Side> = diff.devices.iter().filter_map(|device| device.parts_unclear).collect();
    assert_eq!(told, unclear.len());
    unclear
}

#[test]
fn what_neither_stacks_nor_sizes_tell_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = of_one_stack(folder.path(), 1);
    let larger = of_one_stack(folder.path(), 3);
    let diff = compare(profile(&path), profile(&larger));
    assert_eq!((missing(&diff), unclear(&diff)), (vec![], vec![]), "as many allocations");
    // The gradients are held either way: a program that does less ends like that as well.
    let diff = compare(profile(&path), part_of(&path, 0, 60, |_| {}));
    assert_eq!((missing(&diff), unclear(&diff)), (vec![], vec![Side::After]));
    let diff = compare(profile(&path), profile(&path));
    assert_eq!((missing(&diff), unclear(&diff)), (vec![], vec![]));
}

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
