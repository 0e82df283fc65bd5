//! Leaks are found, with their lines and bytes, and nothing else is.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::support::fixtures;
use crate::support::program::Program;
use ptmem::budget::DeviceMemory;
use ptmem::diagnostic::Code;
use ptmem::diff::{self, DiffOptions};
use ptmem::leak::{self, DeviceLeaks, LeakMetric, LeakOptions, Search};
use ptmem::pattern::Pattern;
use ptmem::phase::steps::{CallsOfStep, FoundBy, WantedSteps};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Moment, Profile, ReadOptions};
use ptmem::stack::GroupBy;
use ptmem::verdict::{Verdict, judge_leaks};
use serde_json::Value as Json;

fn search(path: &Path, options: &LeakOptions) -> Search {
    let profile = profile::read(File::open(path).unwrap(), path.to_str().unwrap(), options.reading());
    leak::search(&profile.unwrap(), options)
}

fn by(group_by: GroupBy) -> LeakOptions {
    let reading = ReadOptions { group_by, ..ReadOptions::default() };
    LeakOptions { reading, ..LeakOptions::default() }
}

fn series(profiles: impl IntoIterator<Item = Profile>, options: &LeakOptions) -> Search {
    leak::over(profiles.into_iter().collect(), &[], options)
}

fn at_end(path: &Path) -> Profile {
    let options = ReadOptions { at: Moment::End, ..ReadOptions::default() };
    profile::read(File::open(path).unwrap(), path.to_str().unwrap(), options).unwrap()
}

fn truth(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn verdict(search: &Search) -> Verdict {
    judge_leaks(search, 0, false).verdict
}

/// The lines of the user that a leak names.
fn lines(leak: &leak::Leak, function: &str, file: &str) -> Vec<u64> {
    let line = |label: &String| {
        let rest = label.strip_prefix(&format!("{function} ({file}:")).unwrap_or_else(|| panic!("{label}"));
        rest.split(')').next().unwrap().parse().unwrap()
    };
    let mut lines: Vec<u64> = [&leak.label].into_iter().chain(&leak.also).map(line).collect();
    lines.sort_unstable();
    lines
}

/// Every story, from its one snapshot: the leak that the simulated allocator saw, or none.
#[test]
fn the_leaks_of_all_stories_are_found_and_no_others() {
    let (mut leaking, mut clean, mut told) = (0, 0, 0);
    for path in fixtures::snapshots() {
        let beside = path.with_extension("json");
        let truth = if beside.is_file() {
            truth(&beside)["leak"].clone()
        } else {
            let of_folder = truth(&path.parent().unwrap().with_extension("json"));
            of_folder[path.file_stem().unwrap().to_str().unwrap()]["leak"].clone()
        };
        let found = search(&path, &LeakOptions::default());
        let leaks: Vec<_> = found.leaks().collect();
        let name = path.display();
        // Each snapshot of a series holds only a few steps.
        let few = path.parent().unwrap().to_str().unwrap().ends_with("-series");
        match (truth.is_null() || few, &leaks[..]) {
            (true, []) => {
                let told = found.diagnostics.iter().find(|found| found.code.name() == "allocated-grows");
                assert!(told.is_none(), "{name}: {told:?}");
                // The batches of one story grow until memory runs out.
                assert_eq!(found.devices.iter().any(|device| device.sizes_grow), path.ends_with("oom.pkl"), "{name}");
                clean += 1;
            }
            (false, [(device, leak)]) => {
                let [function, file] = ["function", "file"].map(|key| truth[key].as_str().unwrap());
                let expected: Vec<_> = truth["lines"].as_array().unwrap().iter().map(|l| l["line"].as_u64()).collect();
                let lines = lines(leak, function, file);
                assert_eq!(lines.into_iter().map(Some).collect::<Vec<_>>(), expected, "{name}");
                assert_eq!(leak.bytes_per_step, i128::from(truth["bytes_per_step"].as_i64().unwrap()), "{name}");
                assert_eq!(leak.blocks_per_step(), truth["blocks_per_step"].to_string(), "{name}");
                assert_eq!((leak.end.bytes, leak.end.blocks), {
                    (truth["bytes"].as_u64().unwrap(), truth["blocks"].as_u64().unwrap())
                });
                assert_eq!(leak.grew, leak.judged, "{name}");
                assert_eq!(device.points.len() as u64, truth["steps"].as_u64().unwrap(), "{name}");
                leaking += 1;
            }
            (_, leaks) => panic!("{name}: {leaks:#?}, expected {truth}"),
        }
        told += usize::from(verdict(&found) != Verdict::Inconclusive);
    }
    assert!(leaking >= 4 && clean >= 40 && told >= 14, "{leaking} leaking, {clean} clean, {told} with an answer");
}

/// The same story has the same leak whether its steps have names or not.
#[test]
fn steps_are_found_without_names() {
    let profiled = FoundBy::Named("ProfilerStep#*".to_owned());
    for (named, plain, how) in [("drip", "drip-plain", by_optimizers(1)), ("cache", "cache-plain", profiled)] {
        let of = |name: &str| search(&fixtures::folder().join(format!("{name}.pkl")), &LeakOptions::default());
        let (named, plain) = (of(named), of(plain));
        assert_eq!(named.devices[0].how, Some(how));
        assert!(matches!(plain.devices[0].how, Some(FoundBy::Recurring(_))), "{:?}", plain.devices[0].how);
        assert_eq!(named.devices[0].points.len(), plain.devices[0].points.len());
        let leaked = |search: &Search| search.leaks().map(|(_, leak)| leak.bytes_per_step).collect::<Vec<_>>();
        assert_eq!(leaked(&named), leaked(&plain));
    }
}

fn folder(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fixtures::snapshots().into_iter().filter(|path| path.parent().unwrap().ends_with(name)).collect();
    files.sort();
    assert!(files.len() >= 3, "{name}");
    files
}

#[test]
fn a_series_shows_what_grows() {
    let files = folder("leak-series");
    let truth = truth(&fixtures::folder().join("leak-series.json"));
    let found = series(files.iter().map(|path| at_end(path)), &LeakOptions::default());
    let [device] = &found.devices[..] else { panic!() };
    let [leak] = &device.leaks[..] else { panic!("{:#?}", device.leaks) };
    let last = &truth["step-300"]["leak"];
    assert_eq!(leak.bytes_per_step, i128::from(last["growth"]["bytes"].as_i64().unwrap()));
    assert_eq!(leak.blocks, 2 * i128::from(last["growth"]["blocks"].as_i64().unwrap()));
    assert_eq!(leak.end.bytes, last["bytes"].as_u64().unwrap());
    assert_eq!(lines(leak, last["function"].as_str().unwrap(), "train.py"), [30, 31]);
    assert_eq!((leak.grew, leak.judged), (2, 2));
    // Nothing else grows, so the totals grow by as much.
    assert_eq!(device.growth.allocated, Some(leak.bytes_per_step));
    assert_eq!(verdict(&found), Verdict::Regression);
    // As much as that is agreed to.
    assert_eq!(judge_leaks(&found, 870_400, false).verdict, Verdict::Pass);
    assert_eq!(judge_leaks(&found, 870_399, false).verdict, Verdict::Regression);
    // The limit on what is worth telling.
    let least = LeakOptions { min_growth: Some(2 * 870_400 + 1), ..LeakOptions::default() };
    assert_eq!(verdict(&series(files.iter().map(|path| at_end(path)), &least)), Verdict::Pass);

    let found = series(folder("no-leak-series").iter().map(|path| at_end(path)), &LeakOptions::default());
    assert_eq!((found.leaks().count(), verdict(&found)), (0, Verdict::Pass));
}

#[test]
fn a_pool_that_grows_is_a_leak_of_its_own() {
    let files = folder("fragmentation-series");
    let found = series(files.iter().map(|path| at_end(path)), &LeakOptions::default());
    let [leak] = &found.devices[0].leaks[..] else { panic!("{:#?}", found.devices[0].leaks) };
    assert_eq!((leak.metric, &*leak.label), (LeakMetric::Fragmentation, "<fragmentation>"));
    assert_eq!((leak.grew, leak.judged, leak.end.blocks), (2, 2, 0));
    let growth = found.devices[0].growth;
    assert_eq!((growth.allocated, growth.reserved), (Some(0), growth.fragmentation));
    assert_eq!(growth.fragmentation, Some(leak.bytes_per_step));
    assert_eq!(verdict(&found), Verdict::Regression);
    let codes: Vec<_> = found.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
    assert!(codes.contains(&"fragmentation-grows"), "{codes:?}");
    // A leak is not called so.
    let found = series(folder("leak-series").iter().map(|path| at_end(path)), &LeakOptions::default());
    assert!(found.leaks().all(|(_, leak)| leak.metric == LeakMetric::Allocated));
    assert!(found.diagnostics.iter().all(|diagnostic| diagnostic.code.name() != "fragmentation-grows"));
}

/// What a search tells, but for the file.
fn told(search: &Search) -> Vec<String> {
    let mut told: Vec<String> = search.diagnostics.iter().map(|found| found.message.clone()).collect();
    for device in &search.devices {
        told.push(format!("{:?} {:?} {:?}", device.how, device.growth, device.unclear));
        told.push(format!("{:?}", device.grows_most));
        told.extend(device.points.iter().map(|point| format!("{point:?}")));
        let leaks = device.leaks.iter();
        told.extend(leaks.map(|leak| format!("{:?}", (&leak.label, &leak.key, leak.bytes, leak.blocks, leak.end))));
    }
    told
}

#[test]
fn a_saved_profile_has_the_steps_of_its_snapshot() {
    let mut with_steps = 0;
    let fixtures = fixtures::snapshots();
    for path in fixtures.iter().filter(|path| path.parent().unwrap().ends_with("fixtures")) {
        for group_by in [GroupBy::Stack, GroupBy::Line, GroupBy::Frames] {
            let options = by(group_by);
            let read = |bytes: &[u8]| profile::read(bytes, "x", options.reading()).unwrap();
            let live = read(&std::fs::read(path).unwrap());
            let saved = read(text_of(&live, &[]).unwrap().as_bytes());
            let [expected, found] = [live, saved].map(|profile| leak::search(&profile, &options));
            for (found, expected) in told(&found).into_iter().zip(told(&expected)) {
                assert_eq!(found, expected, "{} by {group_by}", path.display());
            }
            assert_eq!(told(&found).len(), told(&expected).len(), "{} by {group_by}", path.display());
            with_steps += expected.devices.iter().filter(|device| device.unclear.is_none()).count();
        }
    }
    assert!(with_steps >= 9, "{with_steps}");
}

/// Training for two or three steps, graphs, generation: none of them leaks.
#[test]
fn recordings_raise_no_alarm() {
    for path in fixtures::recorded().iter().filter(|path| !path.parent().unwrap().ends_with("corners")) {
        // In some of them memory ran out.
        let options = LeakOptions { allow_oom: true, ..LeakOptions::default() };
        let found = search(path, &options);
        assert_eq!(found.leaks().count(), 0, "{}: {:#?}", path.display(), found.devices);
        assert_ne!(verdict(&found), Verdict::Regression);
    }
}

/// Steps with names, each of which does some work and then what `each` adds.
fn steps(count: usize, mut each: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::default();
    for step in 0..count {
        let name = format!("ProfilerStep#{step}");
        program.mark("START", &name);
        program.work();
        each(&mut program, step);
        program.mark("END", &name);
    }
    program
}

fn only_device(search: &Search) -> &DeviceLeaks {
    let [device] = &search.devices[..] else { panic!("{:#?}", search.devices) };
    device
}

fn leaks(program: &Program) -> Vec<(String, i128)> {
    let search = program.search(&LeakOptions::default());
    let device = only_device(&search);
    assert_eq!(device.unclear, None);
    device.leaks.iter().map(|leak| (leak.label.clone(), leak.bytes_per_step)).collect()
}

#[test]
fn what_lives_for_some_steps_is_no_leak() {
    // The last loss is kept until the next one is there.
    let previous = steps(9, |program, step| {
        program.alloc(format!("loss {step}"), "train:30", 512);
        if step > 0 {
            program.free(&format!("loss {}", step - 1));
        }
    });
    assert_eq!(leaks(&previous), []);
    // A window of four.
    let window = steps(14, |program, step| {
        program.alloc(format!("metric {step}"), "train:30", 512);
        if step >= 4 {
            program.free(&format!("metric {}", step - 4));
        }
    });
    assert_eq!(leaks(&window), []);
    // A list that is cleared every five steps.
    let cleared = steps(14, |program, step| {
        program.alloc(format!("loss {step}"), "train:30", 512);
        if step % 5 == 4 {
            (step - 4..=step).for_each(|step| program.free(&format!("loss {step}")));
        }
    });
    assert_eq!(leaks(&cleared), []);
}

#[test]
fn what_lives_too_long_for_the_steps_is_not_judged() {
    let program = steps(7, |program, step| {
        program.alloc(format!("metric {step}"), "train:30", 512);
        match step {
            1 => program.alloc("other", "train:30", 512),
            // The metrics may go after four steps as well.
            5 => program.free("other"),
            _ => {}
        }
    });
    let search = program.search(&LeakOptions::default());
    assert_eq!(verdict(&search), Verdict::Inconclusive);
    let unclear = only_device(&search).unclear.as_ref().unwrap();
    assert!(unclear.reason.contains("train (job.py:30) leaves blocks behind that live for some steps"), "{unclear:?}");
}

/// Steps that each train one more of the parameters, whose state a function of the optimizer makes.
fn state_made_in(function: &str) -> Program {
    steps(9, |program, step| {
        let frame = format!("/venv/torch/optim/adamw.py:{function}:140");
        program.alloc_under(format!("state {step}"), &[&frame, "/work/job.py:train:30"], 4096);
    })
}

#[test]
fn the_state_of_an_optimizer_is_no_leak() {
    assert_eq!(leaks(&state_made_in("_init_group")), []);
    assert_eq!(leaks(&state_made_in("step")).len(), 1);
}

#[test]
fn what_starts_late_or_stops_is_no_leak() {
    let warm_up = steps(12, |program, step| {
        if step < 3 {
            program.alloc("state", "optimizer:30", 1024);
        }
    });
    assert_eq!(leaks(&warm_up), []);
    // Nearly every step, but no longer.
    let stopped = steps(20, |program, step| {
        if step < 17 {
            program.alloc("cache", "lookup:30", 1024);
        }
    });
    assert_eq!(leaks(&stopped), []);
    let last = steps(12, |program, step| {
        if step == 11 {
            program.alloc("gradient", "train:30", 1024);
        }
    });
    assert_eq!(leaks(&last), []);
}

#[test]
fn a_leak_may_miss_a_step() {
    let nearly = |program: &mut Program, step: usize| {
        if step % 6 != 2 {
            program.alloc("leak", "train:30", 2048);
        }
    };
    // Steps 1 to 18 of 0 to 19 are usable; 2, 8 and 14 of them leave nothing.
    let search = steps(20, nearly).search(&LeakOptions::default());
    let [leak] = &only_device(&search).leaks[..] else { panic!() };
    assert_eq!((leak.grew, leak.judged, leak.bytes), (15, 18, 15 * 2048));
    assert_eq!(leak.bytes_per_step, 1707);
    assert_eq!(leak.blocks_per_step(), "0.8");
    let every = LeakOptions { min_share: Some(0.9), ..LeakOptions::default() };
    assert_eq!(steps(20, nearly).search(&every).leaks().count(), 0);
    let sizes = |program: &mut Program, step: usize| {
        if step.is_multiple_of(2) {
            program.alloc("leak", "train:30", 512 * (1 + step as u64 % 4));
        }
    };
    assert_eq!(leaks(&steps(20, sizes)), []);
    let half = LeakOptions { min_share: Some(0.5), ..LeakOptions::default() };
    assert_eq!(steps(20, sizes).search(&half).leaks().count(), 1);
}

#[test]
fn several_leaks_are_told_apart() {
    let program = steps(8, |program, _| {
        program.alloc("x", "log:30", 512);
        program.alloc("y", "train:40", 4096);
        program.alloc("z", "train:41", 512);
    });
    assert_eq!(leaks(&program), [("train (job.py:40)".to_owned(), 4608), ("log (job.py:30)".to_owned(), 512)]);
    let search = program.search(&LeakOptions::default());
    assert_eq!(only_device(&search).leaks[0].also, ["train (job.py:41)"]);
    // Small leaks are left out when asked.
    let large = LeakOptions { min_growth: Some(10_000), ..LeakOptions::default() };
    assert_eq!(program.search(&large).leaks().count(), 1);
    // By line they are three.
    assert_eq!(program.search(&by(GroupBy::Line)).leaks().count(), 3);
}

#[test]
fn too_few_steps_are_inconclusive() {
    let leaking =
        |count| steps(count, |program, _| program.alloc("leak", "train:30", 512)).search(&LeakOptions::default());
    for count in 1..5 {
        let found = leaking(count);
        assert_eq!((found.leaks().count(), verdict(&found)), (0, Verdict::Inconclusive), "{count} steps");
    }
    assert_eq!((leaking(5).leaks().count(), verdict(&leaking(5))), (1, Verdict::Regression));
    // More of them are warm-up than there are.
    let skip = LeakOptions { skip: Some(9), ..LeakOptions::default() };
    let found = steps(8, |program, _| program.alloc("leak", "train:30", 512)).search(&skip);
    assert_eq!(verdict(&found), Verdict::Inconclusive);
}

/// A program of steps that keep these numbers of bytes.
fn keeping(each: &[u64]) -> Profile {
    keeping_until(each, false)
}

/// The same, perhaps only until all steps are over.
fn keeping_until(each: &[u64], frees: bool) -> Profile {
    let mut program = steps(each.len(), |program, step| match each[step] {
        0 => {}
        bytes => program.alloc(format!("kept {step}"), "train:30", bytes),
    });
    if frees {
        (0..each.len()).for_each(|step| program.free(&format!("kept {step}")));
    }
    profile::read(&*program.snapshot(), "snapshot.pkl", ReadOptions::default()).unwrap()
}

/// Three steps are too few to find a leak in one recording, and what they leave behind is below every limit.
#[test]
fn steps_that_leave_more_behind_than_before_are_told() {
    let each = |bytes: &str| {
        vec![format!(
            "each of 2 steps of the after leaves {bytes} more behind than that of the before: a leak, if more steps go on like this"
        )]
    };
    for (before, after, expected) in [
        ([0; 3], [512; 3], each("512 B")),
        ([512; 3], [2048; 3], each("1.50 KiB")),
        // The blocks gain 512 B and 1 KiB, as requests are rounded up.
        ([100, 500, 100], [700, 1100, 700], each("600 B")),
        // Larger requests, and no larger blocks; or the other way around.
        ([100; 3], [400; 3], vec![]),
        ([500, 100, 500], [550, 600, 550], each("512 B")),
        // No step leaves more than before, only the first does, or sizes follow the input.
        ([512; 3], [512; 3], vec![]),
        ([2048; 3], [512; 3], vec![]),
        ([0; 3], [512, 0, 0], vec![]),
        ([0; 3], [512, 1024, 512], vec![]),
    ] {
        let diff = diff::compare(keeping(&before), keeping(&after), DiffOptions::default());
        let told = diff.diagnostics.iter().filter(|found| found.code == Code::StepsLeaveMore);
        let told: Vec<String> = told.map(|found| found.message.clone()).collect();
        assert_eq!(told, expected, "{before:?} {after:?}");
    }
    // A list of the function that trains is gone once it returns.
    let diff = diff::compare(keeping(&[0; 3]), keeping_until(&[512; 3], true), DiffOptions::default());
    let told = diff.diagnostics.iter().find(|found| found.code == Code::StepsLeaveMore);
    let expected =
        "each of 2 steps of the after leaves 512 B more behind than that of the before: it is held until after them";
    assert_eq!(told.map(|found| &*found.message), Some(expected));
    // What the first step leaves behind may show only when the second one replaces other memory.
    for (after, expected) in [
        (&[0, 512, 512, 512], "each of the last 2 of 3 steps of the after leaves 512 B"),
        (&[0, 512, 0, 512], ""),
        (&[0, 0, 512, 512], ""),
    ] {
        let diff = diff::compare(keeping(&[0; 4]), keeping(after), DiffOptions::default());
        let told = diff.diagnostics.iter().find(|found| found.code == Code::StepsLeaveMore);
        let told = told.map(|found| found.message.clone()).unwrap_or_default();
        assert!(told.starts_with(expected) && told.is_empty() == expected.is_empty(), "{after:?}: {told}");
    }
}

#[test]
fn steps_go_by_names_that_are_asked_for() {
    let mut program = Program::default();
    for step in 0..9 {
        program.metadata = format!("{{\"batch\": {step}}}");
        program.work();
        program.alloc("leak", "train:30", 512);
    }
    let named =
        |glob: &str| LeakOptions { steps: WantedSteps::Named(Pattern::glob(glob).unwrap()), ..LeakOptions::default() };
    let found = program.search(&named("*batch*"));
    assert_eq!(only_device(&found).points.len(), 9);
    assert_eq!(only_device(&found).points[3].name.to_string(), "{\"batch\": 3}");
    assert_eq!(found.leaks().next().map(|(_, leak)| (leak.bytes_per_step, leak.judged)), Some((512, 7)));
    // A name that does not occur is answered with those that do.
    let found = program.search(&named("epoch*"));
    let why = only_device(&found).unclear.clone().unwrap().reason;
    assert!(why.contains("'epoch*'") && why.contains("{\"batch\": 0}"), "{why}");
    assert_eq!(verdict(&found), Verdict::Inconclusive);
    // Equal parts.
    let windows = LeakOptions { steps: WantedSteps::Windows(6), ..LeakOptions::default() };
    let found = program.search(&windows);
    assert_eq!((only_device(&found).points.len(), found.leaks().count()), (6, 1));
}

/// Steps of at least this many calls of optimizers.
fn by_optimizers(count: usize) -> FoundBy {
    FoundBy::Optimizers(CallsOfStep { count, may_be_more: true })
}

/// Steps of a model that call two optimizers at their end, in this order. Only that of AdamW allocates.
fn optimizers_in_a_row(count: usize, optimizers: [&str; 2]) -> Program {
    let mut program = Program::default();
    for _ in 0..count {
        program.alloc("x", "forward:10", 512 * 40);
        program.alloc("y", "forward:11", 512 * 30);
        program.free("y");
        program.free("x");
        for optimizer in optimizers {
            program.mark("START", optimizer);
            if optimizer.contains("AdamW") {
                program.alloc("z", "adamw:3", 512);
                program.free("z");
            }
            program.mark("END", optimizer);
        }
        program.alloc("leak", "train:30", 2048);
    }
    program
}

#[test]
fn optimizers_of_different_names_are_of_one_step() {
    let [sgd, adamw] = ["Optimizer.step#SGD.step", "Optimizer.step#AdamW.step"];
    for optimizers in [[sgd, adamw], [adamw, sgd]] {
        let search = optimizers_in_a_row(10, optimizers).search(&LeakOptions::default());
        let device = only_device(&search);
        assert_eq!(device.points.len(), 10);
        assert_eq!(device.how, Some(by_optimizers(2)));
        let [leak] = &device.leaks[..] else { panic!("{:#?}", device.leaks) };
        assert_eq!((leak.bytes_per_step, leak.grew, leak.judged), (2048, 8, 8));
        // Three steps are too few, although six calls would be enough.
        let search = optimizers_in_a_row(3, optimizers).search(&LeakOptions::default());
        assert_eq!((only_device(&search).points.len(), verdict(&search)), (3, Verdict::Inconclusive));
    }
}

/// Steps that call optimizers of one class in turn, which allocate to clip gradients and to update or do not, and keep 2 KiB. Every
/// fourth one is followed by validation, which allocates on more lines than the rest.
fn optimizers_in_a_loop(count: usize, optimizers: usize, allocate: bool) -> Program {
    let mut program = Program::default();
    let backward = ["/usr/lib/torch/autograd/__init__.py:backward:374", "/work/job.py:train:12"];
    for step in 0..count {
        program.alloc("x", "forward:10", 512 * 40);
        program.alloc_under("y", &backward, 512 * 30);
        program.free("y");
        program.free("x");
        program.alloc("leak", "train:13", 2048);
        for _ in 0..optimizers {
            let blocks = if allocate { &["z"][..] } else { &[] };
            for block in blocks {
                program.alloc(*block, "clip:14", 512);
                program.free(block);
            }
            program.mark("START", "Optimizer.step#Adam.step");
            for block in blocks {
                program.alloc_under(*block, &["/usr/lib/torch/optim/adam.py:step:791", "/work/job.py:train:15"], 512);
                program.free(block);
            }
            program.mark("END", "Optimizer.step#Adam.step");
            program.mark("START", "Optimizer.zero_grad#Adam.zero_grad");
            program.mark("END", "Optimizer.zero_grad#Adam.zero_grad");
        }
        for line in (20..32).filter(|_| step % 4 == 3) {
            program.alloc("score", &format!("validate:{line}"), 1024);
            program.free("score");
        }
    }
    program
}

#[test]
fn a_step_has_a_backward_pass_and_may_have_validation() {
    for (optimizers, allocate) in [(1, true), (4, true), (4, false), (10, true)] {
        let search = optimizers_in_a_loop(24, optimizers, allocate).search(&LeakOptions::default());
        let device = only_device(&search);
        assert_eq!((device.how.clone(), device.points.len()), (Some(by_optimizers(optimizers)), 24));
        let [leak] = &device.leaks[..] else { panic!("{:#?}", device.leaks) };
        assert_eq!((leak.bytes_per_step, leak.grew, leak.judged), (2048, 22, 22), "{optimizers}");
    }
}

type NameOfStep = fn(usize) -> String;

/// Steps of this name that replay a graph. Every fourth keeps a block.
fn replays(name: NameOfStep) -> Program {
    let mut program = Program::default();
    for step in 0..40 {
        program.mark("START", &name(step));
        program.mark("START", "step of the data");
        program.mark("END", "step of the data");
        if step % 4 == 3 {
            program.alloc(format!("kept {step}"), "train:30", 4096);
        }
        program.mark("END", &name(step));
    }
    program
}

#[test]
fn steps_that_allocate_nothing_count() {
    let named = |glob: &str| WantedSteps::Named(Pattern::glob(glob).unwrap());
    let by_name = |name: &str| FoundBy::Named(name.to_owned());
    let names: [(NameOfStep, WantedSteps, FoundBy); 4] = [
        (|step| format!("ProfilerStep#{step}"), WantedSteps::Any, by_name("ProfilerStep#*")),
        (|_| "Optimizer.step#SGD.step".to_owned(), WantedSteps::Any, by_optimizers(1)),
        (|_| "step".to_owned(), WantedSteps::Any, by_name("step")),
        (|_| "step".to_owned(), named("step*"), by_name("step*")),
    ];
    for (name, steps, how) in names {
        let found = replays(name).search(&LeakOptions { steps, ..LeakOptions::default() });
        let device = only_device(&found);
        assert_eq!((device.how.as_ref(), device.points.len()), (Some(&how), 40));
        let [leak] = &device.leaks[..] else { panic!("{how:?}: {:#?}", device.leaks) };
        assert_eq!((leak.bytes_per_step, leak.grew, leak.judged), (1024, 9, 38), "{how:?}");
    }
}

#[test]
fn a_window_that_was_full_before_the_recording_is_no_leak() {
    let mut program = Program::default();
    for step in 0..30 {
        program.alloc(format!("metric {step}"), "train:30", 2048);
    }
    // The recording begins here: what came before is known from the frees alone.
    program.events.clear();
    for step in 30..42 {
        program.work();
        program.alloc(format!("metric {step}"), "train:30", 2048);
        program.free(&format!("metric {}", step - 30));
    }
    let search = program.search(&LeakOptions::default());
    assert_eq!((search.leaks().count(), verdict(&search)), (0, Verdict::Pass), "{:#?}", search.devices);
}

/// Batches that are loaded ahead, before the first step, by the line that loads the others: as deep as there are steps.
fn loaded_ahead(loads: usize, frees: fn(usize) -> Range<usize>) -> Program {
    let mut program = Program::default();
    (0..6).for_each(|batch| program.alloc(format!("batch {batch}"), "train:30", 1 << 20));
    for step in 0..7 {
        let name = format!("ProfilerStep#{step}");
        program.mark("START", &name);
        program.work();
        (0..loads).for_each(|_| program.alloc(format!("batch {}", step + 6), "train:30", 1 << 20));
        frees(step).for_each(|batch| program.free(&format!("batch {batch}")));
        program.mark("END", &name);
    }
    program
}

#[test]
fn a_queue_that_was_filled_before_the_first_step_is_no_leak() {
    assert_eq!(leaks(&loaded_ahead(1, |step| step..step + 1)), []);
    assert_eq!(leaks(&loaded_ahead(1, |_| 0..0)).len(), 1);
    // Twice as many stay as go, or they go only once.
    assert_eq!(leaks(&loaded_ahead(2, |step| step..step + 1)).len(), 1);
    assert_eq!(leaks(&loaded_ahead(1, |step| if step == 3 { 0..6 } else { 0..0 })).len(), 1);
}

#[test]
fn what_is_freed_at_the_end_hides_no_leak() {
    let mut program = steps(12, |program, step| program.alloc(format!("leak {step}"), "train:30", 2048));
    program.free("leak 1");
    assert_eq!(leaks(&program).len(), 1);
}

/// A list of losses that is local to the function that trains: gone when the snapshot is written.
#[test]
fn what_is_given_up_when_the_program_ends_leaked_until_then() {
    let mut program = steps(12, |program, step| program.alloc(format!("loss {step}"), "train:30", 2048));
    for step in 0..12 {
        program.free(&format!("loss {step}"));
    }
    let search = program.search(&LeakOptions::default());
    let leaks: Vec<_> = search.leaks().collect();
    assert_eq!(leaks.len(), 1);
    let (_, leak) = leaks[0];
    assert_eq!((leak.label.as_str(), leak.bytes_per_step, leak.end.bytes), ("train (job.py:30)", 2048, 11 * 2048));
}

/// A loop that evaluates and keeps the graphs of all losses, until the function returns.
#[test]
fn what_a_loop_without_names_keeps_to_its_end_is_found() {
    let mut program = Program::default();
    for batch in 0..10 {
        program.work();
        for part in 0..9 {
            program.alloc(format!("{batch}.{part}"), &format!("evaluate:{}", 30 + part), 2048);
        }
    }
    for batch in 0..10 {
        (0..9).for_each(|part| program.free(&format!("{batch}.{part}")));
    }
    let search = program.search(&LeakOptions::default());
    assert_eq!((search.leaks().count(), verdict(&search)), (1, Verdict::Regression), "{:#?}", search.devices);
}

#[test]
fn growth_that_no_stack_shows_is_told() {
    let program = steps(12, |program, step| {
        program.alloc(format!("buffer {step}"), "append:30", 512 * (step as u64 + 1));
        if step > 0 {
            program.free(&format!("buffer {}", step - 1));
        }
    });
    let search = program.search(&LeakOptions::default());
    assert_eq!(search.leaks().count(), 0);
    let told = |search: &Search| search.diagnostics.iter().any(|found| found.code.name() == "allocated-grows");
    assert!(told(&search), "{:?}", search.diagnostics);
    assert_eq!(judge_leaks(&search, 0, true).verdict, Verdict::Inconclusive, "strict");
    let line = judge_leaks(&search, 0, false).headline().to_string();
    let named = "no stack leaves blocks behind in 10 steps, but allocated bytes grow; the stack that grew most is \
                 append (job.py:30)";
    assert_eq!(line, format!("INCONCLUSIVE leak: {named}"));
    assert!(!told(&steps(12, |_, _| ()).search(&LeakOptions::default())));
    // A buffer that is larger in every second step.
    let uneven = steps(12, |program, step| {
        program.alloc(format!("buffer {step}"), "append:30", 512 * (10 + step as u64 + step as u64 % 2 * 3));
        if step > 0 {
            program.free(&format!("buffer {}", step - 1));
        }
    });
    assert!(!told(&uneven.search(&LeakOptions::default())));
    // A buffer that grows in ten steps and is then made anew.
    let requests = steps(40, |program, step| {
        program.alloc(format!("buffer {step}"), "append:30", 512 * (step as u64 % 10 + 1));
        if step > 0 {
            program.free(&format!("buffer {}", step - 1));
        }
    });
    assert!(!told(&requests.search(&LeakOptions::default())));
    assert!(!told(&steps(12, |program, _| program.alloc("leak", "train:30", 2048)).search(&LeakOptions::default())));
}

/// A limit on leaks allows nothing that grows beside them.
#[test]
fn growth_beside_an_allowed_leak_is_not_decided() {
    let program = steps(12, |program, step| {
        program.alloc("leak", "train:30", 2048);
        program.alloc(format!("buffer {step}"), "append:30", 8192 * (step as u64 + 1));
        if step > 0 {
            program.free(&format!("buffer {}", step - 1));
        }
    });
    let search = program.search(&LeakOptions::default());
    let line = |limit: u64| judge_leaks(&search, limit, false).headline().to_string();
    assert_reads!(line(2048) => str!["INCONCLUSIVE leak: allocated bytes grow beside what leaks; the stack that grew most is append (job.py:30)"]);
    assert_reads!(line(2047) => str!["FAIL train (job.py:30) leaks 2.00 KiB per step, in 10 of 10 steps, allowed 2.00 KiB per step, 1 B too much"]);
    let told = search.diagnostics.iter().find(|found| found.code.name() == "allocated-grows").unwrap();
    assert_reads!(told.message => str!["allocated bytes grow by 72.00 KiB over 9 steps beside what leaks: a buffer may be replaced by a larger one each time, or memory may grow in too few steps to count. A series of snapshots shows what grows"]);
}

/// What a search tells of allocated bytes that grow.
fn growth_told(search: &Search) -> String {
    let told = search.diagnostics.iter().find(|found| found.code == Code::AllocatedGrows);
    told.map(|found| found.message.clone()).unwrap_or_default()
}

/// An allocation of each step of a range.
fn kept_in(count: usize, range: Range<usize>) -> Program {
    steps(count, |program, step| {
        if range.contains(&step) {
            program.alloc(format!("kept {step}"), "log:30", 2048);
        }
    })
}

/// A leak that begins after half of the steps, as one in a branch that a setting enables.
#[test]
fn what_begins_late_is_not_clear() {
    let search = kept_in(30, 16..30).search(&LeakOptions::default());
    assert_eq!((search.leaks().count(), verdict(&search)), (0, Verdict::Inconclusive));
    let line = judge_leaks(&search, 0, false).headline().to_string();
    assert_reads!(line => str!["INCONCLUSIVE leak: no stack leaves blocks behind steadily, at most in 13 of 28 steps, but allocated bytes grow; the stack that grew most is log (job.py:30)"]);
    assert_reads!(growth_told(&search) => str!["after 16 steps, log (job.py:30) leaves blocks behind in 13 of 13 steps, 2.00 KiB per step, before that in 0 of 15: a leak may have begun, or a cache may be filling. Record more steps, or judge only the later ones (--skip 16)"]);
    // The steps alone that it names.
    let skip = LeakOptions { skip: Some(16), ..LeakOptions::default() };
    assert_eq!(verdict(&kept_in(30, 16..30).search(&skip)), Verdict::Regression);
    // Beside a leak within its limit.
    let beside = steps(30, |program, step| {
        program.alloc("leak", "train:40", 4096);
        if step >= 16 {
            program.alloc(format!("kept {step}"), "log:30", 2048);
        }
    });
    let line = judge_leaks(&beside.search(&LeakOptions::default()), 4096, false).headline().to_string();
    assert_reads!(line => str!["INCONCLUSIVE leak: allocated bytes grow beside what leaks; the stack that grew most is log (job.py:30)"]);
    // Smaller than what counts.
    let large = LeakOptions { min_growth: Some(1 << 20), ..LeakOptions::default() };
    assert_eq!(verdict(&kept_in(30, 16..30).search(&large)), Verdict::Pass);
}

#[test]
fn what_fills_late_and_stops_is_no_leak() {
    // It stops, or two steps are not yet a course.
    for range in [16..26, 27..30] {
        let search = kept_in(30, range.clone()).search(&LeakOptions::default());
        assert_eq!((growth_told(&search), verdict(&search)), (String::new(), Verdict::Pass), "{range:?}");
    }
    // Each takes the place of a block of another line.
    let replaced = steps(30, |program, step| {
        program.alloc("leak", "train:40", 4096);
        program.alloc(format!("kept {step}"), if step < 16 { "fill:20" } else { "refill:30" }, 2048);
        if let Some(old) = step.checked_sub(16) {
            program.free(&format!("kept {old}"));
        }
    });
    let search = replaced.search(&LeakOptions::default());
    assert_eq!((growth_told(&search), judge_leaks(&search, 4096, false).verdict), (String::new(), Verdict::Pass));
    // A smaller one beside them that nothing is freed for.
    let beside = steps(30, |program, step| {
        program.alloc(format!("kept {step}"), if step < 16 { "fill:20" } else { "refill:30" }, 8192);
        if let Some(old) = step.checked_sub(16) {
            program.free(&format!("kept {old}"));
            program.alloc(format!("late {step}"), "log:31", 2048);
        }
    });
    let told = growth_told(&beside.search(&LeakOptions::default()));
    assert!(told.contains("log (job.py:31) leaves blocks behind"), "{told}");
    // Requests that keep a block per step, and of which the last is the longest.
    let mut request = Vec::new();
    let requests = steps(40, |program, step| {
        program.alloc(format!("key {step}"), "attend:30", 2048);
        if [6, 16, 21].contains(&step) {
            request.drain(..).for_each(|step| program.free(&format!("key {step}")));
        }
        request.push(step);
    });
    let search = requests.search(&LeakOptions::default());
    assert_eq!((growth_told(&search), verdict(&search)), (String::new(), Verdict::Pass));
}

/// Models are kept once per run of three batches: in a third of the steps.
#[test]
fn what_is_kept_once_in_several_steps_is_found() {
    let kept = |runs: &[usize], bytes: fn(usize) -> u64| {
        steps(24, |program, step| {
            if runs.contains(&step) {
                program.alloc(format!("model {step}"), "build:40", bytes(step));
            }
        })
    };
    let runs = [0, 3, 6, 9, 12, 15, 18, 21];
    let search = kept(&runs, |_| 64 * 1024).search(&LeakOptions::default());
    let [leak] = &only_device(&search).leaks[..] else { panic!("{:#?}", search.devices) };
    assert_eq!((leak.label.as_str(), leak.grew, leak.judged), ("build (job.py:40)", 7, 22));
    assert_eq!((leak.bytes, verdict(&search)), (7 * 64 * 1024, Verdict::Regression));
    // The 22 steps that count are seven periods and a part.
    assert_eq!((leak.bytes_per_step, leak.blocks_per_step()), (64 * 1024 / 3, "0.3".to_owned()));
    // The share that is asked for does not change the rate.
    let third = LeakOptions { min_share: Some(0.3), ..LeakOptions::default() };
    let found = kept(&runs, |_| 64 * 1024).search(&third);
    assert_eq!(only_device(&found).leaks[0].bytes_per_step, 64 * 1024 / 3);
    // Neither is one of them left out, nor are they of different sizes, nor do they stop.
    for other in [
        kept(&[0, 3, 6, 12, 15, 18, 21], |_| 64 * 1024),
        kept(&runs, |step| 64 * 1024 + 512 * step as u64),
        kept(&runs[..5], |_| 64 * 1024),
        kept(&[8, 16], |_| 64 * 1024),
    ] {
        assert_eq!(leaks(&other), []);
    }
    let search = kept(&runs, |step| 64 * 1024 + 512 * step as u64).search(&LeakOptions::default());
    let line = judge_leaks(&search, 0, false).headline().to_string();
    assert_reads!(line => str!["INCONCLUSIVE leak: no stack leaves blocks behind steadily, at most in 7 of 22 steps, but allocated bytes grow; the stack that grew most is build (job.py:40)"]);
    assert_eq!(verdict(&search), Verdict::Inconclusive);
    let line = |program: &Program, min_growth| {
        let options = LeakOptions { min_growth, ..LeakOptions::default() };
        judge_leaks(&program.search(&options), 0, false).headline().to_string()
    };
    assert_eq!(
        line(&kept(&[3, 4], |_| 64 * 1024), None),
        "PASS nothing leaks: no stack leaves blocks behind steadily, at most in 2 of 22 steps"
    );
    assert_eq!(
        line(&kept(&runs, |_| 64 * 1024), Some(1 << 20)),
        "PASS nothing leaks: no stack leaves 1.00 MiB behind in 22 steps"
    );
}

#[test]
fn what_is_built_up_is_no_step() {
    // Weights that are converted one by one, and then nothing else.
    let mut program = Program::default();
    for weight in 0..40 {
        program.alloc("wide", "load:5", 4096);
        program.alloc(format!("weight {weight}"), "load:6", 2048);
        program.free("wide");
    }
    let search = program.search(&LeakOptions::default());
    assert_eq!((search.leaks().count(), verdict(&search)), (0, Verdict::Inconclusive), "{:#?}", search.devices);
}

/// The mean of a leak in some steps is not the median slope of all, which is not other growth.
#[test]
fn growth_beside_leaks_is_that_of_the_rest() {
    let growth = |more: u64| {
        let program = steps(16, |program, step| {
            if step % 3 == 0 {
                program.alloc(format!("leak {step}"), "train:30", 4 << 20);
            }
            // A buffer that is replaced by a larger one.
            program.alloc(format!("buffer {step}"), "grow:40", 4096 + more * step as u64);
            if let Some(before) = step.checked_sub(1) {
                program.free(&format!("buffer {before}"));
            }
        });
        let search = program.search(&LeakOptions::default());
        let device = only_device(&search);
        assert_eq!(device.leaks.len(), 1);
        (device.growth.allocated, device.growth.beside_leaks)
    };
    assert_eq!(growth(0), (Some(1_398_101), Some(0)));
    assert_eq!(growth(65_536), (Some(1_463_637), Some(65_536)));
}

#[test]
fn memory_of_the_device_runs_out() {
    let program = steps(8, |program, _| program.alloc("leak", "train:30", 4096));
    let options =
        LeakOptions { device_memory: Some(DeviceMemory { bytes: 1 << 20, overhead: None }), ..LeakOptions::default() };
    let search = program.search(&options);
    let growth = only_device(&search).growth;
    assert_eq!(growth.allocated, Some(4096));
    // At the peak of the last step 7 leaks and what it works with are allocated.
    let peak: u64 = 7 * 4096 + 512 * 1000;
    assert_eq!(growth.runs_out_after, Some(((1_u64 << 20) - peak).div_ceil(4096)));
    assert_eq!(only_device(&program.search(&LeakOptions::default())).growth.runs_out_after, None);
}
