//! A series of snapshots: what grows now is found, and what grew once is not.

use std::fs;
use std::process::Output;

use crate::support::program::Program;
use crate::support::tool;
use ptmem::budget::DeviceMemory;
use ptmem::leak::{self, DeviceLeaks, LeakMetric, LeakOptions, Search};
use ptmem::profile::{self, Profile};
use ptmem::report::{Format, RenderOptions};
use ptmem::verdict::{JudgedSearch, LeakGate, Verdict, judge_leaks};

fn series(profiles: impl IntoIterator<Item = Profile>, options: &LeakOptions) -> Search {
    leak::over(profiles.into_iter().collect(), &[], options)
}

fn verdict(search: &Search) -> Verdict {
    judge_leaks(search, 0, false).verdict
}

fn strict(search: &Search) -> Verdict {
    judge_leaks(search, 0, true).verdict
}

fn only_device(search: &Search) -> &DeviceLeaks {
    let [device] = &search.devices[..] else { panic!("{:#?}", search.devices) };
    device
}

/// Snapshots of one program, some steps apart.
fn of_series(count: usize, each: impl Fn(&mut Program, usize)) -> Vec<Profile> {
    let mut program = Program::default();
    let profile = |step: usize| {
        program.work();
        each(&mut program, step);
        program.profile(&format!("step-{step}.pkl"))
    };
    (0..count).map(profile).collect()
}

/// The limit is on what all leaks gain together.
#[test]
fn the_sum_of_leaks_is_compared_with_the_limit() {
    let leaks = |program: &mut Program, step: usize| {
        program.alloc("one", "train:30", 600 << 10);
        (0..=step % 2).for_each(|_| program.alloc("two", "build:40", 400 << 10));
    };
    let found = series(of_series(8, leaks), &LeakOptions::default());
    let line = |limit: u64| judge_leaks(&found, limit, false).headline().to_string();
    assert_reads!(line(1 << 20) => str!["FAIL build (job.py:40) grows 600.00 KiB per snapshot, 7 of 7 times, all leaks together 1.17 MiB per snapshot, allowed 1.00 MiB per snapshot; 1 more leak"]);
    assert_reads!(line(2 << 20) => str!["PASS build (job.py:40) grows 600.00 KiB per snapshot, 7 of 7 times, all leaks together 1.17 MiB per snapshot, allowed 2.00 MiB per snapshot"]);
    assert_reads!(line(0) => str!["FAIL build (job.py:40) grows 600.00 KiB per snapshot, 7 of 7 times, allowed 0 B per snapshot; 1 more leak"]);
}

#[test]
fn a_series_wants_growth_in_nearly_every_step() {
    let options = LeakOptions { min_growth: Some(4096), ..LeakOptions::default() };
    let once = of_series(6, |program, step| {
        if step == 3 {
            program.alloc("cache", "lookup:30", 512 * 100);
        }
    });
    assert_eq!(series(once, &options).leaks().count(), 0);
    let always = |program: &mut Program, _: usize| program.alloc("leak", "train:30", 2048);
    let found = series(of_series(6, always), &options);
    let (_, leak) = found.leaks().next().unwrap();
    assert_eq!((leak.bytes, leak.bytes_per_step, leak.grew, leak.judged), (5 * 2048, 2048, 5, 5));
    // Warm-up does not count.
    let late = LeakOptions { skip: Some(3), ..options.clone() };
    let found = series(of_series(6, always), &late);
    let (_, leak) = found.leaks().next().unwrap();
    assert_eq!((leak.bytes, leak.grew, leak.judged), (2 * 2048, 2, 2));
    let none = LeakOptions { skip: Some(5), ..options.clone() };
    assert_eq!(verdict(&series(of_series(6, always), &none)), Verdict::Inconclusive);
    assert_eq!(series(of_series(3, always), &options).leaks().count(), 1);
}

#[test]
fn a_stack_is_followed_through_a_series() {
    // In between there is nothing of it once.
    let options = LeakOptions { min_growth: Some(1), min_share: Some(0.6), ..LeakOptions::default() };
    let profiles = of_series(5, |program, step| {
        if step == 2 {
            program
                .held
                .iter()
                .map(|held| held.0.clone())
                .collect::<Vec<_>>()
                .iter()
                .for_each(|name| program.free(name));
        } else {
            for _ in 0..=step {
                program.alloc("leak", "train:30", 2048);
            }
        }
    });
    let found = series(profiles, &options);
    let (_, leak) = found.leaks().next().unwrap();
    // 1, 3, 0, 4, 9 blocks.
    assert_eq!((leak.bytes, leak.grew, leak.judged, leak.end.blocks), (8 * 2048, 3, 4, 9));
}

#[test]
fn many_stacks_that_grow_a_little_are_a_leak_together() {
    let profiles = of_series(6, |program, step| {
        for line in 0..40 {
            program.alloc(format!("{step} {line}"), &format!("layer_{line}:3"), 512 * 10);
        }
    });
    let found = series(profiles, &LeakOptions { min_growth: Some(40_000), ..LeakOptions::default() });
    let [(_, leak)] = &found.leaks().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((leak.bytes_per_step, leak.grew, leak.judged), (40 * 5120, 5, 5));
    assert_eq!(leak.label, "<several stacks together>");
    // It names those that grew most, so that there is a place to look at.
    assert_eq!((leak.also.len(), &*leak.also[0]), (4, "layer_0 (job.py:3)"));
    assert_reads!(judge_leaks(&found, 0, false).headline().to_string() => str!["FAIL <several stacks together> grows 200.00 KiB per snapshot, 5 of 5 times, most in layer_0 (job.py:3), allowed 0 B per snapshot"]);
    assert_eq!(verdict(&found), Verdict::Regression);
}

/// Many stacks that grow a little in each of some snapshots, beside a large one that shrinks by more.
fn grow_beside_one_that_shrinks(snapshots: usize) -> Search {
    let mut program = Program::default();
    (0..12).for_each(|block| program.alloc(format!("large {block}"), "cache:50", 1 << 20));
    let profiles = (0..snapshots).map(|step| {
        program.work();
        program.free(&format!("large {step}"));
        for line in 0..40 {
            program.alloc(format!("{step} {line}"), &format!("layer_{line}:3"), 512 * 10);
        }
        program.profile(&format!("step-{step}.pkl"))
    });
    series(profiles.collect::<Vec<_>>(), &LeakOptions { min_growth: Some(40_000), ..LeakOptions::default() })
}

#[test]
fn a_large_stack_that_shrinks_does_not_hide_many_that_grow_a_little() {
    assert_reads!(judge_leaks(&grow_beside_one_that_shrinks(6), 0, false).headline().to_string() => str!["FAIL <several stacks together> grows 200.00 KiB per snapshot, 5 of 5 times, most in layer_0 (job.py:3), allowed 0 B per snapshot"]);
    // A single change of the code may divide a large stack into small ones.
    assert_eq!(verdict(&grow_beside_one_that_shrinks(2)), Verdict::Pass);
}

/// One night for each item: the number of blocks of 1 MiB that a line holds.
fn nights(blocks: &[usize]) -> Vec<Profile> {
    let mut program = Program::default();
    let mut held = 0;
    let night = |(night, &blocks): (usize, &usize)| {
        program.work();
        while held < blocks {
            program.alloc(format!("leak {held}"), "train:30", 1 << 20);
            held += 1;
        }
        while held > blocks {
            held -= 1;
            program.free(&format!("leak {held}"));
        }
        program.profile(&format!("night-{night:02}"))
    };
    blocks.iter().enumerate().map(night).collect()
}

fn flat_then_leak(nights: usize, leaking: usize) -> Vec<usize> {
    (0..nights + leaking).map(|night| 5 + 20 * (night + 1).saturating_sub(nights)).collect()
}

#[test]
fn a_leak_that_began_late_is_found_with_its_beginning() {
    let found = series(nights(&flat_then_leak(25, 5)), &LeakOptions::default());
    let [leak] = &only_device(&found).leaks[..] else { panic!("{:#?}", found.devices) };
    assert_eq!((leak.bytes, leak.bytes_per_step, leak.blocks), (100 << 20, 20 << 20, 100));
    assert_eq!((leak.grew, leak.judged, leak.since.as_deref()), (5, 5, Some("night-24")));
    assert_eq!(only_device(&found).growth.allocated, Some(20 << 20));
    let headline = judge_leaks(&found, 0, false).headline().to_string();
    assert_eq!(
        headline,
        "FAIL train (job.py:30) grows 20.00 MiB per snapshot since night-24, 5 of 5 times, allowed 0 B per snapshot"
    );
}

#[test]
fn a_step_up_is_no_leak() {
    for since in [1, 2, 12] {
        let mut blocks = vec![5; 20];
        blocks.extend(vec![205; since]);
        let found = series(nights(&blocks), &LeakOptions::default());
        assert_eq!((found.leaks().count(), verdict(&found), strict(&found)), (0, Verdict::Pass, Verdict::Pass));
        // One value after the step has no slope.
        assert_eq!(only_device(&found).growth.allocated, (since > 1).then_some(0), "{since}");
    }
}

#[test]
fn a_leak_that_was_mended_is_none() {
    let mut blocks = flat_then_leak(5, 10);
    blocks.extend([5; 8]);
    let found = series(nights(&blocks), &LeakOptions::default());
    assert_eq!((found.leaks().count(), verdict(&found)), (0, Verdict::Pass));
    assert_eq!(only_device(&found).growth.allocated, Some(0));
}

#[test]
fn growth_in_two_nights_is_too_little_to_tell() {
    let found = series(nights(&flat_then_leak(12, 2)), &LeakOptions::default());
    assert_eq!((found.leaks().count(), verdict(&found), strict(&found)), (0, Verdict::Pass, Verdict::Inconclusive));
    let message = &found.diagnostics.iter().find(|found| found.code.name() == "growth-too-recent").unwrap().message;
    assert!(message.contains("40.00 MiB since night-11, in each of the last 2 snapshots"), "{message}");
}

#[test]
fn a_step_up_does_not_hide_a_leak() {
    let mut blocks: Vec<usize> = (1..=12).map(|night| 5 * night).collect();
    for more in [165, 170, 175, 180] {
        blocks.push(more);
        assert_eq!(verdict(&series(nights(&blocks), &LeakOptions::default())), Verdict::Regression, "{more}");
    }
    let found = series(nights(&blocks[..13]), &LeakOptions::default());
    assert_reads!(judge_leaks(&found, 0, false).headline().to_string() => str!["FAIL train (job.py:30) grows 5.00 MiB per snapshot, 12 of 12 times, allowed 0 B per snapshot"]);
}

#[test]
fn growth_that_stopped_lately_is_told() {
    let mut blocks: Vec<usize> = (1..=12).map(|night| 5 * night).collect();
    blocks.extend([60, 60]);
    let found = series(nights(&blocks), &LeakOptions::default());
    assert_eq!((found.leaks().count(), verdict(&found), strict(&found)), (0, Verdict::Pass, Verdict::Inconclusive));
    assert_reads!(judge_leaks(&found, 0, false).headline().to_string() => str!["PASS nothing leaks so far, but recent growth cannot be judged yet"]);
    let message = &found.diagnostics.iter().find(|found| found.code.name() == "growth-too-recent").unwrap().message;
    assert_reads!(message => str!["train (job.py:30) grew by 5.00 MiB per snapshot until night-11 and did not clearly fall since: 2 later snapshots are too few to show that the growth has ended; the next ones will show it"]);
    blocks.extend([60, 60]);
    let found = series(nights(&blocks), &LeakOptions::default());
    assert_eq!((verdict(&found), strict(&found)), (Verdict::Pass, Verdict::Pass));
}

#[test]
fn growth_in_two_nights_beside_an_allowed_leak_is_told() {
    let mut program = Program::default();
    let profiles = (0..12).map(|night| {
        program.work();
        program.alloc("old", "train:30", 1 << 20);
        if night >= 10 {
            (0..20).for_each(|_| program.alloc("new", "log:40", 1 << 20));
        }
        program.profile(&format!("night-{night:02}"))
    });
    let found = series(profiles.collect::<Vec<_>>(), &LeakOptions::default());
    let judged = |is_strict| judge_leaks(&found, 4 << 20, is_strict);
    assert_eq!((judged(false).verdict, judged(true).verdict), (Verdict::Pass, Verdict::Inconclusive));
    assert_reads!(judged(false).headline().to_string() => str!["PASS train (job.py:30) grows 1.00 MiB per snapshot, 11 of 11 times, allowed 4.00 MiB per snapshot, but recent growth beside what leaks cannot be judged yet"]);
    let told = found.diagnostics.iter().find(|found| found.code.name() == "growth-too-recent");
    assert_reads!(told.unwrap().message => str!["allocated bytes rose by 40.00 MiB beside what leaks since night-09, in each of the last 2 snapshots: too few to distinguish a leak from a single increase; the next ones will show it"]);
}

#[test]
fn stacks_may_begin_to_leak_in_different_nights() {
    let mut program = Program::default();
    let profiles = (0..20).map(|night| {
        program.work();
        program.alloc("old", "train:30", 1 << 20);
        if night > 12 {
            program.alloc("new", "log:40", 1 << 19);
        }
        program.profile(&format!("night-{night:02}"))
    });
    let found = series(profiles.collect::<Vec<_>>(), &LeakOptions::default());
    let leaks: Vec<_> =
        found.leaks().map(|(_, leak)| (&*leak.label, leak.bytes_per_step, leak.since.as_deref())).collect();
    assert_eq!(leaks, [("train (job.py:30)", 1 << 20, None), ("log (job.py:40)", 1 << 19, Some("night-12"))]);
}

#[test]
fn the_first_night_passes_and_says_so() {
    let found = series(nights(&[5]), &LeakOptions::default());
    assert_eq!((verdict(&found), strict(&found)), (Verdict::Pass, Verdict::Inconclusive));
    let headline = judge_leaks(&found, 0, false).headline().to_string();
    assert!(headline.contains("the first snapshot of a series has no earlier one to compare with"), "{headline}");
    // Warm-up that leaves nothing is a mistake in the options.
    let skip = LeakOptions { skip: Some(1), ..LeakOptions::default() };
    assert_eq!(verdict(&series(nights(&[5]), &skip)), Verdict::Inconclusive);
}

#[test]
fn a_pool_may_begin_to_grow_late() {
    let mut program = Program::default();
    let profiles = (0..20_u64).map(|night| {
        program.work();
        program.reserved = 8192 + 64 * night.saturating_sub(12);
        program.profile(&format!("night-{night:02}"))
    });
    let found = series(profiles.collect::<Vec<_>>(), &LeakOptions::default());
    let [leak] = &only_device(&found).leaks[..] else { panic!("{:#?}", found.devices) };
    assert_eq!((leak.metric, leak.bytes_per_step), (LeakMetric::Fragmentation, 64 << 20));
    assert_eq!((leak.since.as_deref(), leak.grew), (Some("night-12"), 7));
}

#[test]
fn one_rise_of_the_pool_is_no_leak() {
    for (count, leaks) in [(2, 0), (3, 1)] {
        let profiles = of_series(count, |program, night| program.reserved = 8192 + 64 * night as u64);
        assert_eq!(series(profiles, &LeakOptions::default()).leaks().count(), leaks, "{count}");
    }
}

/// Growth of 5 MiB per night fills the device, whatever another stack does in the last one.
#[test]
fn a_device_is_full_at_the_pace_of_what_leaks() {
    for last in [100, 150, 50] {
        let mut program = Program::default();
        let mut others = 0;
        let profiles = (0..12).map(|night| {
            program.work();
            (0..5).for_each(|block| program.alloc(format!("{night} {block}"), "train:30", 1 << 20));
            let wanted = if night < 11 { 100 } else { last };
            (others..wanted).for_each(|block| program.alloc(format!("other {block}"), "cache:50", 1 << 20));
            (wanted..others).for_each(|block| program.free(&format!("other {block}")));
            others = wanted;
            program.profile(&format!("night-{night:02}"))
        });
        let device_memory = Some(DeviceMemory { bytes: 1 << 30, overhead: None });
        let found = series(profiles.collect::<Vec<_>>(), &LeakOptions { device_memory, ..LeakOptions::default() });
        let peak = last.max(100) + 60;
        assert_eq!(only_device(&found).growth.runs_out_after, Some((1024_u64 - peak).div_ceil(5)), "{last}");
    }
}

/// Blocks of 1 MiB that a night needs for a while and not at its end, in a pool that grows by 8 MiB with each night.
fn pool_that_grows(needed: fn(u64) -> u64) -> Search {
    let mut program = Program::default();
    let profiles = (0..20_u64).map(|night| {
        program.work();
        (0..needed(night)).for_each(|block| program.alloc(format!("most {block}"), "train:30", 1 << 20));
        (0..needed(night)).for_each(|block| program.free(&format!("most {block}")));
        program.reserved = 4096 + 8 * night;
        program.profile(&format!("night-{night:02}"))
    });
    series(profiles.collect::<Vec<_>>(), &LeakOptions::default())
}

#[test]
fn a_pool_that_grows_with_the_peak_is_no_leak() {
    let found = pool_that_grows(|night| 8 * night);
    assert_eq!((found.leaks().count(), verdict(&found)), (0, Verdict::Pass), "{:#?}", found.devices);
    assert_eq!(pool_that_grows(|_| 8).leaks().count(), 1);
}

/// A folder of saved profiles, one for each night.
fn folder_of(name: &str, blocks: &[usize]) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (night, profile) in nights(blocks).iter().enumerate() {
        let text = profile::saved::text_of(profile, &[]).unwrap();
        fs::write(folder.join(format!("night-{night:02}.json")), text).unwrap();
    }
    folder
}

fn leak_of(folder: &std::path::Path, arguments: &[&str]) -> Output {
    tool::ptmem(folder, &[&["leak"], arguments].concat())
}

#[test]
fn one_broken_file_in_a_folder_is_left_out() {
    let folder = folder_of("leak-broken", &flat_then_leak(25, 5));
    let whole = fs::read(folder.join("night-27.json")).unwrap();
    fs::write(folder.join("night-27.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.join("notes.pkl"), "not a snapshot").unwrap();
    let output = leak_of(&folder, &["."]);
    let (code, line) = tool::verdict(&output);
    assert_eq!(code, 1, "{line}");
    assert!(line.contains("since ./night-24.json, 4 of 4 times"), "{line}");
    let report = tool::text(&output.stdout);
    assert!(report.contains("warning[files-skipped] 2 of 31 files left out"), "{report}");
    // A file that is named must be one.
    let output = leak_of(&folder, &["night-01.json", "notes.pkl"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_folder_of_broken_files_cannot_be_read() {
    let folder = folder_of("leak-all-broken", &[]);
    for name in ["a.pkl", "b.pkl"] {
        fs::write(folder.join(name), "not a snapshot").unwrap();
    }
    assert_eq!(leak_of(&folder, &["."]).status.code(), Some(2));
    // With one that can, it is no first night.
    fs::rename(folder_of("leak-one-left", &[5]).join("night-00.json"), folder.join("c.json")).unwrap();
    assert_eq!(leak_of(&folder, &["."]).status.code(), Some(3));
}

#[test]
fn a_folder_with_one_profile_is_the_first_night() {
    let folder = folder_of("leak-first-night", &[5]);
    assert_eq!(leak_of(&folder, &["."]).status.code(), Some(0));
    assert_eq!(leak_of(&folder, &[".", "--strict"]).status.code(), Some(3));
    assert_eq!(leak_of(&folder, &["night-00.json"]).status.code(), Some(0));
}

#[test]
fn what_leaks_together_is_one_finding_with_a_row_for_each_stack() {
    let profiles = of_series(4, |program, step| {
        for line in [3, 4] {
            program.alloc(format!("{step} {line}"), &format!("layer_{line}:3"), 4 << 20);
        }
    });
    let search = series(profiles, &LeakOptions::default());
    let judgement = judge_leaks(&search, 0, false);
    let gate = LeakGate::from(JudgedSearch { search, judgement });
    let table = Format::Table.render(&gate, &RenderOptions::default()).unwrap();
    assert_eq!(table.matches("FAIL").count(), 1, "{table}");
    assert!(table.contains("layer_3 (job.py:3) and 1 other together grow 8.00 MiB"), "{table}");
    assert!(table.contains("layer_3 (job.py:3)") && table.contains("layer_4 (job.py:3)"), "{table}");
}
