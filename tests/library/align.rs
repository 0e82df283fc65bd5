//! A part of the history that is missing on one side is found, and no change to the code is taken for one.

use std::fs::File;
use std::path::{Path, PathBuf};

use ptmem::align::{End, MissingPart};
use ptmem::diagnostic::Code;
use ptmem::diff::{self, Diff};
use ptmem::profile::{self, Profile, ReadOptions, saved};
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

pub(crate) fn compare(before: Profile, after: Profile) -> Diff {
    diff::compare(before, after, diff::DiffOptions::default())
}

pub(crate) fn missing(diff: &Diff) -> Vec<MissingPart> {
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
pub(crate) fn unclear(diff: &Diff) -> Vec<Side> {
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
